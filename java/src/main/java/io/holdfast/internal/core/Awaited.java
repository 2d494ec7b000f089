package io.holdfast.internal.core;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;

/**
 * A future for which a caller's thread waits. It names no pool, whose tasks a thread of that pool would
 * run while it waits: inside of the locks that the thread holds.
 */
public class Awaited<T> extends CompletableFuture<T> {
    @Override
    public Executor defaultExecutor() {
        return Runnable::run;
    }

    @Override
    public <U> CompletableFuture<U> newIncompleteFuture() {
        return new Awaited<>();
    }
}
