package io.holdfast.spring;

import io.holdfast.Hold;
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
    private static final ThreadLocal<Hold> CURRENT = new NamedThreadLocal<>("Holdfast's hold");

    private CurrentHold() {}

    /**
     * The hold of the innermost {@link Locked} method that this thread runs. A method that returns a
     * future asks before it returns; any thread may then use the hold.
     *
     * @return the hold, which is released when the method ends
     * @throws IllegalStateException if this thread runs no such method, for example because a bean
     *     called itself
     */
    public static Hold get() {
        Hold hold = CURRENT.get();
        if (hold == null) {
            throw new IllegalStateException(
                    "this thread runs no @Locked method that was called from another bean");
        }
        return hold;
    }

    /** Calls the method, which may ask for the hold. */
    static Object during(Hold hold, MethodInvocation call) throws Throwable {
        Hold outer = CURRENT.get();
        CURRENT.set(hold);
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
