package io.holdfast.spring;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import org.aopalliance.intercept.MethodInterceptor;
import org.springframework.aop.framework.Advised;
import org.springframework.aop.framework.AopConfigException;
import org.springframework.aop.framework.autoproxy.AbstractBeanFactoryAwareAdvisingPostProcessor;
import org.springframework.aop.support.AopUtils;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.annotation.AnnotationMatchingPointcut;

/**
 * Notes that an {@link Idempotent} handler is really called, after every step that may refuse the
 * request: the reading of its arguments, their validation, and other advice.
 */
@SuppressWarnings("serial") // as its super class: it is not serialized
final class IdempotentBeans extends AbstractBeanFactoryAwareAdvisingPostProcessor {
    /** For the request that this thread carries out; null: it has no key. */
    private static final ThreadLocal<boolean[]> CALLED = new ThreadLocal<>();

    IdempotentBeans() {
        setProxyTargetClass(true);
        setOrder(LOWEST_PRECEDENCE - 2);
        advisor =
                new DefaultPointcutAdvisor(
                        new AnnotationMatchingPointcut(null, Idempotent.class, true),
                        (MethodInterceptor)
                                call -> {
                                    boolean[] called = CALLED.get();
                                    if (called != null) {
                                        called[0] = true;
                                    }
                                    return call.proceed();
                                });
    }

    @Override
    public Object postProcessAfterInitialization(Object bean, String name) {
        try {
            return super.postProcessAfterInitialization(bean, name);
        } catch (AopConfigException e) {
            throw new IllegalStateException(
                    AopUtils.getTargetClass(bean).getTypeName()
                            + " has @Idempotent handlers, and no proxy can stand in its place. Is it"
                            + " final or private? "
                            + e.getMessage(),
                    e);
        }
    }

    /**
     * Refuses a handler whose calls would not be noted. Moves the advice that notes them behind all other
     * advice: advice that was added later, such as that of validation, may also refuse a request.
     *
     * @throws IllegalArgumentException with the reason
     */
    void check(Object bean, Method method) {
        int modifiers = method.getModifiers();
        if (Modifier.isPrivate(modifiers) || Modifier.isStatic(modifiers)) {
            throw new IllegalArgumentException("it is private or static");
        }
        if (Modifier.isFinal(modifiers)) {
            throw new IllegalArgumentException("it is final, and so no proxy can stand around it");
        }
        if (!(bean instanceof Advised advised) || advised.indexOf(advisor) < 0) {
            throw new IllegalArgumentException("its bean is not made by Spring, or too early");
        }
        advised.addAdvisor(advisor); // first: a call in between must find it
        advised.removeAdvisor(advisor);
    }

    /** Listens to the calls of this thread until {@link #forget}: a call makes the element true. */
    static boolean[] listen() {
        boolean[] called = new boolean[1];
        CALLED.set(called);
        return called;
    }

    static void forget() {
        CALLED.remove();
    }
}
