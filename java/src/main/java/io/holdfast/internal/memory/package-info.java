/** Locks in memory, for {@code io.holdfast.testing}. Not for programs. */
package io.holdfast.internal.memory;
