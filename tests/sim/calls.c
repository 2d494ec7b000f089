/* The rarer calls of the public header. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "limits.h"
#include "program.h"
#include "rules.h"
#include "servers.h"

/* ------------------------------------------------------------------- Once */

void take_result(const char *key, hf_hold *hold, int64_t began) {
    size_t length = 0;
    const void *result = hf_hold_result(hold, &length);
    if (result == NULL)
        sim_wrong("a result of %s is told, and there is none", key);
    rules_result(key, result, length, began);
    hf_hold_close(hold);
}

/* Return the same for all callers of a key. */
bool most_once(const char *key) { return key[strlen(key) - 1] % 2 != 0; }

bool has_outcome(hf_status status) {
    return status == HF_EDONE || status == HF_EFAILED || status == HF_EOUTCOME;
}

/* Look at the record of a call as an operator does, and settle it; perhaps while the call is in
 * progress. */
static void settle(const char *key, hf_lock *lock, hf_hold *seen) {
    static int serial;
    hf_once_info info = {.size = sizeof info};
    static const int32_t states[] = {HF_ONCE_DONE, HF_ONCE_FAILED, HF_ONCE_RETRY, HF_ONCE_NONE};
    int32_t state = states[below(4)];
    bool keeps = state == HF_ONCE_DONE || state == HF_ONCE_FAILED, force = often(0.2);
    char text[24] = "";
    int64_t ttl_ms = keeps ? sim_span(10000, 60000) : 0, sent = sim_now();
    if (hf_once_outcome(seen, &info) != HF_OK || info.state == HF_ONCE_NONE)
        return;
    if (keeps)
        snprintf(text, sizeof text, "%lldh%d", (long long)info.fence, serial++ % 100000);
    else
        rules_says(key, info.fence);
    if (force)
        rules_says(key, info.fence); /* the hold of a call that begins just now may be settled */
    rules_settles(key, info.fence);
    rules_finishes(key, info.fence, keeps ? ttl_ms : 60000);
    if (force)
        judge_excuse(key);
    call c = judge_call("settle");
    hf_status status = hf_once_settle(lock, state, info.fence, force ? HF_SETTLE_FORCE : 0, text,
                                      strlen(text), ttl_ms, NULL, 0);
    sim_trace("settle of %s, fence %lld, as %d%s: %s", key, (long long)info.fence, (int)state,
              force ? " by force" : "", hf_status_name(status));
    if (force)
        judge_excuse(key); /* and a hold that was granted meanwhile */
    judge_answered(&c, patience());
    if (status == HF_OK && keeps)
        rules_keeps(key, text, sent, ttl_ms);
}

static void look_at(const char *key, hf_lock *lock) {
    hf_hold *seen;
    call c = judge_call("look");
    hf_status status = hf_once_look(lock, &seen);
    judge_answered(&c, patience());
    if (status != HF_OK)
        return;
    settle(key, lock, seen);
    hf_hold_close(seen);
}

/* Begin its call, which may be made once the mark is written. */
static void mark(program *p, mine *m, const hf_lock_options *options) {
    judge_forget(m->belief); /* if it cannot be marked, the hold is given back */
    int64_t sent = sim_now();
    call c = judge_call("mark");
    hf_status status =
        hf_once_mark(m->hold, often(0.9) ? HF_NEVER : sim_span(3600000, 7200000), "n", 1);
    sim_trace("mark of %s: %s", m->key, hf_status_name(status));
    judge_answered(&c, patience() + options->replica_timeout_ms);
    if (status == HF_OK) {
        m->marked = true;
        if (often(0.9)) {
            rules_calls(m->key, hf_hold_fence(m->hold), sent);
            believe(m, 0);
            return;
        }
        status = hf_once_finish(m->hold, HF_ONCE_RETRY, NULL, 0, 0); /* the call is not made */
        sim_trace("withdrawal of %s: %s", m->key, hf_status_name(status));
    }
    p->found_lost++;
    if (status == HF_ENOMEM || status == HF_EINVAL)
        hf_hold_release(m->hold);
    if (status != HF_OK)
        rules_leave(m->key, hf_hold_fence(m->hold)); /* the undo may be refused */
    drop_hold(p, (int)(m - p->holds));
}

