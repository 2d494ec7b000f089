package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import io.holdfast.LockOptions;
import io.holdfast.micrometer.HoldfastObservations;
import java.time.Duration;
import java.util.Optional;
import org.aopalliance.intercept.MethodInvocation;

/** Carries out {@link OncePer}, with {@link HoldfastClient#oncePer}. */
final class OncePerAdvice implements Advice {
    private final Target target;
    private final LockName name;
    private final Duration period;
    private final LockOptions options;

    OncePerAdvice(Target target, OncePer annotation, HoldfastProperties.Lock defaults) {
        this.target = target;
        this.options = defaults.options();
        Class<?> result = target.returnType();
        if (result != void.class && result != Void.class && result != Optional.class) {
            throw new IllegalArgumentException(
                    "it must return nothing or an Optional, because on all hosts but one it is not"
                            + " called, and not a "
                            + result.getTypeName());
        }
        String given = target.text(annotation.name());
        this.name = target.name(given.isEmpty() ? target.defaultName() : given);
        this.period = target.time("the period", annotation.period());
        if (period == null) {
            throw new IllegalArgumentException("the period is missing, as in @OncePer(\"1h\")");
        }
    }

    @Override
    public Target target() {
        return target;
    }

    @Override
    public Object invoke(
            MethodInvocation call, HoldfastClient client, HoldfastObservations observations)
            throws Throwable {
        Optional<Object> result;
        String lock = target.nameOf(name, call);
        try {
            result =
                    client.oncePer(
                                    lock,
                                    period,
                                    options,
                                    () ->
                                            observations.during(
                                                    observations.start("hold", lock),
                                                    () -> proceed(call)))
                            .call();
        } catch (InterruptedException e) {
            throw target.interrupted(e);
        }
        return target.returnType() == Optional.class ? result.orElse(Optional.empty()) : null;
    }

    @Override
    public void check(HoldfastClient client) {
        client.oncePer(name.fixed() == null ? "name" : name.fixed(), period, options, () -> {});
    }

    private static Object proceed(MethodInvocation call) throws Exception {
        try {
            return call.proceed();
        } catch (Exception | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e); // a method throws nothing else
        }
    }
}
