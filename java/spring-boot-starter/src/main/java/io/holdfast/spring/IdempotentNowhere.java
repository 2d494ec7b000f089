package io.holdfast.spring;

import java.lang.reflect.Method;
import java.util.Set;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.AnnotationUtils;

/** Refuses {@link Idempotent} in WebFlux, where it would have no effect. */
final class IdempotentNowhere implements BeanPostProcessor {
    @Override
    public Object postProcessAfterInitialization(Object bean, String name) {
        Class<?> type = AopUtils.getTargetClass(bean);
        if (AnnotationUtils.isCandidateClass(type, Idempotent.class)) {
            Set<Method> found =
                    MethodIntrospector.selectMethods(
                            type,
                            (Method method) ->
                                    AnnotatedElementUtils.hasAnnotation(method, Idempotent.class));
            for (Method method : found) {
                throw new IllegalStateException(
                        "@Idempotent on "
                                + type.getName()
                                + "."
                                + method.getName()
                                + "(): it works in Spring MVC only. In WebFlux, return Mono.fromFuture("
                                + "() -> client.onceAsync(key, options, call))");
            }
        }
        return bean;
    }
}
