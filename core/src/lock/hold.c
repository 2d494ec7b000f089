/* One successful acquire: its validity, its renewal, its end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/client.h"

hf_hold *hf_hold_new(hf_client *client, hf_names *names, const void *owner, size_t owner_length) {
    hf_hold *hold = calloc(1, sizeof *hold + owner_length);
    if (hold == NULL)
        return NULL;
    pthread_mutex_lock(&client->mutex);
    bool listens = client->keeper.news_fd >= 0;
    bool good = hf_timer_reserve(&client->keeper.timers);
    pthread_mutex_unlock(&client->mutex);
    if (good && listens && (hold->news = malloc(sizeof *hold->news)) == NULL) {
        hf_timer_unreserve(&client->keeper.timers);
        good = false;
    }
    if (!good) {
        free(hold);
        return NULL;
    }
    hold->references = 1;
    hold->client = hf_client_keep(client);
    hold->names = hf_names_keep(names);
    hold->owner_length = owner_length;
    memcpy(hold->owner, owner, owner_length);
    return hold;
}

static void free_hold(hf_hold *hold) {
    hf_client *client = hold->client;
    hf_timer_unreserve(&client->keeper.timers);
    hf_names_drop(hold->names);
    free(hold->news);
    free(hold);
    hf_client_drop(client);
}

void hf_hold_drop(hf_hold *hold) {
    hf_client *client = hold->client;
    pthread_mutex_lock(&client->mutex);
    bool last = --hold->references == 0;
    pthread_mutex_unlock(&client->mutex);
    if (last)
        free_hold(hold);
}

void hf_hold_drop_locked(hf_hold *hold) {
    if (--hold->references == 0)
        free_hold(hold);
}

/* ------------------------------------------------------------- Validity */

int64_t hf_deadline(int64_t sent_at, int64_t remaining_ms) {
    if (remaining_ms < 0)
        return HF_NO_DEADLINE;
    if (remaining_ms > HF_LEASE_MAX)
        remaining_ms = HF_LEASE_MAX; /* no lease is longer, whatever is answered */
    /* The two clocks may drift apart by 1 in 1000 and round to 1 ms each. */
    return hf_after(sent_at, remaining_ms) - 2 * HF_MS - remaining_ms * (HF_MS / 1000);
}

int64_t hf_hold_deadline(const hf_hold *hold, int64_t sent_at, int64_t remaining_ms) {
    /* A server whose clock went back says more is left than was ever asked for. It may
     * find its way again, and then that was not so. */
    int64_t most_ms = hold->lease_ms;
    if (most_ms != HF_NEVER && most_ms < hold->extended_ms)
        most_ms = hold->extended_ms;
    if (hold->cap_ms > 0 && (most_ms == HF_NEVER || most_ms > hold->cap_ms))
        most_ms = hold->cap_ms;
    int64_t until = hf_deadline(sent_at, remaining_ms), most = hf_deadline(sent_at, most_ms);
    return until < most ? until : most;
}

void hf_hold_renewed(hf_hold *hold, int64_t sent_at, int64_t remaining_ms) {
    int64_t until = hf_hold_deadline(hold, sent_at, remaining_ms);
    if (hold->replacing > 0 || sent_at < hold->replaced_at)
        return;
    if (hold->listed && hf_now() >= hold->deadline)
        return; /* it was lost, and has perhaps been seen to be */
    if (until > hold->deadline)
        hold->deadline = until;
}

int hf_hold_state_now(const hf_hold *hold, int64_t now) {
    return hold->state == HF_HELD && now >= hold->deadline ? HF_LOST : hold->state;
}

static hf_status lost(const hf_hold *hold, const char *how) {
    return hf_fail(HF_ELOST, "the hold of lock %s is lost: %s",
                   hf_quote(hold->names->data, hold->names->length), how);
}

