#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "limits.h"
#include "program.h"
#include "servers.h"
#include "store.h"

enum { LOCKS = 16, FENCES = 64, PROCESSES = 256 };

/* SETTLED: for how long after the last fault connections may be silently dead, requests unanswered,
 * and undos outstanding. UNKNOWN: how long a hold may be on its way to its owner. UNCLAIMED: how
 * long the server keeps a grant that no client claims. */
enum { SETTLED_MS = 12000, UNKNOWN_MS = 2500, UNCLAIMED_MS = 3000, LOOK_MS = 10 };

/* The last fences that were noted for some reason. */
typedef struct ring {
    int64_t of[FENCES];
    size_t count; /* of all that were ever noted */
} ring;

typedef struct lock_of {
    char key[64];
    struct {
        int64_t at, fence;
    } seen[FENCES]; /* the highest fences, the oldest first */
    size_t seen_count;
    struct {
        int64_t fence, ballot;
        int pid;
    } ballots[FENCES]; /* the ballots of fences, with independent masters */
    size_t ballot_count;
    int64_t highest;  /* the highest fence, and */
    int64_t reverted; /* the fence up to which a release may have been lost with its master */
    struct {
        int64_t at, fence;
        int pid;
    } floors[PROCESSES]; /* the highest fence that each process has seen */
    struct {
        int64_t fence, since;
    } unknown[8]; /* holds of which no client knows */
    ring left;    /* left on the server on purpose */
    ring strands; /* perhaps left there by a close */
    ring granted; /* a fence is in it once, unless holds nest */
    int several, asked;
    int64_t lost_at, lost_until; /* when data were last lost; until when ended holds may be back */
    int64_t taken;               /* when another library last took it, or tried to */
    int64_t refused; /* a release may have been refused, or not sent, up to this fence */
    bool deserted;   /* the request of a close may not have reached the server */
    char head[600];  /* the head of its queue, and the last fence then */
    int64_t headed_at;
    int64_t last;
    int64_t back; /* the earliest place that a waiter asked to get back since the last look; or 0 */
    struct {
        int64_t fence, at, until;
    } done; /* the last result that was certainly left */
    ring finished;
    struct {
        int64_t fence, until;
        bool settled;
    } call;    /* made at most once; until: when its record may end */
    ring said; /* calls that may be made again, perhaps reported before the answer to their end */
    struct {
        int64_t at, until;
        char text[24];
        int64_t answered; /* when a result was last reported as kept */
    } kept;               /* a result that every caller gets from now on */
} lock_of;

static void note(ring *all, int64_t fence) { all->of[all->count++ % FENCES] = fence; }

static bool has(const ring *all, int64_t fence) {
    for (size_t i = 0; i < FENCES; i++)
        if (all->of[i] == fence)
            return true;
    return false;
}

static lock_of locks[LOCKS];
static int64_t forbidden_until, set_back;
static int64_t emptied_at; /* when a replica last lost its data */
static int64_t orderly_at; /* when all that dead and abandoned clients left has ended */
static bool killed, stepped, stepped_back, were_forbidden;
static bool forgot; /* a server has lost its data: if its clock is behind, fences begin anew */

static lock_of *lock_named(const char *key) {
    for (size_t i = 0; i < LOCKS; i++) {
        if (locks[i].key[0] == '\0')
            snprintf(locks[i].key, sizeof locks[i].key, "%s", key);
        if (strcmp(locks[i].key, key) == 0)
            return &locks[i];
    }
    abort();
}

/* -------------------------------------------------------- Fences, permits */

/* Return the highest fence at that time; 0: unknown. */
static int64_t highest_at(const lock_of *l, int64_t at) {
    size_t i = l->seen_count;
    while (i > 0 && l->seen[i - 1].at > at)
        i--;
    return i > 0 ? l->seen[i - 1].fence : 0;
}

