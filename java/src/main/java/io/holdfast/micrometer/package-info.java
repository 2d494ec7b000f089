/** What a client does, as Micrometer meters; an optional dependency. */
package io.holdfast.micrometer;
