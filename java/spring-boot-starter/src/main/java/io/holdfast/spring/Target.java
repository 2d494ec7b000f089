package io.holdfast.spring;

import io.holdfast.HoldfastException;
import java.lang.annotation.Annotation;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.Executor;
import java.util.stream.Collectors;
import org.aopalliance.intercept.MethodInvocation;
import org.springframework.beans.factory.config.ConfigurableBeanFactory;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.core.GenericTypeResolver;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;

/**
 * A method that has one of our annotations.
 *
 * @param type the bean's class
 * @param method the bean's method to call
 * @param declared where the annotation stands: on this method, or on one of a super class or interface
 * @param beans the application's beans
 */
record Target(Class<?> type, Method method, Method declared, ConfigurableBeanFactory beans) {
    /** Spring Boot's name for the application's executor. */
    private static final String EXECUTOR = "applicationTaskExecutor";

    /** Names the method for people, in every message. */
    @Override
    public String toString() {
        return Arrays.stream(method.getParameterTypes())
                .map(Class::getSimpleName)
                .collect(
                        Collectors.joining(
                                ", ", type.getTypeName() + "." + method.getName() + "(", ")"));
    }

    /**
     * Refuses two different annotations of a type in one place, where composed annotations may bring
     * them: Spring finds only the first.
     */
    void refuseTwo(Class<? extends Annotation> annotation) {
        MergedAnnotations all = MergedAnnotations.from(method, SearchStrategy.TYPE_HIERARCHY);
        // That place alone: all has the method of an interface once for each way to the interface.
        if (all.get(annotation).getSource() instanceof Method first
                && MergedAnnotations.from(first)
                                .stream(annotation)
                                .map(each -> each.asMap())
                                .distinct()
                                .count()
                        > 1) {
            throw new IllegalArgumentException(
                    "it has @" + annotation.getSimpleName() + " twice: only one of them would count");
        }
    }

    /** Returns the lock's name if the annotation has none. */
    String defaultName() {
        return type.getName() + "." + method.getName();
    }

    Class<?> returnType() {
        return GenericTypeResolver.resolveReturnType(method, type);
    }

    /** Replaces placeholders. */
    String text(String given) {
        String text = beans.resolveEmbeddedValue(given);
        return text == null ? "" : text;
    }

    /** Reads a time; returns null if none was given. */
    Duration time(String what, String given) {
        String text = text(given);
        if (text.isEmpty()) {
            return null;
        }
        Duration time;
        try {
            time = DurationStyle.detectAndParse(text);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(
                    what + " is no time: \"" + text + "\"; write it as 500ms, 5s, 2m or 1h", e);
        }
        if (time.isNegative()) {
            throw new IllegalArgumentException(what + " must not be negative: " + text);
        }
        return time;
    }

    LockName name(String text) {
        if (text.isEmpty()) {
            throw new IllegalArgumentException("the lock's name is missing");
        }
        return new LockName(text, declared, beans);
    }

    /** Returns the lock's name for a call. */
    String nameOf(LockName name, MethodInvocation call) {
        try {
            return name.of(call.getThis(), call.getArguments());
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(this + ": " + e.getMessage(), e);
        }
    }

    /**
     * Returns the executor for a method for whose lock no thread waited: the application's
     * own, or else Holdfast's thread, with the class loader of the caller.
     */
    Executor executor() {
        if (beans.containsBean(EXECUTOR) && beans.isTypeMatch(EXECUTOR, Executor.class)) {
            return beans.getBean(EXECUTOR, Executor.class);
        }
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        return work -> {
            Thread thread = Thread.currentThread();
            ClassLoader before = thread.getContextClassLoader();
            thread.setContextClassLoader(loader);
            try {
                work.run();
            } finally {
                thread.setContextClassLoader(before);
            }
        };
    }

    /** Returns the exception to throw if the thread was interrupted while it waited, or in the method. */
    Exception interrupted(InterruptedException e) {
        for (Class<?> declaredType : method.getExceptionTypes()) {
            if (declaredType.isAssignableFrom(InterruptedException.class)) {
                return e;
            }
        }
        Thread.currentThread().interrupt();
        HoldfastException unchecked =
                new HoldfastException(this + " was not called: its thread was interrupted");
        unchecked.initCause(e);
        return unchecked;
    }
}
