package io.holdfast.spring;

import io.holdfast.LockHolder;
import io.holdfast.LockTimeoutException;
import java.time.Duration;
import java.util.List;

/** Other owners kept the lock of a {@link Locked} method for the whole timeout; it was not called. */
public final class LockBusyException extends LockTimeoutException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace Holdfast's advice.
     *
     * @param message what went wrong
     * @param name the lock's name, with the values of its expressions
     * @param waited how long the call waited
     * @param holders the holders of the lock a moment later
     */
    public LockBusyException(
            String message, String name, Duration waited, List<LockHolder> holders) {
        super(message, name, waited, () -> List.copyOf(holders));
    }
}
