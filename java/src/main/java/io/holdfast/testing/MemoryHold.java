package io.holdfast.testing;

import io.holdfast.Hold;
import io.holdfast.LockNotHeldException;
import io.holdfast.LockOptions;
import io.holdfast.LossCause;
import java.nio.charset.StandardCharsets;
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
    private static final String TOKEN = "in-memory hold ";
    private static final Duration SHORTEST = Duration.ofMillis(10);
    private static final Duration LONGEST = Duration.ofDays(3650);

    final MemoryState state;
    final MemoryRequest request;
    final MemoryLock lock;
    private final long fence;
    private final List<Consumer<? super Hold>> listeners = new ArrayList<>();
    private final long since = System.nanoTime();
    private final boolean renewed;
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

    /** Losing one is losing all. */
    private final Set<MemoryHold> joined = new LinkedHashSet<>();

    MemoryHold(MemoryState state, MemoryRequest request, long fence) {
        this.state = state;
        this.request = request;
        this.lock = request.lock();
        this.fence = fence;
        this.renewed = request.renewed() && !request.lease().equals(FOREVER);
        this.end = request.longest();
        if (request.kept()) {
            request.client().kept.add(this);
        }
    }

    Duration age() {
        return Duration.ofNanos(System.nanoTime() - since);
    }

    private <T> T locked(Supplier<T> work) {
        return state.server.locked(work);
    }

    /** Sets the timer for its end. */
    void arm() {
        disarm();
        if (!end.equals(FOREVER)) {
            long nanos = TimeUnit.NANOSECONDS.convert(end.minus(age()));
            timer = state.server.after(nanos, this::expire);
        }
    }

    void disarm() {
        timer.run();
    }

    private void expire() {
        if (released) { // handed over, and nobody adopted it
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
        lock.client.counts.lost(why);
        lock.client.counts.held(age());
        state.remove(this);
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

    @Override
    public void join(Collection<? extends Hold> others) {
        locked(
                () -> {
                    Set<MemoryHold> all = new LinkedHashSet<>(Set.of(this));
                    for (Hold each : others) {
                        if (!(each instanceof MemoryHold hold)
                                || hold.lock.client != lock.client
                                || !all.add(hold)) {
                            throw new IllegalArgumentException(
                                    each + " is there twice, or not of the same client");
                        }
                    }
                    for (MemoryHold each : all) {
                        each.checkHeld();
                        if (!each.joined.isEmpty()) {
                            throw new IllegalArgumentException(
                                    each + " is joined with others already");
                        }
                    }
                    for (MemoryHold each : all) {
                        each.joined.addAll(all);
                        each.joined.remove(each);
                    }
                    return null;
                });
    }

    private void tell(Consumer<? super Hold> listener) {
        state.server.actions.execute(() -> listener.accept(this));
    }

    /** It is over, and not lost. */
    void end() {
        part();
        ended = true;
        state.remove(this);
    }

    /** Its caller does not want it. */
    void giveUp() {
        locked(
                () -> {
                    lock.client.kept.remove(this);
                    released = true;
                    end();
                    return null;
                });
    }

    /** The caller has it, and the client is open. */
    private void checkHeld() {
        if (released) {
            throw new LockNotHeldException(this + " was released before");
        }
        lock.client.checkOpen();
        if (cause != null) {
            throw lock.lost(cause);
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

    /** Nobody released it, or gave it away. */
    boolean isInHand() {
        return !released;
    }

    @Override
    public boolean isValid() {
        return locked(() -> !released && !ended && cause == null);
    }

    @Override
    public Optional<LossCause> lossCause() {
        return locked(() -> Optional.ofNullable(cause));
    }

    @Override
    public void onLost(Consumer<? super Hold> action) {
        Objects.requireNonNull(action, "action");
        locked(
                () -> {
                    if (cause != null) {
                        tell(action);
                    } else {
                        listeners.add(action);
                    }
                    return null;
                });
    }

    @Override
    public void check() {
        locked(
                () -> {
                    checkHeld();
                    return null;
                });
    }

    @Override
    public void renew() {
        locked(
                () -> {
                    checkHeld();
                    prolong(request.lease());
                    return null;
                });
    }

    @Override
    public void extend(Duration duration) {
        MemoryClient.checkLease(duration);
        locked(
                () -> {
                    checkHeld();
                    prolong(left().equals(FOREVER) ? FOREVER : left().plus(duration));
                    return null;
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
        Duration kept = duration.compareTo(SHORTEST) < 0 ? SHORTEST : duration;
        MemoryClient.checkLease(kept);
        locked(
                () -> {
                    checkHeld();
                    part();
                    released = true;
                    lock.client.holds.remove(this);
                    end = age().plus(kept);
                    arm();
                    return null;
                });
    }

    @Override
    public void keepAtLeast(Duration duration) {
        if (duration.isNegative() || duration.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(
                    "the duration must be from zero to 10 years: " + duration);
        }
        locked(() -> atLeast = duration);
    }

    /** It lasts so long from now at least. */
    private void prolong(Duration least) {
        if (least.equals(FOREVER)) {
            return; // it does anyway
        }
        Duration until = age().plus(least);
        prolonged = until.compareTo(prolonged) > 0 ? until : prolonged;
        if (prolonged.compareTo(end) > 0) {
            end = prolonged;
            arm();
        }
    }

    @Override
    public void release() {
        locked(
                () -> {
                    if (released) {
                        checkHeld();
                    }
                    Duration left = atLeast.minus(age());
                    if (isValid() && left.compareTo(Duration.ZERO) > 0) {
                        keep(left);
                        return null;
                    }
                    released = true;
                    lock.client.checkOpen();
                    if (cause != null) {
                        throw lock.lost(cause);
                    }
                    lock.client.counts.released();
                    lock.client.counts.held(age());
                    end();
                    return null;
                });
    }

    /** Releases it, and leaves a result. */
    void finish(byte[] result, Duration ttl) {
        locked(
                () -> {
                    if (isValid()) {
                        lock.client.checkOpen();
                        state.leave(result, ttl);
                    }
                    release();
                    return null;
                });
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
        locked(
                () -> {
                    if (!released) {
                        release();
                    }
                    return null;
                });
    }

    @Override
    public byte[] handOver() {
        return locked(
                () -> {
                    checkHeld();
                    part();
                    released = true;
                    lock.client.holds.remove(this);
                    lock.client.counts.held(age());
                    if (renewed) {
                        end = age().plus(request.lease());
                        arm();
                    }
                    String token = TOKEN + state.server.nextSerial();
                    state.server.handedOver.put(token, this);
                    return token.getBytes(StandardCharsets.UTF_8);
                });
    }

    static Hold adopt(MemoryLock lock, String token) {
        if (!token.startsWith(TOKEN)) {
            throw new IllegalArgumentException("these bytes are no token of a hold in memory");
        }
        MemoryHold old = lock.client.server.handedOver.get(token);
        if (old != null && old.lock.shares != lock.shares) {
            throw new IllegalArgumentException("that is the token of a hold of the other mode");
        }
        lock.client.server.handedOver.remove(token);
        if (old == null || old.ended || old.state != lock.state()) {
            throw lock.lost(LossCause.GONE);
        }
        LockOptions options = lock.options;
        MemoryRequest request =
                new MemoryRequest(
                        lock.client,
                        lock,
                        old.request.owner(),
                        null,
                        false,
                        options.lease(),
                        options.renew());
        MemoryHold adopted = new MemoryHold(old.state, request, old.fence);
        old.state.begin(adopted);
        old.end();
        return adopted;
    }

    /** For people to read. */
    @Override
    public String toString() {
        return "Hold[" + lock + ", fence " + fence + "]";
    }
}
