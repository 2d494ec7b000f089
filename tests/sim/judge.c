#include "judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules.h"
#include "servers.h"
#include "store.h"
#include "workload.h"

struct belief {
    belief *next, *previous;
    char key[64];
    int64_t fence;
    bool shared;
    int64_t permits;
    int64_t began; /* when the call began that reported it */
    int64_t until; /* it is certain until then */
    bool excused;
    bool kept;     /* until its time, whether its holder lives or not */
    int64_t group; /* of holds that are lost together; 0: alone */
    bool shortens; /* its holder has asked to shorten it, perhaps for the whole group */
    const sim_process *process;
    int64_t number; /* by which its client reports its loss */
    int64_t ballot; /* with independent masters */
    bool nests;     /* in a hold that has this ballot */
    unsigned taken; /* masters that took the vote away, perhaps unknown to the holder */
    unsigned had;   /* masters that had a vote before `taken` */
    unsigned stood; /* masters that had a vote at the last look */
    unsigned early; /* masters at which it may end early */
};

enum { WAITS = 32 };

typedef struct waiting {
    struct waiting *next;
    char key[64];
    const sim_process *process;
    int64_t granted;      /* when a waiter last had the lock */
    int64_t began;        /* since when the lock has had a waiter without a break */
    int64_t since[WAITS]; /* when each present waiter began */
    int count;
} waiting;

static belief *beliefs;
static waiting *waits;
static struct {
    char key[64];
    int64_t at;
} excuses[256];
static size_t excuse_count;
static int64_t all_excused, kind_since, set_back, jumped_at, stepped_at[8];
static const sim_process
    *closed[64]; /* the last processes whose clients are closed, or which are dead */
static size_t closed_count;
uint64_t judge_acquired, judge_checked;

/* For how long a waiter may find the lock free before it is granted, when all is well
 * (guarantees.md): a lost wake-up costs 3 s, and so does a dead waiter before it. */
enum { SERVED_WITHIN_MS = 3000, SLACK_MS = 1500 };
/* For how long after the last fault connections may still be silently dead. */
enum { SETTLED_MS = 12000 };

static bool are_joined(const belief *b, const belief *other) {
    return b->group != 0 && b->group == other->group;
}

/* Return until when losses of a lock's holds are excused. */
static int64_t key_excused_at(const char *key) {
    int64_t at = all_excused;
    for (size_t i = 0; i < excuse_count; i++)
        if (strcmp(excuses[i].key, key) == 0 && excuses[i].at > at)
            at = excuses[i].at;
    return at;
}

/* Return the same for a hold and the holds with which it is joined. */
static int64_t excused_at(const belief *b) {
    int64_t at = key_excused_at(b->key);
    for (const belief *other = beliefs; other != NULL && b->group != 0; other = other->next)
        if (are_joined(b, other) && key_excused_at(other->key) > at)
            at = key_excused_at(other->key);
    return at;
}

static void excuse(belief *b) {
    b->excused = true;
    for (belief *other = beliefs; other != NULL && b->group != 0; other = other->next)
        other->excused = other->excused || are_joined(b, other);
}

/* ------------------------------------------------------------------- Holds */

bool judge_intact(const belief *b) { return !b->excused && b->began > excused_at(b); }

/* Return whether a majority of independent masters has the hold's votes, or has lost all its data
 * and lets no client in. If clocks have jumped on masters that the hold needs, its promise ends. */
static bool has_majority(belief *b) {
    unsigned votes = store_votes(b->key, b->ballot), young = store_young();
    b->taken = (b->taken | (b->stood & young)) & ~votes;
    bool stands = store_is_majority(votes | young);
    if (stands)
        b->stood = votes;
    else
        b->excused = b->excused || (b->taken | b->early) != 0;
    return stands;
}

