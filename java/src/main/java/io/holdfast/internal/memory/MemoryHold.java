package io.holdfast.internal.memory;

import io.holdfast.CallOutcome;
import io.holdfast.Hold;
import io.holdfast.LockLostException;
import io.holdfast.LockNotHeldException;
import io.holdfast.LossCause;
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

    /** Where the hold stands. */
    interface Place {
        void remove(MemoryHold hold);

        /** Whether the server has it now. */
        boolean leave(MemoryHold hold, MemoryRecord.End end);

        byte[] token(MemoryHold hold);
    }

    final MemoryRequest request;
    private final Place place;
    private final long fence;
    private final List<Consumer<? super Hold>> listeners = new ArrayList<>();
    private final long since = System.nanoTime();
    private final boolean renewed;
    /** Its maxHold, counted from its start; FOREVER: there is no limit. */
    private Duration limit;
    /** When it ends by itself, counted from its start; FOREVER: never. */
    private Duration end;

    /** Until when it was prolonged, counted from its start. */
    private Duration prolonged = Duration.ZERO;

    private Runnable timer = () -> {};
    private LossCause cause;
    /** A release keeps it until then, counted from its start. */
    private Duration atLeast = Duration.ZERO;

    /** Its caller released it, or handed it over. */
    private boolean released;

    private boolean ended;

    /** It only keeps the lock: its work has ended. */
    private boolean kept;

    private String note;

    /** Losing one is losing all. */
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

    /** A limit of its own counts from that of the outer hold. */
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

    /** It goes on for another client, with its note. */
    MemoryHold adopted(MemoryHold old) {
        note = old.note;
        return this;
    }

    boolean isKept() {
        return kept;
    }

    /** Sets the timer for its end. */
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

    /** Leaves those that it is joined with. */
    private Set<MemoryHold> part() {
        Set<MemoryHold> others = Set.copyOf(joined);
        others.forEach(other -> other.joined.remove(this));
        joined.clear();
        return others;
    }

    /** Makes holds belong together: losing one is losing all. */
    static void join(Collection<MemoryHold> all) {
        for (MemoryHold each : all) {
            each.joined.addAll(all);
            each.joined.remove(each);
        }
    }

    private void tell(Consumer<? super Hold> listener) {
        request.book().server.actions.execute(() -> listener.accept(this));
    }

    /** It is over, and not lost. */
    void end() {
        part();
        ended = true;
        place.remove(this);
    }

    /** Its caller does not want it. */
    void giveUp() {
        run(
                () -> {
                    released = true;
                    end();
                });
    }

    /** The caller has it, and the client is open. */
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

    /** Until it ends; zero if its timer is late. */
    Duration left() {
        Duration left = end.equals(FOREVER) ? FOREVER : end.minus(age());
        if (renewed && !released) { // what is kept or handed over is renewed no more
            Duration sure = request.lease().minusMillis(1);
            Duration asked = prolonged.minus(age());
            left = min(left, asked.compareTo(sure) > 0 ? asked : sure);
        }
        return left.isNegative() ? Duration.ZERO : left;
    }

    private static Duration min(Duration one, Duration other) {
        return one.compareTo(other) < 0 ? one : other;
    }

    /** It was neither released nor given away. */
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

    /** It lasts that long from now at least. */
    private void prolong(Duration least) {
        if (least.equals(FOREVER)) {
            return; // it does anyway
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

    /** Releases it, and reports how a call ended. */
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
                    if (most && !told) {
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

    /** Rounds it up to milliseconds. */
    static Duration checkLease(Duration lease) {
        Duration rounded = Duration.ofMillis(Millis.of(lease));
        if (rounded.compareTo(SHORTEST) < 0 || rounded.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(
                    "a lease takes 10 milliseconds to 10 years: " + lease);
        }
        return rounded;
    }

    /** For people to read. */
    @Override
    public String toString() {
        return "Hold[" + request.lock() + ", fence " + fence + "]";
    }
}
