#include "lock/undo.h"

#include <stdlib.h>
#include <string.h>

#include "base/simulated.h"
#include "lock/quorum.h"
#include "lock/thread.h"
#include "net/flush.h"

/* For how long, after the hold has ended by itself, an undo goes on, and a free lock is handed
 * on. */
#define AFTERWARDS_MS 3000
/* For how long an undo goes on while a copy of the acquire may arrive: the kernel goes on sending
 * it for minutes after a close. A dead id lives as long. */
#define COPIES_MS 600000
#define GIVEN_UP 64
/* The pause before an undo that failed, for want of memory or while its slot is being moved, is
 * tried again. */
#define AGAIN_MS 50

struct hf_undoing {
    struct {
        char id[HF_ID_LENGTH];
        hf_names *names;
    } given_up[GIVEN_UP]; /* ids of which a copy could still arrive late; the oldest is forgotten */
    unsigned next;
    hf_list holds; /* given up when there was no memory to undo them; each with a reference */
    hf_timer timer;
};

typedef struct undo_task {
    hf_task task;
    hf_hold *hold; /* the hold to be undone, under this id; or NULL */
    char id[HF_ID_LENGTH];
} undo_task;

static void drop_undo(hf_task *task) { hf_hold_drop(HF_OF(undo_task, task, task)->hold); }

/* Make a task. NULL: no memory, or no thread that would send it. This thread's message stays. */
static hf_task *new_task(hf_client *client, hf_names *names,
                         void (*done)(hf_task *, hf_status, const redisReply *)) {
    hf_error error = *hf_error_last();
    bool thread = hf_thread_start_locked(client) == HF_OK;
    hf_task *task = thread ? hf_task_new(sizeof(undo_task), names, done, drop_undo) : NULL;
    hf_error_set(&error);
    return task;
}

/* Send the task until it is answered, for at most `ms`. False: there was no memory for its
 * request. */
static bool insist(hf_client *client, hf_task *task, int64_t ms) {
    if (task->request.encoded.failed) {
        hf_task_free(task);
        return false;
    }
    task->insists = true;
    hf_task_submit(&client->links, task, hf_after(hf_now(), ms));
    return true;
}

/* ------------------------------------------------------------------ Kicks */

static void kicked(hf_task *task, hf_status status, const redisReply *reply) {
    hf_look look;
    if (status == HF_OK && hf_reply_acquire(reply, &look, NULL, 0) && look.ttl_ms == HF_TTL_MORE)
        hf_kick_locked(hf_task_client(task), task->names);
}

void hf_kick_locked(hf_client *client, hf_names *names) {
    HF_MARK("M2");
    hf_task *task = new_task(client, names, kicked);
    if (task == NULL)
        return;
    hf_request_acquire(&task->request, names, NULL, 0, 0);
    hf_task_submit(&client->links, task, hf_after(hf_now(), AFTERWARDS_MS));
}

/* ------------------------------------------------------------------- Heal */

void hf_heal_locked(hf_client *client, const hf_hold *hold) {
    hf_task *task = new_task(client, hold->names, NULL);
    if (task == NULL)
        return;
    hf_request_heal(&task->request, hold->names, hold->terms.heal_ms);
    hf_task_submit(&client->links, task, hf_client_patience(client));
}

/* ------------------------------------------------------------------- Undo */

/* Undo the hold a little later. The id is copied: the hold may get another one meanwhile. */
static void undo_later(hf_client *client, hf_hold *hold, const char *id) {
    if (hold->undo.list == NULL) {
        hf_hold_grab(hold);
        memcpy(hold->undo_id, id, HF_ID_LENGTH);
        hf_list_add_last(&client->undoing->holds, &hold->undo);
    }
    hf_thread_timer_locked(client, &client->undoing->timer, hf_after(hf_now(), AGAIN_MS));
}

static void undone(hf_task *task, hf_status status, const redisReply *reply) {
    const undo_task *mine = HF_OF(undo_task, task, task);
    hf_release_outcome outcome = status == HF_OK ? hf_reply_release(reply) : HF_RELEASE_NONSENSE;
    if (outcome == HF_RELEASE_MORE)
        hf_kick_locked(hf_task_client(task), task->names);
    else if (outcome == HF_RELEASE_SPLIT && mine->hold != NULL)
        undo_later(hf_task_client(task), mine->hold, mine->id);
}

