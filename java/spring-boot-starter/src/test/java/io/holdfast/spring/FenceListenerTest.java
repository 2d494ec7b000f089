package io.holdfast.spring;

import static io.holdfast.spring.Application.elsewhere;
import static io.holdfast.spring.Application.join;
import static io.holdfast.spring.Application.said;
import static io.holdfast.spring.Application.unique;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.LockLostException;
import jakarta.persistence.Entity;
import jakarta.persistence.EntityListeners;
import jakarta.persistence.EntityManager;
import jakarta.persistence.Id;
import jakarta.persistence.PersistenceContext;
import jakarta.persistence.Version;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.autoconfigure.domain.EntityScan;
import org.springframework.context.annotation.Configuration;
import org.springframework.transaction.annotation.Transactional;

/** JPA writes no entity of a late holder, and none without a lock. */
final class FenceListenerTest {
    @Entity(name = "Ware")
    @EntityListeners(FenceListener.class)
    static class Item {
        @Id long id;
        int stock;
        @Version int version;

        Item() {}

        Item(long id, int stock) {
            this.id = id;
            this.stock = stock;
        }
    }

    static class Shop {
        @PersistenceContext private EntityManager entities;

        /** With a lease that nothing renews. */
        @Locked(name = "#{#lock}", lease = "300ms", renew = false)
        @Transactional
        public void work(String lock, Consumer<EntityManager> work) {
            work.accept(entities);
        }

        @Transactional
        public void unlocked(Consumer<EntityManager> work) {
            work.accept(entities);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @EntityScan(basePackageClasses = FenceListenerTest.class)
    static class WithEntities {}

    @Test
    void anEntityOfALateHolderIsNotWritten() throws Exception {
        Map<String, Object> properties = new HashMap<>(Databases.properties("postgresql"));
        properties.put("spring.jpa.hibernate.ddl-auto", "create-drop");
        properties.put("spring.jpa.open-in-view", "false");
        try (var application =
                Application.start(WithEntities.class, properties, Shop.class)) {
            var jdbc = application.getBean(org.springframework.jdbc.core.JdbcTemplate.class);
            jdbc.execute("drop table if exists holdfast_fence");
            jdbc.execute(
                    "create table holdfast_fence"
                            + " (name varchar(255) primary key, fence bigint not null)");
            Shop shop = application.getBean(Shop.class);
            String lock = unique();
            Consumer<EntityManager> sell = entities -> entities.find(Item.class, 7L).stock--;

            hurried(() -> shop.work(lock, entities -> entities.persist(new Item(7, 10))));
            assertEquals(10, stock(shop));

            CountDownLatch resumed = new CountDownLatch(1);
            Map<String, Consumer<EntityManager>> lateWork = new HashMap<>();
            lateWork.put("update", sell);
            lateWork.put("remove", entities -> entities.remove(entities.find(Item.class, 7L)));
            lateWork.put("insert", entities -> entities.persist(new Item(8, 1)));
            Map<String, FutureTask<Void>> late = new HashMap<>();
            for (var each : lateWork.entrySet()) {
                CountDownLatch held = new CountDownLatch(1);
                late.put(
                        each.getKey(),
                        elsewhere(
                                () -> {
                                    shop.work(
                                            lock,
                                            entities -> {
                                                held.countDown();
                                                await(resumed);
                                                each.getValue().accept(entities);
                                            });
                                    return null;
                                }));
                held.await(); // in turn: each is paused past its lease, which the next waits for
            }
            hurried(() -> shop.work(lock, sell));
            assertEquals(9, stock(shop));
            resumed.countDown();
            for (var each : late.entrySet()) {
                Exception refused = assertThrows(Exception.class, () -> join(each.getValue()));
                assertTrue(
                        said(refused).contains("a later holder was there with the fence"),
                        () -> each.getKey() + ": " + said(refused));
            }
            assertEquals(9, stock(shop));
            assertEquals(1, jdbc.queryForObject("select count(*) from ware", Integer.class));

            Exception refused = assertThrows(Exception.class, () -> shop.unlocked(sell));
            assertTrue(
                    said(refused).contains("FenceListenerTest$Item is written without a lock"),
                    () -> said(refused));
            assertEquals(9, stock(shop));
            jdbc.execute("drop table holdfast_fence");
        }
    }

    private static int stock(Shop shop) {
        int[] found = new int[1];
        shop.unlocked(entities -> found[0] = entities.find(Item.class, 7L).stock);
        return found[0];
    }

    /** Lets a machine be slow: what is committed stays so if the short lease ended meanwhile. */
    private static void hurried(Runnable work) {
        try {
            work.run();
        } catch (LockLostException slow) {
            assertTrue(slow.getMessage() != null);
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
