package io.holdfast.spring;

import jakarta.persistence.PrePersist;
import jakarta.persistence.PreRemove;
import jakarta.persistence.PreUpdate;

/**
 * Checks the fence whenever JPA writes an entity, and lets no code write it without a lock.
 *
 * <pre>{@code
 * @Entity
 * @EntityListeners(FenceListener.class)
 * public class Item { ... }
 * }</pre>
 *
 * <p>Before an entity is inserted, updated or deleted, {@link Fences#guard()} refuses a late
 * holder, in the same transaction. That is when JPA flushes, so what the transaction read before
 * may be out of date: give the entity a {@code @Version}, read it with {@code PESSIMISTIC_WRITE}, or call
 * {@link Fences#guard()} first. Bulk statements of JPQL and SQL write without listeners.
 */
public final class FenceListener {
    private final Fences fences;

    /**
     * Spring makes it.
     *
     * @param fences of the entities' database
     */
    public FenceListener(Fences fences) {
        this.fences = fences;
    }

    /**
     * JPA calls it before it writes.
     *
     * @param entity the entity that is written
     * @throws StaleFenceException if a later holder was here
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
