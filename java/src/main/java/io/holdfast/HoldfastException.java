package io.holdfast;

/** Something failed outside of this program: the network, the server, or another holder. */
public class HoldfastException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public HoldfastException(String message) {
        super(message);
    }
}