void hf_undo_later_locked(hf_hold *hold) { undo_later(hold->client, hold, hold->id); }

void hf_undo_remember_locked(hf_client *client, hf_names *names, const char *id) {
    HF_MARK("C3");
    struct hf_undoing *undoing = client->undoing;
    unsigned at = undoing->next++ % GIVEN_UP;
    hf_names_drop(undoing->given_up[at].names);
    undoing->given_up[at].names = hf_names_keep(names);
    memcpy(undoing->given_up[at].id, id, HF_ID_LENGTH);
}

void hf_undo_grant_locked(hf_client *client, const char *id, int64_t fence) {
    struct hf_undoing *undoing = client->undoing;
    hf_ask ask = {.id = id};
    for (unsigned i = 0; i < GIVEN_UP; i++) {
        hf_names *names = undoing->given_up[i].names;
        if (names == NULL || memcmp(undoing->given_up[i].id, id, HF_ID_LENGTH) != 0)
            continue;
        HF_MARK("H22");
        hf_task *task = new_task(client, names, undone);
        if (task == NULL)
            return; /* the grant soon ends by itself */
        hf_request_release(&task->request, names, &ask, fence, true);
        hf_task_submit(&client->links, task, hf_after(hf_now(), HF_CLAIM_MS));
        return;
    }
}

/* Undo one id of the hold. This thread's message stays. */
static void undo(hf_hold *hold, const hf_ask *ask, int64_t fence, bool bury) {
    hf_client *client = hold->client;
    if (bury) {
        hf_undo_remember_locked(client, hold->names, ask->id);
        fence = 0; /* a copy of its acquire may have got a greater fence since */
    }
    hf_task *task = new_task(client, hold->names, undone);
    if (task == NULL) {
        undo_later(client, hold, ask->id);
        return;
    }
    hf_hold_grab(hold);
    HF_OF(undo_task, task, task)->hold = hold;
    memcpy(HF_OF(undo_task, task, task)->id, ask->id, HF_ID_LENGTH);
    hf_request_release(&task->request, hold->names, ask, fence, bury);
    int64_t lease_ms = hold->validity.longest_ms;
    /* A place in the queue stays for as long as this client listens. */
    bool lasts = lease_ms == HF_NEVER || ask->channel != NULL;
    int64_t ms = lasts ? HF_FOREVER : lease_ms + (bury ? COPIES_MS : AFTERWARDS_MS);
    if (!insist(client, task, ms))
        undo_later(client, hold, ask->id);
}

/* Undo the hold by its fence, which finds it even under the id of a kept hold; and, if copies may
 * arrive, by its first id, which alone finds a hold that a copy of its acquire has begun. */
static void undo_both(hf_hold *hold, const hf_ask *ask, bool copies) {
    if (copies)
        undo(hold, ask, 0, true);
    if (hold->fence > 0)
        undo(hold, ask, hold->fence, false);
}

hf_task *hf_undo_spare(const hf_hold *hold) {
    return hf_task_new(sizeof(undo_task), hold->names, undone, drop_undo);
}

bool hf_undo_insist_locked(hf_hold *hold, hf_request *request, hf_task **spare) {
    hf_client *client = hold->client;
    if (client->swept)
        return false;
    hf_task *task = new_task(client, hold->names, undone);
    if (task == NULL && *spare == NULL)
        return hf_undo_locked(hold);
    if (task == NULL) { /* it is sent by a later thread, or by the close */
        HF_MARK("H242");
        task = *spare;
        *spare = NULL;
    }
    task->insists_if_forbidden = true;
    hf_request_move(&task->request, request);
    hf_bytes_init(&request->encoded);
    return insist(client, task, HF_FOREVER) || hf_undo_locked(hold);
}

