package io.holdfast.internal.redis;

import io.holdfast.AuthenticationException;
import io.holdfast.ClosedException;
import io.holdfast.ConnectionFailedException;
import io.holdfast.HoldfastException;
import io.holdfast.LimitDiffersException;
import io.holdfast.LockDeadlockException;
import io.holdfast.LockLostException;
import io.holdfast.LockNotHeldException;
import io.holdfast.LockNotReplicatedException;
import io.holdfast.LockTimeoutException;
import io.holdfast.LockUnknownException;
import io.holdfast.LossCause;
import io.holdfast.OutcomeSettledException;
import io.holdfast.ProtocolException;
import io.holdfast.ServerException;
import io.holdfast.UnsupportedException;
import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Threads;

/** Converts the core's statuses to exceptions. */
final class Status {
    private Status() {}

    /** Throws the exception for a status; the JNI library calls this on the thread of the failed call. */
    static void raise(int status, byte[] message) {
        var error = Core.hf_error_last();
        throw Threads.raised(
                of(status, Bytes.text(message), error.getCause(), error.getReplicas()));
    }

    /** Returns the Error or RuntimeException for a status. */
    static Throwable of(int status, String text, int cause, long replicas) {
        switch (status) {
            case Core.HF_EINVAL:
                return new IllegalArgumentException(text);
            case Core.HF_ENOMEM:
                return new OutOfMemoryError(text);
            case Core.HF_EBUSY:
            case Core.HF_ETIMEOUT:
                return new LockTimeoutException(text);
            case Core.HF_ENOTHELD:
                return new LockNotHeldException(text);
            case Core.HF_EDEADLOCK:
                return new LockDeadlockException(text);
            case Core.HF_ELOST:
                return new LockLostException(text, lossCause(cause));
            case Core.HF_EUNKNOWN:
                return new LockUnknownException(text);
            case Core.HF_ECONNECT:
                return new ConnectionFailedException(text);
            case Core.HF_EAUTH:
                return new AuthenticationException(text);
            case Core.HF_ESERVER:
                return new ServerException(text);
            case Core.HF_EPROTOCOL:
                return new ProtocolException(text);
            case Core.HF_EUNSUPPORTED:
                return new UnsupportedException(text);
            case Core.HF_ECANCELED:
            case Core.HF_ECLOSED:
            case Core.HF_EFORKED:
                return new ClosedException(text);
            case Core.HF_EREPLICAS:
                return new LockNotReplicatedException(text, replicas);
            case Core.HF_ELIMIT:
                return new LimitDiffersException(text);
            case Core.HF_ESETTLED:
                return new OutcomeSettledException(text);
            default:
                return new HoldfastException(text);
        }
    }

    /** Returns the cause of a loss; null: no loss. */
    static LossCause lossCause(int cause) {
        return switch (cause) {
            case Core.HF_CAUSE_EXPIRED -> LossCause.EXPIRED;
            case Core.HF_CAUSE_UNREACHABLE -> LossCause.UNREACHABLE;
            case Core.HF_CAUSE_GONE -> LossCause.GONE;
            default -> null;
        };
    }
}