static void see_fence(lock_of *l, int64_t fence) {
    if (l->seen_count > 0 && l->seen[l->seen_count - 1].fence >= fence)
        return;
    if (l->seen_count == FENCES)
        memmove(l->seen, l->seen + 1, --l->seen_count * sizeof *l->seen);
    l->seen[l->seen_count].at = sim_now();
    l->seen[l->seen_count++].fence = fence;
}

/* Return whether servers lost data while another clock was so far ahead that fences may begin anew
 * below it. */
static bool fences_may_fall(void) {
    if (servers_independent())
        return forgot && servers_spread() + 2 * SIM_S > servers_quarantine_s * SIM_S;
    return forgot && stepped_back;
}

/* A nested hold has the fence and the votes of the outer hold; every other hold has a fence of its
 * own. */
int64_t rules_ballot(const char *key, int64_t fence, int64_t ballot) {
    lock_of *l = lock_named(key);
    int pid = sim_pid(sim_self());
    for (size_t i = 0; i < FENCES; i++) {
        if (l->ballots[i].fence != fence)
            continue;
        if (l->ballots[i].pid == pid)
            return l->ballots[i].ballot;
        if (!fences_may_fall())
            sim_wrong("two holds of %s have the fence %lld", key, (long long)fence);
    }
    size_t at = l->ballot_count++ % FENCES;
    l->ballots[at].fence = fence;
    l->ballots[at].ballot = ballot;
    l->ballots[at].pid = pid;
    return ballot;
}

void rules_hold(const char *key, int64_t fence, bool shared, int64_t permits, int64_t began) {
    lock_of *l = lock_named(key);
    int pid = sim_pid(sim_self());
    size_t self = (size_t)pid % PROCESSES;
    bool split = sim_now() < l->lost_until; /* there may be two masters */
    /* A shared hold may nest in an older one, or may have been handed over. */
    bool fresh = !shared || (work.nested == 0 && !has(&l->left, fence));
    if (fresh && !split && !fences_may_fall() && fence < highest_at(l, began))
        sim_wrong("%s has the fence %lld of %s, and %lld was there before it asked",
                  sim_name(sim_self()), (long long)fence, key, (long long)highest_at(l, began));
    if (work.nested == 0 && !servers_independent() && !split && !fences_may_fall() &&
        has(&l->granted, fence) && !has(&l->left, fence))
        sim_wrong("%s has the fence %lld of %s, which another hold had before",
                  sim_name(sim_self()), (long long)fence, key);
    note(&l->granted, fence);
    if (l->floors[self].pid != pid)
        l->floors[self].fence = 0;
    l->floors[self].pid = pid;
    /* A hold that was handed over may be an older one that a failover has brought back. */
    bool adopted = split && has(&l->left, fence);
    /* A hold may nest in one that stood when a failover forgot the next holder. */
    bool nests = judge_knows(key, fence);
    if (fresh && !adopted && !nests && !(servers_independent() && fences_may_fall()) &&
        fence < l->floors[self].fence && l->floors[self].at < began)
        sim_wrong("%s has the fence %lld of %s, and has had %lld before", sim_name(sim_self()),
                  (long long)fence, key, (long long)l->floors[self].fence);
    l->highest = fence > l->highest ? fence : l->highest;
    if (split)
        l->reverted = l->highest;
    else
        see_fence(l, fence);
    if (fence > l->floors[self].fence) {
        l->floors[self].fence = fence;
        l->floors[self].at = sim_now();
    }
    int64_t count = store_weight(key);
    /* Too many, unless an ended hold is back; limits.c counts where limits are stored. */
    if (permits > 0 && count > permits && !split && !stepped && work.weights.limit == 0)
        sim_wrong("%s has holds of the weight %lld, and all of them asked for %lld permits", key,
                  (long long)count, (long long)permits);
}

void rules_empty_replica(void) { emptied_at = sim_now(); }