static bool is_backed(belief *b) {
    if (!servers_independent())
        return store_has(b->key, b->fence);
    if (has_majority(b))
        return true;
    for (belief *other = beliefs; other != NULL && b->group != 0; other = other->next)
        if (are_joined(b, other) && !has_majority(other) && other->excused)
            b->excused = true; /* it was lost with the other hold */
    if (b->excused)
        excuse(b); /* and so are the holds that nest with it */
    return b->excused;
}

void judge_jumps(const char *key) {
    for (belief *b = beliefs; b != NULL; b = b->next)
        if (key == NULL || strcmp(b->key, key) == 0)
            b->had = store_votes(b->key, b->ballot);
}

void judge_steps(int master) {
    stepped_at[master] = sim_now();
    for (belief *b = beliefs; b != NULL; b = b->next)
        b->early |= store_votes(b->key, b->ballot) & 1U << master;
}

static void look_at(belief *b);

void judge_jumped(const char *key) {
    jumped_at = sim_now();
    for (belief *b = beliefs; b != NULL; b = b->next) {
        if (key != NULL && strcmp(b->key, key) != 0)
            continue;
        unsigned votes = store_votes(b->key, b->ballot), taken = b->had & ~votes;
        b->taken |= taken;
        /* A young master may have another ballot's vote: it does not replace a vote that was taken
         * away. */
        b->excused = b->excused || (taken != 0 && !store_is_majority(votes));
        look_at(b);
    }
}

static void look_at(belief *b) {
    int64_t now = sim_now();
    if (b->until <= now || !judge_intact(b))
        return;
    judge_checked++;
    if (!is_backed(b))
        sim_wrong("%s counts on its hold of %s with fence %lld for %.3f s more, which the server "
                  "does not have: it has %s",
                  sim_name(b->process), b->key, (long long)b->fence,
                  b->until == SIM_NEVER ? -1 : (double)(b->until - now) / 1e9, store_tell(b->key));
}

static void look(void *unused) {
    (void)unused;
    for (belief *b = beliefs, *next; b != NULL; b = next) {
        next = b->next;
        look_at(b);
        if (b->kept && b->until <= sim_now())
            judge_over(b);
    }
    sim_at(sim_now() + SIM_MS + (int64_t)sim_random(30 * SIM_MS), look, NULL);
}

bool judge_has_left(void) {
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        if (closed[i] == sim_self() && sim_self() != NULL)
            return true;
    return false;
}

bool judge_settled(int64_t at) { return kind_since >= 0 && at > kind_since + SETTLED_MS * SIM_MS; }

/* Return since when the process may have had an acquire of the lock under way without a report. */
static int64_t waited_since(const char *key, int64_t otherwise) {
    for (const waiting *w = waits; w != NULL && work.nested > 0; w = w->next)
        if (w->process == sim_self() && strcmp(w->key, key) == 0 && w->count > 0 &&
            w->began < otherwise)
            return w->began;
    return otherwise;
}

/* Give a nested hold the votes of the outer one. */
static void share(belief *b, belief *outer) {
    has_majority(outer); /* as it stands now, even if its promise has ended */
    b->taken |= outer->taken;
    b->early |= outer->early;
    b->excused = b->excused || !judge_intact(outer);
}

belief *judge_holds(const char *key, int64_t fence, bool shared, const hf_lock_options *options,
                    int64_t began, int64_t ballot) {
    belief *b = calloc(1, sizeof *b);
    snprintf(b->key, sizeof b->key, "%s", key);
    b->fence = fence;
    b->shared = shared;
    b->permits = options->permits;
    b->began = began;
    b->process = sim_self();
    b->excused = judge_has_left();
    b->next = beliefs;
    if (beliefs != NULL)
        beliefs->previous = b;
    judge_acquired++;
    if (servers_independent()) {
        int64_t own = ballot;
        /* It nests in a hold that is not reported yet, unless its votes have been taken away. */
        if (store_votes(key, ballot) == 0 && began > jumped_at) {
            ballot = store_ballot(key, fence, ballot);
            began = waited_since(key, began);
        }
        b->ballot = rules_ballot(key, fence, ballot);
        b->nests = b->ballot != own;
        b->stood = store_votes(key, b->ballot);
        b->taken = store_young() & ~b->stood;
        if (began <= jumped_at)
            b->taken = ~store_votes(key, b->ballot) & ((1U << servers_count()) - 1);
        for (int i = 0; i < servers_count(); i++)
            b->early |= (unsigned)(began <= stepped_at[i]) << i;
        for (belief *outer = beliefs; outer != NULL; outer = outer->next)
            if (outer->ballot == b->ballot && strcmp(outer->key, key) == 0)
                share(b, outer);
    }
    if (!servers_independent() || !b->excused) /* nests in a lost hold, unknown to it */
        rules_hold(key, fence, shared, options->permits, began);
    return beliefs = b;
}

