/** A client's counts as Micrometer meters; an optional dependency. */
package io.holdfast.micrometer;