static hf_status not_held(const hf_hold *hold) {
    hf_status status = hf_client_check(hold->client); /* was it the close that released it? */
    if (status != HF_OK)
        return status;
    return hf_fail(HF_ENOTHELD, "this hold of lock %s was released before",
                   hf_quote(hold->names->data, hold->names->length));
}

int64_t hf_hold_fence(const hf_hold *hold) { return hold != NULL ? hold->fence : 0; }

int hf_hold_state(const hf_hold *hold) {
    if (hold == NULL)
        return HF_RELEASED;
    if (hf_client_inherited(hold->client))
        return HF_LOST;
    int64_t now = hf_now();
    pthread_mutex_lock(&hold->client->mutex);
    int state = hf_hold_state_now(hold, now);
    pthread_mutex_unlock(&hold->client->mutex);
    return state;
}

int64_t hf_hold_remaining_ms(const hf_hold *hold) {
    if (hold == NULL || hf_client_inherited(hold->client))
        return 0;
    int64_t now = hf_now(), remaining = 0;
    pthread_mutex_lock(&hold->client->mutex);
    if (hf_hold_state_now(hold, now) == HF_HELD)
        remaining = hold->deadline == HF_NO_DEADLINE ? HF_NEVER : (hold->deadline - now) / HF_MS;
    pthread_mutex_unlock(&hold->client->mutex);
    return remaining;
}

int64_t hf_hold_number(const hf_hold *hold) { return hold != NULL ? hold->number : 0; }

int hf_hold_cause(const hf_hold *hold) {
    if (hold == NULL || hf_client_inherited(hold->client))
        return HF_CAUSE_NONE;
    int64_t now = hf_now();
    pthread_mutex_lock(&hold->client->mutex);
    int cause = hold->cause;
    if (cause == HF_CAUSE_NONE && hf_hold_state_now(hold, now) == HF_LOST)
        cause = hf_keeper_cause(hold);
    pthread_mutex_unlock(&hold->client->mutex);
    return cause;
}

/* ------------------------------------------------------------- Requests */

static void add_keys(hf_request *request, const hf_names *names) {
    hf_request_lock(request, names);
    hf_request_companion(request, names, "hf1:f");
    hf_request_companion(request, names, "hf1:q");
}

static void add_member(hf_request *request, const hf_op *op) {
    hf_bytes member;
    hf_bytes_init(&member);
    if (op != NULL)
        hf_op_member(op, &member);
    if (member.failed)
        request->encoded.failed = true;
    hf_request_bytes(request, member.data, member.length);
    hf_bytes_free(&member);
}

static int64_t on_the_wire(int64_t lease_ms) { return lease_ms == HF_NEVER ? 0 : lease_ms; }

static void add_asker(hf_request *request, const hf_hold *hold) {
    hf_request_bytes(request, hold->id, HF_ID_LENGTH);
    hf_request_bytes(request, hold->owner, hold->owner_length);
    hf_request_number(request, on_the_wire(hold->lease_ms));
    hf_request_number(request, hold->reentrant);
}

void hf_acquire_request(hf_request *request, const hf_hold *hold, const hf_op *op, int64_t floor) {
    hf_request_begin(request, &hf_script_acquire);
    add_keys(request, hold->names);
    hf_request_dead(request, hold->names, hold->id);
    add_asker(request, hold);
    hf_request_number(request, floor);
    if (op != NULL) {
        add_member(request, op);
        hf_request_number(request, op->score);
    }
}

bool hf_acquire_reply(const redisReply *reply, const hf_hold *hold, int64_t numbers[5]) {
    if (reply->type != REDIS_REPLY_INTEGER)
        return hf_reply_states(reply, numbers, 1);
    /* Taken at once: the fence is the time, and the lease is whole. A time before
     * 2001 is none. */
    if (reply->integer < INT64_C(1000000000000000) || reply->integer > HF_NUMBER_MAX)
        return false;
    numbers[0] = numbers[3] = reply->integer;
    numbers[1] = numbers[4] = hold->lease_ms;
    numbers[2] = HF_REPLY_HELD;
    return true;
}

