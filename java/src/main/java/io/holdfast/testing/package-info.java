/**
 * For the tests of programs that use Holdfast.
 *
 * <ul>
 *   <li>{@link io.holdfast.testing.InMemoryHoldfast} makes clients that need no server.
 *   <li>{@link io.holdfast.testing.TestRedis} starts a private Redis.
 * </ul>
 */
package io.holdfast.testing;
