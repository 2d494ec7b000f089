#include "limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules.h"
#include "servers.h"
#include "store.h"
#include "workload.h"

enum { POOLS = 16, LIMITS = 64, MOMENT_MS = 3000 };

typedef struct limit {
    int64_t at, permits, per_ms; /* in force from then on; 0, 0: no limit */
} limit;

typedef struct pool {
    char key[64];
    limit limits[LIMITS]; /* the last limits, the oldest first */
    size_t count;
    int64_t last;    /* the last fence, */
    int64_t seen;    /* and when it was seen */
    int64_t unknown; /* until then the limit is unknown, because data were lost */
} pool;

static pool pools[POOLS];

static pool *pool_named(const char *key) {
    for (size_t i = 0; i < POOLS; i++) {
        pool *p = &pools[i];
        if (p->count == 0) {
            snprintf(p->key, sizeof p->key, "%s", key);
            p->count = 1;
            p->unknown = -1;
        }
        if (strcmp(p->key, key) == 0)
            return p;
    }
    abort();
}

/* Return whether it is known which limits were in force since then. */
static bool is_known(const pool *p, int64_t began) {
    return p->unknown < began && !rules_lost_since(p->key, began);
}

/* Return the limit after `after` of those in force since `began`; NULL: the first of them. */
static const limit *next_since(const pool *p, int64_t began, const limit *after) {
    size_t i = after != NULL ? (size_t)(after - p->limits) + 1 : 0;
    while (after == NULL && i + 1 < p->count && p->limits[i + 1].at < began)
        i++;
    return i < p->count ? &p->limits[i] : NULL;
}

/* -------------------------------------------------------- On the servers */

static void change(pool *p, const limit *to) {
    if (p->count == LIMITS)
        memmove(p->limits, p->limits + 1, --p->count * sizeof *p->limits);
    p->limits[p->count++] = *to;
    sim_trace("%s has a limit of %lld in %lld ms", p->key, (long long)to->permits,
              (long long)to->per_ms);
}

/* Return whether the command asks for the limit: its two numbers follow three keys. */
static bool asks_for(const limit *wanted, const sim_bytes *words, size_t count) {
    return count >= 8 && servers_number(&words[2]) == 3 &&
           servers_number(&words[6]) == wanted->permits &&
           servers_number(&words[7]) == wanted->per_ms;
}

void limits_look(int server, const sim_bytes *words, size_t count) {
    char key[sizeof pools->key] = "";
    if (work.weights.limit == 0 || !servers_is_master(server) || count < 5 ||
        words[3].length >= sizeof key || (words[0].bytes[0] | 32) != 'e') /* EVALSHA or EVAL */
        return;
    memcpy(key, words[3].bytes, words[3].length);
    pool *p = pool_named(key);
    const limit *was = &p->limits[p->count - 1];
    limit is = {.at = sim_now()};
    int64_t last = store_last(key), weight;
    bool lost = rules_lost_since(key, p->seen);
    p->unknown = lost ? sim_now() : p->unknown;
    store_limit(key, &is.permits, &is.per_ms);
    if (is.permits != was->permits || is.per_ms != was->per_ms) {
        if (!lost && !asks_for(&is, words, count))
            sim_wrong("%s has a limit of %lld in %lld ms in the place of %lld in %lld ms, and no "
                      "call has stored it",
                      key, (long long)is.permits, (long long)is.per_ms, (long long)was->permits,
                      (long long)was->per_ms);
        change(p, &is);
    }
    if (!lost && is.permits > 0 && last > p->last && store_has(key, last) &&
        (weight = store_weight(key)) > is.permits)
        sim_wrong("the hold of %s with fence %lld makes their weight %lld, and the limit is %lld",
                  key, (long long)last, (long long)weight, (long long)is.permits);
    p->last = last;
    p->seen = sim_now();
}

/* --------------------------------------------------- As clients are told */

static const limit *find_since(const pool *p, int64_t began, int64_t permits, int64_t per_ms) {
    const limit *l = NULL;
    while ((l = next_since(p, began, l)) != NULL)
        if (l->permits == permits && l->per_ms == per_ms)
            break;
    return l;
}

bool limits_changed(const char *key) {
    const pool *p = pool_named(key);
    return p->count > 1 && sim_now() - p->limits[p->count - 1].at < MOMENT_MS * SIM_MS;
}

void limits_stored(const char *key, int64_t permits, int64_t per_ms, const int64_t was[2],
                   int64_t began) {
    const pool *p = pool_named(key);
    if (!is_known(p, began))
        return;
    if (find_since(p, began, permits, per_ms) == NULL)
        sim_wrong("a limit of %s is stored, %lld in %lld ms, and was never in force", key,
                  (long long)permits, (long long)per_ms);
    if (find_since(p, began, was[0], was[1]) == NULL)
        sim_wrong("the limit of %s was %lld in %lld ms, says a call, and it was not", key,
                  (long long)was[0], (long long)was[1]);
}

/* Return the lease with which an acquire asks: a hold ends with its max_hold. */
static int64_t lease_of(const hf_lock_options *said) {
    bool cut = said->max_hold_ms > 0 && said->max_hold_ms < said->lease_ms;
    return cut ? said->max_hold_ms : said->lease_ms;
}

void limits_granted(const char *key, const hf_lock_options *said, int64_t began) {
    const limit *l = NULL;
    const pool *p = pool_named(key);
    if (work.weights.limit == 0 || said->permits == 0 || !is_known(p, began))
        return;
    while ((l = next_since(p, began, l)) != NULL)
        if (l->permits == 0 ||
            (l->permits == said->permits && (l->per_ms == 0 || l->per_ms == lease_of(said))))
            return;
    sim_wrong("%s has a hold of %s, and said %lld permits, which no limit was since it asked",
              sim_name(sim_self()), key, (long long)said->permits);
}

/* Describe both numbers as a message does; a caller that gave no number may have learnt one. */
static void describe(const limit *l, const hf_lock_options *said, char *text, size_t size) {
    int64_t weight = said->weight > 0 ? said->weight : 1;
    text[0] = '\0';
    if (l->permits == 0 && said->permits == 0 && weight > 1)
        snprintf(text, size, "no limit is stored with lock");
    else if (l->per_ms > 0 &&
             (l->per_ms != lease_of(said) || (said->permits > 0 && l->permits != said->permits)))
        snprintf(text, size, "lets pass %lld in %lld ms, and this acquire gives",
                 (long long)l->permits, (long long)l->per_ms);
    else if (l->permits > 0 && said->permits > 0 && l->permits != said->permits)
        snprintf(text, size,
                 "has %lld permits, and this acquire gives %lld:", (long long)l->permits,
                 (long long)said->permits);
    else if (l->permits > 0 && said->permits == 0 && weight > l->permits)
        snprintf(text, size, "has %lld permits, and this acquire takes %lld", (long long)l->permits,
                 (long long)weight);
}

void limits_refused(const char *key, const hf_lock_options *said, const char *message,
                    int64_t began) {
    const pool *p = pool_named(key);
    const limit *l = NULL;
    char text[200];
    if (!is_known(p, began))
        return;
    while ((l = next_since(p, began, l)) != NULL) {
        describe(l, said, text, sizeof text);
        if (text[0] != '\0' && strstr(message, text) != NULL)
            return;
    }
    sim_wrong("an acquire of %s with %lld permits ends so: %s", key, (long long)said->permits,
              message);
}

void limits_begin(void) { memset(pools, 0, sizeof pools); }
