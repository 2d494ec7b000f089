/* One successful acquire: its validity, its renewal, its end. */
#include <stdlib.h>
#include <string.h>

#include "client.h"

hf_hold *hf_hold_new(hf_client *client, hf_names *names, const void *owner, size_t owner_length) {
    hf_hold *hold = calloc(1, sizeof *hold + owner_length);
    if (hold == NULL)
        return NULL;
    hold->references = 1;
    hold->client = hf_client_keep(client);
    hold->names = hf_names_keep(names);
    hold->owner_length = owner_length;
    memcpy(hold->owner, owner, owner_length);
    return hold;
}

void hf_hold_drop(hf_hold *hold) {
    hf_client *client = hold->client;
    pthread_mutex_lock(&client->mutex);
    bool last = --hold->references == 0;
    pthread_mutex_unlock(&client->mutex);
    if (!last)
        return;
    hf_names_drop(hold->names);
    free(hold);
    hf_client_drop(client);
}

/* ------------------------------------------------------------- Validity */

int64_t hf_deadline(int64_t sent_at, int64_t remaining_ms) {
    if (remaining_ms < 0)
        return HF_NO_DEADLINE;
    /* The two clocks may drift apart by 1 in 1000 and round to 1 ms each. */
    return hf_after(sent_at, remaining_ms) - 2 * HF_MS - remaining_ms * (HF_MS / 1000);
}

int hf_hold_state_now(const hf_hold *hold, int64_t now) {
    return hold->state == HF_HELD && now >= hold->deadline ? HF_LOST : hold->state;
}

static hf_status lost(const hf_hold *hold, const char *how) {
    return hf_fail(HF_ELOST, "the hold of lock %s is lost: %s",
                   hf_quote(hold->names->data, hold->names->length), how);
}

