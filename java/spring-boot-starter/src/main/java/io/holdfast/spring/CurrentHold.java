package io.holdfast.spring;

import io.holdfast.Hold;
import io.holdfast.HoldfastLock;
import io.holdfast.LockDeadlockException;
import java.time.Duration;
import org.aopalliance.intercept.MethodInvocation;
import org.springframework.core.NamedThreadLocal;

/**
 * The hold under which a {@link Locked} method runs.
 *
 * <pre>{@code
 * warehouse.write(item, CurrentHold.get().fence());
 * }</pre>
 */
public final class CurrentHold {
    /** A method's hold, within those of its callers, and the time for which it is kept. Weight 0: exclusive. */
    record Held(String lock, long weight, Hold hold, Duration atLeast, Held outer) {}

    private static final ThreadLocal<Held> CURRENT = new NamedThreadLocal<>("Holdfast's hold");

    private CurrentHold() {}

    /**
     * Returns the hold of the innermost {@link Locked} method that this thread runs. A method that returns a
     * future must call this before it returns; any thread may then use the hold.
     *
     * @return the hold, which is released when the method ends
     * @throws IllegalStateException if this thread runs no such method, for example because a bean
     *     called itself
     */
    public static Hold get() {
        return held().hold;
    }

    /** Returns the name of that hold's lock. */
    static String name() {
        return held().lock;
    }

    /** Whether this thread runs a {@link Locked} method. */
    static boolean exists() {
        return CURRENT.get() != null;
    }

    private static Held held() {
        Held held = CURRENT.get();
        if (held == null) {
            throw new IllegalStateException(
                    "this thread runs no @Locked method that was called from another bean");
        }
        return held;
    }

    /**
     * Returns the hold of a method around this one, in which the lock may nest; null if there is none.
     *
     * @throws LockDeadlockException if that hold is shared, and this one is exclusive or heavier
     */
    static Held around(HoldfastLock lock, long weight) {
        for (Held held = CURRENT.get(); held != null; held = held.outer) {
            if (held.lock.equals(lock.getName()) && held.hold.isValid()) {
                if (held.weight > 0 && (weight == 0 || weight > held.weight)) {
                    throw new LockDeadlockException(
                            lock
                                    + " is held shared by a @Locked method around this one, which"
                                    + " asks for "
                                    + (weight == 0 ? "it exclusively" : "a greater weight"));
                }
                return held;
            }
        }
        return null;
    }

    /** Calls the method, which may get the hold from here. */
    static Object during(
            HoldfastLock lock, long weight, Hold hold, Duration atLeast, MethodInvocation call)
            throws Throwable {
        Held outer = CURRENT.get();
        CURRENT.set(new Held(lock.getName(), weight, hold, atLeast, outer));
        try {
            return call.proceed();
        } finally {
            if (outer == null) {
                CURRENT.remove();
            } else {
                CURRENT.set(outer);
            }
        }
    }
}
