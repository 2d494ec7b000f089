package io.holdfast;

import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.Millis;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Predicate;

/**
 * The options of a call that is made once; see {@link HoldfastLock#once(OnceOptions, java.util.concurrent.Callable)}.
 * Immutable: every method returns new options.
 *
 * <pre>{@code
 * OnceOptions<String> paid =
 *         OnceOptions.of(Duration.ofDays(1), Codec.UTF_8)
 *                 .atMostOnce(true)
 *                 .args(order.toJson())
 *                 .keep(CardDeclinedException.class)
 *                 .notCalled(ConnectException.class);
 * }</pre>
 *
 * @param <T> the type of the result
 */
public final class OnceOptions<T> implements Cloneable {
    static final int NOTE_MAX = 1024;

    /** Cuts a text to the length of a note. */
    static byte[] shortened(String why) {
        byte[] bytes = why.getBytes(StandardCharsets.UTF_8);
        return bytes.length <= NOTE_MAX ? bytes : Arrays.copyOf(bytes, NOTE_MAX);
    }

    private final Duration ttl;
    private final Codec<T> codec;
    private Duration timeout = Hold.FOREVER;
    private boolean atMostOnce;
    private byte[] fingerprint;
    private Predicate<? super Throwable> keep = e -> false;
    private List<Class<? extends Throwable>> kept = List.of();
    private Duration keepTtl;
    private Predicate<? super Throwable> notCalled = e -> false;
    private byte[] note = {};
    private Duration unknownTtl = Hold.FOREVER;

    private OnceOptions(Duration ttl, Codec<T> codec) {
        Millis.ttl(ttl);
        this.ttl = ttl;
        this.codec = Objects.requireNonNull(codec, "codec");
        this.keepTtl = ttl;
    }

    /**
     * The default options: wait without limit, call again if a caller dies, and keep no error.
     *
     * @param <T> the type of the result
     * @param ttl how long the result is kept, 10 seconds to 10 years
     * @param codec encodes the result, in at most 16 MiB, and decodes it
     * @return the options
     * @throws IllegalArgumentException if {@code ttl} is out of bounds
     */
    public static <T> OnceOptions<T> of(Duration ttl, Codec<T> codec) {
        return new OnceOptions<>(ttl, codec);
    }

    @SuppressWarnings("unchecked")
    private OnceOptions<T> with(Consumer<OnceOptions<T>> change) {
        try {
            OnceOptions<T> changed = (OnceOptions<T>) clone();
            change.accept(changed);
            return changed;
        } catch (CloneNotSupportedException e) {
            throw new AssertionError(e);
        }
    }

    /**
     * How long to wait for the result or the turn.
     *
     * @param timeout zero tries once; {@link Hold#FOREVER}, the default, waits without limit
     * @return new options
     * @throws IllegalArgumentException if the timeout is negative
     */
    public OnceOptions<T> timeout(Duration timeout) {
        Millis.notNegative(timeout);
        return with(o -> o.timeout = timeout);
    }

    /**
     * Whether the call is made at most once: for a call that costs money. The server then
     * has a record of the call before it is made. If its caller dies or fails, no other caller
     * makes it again: all others get an {@link OutcomeUnknownException}, until the call is settled.
     * All callers of a name must agree on this.
     *
     * @param atMostOnce false by default: if the caller dies or fails, the next caller calls
     * @return new options
     */
    public OnceOptions<T> atMostOnce(boolean atMostOnce) {
        return with(o -> o.atMostOnce = atMostOnce);
    }

    /**
     * The values on which the call depends. The SHA-256 of these bytes, its <em>fingerprint</em>,
     * is kept with the result, and a caller with a different fingerprint gets a {@link
     * FingerprintMismatchException}.
     *
     * @param args any bytes
     * @return new options
     */
    public OnceOptions<T> args(byte[] args) {
        try {
            byte[] print = MessageDigest.getInstance("SHA-256").digest(args);
            return with(o -> o.fingerprint = print);
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError(e);
        }
    }

    /**
     * The values on which the call depends, as text; see {@link #args(byte[])}.
     *
     * @param args for example JSON; its UTF-8 counts. Callers in Python make JSON of their arguments,
     *     with sorted keys and no spaces
     * @return new options
     */
    public OnceOptions<T> args(String args) {
        return args(Bytes.of(args));
    }

    /**
     * Which errors of the call are kept for the other callers, which do not call again. The caller that
     * made the call gets its own exception. The others get an exception of the class given here, if
     * that class is public and has a public constructor that takes only the message, or else a {@link
     * KeptErrorException}.
     *
     * @param errors classes of exceptions; a subclass counts
     * @return new options
     */
    @SafeVarargs
    @SuppressWarnings("varargs")
    public final OnceOptions<T> keep(Class<? extends Throwable>... errors) {
        List<Class<? extends Throwable>> all = List.of(errors);
        return keep(anyOf(all)).with(o -> o.kept = all);
    }

