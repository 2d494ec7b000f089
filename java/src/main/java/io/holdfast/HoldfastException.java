package io.holdfast;

/** Something failed outside of this program: the network, the server, or another holder. */
public class HoldfastException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /**
     * For those who put something else in a client's place.
     *
     * @param message what went wrong
     */
    public HoldfastException(String message) {
        super(message);
    }
}
