/* Shared by the programs that measure. */
#ifndef BENCH_H
#define BENCH_H

#include <err.h>
#include <holdfast/holdfast.h>
#include <time.h>

static inline void check(hf_status status) {
    if (status != HF_OK)
        errx(1, "%s: %s", hf_status_name(status), hf_error_message());
}

/* Return the time in seconds. */
static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Compare doubles, for qsort(). */
static inline int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
