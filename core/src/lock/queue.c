#include "lock/queue.h"

#include <stdlib.h>
#include <string.h>

#include "lock/reading.h"
#include "lock/thread.h"

/* For how long a lock with waiters is expected to stay contended. */
#define EXPECTED_MS 1000
/* For how long a `wait` or `share` that did nothing is not tried again: a `wait` does nothing while
 * ids may be dead, and a `share` while a limit is stored. */
#define IN_VAIN_MS 200

#define LOCKS 256
#define OWNERS 1024

struct hf_waiting {
    void (*ask)(hf_timer *timer, int64_t now);
    hf_index queues;          /* by their lock's name */
    hf_index ids;             /* of ops */
    unsigned owners[OWNERS];  /* how many ops wait, by a hash of lock and owner */
    hf_list spare;            /* bells to be reused: a late wake-up may still reach one */
    int64_t handed_on[LOCKS]; /* when a hold that was waited for last began, by a hash of the lock's
                               * name */
    int64_t in_vain[LOCKS];   /* when a `wait` or `share` last did nothing, by the same hash */
};

#define OP(at) HF_OF(hf_op, by_id, at)
#define QUEUE(at) HF_OF(hf_queue, by_name, at)

struct hf_waiting *hf_waiting_begin(void (*ask)(hf_timer *timer, int64_t now)) {
    struct hf_waiting *waiting = calloc(1, sizeof *waiting);
    if (waiting != NULL)
        waiting->ask = ask;
    return waiting;
}

/* Free the data. No queue is left: each has an op, and so a hold of the client, or a request under
 * way, which a close ends. */
void hf_waiting_end(struct hf_waiting *waiting) {
    if (waiting == NULL)
        return;
    hf_index_end(&waiting->queues);
    hf_index_end(&waiting->ids);
    for (hf_item *at; (at = hf_list_take_first(&waiting->spare)) != NULL;) {
        hf_event_free(HF_OF(hf_bell, item, at)->event);
        free(HF_OF(hf_bell, item, at));
    }
    free(waiting);
}

/* ------------------------------------------------------------------- Ids */

static uint64_t hash_of_id(const char *id) { return hf_hash(0, id, HF_ID_LENGTH); }

hf_op *hf_op_find_locked(const hf_client *client, const char *id) {
    HF_EACH_OF(at, &client->waiting->ids, hash_of_id(id))
    if (memcmp(OP(at)->hold->id, id, HF_ID_LENGTH) == 0)
        return OP(at);
    return NULL;
}

hf_op *hf_op_each_locked(const hf_client *client, const hf_op *op) {
    hf_entry *next = hf_index_after(&client->waiting->ids, op != NULL ? &op->by_id : NULL);
    return next != NULL ? OP(next) : NULL;
}

static void put_id(hf_op *op) {
    hf_index_add(&hf_op_client(op)->waiting->ids, &op->by_id, hash_of_id(op->hold->id));
}

static void take_id(hf_op *op) { hf_index_remove(&hf_op_client(op)->waiting->ids, &op->by_id); }

void hf_op_rename_locked(hf_op *op, const char *id) {
    if (op->queue != NULL)
        take_id(op);
    memcpy(op->hold->id, id, HF_ID_LENGTH + 1);
    if (op->queue != NULL)
        put_id(op);
}

/* ---------------------------------------------------------------- Queues */

hf_queue *hf_queue_find_locked(const hf_client *client, const hf_names *names) {
    HF_EACH_OF(at, &client->waiting->queues, names->hash)
    if (hf_names_equal(QUEUE(at)->names, names))
        return QUEUE(at);
    return NULL;
}

static hf_queue *make_queue(hf_client *client, hf_names *names) {
    hf_queue *queue = hf_queue_find_locked(client, names);
    if (queue != NULL || (queue = calloc(1, sizeof *queue)) == NULL)
        return queue;
    bool reserved = hf_timer_reserve(&client->timers);
    queue->channel = reserved ? hf_channel_get(&client->links, names) : NULL;
    if (queue->channel == NULL) {
        if (reserved)
            hf_timer_unreserve(&client->timers);
        free(queue);
        return NULL;
    }
    queue->client = client;
    queue->names = hf_names_keep(names);
    queue->timer.fire = client->waiting->ask;
    hf_list_add_first(&queue->channel->users, &queue->user);
    hf_index_add(&client->waiting->queues, &queue->by_name, names->hash);
    return queue;
}