void rules_replicated(const char *key, int64_t fence, int32_t replicas, int64_t began) {
    if (replicas > 0 && emptied_at < began && !rules_lost_since(key, began) &&
        store_replicas(key, fence) < replicas)
        sim_wrong("a hold of %s with fence %lld was to be on %d replicas, and %d have it", key,
                  (long long)fence, (int)replicas, store_replicas(key, fence));
}

/* ------------------------------------------------------ Held for no client */

void rules_leave(const char *key, int64_t fence) {
    lock_of *l = lock_named(key);
    note(&l->left, fence);
}

void rules_strand(const char *key, int64_t fence) {
    lock_of *l = lock_named(key);
    if (!judge_settled(sim_now()) || (store_has(key, fence) && store_stays(key)))
        note(&l->strands, fence);
}

void rules_adopt(const char *key, int64_t fence) {
    lock_of *l = lock_named(key);
    for (size_t i = 0; i < FENCES; i++)
        if (l->left.of[i] == fence)
            l->left.of[i] = 0;
}

void rules_forbid(int64_t ns) {
    int64_t until = sim_now() + ns;
    forbidden_until = forbidden_until > until ? forbidden_until : until;
    were_forbidden = true;
}
bool rules_forbidden(void) { return sim_now() < forbidden_until; }

/* Return whether the lock has a hold of which no caller knows the fence: where a permission is
 * missing, an undo is given up in the end. */
static bool forsaken(const char *key) {
    int64_t fences[STORE_HOLDS];
    size_t count = were_forbidden ? store_fences(key, fences, STORE_HOLDS) : 0;
    for (size_t i = 0; i < count; i++)
        if (!judge_knows(key, fences[i]))
            return true;
    return false;
}

void rules_desert(const char *key) {
    lock_of *l = lock_named(key);
    if (!judge_has_left())
        return;
    l->deserted = true;
    bool fails =
        sim_set.no_memory > 0 || !judge_settled(sim_now()); /* the release may have failed */
    if (fails && store_last(key) > l->refused)
        l->refused = store_last(key);
}

bool rules_left_for_ever(const char *key) {
    const lock_of *l = lock_named(key);
    if (!store_stays(key))
        return false;
    for (size_t i = 0; i < FENCES; i++)
        if ((l->left.of[i] != 0 && store_has(key, l->left.of[i])) ||
            (l->strands.of[i] != 0 && store_has(key, l->strands.of[i])))
            return true;
    return l->deserted || forsaken(key);
}

void rules_asked(const char *key, int change) { lock_named(key)->asked += change; }

/* ---------------------------------------------------------------- Answers */

int64_t rules_free(const char *key, int64_t timeout_ms) {
    char head[sizeof locks->head];
    int64_t score, last;
    /* A waiter may be dead and still have its place; and a master that has become a replica, and is
     * behind, answers a try as long as its connection lasts. */
    bool unknown = servers_independent() || work.weights.limit > 0 || store_foreign(key) ||
                   (timeout_ms != 0 && store_head(key, head, sizeof head, &score, &last)) ||
                   (servers_count() > 1 && rules_lost_since(key, sim_now() - 40 * SIM_S));
    return !unknown && strcmp(store_tell(key), "nothing") == 0 ? store_last(key) : -1;
}

void rules_take(const char *key) { lock_named(key)->taken = sim_now(); }

/* Every grant of Holdfast stores a new last fence. */
void rules_busy(const char *key, int64_t free, int64_t began) {
    if (free >= 0 && free == rules_free(key, 0) && lock_named(key)->taken < began &&
        !rules_lost_since(key, began))
        sim_wrong("an acquire of %s is told that others hold it, and it was free: it has %s", key,
                  store_tell(key));
}

void rules_ended(const char *key, int64_t fence, int64_t began, const char *how) {
    /* No other hold has its fence. */
    bool alone = !servers_independent() && work.nested == 0 && !fences_may_fall();
    if (alone && !rules_lost_since(key, began) && store_has(key, fence))
        sim_wrong("a hold of %s with fence %lld is %s, and the server has it: %s", key,
                  (long long)fence, how, store_tell(key));
}