void once(program *p) {
    bool shared;
    int64_t permits, timeout = any_timeout(p);
    const char *key = any_key();
    hf_lock_options options = lock_options(&shared, &permits);
    if (shared || p->count == HOLDS)
        return;
    hf_lock *lock = open_lock(p, key, &options);
    if (lock == NULL)
        return;
    hf_hold *hold = NULL;
    hf_acquire_options most = {.size = sizeof most, .flags = HF_ACQUIRE_AT_MOST_ONCE};
    if (most_once(key) && often(0.2))
        look_at(key, lock);
    call c = judge_call("once");
    int64_t free = rules_free(key, timeout);
    hf_status status = hf_once_begin(lock, timeout, most_once(key) ? &most : NULL, NULL, 0, &hold);
    sim_trace("once of %s (%lld ms): %s", key, (long long)timeout, hf_status_name(status));
    judge_answered(&c, bound_of(timeout, &options));
    p->ended[status]++;
    if (is_held_by_others(status))
        rules_busy(key, free, c.since);
    if (status == HF_ETIMEOUT)
        judge_timed_out(&c, timeout);
    if (status == HF_EMISMATCH)
        sim_wrong("%s", hf_error_message());
    if (status == HF_EOUTCOME) {
        if (often(0.4))
            settle(key, lock, hold);
        hf_hold_close(hold);
    } else if (has_outcome(status)) {
        take_result(key, hold, c.since);
    } else if (status == HF_OK) {
        rules_once(key, hf_hold_fence(hold), c.since);
        mine *m = keep_hold(p, hold, key, &options, c.since, 0);
        m->once = true;
        if (most_once(key))
            mark(p, m, &options);
    }
    hf_lock_close(lock);
}

hf_status finish(mine *m) {
    char text[32];
    int64_t fence = hf_hold_fence(m->hold), ttl_ms = sim_span(10000, 60000), sent = sim_now();
    int length = snprintf(text, sizeof text, "%lld", (long long)fence);
    if (m->marked && often(0.3))
        return hf_once_finish(m->hold, HF_ONCE_UNKNOWN, "why", 3, 0);
    rules_finishes(m->key, fence, ttl_ms);
    hf_status status = hf_once_finish(m->hold, often(0.8) ? HF_ONCE_DONE : HF_ONCE_FAILED, text,
                                      (size_t)length, ttl_ms);
    if (status == HF_OK && m->marked)
        rules_keeps(m->key, text, sent, ttl_ms);
    else if (status == HF_OK && judge_intact(m->belief))
        rules_finished(m->key, fence, ttl_ms);
    if (status == HF_ESETTLED && m->marked)
        rules_refused(m->key, fence);
    return status;
}

/* -------------------------------------------- Left with the client, by owner */

static void check_owner(program *p, const mine *m) {
    char name[100];
    size_t length = 0, owner = strlen(m->owner);
    hf_status status = hf_client_kept(p->client, m->owner, owner, name, sizeof name, &length);
    bool held = hf_hold_state(m->hold) == HF_STATE_HELD;
    if (held && status != HF_OK && status != HF_ECLOSED)
        sim_wrong("%s holds %s, and the client answers %s", m->owner, m->key,
                  hf_status_name(status));
    if (status == HF_OK && (length != strlen(m->key) || memcmp(name, m->key, length) != 0))
        sim_wrong("%s holds %s, and the client tells of %.*s", m->owner, m->key, (int)length, name);
    if (held && status != HF_ECLOSED && hf_lock_count_as(m->lock, m->owner, owner) != 1 &&
        hf_hold_state(m->hold) == HF_STATE_HELD && !judge_has_left())
        sim_wrong("%s has one hold of %s, and another count", m->owner, m->key);
}