    /**
     * Which errors of the call are kept for the other callers, as {@link KeptErrorException}.
     *
     * @param errors returns true for an error to keep
     * @return new options
     */
    public OnceOptions<T> keep(Predicate<? super Throwable> errors) {
        Objects.requireNonNull(errors, "errors");
        return with(
                o -> {
                    o.keep = errors;
                    o.kept = List.of();
                });
    }

    /**
     * How long an error is kept.
     *
     * @param ttl 10 seconds to 10 years; as long as a result by default
     * @return new options
     * @throws IllegalArgumentException if it is out of bounds
     */
    public OnceOptions<T> keepTtl(Duration ttl) {
        Millis.ttl(ttl);
        return with(o -> o.keepTtl = ttl);
    }

    /**
     * The errors that prove that the call was not made, such as a refused connection. The next
     * caller then makes it. A timeout does not prove that.
     *
     * @param errors classes of exceptions; a subclass counts
     * @return new options
     */
    @SafeVarargs
    @SuppressWarnings("varargs")
    public final OnceOptions<T> notCalled(Class<? extends Throwable>... errors) {
        return notCalled(anyOf(List.of(errors)));
    }

    /**
     * The errors that prove that the call was not made.
     *
     * @param errors returns true for such an error
     * @return new options
     */
    public OnceOptions<T> notCalled(Predicate<? super Throwable> errors) {
        Objects.requireNonNull(errors, "errors");
        return with(o -> o.notCalled = errors);
    }

    private static Predicate<Throwable> anyOf(List<Class<? extends Throwable>> classes) {
        return error -> classes.stream().anyMatch(each -> each.isInstance(error));
    }

    /**
     * A note for the person who settles an unknown outcome, such as the number of the order.
     *
     * @param note at most 1024 bytes in UTF-8
     * @return new options
     * @throws IllegalArgumentException if it is longer
     */
    public OnceOptions<T> note(String note) {
        byte[] bytes = Bytes.of(note);
        if (bytes.length > NOTE_MAX) {
            throw new IllegalArgumentException(
                    "the note has " + bytes.length + " bytes: at most " + NOTE_MAX);
        }
        return with(o -> o.note = bytes);
    }

    /**
     * How long an unknown outcome is kept, from when the first caller learns of it. After that
     * time the next caller calls again.
     *
     * @param ttl 10 seconds to 10 years; {@link Hold#FOREVER}, the default: until it is settled
     * @return new options
     * @throws IllegalArgumentException if it is out of bounds
     */
    public OnceOptions<T> unknownTtl(Duration ttl) {
        if (!ttl.equals(Hold.FOREVER)) {
            Millis.ttl(ttl);
        }
        return with(o -> o.unknownTtl = ttl);
    }

    /**
     * How long the result is kept.
     *
     * @return 10 seconds to 10 years
     */
    public Duration ttl() {
        return ttl;
    }

    /**
     * How long to wait.
     *
     * @return zero: not at all
     */
    public Duration timeout() {
        return timeout;
    }

    /**
     * Whether the call is made at most once.
     *
     * @return false by default
     */
    public boolean atMostOnce() {
        return atMostOnce;
    }

    /**
     * The fingerprint of the arguments.
     *
     * @return 32 bytes; empty if no arguments were given
     */
    public Optional<byte[]> fingerprint() {
        return Optional.ofNullable(fingerprint).map(byte[]::clone);
    }

    /**
     * The note.
     *
     * @return empty by default
     */
    public String note() {
        return Bytes.text(note);
    }

    /**
     * How long an unknown outcome is kept.
     *
     * @return {@link Hold#FOREVER}: until it is settled
     */
    public Duration unknownTtl() {
        return unknownTtl;
    }

    Codec<T> codec() {
        return codec;
    }

    Duration keepTtl() {
        return keepTtl;
    }

    /** Returns the state of a call that failed with this exception. */
    Outcome.State endOf(Throwable failure) {
        return keep.test(failure)
                ? Outcome.State.FAILED
                : notCalled.test(failure) ? Outcome.State.RETRY : Outcome.State.UNKNOWN;
    }

    /** Returns the exception for a caller that gets a kept error: of its own class, if that can be made. */
    Throwable told(Throwable failure) {
        if (failure instanceof KeptErrorException error) {
            for (Class<? extends Throwable> each : kept) {
                if (each.getSimpleName().equals(error.type())) {
                    try {
                        return each.getConstructor(String.class).newInstance(error.errorMessage());
                    } catch (ReflectiveOperationException | LinkageError e) {
                        return error;
                    }
                }
            }
        }
        return failure;
    }
}
