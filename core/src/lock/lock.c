/* A lock: turns a call into a request, and its answer into a hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/client.h"

static int64_t next_serial(void) {
    static int64_t last;
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

static int64_t thread_serial(void) {
    static _Thread_local int64_t serial;
    if (serial == 0)
        serial = next_serial();
    return serial;
}

static hf_status check_owner(const void *owner, size_t length) {
    if (owner == NULL && length == 0)
        return HF_OK;
    if (owner == NULL || length == 0 || length > HF_OWNER_MAX)
        return hf_fail(HF_EINVAL, "the owner has %zu bytes: 1 to %d, or NULL for the default",
                       length, HF_OWNER_MAX);
    return HF_OK;
}

static hf_status check_lease(int64_t lease_ms) {
    if (lease_ms != HF_NEVER && (lease_ms < HF_LEASE_MIN || lease_ms > HF_LEASE_MAX))
        return hf_fail(HF_EINVAL, "a lease of %lld ms: it takes 10 ms to 10 years, or HF_NEVER",
                       (long long)lease_ms);
    return HF_OK;
}

static hf_status check_switch(int32_t value, const char *what) {
    if (value != HF_DEFAULT && value != HF_ON && value != HF_OFF)
        return hf_fail(HF_EINVAL, "%s is %d: it takes HF_DEFAULT, HF_ON or HF_OFF", what,
                       (int)value);
    return HF_OK;
}

/* A lease must outlast the wait for replicas; 0: the default. */
static hf_status check_replicas(int64_t lease_ms, int64_t *timeout_ms) {
    if (*timeout_ms == 0)
        *timeout_ms = lease_ms != HF_NEVER && lease_ms < 2000 ? lease_ms / 2 : 1000;
    if (lease_ms != HF_NEVER && *timeout_ms >= lease_ms)
        return hf_fail(HF_EINVAL,
                       "a replica_timeout of %lld ms: it must be shorter than the lease of %lld ms",
                       (long long)*timeout_ms, (long long)lease_ms);
    return HF_OK;
}

hf_status hf_lock_open(hf_client *client, const void *name, size_t name_len, const void *owner,
                       size_t owner_len, const hf_lock_options *options, hf_lock **lock_out) {
    hf_lock_options chosen;
    hf_names *names;
    if (lock_out == NULL)
        return hf_fail(HF_EINVAL, "lock_out is NULL");
    *lock_out = NULL;
    hf_status status = hf_client_check(client);
    if (status == HF_OK)
        status = hf_options_copy(&chosen, sizeof chosen, options, "hf_lock_options");
    if (status == HF_OK && chosen.lease_ms != 0)
        status = check_lease(chosen.lease_ms);
    if (status == HF_OK)
        status = check_switch(chosen.renew, "renew");
    if (status == HF_OK)
        status = check_switch(chosen.reentrant, "reentrant");
    if (status == HF_OK)
        status = check_switch(chosen.heal, "heal");
    if (status == HF_OK && (chosen.max_hold_ms < 0 || chosen.max_hold_ms > HF_LEASE_MAX ||
                            (chosen.max_hold_ms > 0 && chosen.lease_ms == HF_NEVER)))
        status = hf_fail(HF_EINVAL,
                         "a max_hold of %lld ms: it takes 1 ms to 10 years, and a lease "
                         "that ends",
                         (long long)chosen.max_hold_ms);
    if (status == HF_OK && (chosen.replicas < 0 || chosen.replica_timeout_ms < 0 ||
                            chosen.replica_timeout_ms > HF_LEASE_MAX))
        status = hf_fail(HF_EINVAL, "replicas or replica_timeout is negative, or over ten years");
    if (status == HF_OK && chosen.reserved != 0)
        status = hf_fail(HF_EINVAL, "hf_lock_options.reserved must be 0");
    if (status == HF_OK && chosen.replicas > 0)
        status = check_replicas(chosen.lease_ms != 0 ? chosen.lease_ms : HF_LEASE_DEFAULT,
                                &chosen.replica_timeout_ms);
    if (status == HF_OK)
        status = check_owner(owner, owner_len);
    if (status == HF_OK)
        status = hf_names_new(name, name_len, &names);
    if (status != HF_OK)
        return status;
    hf_lock *lock = calloc(1, sizeof *lock + owner_len);
    if (lock == NULL) {
        hf_names_drop(names);
        return hf_fail(HF_ENOMEM, "no memory");
    }
    lock->client = hf_client_keep(client);
    lock->names = names;
    lock->serial = next_serial();
    lock->lease_ms = chosen.lease_ms != 0 ? chosen.lease_ms : HF_LEASE_DEFAULT;
    lock->renew = chosen.renew != HF_DEFAULT ? chosen.renew == HF_ON : chosen.lease_ms == 0;
    lock->reentrant = chosen.reentrant != HF_OFF;
    lock->heal = chosen.heal == HF_ON;
    lock->max_hold_ms = chosen.max_hold_ms;
    lock->replicas = chosen.replicas;
    lock->replica_ms = chosen.replica_timeout_ms;
    lock->owner_length = owner_len;
    if (owner_len > 0)
        memcpy(lock->owner, owner, owner_len);
    *lock_out = lock;
    return HF_OK;
}

