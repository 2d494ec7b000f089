package io.holdfast.internal.memory;

import io.holdfast.CallOutcome;
import io.holdfast.LimitDiffersException;
import io.holdfast.LockHolder;
import io.holdfast.LockInfo;
import io.holdfast.LockLimit;
import io.holdfast.LockNotHeldException;
import io.holdfast.LockTimeoutException;
import io.holdfast.LockWaiter;
import io.holdfast.LossCause;
import io.holdfast.OnceOptions;
import io.holdfast.Outcome;
import io.holdfast.RefusalCause;
import io.holdfast.internal.core.Bytes;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/** The server's record of one lock. The mutex guards it. */
final class MemoryState implements MemoryHold.Place {
    private static final int VIEW_MAX = 100;

    private static final String TOKEN = "in-memory hold ";

    private final MemoryServer server;
    /** All holds, oldest first. */
    final List<MemoryHold> holds = new ArrayList<>();

    /** The holds for unlock() to release, oldest first, including lost ones. */
    final List<MemoryHold> kept = new ArrayList<>();

    final List<MemoryWaiter> queue = new ArrayList<>();

    /** Holds by their tokens. */
    private final Map<String, MemoryHold> handedOver = new HashMap<>();

    /** The record of the call that is made once, or null. */
    private MemoryRecord record;

    private Optional<LockLimit> limit = Optional.empty();

    MemoryState(MemoryServer server) {
        this.server = server;
    }

    /** Returns the oldest exclusive hold; null if the lock is free or held shared. */
    MemoryHold exclusive() {
        return holds.stream().filter(hold -> !hold.request.shares()).findFirst().orElse(null);
    }

    /** Whether the owner would wait for its own shared hold. */
    boolean deadlocks(MemoryRequest request) {
        MemoryHold own = exclusive() == null ? own(request) : null;
        return own != null
                && (!request.shares() || request.weight() > own.request.weight());
    }

    /** Returns a hold that the owner still has through this client; null if there is none. */
    private MemoryHold own(MemoryRequest request) {
        return holds.stream()
                .filter(hold -> request.nestsIn(hold.request) && hold.isInHand())
                .filter(hold -> hold.request.book() == request.book())
                .findFirst()
                .orElse(null);
    }

    /** Returns the hold in which the request nests; null if there is none. */
    private MemoryHold outer(MemoryRequest request) {
        MemoryHold exclusive = exclusive();
        if (exclusive == null) {
            return request.shares() ? own(request) : null;
        }
        boolean nests =
                request.nestsIn(exclusive.request)
                        && (request.isNamed() || holds.stream().anyMatch(MemoryHold::isInHand));
        return nests ? exclusive : null;
    }

    /** Grants a hold; null: others have the lock, or arrived before. */
    MemoryHold grant(MemoryRequest request, boolean isFirst) {
        MemoryHold outer = outer(request);
        if (!holds.isEmpty() && outer == null && !(isFirst && joins(request))) {
            return null;
        }
        long fence = outer != null ? outer.fence() : server.nextFence();
        Duration per = limit.map(LockLimit::per).orElse(Duration.ZERO);
        MemoryHold hold = new MemoryHold(this, request.lasting(per), fence);
        if (outer != null) {
            hold.nestIn(outer);
        }
        begin(hold);
        return hold;
    }

    /** Whether the request may hold the lock beside its present holders. */
    private boolean joins(MemoryRequest request) {
        long permits = limit.map(LockLimit::permits).orElse(request.options().permits());
        return request.shares()
                && exclusive() == null
                && (permits == 0 || weight(holds) + request.weight() <= permits);
    }

    /** Stores a limit, which the waiters must follow; returns the previous limit. */
    Optional<LockLimit> limit(LockLimit said) {
        Optional<LockLimit> was = limit;
        limit = said.permits() == 0 ? Optional.empty() : Optional.of(said);
        for (MemoryWaiter waiter : List.copyOf(queue)) {
            differs(waiter.request)
                    .ifPresent(
                            why -> {
                                queue.remove(waiter);
                                waiter.completeExceptionally(new LimitDiffersException(why));
                            });
        }
        serve();
        return was;
    }

    /** Refuses a number that differs from the stored one, unless the request nests. */
    void checkLimit(MemoryRequest request) {
        if (outer(request) == null) {
            differs(request)
                    .ifPresent(
                            why -> {
                                throw new LimitDiffersException(why);
                            });
        }
    }

