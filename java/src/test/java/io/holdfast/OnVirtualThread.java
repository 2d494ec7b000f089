package io.holdfast;

import java.lang.reflect.Method;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.InvocationInterceptor;
import org.junit.jupiter.api.extension.ReflectiveInvocationContext;

/** Runs each test on a virtual thread; by reflection, as Java 17 has none. */
final class OnVirtualThread implements InvocationInterceptor {
    @Override
    public void interceptTestMethod(
            Invocation<Void> test, ReflectiveInvocationContext<Method> method, ExtensionContext c)
            throws Throwable {
        run(test);
    }

    @Override
    public void interceptTestTemplateMethod(
            Invocation<Void> test, ReflectiveInvocationContext<Method> method, ExtensionContext c)
            throws Throwable {
        run(test);
    }

    private static void run(Invocation<Void> test) throws Throwable {
        int java = Runtime.version().feature();
        if (java < 21) {
            test.skip();
        }
        Assumptions.assumeTrue(java >= 21, "no virtual threads in Java " + java);
        Throwable[] thrown = new Throwable[1];
        FutureTask<Void> task =
                new FutureTask<>(
                        () -> {
                            try {
                                test.proceed();
                            } catch (Throwable e) {
                                thrown[0] = e;
                            }
                            return null;
                        });
        Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
        task.get();
        if (thrown[0] != null) {
            throw thrown[0];
        }
    }
}