void hf_lock_close(hf_lock *lock) {
    if (lock == NULL || hf_client_inherited(lock->client))
        return;
    hf_names_drop(lock->names);
    hf_client_drop(lock->client);
    free(lock);
}

/* ---------------------------------------------------------------- Owners */

typedef struct {
    const char *bytes;
    size_t length;
    int64_t lock_serial; /* not 0: holds of this owner are found by the lock alone */
    char buffer[384];
} owner_t;

/* Who acquires or releases: the call's owner, the lock's, or the default: the
 * calling thread, or the acquire itself. */
static hf_status choose_owner(const hf_lock *lock, const void *owner, size_t length, bool thread,
                              owner_t *chosen) {
    hf_status status = check_owner(owner, length);
    if (status != HF_OK)
        return status;
    chosen->lock_serial = 0;
    chosen->bytes = owner;
    chosen->length = length;
    if (length > 0)
        return HF_OK;
    chosen->bytes = lock->owner;
    chosen->length = lock->owner_length;
    if (chosen->length > 0)
        return HF_OK;
    char kind = 't';
    int64_t serial;
    if (lock->reentrant && thread) {
        serial = thread_serial();
    } else {
        kind = 'o';
        serial = next_serial();
        chosen->lock_serial = lock->reentrant ? 0 : lock->serial;
    }
    status = hf_client_owner(lock->client, kind, serial, chosen->buffer, sizeof chosen->buffer);
    chosen->bytes = chosen->buffer;
    chosen->length = strlen(chosen->buffer);
    return status;
}

/* --------------------------------------------------------------- Acquire */

/* What one try came to: HF_OK, HF_EBUSY with the holder's TTL, HF_ELOST if the
 * lease ended before the answer was here, or a failure. */
static hf_status try_once(hf_lock *lock, hf_hold *hold, int64_t deadline, int64_t *ttl_ms) {
    hf_request request;
    hf_answer answer;
    int64_t numbers[5];
    hf_client *client = lock->client;
    pthread_mutex_lock(&client->mutex);
    hf_status status = hold->id[0] != '\0' ? HF_OK : hf_client_new_id(client, hold->id);
    if (status == HF_OK && hold->renew)
        status = hf_keeper_start(client); /* or it could not be renewed */
    hf_acquire_request(&request, hold, NULL, hf_client_floor(client, lock->names));
    request.replicas = hold->replicas; /* in the same write */
    request.replica_ms = hold->replica_ms;
    pthread_mutex_unlock(&client->mutex);
    if (status == HF_OK)
        status = hf_transport_call(client->transport, &request, deadline, &answer);
    else
        answer.doubtful = false;
    hf_request_free(&request);
    hold->bury = hold->bury || answer.doubtful;
    if (status != HF_OK)
        return status;
    bool good = hf_acquire_reply(answer.reply, hold, numbers);
    freeReplyObject(answer.reply);
    if (!good)
        return hf_fail(HF_EPROTOCOL, "an answer that the acquire script does not give");
    *ttl_ms = numbers[1];
    switch (numbers[2]) {
    case HF_REPLY_BUSY:
        return HF_EBUSY;
    case HF_REPLY_HELD:
        hold->fence = numbers[3];
        hold->deadline = hf_hold_deadline(hold, answer.sent_at, numbers[4]);
        hold->state = HF_HELD;
        hold->granted_at = answer.sent_at;
        /* What an earlier copy wrote, on another connection, was not waited for on this one. */
        hold->reached = hold->bury ? -1 : answer.replicas;
        /* By what is left, which for a retry is less than the lease. */
        hold->renew_at = answer.sent_at + (numbers[4] < 0 ? 30000 : numbers[4]) * HF_MS / 3;
        return hf_now() < hold->deadline ? HF_OK : HF_ELOST;
    case HF_REPLY_DEAD:
        return HF_ELOST;
    default:
        return hf_fail(HF_EPROTOCOL, "an answer that the acquire script does not give");
    }
}

static hf_status busy(const hf_lock *lock) {
    return hf_fail(HF_EBUSY, "lock %s is held by somebody else",
                   hf_quote(lock->names->data, lock->names->length));
}

static hf_status timed_out(const hf_lock *lock, int64_t timeout_ms) {
    return hf_fail(HF_ETIMEOUT, "lock %s was held by others for %lld ms",
                   hf_quote(lock->names->data, lock->names->length), (long long)timeout_ms);
}

/* The client was closed while the lock was being got for it: best effort. */
static void give_back(hf_hold *hold) {
    hf_request request;
    const hf_request *requests[] = {&request};
    hf_transport *transport = hold->client->transport;
    hf_release_request(&request, hold, NULL);
    hf_transport_flush(transport, requests, 1,
                       hf_after(hf_now(), hf_transport_patience_ms(transport)));
    hf_request_free(&request);
}

static void undo(hf_hold *hold, const hf_op *op) {
    hf_client *client = hold->client;
    pthread_mutex_lock(&client->mutex);
    bool swept = client->swept; /* no keeper any more */
    if (!swept)
        hf_keeper_undo(client, hold, op);
    pthread_mutex_unlock(&client->mutex);
    if (swept)
        give_back(hold);
}

