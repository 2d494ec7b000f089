package io.holdfast.spring;

import io.holdfast.Hold;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.LockHolder;
import io.holdfast.LockOptions;
import io.holdfast.LockTimeoutException;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import org.aopalliance.intercept.MethodInvocation;

/** {@link Locked}: acquires, calls the method, and releases. */
final class LockedAdvice implements Advice {
    private final Target target;
    private final Returns returns;
    private final LockName name;
    private final LockOptions options;
    private final boolean shared;
    private final Duration timeout;
    private final Duration atLeast;

    LockedAdvice(Target target, Locked annotation, HoldfastProperties.Lock defaults) {
        this.target = target;
        this.returns = Returns.of(target);
        this.name = target.name(target.text(annotation.name()));
        Duration patience = target.time("the timeout", annotation.timeout());
        this.timeout = patience == null ? defaults.patience() : patience;
        Duration keep = target.time("atLeast", annotation.atLeast());
        this.atLeast = keep == null ? Duration.ZERO : keep;
        this.shared = annotation.shared();
        if (annotation.permits() != 0 && !shared) {
            throw new IllegalArgumentException("permits are for shared = true");
        }
        this.options = options(annotation, defaults.options());
    }

    private LockOptions options(Locked annotation, LockOptions defaults) {
        LockOptions made = defaults.permits(annotation.permits());
        Duration lease = target.time("the lease", annotation.lease());
        if (lease != null) {
            made = made.lease(lease);
        }
        Duration maxHold = target.time("maxHold", annotation.maxHold());
        if (maxHold != null) {
            made = made.maxHold(maxHold);
        }
        if (!annotation.renew()) {
            made = made.renew(false);
        }
        // A thread that started a future does not hold its lock, or it would be refused meanwhile.
        return returns == Returns.NOW ? made : made.reentrant(false);
    }

    private HoldfastLock lock(HoldfastClient client, String called) {
        HoldfastLock lock = client.lock(called, options);
        return shared ? lock.shared() : lock;
    }

    @Override
    public Target target() {
        return target;
    }

    @Override
    public void check(HoldfastClient client) {
        lock(client, name.fixed() == null ? "name" : name.fixed());
    }

    @Override
    public Object invoke(MethodInvocation call, HoldfastClient client) throws Throwable {
        HoldfastLock lock = lock(client, target.nameOf(name, call));
        if (returns == Returns.NOW) {
            Hold outer = CurrentHold.around(lock, shared);
            if (outer != null) {
                return enter(lock, outer, call);
            }
            try (Hold hold = acquire(lock)) {
                return enter(lock, hold, call);
            }
        }
        LockedFuture future = new LockedFuture(hold -> (CompletionStage<?>) enter(lock, hold, call));
        if (returns == Returns.LATER_ON_ITS_THREAD) {
            return future.enter(acquire(lock));
        }
        Executor executor = target.executor(); // before the acquire: it may throw
        return future.acquire(lock.acquireAsync(timeout), executor, e -> explained(e, lock));
    }

    private Object enter(HoldfastLock lock, Hold hold, MethodInvocation call) throws Throwable {
        if (!atLeast.isZero()) {
            hold.keepAtLeast(atLeast);
        }
        return CurrentHold.during(lock, shared, hold, call);
    }

    private Hold acquire(HoldfastLock lock) throws Exception {
        try {
            return lock.acquire(timeout);
        } catch (LockTimeoutException e) {
            throw busy(e, lock);
        } catch (InterruptedException e) {
            throw target.interrupted(e);
        }
    }

    private Throwable explained(Throwable failure, HoldfastLock lock) {
        Throwable cause =
                failure instanceof CompletionException && failure.getCause() != null
                        ? failure.getCause()
                        : failure;
        return cause instanceof LockTimeoutException timedOut ? busy(timedOut, lock) : cause;
    }

    private LockBusyException busy(LockTimeoutException e, HoldfastLock lock) {
        List<LockHolder> holders = e.holders();
        StringBuilder message = new StringBuilder();
        message.append(target).append(" was not called: its lock \"").append(lock.getName());
        message.append("\" was not free");
        if (!timeout.isZero()) {
            message.append(" within ").append(seconds(timeout));
        }
        String separator = "; held by ";
        for (LockHolder holder : holders) {
            message.append(separator).append(who(holder)).append(" for ");
            message.append(seconds(holder.heldFor()));
            separator = ", and by ";
        }
        LockBusyException busy = new LockBusyException(message.toString(), lock.getName(), timeout, holders);
        busy.initCause(e);
        return busy;
    }

    private static String who(LockHolder holder) {
        return holder.origin()
                .map(origin -> "process " + origin.pid() + " on " + origin.host())
                .orElse("\"" + holder.ownerText() + "\"");
    }

    private static String seconds(Duration time) {
        return BigDecimal.valueOf(time.toMillis(), 3).stripTrailingZeros().toPlainString() + " s";
    }
}
