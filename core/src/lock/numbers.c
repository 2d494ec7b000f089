#include "lock/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/quorum.h"
#include "net/discovery.h"

#define NAMES_DEFAULT 100
#define NAMES_MAX 10000

/* The window slides by an eighth of its length. The slice that has begun counts too: no timeout
 * within a window is missed, but timeouts within nine eighths of it may count together. */
#define SLICES 8
/* At most SETS * WAYS locks that time out are watched at once, in sets, so that a lock is found
 * fast. In a full set a new lock takes the place of the lock with the fewest timeouts: millions of
 * locks that time out once do not hide the lock that times out again and again. */
#define SETS 64
#define WAYS 4

typedef struct watch {
    hf_names *names; /* NULL: free */
    hf_rule rule;
    int64_t slice; /* the number of the last slice, counted from the machine's start */
    int64_t counts[SLICES + 1];
    int64_t quiet_until; /* the alarm was raised, and is not raised again before then */
} watch;

struct hf_numbers {
    hf_tally rest; /* of all names without their own counts */
    uint32_t count, names_max;
    hf_index tallies; /* of the names with their own */
    bool by_name;     /* the default, which a lock may override */
    hf_rule alarm;
    watch (*watched)[WAYS]; /* SETS sets; NULL until a lock has a rule */
    hf_tally *named[];      /* up to names_max */
};

/* ----------------------------------------------------------------- Options */

static hf_status check_rule(int32_t timeouts, int64_t window_ms) {
    if (timeouts <= 0 && window_ms == 0)
        return HF_OK;
    if (timeouts <= 0 || window_ms < 1 || window_ms > HF_LEASE_MAX)
        return hf_fail(HF_EINVAL,
                       "an alarm after %d timeouts in %lld ms: it takes 1 timeout or more, and a "
                       "window of 1 ms to 10 years",
                       (int)timeouts, (long long)window_ms);
    return HF_OK;
}