void hf_queue_drop_locked(hf_queue *queue) {
    hf_client *client = queue->client;
    hf_index_remove(&client->waiting->queues, &queue->by_name);
    hf_list_remove(&queue->user);
    if (queue->channel->users.first == NULL)
        hf_channel_leave(&client->links, queue->channel);
    hf_timer_clear(&client->timers, &queue->timer);
    hf_timer_unreserve(&client->timers);
    hf_names_drop(queue->names);
    free(queue);
}

void hf_queue_ask_by_locked(hf_queue *queue, int64_t due) {
    if (queue->timer.place == 0 || due < queue->timer.due)
        hf_thread_timer_locked(queue->client, &queue->timer, due);
}

static void ask_all_again(hf_queue *queue) {
    HF_EACH(at, &queue->ops)
    HF_OP_AT(at)->epoch = 0;
    hf_thread_timer_locked(queue->client, &queue->timer, 0);
}

void hf_queue_recheck_locked(hf_client *client, const hf_names *names) {
    hf_queue *queue = hf_queue_find_locked(client, names);
    if (queue != NULL)
        ask_all_again(queue);
}

void hf_queue_recheck_all_locked(hf_client *client) {
    for (hf_entry *at = NULL; (at = hf_index_after(&client->waiting->queues, at)) != NULL;)
        ask_all_again(QUEUE(at));
}

/* ---------------------------------------------------------------- Places */

static void join_link(hf_op *op, hf_link *link) {
    op->link = link;
    if (op->started)
        link->others++;
    else
        hf_list_add_first(&link->threads, &op->seat);
}

static void leave_link(hf_op *op) {
    if (op->started) {
        op->link->others--;
    } else {
        hf_list_remove(&op->seat);
        hf_op_hand_over_locked(op);
    }
    op->link = NULL;
}

void hf_op_move_locked(hf_op *op, hf_link *link) {
    leave_link(op);
    join_link(op, link);
    hf_op_notify_locked(op); /* to read on the new link */
}

bool hf_op_equip_locked(hf_op *op) {
    if (op->started || op->bell != NULL)
        return true;
    hf_item *spare = hf_list_take_first(&hf_op_client(op)->waiting->spare);
    op->bell = spare != NULL ? HF_OF(hf_bell, item, spare) : calloc(1, sizeof *op->bell);
    if (op->bell != NULL && spare == NULL)
        op->bell->event = hf_event_new();
    if (op->bell != NULL && op->bell->event.fd >= 0)
        return true;
    free(op->bell);
    op->bell = NULL;
    return false;
}

void hf_op_waits_locked(hf_op *op) {
    op->hold->terms.counting.tally->stats.waiting += !op->waits;
    op->waits = true;
}

bool hf_op_enter_locked(hf_op *op) {
    hf_client *client = hf_op_client(op);
    hf_queue *queue = hf_op_equip_locked(op) ? make_queue(client, op->hold->names) : NULL;
    if (queue == NULL)
        return false;
    op->queue = queue;
    hf_list_add_last(&queue->ops, &op->place);
    put_id(op);
    op->owner = hf_hash(queue->names->hash, op->hold->owner, op->hold->owner_length) % OWNERS;
    client->waiting->owners[op->owner]++;
    hf_op_waits_locked(op);
    join_link(op, queue->channel->link);
    return true;
}

void hf_op_leave_locked(hf_op *op) {
    hf_client *client = hf_op_client(op);
    hf_queue *queue = op->queue;
    op->hold->terms.counting.tally->stats.waiting -= op->waits;
    op->waits = false;
    if (queue == NULL)
        return;
    take_id(op);
    hf_list_remove(&op->place);
    hf_timer_clear(&client->timers, &op->timer);
    client->waiting->owners[op->owner]--;
    leave_link(op);
    op->queue = NULL;
    if (queue->ops.first == NULL && !queue->asking)
        hf_queue_drop_locked(queue);
}

void hf_op_free_locked(hf_op *op) {
    hf_client *client = hf_op_client(op);
    if (op->started) {
        hf_timer_clear(&client->timers, &op->timer);
        hf_timer_unreserve(&client->timers);
        hf_news_free(op->news);
        free(op);
    } else if (op->bell != NULL) {
        if (op->rung)
            hf_event_clear(op->bell->event.fd); /* a late wake-up does no harm */
        hf_list_add_first(&client->waiting->spare, &op->bell->item);
        op->bell = NULL;
    }
}

hf_ask hf_op_ask(const hf_op *op) {
    hf_ask ask = hf_hold_ask(op->hold);
    if (op->queue == NULL)
        return ask; /* it has no place yet, or has lost it */
    ask.channel = op->queue->channel->name;
    ask.channel_length = op->queue->channel->length;
    ask.timeout_ms = op->timeout_ms;
    ask.score = op->score;
    return ask;
}

