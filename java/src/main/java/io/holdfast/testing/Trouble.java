package io.holdfast.testing;

import io.holdfast.ConnectionFailedException;
import io.holdfast.Hold;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastException;
import io.holdfast.HoldfastLock;
import io.holdfast.HoldfastLocks;
import io.holdfast.LockUnknownException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;

/**
 * Trouble on request, from a seed: faults that the holder of a lock can meet, for the tests of
 * programs. It wraps a client, in memory or of a real server, and strikes {@code acquire()}.
 *
 * <pre>{@code
 * Trouble trouble = new Trouble(client, 7, Trouble.Kind.STOLEN, Trouble.Kind.UNKNOWN);
 * sell(trouble.client());
 * assertSoldOnce(trouble.made());
 * }</pre>
 */
public final class Trouble {
    /** The kinds of trouble. */
    public enum Kind {
        /** The lock is taken away from its holder a moment after the acquire. */
        LOST,
        /** As {@link #LOST}, and another holder has the lock for a moment, with a greater fence. */
        STOLEN,
        /** The acquire throws a {@link LockUnknownException}, and the lock stays held for a moment. */
        UNKNOWN,
        /** The acquire returns a moment late. */
        LATE,
        /** The acquire, and all others within a second, throw a {@link ConnectionFailedException}. */
        OUTAGE
    }

    private static final int MOMENT_MILLIS = 50;
    private static final long OUTAGE_NANOS = TimeUnit.SECONDS.toNanos(1);

    private final HoldfastClient client;
    private final Random random;
    private final Kind[] kinds;
    private final List<Kind> made = new CopyOnWriteArrayList<>();
    private volatile BiConsumer<String, Long> stolen = (name, fence) -> {};
    private volatile long outageEnds = System.nanoTime();

    /**
     * Makes trouble for a client: each acquire is struck or not, with equal chances.
     *
     * @param client the client, which stays as it is
     * @param seed the same seed makes the same trouble, if the acquires are the same
     * @param kinds the kinds to choose from; none: all
     */
    public Trouble(HoldfastClient client, long seed, Kind... kinds) {
        this.random = new Random(seed);
        this.kinds = kinds.length > 0 ? kinds.clone() : Kind.values();
        this.client = (HoldfastClient) around(HoldfastClient.class, client);
    }

    /**
     * The client in trouble, for the program that is tested.
     *
     * @return closing it closes the client
     */
    public HoldfastClient client() {
        return client;
    }

    /**
     * The trouble that was made so far.
     *
     * @return in the order in which it was made
     */
    public List<Kind> made() {
        return List.copyOf(made);
    }

    /**
     * Plays the other holder of {@link Kind#STOLEN}, for example with a write to the resource.
     *
     * @param action takes the lock's name and the greater fence
     */
    public void onStolen(BiConsumer<String, Long> action) {
        stolen = action;
    }

    private Object around(Class<?> face, Object inner) {
        return Proxy.newProxyInstance(
                face.getClassLoader(), new Class<?>[] {face}, new Around(inner));
    }

    private final class Around implements InvocationHandler {
        private final Object inner;

        Around(Object inner) {
            this.inner = inner;
        }

        @Override
        public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
            if (method.isDefault()) { // calls another method of this proxy
                return InvocationHandler.invokeDefault(proxy, method, arguments);
            }
            boolean acquires = method.getReturnType() == Hold.class && !method.getName().equals("adopt");
            if (acquires) {
                return strike((HoldfastLock) inner, method, arguments);
            }
            if (method.getReturnType() == HoldfastLocks.class) {
                arguments = new Object[] {((Collection<?>) arguments[0]).stream().map(Trouble::bare).toList()};
            }
            Object answer = call(inner, method, arguments);
            return answer instanceof HoldfastLock lock ? around(HoldfastLock.class, lock) : answer;
        }
    }

    /** Returns the client's own lock. */
    private static Object bare(Object lock) {
        return Proxy.isProxyClass(lock.getClass())
                        && Proxy.getInvocationHandler(lock) instanceof Around around
                ? around.inner
                : lock;
    }

    private static Object call(Object inner, Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(inner, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    private Hold strike(HoldfastLock lock, Method method, Object[] arguments) throws Throwable {
        Kind kind;
        int moment;
        synchronized (random) {
            kind = random.nextBoolean() ? kinds[random.nextInt(kinds.length)] : null;
            moment = random.nextInt(MOMENT_MILLIS);
        }
        if (kind == Kind.OUTAGE) {
            outageEnds = System.nanoTime() + OUTAGE_NANOS;
            made.add(kind);
        }
        if (outageEnds - System.nanoTime() > 0) {
            throw new ConnectionFailedException("trouble: the server does not answer");
        }
        Hold hold = (Hold) call(lock, method, arguments);
        if (kind == null || kind == Kind.OUTAGE) {
            return hold;
        }
        made.add(kind);
        switch (kind) {
            case LATE -> {
                try {
                    Thread.sleep(moment);
                } catch (InterruptedException e) {
                    hold.close();
                    throw e;
                }
            }
            case UNKNOWN -> {
                soon(moment, hold::close);
                throw new LockUnknownException("trouble: the answer was lost");
            }
            default -> soon(moment, () -> take(lock, hold.fence(), kind == Kind.STOLEN));
        }
        return hold;
    }

    private void take(HoldfastLock lock, long fence, boolean steal) {
        lock.forceUnlock(fence);
        if (steal) {
            try (Hold other = lock.acquireAsync(Hold.FOREVER).join()) {
                stolen.accept(lock.getName(), other.fence());
            }
        }
    }

    private static void soon(int millis, Runnable work) {
        CompletableFuture.delayedExecutor(millis, TimeUnit.MILLISECONDS)
                .execute(
                        () -> {
                            try {
                                work.run();
                            } catch (HoldfastException | IllegalStateException over) {
                                return; // the hold or the client has ended
                            }
                        });
    }
}
