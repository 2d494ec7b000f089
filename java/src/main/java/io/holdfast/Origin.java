package io.holdfast;

import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.hf_owner_parts;
import java.util.Optional;

/**
 * The origin of an owner that the program did not choose.
 *
 * @param host the host's name
 * @param pid the process on that host
 * @param client the client's name; see {@link ClientOptions#clientName}
 * @param kind the kind of owner in that process
 * @param number the owner's number, counted from 1 in that process; not the system's number
 */
public record Origin(String host, long pid, String client, Kind kind, long number) {
    /** The kinds of owners in a process. */
    public enum Kind {
        /** A thread. */
        THREAD,
        /** A task of an event loop. */
        TASK,
        /** One operation, such as an {@link HoldfastLock#acquireAsync()}. */
        OPERATION
    }

    /**
     * Reads the origin from an owner.
     *
     * @param owner as in {@link LockHolder} and {@link LockWaiter}
     * @return the origin; empty if the program chose the owner
     */
    public static Optional<Origin> of(byte[] owner) {
        try (hf_owner_parts parts = new hf_owner_parts()) {
            if (Core.hf_owner_parse(owner, parts) == 0) {
                return Optional.empty();
            }
            Kind kind =
                    switch (parts.getKind()) {
                        case 't' -> Kind.THREAD;
                        case 'a' -> Kind.TASK;
                        default -> Kind.OPERATION;
                    };
            return Optional.of(
                    new Origin(
                            Bytes.text(parts.getHost()),
                            parts.getPid(),
                            Bytes.text(parts.getClient_name()),
                            kind,
                            parts.getSerial()));
        }
    }
}
