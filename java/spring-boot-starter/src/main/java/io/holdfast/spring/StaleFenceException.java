package io.holdfast.spring;

import io.holdfast.HoldfastException;

/**
 * A holder with a greater fence has used the resource, which refused this holder. Nothing was written.
 * Stop: the lock is no longer the caller's, and the same fence will be refused again.
 */
public final class StaleFenceException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /** The name of the guarded resource. */
    private final String name;

    /** The refused fence. */
    private final long fence;

    /** The greater fence. */
    private final long last;

    /**
     * For programs that check a fence themselves.
     *
     * @param name the name of the guarded resource
     * @param fence the refused fence
     * @param last the greater fence, seen before
     */
    public StaleFenceException(String name, long fence, long last) {
        super(
                ("the fence %d of '%s' is stale: a later holder was there with the fence %d."
                                + " Stop: the lock is no longer yours")
                        .formatted(fence, name, last));
        this.name = name;
        this.fence = fence;
        this.last = last;
    }

    /**
     * The name of the guarded resource.
     *
     * @return usually the lock's name
     */
    public String name() {
        return name;
    }

    /**
     * The refused fence.
     *
     * @return the fence of the hold that has ended
     */
    public long fence() {
        return fence;
    }

    /**
     * The fence of the later holder.
     *
     * @return greater than {@link #fence()}
     */
    public long last() {
        return last;
    }
}
