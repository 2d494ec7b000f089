package io.holdfast;

/** Something failed outside this program: the network, the server, or another holder. */
public class HoldfastException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     */
    public HoldfastException(String message) {
        super(message);
    }
}
