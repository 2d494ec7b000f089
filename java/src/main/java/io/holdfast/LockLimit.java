package io.holdfast;

import java.time.Duration;

/**
 * A limit that is stored with a name; see {@link HoldfastClient#limit(String, long)}.
 *
 * @param permits the number of permits of the lock, or of passes of a gate
 * @param per the period of a gate; zero for a lock
 */
public record LockLimit(long permits, Duration per) {}