hf_status hf_numbers_begin(const hf_client_options *options, struct hf_numbers **numbers_out) {
    hf_status status = check_rule(options->alarm_timeouts, options->alarm_window_ms);
    if (status == HF_OK)
        status = hf_check_switch(options->count_names, "count_names");
    if (status != HF_OK)
        return status;
    if (options->names_max > NAMES_MAX)
        return hf_fail(HF_EINVAL, "names_max is %u: it takes 1 to %d", options->names_max,
                       NAMES_MAX);
    uint32_t names_max = options->names_max > 0 ? options->names_max : NAMES_DEFAULT;
    struct hf_numbers *numbers = calloc(1, sizeof *numbers + names_max * sizeof(hf_tally *));
    if (numbers == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    numbers->names_max = names_max;
    numbers->by_name = options->count_names == HF_ON;
    numbers->alarm =
        (hf_rule){.timeouts = options->alarm_timeouts, .window_ms = options->alarm_window_ms};
    *numbers_out = numbers;
    return HF_OK;
}

void hf_numbers_end(struct hf_numbers *numbers) {
    if (numbers == NULL)
        return;
    for (uint32_t i = 0; i < numbers->count; i++) {
        hf_names_drop(numbers->named[i]->names);
        free(numbers->named[i]);
    }
    for (size_t i = 0; numbers->watched != NULL && i < SETS; i++)
        for (size_t j = 0; j < WAYS; j++)
            hf_names_drop(numbers->watched[i][j].names);
    free(numbers->watched);
    hf_index_end(&numbers->tallies);
    free(numbers);
}

/* Return the counts of the name; beyond the bound, the counts of all others. NULL: no memory. */
static hf_tally *tally_of_locked(struct hf_numbers *numbers, hf_names *names) {
    HF_EACH_OF(at, &numbers->tallies, names->hash)
    if (hf_names_equal(HF_OF(hf_tally, by_name, at)->names, names))
        return HF_OF(hf_tally, by_name, at);
    if (numbers->count == numbers->names_max)
        return &numbers->rest;
    hf_tally *tally = calloc(1, sizeof *tally);
    if (tally == NULL)
        return NULL;
    tally->names = hf_names_keep(names);
    hf_index_add(&numbers->tallies, &tally->by_name, names->hash);
    numbers->named[numbers->count++] = tally;
    return tally;
}

hf_counting hf_numbers_common(const hf_client *client) {
    return (hf_counting){.tally = &client->numbers->rest};
}

hf_status hf_numbers_lock(hf_client *client, hf_names *names, const hf_lock_options *options,
                          hf_counting *counting) {
    struct hf_numbers *numbers = client->numbers;
    hf_status status = hf_check_switch(options->count_name, "count_name");
    if (status == HF_OK)
        status = check_rule(options->alarm_timeouts, options->alarm_window_ms);
    if (status != HF_OK)
        return status;
    bool by_name =
        options->count_name != HF_DEFAULT ? options->count_name == HF_ON : numbers->by_name;
    counting->alarm = numbers->alarm;
    if (options->alarm_timeouts != 0)
        counting->alarm =
            (hf_rule){.timeouts = options->alarm_timeouts, .window_ms = options->alarm_window_ms};
    HF_HOLDING_CLIENT(client);
    counting->tally = by_name ? tally_of_locked(numbers, names) : &numbers->rest;
    if (counting->alarm.timeouts > 0 && numbers->watched == NULL)
        numbers->watched = calloc(SETS, sizeof *numbers->watched);
    bool good =
        counting->tally != NULL && (counting->alarm.timeouts <= 0 || numbers->watched != NULL);
    return good ? HF_OK : hf_fail(HF_ENOMEM, "no memory");
}

/* ------------------------------------------------------------------- Alarm */

/* Forget the timeouts that are older than the window. */
static void slide(watch *at, int64_t now) {
    int64_t slice = now / (at->rule.window_ms * HF_MS / SLICES);
    for (int64_t i = at->slice + 1; i <= slice && i <= at->slice + SLICES + 1; i++)
        at->counts[i % (SLICES + 1)] = 0;
    at->slice = slice;
}

static int64_t timeouts_in(const watch *at) {
    int64_t sum = 0;
    for (size_t i = 0; i <= SLICES; i++)
        sum += at->counts[i];
    return sum;
}

/* Return the watch of the lock and the rule; a new one replaces the watch with the fewest
 * timeouts. */
static watch *watch_of(struct hf_numbers *numbers, hf_names *names, const hf_rule *rule,
                       int64_t now) {
    watch *set = numbers->watched[names->hash % SETS], *least = NULL;
    int64_t least_timeouts = INT64_MAX;
    for (watch *at = set; at < set + WAYS; at++) {
        if (at->names != NULL)
            slide(at, now);
        if (at->names != NULL && hf_names_equal(at->names, names) &&
            at->rule.timeouts == rule->timeouts && at->rule.window_ms == rule->window_ms)
            return at;
        int64_t timeouts = at->names != NULL ? timeouts_in(at) : -1;
        if (timeouts < least_timeouts) {
            least_timeouts = timeouts;
            least = at;
        }
    }
    hf_names_drop(least->names);
    *least = (watch){.names = hf_names_keep(names), .rule = *rule};
    slide(least, now);
    return least;
}

/* Count a timeout. Raise the alarm, once in a window, when the rule's number of timeouts is
 * reached. */
static void watch_timeout_locked(hf_client *client, const hf_counting *counting, hf_names *names) {
    const hf_rule *rule = &counting->alarm;
    int64_t now = hf_now();
    watch *at = watch_of(client->numbers, names, rule, now);
    at->counts[at->slice % (SLICES + 1)]++;
    hf_completion completion = {
        .kind = HF_KIND_ALARM, .status = HF_ETIMEOUT, .timeouts = timeouts_in(at)};
    if (completion.timeouts < rule->timeouts || now < at->quiet_until)
        return;
    at->quiet_until = hf_after(now, rule->window_ms);
    counting->tally->stats.alarms++;
    bool seconds = rule->window_ms % 1000 == 0;
    snprintf(completion.error.message, sizeof completion.error.message,
             "%lld acquires timed out within %lld %s: %s", (long long)completion.timeouts,
             (long long)(seconds ? rule->window_ms / 1000 : rule->window_ms), seconds ? "s" : "ms",
             hf_error_message());
    hf_announce_locked(client, &completion, names);
}

/* ---------------------------------------------------------------- Counting */

static int64_t *count_at(hf_stats *stats, size_t at) {
    return (int64_t *)(void *)((char *)stats + at);
}

/* Return the counter of that outcome of an acquire. */
static int64_t *outcome_of(hf_stats *stats, hf_status status) {
    static const size_t counts[] = {
        [HF_EDONE] = offsetof(hf_stats, answered_done),
        [HF_EFAILED] = offsetof(hf_stats, answered_failed),
        [HF_EOUTCOME] = offsetof(hf_stats, answered_unknown),
        [HF_EMISMATCH] = offsetof(hf_stats, answered_mismatch),
        [HF_EBUSY] = offsetof(hf_stats, busy),
        [HF_ETIMEOUT] = offsetof(hf_stats, timed_out),
        [HF_ECANCELED] = offsetof(hf_stats, canceled),
        [HF_EINTR] = offsetof(hf_stats, interrupted),
        [HF_EREPLICAS] = offsetof(hf_stats, unreplicated),
        [HF_EDEADLOCK] = offsetof(hf_stats, deadlocks),
        [HF_EUNKNOWN] = offsetof(hf_stats, unknown),
        [HF_ECONNECT] = offsetof(hf_stats, unreachable),
    };
    bool known = (size_t)status < sizeof counts / sizeof *counts && counts[status] != 0;
    return count_at(stats, known ? counts[status] : offsetof(hf_stats, failed));
}

void hf_count_refused_locked(hf_client *client, const hf_counting *counting, hf_names *names,
                             hf_status status) {
    ++*outcome_of(&counting->tally->stats, status);
    if (status == HF_ETIMEOUT && counting->alarm.timeouts > 0)
        watch_timeout_locked(client, counting, names);
}

void hf_count_finish_locked(hf_tally *tally, char how, hf_status status) {
    hf_stats *stats = &tally->stats;
    int64_t *ended = how == 'u'              ? &stats->finished_unknown
                     : how == 'n'            ? &stats->finished_retry
                     : status != HF_OK       ? &stats->finished_unkept
                     : how == HF_RECORD_DONE ? &stats->finished_done
                                             : &stats->finished_failed;
    ++*ended;
}

/* ----------------------------------------------------------------- Reading */

/* All members but the first two are counts. */
#define FIRST offsetof(hf_stats, held)
_Static_assert((sizeof(hf_stats) - FIRST) % sizeof(int64_t) == 0, "counts are int64_t");

static void add(hf_stats *sum, hf_stats *stats) {
    for (size_t at = FIRST; at < sizeof *sum; at += sizeof(int64_t))
        *count_at(sum, at) += *count_at(stats, at);
}

static hf_status check_reader(const hf_client *client, const hf_stats *stats) {
    hf_status status = hf_client_check(client);
    if (status == HF_OK && (stats == NULL || stats->size < sizeof stats->size))
        status = hf_fail(HF_EINVAL, "stats is NULL, or its size is not set");
    return status;
}

hf_status hf_client_stats(hf_client *client, hf_stats *stats) {
    hf_status status = check_reader(client, stats);
    if (status != HF_OK)
        return status;
    const struct hf_numbers *numbers = client->numbers;
    hf_client_lock(client);
    hf_stats sum = numbers->rest.stats;
    for (uint32_t i = 0; i < numbers->count; i++)
        add(&sum, &numbers->named[i]->stats);
    sum.names = numbers->count;
    hf_client_unlock(client);
    hf_discovery_connections(client->transport->discovery, &sum.connections, &sum.reconnects);
    for (size_t i = 0; client->quorum != NULL && i < client->quorum->count; i++) {
        int64_t opened, again;
        hf_discovery_connections(client->quorum->masters[i].client->transport->discovery, &opened,
                                 &again);
        sum.connections += opened;
        sum.reconnects += again;
    }
    hf_struct_tell(stats, &sum, sizeof *stats);
    return HF_OK;
}

hf_status hf_client_name_stats(hf_client *client, int64_t index, hf_stats *stats, void *name,
                               size_t capacity, size_t *name_len_out) {
    hf_status status = check_reader(client, stats);
    if (status != HF_OK)
        return status;
    if (name == NULL || name_len_out == NULL)
        return hf_fail(HF_EINVAL, "name or name_len_out is NULL");
    HF_HOLDING_CLIENT(client);
    const struct hf_numbers *numbers = client->numbers;
    int64_t count = numbers->count;
    const hf_tally *tally = index < 0 || index > count ? NULL
                            : index == 0               ? &numbers->rest
                                                       : numbers->named[index - 1];
    if (tally == NULL)
        return hf_fail(HF_EINVAL, "there is no name %lld: this client counts %lld names apart",
                       (long long)index, (long long)count);
    *name_len_out = tally->names != NULL ? tally->names->length : 0;
    if (*name_len_out > capacity)
        return hf_fail(HF_EINVAL, "the buffer is too small for the name");
    if (tally->names != NULL)
        memcpy(name, tally->names->data, tally->names->length);
    hf_struct_tell(stats, &tally->stats, sizeof *stats);
    return HF_OK;
}
