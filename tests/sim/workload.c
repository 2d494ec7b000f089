#include "program.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limits.h"
#include "lock/holds.h"
#include "rules.h"
#include "servers.h"

enum { OPS = 6 };

static const char *const keys[KEYS_MAX] = {"a", "b", "{t}c", "d", "e", "{t}f"};

const char *any_key(void) { return keys[below(work.keys)]; }

/* ------------------------------------------------------------------ Holds */

void believe(mine *m, int64_t began) {
    int64_t asked = sim_now();
    judge_promise(m->belief, asked, hf_hold_remaining_ms(m->hold), m->group != 0 ? 0 : began);
    if (m->renewed && hf_hold_state(m->hold) == HF_STATE_LOST)
        judge_lost(m->belief);
}

mine *keep_hold(program *p, hf_hold *hold, const char *key, const hf_lock_options *options,
                int64_t began, int64_t group) {
    mine *m = &p->holds[p->count++];
    *m = (mine){.hold = hold,
                .key = key,
                .shared = options->mode == HF_SHARED,
                .group = group,
                .renewed = options->renew == HF_ON && options->max_hold_ms == 0 &&
                           options->lease_ms >= work.renewable_ms &&
                           (!servers_independent() || /* it may nest in a hold that ends now */
                            hf_hold_remaining_ms(hold) >= work.renewable_ms)};
    /* The ids of a hold's votes have the same second half; no public function returns it. */
    int64_t ballot = (int64_t)strtoull(hold->id + HF_ID_LENGTH / 2, NULL, 16);
    m->belief = judge_holds(key, hf_hold_fence(hold), m->shared, options, began, ballot);
    judge_number(m->belief, hf_hold_number(hold));
    limits_granted(key, options, began);
    rules_replicated(key, hf_hold_fence(hold), options->replicas, began);
    judge_join(m->belief, group);
    believe(m, began);
    sim_trace("holds %s with fence %lld", key, (long long)hf_hold_fence(hold));
    return m;
}

void drop_hold(program *p, int which) {
    if (p->holds[which].belief != NULL)
        judge_over(p->holds[which].belief);
    hf_lock_close(p->holds[which].lock);
    hf_hold_close(p->holds[which].hold);
    p->holds[which] = p->holds[--p->count];
}

hf_lock_options lock_options(bool *shared, int64_t *permits) {
    hf_lock_options o = {.size = sizeof o};
    *shared = often(work.shared);
    *permits = 0;
    if (*shared) {
        o.mode = HF_SHARED;
        /* Where limits are stored, some callers give another number, or none. */
        bool strays = work.weights.limit > 0 && often(0.5);
        *permits = o.permits = strays ? below(4) : work.permits;
        bool heavy = o.permits > 1 || (work.weights.limit > 0 && o.permits == 0);
        o.weight = heavy && often(0.3) ? 2 : 0;
    }
    o.lease_ms =
        work.endless && often(0.1) ? HF_NEVER : sim_span(work.shortest_ms, work.longest_ms);
    o.renew = often(work.renewed) && o.lease_ms != HF_NEVER ? HF_ON : HF_OFF;
    o.reentrant = often(work.nested) && *permits == 0 ? HF_ON : HF_OFF; /* nesting counts, too */
    if (*shared && work.weights.limit > 0 && often(0.2)) {
        o.lease_ms = GATE_MS;
        o.renew = HF_OFF;
    }
    if (o.renew == HF_ON && often(work.max_hold))
        o.max_hold_ms = sim_span(100, 20000);
    o.heal = work.heals ? HF_ON : HF_OFF;
    o.ahead_ms = work.ahead > 0 && often(work.ahead) ? sim_span(1, AHEAD_MS) : 0;
    if (o.lease_ms != GATE_MS && often(work.replicated)) { /* or a timeout may be too long */
        o.replicas = 1;
        o.replica_timeout_ms = sim_span(1, work.shortest_ms - 1);
    }
    return o;
}

hf_lock *open_lock(program *p, const char *key, const hf_lock_options *options) {
    hf_lock *lock = NULL;
    char owner[32];
    bool owned = often(work.owned);
    snprintf(owner, sizeof owner, "owner %d", below(3));
    hf_status status = hf_lock_open(p->client, key, strlen(key), owned ? owner : NULL,
                                    owned ? strlen(owner) : 0, options, &lock);
    if (status != HF_OK && status != HF_ENOMEM && status != HF_ECLOSED)
        sim_wrong("hf_lock_open answers %s: %s", hf_status_name(status), hf_error_message());
    return lock;
}

int64_t any_timeout(const program *p) {
    if (often(work.tries))
        return 0;
    if (often(work.forever) && p->count == 0)
        return HF_FOREVER;
    return sim_span(5, 20000);
}

