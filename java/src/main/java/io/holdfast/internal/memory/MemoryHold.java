package io.holdfast.internal.memory;

import io.holdfast.CallOutcome;
import io.holdfast.Hold;
import io.holdfast.LockLostException;
import io.holdfast.LockNotHeldException;
import io.holdfast.LossCause;
import io.holdfast.Outcome;
import io.holdfast.internal.core.Millis;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** A hold in memory. The mutex of its server guards it. */
final class MemoryHold implements Hold {
    private static final Duration SHORTEST = Duration.ofMillis(10);
    private static final Duration LONGEST = Duration.ofDays(3650);

    /** The server's record of the lock, from which the hold is removed. */
    interface Place {
        void remove(MemoryHold hold);

        /** Records how a call ended; returns whether the server has the record now. */
        boolean leave(MemoryHold hold, MemoryRecord.End end);

        byte[] token(MemoryHold hold);
    }

    final MemoryRequest request;
    private final Place place;
    private final long fence;
    private final List<Consumer<? super Hold>> listeners = new ArrayList<>();
    private final long since = System.nanoTime();
    private final boolean renewed;
    /** The hold's maxHold, counted from its start; FOREVER: there is no limit. */
    private Duration limit;
    /** When the hold ends by itself, counted from its start; FOREVER: never. */
    private Duration end;

    /** The end to which the hold was prolonged, counted from its start. */
    private Duration prolonged = Duration.ZERO;

    private Runnable timer = () -> {};
    private LossCause cause;
    /** A release keeps the lock until then, counted from the start of the hold. */
    private Duration atLeast = Duration.ZERO;

    /** Whether the caller has released the hold or handed it over. */
    private boolean released;

    private boolean ended;

    /** Whether the hold only keeps the lock, after the end of its work. */
    private boolean kept;

    private String note;

    /** If one of these holds is lost, all are. */
    private final Set<MemoryHold> joined = new LinkedHashSet<>();

    MemoryHold(Place place, MemoryRequest request, long fence) {
        this.place = place;
        this.request = request;
        this.fence = fence;
        this.renewed = request.renewed() && !request.lease().equals(FOREVER);
        this.limit = request.options().maxHold();
        this.end = request.longest();
        this.note = request.options().note();
    }

    /** Nests in a hold, whose limit also bounds this one's. */
    void nestIn(MemoryHold outer) {
        note = outer.note;
        if (!limit.equals(FOREVER) && !outer.limit.equals(FOREVER)) {
            limit = min(limit, outer.limit.minus(outer.age()));
            end = min(end, limit);
        }
    }

    Duration age() {
        return Duration.ofNanos(System.nanoTime() - since);
    }

    private <T> T locked(Supplier<T> work) {
        return request.book().server.locked(work);
    }

    private void run(Runnable work) {
        request.book().server.run(work);
    }

    String note() {
        return note;
    }

    /** Takes the note of a hold, which goes on as this one for another client. */
    MemoryHold adopted(MemoryHold old) {
        note = old.note;
        return this;
    }

    boolean isKept() {
        return kept;
    }

    /** Sets the timer for the end of the hold. */
    void arm() {
        disarm();
        if (!end.equals(FOREVER)) {
            long nanos = TimeUnit.NANOSECONDS.convert(end.minus(age()));
            timer = request.book().server.after(nanos, this::expire);
        }
    }

    void disarm() {
        timer.run();
    }

    private void expire() {
        if (released) { // handed over, and not adopted
            end();
        } else {
            lose(LossCause.EXPIRED);
        }
    }

    void lose(LossCause why) {
        if (ended || cause != null) {
            return;
        }
        if (released) {
            end();
            return;
        }
        cause = why;
        request.book().counts.lost(why);
        request.book().counts.held(age());
        place.remove(this);
        listeners.forEach(this::tell);
        listeners.clear();
        part().forEach(other -> other.lose(why));
    }

    /** Leaves the holds that it is joined with, and returns them. */
    private Set<MemoryHold> part() {
        Set<MemoryHold> others = Set.copyOf(joined);
        others.forEach(other -> other.joined.remove(this));
        joined.clear();
        return others;
    }

    /** Joins holds: if one is lost, all are. */
    static void join(Collection<MemoryHold> all) {
        for (MemoryHold each : all) {
            each.joined.addAll(all);
            each.joined.remove(each);
        }
    }

    private void tell(Consumer<? super Hold> listener) {
        request.book().server.actions.execute(() -> listener.accept(this));
    }

    /** Ends the hold, which is not lost. */
    void end() {
        part();
        ended = true;
        place.remove(this);
    }

    /** Ends a hold that its caller does not want. */
    void giveUp() {
        run(
                () -> {
                    released = true;
                    end();
                });
    }

    /** Checks that the caller has the hold, and that the client is open. */
    private void checkHeld() {
        if (released) {
            throw new LockNotHeldException(this + " was released before");
        }
        request.book().checkOpen();
        if (cause != null) {
            throw lost(request.lock(), cause);
        }
    }

    @Override
    public long fence() {
        return fence;
    }

    @Override
    public Duration remaining() {
        return locked(
                () -> {
                    Duration left = isValid() ? left() : Duration.ZERO;
                    for (MemoryHold other : joined) {
                        left = min(left, other.left());
                    }
                    return left;
                });
    }

