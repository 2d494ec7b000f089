/** The workers: clients, locks and holds on Redis. Not for programs. */
package io.holdfast.internal.redis;
