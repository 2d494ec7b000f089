package io.holdfast;

/** What a status of the core is in Java. */
final class Status {
    private Status() {}

    /**
     * Called by the JNI library, on the thread whose call failed, with what hf_error_message()
     * said there.
     */
    static void raise(int status, byte[] message) {
        String text = Bytes.text(message);
        switch (status) {
            case Core.HF_EINVAL:
                throw new IllegalArgumentException(text);
            case Core.HF_ENOMEM:
                throw new OutOfMemoryError(text);
            case Core.HF_ENOTHELD:
                throw new LockNotHeldException(text);
            case Core.HF_ELOST:
                throw new LockLostException(text);
            case Core.HF_EUNKNOWN:
                throw new LockUnknownException(text);
            case Core.HF_ECONNECT:
                throw new ConnectionFailedException(text);
            case Core.HF_EAUTH:
                throw new AuthenticationException(text);
            case Core.HF_ESERVER:
                throw new ServerException(text);
            case Core.HF_EPROTOCOL:
                throw new ProtocolException(text);
            case Core.HF_EUNSUPPORTED:
                throw new UnsupportedException(text);
            case Core.HF_ECANCELED:
            case Core.HF_ECLOSED:
            case Core.HF_EFORKED:
                throw new ClosedException(text);
            default:
                throw new HoldfastException(text);
        }
    }
}