void acquire(program *p) {
    bool shared;
    int64_t permits;
    const char *key = any_key();
    if (p->count == HOLDS)
        return;
    hf_lock_options options = lock_options(&shared, &permits);
    hf_lock *lock = open_lock(p, key, &options);
    if (lock == NULL)
        return;
    int64_t timeout = any_timeout(p);
    hf_hold *hold = NULL;
    call c = judge_call("acquire");
    int64_t free = rules_free(key, timeout);
    if (timeout != 0 && permits == 0 && !shared)
        judge_waits(key, &c);
    hf_status status = hf_lock_acquire(lock, timeout, &hold);
    if (timeout != 0 && permits == 0 && !shared)
        judge_waits_no_more(key, &c, status == HF_OK);
    sim_trace("acquire of %s (%lld ms, lease %lld): %s %s", key, (long long)timeout,
              (long long)options.lease_ms, hf_status_name(status),
              status != HF_OK ? hf_error_message() : "");
    judge_answered(&c, bound_of(timeout, &options));
    if (!p->brakes)
        judge_reached(&c, status);
    p->ended[status]++;
    if (status == HF_OK)
        keep_hold(p, hold, key, &options, c.since, 0);
    else
        rules_desert(key);
    if (status == HF_ELIMIT)
        limits_refused(key, &options, hf_error_message(), c.since);
    if (is_held_by_others(status))
        rules_busy(key, free, c.since);
    if (status == HF_ETIMEOUT)
        judge_timed_out(&c, timeout);
    if (timeout == HF_FOREVER && (status == HF_EBUSY || status == HF_ETIMEOUT))
        sim_wrong("an acquire of %s without a time limit ends as %s: %s", key,
                  hf_status_name(status), hf_error_message());
    hf_lock_close(lock);
}

static void acquire_all(program *p) {
    hf_lock *locks[3] = {0};
    const char *names[3];
    hf_hold *holds[3];
    hf_lock_options options[3], slowest = {0};
    int count = 1 + below(3);
    if (p->count + count > HOLDS || work.keys < count)
        return;
    int first = below(work.keys), opened = 0;
    for (int i = 0; i < count; i++) {
        names[i] = keys[(first + i) % work.keys];
        bool shared;
        int64_t permits;
        options[i] = lock_options(&shared, &permits);
        locks[i] = open_lock(p, names[i], &options[i]);
        slowest.replica_timeout_ms += options[i].replica_timeout_ms;
        opened += locks[i] != NULL;
    }
    int64_t timeout = p->count > 0 ? sim_span(5, 5000) : any_timeout(p);
    if (opened == count) {
        int64_t free[3];
        call c = judge_call("acquire all");
        for (int i = 0; i < count; i++) {
            free[i] = rules_free(names[i], timeout);
            rules_several(names[i], 1);
        }
        hf_status status = hf_lock_acquire_all(locks, (size_t)count, NULL, 0, timeout, NULL, holds);
        sim_trace("acquire of %d: %s", count, hf_status_name(status));
        int64_t bound = bound_of(timeout, &slowest);
        if (bound >= 0) /* a connect_timeout more for each release of the locks that it had */
            bound += (count - 1) * patience();
        judge_answered(&c, bound);
        int at = is_held_by_others(status) ? hf_error_last()->lock : -1;
        if (at >= 0 && at < count)
            rules_busy(names[at], free[at], c.since);
        if (status == HF_ETIMEOUT)
            judge_timed_out(&c, timeout);
        int64_t group = count > 1 ? judge_group() : 0;
        p->uncounted = true;
        for (int i = 0; status == HF_OK && i < count; i++)
            keep_hold(p, holds[i], names[i], &options[i], c.since, group);
        for (int i = 0; i < count; i++) {
            rules_desert(names[i]);
            rules_several(names[i], -1);
        }
    }
    for (int i = 0; i < count; i++)
        hf_lock_close(locks[i]);
}

/* Note a hold whose release the server refused, even when it was sent again, for want of a
 * permission, perhaps after an answer that was lost: the lease ends the hold. */
static void leave_refused(const char *key, hf_hold *hold, hf_status status) {
    if (status == HF_ESERVER || (status == HF_EUNKNOWN && rules_forbidden()))
        rules_leave(key, hf_hold_fence(hold));
}

/* Doubt the holds that are joined with this one: what a call learns of one hold is true of all
 * before the call returns. */
static void doubt_joined(program *p, const mine *m) {
    for (int i = 0; i < p->count; i++)
        if (m->group != 0 && p->holds[i].group == m->group)
            judge_forget(p->holds[i].belief);
}

static void trust_joined(program *p, int64_t group) {
    for (int i = 0; i < p->count; i++)
        if (group != 0 && p->holds[i].group == group)
            believe(&p->holds[i], 0);
}

