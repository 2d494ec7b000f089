package io.holdfast.spring;

import static io.holdfast.spring.Application.start;
import static io.holdfast.spring.Application.unique;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.HoldfastClient;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.aop.framework.AopProxyUtils;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.annotation.EnableTransactionManagement;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** The lock is outside the transaction: what a real database committed is there for the next. */
final class TransactionTest {
    interface Ledger {
        void book(String lock, boolean fail);
    }

    @Transactional
    static class RealLedger implements Ledger {
        private final HoldfastClient client;
        private final JdbcTemplate database;
        private final List<String> ends = new ArrayList<>();

        RealLedger(HoldfastClient client, JdbcTemplate database) {
            this.client = client;
            this.database = database;
        }

        @Override
        @Locked("#{#lock}")
        public void book(String lock, boolean fail) {
            assertTrue(TransactionSynchronizationManager.isActualTransactionActive());
            database.update("insert into booked values (?)", lock);
            TransactionSynchronizationManager.registerSynchronization(
                    new TransactionSynchronization() {
                        @Override
                        public void afterCompletion(int status) {
                            ends.add(
                                    (status == STATUS_COMMITTED ? "committed" : "rolled back")
                                            + (client.lock(lock).isLocked() ? ", locked" : ", free"));
                        }
                    });
            if (fail) {
                throw new IllegalStateException("fails");
            }
        }
    }

    /** Whatever order transactions are given. */
    @EnableTransactionManagement(order = Integer.MIN_VALUE)
    static class First {}

    /** The usual one. */
    static class Usual {}

    @ParameterizedTest
    @ValueSource(classes = {Usual.class, First.class})
    void theTransactionEndsBeforeTheRelease(Class<?> transactions) {
        String lock = unique();
        Map<String, Object> properties =
                Map.of("spring.datasource.url", "jdbc:h2:mem:" + lock.replace(':', '_'));
        try (var application = start(properties, transactions, RealLedger.class)) {
            JdbcTemplate database = application.getBean(JdbcTemplate.class);
            database.execute("create table booked (lock varchar)");
            Ledger ledger = application.getBean(Ledger.class);
            ledger.book(lock, false);
            assertThrows(IllegalStateException.class, () -> ledger.book(lock, true));
            RealLedger real = (RealLedger) AopProxyUtils.getSingletonTarget(ledger);
            assertEquals(List.of("committed, locked", "rolled back, locked"), real.ends);
            assertEquals(
                    1, database.queryForObject("select count(*) from booked", Integer.class));
        }
    }
}