bool judge_knows(const char *key, int64_t fence) {
    for (const belief *b = beliefs; b != NULL; b = b->next)
        if (b->fence == fence && strcmp(b->key, key) == 0)
            return true;
    return false;
}

/* Return whether it is intact now, not at the last look. */
static bool is_intact(belief *b) {
    look_at(b);
    return judge_intact(b);
}

/* Check that two holds that are certain at once are both shared, or have one owner. */
static void look_beside(const belief *b) {
    for (belief *other = beliefs; other != NULL && b->until > sim_now(); other = other->next)
        if (other->until > sim_now() && other->fence != b->fence && !(other->shared && b->shared) &&
            strcmp(other->key, b->key) == 0 && is_intact(other) && judge_intact(b))
            sim_wrong("%s and %s both count on a hold of %s, with fences %lld and %lld",
                      sim_name(b->process), sim_name(other->process), b->key, (long long)b->fence,
                      (long long)other->fence);
}

void judge_promise(belief *b, int64_t asked, int64_t remaining_ms, int64_t began) {
    int64_t until = remaining_ms < 0    ? SIM_NEVER
                    : remaining_ms == 0 ? 0
                                        : sim_promised(asked, remaining_ms);
    sim_trace("counts on %s (%lld) for %lld ms, until %.6f", b->key, (long long)b->fence,
              (long long)remaining_ms, (double)until / 1e9);
    /* A certain hold stays certain, unless its holder gives it up or joins it with a hold that ends
     * sooner. */
    if (b->until > sim_now())
        look_at(b);
    b->shortens = false;
    for (const belief *other = beliefs; other != NULL && b->group != 0; other = other->next)
        if (are_joined(b, other) && other->shortens)
            until = 0; /* nothing is certain of it before the answer */
    /* An answer that was slow and moves no end is no news: it was true when it was sent, and the
     * earlier promise still counts. The client rounds to 1 ms. */
    bool renewed =
        b->group != 0 || until == SIM_NEVER || until - SIM_MS > b->until || b->until <= sim_now();
    if (renewed)
        b->began = b->began > began ? b->began : began;
    if (renewed || until > b->until)
        b->until = until;
    /* The server has it after all. */
    if (renewed && began > excused_at(b) && !servers_independent())
        b->excused = judge_has_left();
    /* Joined holds end together, with the first to end. */
    for (belief *other = beliefs; other != NULL && b->group != 0; other = other->next)
        if (are_joined(b, other) && other->until > b->until)
            other->until = b->until;
    look_at(b);
    look_beside(b);
}

void judge_lost(const belief *b) {
    if (judge_settled(b->began) && b->group == 0 && judge_intact(b))
        sim_wrong("a hold of %s that is renewed was lost, and all was well", b->key);
}

void judge_forget(belief *b) { b->until = 0; }

void judge_shorten(belief *b) {
    b->shortens = true;
    judge_forget(b);
    for (belief *other = beliefs; other != NULL && b->group != 0; other = other->next)
        if (are_joined(b, other))
            judge_forget(other);
}

int64_t judge_group(void) {
    static int64_t groups;
    return ++groups;
}

void judge_join(belief *b, int64_t group) { b->group = group; }

void judge_number(belief *b, int64_t number) { b->number = number; }