void release(program *p, int which) {
    mine *m = &p->holds[which];
    int64_t group = m->group;
    judge_forget(m->belief);
    doubt_joined(p, m);
    call c = judge_call("release");
    hf_status status = m->lock != NULL && often(0.5) ? hf_lock_release(m->lock)
                       : m->lock != NULL ? hf_lock_release_as(m->lock, m->owner, strlen(m->owner))
                       : m->once && often(0.7) ? finish(m)
                                               : hf_hold_release(m->hold);
    sim_trace("release of %s: %s", m->key, hf_status_name(status));
    judge_answered(&c, patience());
    if (!p->brakes)
        judge_reached(&c, status);
    if (status == HF_EINVAL)
        sim_wrong("a release answers HF_EINVAL: %s", hf_error_message());
    p->found_lost += status == HF_ELOST || m->marked;
    leave_refused(m->key, m->hold, status);
    const char *key = m->key;
    int64_t fence = hf_hold_fence(m->hold);
    drop_hold(p, which);
    trust_joined(p, group);
    if (status == HF_OK)
        rules_ended(key, fence, c.since, "released");
}

/* Check a call that reports that the server does not know the hold any more. */
static void look_if_gone(const mine *m, hf_status status, int64_t began) {
    if (status == HF_ELOST && hf_hold_cause(m->hold) == HF_CAUSE_GONE && m->group == 0)
        rules_ended(m->key, hf_hold_fence(m->hold), began, "told gone");
}

static void ask(const program *p, mine *m, const char *name, hf_status (*question)(hf_hold *hold)) {
    call c = judge_call(name);
    hf_status status = question(m->hold);
    sim_trace("%s of %s: %s", name, m->key, hf_status_name(status));
    judge_answered(&c, patience());
    if (!p->brakes)
        judge_reached(&c, status);
    look_if_gone(m, status, c.since);
    believe(m, status == HF_OK ? c.since : 0);
}

void renew(const program *p, mine *m) { ask(p, m, "renew", hf_hold_renew); }

static void replace(mine *m, int64_t lease_ms) {
    m->renewed = m->renewed && lease_ms >= work.renewable_ms;
    judge_shorten(m->belief);
}

static void extend(mine *m, bool replaces) {
    int64_t ms = sim_span(work.shortest_ms, work.longest_ms);
    if (replaces)
        replace(m, ms);
    call c = judge_call(replaces ? "replace" : "extend");
    hf_status status = hf_hold_extend(m->hold, ms, replaces ? HF_EXTEND_REPLACE : 0);
    sim_trace("extend of %s by %lld ms: %s", m->key, (long long)ms, hf_status_name(status));
    judge_answered(&c, patience());
    judge_reached(&c, status);
    believe(m, status == HF_OK ? c.since : 0);
}

static void check(const program *p, mine *m) { ask(p, m, "check", hf_hold_check); }

/* Keep the hold, at once or by a release. */
static void keep(program *p, int which) {
    mine *m = &p->holds[which];
    bool least = often(0.5);
    int64_t ms = sim_span(10, 5000);
    replace(m, ms);
    call c = judge_call("keep");
    if (least)
        hf_hold_keep_at_least(m->hold, ms);
    hf_status status = least ? hf_hold_release(m->hold) : hf_hold_keep(m->hold, ms);
    sim_trace("keep of %s%s: %s", m->key, least ? " at least" : "", hf_status_name(status));
    p->found_lost += status == HF_ELOST;
    judge_answered(&c, least ? 7 * patience() : 2 * patience());
    if (status == HF_OK)
        rules_leave(m->key, hf_hold_fence(m->hold));
    if (status == HF_OK && !least) {
        judge_keeps(m->belief, c.since, ms);
        m->belief = NULL;
    }
    if (least)
        hf_hold_keep_at_least(m->hold, 0); /* if keeping fails, its release still releases it */
    bool over = least && hf_hold_state(m->hold) == HF_STATE_RELEASED;
    if (status != HF_OK && over)
        leave_refused(m->key, m->hold, status);
    if (status == HF_OK || status == HF_ENOTHELD || status == HF_ELOST || over)
        drop_hold(p, which);
    else
        believe(m, status == HF_OK ? c.since : 0);
}

static void hand(program *p, int which) {
    mine *m = &p->holds[which];
    char token[HF_TOKEN_MAX];
    size_t length;
    const char *key = m->key;
    bool shared = m->shared;
    if (hf_hold_remaining_ms(m->hold) == HF_NEVER)
        return; /* if no program can adopt it, none ends it */
    judge_forget(m->belief);
    hf_status status = hf_hold_hand_over(m->hold, token, sizeof token, &length);
    sim_trace("hand over of %s: %s", key, hf_status_name(status));
    p->found_lost += status == HF_ELOST;
    if (status != HF_OK) {
        believe(m, 0);
        return;
    }
    rules_leave(key, hf_hold_fence(m->hold)); /* perhaps no program adopts it */
    drop_hold(p, which);
    hf_lock_options options = {.size = sizeof options,
                               .lease_ms = 2000,
                               .renew = HF_ON,
                               .mode = shared ? HF_SHARED : HF_EXCLUSIVE};
    hf_lock *lock = open_lock(p, key, &options);
    if (lock == NULL)
        return;
    hf_hold *hold;
    call c = judge_call("adopt");
    status = hf_lock_adopt(lock, token, length, &hold);
    sim_trace("adopt of %s: %s", key, hf_status_name(status));
    judge_answered(&c, patience());
    if (status == HF_OK) {
        keep_hold(p, hold, key, &options, c.since, 0);
        rules_adopt(key, hf_hold_fence(hold));
    }
    hf_lock_close(lock);
}

