package io.holdfast.spring;

import static io.holdfast.spring.Application.client;
import static io.holdfast.spring.Application.elsewhere;
import static io.holdfast.spring.Application.join;
import static io.holdfast.spring.Application.start;
import static io.holdfast.spring.Application.unique;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.LockLostException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.dao.ConcurrencyFailureException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionTemplate;

/** What a late holder writes is refused, in real databases. */
final class FencesTest {
    @Transactional
    static class Shop {
        private final Fences fences;
        private final JdbcClient jdbc;

        Shop(Fences fences, JdbcClient jdbc) {
            this.fences = fences;
            this.jdbc = jdbc;
        }

        /** With a lease that nothing renews. */
        @Locked(name = "#{#lock}", lease = "300ms", renew = false)
        public void sell(String lock, int stock, Runnable pause) {
            pause.run();
            fences.guard();
            jdbc.sql("update item set stock = ?").param(stock).update();
        }
    }

    private static final Map<String, ConfigurableApplicationContext> APPLICATIONS = new HashMap<>();

    private ConfigurableApplicationContext application;
    private Fences fences;
    private JdbcClient jdbc;

    private void open(String database) {
        application =
                APPLICATIONS.computeIfAbsent(
                        database, each -> start(Databases.properties(each), Shop.class));
        fences = application.getBean(Fences.class);
        jdbc = application.getBean(JdbcClient.class);
        String name = database.equals("mariadb") ? "varbinary(255)" : "varchar(255)";
        jdbc.sql("drop table if exists holdfast_fence").update();
        jdbc.sql(
                        "create table holdfast_fence (name %s primary key, fence bigint not null)"
                                .formatted(name))
                .update();
        jdbc.sql("drop table if exists item").update();
        jdbc.sql("create table item (stock int, log varchar(9999))").update();
        jdbc.sql("insert into item values (10, '')").update();
    }

    @AfterAll
    static void close() {
        APPLICATIONS.values().forEach(ConfigurableApplicationContext::close);
    }

    private TransactionTemplate transaction(int isolation) {
        var made = new TransactionTemplate(application.getBean(PlatformTransactionManager.class));
        made.setIsolationLevel(isolation);
        return made;
    }

    private void inTransaction(Runnable work) {
        transaction(TransactionDefinition.ISOLATION_DEFAULT).executeWithoutResult(status -> work.run());
    }

    private int stock() {
        return jdbc.sql("select stock from item").query(Integer.class).single();
    }

    @ParameterizedTest
    @ValueSource(strings = {"postgresql", "mariadb", "h2"})
    void aHolderThatWasPausedPastItsLeaseCannotWrite(String database) throws Exception {
        open(database);
        Shop shop = application.getBean(Shop.class);
        String lock = unique();
        CountDownLatch held = new CountDownLatch(1);
        CountDownLatch resumed = new CountDownLatch(1);
        FutureTask<Void> late =
                elsewhere(
                        () -> {
                            shop.sell(lock, 1, () -> pause(held, resumed));
                            return null;
                        });
        held.await();
        try {
            shop.sell(lock, 9, () -> {}); // it waits for the end of the lease
        } catch (LockLostException slow) { // after the commit: the machine was slow
            assertEquals(9, stock());
        }
        resumed.countDown();
        StaleFenceException refused = assertThrows(StaleFenceException.class, () -> join(late));
        assertEquals(lock, refused.name());
        assertTrue(refused.fence() < refused.last());
        assertEquals(9, stock());
    }

    private static void pause(CountDownLatch reached, CountDownLatch resumed) {
        reached.countDown();
        try {
            resumed.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"postgresql", "mariadb", "h2"})
    void anErrorNamesBothFencesAndRollsBack(String database) {
        open(database);
        inTransaction(
                () -> {
                    fences.guard("stock", 42);
                    fences.guard("stock", 42);
                    fences.guard("other", 1);
                });
        inTransaction(() -> fences.guard("stock", 42));
        StaleFenceException refused =
                assertThrows(
                        StaleFenceException.class,
                        () ->
                                inTransaction(
                                        () -> {
                                            jdbc.sql("update item set stock = 1").update();
                                            fences.guard("stock", 41);
                                        }));
        assertEquals(
                "the fence 41 of 'stock' is stale: a later holder was there with the fence 42."
                        + " Stop: the lock is no longer yours",
                refused.getMessage());
        assertEquals(10, stock());
        inTransaction(() -> fences.guard("Stock", 1));
    }

