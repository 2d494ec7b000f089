package io.holdfast.internal.core;

import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.channels.spi.AbstractInterruptibleChannel;
import java.util.function.LongFunction;

/**
 * Ends a native call when its thread is interrupted. It is a channel because Java reports an interrupt
 * by closing the channel that the thread waits for. One brake serves many calls, until an interrupt.
 */
public final class Brake extends AbstractInterruptibleChannel {
    private final long pointer = Core.hf_brake_open();
    private final Handle handle = new Handle(pointer, Core::hf_brake_close);

    public Brake() {
        handle.whenDropped(this, handle::close);
    }

    /** Makes a call with the brake, which only the calling thread may use. */
    public <T> T during(LongFunction<T> call) {
        try {
            begin();
            return call.apply(pointer);
        } finally {
            try {
                end(true);
            } catch (IOException | OutOfMemoryError interrupted) {
                shut(); // the interrupting thread may not have closed it yet
            }
            Reference.reachabilityFence(this);
        }
    }

    /** Frees the brake; no call may use it now or later. */
    public void free() {
        handle.close();
    }

    private void shut() {
        try {
            close();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    protected void implCloseChannel() {
        handle.call(Brake::pull);
        Reference.reachabilityFence(this);
    }

    private static Void pull(long pointer) {
        Core.hf_brake_pull(pointer);
        return null;
    }
}
