package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import java.lang.reflect.Proxy;
import org.springframework.aop.Advisor;
import org.springframework.aop.framework.Advised;
import org.springframework.aop.framework.AopConfigException;
import org.springframework.aop.framework.AopInfrastructureBean;
import org.springframework.aop.framework.ProxyFactory;
import org.springframework.aop.framework.autoproxy.AbstractBeanFactoryAwareAdvisingPostProcessor;
import org.springframework.aop.interceptor.AsyncExecutionInterceptor;
import org.springframework.aop.support.AopUtils;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.util.ClassUtils;

/**
 * Puts a proxy around each bean that has a {@link Locked} or {@link OncePer} method. The proxy's advice
 * runs before all advice that the bean already has, such as {@code @Transactional}, and after {@code
 * @Async}, whose thread must have the lock.
 */
@SuppressWarnings("serial") // as its super class: it is not serialized
final class LockedBeans extends AbstractBeanFactoryAwareAdvisingPostProcessor
        implements SmartInitializingSingleton {
    private ConfigurableListableBeanFactory beans;
    private Advices advices;

    LockedBeans(boolean proxyTargetClass) {
        setProxyTargetClass(proxyTargetClass);
        setBeforeExistingAdvisors(true);
        setOrder(LOWEST_PRECEDENCE - 1); // just before the processor of @Async, unless that has an order
    }

    @Override
    public void setBeanFactory(BeanFactory factory) {
        super.setBeanFactory(factory);
        beans = (ConfigurableListableBeanFactory) factory;
        advices = new Advices(beans);
        advisor = new DefaultPointcutAdvisor(advices, advices);
    }

    @Override
    public Object postProcessAfterInitialization(Object bean, String name) {
        if (bean instanceof AopInfrastructureBean) {
            return bean;
        }
        Class<?> type = AopUtils.getTargetClass(bean);
        if (!isEligible(type)) {
            return adviseInterfaces(bean, name);
        }
        Object proxy;
        try {
            proxy = super.postProcessAfterInitialization(bean, name);
        } catch (AopConfigException e) {
            throw new IllegalStateException(
                    type.getTypeName()
                            + " has @Locked or @OncePer methods, and no proxy can stand in its place."
                            + " Is it final or private? "
                            + e.getMessage(),
                    e);
        }
        advices.checkMethods(type, AopUtils.isCglibProxy(proxy));
        if (proxy instanceof Advised advised) {
            putAsyncInFront(advised);
        }
        closeBeforeTheClient(name);
        return proxy;
    }

    /** Uses interfaces where no class can be extended: another proxy, such as an HTTP interface, or a lambda. */
    @Override
    protected ProxyFactory prepareProxyFactory(Object bean, String name) {
        ProxyFactory factory = super.prepareProxyFactory(bean, name);
        if (Proxy.isProxyClass(bean.getClass()) || ClassUtils.isLambdaClass(bean.getClass())) {
            factory.setProxyTargetClass(false);
        }
        return factory;
    }

    /** Advises a proxy whose target does not implement the annotated interface, such as a repository. */
    private Object adviseInterfaces(Object bean, String name) {
        if (bean instanceof Advised advised && !advised.isFrozen()) {
            for (Class<?> face : advised.getProxiedInterfaces()) {
                if (isEligible(face)) {
                    advised.addAdvisor(0, advisor);
                    putAsyncInFront(advised);
                    closeBeforeTheClient(name);
                    break;
                }
            }
        }
        return bean;
    }

    private static void putAsyncInFront(Advised advised) {
        for (Advisor each : advised.getAdvisors()) {
            if (each.getAdvice() instanceof AsyncExecutionInterceptor) {
                advised.removeAdvisor(each);
                advised.addAdvisor(0, each);
            }
        }
    }

    /** Lets the bean end before the client, which its last calls need, for example in @PreDestroy. */
    private void closeBeforeTheClient(String name) {
        for (String client : beans.getBeanNamesForType(HoldfastClient.class, true, false)) {
            if (!client.equals(name)) {
                beans.registerDependentBean(client, name);
            }
        }
    }

    @Override
    public void afterSingletonsInstantiated() {
        advices.check();
    }
}