static void look(program *p) {
    hf_lock_options options = {.size = sizeof options};
    hf_lock_info info = {.size = sizeof info};
    hf_view *view = NULL;
    hf_lock *lock = open_lock(p, any_key(), &options);
    if (lock == NULL)
        return;
    call c = judge_call("inspect");
    hf_status status = hf_lock_inspect(lock, 0, &info, &view);
    judge_answered(&c, patience());
    judge_reached(&c, status);
    if (status == HF_OK)
        hf_view_close(view);
    hf_lock_close(lock);
}

static void break_lock(program *p) {
    const char *key = any_key();
    hf_lock_options options = {.size = sizeof options};
    hf_lock *lock = open_lock(p, key, &options);
    if (lock == NULL)
        return;
    judge_excuse(key);
    call c = judge_call("break");
    hf_lock_break(lock, 0, 0);
    judge_answered(&c, patience());
    judge_excuse(key);
    hf_lock_close(lock);
}

static bool goes_on(const program *p) {
    return !work.stop && sim_now() < work.until && !(*p->closed && often(0.5));
}

/* Make random calls as a program of one thread does; at the end it releases all its holds. */
static void step(program *p) {
    int total = 0, at = 0;
    const int *weights = &work.weights.acquire;
    enum { KINDS = sizeof work.weights / sizeof(int) };
    for (int i = 0; i < KINDS; i++)
        total += weights[i];
    int chosen = below(total);
    for (; chosen >= weights[at]; at++)
        chosen -= weights[at];
    int which = p->count > 0 ? below(p->count) : -1;
    switch (at) {
    case 0:
        acquire(p);
        break;
    case 1:
        acquire_all(p);
        break;
    case 2:
        once(p);
        break;
    case 10:
        look(p);
        break;
    case 11:
        acquire_for_owner(p);
        break;
    case 12:
        walk(p);
        break;
    case 13:
        tell(p);
        break;
    case 14:
        brake(p);
        break;
    case 15:
        be_cancelled(p);
        break;
    case 16:
        split(p);
        break;
    case 17:
        break_lock(p);
        break;
    case 18:
        set_limit(p);
        break;
    default:
        if (which < 0)
            return;
    }
    if (at == 3)
        release(p, which);
    else if (at == 4)
        renew(p, &p->holds[which]);
    else if (at == 5 || at == 6)
        extend(&p->holds[which], at == 6);
    else if (at == 7)
        check(p, &p->holds[which]);
    else if (at == 8)
        keep(p, which);
    else if (at == 9)
        hand(p, which);
}

static void *run_program(void *argument) {
    program *p = argument;
    while (goes_on(p)) {
        step(p);
        for (int i = 0; i < p->count; i++)
            believe(&p->holds[i], 0);
        think();
    }
    while (p->count > 0)
        release(p, p->count - 1);
    return NULL;
}

/* ---------------------------------------------------------------- Started */

/* A loop that starts operations and reads their completions. */
typedef struct pending {
    int64_t op;
    enum { ACQUIRES, RELEASES, FINISHES, KEEPS, RENEWS } kind;
    mine m;                  /* of an acquire only the key */
    hf_lock_options options; /* of an acquire */
    bool waits;
    int64_t group;         /* of an acquire of several */
    int64_t ttl_ms;        /* of a result, or of a kept hold */
    int64_t timeout, free; /* of an acquire: rules_free() */
    int place;             /* of an acquire of several */
    call since;
    int64_t bound;
} pending;

typedef struct loop {
    program base;
    pending ops[OPS];
    int count;
    int64_t number;
    int fd;
    int64_t lost; /* holds whose loss was reported */
    int64_t last_lost[HOLDS];
} loop;

static void start_acquire(loop *l) {
    bool shared;
    int64_t permits;
    const char *key = any_key();
    hf_lock_options options = lock_options(&shared, &permits);
    hf_lock *lock = open_lock(&l->base, key, &options);
    if (lock == NULL)
        return;
    /* The loop's holds have one owner, who must not wait for itself for ever. */
    int64_t timeout = often(work.tries) ? 0 : sim_span(5, 10000), op = ++l->number;
    bool for_result = !shared && !most_once(key) && work.weights.once > 0 && often(0.2);
    char owner[40];
    snprintf(owner, sizeof owner, "task %d.%lld", l->base.number, (long long)op);
    pending *o = &l->ops[l->count];
    *o = (pending){.op = op,
                   .kind = ACQUIRES,
                   .m = {.key = key, .once = for_result},
                   .options = options,
                   .timeout = timeout,
                   .free = rules_free(key, timeout),
                   .since = judge_call(for_result ? "start once" : "start acquire"),
                   .bound = bound_of(timeout, &options) + patience()}; /* to be confirmed */
    hf_status status = for_result
                           ? hf_once_begin_start(lock, timeout, NULL, NULL, 0, op)
                           : hf_lock_acquire_start(lock, owner, strlen(owner), timeout, NULL, op);
    if (status == HF_OK) {
        l->count++;
        o->waits = timeout != 0 && !shared && !for_result;
        if (o->waits)
            judge_waits(key, &o->since);
    } else {
        l->base.uncounted = true; /* perhaps nothing was begun */
    }
    hf_lock_close(lock);
}

