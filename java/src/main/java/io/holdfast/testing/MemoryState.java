package io.holdfast.testing;

import io.holdfast.LossCause;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/** What a server knows of one lock. The mutex guards it. */
final class MemoryState {
    final InMemoryHoldfast server;
    /** Of one owner, the oldest first. */
    final List<MemoryHold> holds = new ArrayList<>();

    final List<MemoryWaiter> queue = new ArrayList<>();
    private long fence;

    MemoryState(InMemoryHoldfast server) {
        this.server = server;
    }

    /** A hold, or null if somebody else has it. */
    MemoryHold grant(MemoryRequest request) {
        boolean nests =
                !holds.isEmpty()
                        && request.nestsIn(holds.get(0).request)
                        && (request.isNamed() || holds.stream().anyMatch(MemoryHold::isInHand));
        if (!holds.isEmpty() && !nests) {
            return null;
        }
        fence = nests ? fence : server.nextFence();
        MemoryHold hold = new MemoryHold(this, request, fence);
        begin(hold);
        return hold;
    }

    void begin(MemoryHold hold) {
        holds.add(hold);
        hold.lock.client.holds.add(hold);
        hold.arm();
    }

    /** A hold has ended. */
    void remove(MemoryHold hold) {
        if (holds.remove(hold)) {
            hold.lock.client.holds.remove(hold);
            hold.disarm();
            serve();
        }
    }

    boolean lose(LossCause cause) {
        boolean held = !holds.isEmpty();
        List.copyOf(holds).forEach(hold -> hold.lose(cause));
        return held;
    }

    /** Gives a free lock to whoever waits first, and to the same owner's others. */
    private void serve() {
        for (Iterator<MemoryWaiter> each = queue.iterator(); each.hasNext(); ) {
            MemoryWaiter waiter = each.next();
            MemoryHold hold = grant(waiter.request);
            if (hold == null) {
                return;
            }
            each.remove();
            waiter.granted(hold);
        }
    }
}