/* Somebody else's lock without an end is given one, if the user wants that. */
static void heal(const hf_lock *lock, int64_t deadline) {
    hf_request request;
    hf_answer answer;
    hf_request_begin(&request, &hf_script_heal);
    hf_request_lock(&request, lock->names);
    hf_request_number(&request, lock->lease_ms == HF_NEVER ? HF_LEASE_DEFAULT : lock->lease_ms);
    if (hf_transport_call(lock->client->transport, &request, deadline, &answer) == HF_OK)
        freeReplyObject(answer.reply);
    hf_request_free(&request);
}

/* One try, with all that a failed one has to see to. */
static hf_status attempt(hf_lock *lock, hf_hold *hold, int64_t deadline, int64_t *ttl_ms) {
    hf_status status = hf_client_check(lock->client);
    *ttl_ms = 0;
    do /* again at once if it is free, with more of the dead in its queue to skip */
        if (status == HF_OK || status == HF_EBUSY)
            status = try_once(lock, hold, deadline, ttl_ms);
    while (status == HF_EBUSY && *ttl_ms == -2 && hf_now() < deadline);
    if (status == HF_EBUSY && *ttl_ms == -1 && lock->heal)
        heal(lock, deadline);
    if (status == HF_ELOST ||
        (status != HF_OK && status != HF_EBUSY && (hold->bury || status == HF_EPROTOCOL)))
        undo(hold, NULL);
    if (status == HF_ELOST) {
        /* The answer was so late that the lease is over. That id is spent. */
        hold->id[0] = '\0';
        hold->bury = false;
        return hf_fail(HF_EBUSY, "the lease of lock %s ended before the answer was here",
                       hf_quote(lock->names->data, lock->names->length));
    }
    return status == HF_EBUSY ? busy(lock) : status;
}

/* Where no grants can come in: try until it is held or the time is up, with
 * jitter so that no two keep step. */
static hf_status poll_for(hf_lock *lock, hf_hold *hold, int64_t timeout_ms, int64_t until,
                          bool interruptible) {
    hf_client *client = lock->client;
    int64_t patience_ms = hf_transport_patience_ms(client->transport), pause_ms = 2;
    for (;;) {
        int64_t ttl_ms = 0, now = hf_now();
        int64_t left_ms = until == HF_NO_DEADLINE ? 0 : hf_until(until, now);
        hf_status status = attempt(lock, hold, hf_after(now, left_ms + patience_ms), &ttl_ms);
        if (status != HF_EBUSY)
            return status;
        now = hf_now();
        if (now >= until)
            return timed_out(lock, timeout_ms);
        int64_t sleep_ms = hf_jitter(pause_ms, 2 * pause_ms + 1);
        if (pause_ms < 16)
            pause_ms *= 2;
        if (ttl_ms >= 0 && sleep_ms > ttl_ms)
            sleep_ms = ttl_ms + 1;
        if (sleep_ms > hf_until(until, now))
            sleep_ms = hf_until(until, now);
        status = ttl_ms == -2 ? HF_OK : hf_client_sleep(client, sleep_ms, interruptible);
        if (status != HF_OK)
            return status;
    }
}

/* Ask for a place in the queue, on this thread. With the mutex held. */
static hf_status join(hf_client *client, hf_op *op) {
    hf_hold *hold = op->hold;
    hf_request request;
    hf_answer answer;
    int64_t numbers[5];
    int64_t patience_ms = hf_transport_patience_ms(client->transport);
    int64_t left_ms = op->until == HF_NO_DEADLINE ? 0 : hf_until(op->until, hf_now());
    hf_acquire_request(&request, hold, op, hf_client_floor(client, hold->names));
    op->epoch = op->list->channel->epoch;
    op->asking++;
    op->busy = true;
    hf_unlock_and_tell(client);
    hf_status status = hf_transport_call(client->transport, &request,
                                         hf_after(hf_now(), left_ms + patience_ms), &answer);
    hf_request_free(&request);
    bool good = status == HF_OK && hf_acquire_reply(answer.reply, hold, numbers);
    if (status == HF_OK) {
        freeReplyObject(answer.reply);
        if (!good)
            status = hf_fail(HF_EPROTOCOL, "an answer that the acquire script does not give");
    }
    pthread_mutex_lock(&client->mutex);
    op->asking--;
    op->busy = false;
    if (hf_transport_change(client->transport) != client->keeper.change)
        hf_keeper_wake(client); /* slots have moved: so do channels */
    hold->bury = hold->bury || answer.doubtful;
    if (op->done)
        return HF_OK; /* a grant was faster */
    if (good)
        hf_op_answer(client, hf_link_find(client, answer.node), op, numbers, numbers + 2,
                     answer.sent_at);
    else if (hold->bury || status == HF_EPROTOCOL)
        hf_keeper_undo(client, hold, op);
    return status;
}

/* Leave the queue, without the lock or, if it was granted just before, with it:
 * HF_OK. With the mutex held. */