void judge_told_lost(int64_t number, bool gone) {
    for (belief *b = beliefs; b != NULL; b = b->next)
        if (b->process == sim_self() && b->number == number && !b->kept) {
            if (gone && b->group == 0 && judge_intact(b))
                rules_ended(b->key, b->fence, b->began, "told gone");
            b->until = sim_now();
        }
}

void judge_over(belief *b) {
    if (!judge_intact(b))
        excuse(b);
    if (judge_has_left()) /* the request of the close may not have reached the server */
        rules_strand(b->key, b->fence);
    if (b->next != NULL)
        b->next->previous = b->previous;
    if (b->previous != NULL)
        b->previous->next = b->next;
    else
        beliefs = b->next;
    free(b);
}

/* Return the end of a kept hold: `until`, but not later than the end of a hold in which it nests,
 * or that nests in it, while that hold is certain; it may not be reported yet. */
static int64_t kept_until(const belief *b, int64_t until) {
    bool alone = true;
    if (!servers_independent())
        return until;
    for (const belief *other = beliefs; other != NULL; other = other->next)
        if (other != b && other->ballot == b->ballot && strcmp(other->key, b->key) == 0 &&
            other->process == b->process && !other->kept) {
            alone = false;
            until = !judge_intact(other) ? 0 : other->until < until ? other->until : until;
        }
    bool untold = b->nests || waited_since(b->key, SIM_NEVER) < SIM_NEVER;
    return alone && untold ? 0 : until;
}

void judge_keeps(belief *b, int64_t began, int64_t ms) {
    int64_t until = began + ms * SIM_MS - ms * SIM_MS / 500 - 2 * SIM_MS; /* on a faster clock */
    b->kept = true;
    b->group = 0;
    b->began = began;
    b->until = kept_until(b, until);
    look_at(b);
}

void judge_leave(const sim_process *process) {
    closed[closed_count++ % (sizeof closed / sizeof *closed)] = process;
    for (belief *b = beliefs; b != NULL; b = b->next)
        if (b->process == process && !b->kept)
            b->excused = true;
}

void judge_excuse(const char *key) {
    for (belief *b = beliefs; b != NULL; b = b->next)
        if (key == NULL || strcmp(b->key, key) == 0)
            excuse(b);
    if (key == NULL) {
        all_excused = all_excused > sim_now() ? all_excused : sim_now();
        rules_lose(NULL, 0);
        return;
    }
    for (size_t i = 0; i < excuse_count; i++)
        if (strcmp(excuses[i].key, key) == 0) {
            excuses[i].at = sim_now();
            return;
        }
    if (excuse_count == sizeof excuses / sizeof *excuses)
        abort();
    snprintf(excuses[excuse_count].key, sizeof excuses->key, "%s", key);
    excuses[excuse_count++].at = sim_now();
}

void judge_excuse_for(int64_t ns) {
    judge_excuse(NULL);
    all_excused = sim_now() + ns;
    rules_lose(NULL, ns);
}

/* ------------------------------------------------------------------ Calls */

call judge_call(const char *name) {
    sim_trace("%s", name);
    return (call){name, sim_now(), sim_stood(sim_self())};
}

void judge_answered(const call *c, int64_t within_ms) {
    int64_t took = sim_now() - c->since - (sim_stood(sim_self()) - c->stood);
    if (within_ms >= 0 && took > within_ms * SIM_MS + SLACK_MS * SIM_MS)
        sim_wrong("%s took %.3f s of its %.3f s", c->name, (double)took / 1e9,
                  (double)within_ms / 1e3);
}

void judge_timed_out(const call *c, int64_t timeout_ms) {
    int64_t took = sim_now() - c->since;
    if (took + timeout_ms * SIM_MS / 100 + 2 * SIM_MS < timeout_ms * SIM_MS)
        sim_wrong("%s was told after %.3f s that its time is up, which is %.3f s", c->name,
                  (double)took / 1e9, (double)timeout_ms / 1e3);
}

