package io.holdfast.spring;

import jakarta.persistence.PrePersist;
import jakarta.persistence.PreRemove;
import jakarta.persistence.PreUpdate;

/**
 * Checks the fence whenever JPA writes an entity, and refuses writes without a lock.
 *
 * <pre>{@code
 * @Entity
 * @EntityListeners(FenceListener.class)
 * public class Item { ... }
 * }</pre>
 *
 * <p>Before an entity is inserted, updated or deleted, {@link Fences#guard()} refuses a late
 * holder, in the same transaction. This happens when JPA flushes, so data that the transaction has read
 * may be out of date: give the entity a {@code @Version}, read it with {@code PESSIMISTIC_WRITE}, or call
 * {@link Fences#guard()} first. Bulk statements of JPQL and SQL bypass the listeners.
 */
public final class FenceListener {
    private final Fences fences;

    /**
     * For Spring.
     *
     * @param fences the fences of the entities' database
     */
    public FenceListener(Fences fences) {
        this.fences = fences;
    }

    /**
     * Checks the fence; JPA calls it before it writes.
     *
     * @param entity the entity to be written
     * @throws StaleFenceException if a later holder has registered its fence
     * @throws IllegalStateException if this thread runs no {@link Locked} method
     */
    @PrePersist
    @PreUpdate
    @PreRemove
    void guard(Object entity) {
        if (!CurrentHold.exists()) {
            throw new IllegalStateException(
                    entity.getClass().getName()
                            + " is written without a lock: it has a FenceListener, so only a @Locked"
                            + " method that was called from another bean may write it");
        }
        fences.guard();
    }
}
