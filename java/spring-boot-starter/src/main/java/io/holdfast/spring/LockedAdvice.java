package io.holdfast.spring;

import io.holdfast.Hold;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.LockHolder;
import io.holdfast.LockOptions;
import io.holdfast.LockTimeoutException;
import io.holdfast.micrometer.HoldfastObservations;
import io.micrometer.observation.Observation;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.aopalliance.intercept.MethodInvocation;

/** Carries out {@link Locked}: acquires, calls the method, and releases. */
final class LockedAdvice implements Advice {
    private final Target target;
    private final Returns returns;
    private final LockName name;
    private final LockOptions options;
    /** 0: exclusive. */
    private final long weight;
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
        this.weight = annotation.shared() ? annotation.weight() : 0;
        if ((annotation.permits() != 0 || annotation.weight() != 1) && !annotation.shared()) {
            throw new IllegalArgumentException("permits and weight are for shared = true");
        }
        this.options = options(annotation, defaults.options());
    }

    private LockOptions options(Locked annotation, LockOptions defaults) {
        LockOptions made = defaults.permits(annotation.permits()).weight(annotation.weight());
        Duration lease = target.time("the lease", annotation.lease());
        if (lease != null) {
            made = made.lease(lease);
        }
        Duration maxHold = target.time("maxHold", annotation.maxHold());
        if (maxHold != null) {
            made = made.maxHold(maxHold);
        }
        Duration ahead = target.time("ahead", annotation.ahead());
        if (ahead != null) {
            made = made.ahead(ahead);
        }
        if (!annotation.renew()) {
            made = made.renew(false);
        }
        // A thread that only started a future must not own its lock: its next call would be refused.
        return returns == Returns.NOW ? made : made.reentrant(false);
    }

    private HoldfastLock lock(HoldfastClient client, String called) {
        HoldfastLock lock = client.lock(called, options);
        return weight > 0 ? lock.shared() : lock;
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
    public Object invoke(
            MethodInvocation call, HoldfastClient client, HoldfastObservations observations)
            throws Throwable {
        HoldfastLock lock = lock(client, target.nameOf(name, call));
        if (returns == Returns.NOW) {
            CurrentHold.Held outer = CurrentHold.around(lock, weight);
            if (outer != null) {
                return enter(lock, outer.hold(), outer.atLeast(), call);
            }
            try (Hold hold = acquire(lock, observations)) {
                return observed(lock, hold, call, observations);
            }
        }
        if (returns == Returns.LATER_ON_ITS_THREAD) {
            return new LockedFuture(
                            hold -> (CompletionStage<?>) observed(lock, hold, call, observations))
                    .enter(acquire(lock, observations));
        }
        Executor executor = target.executor(); // before the acquire: it may throw
        return later(lock, call, observations, executor);
    }

    /** Acquires without a thread. The wait is observed until the method is called, or never will be. */
    private CompletableFuture<Object> later(
            HoldfastLock lock,
            MethodInvocation call,
            HoldfastObservations observations,
            Executor executor) {
        Observation wait = observations.start("wait", lock.getName());
        AtomicBoolean waits = new AtomicBoolean(true);
        Consumer<Throwable> over =
                failure -> {
                    if (waits.getAndSet(false)) {
                        HoldfastObservations.stop(wait, failure);
                    }
                };
        LockedFuture future =
                new LockedFuture(
                        hold -> {
                            over.accept(null);
                            return (CompletionStage<?>) observed(lock, hold, call, observations);
                        });
        CompletableFuture<Object> result =
                future.acquire(
                        observations.acquireAsync(wait, lock, timeout),
                        executor,
                        failure -> explained(failure, lock));
        result.whenComplete((value, failure) -> over.accept(failure));
        return result;
    }

    /** Calls the method. The method around it has asked to keep the hold for the given time. */
    private Object enter(HoldfastLock lock, Hold hold, Duration kept, MethodInvocation call)
            throws Throwable {
        boolean longer = atLeast.compareTo(kept) > 0;
        if (longer) {
            hold.keepAtLeast(atLeast);
        }
        return CurrentHold.during(lock, weight, hold, longer ? atLeast : kept, call);
    }

    private Object observed(
            HoldfastLock lock, Hold hold, MethodInvocation call, HoldfastObservations observations)
            throws Throwable {
        Throwable[] failed = new Throwable[1];
        Object result =
                observations.during(
                        hold,
                        lock.getName(),
                        () -> {
                            try {
                                return enter(lock, hold, Duration.ZERO, call);
                            } catch (Exception | Error e) {
                                throw e;
                            } catch (Throwable e) { // from a method in another language
                                failed[0] = e;
                                return null;
                            }
                        });
        if (failed[0] != null) {
            throw failed[0];
        }
        return result;
    }

    private Hold acquire(HoldfastLock lock, HoldfastObservations observations) throws Exception {
        try {
            return observations.acquire(lock, timeout);
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
        String separator = "; ";
        for (LockHolder holder : holders) {
            message.append(separator).append(share(holder));
            separator = ", and ";
        }
        LockBusyException busy = new LockBusyException(message.toString(), lock.getName(), timeout, holders);
        busy.initCause(e);
        return busy;
    }

    private static String share(LockHolder holder) {
        if (!holder.kept()) {
            return "held by " + who(holder) + " for " + seconds(holder.heldFor());
        }
        String rest =
                holder.remaining().equals(Hold.FOREVER)
                        ? "for ever"
                        : "for another " + seconds(holder.remaining());
        return "kept by " + who(holder) + ", whose work has ended, " + rest;
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