void rules_return(int64_t ns) {
    int64_t at = sim_now() + (work.longest_ms + SETTLED_MS) * SIM_MS + ns;
    orderly_at = orderly_at > at ? orderly_at : at;
}

void rules_abandon(void) {
    killed = true;
    rules_return(set_back);
}

void rules_several(const char *key, int change) {
    lock_of *l = lock_named(key);
    int64_t fences[STORE_HOLDS];
    size_t count = were_forbidden && change < 0 ? store_fences(key, fences, STORE_HOLDS) : 0;
    l->several += change;
    for (size_t i = 0; i < count; i++)
        if (fences[i] > l->refused)
            l->refused = fences[i];
}

static bool is_left(const lock_of *l, int64_t fence) {
    return has(&l->left, fence) || has(&l->strands, fence);
}

/* Return whether a client knows of a hold with this ballot, or may be asking for it now. */
static bool is_known_ballot(const lock_of *l, int64_t ballot) {
    if (l->several > 0 || l->asked > 0 || were_forbidden)
        return true;
    for (size_t i = 0; i < FENCES; i++)
        if (l->ballots[i].ballot == ballot &&
            (is_left(l, l->ballots[i].fence) || judge_knows(l->key, l->ballots[i].fence)))
            return true;
    return false;
}

static bool is_known(const lock_of *l, int64_t fence) {
    if (servers_independent())
        return is_known_ballot(l, fence);
    return is_left(l, fence) || l->several > 0 || fence <= l->reverted || fence <= l->refused ||
           (l->deserted && store_stays(l->key)) || judge_knows(l->key, fence);
}

/* Check that a hold that has stood for a while has a client that knows of it. */
static void look_for_orphans(lock_of *l) {
    int64_t fences[STORE_HOLDS], now = sim_now();
    size_t count = store_fences(l->key, fences, STORE_HOLDS);
    /* A client that is dead, or has no permission to leave the queue, is granted the lock and does
     * not claim it. */
    int64_t allowed_ms = were_forbidden || killed ? UNCLAIMED_MS + LOOK_MS : UNKNOWN_MS;
    for (size_t i = 0; i < sizeof l->unknown / sizeof *l->unknown; i++) {
        size_t at = 0;
        while (at < count && fences[at] != l->unknown[i].fence)
            at++;
        if (at == count || is_known(l, l->unknown[i].fence))
            l->unknown[i].fence = 0;
        else if (now - l->unknown[i].since > allowed_ms * SIM_MS)
            sim_wrong("%s is held with fence %lld, and no client knows of that for %.3f s: it has "
                      "%s",
                      l->key, (long long)l->unknown[i].fence,
                      (double)(now - l->unknown[i].since) / 1e9, store_tell(l->key));
    }
    for (size_t i = 0; i < count; i++) {
        size_t at = 0, room = SIZE_MAX;
        for (; at < sizeof l->unknown / sizeof *l->unknown; at++) {
            if (l->unknown[at].fence == fences[i])
                break;
            if (l->unknown[at].fence == 0)
                room = at;
        }
        if (at < sizeof l->unknown / sizeof *l->unknown || room == SIZE_MAX ||
            is_known(l, fences[i]))
            continue;
        l->unknown[room].fence = fences[i];
        l->unknown[room].since = now;
    }
}

/* -------------------------------------------------------------- The queue */

/* Note the place with which a waiter asks, which it gets back if it has left the queue. KEYS: K,
 * four more, and a key for each asker; ARGV: a number, and seven for each asker, the last of which
 * is the place. */
