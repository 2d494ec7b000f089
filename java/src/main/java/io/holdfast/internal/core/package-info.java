/** The core in C, as Java calls it. Not for programs. */
package io.holdfast.internal.core;
