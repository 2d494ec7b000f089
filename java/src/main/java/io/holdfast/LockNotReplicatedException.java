package io.holdfast;

/** Too few replicas had the lock in time. It was released again, and nothing is held. */
public final class LockNotReplicatedException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /** How many replicas had it. */
    private final long reached;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     * @param reached how many replicas had it
     */
    public LockNotReplicatedException(String message, long reached) {
        super(message);
        this.reached = reached;
    }

    /**
     * How many replicas had it.
     *
     * @return fewer than {@link LockOptions#replicas} asked for
     */
    public long reached() {
        return reached;
    }
}