static hf_status leave(hf_client *client, hf_op *op, bool keep) {
    hf_request request;
    hf_answer answer;
    int64_t numbers[5];
    bool good = false;
    if (keep)
        hf_cancel_request(&request, op);
    else
        hf_release_request(&request, op->hold, op);
    op->canceled = !keep;
    op->busy = true; /* from now on nobody else asks for it */
    hf_unlock_and_tell(client);
    hf_status status =
        hf_transport_call(client->transport, &request,
                          hf_after(hf_now(), hf_transport_patience_ms(client->transport)), &answer);
    hf_request_free(&request);
    if (status == HF_OK) {
        if (keep)
            good = hf_reply_states(answer.reply, numbers, 1);
        else if (hf_reply_number(answer.reply) == 2)
            hf_kick(client, op->hold->names, hf_after(hf_now(), 100));
        freeReplyObject(answer.reply);
    }
    pthread_mutex_lock(&client->mutex);
    op->busy = false;
    if (good && !op->done && numbers[2] == HF_REPLY_HELD)
        hf_op_answer(client, hf_link_find(client, answer.node), op, numbers, numbers + 2,
                     answer.sent_at);
    /* A cancel leaves alone what is held, so that a late copy of it does no harm. */
    if (keep && op->done && op->status == HF_OK)
        return HF_OK;
    if (status != HF_OK)
        hf_keeper_undo(client, op->hold, op);
    return status == HF_OK ? HF_ETIMEOUT : HF_EUNKNOWN;
}

/* The keeper was refused what the wait needs: say why. With the mutex held. */
static hf_status refused(hf_client *client, hf_op *op) {
    hf_request request;
    hf_acquire_request(&request, op->hold, NULL, 0);
    hf_fail(HF_ESERVER, "%s", client->keeper.refusal);
    hf_unlock_and_tell(client);
    hf_transport_explain(client->transport, &request,
                         hf_after(hf_now(), hf_transport_patience_ms(client->transport)));
    hf_request_free(&request);
    pthread_mutex_lock(&client->mutex);
    return HF_ESERVER;
}

/* Wait in the queue on this thread. With the mutex held. */
static hf_status wait_in_queue(hf_client *client, hf_lock *lock, hf_op *op, bool interruptible) {
    hf_hold *hold = op->hold;
    for (;;) {
        if (op->list == NULL && !hf_op_enter(client, op))
            return hf_fail(HF_ENOMEM, "no memory");
        hf_channel_want(client, op->list->channel);
        hf_status status = hf_op_wait(client, op, true, interruptible);
        if (status == HF_OK && !op->done && op->link->mode == HF_POLLING)
            return HF_EBUSY; /* the caller polls */
        if (status == HF_OK && !op->done)
            status = join(client, op);
        if (status == HF_OK && !op->done && op->score > 0)
            status = hf_op_wait(client, op, false, interruptible);
        if (status == HF_ETIMEOUT || status == HF_EINTR) {
            hf_status left = HF_ETIMEOUT;
            if (op->score > 0 || op->asking > 0)
                left = leave(client, op, status == HF_ETIMEOUT);
            if (left == HF_EUNKNOWN) {
                char why[300];
                snprintf(why, sizeof why, "%s", hf_error_message());
                return hf_fail(HF_EUNKNOWN,
                               "the wait for lock %s was given up, and the server could not be "
                               "told, which the keeper goes on trying: %s",
                               hf_quote(hold->names->data, hold->names->length), why);
            }
            if (left != HF_OK)
                return status == HF_EINTR ? status : timed_out(lock, op->timeout_ms);
        } else if (status != HF_OK) {
            return status;
        }
        if (!op->done)
            continue;
        if (op->status == HF_ESERVER)
            return refused(client, op);
        if (op->status != HF_OK)
            return hf_fail(op->status, "%s cannot be reached",
                           hf_transport_shown(client->transport));
        if (hf_now() < hold->deadline)
            return HF_OK;
        /* This thread slept past the grant. Back to its place, under a new id. */
        hf_keeper_undo(client, hold, NULL);
        status = hf_op_renew_id(client, op);
        hf_list_recheck(client, hold->names);
        if (status != HF_OK)
            return status;
        op->done = false;
        hold->state = 0;
        hold->pushed = false;
    }
}

/* Wait, one way or another. Answers with the mutex held. */
static hf_status wait_for(hf_lock *lock, hf_hold *hold, int64_t timeout_ms, bool interruptible,
                          int64_t *waited_since) {
    hf_client *client = lock->client;
    int64_t until = hf_after(hf_now(), timeout_ms), ttl_ms;
    hf_status status;
    pthread_mutex_lock(&client->mutex);
    if (!hf_grants_come(client, lock->names)) {
        /* It may well be free; only who has to wait is worth a subscription. */
        int64_t left = until == HF_NO_DEADLINE ? 0 : timeout_ms;
        pthread_mutex_unlock(&client->mutex);
        status = attempt(lock, hold,
                         hf_after(hf_now(), left + hf_transport_patience_ms(client->transport)),
                         &ttl_ms);
        pthread_mutex_lock(&client->mutex);
        if (status != HF_EBUSY)
            return status;
    }
    status = hold->id[0] != '\0' ? HF_OK : hf_client_new_id(client, hold->id);
    if (status == HF_OK)
        status = hf_keeper_start(client);
    hf_op *op = status == HF_OK ? hf_op_new(client, hold, timeout_ms, until, true) : NULL;
    if (op != NULL)
        status = wait_in_queue(client, lock, op, interruptible);
    else if (status == HF_OK)
        status = HF_ENOMEM;
    if (op != NULL) {
        *waited_since = op->score > 0 ? op->since : 0;
        hf_op_leave(client, op);
        hf_op_free(client, op);
    }
    if (status == HF_EBUSY) {
        hf_unlock_and_tell(client);
        status = poll_for(lock, hold, timeout_ms, until, interruptible);
        pthread_mutex_lock(&client->mutex);
    }
    return status;
}

