/* Times in buckets: 32 to each power of two. */
#include "times.h"

static int bucket_of(int64_t ns) {
    if (ns < BENCH_PARTS)
        return ns < 0 ? 0 : (int)ns;
    int power = 63 - __builtin_clzll((unsigned long long)ns);
    int part = (int)(ns >> (power - 5)) - BENCH_PARTS;
    return (power - 4) * BENCH_PARTS + part;
}

/* Return the highest time of a bucket. */
static int64_t top_of(int bucket) {
    if (bucket < BENCH_PARTS)
        return bucket;
    int power = bucket / BENCH_PARTS + 4;
    return (((int64_t)(bucket % BENCH_PARTS) + BENCH_PARTS + 1) << (power - 5)) - 1;
}

void bench_time(bench_times *times, int64_t ns) {
    times->count++;
    times->buckets[bucket_of(ns)]++;
    if (ns > times->most)
        times->most = ns;
}

void bench_times_add(bench_times *to, const bench_times *from) {
    to->count += from->count;
    if (from->most > to->most)
        to->most = from->most;
    for (int i = 0; i < BENCH_BUCKETS; i++)
        to->buckets[i] += from->buckets[i];
}

int64_t bench_percentile(const bench_times *times, int percent) {
    int64_t before = 0, rank = (times->count * percent + 99) / 100;
    for (int i = 0; i < BENCH_BUCKETS && times->count > 0; i++) {
        before += times->buckets[i];
        if (before >= rank)
            return top_of(i) < times->most ? top_of(i) : times->most;
    }
    return 0;
}
