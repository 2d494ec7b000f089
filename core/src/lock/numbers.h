/*
 * Numbers: the counts of a client. Each acquire, and the hold that it wins, is counted in one
 * tally: the tally of its lock's name, if the lock asks for a tally, or the tally of all others. A
 * reader adds the tallies up. So counting is a few additions, under a mutex that is held there
 * anyway.
 *
 * When many acquires of one lock time out, the alarm is raised here, too.
 */
#ifndef HF_NUMBERS_H
#define HF_NUMBERS_H

#include "lock/completions.h"
#include "protocol/names.h"
#include "protocol/requests.h"

/* The counts of one name, or of all names without their own. */
typedef struct hf_tally {
    hf_stats stats;
    hf_names *names; /* NULL: all others */
    hf_entry by_name;
} hf_tally;

/* When to raise the alarm: at `timeouts` timeouts of one lock within window_ms. */
typedef struct hf_rule {
    int64_t window_ms;
    int32_t timeouts; /* 0 or less: never */
} hf_rule;

/* How an acquire and its hold are counted: as their lock is. */
typedef struct hf_counting {
    hf_tally *tally;
    hf_rule alarm;
} hf_counting;

/* HF_EINVAL, HF_ENOMEM. */
hf_status hf_numbers_begin(const hf_client_options *options, struct hf_numbers **numbers_out);
void hf_numbers_end(struct hf_numbers *numbers);

/* Choose how a new lock of that name is counted. HF_EINVAL, HF_ENOMEM. Without the mutex. */
hf_status hf_numbers_lock(hf_client *client, hf_names *names, const hf_lock_options *options,
                          hf_counting *counting);

/* Return how a hold is counted that belongs to another hold, not to a lock: with all others, and
 * without an alarm. */
hf_counting hf_numbers_common(const hf_client *client);

/* Add a duration. In the header, because every acquire and release adds one. */
static inline void hf_record(hf_histogram *histogram, int64_t ns) {
    uint64_t us = ns > 0 ? (uint64_t)(ns + 500) / 1000 : 0;
    int at = us <= HF_BUCKET_US ? 0 : 64 - __builtin_clzll((us - 1) / HF_BUCKET_US);
    histogram->sum_us += (int64_t)us;
    histogram->counts[at < HF_BUCKETS ? at : HF_BUCKETS - 1]++;
}
/* Count a failed acquire of that name. If it timed out, this thread's message has the timeout. */
void hf_count_refused_locked(hf_client *client, const hf_counting *counting, hf_names *names,
                             hf_status status);
/* Count the end of a call, as in hf_leaving, by the status of its report to the server. */
void hf_count_finish_locked(hf_tally *tally, char how, hf_status status);

#endif
