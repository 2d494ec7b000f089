package io.holdfast.internal.core;

import java.util.function.Consumer;

/** The values of options. */
public abstract class Settings<S extends Settings<S>> implements Cloneable {
    /** Returns a copy with one change. */
    @SuppressWarnings("unchecked")
    public S with(Consumer<S> change) {
        try {
            S copy = (S) clone();
            change.accept(copy);
            return copy;
        } catch (CloneNotSupportedException e) {
            throw new AssertionError(e);
        }
    }
}