/* Start an acquire of several locks, which each have a completion of their own: then all are held,
 * or none. */
static void start_several(loop *l) {
    hf_lock *locks[3] = {0};
    hf_lock_options slowest = {0};
    int count = 1 + below(3), first = below(work.keys), opened = 0;
    if (l->count + count > OPS || l->base.count + l->count + count > HOLDS || work.keys < count)
        return;
    int64_t timeout = often(work.tries) ? 0 : sim_span(5, 5000), op = l->number + 1;
    l->number += count;
    int64_t group = judge_group();
    call since = judge_call("start acquire all");
    for (int i = 0; i < count; i++) {
        bool shared;
        int64_t permits;
        pending *o = &l->ops[l->count + i];
        *o = (pending){.op = op + i,
                       .kind = ACQUIRES,
                       .m = {.key = keys[(first + i) % work.keys]},
                       .options = lock_options(&shared, &permits),
                       .timeout = timeout,
                       .place = i,
                       .group = group,
                       .since = since};
        o->free = rules_free(o->m.key, timeout);
        locks[i] = open_lock(&l->base, o->m.key, &o->options);
        slowest.replica_timeout_ms += o->options.replica_timeout_ms;
        opened += locks[i] != NULL;
    }
    l->base.uncounted = true;
    int64_t bound = bound_of(timeout, &slowest) + patience();
    for (int i = 0; i < count; i++) /* all its holds are released together */
        l->ops[l->count + i].bound = count == 1 ? bound : bound + patience();
    if (opened == count &&
        hf_lock_acquire_all_start(locks, (size_t)count, NULL, 0, timeout, NULL, op) == HF_OK) {
        for (int i = 0; i < count; i++)
            rules_several(l->ops[l->count + i].m.key, 1);
        l->count += count;
    }
    for (int i = 0; i < count; i++)
        hf_lock_close(locks[i]);
}

static hf_status start_end(pending *o) {
    char text[32];
    judge_forget(o->m.belief);
    if (o->m.once && often(0.7)) {
        o->kind = FINISHES;
        o->ttl_ms = sim_span(10000, 60000);
        int length = snprintf(text, sizeof text, "%lld", (long long)hf_hold_fence(o->m.hold));
        rules_finishes(o->m.key, hf_hold_fence(o->m.hold), o->ttl_ms);
        return hf_once_finish_start(o->m.hold, HF_ONCE_DONE, text, (size_t)length, o->ttl_ms,
                                    o->op);
    }
    if (work.weights.keep > 0 && hf_hold_remaining_ms(o->m.hold) != HF_NEVER && often(0.2)) {
        o->kind = KEEPS;
        int64_t ms = o->ttl_ms = sim_span(10, 5000);
        replace(&o->m, 0); /* if it is not kept, its lease may be short */
        return hf_hold_keep_start(o->m.hold, ms, o->op);
    }
    return hf_hold_release_start(o->m.hold, o->op);
}

static hf_status start_renewal(pending *o) {
    if (often(0.3))
        return hf_hold_check_start(o->m.hold, o->op);
    if (often(0.4))
        return hf_hold_renew_start(o->m.hold, o->op);
    bool replaces = work.weights.replace > 0 && often(0.5);
    int64_t ms = sim_span(work.shortest_ms, work.longest_ms);
    if (replaces)
        replace(&o->m, ms);
    return hf_hold_extend_start(o->m.hold, ms, replaces ? HF_EXTEND_REPLACE : 0, o->op);
}

static void start_on(loop *l, int which, bool ends) {
    pending *o = &l->ops[l->count];
    *o = (pending){.op = ++l->number,
                   .kind = ends ? RELEASES : RENEWS,
                   .m = l->base.holds[which],
                   .since = judge_call("start"),
                   .bound = 2 * patience() + work.command_ms};
    hf_status status = ends ? start_end(o) : start_renewal(o);
    if (status != HF_OK) {
        if (ends) /* memory ran out, and its lease may have no end */
            release(&l->base, which);
        return;
    }
    l->count++;
    l->base.holds[which] = l->base.holds[--l->base.count]; /* the operation has it now */
}

