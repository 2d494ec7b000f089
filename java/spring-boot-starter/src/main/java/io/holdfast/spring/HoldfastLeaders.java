package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import io.holdfast.Leader;
import io.holdfast.micrometer.HoldfastObservations;
import io.micrometer.observation.Observation;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.UndeclaredThrowableException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.springframework.aop.framework.autoproxy.AutoProxyUtils;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.context.SmartLifecycle;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.util.ReflectionUtils;

/**
 * The candidates of this application, one for each {@link Leading} method. They stand when the
 * application has started, and resign before its beans are destroyed.
 */
public final class HoldfastLeaders implements SmartInitializingSingleton, SmartLifecycle {
    private final ConfigurableListableBeanFactory beans;
    /** Each makes a candidate, which can be started once. */
    private final Map<String, Supplier<Leader>> makers = new LinkedHashMap<>();

    private final Map<String, Leader> leaders = new ConcurrentHashMap<>();
    /** The name for which the thread leads. */
    private final ThreadLocal<String> leads = new ThreadLocal<>();

    private volatile boolean running;
    private boolean stopped;

    HoldfastLeaders(ConfigurableListableBeanFactory beans) {
        this.beans = beans;
    }

    /**
     * Returns the candidate for a name: it knows whether it leads, and with which fence, and can resign.
     *
     * @param name the annotation's name, with its placeholders replaced
     * @return the candidate
     * @throws IllegalArgumentException if no {@link Leading} method has that name
     */
    public Leader leader(String name) {
        Leader leader = leaders.get(name);
        if (leader == null) {
            throw new IllegalArgumentException(
                    "no @Leading method has the name \"" + name + "\"; there are " + makers.keySet());
        }
        return leader;
    }

    @Override
    public void afterSingletonsInstantiated() {
        for (String name : beans.getBeanDefinitionNames()) {
            Class<?> type = AutoProxyUtils.determineTargetClass(beans, name);
            if (type != null && !type.getName().startsWith("org.springframework.")) {
                MethodIntrospector.selectMethods(
                                type,
                                (MethodIntrospector.MetadataLookup<Leading>)
                                        method ->
                                                AnnotatedElementUtils.findMergedAnnotation(
                                                        method, Leading.class))
                        .forEach(
                                (method, leading) ->
                                        add(name, new Target(type, method, method, beans), leading));
            }
        }
    }

    private void add(String bean, Target candidate, Leading leading) {
        Method method = candidate.method();
        String name = beans.resolveEmbeddedValue(leading.value());
        Class<?>[] parameters = method.getParameterTypes();
        String wrong = null;
        if (parameters.length > 1 || (parameters.length == 1 && parameters[0] != long.class)) {
            wrong = "it takes the fence, a long, or nothing";
        } else if (Returns.tooSoon(candidate)) {
            wrong =
                    "it returns before its work has ended: it is @Async, or its type is "
                            + Returns.returned(candidate);
        } else if (!beans.isSingleton(bean)) {
            wrong = "its bean must be a singleton";
        } else if (makers.containsKey(name)) {
            wrong = "another method leads for \"" + name + "\"";
        }
        if (wrong != null) {
            throw wrong(method, wrong, null);
        }
        Object target = beans.getBean(bean);
        Method invocable = AopUtils.selectInvocableMethod(method, target.getClass());
        ReflectionUtils.makeAccessible(invocable);
        HoldfastClient client = beans.getBean(HoldfastClient.class);
        makers.put(
                name,
                () ->
                        client.leader(
                                name,
                                candidate.time("the lease", leading.lease()),
                                fence -> {
                                    leads.set(name);
                                    observed(name, fence, () -> lead(invocable, target, fence));
                                },
                                () -> {},
                                () -> {}));
        try {
            candidate.refuseTwo(Leading.class);
            leaders.put(name, makers.get(name).get());
        } catch (IllegalArgumentException e) {
            throw wrong(method, e.getMessage(), e);
        }
    }

    private static IllegalStateException wrong(Method method, String why, Exception cause) {
        return new IllegalStateException("@Leading on " + method + ": " + why, cause);
    }

    private void observed(String name, long fence, Runnable term) {
        HoldfastObservations observations = Advices.observations(beans);
        Observation observation = observations.start("lead", name);
        observation.highCardinalityKeyValue("holdfast.fence", Long.toString(fence));
        try {
            observations.during(
                    observation,
                    () -> {
                        term.run();
                        return null;
                    });
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException(e); // a term throws no checked exception
        }
    }

    private static void lead(Method method, Object target, long fence) {
        Object[] arguments = new Object[method.getParameterCount()];
        Arrays.fill(arguments, fence);
        try {
            method.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof InterruptedException) {
                return; // the leadership has ended
            }
            throw new UndeclaredThrowableException(e.getCause(), method + " failed");
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public void start() {
        if (stopped) {
            leaders.replaceAll((name, closed) -> makers.get(name).get());
        }
        leaders.values().forEach(Leader::start);
        running = true;
    }

    @Override
    public void stop() {
        resign().join();
    }

    /** Spring bounds the wait for methods that do not end, and then closes the client, which releases their locks. */
    @Override
    public void stop(Runnable ended) {
        resign().whenComplete((none, failure) -> ended.run());
    }

    private CompletableFuture<Void> resign() {
        running = false;
        stopped = true;
        String own = leads.get(); // its close does not wait for the method that calls this
        return CompletableFuture.allOf(
                leaders.entrySet().stream()
                        .map(
                                each ->
                                        CompletableFuture.runAsync(
                                                each.getValue()::close,
                                                each.getKey().equals(own)
                                                        ? Runnable::run
                                                        : HoldfastLeaders::elsewhere))
                        .toArray(CompletableFuture[]::new));
    }

    private static void elsewhere(Runnable work) {
        Thread thread = new Thread(work, "holdfast-resigns");
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public boolean isRunning() {
        return running;
    }
}
