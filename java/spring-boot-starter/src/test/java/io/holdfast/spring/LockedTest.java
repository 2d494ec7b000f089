package io.holdfast.spring;

import static io.holdfast.spring.Application.client;
import static io.holdfast.spring.Application.elsewhere;
import static io.holdfast.spring.Application.join;
import static io.holdfast.spring.Application.refusal;
import static io.holdfast.spring.Application.start;
import static io.holdfast.spring.Application.unique;
import static io.holdfast.spring.Application.until;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.Hold;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastException;
import io.holdfast.HoldfastLock;
import io.holdfast.LimitDiffersException;
import io.holdfast.LockDeadlockException;
import io.holdfast.LockHolder;
import io.holdfast.LockLostException;
import io.holdfast.Origin;
import java.io.IOException;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.function.BooleanSupplier;
import org.aopalliance.intercept.MethodInterceptor;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.aop.framework.ProxyFactory;
import org.springframework.aop.support.AopUtils;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;

/** Methods under a lock, in real applications. */
final class LockedTest {
    /** What a caller names an order by. */
    record Order(String id, Object detail) {}

    /** A bean like those of users. */
    static class Orders {
        private final HoldfastClient client;
        private final More more;

        Orders(HoldfastClient client, More more) {
            this.client = client;
            this.more = more;
        }

        public String getRegion() {
            return "north";
        }

        @Locked("#{#name}")
        public <T> T run(String name, Callable<T> work) throws Exception {
            return work.call();
        }

        @Locked(name = "#{#name}", timeout = "0")
        public <T> T tryToRun(String name, Callable<T> work) throws Exception {
            return work.call();
        }

        @Locked(name = "#{#name}", timeout = "${patience}")
        public void patiently(String name) {}

        @Locked(name = "#{#name}")
        public void forEver(String name) {}

        @Locked(name = "#{#name}", lease = "${short.lease}", renew = false)
        public void shortly(String name, Runnable work) {
            work.run();
        }

        @Locked(name = "#{#name}", lease = "4s")
        public void renewed(String name, Runnable work) {
            work.run();
        }

        @Locked(name = "#{#name}", atLeast = "10m", timeout = "0")
        public void atLeast(String name) throws IOException {
            throw new IOException("kept all the same");
        }

        @Locked(name = "#{#name}", atLeast = "10m", timeout = "0")
        public void longKept(String name, Runnable work) {
            work.run();
        }

        @Locked(name = "#{#name}", atLeast = "1s", timeout = "0")
        public void brieflyKept(String name, Runnable work) {
            work.run();
        }

        @Locked(name = "#{#name}", shared = true, permits = 2, timeout = "0")
        public void shared(String name, Runnable work) {
            work.run();
        }

        @Locked(name = "#{#name}", shared = true, permits = 5, weight = 3, timeout = "0")
        public void heavy(String name, Runnable work) {
            work.run();
        }

        @Locked(name = "#{#name}", ahead = "1m", timeout = "50s")
        public void urgent(String name, Runnable work) {
            work.run();
        }

        @Locked(name = "#{#name}", shared = true, weight = 2, timeout = "0")
        public void stored(String name, Runnable work) {
            work.run();
        }

        @Locked("${prefix}:#{region}:#{#order.id}:#{#p1}:#{@suffix}")
        public boolean named(Order order, int number) {
            return client.lock("orders:north:" + order.id() + ":7:end").isLocked();
        }

        @Locked("user:#{#user}")
        public boolean ofUser(String user) {
            return client.lock("user:a%7Db:%68f1:q").isLocked();
        }

        @Locked("#{#order.detail}")
        public void bad(Order order) {}

        @Locked("#{#order.detail.size}")
        public void badProperty(Order order) {}

        @Locked("#{#name}")
        public long fence(String name) {
            Hold mine = CurrentHold.get();
            long nested = more.nested(name);
            assertSame(mine, CurrentHold.get());
            assertEquals(mine.fence(), nested);
            return nested;
        }

        public void toItself(String name) {
            fence(name);
        }
    }

    interface Nested {
        @Locked("another name")
        long nested(String name);
    }

    /** Another bean. Its own annotation counts, and not that of the interface. */
    static class More implements Nested {
        @Override
        @Locked("#{#name}")
        public long nested(String name) {
            return CurrentHold.get().fence();
        }
    }

    static class Suffix {
        @Bean
        String suffix() {
            return "end";
        }
    }

    private static final Map<String, Object> PROPERTIES =
            Map.of("patience", "50ms", "short.lease", "100ms", "prefix", "orders");