static void end_acquire(loop *l, const pending *o, const hf_completion *done) {
    l->base.ended[done->status]++;
    if (is_held_by_others(done->status) && (o->group == 0 || done->error.lock == o->place))
        rules_busy(o->m.key, o->free, o->since.since);
    if (done->status == HF_ETIMEOUT)
        judge_timed_out(&o->since, o->timeout);
    if (done->status == HF_OK) {
        mine *m = keep_hold(&l->base, done->hold, o->m.key, &o->options, o->since.since, o->group);
        m->once = o->m.once;
        if (m->once)
            rules_once(m->key, hf_hold_fence(m->hold), o->since.since);
    } else if (done->status == HF_ELIMIT && o->group == 0) {
        limits_refused(o->m.key, &o->options, done->error.message, o->since.since);
    } else if (has_outcome(done->status)) {
        take_result(o->m.key, done->hold, o->since.since);
    }
}

static void end_op(loop *l, const hf_completion *done) {
    int which = 0;
    while (which < l->count && l->ops[which].op != done->op)
        which++;
    if (which == l->count)
        sim_wrong("a completion of operation %lld, which is not under way", (long long)done->op);
    pending o = l->ops[which];
    hf_status status = done->status;
    l->ops[which] = l->ops[--l->count];
    if (o.waits)
        judge_waits_no_more(o.m.key, &o.since, status == HF_OK);
    sim_trace("operation %lld (%d) on %s: %s %s", (long long)o.op, o.kind, o.m.key,
              hf_status_name(status), status != HF_OK ? done->error.message : "");
    judge_answered(&o.since, o.bound);
    if (o.kind == ACQUIRES) {
        if (status != HF_OK || o.group != 0)
            rules_desert(o.m.key);
        if (o.group != 0)
            rules_several(o.m.key, -1);
        end_acquire(l, &o, done);
        return;
    }
    bool kept_on =
        o.kind == KEEPS && status != HF_OK && status != HF_ENOTHELD && status != HF_ELOST;
    if (o.kind == RENEWS || kept_on) {
        l->base.holds[l->base.count++] = o.m;
        believe(&o.m, o.kind == RENEWS && status == HF_OK ? o.since.since : 0);
        return;
    }
    if (o.kind == FINISHES && status == HF_OK && judge_intact(o.m.belief))
        rules_finished(o.m.key, hf_hold_fence(o.m.hold), o.ttl_ms);
    if (o.kind == KEEPS && status == HF_OK)
        rules_leave(o.m.key, hf_hold_fence(o.m.hold));
    l->base.found_lost += status == HF_ELOST;
    leave_refused(o.m.key, o.m.hold, status);
    if (o.kind == KEEPS && status == HF_OK)
        judge_keeps(o.m.belief, o.since.since, o.ttl_ms);
    else
        judge_over(o.m.belief);
    if (o.kind == RELEASES && status == HF_OK)
        rules_ended(o.m.key, hf_hold_fence(o.m.hold), o.since.since, "released");
    hf_hold_close(o.m.hold);
}

/* Note that a hold is reported lost; each hold is reported once. */
static void hear_of_loss(loop *l, int64_t number, int cause) {
    sim_trace("hold %lld is told lost", (long long)number);
    for (int i = 0; i < HOLDS; i++)
        if (l->last_lost[i] == number)
            sim_wrong("hold %lld is told lost twice", (long long)number);
    l->last_lost[l->lost++ % HOLDS] = number;
    judge_told_lost(number, cause == HF_CAUSE_GONE);
}

/* Give up all that is pending: the client was closed, and its queue is empty, so a missing
 * completion never arrives. */
static void give_up_all(loop *l) {
    while (l->count > 0) {
        pending o = l->ops[--l->count];
        if (o.waits)
            judge_waits_no_more(o.m.key, &o.since, false);
        if (o.kind == ACQUIRES) {
            rules_desert(o.m.key);
            if (o.group != 0)
                rules_several(o.m.key, -1);
            continue;
        }
        judge_over(o.m.belief);
        hf_hold_close(o.m.hold);
    }
}

static void must_be_sound(const hf_completion *trouble) {
    bool begins = trouble->kind == HF_KIND_TROUBLE && trouble->status != HF_OK;
    if (trouble->error.message[0] == '\0' || (begins && trouble->holds < 1))
        sim_wrong("trouble of %lld holds: %s", (long long)trouble->holds, trouble->error.message);
}

static void read_completions(loop *l, int ms) {
    hf_completion done = {.size = sizeof done};
    hf_status status;
    if (l->fd >= 0)
        poll(&(struct pollfd){.fd = l->fd, .events = POLLIN}, 1, ms);
    else
        usleep((unsigned)ms * 1000);
    while ((status = hf_client_next(l->base.client, &done)) == HF_OK && done.kind != HF_KIND_NONE)
        if (done.kind == HF_KIND_LOSS)
            hear_of_loss(l, done.hold_number, done.cause);
        else if (done.kind == HF_KIND_TROUBLE || done.kind == HF_KIND_FAILOVER)
            must_be_sound(&done);
        else if (done.kind != HF_KIND_ALARM)
            end_op(l, &done);
    if (status == HF_ECLOSED && !*l->base.closed)
        usleep(1000); /* the close is about to end these operations */
    if (status == HF_ECLOSED && *l->base.closed) {
        if (l->count > 0)
            sim_wrong("%d operations of a closed client have not ended", l->count);
        give_up_all(l);
    }
}