/* The options of an acquire, checked, and a hold made of them. */
static hf_status prepare(hf_lock *lock, const void *owner, size_t owner_len, int64_t timeout_ms,
                         const hf_acquire_options *options, bool thread, uint32_t *flags,
                         hf_hold **hold_out) {
    hf_acquire_options chosen;
    owner_t who;
    if (lock == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    hf_status status = hf_client_check(lock->client);
    if (status == HF_OK)
        status = hf_options_copy(&chosen, sizeof chosen, options, "hf_acquire_options");
    if (status == HF_OK && timeout_ms < HF_FOREVER)
        status = hf_fail(HF_EINVAL, "a timeout of %lld ms: it takes 0 or more, or HF_FOREVER",
                         (long long)timeout_ms);
    if (status == HF_OK && chosen.lease_ms != 0)
        status = check_lease(chosen.lease_ms);
    if (status == HF_OK)
        status = check_switch(chosen.renew, "renew");
    if (status == HF_OK && chosen.lease_ms == HF_NEVER && lock->max_hold_ms > 0)
        status = hf_fail(HF_EINVAL, "max_hold needs a lease that ends");
    int64_t replica_ms = lock->replica_ms;
    if (status == HF_OK && lock->replicas > 0 && chosen.lease_ms != 0)
        status = check_replicas(chosen.lease_ms, &replica_ms);
    if (status == HF_OK && (chosen.flags & ~(HF_KEEP | HF_INTERRUPTIBLE)) != 0)
        status = hf_fail(HF_EINVAL, "hf_acquire_options.flags has an unknown bit");
    if (status == HF_OK && chosen.reserved != 0)
        status = hf_fail(HF_EINVAL, "hf_acquire_options.reserved must be 0");
    if (status == HF_OK)
        status = choose_owner(lock, owner, owner_len, thread, &who);
    if (status != HF_OK)
        return status;
    hf_hold *hold = hf_hold_new(lock->client, lock->names, who.bytes, who.length);
    if (hold == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    hold->lock_serial = who.lock_serial;
    hold->lease_ms = chosen.lease_ms != 0 ? chosen.lease_ms : lock->lease_ms;
    hold->renew =
        chosen.renew != HF_DEFAULT ? chosen.renew == HF_ON : chosen.lease_ms == 0 && lock->renew;
    hold->max_hold_ms = lock->max_hold_ms;
    hold->replicas = lock->replicas;
    hold->replica_ms = replica_ms;
    hold->reached = -1;
    hold->reentrant = lock->reentrant;
    if (lock->heal)
        hold->heal_ms = lock->lease_ms == HF_NEVER ? HF_LEASE_DEFAULT : lock->lease_ms;
    *flags = chosen.flags;
    *hold_out = hold;
    return HF_OK;
}

hf_status hf_lock_acquire_as(hf_lock *lock, const void *owner, size_t owner_len, int64_t timeout_ms,
                             const hf_acquire_options *options, hf_hold **hold_out) {
    hf_hold *hold;
    uint32_t flags;
    int64_t ttl_ms, waited_since = 0;
    if (hold_out != NULL)
        *hold_out = NULL;
    hf_status status = prepare(lock, owner, owner_len, timeout_ms, options, true, &flags, &hold);
    if (status != HF_OK)
        return status;
    hf_client *client = lock->client;
    if (timeout_ms == 0)
        status = attempt(lock, hold,
                         hf_after(hf_now(), hf_transport_patience_ms(client->transport)), &ttl_ms);
    if (timeout_ms == 0)
        pthread_mutex_lock(&client->mutex);
    else
        status = wait_for(lock, hold, timeout_ms, (flags & HF_INTERRUPTIBLE) != 0, &waited_since);
    bool held = status == HF_OK, keep = hold_out == NULL || (flags & HF_KEEP) != 0;
    if (held)
        status = hf_client_add(client, hold, keep && hold->replicas == 0);
    bool closed = held && status != HF_OK;
    if (status == HF_OK)
        hf_keeper_plan(client, hold, hf_now());
    if (status == HF_OK && hold->replicas > 0) {
        hf_unlock_and_tell(client);
        status = hf_hold_confirm(hold);
        pthread_mutex_lock(&client->mutex);
        hold->kept = keep && hold->listed;
    }
    hf_client_count(client, status, waited_since);
    hf_unlock_and_tell(client);
    if (closed)
        give_back(hold);
    if (status == HF_OK && hold_out != NULL)
        *hold_out = hold;
    else
        hf_hold_drop(hold);
    return status;
}

/* --------------------------------------------------------------- Started */

static void canceled(hf_client *client, hf_task *task, hf_status status, const redisReply *reply) {
    hf_op *op = hf_op_find(client, task->ids[0]);
    if (status == HF_OK && hf_reply_number(reply) == 2)
        hf_keeper_kick(client, task->names);
    if (op == NULL)
        return;
    if (status != HF_OK)
        hf_keeper_undo(client, op->hold, op);
    hf_op_finish(client, op, HF_ECANCELED);
}

static void expired(hf_client *client, hf_task *task, hf_status status, const redisReply *reply) {
    int64_t numbers[5];
    hf_op *op = hf_op_find(client, task->ids[0]);
    if (op == NULL || op->canceled)
        return; /* the grant was faster, or a cancel */
    if (status != HF_OK || !hf_reply_states(reply, numbers, 1)) {
        hf_keeper_undo(client, op->hold, op);
        hf_op_finish(client, op, HF_EUNKNOWN);
    } else if (numbers[2] == HF_REPLY_HELD &&
               hf_now() < hf_hold_deadline(op->hold, task->sent_at, numbers[4])) {
        hf_op_answer(client, task->link, op, numbers, numbers + 2, task->sent_at);
    } else {
        if (numbers[2] == HF_REPLY_HELD)
            hf_keeper_undo(client, op->hold, op); /* held, but not long enough to be told */
        hf_op_finish(client, op, HF_ETIMEOUT);
    }
}

/* Take an op that waits without a thread out of the queue, by cancel or release. */
static void withdraw(hf_client *client, hf_op *op, bool cancel) {
    hf_task *task = NULL;
    if (op->score > 0 || op->asking > 0 || op->hold->bury)
        task = hf_task_new(cancel ? canceled : expired);
    if (task != NULL && (task->ids = malloc(sizeof *task->ids)) == NULL) {
        free(task);
        task = NULL;
    }
    op->canceled = cancel;
    if (task == NULL) {
        bool sent = op->score > 0 || op->asking > 0 || op->hold->bury;
        if (sent) /* and no memory to ask what came of it */
            hf_keeper_undo(client, op->hold, op);
        hf_op_finish(client, op, cancel ? HF_ECANCELED : sent ? HF_EUNKNOWN : HF_ETIMEOUT);
        return;
    }
    op->busy = true; /* from now on nobody else asks for it */
    memcpy(task->ids[0], op->hold->id, sizeof *task->ids);
    task->names = hf_names_keep(op->hold->names);
    if (cancel)
        hf_release_request(&task->request, op->hold, op);
    else
        hf_cancel_request(&task->request, op);
    hf_task_submit(client, task, hf_after(hf_now(), hf_transport_patience_ms(client->transport)));
}

static void op_due(hf_client *client, hf_timer *timer, int64_t now) {
    hf_op *op = (hf_op *)((char *)timer - offsetof(hf_op, timer));
    (void)now;
    if (!op->canceled)
        withdraw(client, op, false);
}

static hf_op *find_started(hf_client *client, int64_t number) {
    for (size_t i = 0; i < sizeof client->keeper.ids / sizeof *client->keeper.ids; i++)
        for (hf_op *op = client->keeper.ids[i]; op != NULL; op = op->same_id)
            if (op->started && op->number == number)
                return op;
    return NULL;
}

hf_status hf_lock_acquire_start(hf_lock *lock, const void *owner, size_t owner_len,
                                int64_t timeout_ms, const hf_acquire_options *options,
                                int64_t op_number) {
    hf_hold *hold;
    uint32_t flags;
    if (op_number < 1)
        return hf_fail(HF_EINVAL, "the operation's number must be above 0");
    hf_status status = prepare(lock, owner, owner_len, timeout_ms, options, false, &flags, &hold);
    if (status != HF_OK)
        return status;
    hf_client *client = lock->client;
    hold->kept = (flags & HF_KEEP) != 0;
    status = hf_keeper_tells(client);
    hf_op *op = NULL;
    bool asleep = hf_keeper_lock(client);
    if (status == HF_OK && client->closed) /* just now: nobody would end it */
        status = hf_fail(HF_ECLOSED, "the client is closed");
    if (status == HF_OK)
        status = hf_client_new_id(client, hold->id);
    if (status == HF_OK) {
        op = hf_op_new(client, hold, timeout_ms, hf_after(hf_now(), timeout_ms), false);
        status = op != NULL ? HF_OK : HF_ENOMEM;
    }
    if (status == HF_OK) {
        op->number = op_number;
        if (!hf_op_enter(client, op)) {
            hf_op_free(client, op);
            status = hf_fail(HF_ENOMEM, "no memory");
        }
    }
    if (status == HF_OK && timeout_ms == 0) {
        if (!hf_op_try(client, op)) {
            hf_op_leave(client, op);
            hf_op_free(client, op);
            status = hf_fail(HF_ENOMEM, "no memory");
        }
    } else if (status == HF_OK) {
        hf_channel_want(client, op->list->channel);
        op->timer.fire = op_due;
        if (timeout_ms > 0)
            hf_keeper_timer(client, &op->timer, op->until);
        hf_keeper_timer(client, &op->list->timer, 0);
    }
    hf_keeper_unlock(client, asleep);
    if (status != HF_OK)
        hf_hold_drop(hold);
    return status;
}

hf_status hf_op_cancel(hf_client *client, int64_t op_number) {
    hf_status status = hf_client_check(client);
    if (status != HF_OK)
        return status;
    pthread_mutex_lock(&client->mutex);
    hf_op *op = find_started(client, op_number);
    if (op == NULL)
        status = hf_fail(HF_ENOTHELD, "no such acquire is under way");
    else if (!op->canceled)
        withdraw(client, op, true);
    pthread_mutex_unlock(&client->mutex);
    return status;
}

hf_status hf_lock_acquire(hf_lock *lock, int64_t timeout_ms, hf_hold **hold_out) {
    return hf_lock_acquire_as(lock, NULL, 0, timeout_ms, NULL, hold_out);
}

/* --------------------------------------------------------------- Release */

/* The next hold, from this one on, of the owner's stack. With the mutex held. */
static hf_hold *find_kept(const hf_lock *lock, hf_hold *hold, const owner_t *who, uint64_t stack) {
    for (; hold != NULL; hold = hold->older) {
        if (!hold->kept || hold->stack != stack || hold->lock_serial != who->lock_serial)
            continue;
        if (hold->names->length != lock->names->length ||
            memcmp(hold->names->data, lock->names->data, lock->names->length) != 0)
            continue;
        if (who->lock_serial != 0 || (hold->owner_length == who->length &&
                                      memcmp(hold->owner, who->bytes, who->length) == 0))
            return hold;
    }
    return NULL;
}

/* The newest hold on the owner's stack, with a reference; `take`: it is off the
 * stack then, so that no two calls release the same one. */
static hf_status find_current(hf_lock *lock, const void *owner, size_t owner_len, bool take,
                              hf_hold **hold_out) {
    owner_t who;
    if (hold_out == NULL || lock == NULL)
        return hf_fail(HF_EINVAL, "a handle is NULL");
    *hold_out = NULL;
    hf_client *client = lock->client;
    hf_status status = hf_client_check(client);
    if (status == HF_OK)
        status = choose_owner(lock, owner, owner_len, true, &who);
    if (status != HF_OK)
        return status;
    uint64_t stack = hf_stack_hash(lock->names, who.lock_serial, who.bytes, who.length);
    pthread_mutex_lock(&client->mutex);
    hf_hold *hold = find_kept(lock, client->stacks[stack % BUCKETS], &who, stack);
    if (hold != NULL) {
        hold->references++;
        if (take)
            hold->kept = false;
    }
    pthread_mutex_unlock(&client->mutex);
    *hold_out = hold;
    status = hf_client_check(client); /* if not: was it the close that released it? */
    if (hold != NULL || status != HF_OK)
        return hold != NULL ? HF_OK : status;
    return hf_fail(HF_ENOTHELD, "lock %s is not held by this owner",
                   hf_quote(lock->names->data, lock->names->length));
}

hf_status hf_lock_current_as(hf_lock *lock, const void *owner, size_t owner_len,
                             hf_hold **hold_out) {
    return find_current(lock, owner, owner_len, false, hold_out);
}

hf_status hf_lock_release_as(hf_lock *lock, const void *owner, size_t owner_len) {
    hf_hold *hold;
    hf_status status = find_current(lock, owner, owner_len, true, &hold);
    if (status != HF_OK)
        return status;
    status = hf_hold_release(hold);
    hf_hold_drop(hold);
    return status;
}

hf_status hf_lock_release(hf_lock *lock) { return hf_lock_release_as(lock, NULL, 0); }

int64_t hf_lock_count_as(const hf_lock *lock, const void *owner, size_t owner_len) {
    owner_t who;
    if (lock == NULL || hf_client_check(lock->client) != HF_OK ||
        choose_owner(lock, owner, owner_len, true, &who) != HF_OK)
        return 0;
    uint64_t stack = hf_stack_hash(lock->names, who.lock_serial, who.bytes, who.length);
    int64_t count = 0, now = hf_now();
    pthread_mutex_lock(&lock->client->mutex);
    hf_hold *hold = lock->client->stacks[stack % BUCKETS];
    while ((hold = find_kept(lock, hold, &who, stack)) != NULL) {
        count += hf_hold_state_now(hold, now) == HF_HELD;
        hold = hold->older;
    }
    pthread_mutex_unlock(&lock->client->mutex);
    return count;
}

hf_status hf_client_kept(hf_client *client, const void *owner, size_t owner_len, void *name,
                         size_t capacity, size_t *name_len_out) {
    if (owner == NULL || name == NULL || name_len_out == NULL)
        return hf_fail(HF_EINVAL, "owner, name or name_len_out is NULL");
    hf_status status = hf_client_check(client);
    if (status != HF_OK)
        return status;
    int64_t now = hf_now();
    pthread_mutex_lock(&client->mutex);
    const hf_hold *hold = client->holds;
    while (hold != NULL &&
           !(hold->kept && hold->owner_length == owner_len &&
             memcmp(hold->owner, owner, owner_len) == 0 && hf_hold_state_now(hold, now) == HF_HELD))
        hold = hold->next;
    bool fits = hold != NULL && hold->names->length <= capacity;
    if (hold != NULL)
        *name_len_out = hold->names->length;
    if (fits)
        memcpy(name, hold->names->data, hold->names->length);
    pthread_mutex_unlock(&client->mutex);
    if (hold == NULL)
        return hf_fail(HF_ENOTHELD, "this owner has nothing to release");
    return fits ? HF_OK : hf_fail(HF_EINVAL, "the buffer is too small for the name");
}

/* --------------------------------------------------------- Inspect, break */

hf_status hf_lock_inspect(hf_lock *lock, hf_lock_info *info, void *owner, size_t capacity,
                          size_t *owner_len_out) {
    hf_request request;
    hf_answer answer;
    if (lock == NULL || info == NULL || info->size < sizeof info->size)
        return hf_fail(HF_EINVAL, "a handle is NULL, or hf_lock_info.size is not set");
    hf_status status = hf_client_check(lock->client);
    if (status != HF_OK)
        return status;
    hf_transport *transport = lock->client->transport;
    hf_request_begin(&request, &hf_script_inspect);
    hf_request_lock(&request, lock->names);
    hf_request_companion(&request, lock->names, "hf1:q");
    status = hf_transport_call(transport, &request,
                               hf_after(hf_now(), hf_transport_patience_ms(transport)), &answer);
    hf_request_free(&request);
    if (status == HF_EUNKNOWN)
        status = HF_ECONNECT; /* it changes nothing, so there is nothing to be unsure of */
    if (status != HF_OK)
        return status;
    redisReply *reply = answer.reply;
    bool good = reply->type == REDIS_REPLY_ARRAY && reply->elements >= 6 &&
                reply->element[1]->type == REDIS_REPLY_STRING;
    for (size_t i = 0; good && i < 6; i++)
        good = i == 1 || reply->element[i]->type == REDIS_REPLY_INTEGER;
    if (good) {
        hf_lock_info found = {0};
        uint32_t size = info->size;
        int64_t ttl = reply->element[4]->integer;
        found.size = size;
        found.held = reply->element[0]->integer != 0;
        found.foreign = reply->element[0]->integer == 2;
        found.count = reply->element[2]->integer;
        found.fence = reply->element[3]->integer;
        found.remaining_ms = ttl == -1 ? HF_NEVER : ttl < 0 ? 0 : ttl;
        found.waiters = reply->element[5]->integer;
        memset(info, 0, size);
        memcpy(info, &found, size < sizeof found ? size : sizeof found);
        size_t length = (size_t)reply->element[1]->len;
        if (owner != NULL)
            memcpy(owner, reply->element[1]->str, length < capacity ? length : capacity);
        if (owner_len_out != NULL)
            *owner_len_out = length;
    }
    freeReplyObject(reply);
    return good ? HF_OK : hf_fail(HF_EPROTOCOL, "an answer that the inspect script does not give");
}

hf_status hf_lock_break(hf_lock *lock, int64_t fence, uint32_t flags) {
    hf_request request;
    hf_answer answer;
    if (lock == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    hf_status status = hf_client_check(lock->client);
    if (status != HF_OK)
        return status;
    if (fence < 0 || (flags & ~HF_BREAK_FOREIGN) != 0)
        return hf_fail(HF_EINVAL, "break takes a fence of hf_lock_inspect() and HF_BREAK_FOREIGN");
    hf_transport *transport = lock->client->transport;
    int64_t deadline = hf_after(hf_now(), hf_transport_patience_ms(transport));
    hf_request_begin(&request, &hf_script_break);
    hf_request_lock(&request, lock->names);
    hf_request_companion(&request, lock->names, "hf1:f");
    hf_request_companion(&request, lock->names, "hf1:q");
    hf_request_number(&request, fence);
    hf_request_number(&request, (flags & HF_BREAK_FOREIGN) != 0);
    status = hf_transport_call(transport, &request, deadline, &answer);
    hf_request_free(&request);
    if (status != HF_OK)
        return status;
    int64_t outcome = answer.reply->type == REDIS_REPLY_INTEGER ? answer.reply->integer : -1;
    freeReplyObject(answer.reply);
    if (outcome == 0) {
        /* If an earlier copy broke it, the next holder is what the retry found. */
        if (answer.doubtful)
            return hf_fail(HF_EUNKNOWN, "an answer was lost, and by now another holds lock %s",
                           hf_quote(lock->names->data, lock->names->length));
        return hf_fail(HF_ENOTHELD, "lock %s is not held with that fence",
                       hf_quote(lock->names->data, lock->names->length));
    }
    if (outcome == 2)
        hf_kick(lock->client, lock->names, deadline);
    return outcome > 0 ? HF_OK
                       : hf_fail(HF_EPROTOCOL, "an answer that the break script does not give");
}