void hf_recheck_begin(hf_request *request, const hf_names *names, const char *const *ids,
                      size_t count, int64_t floor, bool wait) {
    hf_request_begin(request, &hf_script_recheck);
    add_keys(request, names);
    for (size_t i = 0; i < count; i++)
        hf_request_dead(request, names, ids[i]);
    hf_request_number(request, floor);
    hf_request_number(request, wait);
}

void hf_recheck_add(hf_request *request, const hf_hold *hold, const hf_op *op) {
    add_asker(request, hold);
    add_member(request, op);
    hf_request_number(request, op->score);
}

void hf_release_request(hf_request *request, const hf_hold *hold, const hf_op *op) {
    bool bury = hold->bury || (op != NULL && op->asking > 0);
    hf_request_begin(request, &hf_script_release);
    add_keys(request, hold->names);
    if (bury)
        hf_request_dead(request, hold->names, hold->id);
    hf_request_bytes(request, hold->id, HF_ID_LENGTH);
    if (bury || hold->pushed || op != NULL) {
        hf_request_number(request, bury);
        hf_request_number(request, hold->pushed);
        add_member(request, op);
    }
}

void hf_cancel_request(hf_request *request, const hf_op *op) {
    hf_request_begin(request, &hf_script_cancel);
    add_keys(request, op->hold->names);
    hf_request_dead(request, op->hold->names, op->hold->id);
    hf_request_bytes(request, op->hold->id, HF_ID_LENGTH);
    hf_request_number(request, op->hold->bury || op->asking > 0);
    add_member(request, op);
}

void hf_claim_request(hf_request *request, const hf_hold *hold) {
    hf_request_begin(request, &hf_script_claim);
    hf_request_lock(request, hold->names);
    hf_request_companion(request, hold->names, "hf1:f");
    hf_request_bytes(request, hold->id, HF_ID_LENGTH);
    hf_request_number(request, on_the_wire(hold->lease_ms));
    if (hold->replicas > 0)
        hf_request_number(request, 1);
}

enum { RENEW_LONGER = 0, RENEW_EXACTLY = 1, RENEW_LOOK = 2 };

static void add_renewal(hf_request *request, const hf_hold *hold, int64_t lease_ms, int mode) {
    hf_request_bytes(request, hold->id, HF_ID_LENGTH);
    hf_request_number(request, on_the_wire(lease_ms));
    hf_request_number(request, mode);
}

void hf_renew_request(hf_request *request, hf_hold *const *holds, size_t count) {
    hf_request_begin(request, &hf_script_renew);
    for (size_t i = 0; i < count; i++)
        hf_request_lock(request, holds[i]->names);
    for (size_t i = 0; i < count; i++)
        add_renewal(request, holds[i], holds[i]->lease_ms,
                    holds[i]->lease_ms == HF_NEVER ? RENEW_LOOK : RENEW_LONGER);
}

void hf_kick(hf_client *client, const hf_names *names, int64_t deadline) {
    hf_request request;
    hf_answer answer;
    hf_recheck_begin(&request, names, NULL, 0, 0, false);
    for (int64_t numbers[2] = {0, -2}; numbers[1] == -2 && hf_now() < deadline;) {
        numbers[1] = 0;
        if (hf_transport_call(client->transport, &request, deadline, &answer) == HF_OK) {
            hf_reply_numbers(answer.reply, numbers, 2);
            freeReplyObject(answer.reply);
        }
    }
    hf_request_free(&request);
}

int64_t hf_reply_number(const redisReply *reply) {
    return reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
}

/* --------------------------------------------------------------- Release */

static void count(int64_t *statistic) { __atomic_add_fetch(statistic, 1, __ATOMIC_RELAXED); }

