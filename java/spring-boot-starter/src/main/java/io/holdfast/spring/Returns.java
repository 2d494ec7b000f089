package io.holdfast.spring;

import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Future;
import java.util.stream.BaseStream;
import org.springframework.core.KotlinDetector;
import org.springframework.core.ReactiveAdapterRegistry;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.scheduling.annotation.Async;

/** When the work of a {@link Locked} method ends. */
enum Returns {
    /** When it returns. */
    NOW,
    /** When the future that it returns is done. */
    LATER,
    /** So too, but {@code @Async} gave it a thread, which may wait and on which it must run. */
    LATER_ON_ITS_THREAD;

    /** What Spring MVC goes on with after the method; by name, because it is optional. */
    private static final Set<String> OF_SPRING_MVC =
            Set.of(
                    "org.springframework.web.context.request.async.DeferredResult",
                    "org.springframework.web.context.request.async.WebAsyncTask",
                    "org.springframework.web.servlet.mvc.method.annotation.ResponseBodyEmitter",
                    "org.springframework.web.servlet.mvc.method.annotation.SseEmitter",
                    "org.springframework.web.servlet.mvc.method.annotation.StreamingResponseBody");

    /**
     * Looks at the method's type.
     *
     * @throws IllegalArgumentException if the work goes on after the method without a sign of its end
     */
    static Returns of(Target target) {
        Class<?> type = target.returnType();
        if (type == CompletableFuture.class || type == CompletionStage.class) {
            return isAsync(target) ? LATER_ON_ITS_THREAD : LATER;
        }
        if (goesOn(type) || KotlinDetector.isSuspendingFunction(target.method())) {
            throw new IllegalArgumentException(
                    "the work of a method that returns a "
                            + type.getTypeName()
                            + " goes on after it, without the lock: return a CompletableFuture, or"
                            + " use HoldfastLock.acquireAsync()");
        }
        return NOW;
    }

    private static boolean isAsync(Target target) {
        return AnnotatedElementUtils.hasAnnotation(target.method(), Async.class)
                || AnnotatedElementUtils.hasAnnotation(target.type(), Async.class);
    }

    private static boolean goesOn(Class<?> type) {
        return Future.class.isAssignableFrom(type)
                || CompletionStage.class.isAssignableFrom(type)
                || Callable.class.isAssignableFrom(type)
                || BaseStream.class.isAssignableFrom(type)
                || OF_SPRING_MVC.contains(type.getName())
                || ReactiveAdapterRegistry.getSharedInstance().getAdapter(type) != null;
    }
}
