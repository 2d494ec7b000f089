package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import io.holdfast.micrometer.HoldfastObservations;
import io.micrometer.observation.ObservationRegistry;
import java.lang.annotation.Annotation;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.springframework.aop.support.AopUtils;
import org.springframework.aop.support.StaticMethodMatcherPointcut;
import org.springframework.beans.factory.config.ConfigurableBeanFactory;
import org.springframework.core.MethodClassKey;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.core.annotation.MergedAnnotation;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;
import org.springframework.util.function.SingletonSupplier;

/** Finds our annotations on the methods of beans, and carries them out. */
final class Advices extends StaticMethodMatcherPointcut implements MethodInterceptor {
    private static final Set<Class<? extends Annotation>> OURS = Set.of(Locked.class, OncePer.class);

    private final ConfigurableBeanFactory beans;
    private final SingletonSupplier<HoldfastClient> client;
    private final SingletonSupplier<HoldfastObservations> observations;

    /** The advice of each checked method. */
    private final Map<MethodClassKey, Optional<Advice>> found = new ConcurrentHashMap<>();

    Advices(ConfigurableBeanFactory beans) {
        this.beans = beans;
        this.client = SingletonSupplier.of(() -> beans.getBean(HoldfastClient.class));
        this.observations = SingletonSupplier.of(() -> observations(beans));
    }

    /**
     * Returns observations in the registry of Spring Boot's actuator; without it they cost next to nothing.
     */
    static HoldfastObservations observations(ConfigurableBeanFactory beans) {
        return new HoldfastObservations(
                beans.getBeanProvider(ObservationRegistry.class)
                        .getIfUnique(() -> ObservationRegistry.NOOP));
    }

    @Override
    public boolean matches(Method method, Class<?> type) {
        return of(method, type).isPresent();
    }

    @Override
    public Object invoke(MethodInvocation call) throws Throwable {
        Method method = call.getMethod();
        Object bean = call.getThis();
        Class<?> type = bean == null ? method.getDeclaringClass() : AopUtils.getTargetClass(bean);
        Optional<Advice> advice = of(method, type);
        return advice.isPresent()
                ? advice.get().invoke(call, client.obtain(), observations.obtain())
                : call.proceed();
    }

    /** Checks all annotations found. */
    void check() {
        for (Optional<Advice> each : found.values()) {
            each.ifPresent(
                    advice -> {
                        try {
                            advice.check(client.obtain());
                        } catch (IllegalArgumentException e) {
                            throw wrong(advice.target(), e.getMessage(), e);
                        }
                    });
        }
    }

    private Optional<Advice> of(Method method, Class<?> type) {
        MethodClassKey key = new MethodClassKey(method, type);
        Optional<Advice> known = found.get(key);
        if (known == null) { // outside the map's own computation, because it asks for beans
            known = Optional.ofNullable(read(method, type));
            found.put(key, known);
        }
        return known;
    }

    private Advice read(Method method, Class<?> type) {
        Method specific = AopUtils.getMostSpecificMethod(method, type);
        if (!AnnotationUtils.isCandidateClass(specific.getDeclaringClass(), OURS)) {
            return null;
        }
        MergedAnnotations annotations = annotations(specific);
        MergedAnnotation<Locked> locked = annotations.get(Locked.class);
        MergedAnnotation<OncePer> oncePer = annotations.get(OncePer.class);
        if (!locked.isPresent() && !oncePer.isPresent()) {
            return null;
        }
        Class<?> user = ClassUtils.getUserClass(type);
        Object source = (locked.isPresent() ? locked : oncePer).getSource();
        Method declared = source instanceof Method itself ? itself : specific;
        Target target = new Target(user, specific, declared, beans);
        try {
            OURS.forEach(target::refuseTwo);
            if (locked.isPresent() && oncePer.isPresent()) {
                throw new IllegalArgumentException("it has both annotations: use one of them");
            }
            HoldfastProperties.Lock defaults = beans.getBean(HoldfastProperties.class).lock();
            return locked.isPresent()
                    ? new LockedAdvice(target, locked.synthesize(), defaults)
                    : new OncePerAdvice(target, oncePer.synthesize(), defaults);
        } catch (IllegalArgumentException e) {
            throw wrong(target, e.getMessage(), e);
        }
    }

    private static MergedAnnotations annotations(Method method) {
        return MergedAnnotations.from(method, SearchStrategy.TYPE_HIERARCHY);
    }

    /**
     * Refuses annotations that would do nothing, and jobs that would take each other's turn.
     *
     * @param overridden whether the proxy is a subclass of the bean's
     */
    void checkMethods(Class<?> type, boolean overridden) {
        Map<String, List<Class<?>>> jobs = new HashMap<>();
        ReflectionUtils.doWithMethods(
                type,
                method -> {
                    if (method.isBridge()) {
                        return;
                    }
                    MergedAnnotations all = MergedAnnotations.from(method);
                    MergedAnnotation<OncePer> oncePer = all.get(OncePer.class);
                    if (!all.isPresent(Locked.class) && !oncePer.isPresent()) {
                        return;
                    }
                    Target target = new Target(type, method, method, beans);
                    int modifiers = method.getModifiers();
                    if (Modifier.isPrivate(modifiers) || Modifier.isStatic(modifiers)) {
                        throw wrong(target, "no other bean can call it: it is private or static", null);
                    }
                    if (overridden && Modifier.isFinal(modifiers)) {
                        throw wrong(target, "it is final, and so no proxy can lock around it", null);
                    }
                    if (oncePer.isPresent() && oncePer.getString("name").isEmpty()) {
                        List<Class<?>> parameters = List.of(method.getParameterTypes());
                        // In a super class, it may be the same method.
                        if (!jobs.computeIfAbsent(method.getName(), name -> parameters)
                                .equals(parameters)) {
                            throw wrong(
                                    target,
                                    "another @OncePer method has its name: name the locks",
                                    null);
                        }
                    }
                });
    }

    static IllegalStateException wrong(Target target, String message, Exception cause) {
        String what =
                MergedAnnotations.from(target.declared()).isPresent(OncePer.class)
                        ? "@OncePer"
                        : "@Locked";
        return new IllegalStateException(what + " on " + target + ": " + message, cause);
    }
}