    private static ConfigurableApplicationContext shop;
    private static ConfigurableApplicationContext another;

    @BeforeAll
    static void open() {
        shop =
                start(
                        PROPERTIES,
                        Orders.class,
                        More.class,
                        Suffix.class,
                        OpenStock.class,
                        Repositories.class,
                        Interfaces.class);
        another = start(PROPERTIES, Orders.class, More.class, Suffix.class);
    }

    @AfterAll
    static void close() {
        shop.close();
        another.close();
    }

    /** Holds the lock in that application until it is told to end. */
    private static FutureTask<Void> hold(Orders orders, String name, CountDownLatch end)
            throws InterruptedException {
        CountDownLatch held = new CountDownLatch(1);
        FutureTask<Void> holding =
                elsewhere(
                        () ->
                                orders.run(
                                        name,
                                        () -> {
                                            held.countDown();
                                            end.await();
                                            return null;
                                        }));
        held.await();
        return holding;
    }

    @Test
    void twoApplicationsExcludeEachOther() throws Exception {
        String name = unique();
        CountDownLatch end = new CountDownLatch(1);
        FutureTask<Void> holding = hold(shop.getBean(Orders.class), name, end);
        Orders orders = another.getBean(Orders.class);

        LockBusyException busy =
                assertThrows(LockBusyException.class, () -> orders.tryToRun(name, () -> null));
        assertEquals(name, busy.name());
        Origin holder = busy.holders().get(0).origin().orElseThrow();
        assertEquals(ProcessHandle.current().pid(), holder.pid());
        String said = busy.getMessage();
        assertTrue(said.contains("Orders.tryToRun(String, Callable)"), said);
        assertTrue(said.contains("process " + holder.pid() + " on " + holder.host()), said);
        busy = assertThrows(LockBusyException.class, () -> orders.patiently(name));
        assertTrue(busy.getMessage().contains("\"" + name + "\" was not free within 0.05 s; held by"));

        FutureTask<String> next = elsewhere(() -> orders.run(name, () -> "mine"));
        until(() -> client(another).lock(name).inspect().waiters() == 1);
        end.countDown();
        join(holding);
        assertEquals("mine", join(next));
        assertFalse(client(shop).lock(name).isLocked());
    }

    @Test
    void whatTheMethodThrowsComesOutAndTheLockIsFree() {
        String name = unique();
        IOException thrown = new IOException("the method's");
        Orders orders = shop.getBean(Orders.class);
        Callable<Object> failing =
                () -> {
                    assertTrue(client(shop).lock(name).isLocked());
                    throw thrown;
                };
        assertSame(thrown, assertThrows(IOException.class, () -> orders.run(name, failing)));
        assertFalse(client(shop).lock(name).isLocked());
    }

    @Test
    void aThreadMayEnterAgainAndEachMethodKnowsItsHold() {
        Orders orders = shop.getBean(Orders.class);
        assertTrue(orders.fence(unique()) > 0);
        var none = assertThrows(IllegalStateException.class, CurrentHold::get);
        assertTrue(none.getMessage().contains("@Locked"), none.getMessage());
        assertThrows(IllegalStateException.class, () -> orders.toItself(unique()));
    }

    @Test
    void aMethodMayEndItsHold() {
        String name = unique();
        Orders orders = shop.getBean(Orders.class);
        assertDoesNotThrow(
                () ->
                        orders.run(
                                name,
                                () -> {
                                    CurrentHold.get().keep(Duration.ofMinutes(1));
                                    return null;
                                }));
        assertThrows(LockBusyException.class, () -> orders.tryToRun(name, () -> null));
    }

    @Test
    void aLostLockIsToldAfterTheMethod() throws Exception {
        String name = unique();
        Orders orders = shop.getBean(Orders.class);
        Runnable tooLong = LockedTest::awaitLoss;
        assertThrows(LockLostException.class, () -> orders.shortly(name, tooLong));
        long before = client(shop).stats().all().renewed();
        orders.renewed(name, () -> await(() -> client(shop).stats().all().renewed() > before));
        RuntimeException own = new RuntimeException("the method's");
        Runnable failing =
                () -> {
                    awaitLoss();
                    throw own;
                };
        assertSame(own, assertThrows(own.getClass(), () -> orders.shortly(name, failing)));
        assertInstanceOf(LockLostException.class, own.getSuppressed()[0]);
    }

    private static void awaitLoss() {
        Hold hold = CurrentHold.get();
        await(() -> !hold.isValid());
    }