static hf_status not_held(const hf_hold *hold) {
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

/* --------------------------------------------------------------- Release */

void hf_release_request(hf_request *request, const hf_hold *hold) {
    hf_request_begin(request, &hf_script_release);
    hf_request_lock(request, hold->names);
    hf_request_companion(request, hold->names, "hf1:f");
    hf_request_companion(request, hold->names, "hf1:q");
    hf_request_dead(request, hold->names, hold->id);
    hf_request_bytes(request, hold->id, HF_ID_LENGTH);
    hf_request_number(request, hold->bury);
    hf_request_number(request, 0);
    hf_request_bytes(request, "", 0);
}

void hf_kick(hf_client *client, const hf_names *names, int64_t deadline) {
    hf_request request;
    hf_answer answer;
    hf_request_begin(&request, &hf_script_acquire);
    hf_request_lock(&request, names);
    hf_request_companion(&request, names, "hf1:f");
    hf_request_companion(&request, names, "hf1:q");
    hf_request_number(&request, 0);
    hf_request_number(&request, 0);
    for (int64_t numbers[2] = {0, -2}; numbers[1] == -2;) {
        numbers[1] = 0;
        if (hf_transport_call(client->transport, &request, deadline, &answer) == HF_OK) {
            hf_reply_numbers(answer.reply, numbers, 2);
            freeReplyObject(answer.reply);
        }
    }
    hf_request_free(&request);
}

hf_status hf_hold_release(hf_hold *hold) {
    if (hold == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    hf_client *client = hold->client;
    hf_status status = hf_client_check(client);
    if (status != HF_OK)
        return status;
    int64_t now = hf_now(), deadline = hf_after(now, hf_transport_patience_ms(client->transport));
    hf_request request;
    hf_answer answer;

    /* It ends here first, and on the server afterwards. */
    pthread_mutex_lock(&client->mutex);
    int state = hf_hold_state_now(hold, now);
    int64_t valid_until = hold->deadline;
    bool listed = hold->listed;
    hold->state = HF_RELEASED;
    if (listed)
        hf_client_remove(client, hold);
    pthread_mutex_unlock(&client->mutex);
    if (state == HF_RELEASED)
        return not_held(hold);

    hf_release_request(&request, hold);
    status = hf_transport_call(client->transport, &request, deadline, &answer);
    hf_request_free(&request);
    if (status == HF_OK) {
        int64_t outcome = answer.reply->type == REDIS_REPLY_INTEGER ? answer.reply->integer : -1;
        freeReplyObject(answer.reply);
        if (outcome == 2)
            hf_kick(client, hold->names, deadline);
        if (outcome < 0)
            status = hf_fail(HF_EPROTOCOL, "an answer that the release script does not give");
        else if (outcome == 0 && answer.doubtful && state == HF_HELD)
            /* An earlier copy may have released it, and did if the lease still ran. */
            status = hf_now() < valid_until
                         ? HF_OK
                         : hf_fail(HF_EUNKNOWN, "the hold of lock %s ended by an earlier try to "
                                                "release it, or was lost just before",
                                   hf_quote(hold->names->data, hold->names->length));
        else if (outcome == 0 && state == HF_HELD)
            status = lost(hold, "the server does not know it any more");
    }
    if (state == HF_LOST)
        status = lost(hold, "its lease ended");
    if (listed)
        hf_hold_drop(hold);
    return status;
}

/* ----------------------------------------------------------------- Renew */

enum { RENEW_LONGER = 0, RENEW_EXACTLY = 1, RENEW_LOOK = 2 };

static hf_status renew(hf_hold *hold, int64_t lease_ms, int mode) {
    hf_client *client = hold->client;
    hf_request request;
    hf_answer answer;
    int64_t numbers[2];
    int64_t deadline = hf_after(hf_now(), hf_transport_patience_ms(client->transport));
    hf_request_begin(&request, &hf_script_renew);
    hf_request_lock(&request, hold->names);
    hf_request_bytes(&request, hold->id, HF_ID_LENGTH);
    hf_request_number(&request, lease_ms == HF_NEVER ? 0 : lease_ms);
    hf_request_number(&request, mode);
    hf_status status = hf_transport_call(client->transport, &request, deadline, &answer);
    hf_request_free(&request);
    if (status != HF_OK)
        return status;
    bool good = hf_reply_numbers(answer.reply, numbers, 2);
    freeReplyObject(answer.reply);
    if (!good || numbers[1] < -3)
        return hf_fail(HF_EPROTOCOL, "an answer that the renew script does not give");
    if (numbers[1] == -3)
        return hf_fail(HF_ESERVER, "the server refused to renew lock %s: it lacks a permission or "
                                   "cannot write",
                       hf_quote(hold->names->data, hold->names->length));

    pthread_mutex_lock(&client->mutex);
    int64_t until = hf_deadline(answer.sent_at, numbers[1]);
    if (numbers[1] == -2) {
        if (hold->state == HF_HELD)
            hold->state = HF_LOST;
    } else if (hold->state == HF_HELD && (mode == RENEW_EXACTLY || until > hold->deadline)) {
        /* Two renewals may cross; only one that was to shorten it may. */
        hold->deadline = until;
    }
    int state = hf_hold_state_now(hold, hf_now());
    pthread_mutex_unlock(&client->mutex);
    if (state == HF_RELEASED)
        return not_held(hold);
    return state == HF_HELD ? HF_OK : lost(hold, "the server does not know it any more");
}

/* Is it held, so that it can be renewed? Its lease, remaining time and mode of `change`. */
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

hf_status hf_hold_renew(hf_hold *hold) {
    hf_status status = check_held(hold);
    return status == HF_OK ? renew(hold, hold->lease_ms, RENEW_LONGER) : status;
}

hf_status hf_hold_check(hf_hold *hold) {
    hf_status status = check_held(hold);
    return status == HF_OK ? renew(hold, hold->lease_ms, RENEW_LOOK) : status;
}

hf_status hf_hold_extend(hf_hold *hold, int64_t duration_ms, int replace) {
    if (!(replace && duration_ms == HF_NEVER) &&
        (duration_ms < HF_LEASE_MIN || duration_ms > HF_LEASE_MAX))
        return hf_fail(HF_EINVAL, "extend by %lld ms: it takes 10 ms to 10 years",
                       (long long)duration_ms);
    hf_status status = check_held(hold);
    if (status != HF_OK)
        return status;
    int64_t now = hf_now(), lease_ms = duration_ms;
    pthread_mutex_lock(&hold->client->mutex);
    bool never = hold->deadline == HF_NO_DEADLINE;
    if (replace) {
        /* What is going to be shorter is so here first. */
        int64_t until = hf_deadline(now, duration_ms);
        hold->lease_ms = duration_ms;
        if (until < hold->deadline)
            hold->deadline = until;
    } else if (!never) {
        /* Added once, to what is left now: sent again it adds nothing twice. */
        lease_ms += hf_until(hold->deadline, now);
        if (lease_ms > HF_LEASE_MAX)
            lease_ms = HF_LEASE_MAX;
    }
    pthread_mutex_unlock(&hold->client->mutex);
    if (never && !replace)
        return renew(hold, HF_NEVER, RENEW_LOOK);
    return renew(hold, lease_ms, replace ? RENEW_EXACTLY : RENEW_LONGER);
}

void hf_hold_close(hf_hold *hold) {
    if (hold == NULL || hf_client_inherited(hold->client))
        return;
    hf_client *client = hold->client;
    pthread_mutex_lock(&client->mutex);
    /* Nobody can release it any more: it is not to be renewed either. */
    bool abandoned = hold->listed && !hold->kept;
    if (abandoned)
        hf_client_remove(client, hold);
    pthread_mutex_unlock(&client->mutex);
    if (abandoned)
        hf_hold_drop(hold);
    hf_hold_drop(hold);
}