int hf_hold_end(hf_hold *hold, int64_t now, bool *listed) {
    int state = hf_hold_state_now(hold, now);
    *listed = hold->listed;
    if (state == HF_LOST && hold->state == HF_HELD) { /* before the keeper saw it */
        hold->cause = hf_keeper_cause(hold);
        count(&hold->client->stats.lost);
    }
    if (state == HF_LOST && hold->pushed)
        hf_list_recheck(hold->client, hold->names);
    hold->state = HF_RELEASED;
    if (hold->listed)
        hf_client_remove(hold->client, hold);
    return state;
}

hf_status hf_release_status(const hf_hold *hold, int state, hf_status status, int64_t outcome,
                            bool doubtful) {
    if (state == HF_LOST)
        return lost(hold, "its lease ended, or its key was taken away");
    if (status != HF_OK)
        return status;
    if (outcome < 0)
        return hf_fail(HF_EPROTOCOL, "an answer that the release script does not give");
    if (outcome > 0)
        return HF_OK;
    if (!doubtful)
        return lost(hold, "the server does not know it any more");
    /* An earlier copy may have released it, and did if the lease still ran. */
    if (hf_now() < hold->deadline)
        return HF_OK;
    return hf_fail(HF_EUNKNOWN,
                   "the hold of lock %s ended by an earlier try to release it, or was lost just "
                   "before",
                   hf_quote(hold->names->data, hold->names->length));
}

/* One that was lost before is counted; one that the server forgot is lost by this. */
static void count_release(hf_client *client, int state, hf_status status) {
    if (status == HF_OK)
        count(&client->stats.released);
    else if (status == HF_ELOST && state == HF_HELD)
        count(&client->stats.lost);
}

static hf_status release(hf_hold *hold, bool counts) {
    hf_client *client = hold->client;
    hf_status status;
    int64_t now = hf_now(), deadline = hf_after(now, hf_transport_patience_ms(client->transport));
    int64_t outcome = -1;
    hf_request request;
    hf_answer answer;
    bool listed;

    /* It ends here first, and on the server afterwards. */
    pthread_mutex_lock(&client->mutex);
    int state = hf_hold_end(hold, now, &listed);
    pthread_mutex_unlock(&client->mutex);
    if (state == HF_RELEASED)
        return not_held(hold);
    hf_release_request(&request, hold, NULL);
    status = hf_transport_call(client->transport, &request, deadline, &answer);
    hf_request_free(&request);
    if (status == HF_OK) {
        outcome = hf_reply_number(answer.reply);
        freeReplyObject(answer.reply);
    } else {
        /* It is not given up: the keeper goes on until its lease would have ended. */
        pthread_mutex_lock(&client->mutex);
        hf_keeper_undo(client, hold, NULL);
        pthread_mutex_unlock(&client->mutex);
    }
    if (outcome == 2)
        hf_kick(client, hold->names, deadline);
    status = hf_release_status(hold, state, status, outcome, answer.doubtful);
    if (counts)
        count_release(client, state, status);
    if (listed)
        hf_hold_drop(hold);
    return status;
}

