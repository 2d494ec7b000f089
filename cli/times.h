/* A histogram of times, each within 3 %. */
#ifndef HOLDFAST_CLI_TIMES_H
#define HOLDFAST_CLI_TIMES_H

#include <stdint.h>

enum { BENCH_PARTS = 32, BENCH_BUCKETS = 59 * BENCH_PARTS };

typedef struct bench_times {
    int64_t count, most; /* nanoseconds */
    int64_t buckets[BENCH_BUCKETS];
} bench_times;

void bench_time(bench_times *times, int64_t ns);
void bench_times_add(bench_times *to, const bench_times *from);
/* Return the time that `percent` of the times do not exceed; 0 without times. */
int64_t bench_percentile(const bench_times *times, int percent);

#endif