    /** Returns the time until the hold ends; zero if its timer is late. */
    Duration left() {
        Duration left = end.equals(FOREVER) ? FOREVER : end.minus(age());
        if (renewed && !released) { // a kept or handed-over hold is no longer renewed
            Duration sure = request.lease().minusMillis(1);
            Duration asked = prolonged.minus(age());
            left = min(left, asked.compareTo(sure) > 0 ? asked : sure);
        }
        return left.isNegative() ? Duration.ZERO : left;
    }

    private static Duration min(Duration one, Duration other) {
        return one.compareTo(other) < 0 ? one : other;
    }

    /** Whether the hold was neither released nor given away. */
    boolean isInHand() {
        return !released;
    }

    @Override
    public boolean isValid() {
        return locked(() -> !released && !ended && cause == null);
    }

    @Override
    public int votes() {
        return isValid() ? 1 : 0;
    }

    @Override
    public int masters() {
        return 1;
    }

    @Override
    public Optional<LossCause> lossCause() {
        return locked(() -> Optional.ofNullable(cause));
    }

    @Override
    public void onLost(Consumer<? super Hold> action) {
        Objects.requireNonNull(action, "action");
        run(
                () -> {
                    if (cause != null) {
                        tell(action);
                    } else {
                        listeners.add(action);
                    }
                });
    }

    @Override
    public void check() {
        run(this::checkHeld);
    }

    @Override
    public void renew() {
        run(
                () -> {
                    checkHeld();
                    prolong(request.lease());
                });
    }

    @Override
    public void extend(Duration duration) {
        checkLease(duration);
        run(
                () -> {
                    checkHeld();
                    prolong(left().equals(FOREVER) ? FOREVER : left().plus(duration));
                });
    }

    @Override
    public void keep(Duration duration) {
        if (duration.isZero()) {
            release();
            return;
        }
        if (duration.isNegative()) {
            throw new IllegalArgumentException("the duration must be positive: " + duration);
        }
        Duration lasting = duration.compareTo(SHORTEST) < 0 ? SHORTEST : duration;
        checkLease(lasting);
        run(
                () -> {
                    checkHeld();
                    part();
                    released = true;
                    this.kept = true;
                    request.book().counts.kept();
                    request.book().counts.held(age());
                    end = age().plus(lasting);
                    arm();
                });
    }

    @Override
    public void keepAtLeast(Duration duration) {
        Millis.upToLongest(duration);
        locked(() -> atLeast = duration);
    }

    /** Makes the hold last at least that long from now. */
    private void prolong(Duration least) {
        if (least.equals(FOREVER)) {
            return; // the hold never ends
        }
        Duration until = min(age().plus(least), limit);
        prolonged = until.compareTo(prolonged) > 0 ? until : prolonged;
        if (prolonged.compareTo(end) > 0) {
            end = prolonged;
            arm();
        }
    }

    @Override
    public void release() {
        run(
                () -> {
                    if (released) {
                        checkHeld();
                    }
                    Duration left = atLeast.minus(age());
                    if (isValid() && left.compareTo(Duration.ZERO) > 0) {
                        keep(left);
                        return;
                    }
                    released = true;
                    request.book().checkOpen();
                    if (cause != null) {
                        throw lost(request.lock(), cause);
                    }
                    request.book().counts.released();
                    request.book().counts.held(age());
                    end();
                });
    }

    /** Releases the hold, and reports how a call ended. */
    void finish(MemoryRecord.End said) {
        run(
                () -> {
                    if (released) {
                        checkHeld();
                    }
                    request.book().checkOpen();
                    boolean told = place.leave(this, said);
                    boolean ends = told || !said.keeps();
                    request.book()
                            .counts
                            .finished(
                                    ends
                                            ? CallOutcome.valueOf(said.state().name())
                                            : CallOutcome.UNKEPT);
                    boolean most = said.options().atMostOnce();
                    if (isValid() || !most) {
                        release();
                    }
                    released = true;
                    boolean made = said.state() != Outcome.State.RETRY; // or there is nothing to miss
                    if (most && made && !told) {
                        throw MemoryRecord.settled(request.lock());
                    }
                });
    }

    byte[] owner() {
        return ((java.nio.ByteBuffer) request.owner()).array().clone();
    }

    @Override
    public CompletableFuture<Void> releaseAsync() {
        try {
            release();
            return CompletableFuture.completedFuture(null);
        } catch (RuntimeException e) {
            return CompletableFuture.failedFuture(e);
        }
    }

    @Override
    public void close() {
        run(
                () -> {
                    if (!released) {
                        release();
                    }
                });
    }

    @Override
    public byte[] handOver() {
        return locked(
                () -> {
                    checkHeld();
                    part();
                    released = true;
                    request.book().counts.held(age());
                    if (renewed) {
                        end = min(age().plus(request.lease()), limit);
                        arm();
                    }
                    return place.token(this);
                });
    }

    static LockLostException lost(Object lock, LossCause cause) {
        return new LockLostException("a hold of " + lock + " was lost: " + cause, cause);
    }

    /** Checks a lease, and rounds it up to milliseconds. */
    static Duration checkLease(Duration lease) {
        Duration rounded = Duration.ofMillis(Millis.of(lease));
        if (rounded.compareTo(SHORTEST) < 0 || rounded.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(
                    "a lease takes 10 milliseconds to 10 years: " + lease);
        }
        return rounded;
    }

    /** Returns a text for people to read. */
    @Override
    public String toString() {
        return "Hold[" + request.lock() + ", fence " + fence + "]";
    }
}