    private static void await(BooleanSupplier isTrue) {
        try {
            until(isTrue);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void itIsKeptAtLeastForSoLong() {
        String name = unique();
        Orders orders = shop.getBean(Orders.class);
        assertThrows(IOException.class, () -> orders.atLeast(name));
        String told =
                assertThrows(LockBusyException.class, () -> orders.atLeast(name)).getMessage();
        assertTrue(told.contains("; kept by process "), told);
        assertTrue(told.contains(", whose work has ended, for another "), told);
    }

    @Test
    void theLongestAtLeastCountsOfMethodsInEachOther() {
        Orders orders = shop.getBean(Orders.class);
        String outer = unique();
        orders.longKept(outer, () -> orders.brieflyKept(outer, () -> {}));
        String inner = unique();
        orders.brieflyKept(inner, () -> orders.longKept(inner, () -> {}));
        String between = unique();
        orders.longKept(
                between,
                () ->
                        orders.shortly(
                                between, () -> orders.brieflyKept(between, () -> {})));
        for (String name : List.of(outer, inner, between)) {
            assertTrue(
                    client(shop).lock(name).inspect().remaining().toMinutes() >= 8,
                    client(shop).lock(name).inspect().toString());
        }
    }

    @Test
    void asManyAsThePermitsShareIt() {
        String name = unique();
        Orders orders = shop.getBean(Orders.class);
        Callable<Void> third =
                () -> {
                    orders.shared(name, () -> {});
                    return null;
                };
        Callable<Void> second =
                () -> {
                    orders.shared(
                            name,
                            () ->
                                    assertThrows(
                                            LockBusyException.class,
                                            () -> join(elsewhere(third))));
                    return null;
                };
        orders.shared(name, () -> assertDoesNotThrow(() -> join(elsewhere(second))));
    }

    @Test
    void aHeavyCallTakesItsWeight() {
        String name = unique();
        Orders orders = shop.getBean(Orders.class);
        HoldfastClient client = shop.getBean(HoldfastClient.class);
        orders.heavy(
                name,
                () -> {
                    LockHolder holder = client.lock(name).inspect().holders().get(0);
                    assertEquals(3, holder.weight());
                    orders.heavy(name, () -> {}); // nests
                    orders.stored(name, () -> {});
                    assertDoesNotThrow(
                            () ->
                                    join(
                                            elsewhere(
                                                    () ->
                                                            assertThrows(
                                                                    LockBusyException.class,
                                                                    () -> orders.heavy(name, () -> {})))));
                });
    }

    @Test
    void aCallWithAHeadStartWaitsAheadOfOthers() throws Exception {
        String name = unique();
        Orders orders = shop.getBean(Orders.class);
        HoldfastLock lock = shop.getBean(HoldfastClient.class).lock(name);
        CompletableFuture<Hold> other;
        FutureTask<Void> urgent;
        try (Hold held = lock.acquire()) {
            other = lock.acquireAsync();
            until(() -> lock.inspect().queue().size() == 1);
            urgent =
                    elsewhere(
                            () -> {
                                orders.urgent(name, () -> assertFalse(other.isDone()));
                                return null;
                            });
            until(() -> lock.inspect().queue().size() == 2);
            assertTrue(lock.inspect().queue().get(0).waited().toSeconds() >= 60);
        }
        join(urgent);
        other.join().close();
    }

    @Test
    void aWeightFollowsTheStoredLimit() {
        String name = unique();
        Orders orders = shop.getBean(Orders.class);
        HoldfastClient client = shop.getBean(HoldfastClient.class);
        assertThrows(LimitDiffersException.class, () -> orders.stored(name, () -> {}));
        client.limit(name, 4);
        orders.stored(
                name,
                () ->
                        assertThrows(
                                LockDeadlockException.class, () -> orders.heavy(name, () -> {})));
        var differs = assertThrows(LimitDiffersException.class, () -> orders.heavy(name, () -> {}));
        assertTrue(differs.getMessage().contains("4 permits"), differs.getMessage());
    }

    @Test
    void anInterruptEndsTheWait() throws Exception {
        String name = unique();
        Orders orders = shop.getBean(Orders.class);
        CountDownLatch end = new CountDownLatch(1);
        FutureTask<Void> holding = hold(orders, name, end);
        Thread.currentThread().interrupt();
        // It declares Exception, and so gets the exception itself; the other does not.
        assertThrows(InterruptedException.class, () -> orders.run(name, () -> null));
        assertFalse(Thread.currentThread().isInterrupted());
        Thread.currentThread().interrupt();
        var e = assertThrows(HoldfastException.class, () -> orders.forEver(name));
        assertInstanceOf(InterruptedException.class, e.getCause());
        assertTrue(Thread.interrupted());
        assertFalse(e instanceof LockBusyException);
        end.countDown();
        join(holding);
    }

    @Test
    void theNameIsMadeOfWhatTheCallHas() {
        Orders orders = shop.getBean(Orders.class);
        assertTrue(orders.named(new Order("x", null), 7));
        assertTrue(orders.ofUser("a}b:hf1:q"));
    }

    @Test
    void aNameThatIsNoneIsRefused() {
        Orders orders = shop.getBean(Orders.class);
        for (Object detail : new Object[] {null, new Object(), new byte[1], ""}) {
            var e =
                    assertThrows(
                            IllegalArgumentException.class,
                            () -> orders.bad(new Order("x", detail)));
            assertTrue(e.getMessage().contains("Orders.bad(Order)"), e.getMessage());
        }
        var e =
                assertThrows(
                        IllegalArgumentException.class,
                        () -> orders.badProperty(new Order("x", 1)));
        assertTrue(e.getMessage().contains("#{#order.detail.size}"), e.getMessage());
    }

    // ---------------------------------------------------------------- Proxies

    interface Stock {
        long sell(String name);

        @Locked("#{#item}")
        long count(String item);
    }

    static class RealStock implements Stock {
        @Override
        @Locked("#{#name}")
        public final long sell(String name) {
            return CurrentHold.get().fence();
        }

        @Override
        public long count(String otherName) {
            return CurrentHold.get().fence();
        }
    }

    @Test
    void itWorksBehindJdkProxies() {
        try (var application =
                start(Map.of("spring.aop.proxy-target-class", "false"), RealStock.class)) {
            Stock stock = application.getBean(Stock.class);
            assertTrue(AopUtils.isJdkDynamicProxy(stock));
            String name = unique();
            assertTrue(stock.sell(name) < stock.count(name));
        }
    }

    static class OpenStock implements Stock {
        @Override
        @Locked("#{#name}")
        public long sell(String name) {
            return CurrentHold.get().fence();
        }

        @Override
        public long count(String otherName) {
            return CurrentHold.get().fence();
        }
    }

    @Test
    void itWorksBehindProxiesOfClassesWithAnInterface() {
        Stock stock = shop.getBean(OpenStock.class);
        assertTrue(AopUtils.isCglibProxy(stock));
        String name = unique();
        assertTrue(stock.sell(name) < stock.count(name));
    }

    /** As Spring Data does: the target has not the interface's methods. */
    static class Repositories {
        @Bean
        Stock repository() {
            ProxyFactory factory = new ProxyFactory(new Object());
            factory.setInterfaces(Stock.class);
            factory.addAdvice(
                    (MethodInterceptor) call -> CurrentHold.get().fence());
            return (Stock) factory.getProxy();
        }
    }

    @Test
    void itWorksOnTheInterfaceOfARepository() {
        Stock stock = shop.getBean("repository", Stock.class);
        assertTrue(stock.count(unique()) > 0);
    }

    /** As of Spring's HTTP interfaces. */
    static class Interfaces {
        @Bean
        Stock http() {
            return (Stock)
                    Proxy.newProxyInstance(
                            Stock.class.getClassLoader(),
                            new Class<?>[] {Stock.class},
                            (proxy, method, arguments) -> {
                                if (method.getName().equals("hashCode")) { // for Spring's JPA
                                    return System.identityHashCode(proxy);
                                }
                                return CurrentHold.get().fence();
                            });
        }
    }

    @Test
    void itWorksOnAnInterfaceThatHasNoClass() {
        Stock stock = shop.getBean("http", Stock.class);
        assertTrue(stock.count(unique()) > 0);
        assertThrows(IllegalStateException.class, () -> stock.sell(unique()));
    }

    @Test
    void theDefaultsAreTheProperties() throws Exception {
        String name = unique();
        Map<String, Object> properties =
                Map.of(
                        "patience", "1m",
                        "short.lease", "1m",
                        "prefix", "p",
                        "holdfast.lock.timeout", "10ms",
                        "holdfast.lock.renew", "false",
                        "holdfast.lock.lease", "1s");
        try (var application =
                start(properties, Orders.class, More.class, Suffix.class)) {
            Orders orders = application.getBean(Orders.class);
            CountDownLatch end = new CountDownLatch(1);
            FutureTask<Void> holding = hold(orders, name, end);
            assertThrows(
                    LockBusyException.class,
                    () -> {
                        for (;;) { // until the one that holds it, for a second
                            orders.forEver(name);
                            break;
                        }
                    });
            until(() -> !client(application).lock(name).isLocked());
            end.countDown();
            assertThrows(LockLostException.class, () -> join(holding));
        }
    }

    // ------------------------------------------------------------- Mistakes

    static class UnknownParameter {
        @Locked("order:#{#ordr}")
        public void refund(String order) {}
    }

    static class NoParameter {
        @Locked("order:#{#p1}")
        public void refund(String order) {}
    }

    static class Unclosed {
        @Locked("order:#{#order")
        public void refund(String order) {}
    }

    static class NoName {
        @Locked
        public void refund(String order) {}
    }

    static class WrongName {
        @Locked("order:hf1:q")
        public void refund(String order) {}
    }

    static class WrongTime {
        @Locked(name = "order", timeout = "soon")
        public void refund(String order) {}
    }

    static class NegativeTime {
        @Locked(name = "order", timeout = "-1s")
        public void refund(String order) {}
    }

    static class WrongLease {
        @Locked(name = "order", lease = "1ms")
        public void refund(String order) {}
    }

    static class WrongPermits {
        @Locked(name = "order", permits = 3)
        public void refund(String order) {}
    }

    static class WrongWeight {
        @Locked(name = "order", shared = true, permits = 3, weight = 4)
        public void refund(String order) {}
    }

    static class WrongHeadStart {
        @Locked(name = "order", ahead = "61m")
        public void refund(String order) {}
    }

    @Locked("printer")
    @Retention(RetentionPolicy.RUNTIME)
    @interface Printing {}

    @Locked("ledger")
    @Retention(RetentionPolicy.RUNTIME)
    @interface Booking {}

    static class TwoLocks {
        @Printing
        @Booking
        public void refund(String order) {}
    }

    interface Press {
        @Locked("#{#name}")
        long print(String name);
    }

    abstract static class AnyPress implements Press {}

    @Printing
    @Retention(RetentionPolicy.RUNTIME)
    @interface Coloured {}

    static class OnePress extends AnyPress implements Press {
        @Override
        public long print(String name) {
            return CurrentHold.get().fence();
        }

        @Printing
        @Coloured
        public long draft() {
            return CurrentHold.get().fence();
        }
    }

    /** Spring finds the annotation of an interface once for each way to that interface. */
    @Test
    void theSameAnnotationMayBeFoundTwice() {
        try (var application = start(Map.of(), OnePress.class)) {
            OnePress press = application.getBean(OnePress.class);
            assertTrue(press.print(unique()) > 0);
            assertTrue(press.draft() > 0);
        }
    }

    static class Private {
        @Locked("order")
        private void refund(String order) {}
    }

    static class Static {
        @Locked("order")
        public static void refund(String order) {}
    }

    static class FinalMethod {
        @Locked("order")
        public final void refund(String order) {}
    }

    static final class FinalClass {
        @Locked("order")
        public void refund(String order) {}
    }

    static class NoPlaceholder {
        @Locked("${no.such.property}")
        public void refund(String order) {}
    }

    @Test
    void mistakesAreToldAtTheStart() {
        Map<Class<?>, List<String>> mistakes =
                Map.ofEntries(
                        Map.entry(UnknownParameter.class, List.of("#ordr", "parameters order")),
                        Map.entry(NoParameter.class, List.of("#p1")),
                        Map.entry(Unclosed.class, List.of("order:#{#order")),
                        Map.entry(NoName.class, List.of("name is missing")),
                        Map.entry(WrongName.class, List.of("hf1")),
                        Map.entry(WrongTime.class, List.of("timeout", "soon", "5s")),
                        Map.entry(NegativeTime.class, List.of("timeout", "-1s")),
                        Map.entry(WrongLease.class, List.of("lease")),
                        Map.entry(WrongPermits.class, List.of("shared")),
                        Map.entry(WrongWeight.class, List.of("weight is 4")),
                        Map.entry(WrongHeadStart.class, List.of("head start")),
                        Map.entry(TwoLocks.class, List.of("@Locked twice")),
                        Map.entry(Private.class, List.of("private")),
                        Map.entry(Static.class, List.of("static")),
                        Map.entry(FinalMethod.class, List.of("final")),
                        Map.entry(FinalClass.class, List.of("final")),
                        Map.entry(NoPlaceholder.class, List.of("no.such.property")));
        mistakes.forEach(
                (bean, words) -> {
                    String said = refusal(bean);
                    assertTrue(said.contains("LockedTest$" + bean.getSimpleName()), said);
                    assertTrue(bean == FinalClass.class || said.contains("refund(String)"), said);
                    words.forEach(word -> assertTrue(said.contains(word), word + ": " + said));
                });
    }
}