void judge_reached(const call *c, hf_status status) {
    bool away = status == HF_ECONNECT || status == HF_EUNKNOWN || status == HF_EAUTH ||
                status == HF_EPROTOCOL || status == HF_ESERVER;
    if (away && judge_settled(c->since) && work.connect_ms >= 2000 && work.command_ms >= 2000 &&
        !servers_independent() && !judge_has_left())
        sim_wrong("%s answers %s, and all is well: %s", c->name, hf_status_name(status),
                  hf_error_message());
}

/* ---------------------------------------------------------------- Waiting */

static waiting *waits_of(const char *key) {
    for (waiting *w = waits; w != NULL; w = w->next)
        if (w->process == sim_self() && strcmp(w->key, key) == 0)
            return w;
    waiting *w = calloc(1, sizeof *w);
    snprintf(w->key, sizeof w->key, "%s", key);
    w->process = sim_self();
    w->next = waits;
    return waits = w;
}

void judge_waits(const char *key, const call *c) {
    rules_asked(key, 1);
    waiting *w = waits_of(key);
    if (w->count == WAITS)
        abort();
    if (w->count == 0)
        w->began = sim_now();
    w->since[w->count++] = c->since;
}

void judge_waits_no_more(const char *key, const call *c, bool granted) {
    rules_asked(key, -1);
    waiting *w = waits_of(key);
    int at = 0;
    while (at < w->count - 1 && w->since[at] != c->since)
        at++;
    w->since[at] = w->since[--w->count];
    if (granted) /* the next waiter waits from now on */
        w->granted = sim_now();
}

/* Return since when the longest waiter has waited without any grant. */
static int64_t longest(const waiting *w) {
    int64_t since = sim_now();
    for (int i = 0; i < w->count; i++)
        since = w->since[i] < since ? w->since[i] : since;
    return since > w->granted ? since : w->granted;
}

/* Return for how long votes may linger: young independent masters give none, and the votes of a
 * holder that died without a majority end with its lease, later by as much as clocks were set back.
 */
static int64_t lingers(void) {
    return servers_independent()
               ? servers_quarantine_s * SIM_S + work.longest_ms * SIM_MS + set_back
               : 0;
}

/* Check that in a kind world a free lock is soon granted to a waiter. */
static void look_for_idle(void *unused) {
    (void)unused;
    for (waiting *w = waits; w != NULL; w = w->next) {
        if (w->count <= 0 || !sim_alive(w->process))
            continue;
        int64_t since = store_free_since(w->key);
        since = since > longest(w) ? since : longest(w);
        since = since > kind_since ? since : kind_since;
        if (sim_now() - since > (2 * SERVED_WITHIN_MS + SLACK_MS) * SIM_MS + lingers())
            sim_wrong("lock %s has been free for %.3f s, and %s waits for it", w->key,
                      (double)(sim_now() - since) / 1e9, sim_name(w->process));
    }
    sim_at(sim_now() + 100 * SIM_MS, look_for_idle, NULL);
}

void judge_kind(bool killed, int64_t back) {
    kind_since = sim_now();
    set_back = back;
    rules_kind(killed, back);
    sim_at(sim_now() + 100 * SIM_MS, look_for_idle, NULL);
}

void judge_quiet(void) {
    const char *left = store_left();
    if (left != NULL)
        sim_trace("%s", store_tell(left));
    if (left != NULL)
        sim_wrong("left on the server: %s", left);
}

void judge_begin(void) {
    all_excused = kind_since = jumped_at = -1;
    memset(stepped_at, -1, sizeof stepped_at);
    excuse_count = 0;
    memset(closed, 0, sizeof closed);
    store_begin();
    rules_begin();
    sim_at(SIM_MS, look, NULL);
}

void judge_end(void) {
    while (beliefs != NULL)
        judge_over(beliefs);
    while (waits != NULL) {
        waiting *gone = waits;
        waits = gone->next;
        free(gone);
    }
}
