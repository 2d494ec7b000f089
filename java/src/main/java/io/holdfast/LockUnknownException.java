package io.holdfast;

/**
 * A connection failed with the answer outstanding and could not be restored in time: the request
 * was carried out, or it was not.
 *
 * <p>After an acquire do not enter: the lock may be held, by nobody who knows, until its lease
 * ends. After a release the lock ends with its lease at the latest.
 */
public final class LockUnknownException extends HoldfastException {
    private static final long serialVersionUID = 1;

    LockUnknownException(String message) {
        super(message);
    }
}
