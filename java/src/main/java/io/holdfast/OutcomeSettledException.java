package io.holdfast;

/** The call is done, or has been settled before. Nothing was changed. */
public final class OutcomeSettledException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what is settled
     */
    public OutcomeSettledException(String message) {
        super(message);
    }
}
