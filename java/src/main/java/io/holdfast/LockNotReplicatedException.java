package io.holdfast;

/** Too few replicas had the lock in time. It was released again: the caller does not hold it. */
public final class LockNotReplicatedException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /** The number of replicas that had the lock. */
    private final long reached;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     * @param reached the number of replicas that had it
     */
    public LockNotReplicatedException(String message, long reached) {
        super(message);
        this.reached = reached;
    }

    /**
     * The number of replicas that had the lock.
     *
     * @return fewer than {@link LockOptions#replicas} asked for
     */
    public long reached() {
        return reached;
    }
}