static void *run_loop(void *argument) {
    loop *l = argument;
    while (goes_on(&l->base)) {
        int room = HOLDS - l->base.count - l->count;
        if (room > 0 && l->count < OPS && often(0.6) && work.weights.all > 0 && often(0.2))
            start_several(l);
        else if (room > 0 && l->count < OPS && often(0.6))
            start_acquire(l);
        else if (l->base.count > 0 && l->count < OPS)
            start_on(l, below(l->base.count), often(0.5));
        if (work.cancels && l->count > 0 && often(0.1))
            hf_op_cancel(l->base.client, l->ops[below(l->count)].op);
        for (int i = 0; i < l->base.count; i++)
            believe(&l->base.holds[i], 0);
        read_completions(l, (int)sim_span(1, work.think_ms + 1));
    }
    for (;;) {
        while (l->base.count > 0 && l->count < OPS)
            start_on(l, l->base.count - 1, true);
        if (l->count == 0)
            return NULL;
        read_completions(l, 1000);
    }
}

/* ---------------------------------------------------------------- Process */

/* Write the URL of the same servers in other words. */
static void any_url(char *url, size_t size) {
    const char *rest = strstr(work.url, "//") + 2;
    snprintf(url, size, "%.*s%s%s%s", (int)(rest - work.url), work.url,
             often(0.3) ? "default:any%20word@" : "", rest,
             !often(0.3)                 ? ""
             : strchr(rest, '?') == NULL ? "?client_name=program&keepalive=0.5"
                                         : "&client_name=program&keepalive=0.5");
    /* Clients of several masters must give the masters the same names. */
    bool named = !servers_independent() && often(0.3);
    for (char *at = url; named && (at = strstr(at, "10.0.0.")) != NULL;) {
        memcpy(at, "host", 4); /* host1 is a name of the simulated system */
        memmove(at + 4, at + 7, strlen(at + 7) + 1);
    }
}

hf_client *open_client(void) {
    char url[300];
    hf_client_options options = {.size = sizeof options,
                                 .trouble = HF_ON,
                                 .connect_timeout_ms = work.connect_ms,
                                 .command_timeout_ms = work.command_ms,
                                 .lazy = work.lazy ? HF_ON : HF_OFF,
                                 .count_names = work.counts ? HF_ON : HF_DEFAULT};
    hf_client *client = NULL;
    any_url(url, sizeof url);
    while (sim_now() < work.until && !work.stop) {
        call c = judge_call("open");
        hf_status status = hf_client_open(url, &options, &client);
        judge_answered(&c, patience());
        if (status == HF_OK)
            return client;
        sim_trace("open: %s", hf_error_message());
        think();
    }
    return NULL;
}

void begin_thread(pthread_t *thread, void *(*main)(void *), void *argument) {
    while (pthread_create(thread, NULL, main, argument) != 0)
        think();
}

/* Check that the counts of all names add up to those of the client. */
static void check_names(hf_client *client, const hf_stats *all) {
    hf_stats sum = {0}, one = {.size = sizeof one};
    char name[100];
    size_t length;
    for (int64_t i = 0; i <= all->names; i++) {
        if (hf_client_name_stats(client, i, &one, name, sizeof name, &length) != HF_OK)
            sim_wrong("no counts of the name %lld of %lld", (long long)i, (long long)all->names);
        sum.acquired += one.acquired;
        sum.timed_out += one.timed_out;
        sum.released += one.released;
    }
    if (sum.acquired != all->acquired || sum.timed_out != all->timed_out ||
        sum.released != all->released)
        sim_wrong("the counts of %lld names are not those of their client", (long long)all->names);
}