static void hear_places(int server, const sim_bytes *words, size_t count) {
    char key[sizeof locks->key] = "";
    int64_t keys = count > 3 ? servers_number(&words[2]) : 0;
    limits_look(server, words, count);
    if (keys < 6 || count < (size_t)(4 + keys + 7 * (keys - 5)) || words[3].length >= sizeof key)
        return;
    memcpy(key, words[3].bytes, words[3].length);
    lock_of *l = lock_named(key);
    for (int64_t i = 1; i <= keys - 5; i++) {
        int64_t place = servers_number(&words[3 + keys + 7 * i]);
        if (place > 0 && (l->back == 0 || place < l->back))
            l->back = place;
    }
}

/* Check that no waiter passes a healthy first waiter, except with an earlier place that it gets
 * back or with a head start, and soon after it arrived: by the server's clock, or, because that
 * clock may have stepped, by the world's. A grant that ends unclaimed has its client's waiters
 * skipped, which then get their places back; in restored data it ends later where the clock has
 * stepped back. */
static void look_for_passing(lock_of *l) {
    char head[sizeof l->head] = "";
    int64_t score = 0, last = 0, passed_ms = work.ahead > 0 ? AHEAD_MS + LOOK_MS : 0;
    bool recent = sim_now() - l->headed_at <= passed_ms * SIM_MS;
    bool waits = store_head(l->key, head, sizeof head, &score, &last) && !limits_changed(l->key);
    if (waits && strcmp(head, l->head) == 0 && last > l->last && last - score > passed_ms * 1000 &&
        !(stepped && (recent || sim_now() <= orderly_at)) && !(l->back > 0 && l->back <= score))
        sim_wrong("the first of the queue of %s was passed: %s; it has %s", l->key, head,
                  store_tell(l->key));
    if (!waits)
        head[0] = '\0';
    if (strcmp(head, l->head) != 0)
        l->headed_at = sim_now();
    memcpy(l->head, head, sizeof head);
    l->last = last;
    l->back = 0;
}

static void look(void *unused) {
    (void)unused;
    for (size_t i = 0; i < LOCKS && locks[i].key[0] != '\0'; i++) {
        if (sim_now() > orderly_at)
            look_for_orphans(&locks[i]);
        if (!servers_independent()) /* waiters queue at one master, and the majority decides */
            look_for_passing(&locks[i]);
    }
    sim_at(sim_now() + LOOK_MS * SIM_MS, look, NULL);
}

/* ------------------------------------------------------------------- Once */

void rules_finishes(const char *key, int64_t fence, int64_t ttl_ms) {
    lock_of *l = lock_named(key);
    int64_t until = sim_now() + (ttl_ms - 1000) * SIM_MS;
    if (l->call.fence == fence && until < l->call.until)
        l->call.until = until;
    note(&l->finished, fence);
}

void rules_finished(const char *key, int64_t fence, int64_t ttl_ms) {
    lock_of *l = lock_named(key);
    if (fence < l->done.fence || sim_now() < l->lost_until || has(&l->said, fence))
        return;
    l->done.fence = fence;
    l->done.at = sim_now();
    l->done.until = sim_now() + (ttl_ms - 1000) * SIM_MS;
}

void rules_result(const char *key, const void *result, size_t length, int64_t began) {
    const lock_of *l = lock_named(key);
    char text[24] = "";
    memcpy(text, result, length < sizeof text ? length : sizeof text - 1);
    int64_t fence = atoll(text);
    if (!has(&l->finished, fence) && l->finished.count <= FENCES)
        sim_wrong("a result of %s that no caller left: '%s'", key, text);
    if (l->kept.at > 0 && l->kept.at < began && sim_now() < l->kept.until &&
        strcmp(text, l->kept.text) != 0)
        sim_wrong("the result of %s is '%s', and '%s' was kept before", key, text, l->kept.text);
    if (!most_once(key) && l->done.at > 0 && l->done.at < began && fence < l->done.fence)
        sim_wrong("the result of %s is that of %lld, and that of %lld was there before", key,
                  (long long)fence, (long long)l->done.fence);
}