static void undo_again(hf_timer *timer, int64_t now) {
    struct hf_undoing *undoing = HF_OF(struct hf_undoing, timer, timer);
    hf_list holds = {0};
    char id[HF_ID_LENGTH + 1] = "";
    (void)now;
    hf_list_move(&undoing->holds, &holds);
    for (hf_item *at; (at = hf_list_take_first(&holds)) != NULL;) {
        hf_hold *hold = HF_OF(hf_hold, undo, at);
        hf_ask ask = hf_hold_ask(hold);
        memcpy(id, hold->undo_id, HF_ID_LENGTH);
        ask.id = id;
        if (hold->state != HF_STATE_HELD || hf_hold_is_listed(hold))
            undo_both(hold, &ask, true);
        else if (!hf_undo_bury_locked(hold->client, hold->names, &ask, false)) /* its handle is
                                                                                * closed */
            undo_later(hold->client, hold, id);
        hf_hold_drop(hold);
    }
}

bool hf_undo_bury_locked(hf_client *client, hf_names *names, const hf_ask *ask, bool ends) {
    hf_task *task = new_task(client, names, ends ? undone : NULL);
    if (task == NULL)
        return false;
    if (ends)
        hf_request_release(&task->request, names, ask, 0, true);
    else
        hf_request_cancel(&task->request, names, ask, true);
    HF_MARK("C3");
    return insist(client, task, COPIES_MS);
}

/* With several masters, leave the undo to the masters' clients. False: there is one master. */
static bool is_of_ballot(hf_hold *hold) {
    if (hold->client->quorum == NULL)
        return false;
    hold->client->quorum->ways->leave(hold, HF_PARTING_BACK);
    return true;
}

bool hf_undo_locked(hf_hold *hold) {
    hf_ask ask = hf_hold_ask(hold);
    if (is_of_ballot(hold))
        return true;
    if (hold->client->swept)
        return false;
    undo_both(hold, &ask, hold->out > 0);
    return true;
}

void hf_undo_id_locked(hf_hold *hold) {
    hf_ask ask = hf_hold_ask(hold);
    if (!is_of_ballot(hold) && !hold->client->swept)
        undo(hold, &ask, 0, true);
}

bool hf_undo_acquire_locked(hf_hold *hold, const hf_ask *ask) {
    hf_ask alone = hf_hold_ask(hold);
    bool owed =
        !is_of_ballot(hold) && (hold->out > 0 || hold->stray || (ask != NULL && ask->score > 0));
    if (owed && hold->client->swept)
        return false;
    if (owed)
        undo(hold, ask != NULL ? ask : &alone, hold->fence, hold->out > 0);
    hold->out = 0;
    hold->stray = false;
    hold->fence = 0;
    if (hold->state == HF_STATE_HELD)
        hold->state = 0;
    return true;
}

void hf_undo_now(const hf_hold *hold, hf_request *left, int64_t deadline) {
    hf_request release, *requests[] = {left != NULL ? left : &release};
    HF_NOT_CANCELLED;
    HF_MARK("H18");
    hf_error error = *hf_error_last();
    hf_hold_release_request(&release, hold, true);
    for (; left == NULL && release.encoded.failed && hf_now() < deadline;
         hf_hold_release_request(&release, hold, true))
        hf_transport_pause(HF_NO_MEMORY_MS);
    hf_flush(hold->client->transport, requests, 1, deadline);
    hf_request_free(&release);
    hf_error_set(&error);
}

hf_list *hf_undo_left_locked(hf_client *client) { return &client->undoing->holds; }

struct hf_undoing *hf_undo_begin(hf_client *client) {
    struct hf_undoing *undoing = calloc(1, sizeof *undoing);
    if (undoing == NULL || !hf_timer_reserve(&client->timers)) {
        free(undoing);
        return NULL;
    }
    undoing->timer.fire = undo_again;
    return undoing;
}

void hf_undo_end(hf_client *client) {
    if (client->undoing == NULL)
        return;
    for (unsigned i = 0; i < GIVEN_UP; i++)
        hf_names_drop(client->undoing->given_up[i].names);
    hf_timer_clear(&client->timers, &client->undoing->timer);
    hf_timer_unreserve(&client->timers);
    free(client->undoing);
}