bool hf_op_has_twin_locked(const hf_op *op) {
    return op->queue != NULL && hf_op_client(op)->waiting->owners[op->owner] > 1;
}

/* ----------------------------------------------------------- Expectations */

void hf_waiting_handed_on_locked(const hf_client *client, const hf_names *names, int64_t began_at) {
    client->waiting->handed_on[names->hash % LOCKS] = began_at;
}

/* Return whether the lock had waiters a moment ago, so that an acquire will probably wait. */
static bool is_crowded(const hf_client *client, const hf_names *names) {
    int64_t handed_on = client->waiting->handed_on[names->hash % LOCKS];
    return handed_on > 0 && hf_now() < hf_after(handed_on, EXPECTED_MS);
}

bool hf_waiting_expected_locked(const hf_client *client, const hf_names *names) {
    return hf_queue_find_locked(client, names) != NULL || is_crowded(client, names);
}

static hf_way way_of(const hf_hold *hold, const hf_ask *ask) {
    bool shared = ask->mode == HF_MODE_SHARED;
    /* A vote's fence lies ahead of the server's clock, and `take` cannot give such a fence. */
    if ((shared ? ask->weight > 1 : ask->mode != HF_MODE_EXCLUSIVE) || ask->inside != NULL ||
        ask->score != 0 || hold->vote_floor != 0)
        return HF_BY_ACQUIRE;
    if (ask->channel != NULL && is_crowded(hold->client, hold->names))
        return shared || ask->ahead_ms > 0 ? HF_BY_ACQUIRE : HF_BY_WAIT;
    /* Only the general request sees another library's lock without an end. */
    if (ask->lease_ms == HF_NEVER || hold->terms.heal_ms > 0)
        return HF_BY_ACQUIRE;
    return shared ? HF_BY_SHARE : HF_BY_TAKE;
}

hf_way hf_waiting_way_locked(const hf_hold *hold, const hf_ask *ask) {
    hf_way way = way_of(hold, ask);
    int64_t in_vain = hold->client->waiting->in_vain[hold->names->hash % LOCKS];
    if ((way == HF_BY_WAIT || way == HF_BY_SHARE) && in_vain > 0 &&
        hf_now() < hf_after(in_vain, IN_VAIN_MS))
        return HF_BY_ACQUIRE;
    return way;
}

void hf_way_request(hf_request *request, hf_way way, const hf_hold *hold, const hf_ask *asks,
                    size_t count) {
    int64_t floor = hf_hold_floor_locked(hold);
    switch (way) {
    case HF_BY_TAKE:
        hf_request_take(request, hold->names, asks, floor);
        break;
    case HF_BY_SHARE:
        hf_request_share(request, hold->names, asks, floor);
        break;
    case HF_BY_WAIT:
        hf_request_wait(request, hold->names, asks);
        break;
    default:
        hf_request_acquire(request, hold->names, asks, count, floor);
    }
}

static hf_answer_kind read_reply(hf_way way, int64_t lease_ms, const redisReply *reply,
                                 hf_look *look, hf_standing *mine) {
    switch (way) {
    case HF_BY_TAKE:
        return hf_reply_take(reply, lease_ms, look, mine);
    case HF_BY_SHARE:
        return hf_reply_share(reply, lease_ms, look, mine);
    case HF_BY_WAIT:
        return hf_reply_wait(reply, look, mine);
    default:
        return hf_reply_acquire(reply, look, mine, 1) ? HF_ANSWER_GOOD : HF_ANSWER_NONSENSE;
    }
}

hf_answer_kind hf_way_reply(hf_way way, const hf_hold *hold, bool more, const redisReply *reply,
                            hf_look *look, hf_standing *mine) {
    hf_answer_kind kind = read_reply(way, hold->validity.lease_ms, reply, look, mine);
    if (kind == HF_ANSWER_LIMIT || (kind == HF_ANSWER_ASK && way == HF_BY_WAIT))
        hold->client->waiting->in_vain[hold->names->hash % LOCKS] = hf_now();
    if (kind != HF_ANSWER_HELD)
        return kind;
    if (more || hold->nests)
        return HF_ANSWER_ASK;
    *look = (hf_look){.ttl_ms = HF_CLAIM_MS}; /* the TTL is not known */
    *mine = (hf_standing){.state = HF_STANDS_BUSY};
    return HF_ANSWER_GOOD;
}