    /** Returns how the request's number differs from the stored limit; empty: it does not. */
    private Optional<String> differs(MemoryRequest request) {
        long mine = request.options().permits();
        long weight = request.weight();
        if (!request.shares()) {
            return Optional.empty();
        }
        if (request.isStored() && limit.filter(l -> !l.per().isZero()).isEmpty()) {
            return Optional.of(
                    "no rate is stored with gate " + request.lock() + ", and this acquire gives none");
        }
        if (limit.isEmpty()) {
            return mine > 0 || weight < 2
                    ? Optional.empty()
                    : Optional.of(
                            "no limit is stored with " + request.lock() + ", and this acquire takes "
                                    + weight + " permits: give the number of all permits");
        }
        long permits = limit.get().permits();
        Duration per = limit.get().per();
        String says = null;
        Duration lease = request.lasting(per).lease();
        if (!per.isZero() && (mine != 0 && mine != permits || !per.equals(lease))) {
            return Optional.of(
                    request.lock() + " is a gate that lets pass " + permits + " in " + per.toMillis()
                            + " ms, and this acquire gives " + mine + " in "
                            + lease.toMillis() + " ms");
        } else if (mine != 0 && mine != permits) {
            says = "gives " + mine;
        } else if (weight > permits) {
            says = "takes " + weight;
        }
        return Optional.ofNullable(says)
                .map(how -> request.lock() + " has " + permits + " permits, and this acquire " + how);
    }

    private static long weight(List<MemoryHold> holds) {
        return holds.stream().mapToLong(hold -> hold.request.weight()).sum();
    }

    void begin(MemoryHold hold) {
        holds.add(hold);
        if (hold.request.kept()) {
            kept.add(hold);
        }
        hold.arm();
    }

    /** Removes a hold that has ended, and serves the queue. */
    @Override
    public void remove(MemoryHold hold) {
        if (holds.remove(hold)) {
            hold.disarm();
            serve();
        }
    }

    /** Makes a token by which a hold is found again. */
    @Override
    public byte[] token(MemoryHold hold) {
        String token = TOKEN + server.nextSerial() + " " + hold.request.lock();
        handedOver.put(token, hold);
        return Bytes.of(token);
    }

    /** Lets a hold go on for the request, which takes over its owner and fence. */
    MemoryHold adopt(String token, MemoryRequest request) {
        if (!token.startsWith(TOKEN)) {
            throw new IllegalArgumentException("these bytes are no token of a hold in memory");
        }
        MemoryHold old = handedOver.get(token);
        String of = token.substring(token.indexOf(' ', TOKEN.length()) + 1);
        if (!of.equals(request.lock().toString())) {
            throw new IllegalArgumentException(
                    "that is a token of " + of + ", and this is " + request.lock());
        }
        if (old != null && old.request.shares() != request.shares()) {
            throw new IllegalArgumentException("that is the token of a hold of the other mode");
        }
        handedOver.remove(token);
        if (old == null || !holds.contains(old)) {
            throw MemoryHold.lost(request.lock(), LossCause.GONE);
        }
        MemoryHold adopted = 
                new MemoryHold(this, request.of(old.request.owner()), old.fence()).adopted(old);
        begin(adopted);
        old.end();
        return adopted;
    }

    /** Returns the holds that a client has in hand, oldest first. */
    Stream<MemoryHold> holds(MemoryBook book) {
        return holds.stream().filter(hold -> hold.request.book() == book && hold.isInHand());
    }

    Stream<MemoryWaiter> waiters(MemoryBook book) {
        return queue.stream().filter(waiter -> waiter.request.book() == book);
    }

    LockInfo seen(byte[] name, long first) {
        Duration remaining =
                holds.stream().map(MemoryHold::left).max(Duration::compareTo).orElse(Duration.ZERO);
        List<LockWaiter> waiters =
                queue.stream().skip(first).limit(VIEW_MAX).map(MemoryWaiter::seen).toList();
        boolean shared = !holds.isEmpty() && exclusive() == null;
        Map<Long, List<MemoryHold>> nested = new LinkedHashMap<>(); // nested holds share a fence
        holds.stream()
                .sorted(Comparator.comparing(MemoryHold::left))
                .skip(first)
                .limit(VIEW_MAX)
                .forEach(
                        hold ->
                                nested.computeIfAbsent(hold.fence(), f -> new ArrayList<>())
                                        .add(hold));
        return new LockInfo(
                name.clone(),
                !holds.isEmpty(),
                false,
                shared,
                holds.size(),
                queue.size(),
                remaining,
                resultStays(),
                false,
                limit,
                nested.values().stream().map(holds -> holder(holds, shared)).toList(),
                waiters);
    }

    /** Makes one holder of an owner's nested holds; they are in the order of their ends. */
    private static LockHolder holder(List<MemoryHold> nested, boolean shared) {
        MemoryHold first = nested.get(0);
        MemoryHold last = nested.get(nested.size() - 1);
        byte[] owner = ((ByteBuffer) first.request.owner()).array().clone();
        Duration age =
                nested.stream().map(MemoryHold::age).max(Duration::compareTo).orElseThrow();
        return new LockHolder(
                owner,
                first.note(),
                shared,
                first.fence(),
                nested.size(),
                age,
                last.left(),
                nested.stream().allMatch(MemoryHold::isKept),
                weight(nested));
    }