hf_status hf_hold_release(hf_hold *hold) {
    if (hold == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    hf_status status = hf_client_check(hold->client);
    return status == HF_OK ? release(hold, true) : status;
}

void hf_hold_give_up(hf_hold *hold) { release(hold, false); }

/* It is not to be sent: the hold ended, or the client was closed, which not_held() says. */
static hf_status withdraw(hf_hold *hold, hf_task *task, bool asleep) {
    hf_keeper_unlock(hold->client, asleep);
    hf_task_free(task);
    return not_held(hold);
}

/* A task that ends with a completion of this kind, with what is sure to be needed for it.
 * If HF_OK, with the mutex held, until submit(). */
static hf_status start(hf_hold *hold, int32_t kind, int64_t op,
                       void (*done)(hf_client *, hf_task *, hf_status, const redisReply *),
                       hf_task **task_out, bool *asleep) {
    if (op < 1)
        return hf_fail(HF_EINVAL, "the operation's number must be above 0");
    hf_status status = hf_keeper_tells(hold->client);
    if (status != HF_OK)
        return status;
    hf_task *task = hf_task_new(done);
    hf_hold **holds = task != NULL ? malloc(sizeof *holds) : NULL;
    if (holds == NULL || (task->news = malloc(sizeof *task->news)) == NULL) {
        free(holds);
        free(task);
        return hf_fail(HF_ENOMEM, "no memory");
    }
    task->news->completion = (hf_completion){.kind = kind, .op = op, .hold_number = hold->number};
    task->holds = holds;
    task->holds[0] = hold;
    *task_out = task;
    *asleep = hf_keeper_lock(hold->client);
    /* Closed just now: nobody would end it. */
    return hold->client->closed ? withdraw(hold, task, *asleep) : HF_OK;
}

static void submit(hf_hold *hold, hf_task *task, bool asleep) {
    hold->references++;
    task->count = 1;
    hf_task_submit(hold->client, task,
                   hf_after(hf_now(), hf_transport_patience_ms(hold->client->transport)));
    hf_keeper_unlock(hold->client, asleep);
}

static void end(hf_client *client, hf_task *task, hf_status status) {
    hf_completion completion = task->news->completion;
    completion.status = status;
    hf_tell(client, &task->news, &completion);
}

static void release_done(hf_client *client, hf_task *task, hf_status status,
                         const redisReply *reply) {
    hf_hold *hold = task->holds[0];
    int64_t outcome = status == HF_OK ? hf_reply_number(reply) : -1;
    if (status != HF_OK)
        hf_keeper_undo(client, hold, NULL);
    else if (outcome == 2)
        hf_keeper_kick(client, hold->names);
    status = hf_release_status(hold, task->state, status, outcome, task->doubtful);
    count_release(client, task->state, status);
    end(client, task, status);
}

hf_status hf_hold_release_start(hf_hold *hold, int64_t op) {
    hf_task *task;
    bool listed, asleep;
    if (hold == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    hf_status status = hf_client_check(hold->client);
    if (status == HF_OK)
        status = start(hold, HF_RELEASE, op, release_done, &task, &asleep);
    if (status != HF_OK)
        return status;
    task->state = hf_hold_end(hold, hf_now(), &listed);
    if (task->state == HF_RELEASED)
        return withdraw(hold, task, asleep);
    hf_release_request(&task->request, hold, NULL);
    hold->references -= listed; /* the list's is the task's now */
    submit(hold, task, asleep);
    return HF_OK;
}

/* ----------------------------------------------------------------- Renew */

static void renewal_request(hf_request *request, const hf_hold *hold, int64_t lease_ms, int mode) {
    hf_request_begin(request, &hf_script_renew);
    hf_request_lock(request, hold->names);
    add_renewal(request, hold, lease_ms, mode);
}

/* What one came to, with the answer if status is HF_OK; *refused: the server would not.
 * With the mutex held. */
static hf_status renewal_end(hf_hold *hold, int64_t lease_ms, int mode, hf_status status,
                             const redisReply *reply, int64_t sent_at, bool doubtful,
                             bool *refused) {
    hf_client *client = hold->client;
    int64_t numbers[2];
    bool good = status == HF_OK && hf_reply_numbers(reply, numbers, 2) && numbers[1] >= -3;
    *refused = good && numbers[1] == -3;
    if (mode == RENEW_EXACTLY) {
        hold->replacing--;
        hold->replaced_at = hf_now();
        if (doubtful && lease_ms != HF_NEVER && (hold->cap_ms == 0 || lease_ms < hold->cap_ms))
            hold->cap_ms = lease_ms;
    }
    if (status != HF_OK)
        return status;
    if (!good)
        return hf_fail(HF_EPROTOCOL, "an answer that the renew script does not give");
    if (*refused)
        return hf_fail(HF_ESERVER,
                       "the server refused to renew lock %s: it lacks a permission or "
                       "cannot write",
                       hf_quote(hold->names->data, hold->names->length));
    if (numbers[1] == -2) {
        if (hold->state == HF_HELD && hold->listed)
            hf_keeper_lose(client, hold, HF_CAUSE_GONE);
        else if (hold->state == HF_HELD)
            hold->state = HF_LOST;
    } else if (hold->state == HF_HELD && mode == RENEW_EXACTLY) {
        /* If two crossed, the shorter counts. */
        int64_t until = hf_deadline(sent_at, numbers[1]);
        if (hf_now() < hold->deadline && (hold->replacing == 0 || until < hold->deadline) &&
            (hold->cap_ms == 0 || until < hold->deadline ||
             until <= hf_deadline(sent_at, hold->cap_ms)))
            hold->deadline = until;
        hf_keeper_plan(client, hold, hf_now());
    } else if (hold->state == HF_HELD) {
        hf_hold_renewed(hold, sent_at, numbers[1]);
        hf_keeper_plan(client, hold, hf_now());
    }
    switch (hf_hold_state_now(hold, hf_now())) {
    case HF_HELD:
        return HF_OK;
    case HF_RELEASED:
        return not_held(hold);
    default:
        return lost(hold, "the server does not know it any more");
    }
}

static hf_status renew(hf_hold *hold, int64_t lease_ms, int mode) {
    hf_client *client = hold->client;
    hf_request request;
    hf_answer answer;
    bool refused;
    int64_t deadline = hf_after(hf_now(), hf_transport_patience_ms(client->transport));
    renewal_request(&request, hold, lease_ms, mode);
    hf_status status = hf_transport_call(client->transport, &request, deadline, &answer);
    pthread_mutex_lock(&client->mutex);
    status = renewal_end(hold, lease_ms, mode, status, answer.reply, answer.sent_at,
                         answer.doubtful, &refused);
    pthread_mutex_unlock(&client->mutex);
    freeReplyObject(answer.reply);
    if (refused)
        hf_transport_explain(client->transport, &request, deadline);
    hf_request_free(&request);
    return status;
}

/* Is it held, so that it can be renewed? */
static hf_status check_held(hf_hold *hold) {
    if (hold == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    hf_status status = hf_client_check(hold->client);
    if (status != HF_OK)
        return status;
    switch (hf_hold_state(hold)) {
    case HF_HELD:
        return HF_OK;
    case HF_LOST:
        return lost(hold, "its lease ended, or its key was taken away");
    default:
        return not_held(hold);
    }
}

static int64_t lease_of(hf_hold *hold) {
    pthread_mutex_lock(&hold->client->mutex);
    int64_t lease_ms = hold->lease_ms;
    pthread_mutex_unlock(&hold->client->mutex);
    return lease_ms;
}

hf_status hf_hold_renew(hf_hold *hold) {
    hf_status status = check_held(hold);
    return status == HF_OK ? renew(hold, lease_of(hold), RENEW_LONGER) : status;
}

hf_status hf_hold_check(hf_hold *hold) {
    hf_status status = check_held(hold);
    return status == HF_OK ? renew(hold, lease_of(hold), RENEW_LOOK) : status;
}

static hf_status check_extension(hf_hold *hold, int64_t duration_ms, int replace) {
    if (!(replace && duration_ms == HF_NEVER) &&
        (duration_ms < HF_LEASE_MIN || duration_ms > HF_LEASE_MAX))
        return hf_fail(HF_EINVAL, "extend by %lld ms: it takes 10 ms to 10 years",
                       (long long)duration_ms);
    hf_status status = check_held(hold);
    if (status == HF_OK && replace && duration_ms == HF_NEVER && hold->max_hold_ms > 0)
        return hf_fail(HF_EINVAL, "max_hold needs a lease that ends");
    return status;
}

/* The lease to send for it, and its mode; 0 if it was just released, or handed over:
 * then it is not ours to shorten. What is to be shorter is so here first. With the
 * mutex held. */
static int64_t extend(hf_hold *hold, int64_t duration_ms, int replace, int *mode) {
    if (hold->state == HF_RELEASED)
        return 0;
    int64_t now = hf_now();
    bool never = hold->deadline == HF_NO_DEADLINE;
    *mode = replace ? RENEW_EXACTLY : never ? RENEW_LOOK : RENEW_LONGER;
    if (never && !replace)
        return HF_NEVER;
    if (!replace) {
        /* Added once, to what is left now: sent again it adds nothing twice. */
        int64_t lease_ms = duration_ms + hf_until(hold->deadline, now);
        if (lease_ms > HF_LEASE_MAX)
            lease_ms = HF_LEASE_MAX;
        if (lease_ms > hold->extended_ms)
            hold->extended_ms = lease_ms;
        return lease_ms;
    }
    int64_t until = hf_deadline(now, duration_ms);
    hold->replacing++;
    hold->lease_ms = duration_ms;
    if (until < hold->deadline)
        hold->deadline = until;
    /* Later renewals keep it, and are due by it. */
    int64_t third = duration_ms == HF_NEVER ? 10000 : duration_ms / 3;
    hold->renew_at = now + third * HF_MS;
    hf_keeper_plan(hold->client, hold, now);
    return duration_ms;
}

hf_status hf_hold_extend(hf_hold *hold, int64_t duration_ms, int replace) {
    int mode;
    hf_status status = check_extension(hold, duration_ms, replace);
    if (status != HF_OK)
        return status;
    pthread_mutex_lock(&hold->client->mutex);
    int64_t lease_ms = extend(hold, duration_ms, replace, &mode);
    pthread_mutex_unlock(&hold->client->mutex);
    return lease_ms != 0 ? renew(hold, lease_ms, mode) : not_held(hold);
}

static void renewal_done(hf_client *client, hf_task *task, hf_status status,
                         const redisReply *reply) {
    bool refused;
    end(client, task,
        renewal_end(task->holds[0], task->lease_ms, task->state, status, reply, task->sent_at,
                    task->doubtful, &refused));
}

static void submit_renewal(hf_hold *hold, hf_task *task, int64_t lease_ms, int mode, bool asleep) {
    task->lease_ms = lease_ms;
    task->state = mode;
    renewal_request(&task->request, hold, lease_ms, mode);
    submit(hold, task, asleep);
}

static hf_status renew_start(hf_hold *hold, int mode, int64_t op) {
    hf_task *task;
    bool asleep;
    hf_status status = check_held(hold);
    if (status == HF_OK)
        status = start(hold, HF_RENEWAL, op, renewal_done, &task, &asleep);
    if (status == HF_OK)
        submit_renewal(hold, task, hold->lease_ms, mode, asleep);
    return status;
}

hf_status hf_hold_renew_start(hf_hold *hold, int64_t op) {
    return renew_start(hold, RENEW_LONGER, op);
}

hf_status hf_hold_check_start(hf_hold *hold, int64_t op) {
    return renew_start(hold, RENEW_LOOK, op);
}

hf_status hf_hold_extend_start(hf_hold *hold, int64_t duration_ms, int replace, int64_t op) {
    hf_task *task;
    int mode;
    bool asleep;
    hf_status status = check_extension(hold, duration_ms, replace);
    if (status == HF_OK)
        status = start(hold, HF_RENEWAL, op, renewal_done, &task, &asleep);
    if (status == HF_OK) {
        int64_t lease_ms = extend(hold, duration_ms, replace, &mode);
        if (lease_ms == 0)
            return withdraw(hold, task, asleep);
        submit_renewal(hold, task, lease_ms, mode, asleep);
    }
    return status;
}

/* -------------------------------------------------------------- Handing over */

/* "hf1 <hold id> <fence> <owner>" */
hf_status hf_hold_hand_over(hf_hold *hold, void *token, size_t capacity, size_t *length_out) {
    char head[64];
    if (token == NULL || length_out == NULL)
        return hf_fail(HF_EINVAL, "token or length_out is NULL");
    hf_status status = check_held(hold);
    if (status != HF_OK)
        return status;
    int length = snprintf(head, sizeof head, "hf1 %s %lld ", hold->id, (long long)hold->fence);
    *length_out = (size_t)length + hold->owner_length;
    if (*length_out > capacity)
        return hf_fail(HF_EINVAL, "the token has %zu bytes: the buffer is too small", *length_out);
    memcpy(token, head, (size_t)length);
    memcpy((char *)token + length, hold->owner, hold->owner_length);
    bool listed;
    pthread_mutex_lock(&hold->client->mutex);
    if (hold->replacing > 0 || hold->cap_ms > 0) { /* the other side cannot know of it */
        pthread_mutex_unlock(&hold->client->mutex);
        return hf_fail(HF_EUNKNOWN, "lock %s may still be cut short by hf_hold_extend()",
                       hf_quote(hold->names->data, hold->names->length));
    }
    int state = hf_hold_end(hold, hf_now(), &listed);
    hold->references -= listed; /* the handle's is left */
    pthread_mutex_unlock(&hold->client->mutex);
    if (state == HF_HELD)
        return HF_OK;
    return state == HF_LOST ? lost(hold, "its lease ended") : not_held(hold);
}

hf_status hf_lock_adopt(hf_lock *lock, const void *token, size_t length, hf_hold **hold_out) {
    char text[64] = "";
    char id[HF_ID_LENGTH + 1];
    long long fence;
    int head = 0;
    if (hold_out != NULL)
        *hold_out = NULL;
    if (lock == NULL || hold_out == NULL)
        return hf_fail(HF_EINVAL, "a handle is NULL");
    hf_status status = hf_client_check(lock->client);
    if (status != HF_OK)
        return status;
    if (token != NULL)
        memcpy(text, token, length < sizeof text - 1 ? length : sizeof text - 1);
    if (token == NULL || sscanf(text, "hf1 %32[0-9a-f] %16lld%n", id, &fence, &head) != 2 ||
        strlen(id) != HF_ID_LENGTH || fence < 1 || text[head] != ' ' || length < (size_t)head + 2 ||
        length > (size_t)head + 1 + HF_OWNER_MAX)
        return hf_fail(HF_EINVAL, "that is not a token of hf_hold_hand_over()");
    hf_client *client = lock->client;
    hf_hold *hold =
        hf_hold_new(client, lock->names, (const char *)token + head + 1, length - (size_t)head - 1);
    if (hold == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    memcpy(hold->id, id, sizeof id);
    hold->fence = fence;
    hold->lease_ms = lock->lease_ms;
    hold->max_hold_ms = lock->max_hold_ms;
    hold->renew = lock->renew;
    hold->reentrant = lock->reentrant;
    hold->bury = true; /* what the other process sent is not known here */
    hold->extended_ms = HF_LEASE_MAX;
    hold->state = HF_HELD;
    hold->granted_at = hf_now();
    hold->renew_at =
        hold->granted_at + (hold->lease_ms == HF_NEVER ? 30000 : hold->lease_ms) * HF_MS / 3;
    status = renew(hold, hold->lease_ms, RENEW_LONGER);
    pthread_mutex_lock(&client->mutex);
    if (status == HF_OK)
        status = hf_client_add(client, hold, false);
    if (status == HF_OK)
        hf_keeper_plan(client, hold, hf_now());
    pthread_mutex_unlock(&client->mutex);
    if (status == HF_OK)
        *hold_out = hold;
    else
        hf_hold_drop(hold);
    return status;
}

void hf_hold_close(hf_hold *hold) {
    if (hold == NULL || hf_client_inherited(hold->client))
        return;
    hf_client *client = hold->client;
    pthread_mutex_lock(&client->mutex);
    /* Nobody can release it any more: it is not to be renewed either. A client that
     * is being closed sees to its holds itself. */
    if (hold->listed && !hold->kept && !client->closed) {
        hf_client_remove(client, hold);
        hold->references--; /* the handle's is left */
    }
    pthread_mutex_unlock(&client->mutex);
    hf_hold_drop(hold);
}
