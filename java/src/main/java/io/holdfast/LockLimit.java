package io.holdfast;

import java.time.Duration;

/**
 * A limit that is stored with a name; see {@link HoldfastClient#limit(String, long)}.
 *
 * @param permits how many permits the lock has; of a gate, how many passes
 * @param per in how long a gate lets that many pass; zero if it is of no gate
 */
public record LockLimit(long permits, Duration per) {}
