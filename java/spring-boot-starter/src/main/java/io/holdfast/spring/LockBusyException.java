package io.holdfast.spring;

import io.holdfast.LockHolder;
import io.holdfast.LockTimeoutException;
import java.util.List;

/** Others kept the lock of a {@link Locked} method for the whole timeout; it was not called. */
public final class LockBusyException extends LockTimeoutException {
    private static final long serialVersionUID = 1;

    /** The lock's name. */
    private final String name;

    /** Who held it. */
    private final transient List<LockHolder> holders;

    /**
     * For those who put something else in the place of Holdfast's advice.
     *
     * @param message what went wrong
     * @param name the lock's name
     * @param holders who held it a moment later
     */
    public LockBusyException(String message, String name, List<LockHolder> holders) {
        super(message);
        this.name = name;
        this.holders = List.copyOf(holders);
    }

    /**
     * The lock's name.
     *
     * @return with what its expressions gave
     */
    public String name() {
        return name;
    }

    /**
     * Who held the lock, a moment after the timeout.
     *
     * @return empty if it was free by then, or the server did not tell
     */
    public List<LockHolder> holders() {
        return holders == null ? List.of() : holders;
    }
}