void rules_once(const char *key, int64_t fence, int64_t began) {
    const lock_of *l = lock_named(key);
    if (l->done.at > 0 && l->done.at < began && sim_now() < l->done.until)
        sim_wrong("%lld is to do for %s what %lld has done", (long long)fence, key,
                  (long long)l->done.fence);
}

void rules_calls(const char *key, int64_t fence, int64_t sent) {
    lock_of *l = lock_named(key);
    if (l->lost_at >= sent || sim_now() < l->lost_until || has(&l->said, fence))
        return;
    if (l->call.fence != 0 && sim_now() < l->call.until)
        sim_wrong("%lld calls for %s, and %lld has called, and no caller has said 'again'",
                  (long long)fence, key, (long long)l->call.fence);
    l->call.fence = fence;
    l->call.until = INT64_MAX;
    l->call.settled = false;
}

void rules_says(const char *key, int64_t fence) {
    lock_of *l = lock_named(key);
    if (!has(&l->said, fence))
        note(&l->said, fence);
    if (l->call.fence == fence)
        l->call.fence = 0;
    l->done.at = l->kept.at = 0;
}

void rules_settles(const char *key, int64_t fence) {
    lock_of *l = lock_named(key);
    if (l->call.fence == fence)
        l->call.settled = true;
}

void rules_refused(const char *key, int64_t fence) {
    const lock_of *l = lock_named(key);
    if (forgot && stepped_back) /* another hold may have the same fence */
        return;
    if (l->call.fence == fence && !l->call.settled && sim_now() < l->call.until)
        sim_wrong("the result of %lld for %s is refused, and it is not settled", (long long)fence,
                  key);
}

void rules_keeps(const char *key, const char *text, int64_t sent, int64_t ttl_ms) {
    lock_of *l = lock_named(key);
    bool crossed = l->kept.answered >= sent; /* answers crossed: their order is unknown */
    l->kept.answered = sim_now();
    l->kept.at = 0;
    if (crossed || l->lost_at >= sent || sim_now() < l->lost_until || has(&l->said, atoll(text)))
        return;
    l->kept.at = sim_now();
    l->kept.until = sent + (ttl_ms - 1000) * SIM_MS;
    snprintf(l->kept.text, sizeof l->kept.text, "%s", text);
}

/* ------------------------------------------------------------------ World */

static void lose(lock_of *l, int64_t ns) {
    int64_t until = sim_now() + ns;
    l->lost_at = sim_now();
    l->lost_until = l->lost_until > until ? l->lost_until : until;
    l->done.at = l->kept.at = l->call.fence = 0;
    l->head[0] = '\0'; /* a different queue is there now */
    if (ns > 0)
        l->reverted = l->highest;
    if (stepped_back && !servers_independent())
        l->seen_count = 0;
}

void rules_lose(const char *key, int64_t ns) {
    forgot = true;
    if (key != NULL)
        lose(lock_named(key), ns);
    for (size_t i = 0; i < LOCKS && key == NULL; i++)
        lose(&locks[i], ns);
}

bool rules_lost_since(const char *key, int64_t at) { return lock_named(key)->lost_until >= at; }

void rules_step(bool back) {
    stepped = true;
    stepped_back = stepped_back || back;
    for (size_t i = 0; i < LOCKS; i++) /* results end early or late */
        locks[i].done.at = locks[i].kept.at = 0;
}

void rules_kind(bool some_were_killed, int64_t back) {
    killed = killed || some_were_killed;
    set_back = back; /* leases end later by this */
    if (killed || stepped_back)
        rules_return(back);
    sim_at(sim_now() + SETTLED_MS * SIM_MS, look, NULL);
}

void rules_begin(void) {
    forgot = false;
    limits_begin();
    servers_watch = hear_places;
    memset(locks, 0, sizeof locks);
    for (size_t i = 0; i < LOCKS; i++)
        locks[i].lost_at = locks[i].lost_until = -1;
    forbidden_until = orderly_at = emptied_at = -1;
    set_back = 0;
    killed = stepped = stepped_back = were_forbidden = false;
}