/* Check, after all calls have ended, that the client counted what its callers saw. */
static void check_counts(hf_client *client, const program *programs, int threads, loop *l) {
    hf_stats told = {.size = sizeof told};
    int64_t ended[STATUSES] = {0}, others = 0, waits = 0;
    bool uncounted = l->base.uncounted;
    int64_t found = l->base.found_lost;
    if (hf_client_stats(client, &told) != HF_OK)
        return;
    for (int s = 0; s < STATUSES; s++) {
        ended[s] = l->base.ended[s];
        for (int i = 0; i < threads; i++)
            ended[s] += programs[i].ended[s];
        others += s != HF_EINVAL && s != HF_ECLOSED ? ended[s] : 0;
    }
    for (int i = 0; i < threads; i++) {
        uncounted = uncounted || programs[i].uncounted;
        found += programs[i].found_lost;
    }
    const struct {
        int64_t is, shall;
        const char *what;
    } counts[] = {
        {told.acquired, ended[HF_OK], "acquired"},
        {told.answered_done, ended[HF_EDONE], "done"},
        {told.answered_failed, ended[HF_EFAILED], "failed calls"},
        {told.answered_unknown, ended[HF_EOUTCOME], "unknown outcomes"},
        {told.answered_mismatch, ended[HF_EMISMATCH], "other calls"},
        {told.busy, ended[HF_EBUSY], "busy"},
        {told.timed_out, ended[HF_ETIMEOUT], "timed out"},
        {told.canceled, ended[HF_ECANCELED], "canceled"},
        {told.interrupted, ended[HF_EINTR], "interrupted"},
        {told.deadlocks, ended[HF_EDEADLOCK], "deadlocks"},
        {told.unreplicated, ended[HF_EREPLICAS], "without replicas"},
        {told.unknown, ended[HF_EUNKNOWN], "unknown"},
        {told.unreachable, ended[HF_ECONNECT], "unreachable"},
    };
    for (size_t i = 0; !uncounted && i < sizeof counts / sizeof *counts; i++) {
        if (counts[i].is != counts[i].shall)
            sim_wrong("%lld acquires ended as %s, and the client counts %lld",
                      (long long)counts[i].shall, counts[i].what, (long long)counts[i].is);
        others -= counts[i].shall;
    }
    /* Without memory an acquire may end before it is counted. */
    if (!uncounted && (told.failed > others || told.failed < others - ended[HF_ENOMEM]))
        sim_wrong("%lld acquires failed otherwise, and the client counts %lld", (long long)others,
                  (long long)told.failed);
    for (size_t i = 0; i < HF_BUCKETS; i++)
        waits += told.wait.counts[i];
    if (waits != told.acquired)
        sim_wrong("%lld acquires have a wait time, and %lld got the lock", (long long)waits,
                  (long long)told.acquired);
    if (told.waiting != 0)
        sim_wrong("all acquires have ended, and the client has %lld in a queue",
                  (long long)told.waiting);
    check_names(client, &told);
    int64_t lost = told.lost_expired + told.lost_unreachable + told.lost_gone;
    /* A call that is to end a hold, and finds it lost, reports that itself. */
    if (l->fd >= 0 && (l->lost > lost || l->lost + found < lost))
        sim_wrong("%lld holds were lost, %lld are told, and calls found %lld", (long long)lost,
                  (long long)l->lost, (long long)found);
}

static void close_client(hf_client *client) {
    judge_leave(sim_self());
    bool abandons = often(work.abandons);
    call c = judge_call(abandons ? "abandon" : "close");
    if (abandons) {
        rules_abandon();
        hf_client_abandon(client);
    } else {
        hf_client_close(client);
    }
    judge_answered(&c, work.command_ms);
}

static int interrupted(void *unused) { return (void)unused, often(0.1); }

void *workload_process(void *unused) {
    static bool closed;
    (void)unused;
    int threads = 1 + below(work.threads), looping = work.starts ? below(3) : 0;
    hf_client *client = open_client();
    if (client == NULL)
        return NULL;
    /* Not static: static data is copied at each switch between processes. */
    struct {
        program programs[16];
        loop loop;
    } * all;
    while ((all = calloc(1, sizeof *all)) == NULL)
        think();
    program *programs = all->programs;
    loop *one = &all->loop;
    /* An open lock keeps the client's handle valid after the close, which may happen while other
     * threads use it. */
    hf_lock *anchor = NULL;
    while (anchor == NULL)
        if (hf_lock_open(client, "anchor", 6, NULL, 0, NULL, &anchor) == HF_ECLOSED)
            break;
    *one = (loop){.base = {.client = client, .number = sim_pid(sim_self()), .closed = &closed},
                  .fd = looping > 0 ? hf_client_fd(client) : -1};
    if (work.interrupts)
        hf_client_set_interrupt(client, interrupted, NULL);
    for (int i = 0; i < threads; i++) {
        programs[i] = (program){.client = client, .number = i, .closed = &closed};
        begin_thread(&programs[i].thread, run_program, &programs[i]);
    }
    pthread_t looper = 0;
    if (looping > 0)
        begin_thread(&looper, run_loop, one);
    if (often(work.closes)) {
        usleep((unsigned)sim_span(100, 5000000));
        close_client(client);
        closed = true;
    }
    for (int i = 0; i < threads; i++)
        pthread_join(programs[i].thread, NULL);
    if (looper != 0)
        pthread_join(looper, NULL);
    if (!closed) {
        read_completions(one, 0);
        check_counts(client, programs, threads, one);
        close_client(client);
    }
    hf_lock_close(anchor);
    free(all);
    for (unsigned left = 60; left > 0;) /* undos end in the background */
        left = sleep(left);             /* a signal ends the sleep early */
    if (sim_threads(sim_self()) > 1 || sim_descriptors(sim_self()) > 0)
        sim_wrong("a closed client leaves %zu threads and %zu descriptors",
                  sim_threads(sim_self()) - 1, sim_descriptors(sim_self()));
    if (sim_allocated(sim_self()) > 0)
        sim_wrong("a closed client leaves %zu allocations", sim_allocated(sim_self()));
    return NULL;
}
