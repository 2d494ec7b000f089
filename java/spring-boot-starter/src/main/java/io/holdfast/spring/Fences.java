package io.holdfast.spring;

import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Objects;
import java.util.regex.Pattern;
import javax.sql.DataSource;
import org.springframework.dao.ConcurrencyFailureException;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.dao.support.DataAccessUtils;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Fence checks in a database: a holder that was paused for longer than its lease cannot write.
 *
 * <pre>{@code
 * @Locked("item:#{#id}")
 * @Transactional
 * public void sell(long id) {
 *     fences.guard(); // first, before anything is read
 *     jdbc.sql("update item set stock = stock - 1 where id = ?").param(id).update();
 * }
 * }</pre>
 *
 * <p>The greatest fence of each name is kept in a table of the database that has the data:
 *
 * <pre>{@code
 * CREATE TABLE holdfast_fence (name VARCHAR(255) PRIMARY KEY, fence BIGINT NOT NULL)
 * }</pre>
 *
 * <p>On MySQL and MariaDB the name is a {@code VARBINARY(255)}, so that upper and lower case
 * differ. Works in the transactions of {@code JdbcTemplate}, {@code JdbcClient} and JPA. Any
 * thread may use it.
 */
public final class Fences {
    /** The default table: {@value}. */
    public static final String TABLE = "holdfast_fence";

    private static final int LONGEST = 255;
    private static final Pattern NAME = Pattern.compile("[A-Za-z_]\\w*(\\.[A-Za-z_]\\w*)?");

    private final JdbcTemplate jdbc;
    private final String table;
    private volatile Dialect dialect;

    private enum Dialect {
        POSTGRESQL,
        MYSQL,
        ANY
    }

    /**
     * Keeps the fences in the table {@value #TABLE}.
     *
     * @param database the database of the transactions
     */
    public Fences(DataSource database) {
        this(database, TABLE);
    }

    /**
     * Keeps the fences in a table of another name.
     *
     * @param database the database of the transactions
     * @param table its name, perhaps with a schema: letters, digits and {@code _}
     * @throws IllegalArgumentException if the name has other characters
     */
    public Fences(DataSource database, String table) {
        if (!NAME.matcher(table).matches()) {
            throw new IllegalArgumentException(
                    "the table must have a name of letters, digits and '_', not '" + table + "'");
        }
        this.jdbc = new JdbcTemplate(database);
        this.table = table;
    }

    /**
     * Guards the lock's name for the innermost {@link Locked} method: refuses this transaction if a later
     * holder has registered its fence, and from now on every transaction of an earlier holder.
     *
     * @throws StaleFenceException if a later holder has registered its fence
     * @throws IllegalStateException if this thread runs no such method, or has no transaction
     */
    public void guard() {
        guard(CurrentHold.name(), CurrentHold.get().fence());
    }

    /**
     * Refuses this transaction if a later holder has registered its fence, and from now on every transaction
     * of an earlier holder. Call it first in the transaction, before anything is read: from then on
     * until the transaction ends, other callers with this name wait for it. You may call it again with the
     * same fence.
     *
     * @param name the guarded resource, usually the lock's name: 1 to 255 bytes in UTF-8. Fences of
     *     different locks cannot be compared, so use each name under one lock only
     * @param fence the hold's fence
     * @throws StaleFenceException if a later holder has registered its fence: let the transaction roll back, and
     *     stop
     * @throws IllegalArgumentException if the name or the fence is wrong
     * @throws IllegalStateException if there is no transaction
     * @throws org.springframework.dao.DataAccessException if the database failed, or the transaction
     *     must be run again
     */
    public void guard(String name, long fence) {
        Objects.requireNonNull(name, "the name is null");
        int length = name.getBytes(StandardCharsets.UTF_8).length;
        if (length == 0 || length > LONGEST) {
            throw new IllegalArgumentException(
                    "the name must have 1 to " + LONGEST + " bytes as UTF-8, not " + length);
        }
        if (fence <= 0) {
            throw new IllegalArgumentException(
                    "the fence must be positive, as Hold.fence() is, not " + fence);
        }
        Dialect known = inTransaction();
        long last =
                switch (known) {
                    case POSTGRESQL -> postgresql(name, fence);
                    case MYSQL -> mysql(name, fence);
                    case ANY -> any(name, fence);
                };
        if (last > fence) {
            throw new StaleFenceException(name, fence, last);
        }
    }

    // Each of these registers the fence and locks the row, even if the row does not change, and reads the
    // last fence.

    private long postgresql(String name, long fence) {
        return one(
                "insert into %s as known (name, fence) values (?, ?) on conflict (name) do update"
                        + " set fence = greatest(known.fence, excluded.fence) returning fence",
                name,
                fence);
    }

    private long mysql(String name, long fence) {
        update(
                "insert into %s (name, fence) values (?, ?)"
                        + " on duplicate key update fence = greatest(fence, values(fence))",
                name,
                fence);
        // A plain select would read from the transaction's snapshot, which may be older.
        return one("select fence from %s where name = ? for update", name);
    }

    private long any(String name, long fence) {
        String register =
                "update %s set fence = case when fence < ? then ? else fence end where name = ?";
        if (update(register, fence, fence, name) == 0) {
            try {
                update("insert into %s (name, fence) values (?, ?)", name, fence);
            } catch (DuplicateKeyException another) { // another holder was faster
                if (update(register, fence, fence, name) == 0) { // this snapshot lacks that row
                    throw new ConcurrencyFailureException(
                            "another transaction was the first with the name '%s': run this one again"
                                    .formatted(name),
                            another);
                }
            }
        }
        return one("select fence from %s where name = ?", name);
    }

    private int update(String statement, Object... values) {
        return jdbc.update(statement.formatted(table), values);
    }

    private long one(String query, Object... values) {
        return DataAccessUtils.nullableSingleResult(
                jdbc.queryForList(query.formatted(table), Long.class, values));
    }

    /** Refuses a connection without a transaction; returns the kind of database. */
    private Dialect inTransaction() {
        ConnectionCallback<Dialect> look =
                connection -> {
                    if (connection.getAutoCommit()) {
                        return null;
                    }
                    if (dialect == null) {
                        dialect = dialect(connection);
                    }
                    return dialect;
                };
        Dialect known =
                TransactionSynchronizationManager.isActualTransactionActive()
                        ? jdbc.execute(look)
                        : null;
        if (known == null) {
            throw new IllegalStateException(
                    "guard() needs a transaction of this database: without one an older holder could"
                            + " write between the guard and your write. Is @Transactional missing, or"
                            + " does its transaction manager have another DataSource?");
        }
        return known;
    }

    private static Dialect dialect(Connection connection) throws SQLException {
        return switch (connection.getMetaData().getDatabaseProductName()) {
            case "PostgreSQL" -> Dialect.POSTGRESQL;
            case "MySQL", "MariaDB" -> Dialect.MYSQL;
            default -> Dialect.ANY;
        };
    }
}
