package io.holdfast;

/**
 * A connection failed before the answer arrived, and could not be restored in time: the server may
 * or may not have carried out the request.
 *
 * <p>After an acquire, do not enter: the lock may be held, unknown to any caller, until its
 * lease ends. After a release, the hold ends with its lease at the latest.
 */
public final class LockUnknownException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     */
    public LockUnknownException(String message) {
        super(message);
    }
}