    @ParameterizedTest
    @CsvSource({
        "postgresql, 2",
        "postgresql, 4",
        "postgresql, 8",
        "mariadb, 2",
        "mariadb, 4",
        "mariadb, 8",
        "h2, 2",
        "h2, 8"
    })
    void writersAtOnceLoseNothingAndComeInTheOrderOfTheirFences(String database, int isolation)
            throws Exception {
        open(database);
        List<Integer> all = IntStream.rangeClosed(1, 40).boxed().collect(Collectors.toList());
        Collections.shuffle(all, new Random(isolation));
        Iterator<Integer> left = all.iterator();
        Set<Integer> written = new ConcurrentSkipListSet<>();
        Set<Integer> refused = new ConcurrentSkipListSet<>();
        TransactionTemplate transaction = transaction(isolation);
        Consumer<Integer> write =
                fence ->
                        transaction.executeWithoutResult(
                                status -> {
                                    fences.guard("stock", fence);
                                    String log = log() + " " + fence;
                                    jdbc.sql("update item set log = ?").param(log).update();
                                });
        List<FutureTask<Void>> workers = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            workers.add(
                    elsewhere(
                            () -> {
                                for (Integer fence = next(left); fence != null; ) {
                                    try {
                                        write.accept(fence);
                                        written.add(fence);
                                    } catch (StaleFenceException late) {
                                        refused.add(fence);
                                    } catch (ConcurrencyFailureException again) {
                                        continue;
                                    }
                                    fence = next(left);
                                }
                                return null;
                            }));
        }
        for (FutureTask<Void> each : workers) {
            join(each);
        }
        String log = log().strip();
        String ordered = written.stream().map(String::valueOf).collect(Collectors.joining(" "));
        assertEquals(ordered, log, "a write is lost, or came after a later holder's");
        Set<Integer> both = new TreeSet<>(written);
        both.addAll(refused);
        assertEquals(40, both.size());
        assertTrue(written.contains(40) && !refused.isEmpty());
    }

    private String log() {
        return jdbc.sql("select log from item").query(String.class).single();
    }

    private static Integer next(Iterator<Integer> left) {
        synchronized (left) {
            return left.hasNext() ? left.next() : null;
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"postgresql", "mariadb"})
    void aSnapshotFromBeforeTheLaterHolderHidesNoFence(String database) throws Exception {
        open(database);
        inTransaction(() -> fences.guard("stock", 1));
        Exception refused =
                assertThrows(
                        RuntimeException.class,
                        () ->
                                transaction(TransactionDefinition.ISOLATION_REPEATABLE_READ)
                                        .executeWithoutResult(
                                                status -> {
                                                    stock();
                                                    later();
                                                    fences.guard("stock", 41);
                                                }));
        assertTrue(
                refused instanceof StaleFenceException
                        || refused instanceof ConcurrencyFailureException,
                refused::toString);
    }

    private void later() {
        try {
            join(
                    elsewhere(
                            () -> {
                                inTransaction(() -> fences.guard("stock", 42));
                                return null;
                            }));
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void withoutATransactionOrAHoldItIsRefused() {
        open("h2");
        String said =
                assertThrows(IllegalStateException.class, () -> fences.guard("stock", 42))
                        .getMessage();
        assertTrue(said.contains("needs a transaction") && said.contains("@Transactional"), said);
        said =
                assertThrows(IllegalStateException.class, () -> inTransaction(() -> fences.guard()))
                        .getMessage();
        assertTrue(said.contains("no @Locked method"), said);
        Fences elsewhere = new Fences(other());
        assertThrows(
                IllegalStateException.class, () -> inTransaction(() -> elsewhere.guard("stock", 42)));
        assertFalse(client(application).lock("stock").isLocked());
    }

    private javax.sql.DataSource other() {
        return new org.springframework.jdbc.datasource.DriverManagerDataSource(
                "jdbc:h2:mem:" + unique().replace(':', '_'));
    }

    @Test
    void wrongArgumentsAreRefused() {
        open("h2");
        Map<String, Runnable> wrong =
                Map.of(
                        "the name must have 1 to 255 bytes as UTF-8, not 0",
                        () -> fences.guard("", 42),
                        "the name must have 1 to 255 bytes as UTF-8, not 256",
                        () -> fences.guard("ä".repeat(128), 42),
                        "the fence must be positive, as Hold.fence() is, not 0",
                        () -> fences.guard("stock", 0),
                        "the table must have a name of letters, digits and '_', not 'a b'",
                        () -> new Fences(other(), "a b"));
        wrong.forEach(
                (message, work) ->
                        assertEquals(
                                message,
                                assertThrows(IllegalArgumentException.class, work::run)
                                        .getMessage()));
        jdbc.sql("drop table if exists other_fence").update();
        jdbc.sql("create table other_fence (name varchar(255) primary key, fence bigint)").update();
        Fences others =
                new Fences(application.getBean(javax.sql.DataSource.class), "public.other_fence");
        inTransaction(() -> others.guard("stock", 42));
        assertThrows(
                StaleFenceException.class, () -> inTransaction(() -> others.guard("stock", 41)));
    }
}