void acquire_for_owner(program *p) {
    static int64_t serial;
    bool shared;
    int64_t permits, timeout = any_timeout(p);
    const char *key = any_key();
    if (p->count == HOLDS)
        return;
    hf_lock_options options = lock_options(&shared, &permits);
    hf_lock *lock = NULL;
    hf_acquire_options how = {.size = sizeof how, .flags = HF_ACQUIRE_KEEP};
    how.flags |= often(0.3) ? HF_ACQUIRE_WHOLE : 0;
    how.flags |= work.interrupts && often(0.5) ? HF_ACQUIRE_INTERRUPTIBLE : 0;
    char owner[32];
    int length = snprintf(owner, sizeof owner, "task %d.%lld", p->number, (long long)++serial);
    size_t given = often(0.5) ? 0 : (size_t)length; /* the lock has the name, too */
    if (hf_lock_open(p->client, key, strlen(key), owner, (size_t)length, &options, &lock) != HF_OK)
        return;
    hf_hold *hold = NULL;
    call c = judge_call("acquire for an owner");
    int64_t free = rules_free(key, timeout);
    rules_asked(key, 1);
    hf_status status =
        hf_lock_acquire_as(lock, given > 0 ? owner : NULL, given, timeout, &how, &hold);
    rules_asked(key, -1);
    sim_trace("acquire of %s for %s: %s", key, owner, hf_status_name(status));
    int64_t whole_ms = how.flags & HF_ACQUIRE_WHOLE ? patience() : 0;
    judge_answered(&c, timeout < 0 ? -1 : bound_of(timeout, &options) + whole_ms);
    p->ended[status]++;
    if (status == HF_ELIMIT)
        limits_refused(key, &options, hf_error_message(), c.since);
    if (is_held_by_others(status))
        rules_busy(key, free, c.since);
    if (status == HF_ETIMEOUT)
        judge_timed_out(&c, timeout);
    if (status != HF_OK) {
        hf_lock_close(lock);
        return;
    }
    mine *m = keep_hold(p, hold, key, &options, c.since, 0);
    m->lock = lock;
    memcpy(m->owner, owner, sizeof owner);
    check_owner(p, m);
    if (hf_lock_current_as(lock, owner, (size_t)length, &hold) == HF_OK) {
        if (hf_hold_number(hold) != hf_hold_number(m->hold))
            sim_wrong("the newest hold of %s is another", owner);
        hf_hold_close(hold);
    }
}

/* ---------------------------------------------------------------- Looking */

void walk(program *p) {
    hf_locks *locks = NULL;
    hf_locks_options options = {.size = sizeof options};
    hf_lock_info info = {.size = sizeof info};
    hf_progress progress = {.size = sizeof progress};
    hf_view *view = NULL;
    bool all = often(0.5);
    if (hf_locks_open(p->client, all ? NULL : "*[a-e]", all ? 0 : 6, &options, &locks) != HF_OK)
        return;
    for (int i = 0; i < 20; i++) {
        call c = judge_call("next lock");
        hf_status status = hf_locks_next(locks, &info, &view);
        sim_trace("next lock: %s", hf_status_name(status));
        /* Each acquire leaves a few keys on each master, and the walk reads them at its rate. */
        judge_answered(&c, 10 * patience() + (int64_t)judge_acquired);
        if (status == HF_OK && view == NULL)
            break;
        if (status != HF_OK)
            continue;
        size_t length;
        hf_lock_holder holder = {.size = sizeof holder};
        hf_lock_waiter waiter = {.size = sizeof waiter};
        hf_view_name(view, &length);
        for (size_t at = 0; at < hf_view_holders(view); at++)
            hf_view_holder(view, at, &holder);
        for (size_t at = 0; at < hf_view_waiters(view); at++)
            hf_view_waiter(view, at, &waiter);
        hf_view_close(view);
    }
    hf_locks_progress(locks, &progress);
    hf_locks_close(locks);
}

static void tell_of_holds(program *p) {
    hf_owner_parts parts = {.size = sizeof parts};
    char owner[HF_DEFAULT_OWNER_MAX];
    for (int i = 0; i < p->count; i++)
        if (hf_hold_state(p->holds[i].hold) == HF_STATE_LOST &&
            hf_hold_cause(p->holds[i].hold) == 0)
            sim_wrong("a hold of %s is lost without a cause", p->holds[i].key);
    if (hf_client_owner(p->client, 't', 0, owner, sizeof owner) == HF_OK &&
        (!hf_owner_parse(owner, strlen(owner), &parts) || parts.pid != getpid()))
        sim_wrong("a default owner is not read: %s", owner);
}

