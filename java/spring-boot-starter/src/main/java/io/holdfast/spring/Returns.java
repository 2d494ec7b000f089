package io.holdfast.spring;

import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Future;
import java.util.stream.BaseStream;
import java.util.stream.Stream;
import org.springframework.core.KotlinDetector;
import org.springframework.core.ReactiveAdapterRegistry;
import org.springframework.core.ResolvableType;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.scheduling.annotation.Async;
import org.springframework.util.ClassUtils;

/** When the work of a {@link Locked} method ends. */
enum Returns {
    /** When the method returns. */
    NOW,
    /** When the future that the method returns is done. */
    LATER,
    /** When its future is done; but the method must run on the thread of {@code @Async}, which may wait. */
    LATER_ON_ITS_THREAD;

    /** Types whose work goes on after the method; Spring MVC's by name, because it is optional. */
    private static final List<Class<?>> GOES_ON =
            Stream.of(
                            Callable.class.getName(),
                            Future.class.getName(),
                            CompletionStage.class.getName(),
                            "org.springframework.web.context.request.async.DeferredResult",
                            "org.springframework.web.context.request.async.WebAsyncTask",
                            "org.springframework.web.servlet.mvc.method.annotation.ResponseBodyEmitter",
                            "org.springframework.web.servlet.mvc.method.annotation.StreamingResponseBody")
                    .filter(name -> ClassUtils.isPresent(name, Returns.class.getClassLoader()))
                    .<Class<?>>map(
                            name ->
                                    ClassUtils.resolveClassName(
                                            name, Returns.class.getClassLoader()))
                    .toList();

    /**
     * Determines when the method's work ends.
     *
     * @throws IllegalArgumentException if the work goes on after the method, with no sign of its end
     */
    static Returns of(Target target) {
        Class<?> type = target.returnType();
        if (type == CompletableFuture.class || type == CompletionStage.class) {
            return isAsync(target) ? LATER_ON_ITS_THREAD : LATER;
        }
        if (goesOn(target) || BaseStream.class.isAssignableFrom(type)) {
            throw new IllegalArgumentException(
                    "the work of a method that returns a "
                            + returned(target)
                            + " goes on after it, without the lock: return a CompletableFuture, or"
                            + " use HoldfastLock.acquireAsync()");
        }
        return NOW;
    }

    /** Whether the method may return before its work has ended. */
    static boolean tooSoon(Target target) {
        return isAsync(target) || goesOn(target);
    }

    /** Returns the type as declared, with its parameters. */
    static ResolvableType returned(Target target) {
        return ResolvableType.forMethodReturnType(target.method(), target.type());
    }

    private static boolean isAsync(Target target) {
        return AnnotatedElementUtils.hasAnnotation(target.method(), Async.class)
                || AnnotatedElementUtils.hasAnnotation(target.type(), Async.class);
    }

    private static boolean goesOn(Target target) {
        return KotlinDetector.isSuspendingFunction(target.method()) || goesOn(returned(target));
    }

    /** Whether work goes on after a method has returned this type, or a Spring response that contains it. */
    private static boolean goesOn(ResolvableType type) {
        Class<?> raw = type.toClass();
        return GOES_ON.stream().anyMatch(each -> each.isAssignableFrom(raw))
                || ReactiveAdapterRegistry.getSharedInstance().getAdapter(raw) != null
                || raw.getName().startsWith("org.springframework.http.")
                        && goesOn(type.getGeneric());
    }
}