    /** Takes the lock from one holder. */
    boolean take(long fence) {
        List<MemoryHold> taken = holds.stream().filter(hold -> hold.fence() == fence).toList();
        taken.forEach(hold -> hold.lose(LossCause.GONE));
        return !taken.isEmpty();
    }

    /** Returns the record of the call, or null. */
    MemoryRecord record() {
        return record == null || record.left().isZero() ? null : record;
    }

    /** Returns how the call ended; null: it was not made, or is in progress. */
    MemoryRecord outcome() {
        MemoryRecord known = record();
        boolean over =
                known != null
                        && known.kind() != Outcome.State.RETRY
                        && (known.isKept() || !isHeld(known));
        if (over) {
            record = known.learned();
        }
        return over ? record : null;
    }

    boolean isHeld(MemoryRecord known) {
        return holds.stream().anyMatch(hold -> hold.fence() == known.fence());
    }

    private Duration resultStays() {
        MemoryRecord known = record();
        return known != null && known.isKept() ? known.left() : Duration.ZERO;
    }

    /** Begins the call that is made at most once; returns its record if it may not begin. */
    MemoryRecord begin(MemoryHold hold, OnceOptions<?> options) {
        hold.check();
        MemoryRecord known = record();
        if (known != null && (known.kind() != Outcome.State.RETRY || !known.matches(options))) {
            hold.request.book().counts.finished(CallOutcome.RETRY);
            hold.release();
            return known;
        }
        hold.request.book().counts.begun();
        record = MemoryRecord.begun(hold.fence(), hold.owner(), options);
        return null;
    }

    @Override
    public boolean leave(MemoryHold hold, MemoryRecord.End end) {
        MemoryRecord known = record();
        boolean open =
                known != null && known.fence() == hold.fence() && !known.isKept();
        switch (end.state()) {
            case UNKNOWN:
                if (open) {
                    record = known.noted(end.bytes()).learned();
                }
                return open;
            case RETRY:
                if (open) {
                    record =
                            known.with(Outcome.State.RETRY, MemoryRecord.RETRY_TTL, null);
                }
                return open;
            default:
                boolean free =
                        known == null
                                || known.kind() == Outcome.State.RETRY
                                || (!end.options().atMostOnce() && known.isKept());
                if (open) {
                    record = known.with(end.state(), end.ttl(), end.bytes());
                } else if (hold.isValid() && free) {
                    record = MemoryRecord.ended(hold.fence(), hold.owner(), end);
                } else {
                    return false;
                }
                tell();
                return true;
        }
    }

    /** Settles the call. */
    void settle(
            MemoryRequest by,
            Outcome.State state,
            long fence,
            boolean force,
            byte[] bytes,
            Duration ttl) {
        MemoryRecord known = record();
        if (known == null || known.fence() != fence) {
            throw new LockNotHeldException(by.lock() + " has no record of a call with that fence");
        }
        boolean runs = known.kind() == Outcome.State.RUNNING && isHeld(known);
        if (runs && !force) {
            throw new LockTimeoutException(
                    "the call of " + by.lock() + " is in progress: settling it now takes force");
        }
        if (state != null && known.isKept() && (!force || state == Outcome.State.RETRY)) {
            throw MemoryRecord.settled(by.lock());
        }
        byte[] settler = ((ByteBuffer) by.owner()).array().clone();
        boolean again = state == Outcome.State.RETRY;
        record =
                state == null
                        ? null
                        : again
                                ? known.with(state, MemoryRecord.RETRY_TTL, null)
                                : known.with(state, ttl, bytes.clone()).settledBy(settler);
        if (runs) {
            take(fence);
        }
        tell();
    }

    /** Ends the waits of callers that wait for an outcome, if there is one. */
    private void tell() {
        for (MemoryWaiter waiter : List.copyOf(queue)) {
            MemoryRecord over = waiter.once != null ? outcome() : null;
            if (over != null) {
                queue.remove(waiter);
                waiter.done(over);
            }
        }
    }

    boolean lose(LossCause cause) {
        boolean held = !holds.isEmpty();
        List.copyOf(holds).forEach(hold -> hold.lose(cause));
        return held;
    }

    /** Returns the place in the queue that the waiter would get. */
    int place(MemoryWaiter waiter) {
        int at = queue.size();
        while (at > 0 && queue.get(at - 1).isBehind(waiter)) {
            at--;
        }
        return at;
    }

    /** Removes a waiter; false: it was no longer in the queue. */
    boolean leave(MemoryWaiter waiter, RefusalCause why) {
        boolean waits = queue.remove(waiter);
        if (waits) {
            waiter.request.book().counts.refused(why);
        }
        return waits;
    }

    /** Grants the lock to the first waiter, and to the waiters behind it that fit beside it. */
    private void serve() {
        tell();
        for (Iterator<MemoryWaiter> each = queue.iterator(); each.hasNext(); ) {
            MemoryWaiter waiter = each.next();
            MemoryHold hold = grant(waiter.request, true);
            if (hold == null) {
                return;
            }
            each.remove();
            waiter.granted(hold);
        }
    }
}