void tell(program *p) {
    hf_finding findings[HF_FINDINGS_MAX];
    size_t count;
    call c;
    switch (below(4)) {
    case 0:
        c = judge_call("ping");
        sim_trace("ping: %s", hf_status_name(hf_client_ping(p->client, &count)));
        judge_answered(&c,
                       patience() * (strstr(work.url, "cluster") != NULL ? servers_count() : 1));
        break;
    case 1:
        c = judge_call("survey");
        hf_client_survey(p->client, 0, "a", 1, findings, HF_FINDINGS_MAX, &count);
        judge_answered(&c, 20 * patience());
        break;
    case 2:
        hf_client_warning(p->client);
        hf_error_last();
        break;
    default:
        tell_of_holds(p);
    }
}

/* ------------------------------------------------- What ends calls early */

static void *pull(void *brake) {
    usleep((unsigned)sim_span(10, 100000));
    hf_brake_pull(brake);
    return NULL;
}

void brake(program *p) {
    hf_brake *brake = NULL;
    pthread_t thread;
    if (hf_brake_open(&brake) != HF_OK)
        return;
    begin_thread(&thread, pull, brake);
    hf_brake_set(brake);
    p->brakes = true;
    if (p->count == 0)
        acquire(p);
    else if (often(0.5))
        release(p, below(p->count));
    else
        renew(p, &p->holds[below(p->count)]);
    hf_brake_set(NULL);
    p->brakes = false;
    pthread_join(thread, NULL);
    hf_brake_close(brake);
}

static void *acquire_only(void *argument) {
    acquire(argument);
    while (true)
        usleep(1000);
    return NULL;
}

/* Cancel the thread: it still runs to the end of its call. */
void be_cancelled(program *p) {
    pthread_t thread;
    if (p->count == HOLDS)
        return;
    begin_thread(&thread, acquire_only, p);
    usleep((unsigned)sim_span(10, 100000));
    pthread_cancel(thread);
    pthread_join(thread, NULL);
}

/* ------------------------------------------------------------------ Limits */

/* Store another limit, or none, as an operator does. */
void set_limit(program *p) {
    const char *key = any_key();
    bool usual = work.permits > 0 && often(0.5);
    int64_t permits = often(0.25) ? 0 : usual ? work.permits : 1 + below(4), was[2];
    int64_t per_ms = permits > 0 && often(0.15) ? GATE_MS : 0;
    hf_lock_options options = {.size = sizeof options};
    hf_lock *lock = open_lock(p, key, &options);
    if (lock == NULL)
        return;
    call c = judge_call("limit");
    hf_status status = hf_lock_limit(lock, permits, per_ms, &was[0], &was[1]);
    sim_trace("limit of %s, %lld in %lld ms: %s", key, (long long)permits, (long long)per_ms,
              hf_status_name(status));
    judge_answered(&c, patience());
    if (status == HF_OK)
        limits_stored(key, permits, per_ms, was, c.since);
    hf_lock_close(lock);
}

/* ------------------------------------------------------------------- fork() */

/* Run as a forked child: the parent's client belongs to the parent, and the child opens its own. */
static void be_a_child(program *p) {
    hf_lock *lock = NULL;
    hf_hold *hold;
    hf_lock_options options = {.size = sizeof options, .lease_ms = 2000, .renew = HF_OFF};
    if (hf_lock_open(p->client, "a", 1, NULL, 0, &options, &lock) != HF_EFORKED)
        sim_wrong("a forked child may use its parent's client");
    if (p->count > 0 && hf_hold_release(p->holds[0].hold) != HF_EFORKED)
        sim_wrong("a forked child may release its parent's hold");
    hf_client_close(p->client);
    hf_client *own = open_client();
    if (own != NULL && hf_lock_open(own, "a", 1, NULL, 0, &options, &lock) == HF_OK) {
        if (hf_lock_acquire(lock, 100, &hold) == HF_OK) {
            hf_hold_release(hold);
            hf_hold_close(hold);
        }
        hf_lock_close(lock);
    }
    hf_client_close(own);
    _exit(0);
}

void split(program *p) {
    pid_t child = fork();
    if (child == 0)
        be_a_child(p);
    sim_trace("forks %d", (int)child);
    for (int status; child > 0 && waitpid(child, &status, 0) != child;)
        think();
}
