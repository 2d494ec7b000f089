#include "lock/waiting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/simulated.h"
#include "lock/reading.h"
#include "lock/thread.h"
#include "lock/undo.h"
#include "protocol/errors.h"

/* Nobody waits longer than this without asking again: a lost message or a lock
 * that never expires would otherwise hang it. */
#define RECHECK_MS 3000
/* And not longer than its own lease, or this. */
#define RECHECK_MIN_MS 100
#define RECHECK_OPS 100

/* A grant waits for the answer that it overtook for two round trips and this. */
#define EARLY_MS 50
/* So much later than here at least a place must end to be given up for it. */
#define STEP_MS 1000
/* No grant is so old, in us: the server's clock has stepped. */
#define STEP_US INT64_C(1000000000000)
/* For how long others are expected to want a lock that was waited for. */
#define EXPECTED_MS 1000
/* For how long a `wait` that did nothing is not tried again: while ids may be dead none does. */
#define IN_VAIN_MS 200

#define IDS 1024
#define QUEUES 256
#define OWNERS 1024

struct hf_waiting {
    hf_queue *queues[QUEUES];
    hf_op *ids[IDS];
    unsigned owners[OWNERS];     /* how many wait, by a hash of lock and owner */
    hf_list spare;               /* ops with their descriptors, to be used again */
    int64_t handed_on[QUEUES];   /* when a hold was last waited for, by the lock's name */
    int64_t in_vain[QUEUES];     /* when a `wait` last did nothing, by the same */
    char reason[HF_MESSAGE_MAX]; /* of the last wait that failed */
};

#define QUEUE_AT(at) HF_OF(hf_queue, user, at)

/* ---------------------------------------------------------------- Tables */

static hf_op **by_id(const hf_client *client, const char *id) {
    return &client->waiting->ids[hf_hash(0, id, HF_ID_LENGTH) % IDS];
}

hf_op *hf_op_find_locked(const hf_client *client, const char *id) {
    hf_op *op = *by_id(client, id);
    while (op != NULL && memcmp(op->hold->id, id, HF_ID_LENGTH) != 0)
        op = op->same_id;
    return op;
}

static void put_id(hf_op *op) {
    hf_op **bucket = by_id(hf_op_client(op), op->hold->id);
    op->same_id = *bucket;
    *bucket = op;
}

static void take_id(hf_op *op) {
    hf_op **at = by_id(hf_op_client(op), op->hold->id);
    while (*at != op)
        at = &(*at)->same_id;
    *at = op->same_id;
}

static hf_queue **by_names(const hf_client *client, const hf_names *names) {
    return &client->waiting->queues[names->hash % QUEUES];
}

static hf_queue *find_queue(const hf_client *client, const hf_names *names) {
    hf_queue *queue = *by_names(client, names);
    while (queue != NULL && !hf_names_equal(queue->names, names))
        queue = queue->next;
    return queue;
}

static void queue_due(hf_timer *timer, int64_t now);

static hf_queue *make_queue(hf_client *client, hf_names *names) {
    hf_queue **bucket = by_names(client, names), *queue = find_queue(client, names);
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
    queue->timer.fire = queue_due;
    hf_list_add_first(&queue->channel->users, &queue->user);
    queue->next = *bucket;
    *bucket = queue;
    return queue;
}

static void drop_queue(hf_queue *queue) {
    hf_client *client = queue->client;
    hf_queue **at = by_names(client, queue->names);
    while (*at != queue)
        at = &(*at)->next;
    *at = queue->next;
    hf_list_remove(&queue->user);
    if (queue->channel->users.first == NULL)
        hf_channel_leave(&client->links, queue->channel);
    hf_timer_clear(&client->timers, &queue->timer);
    hf_timer_unreserve(&client->timers);
    hf_names_drop(queue->names);
    free(queue);
}

struct hf_waiting *hf_waiting_begin(hf_client *client) {
    (void)client;
    return calloc(1, sizeof(struct hf_waiting));
}

void hf_waiting_end(hf_client *client) {
    struct hf_waiting *waiting = client->waiting;
    if (waiting == NULL)
        return;
    for (size_t i = 0; i < QUEUES; i++)
        while (waiting->queues[i] != NULL)
            drop_queue(waiting->queues[i]);
    for (hf_item *at; (at = hf_list_take_first(&waiting->spare)) != NULL;) {
        hf_event_free(HF_SEATED(at)->event);
        free(HF_SEATED(at));
    }
    free(waiting);
}

/* ------------------------------------------------------------------- Ops */

static hf_op *new_started(hf_client *client) {
    hf_op *op = calloc(1, sizeof *op);
    hf_news *news = op != NULL ? hf_news_new(&(hf_completion){0}) : NULL;
    if (news == NULL || !hf_timer_reserve(&client->timers)) {
        free(news);
        free(op);
        return NULL;
    }
    op->event = HF_NO_EVENT;
    op->news = news;
    return op;
}

static hf_op *new_waiter(hf_client *client) {
    hf_item *spare = hf_list_take_first(&client->waiting->spare);
    hf_op *op = spare != NULL ? HF_SEATED(spare) : malloc(sizeof *op);
    if (op == NULL)
        return NULL;
    hf_event event = spare != NULL ? op->event : hf_event_new();
    if (event.fd < 0) {
        free(op);
        return NULL;
    }
    memset(op, 0, sizeof *op);
    op->event = event;
    return op;
}

hf_op *hf_op_new_locked(hf_client *client, hf_hold *hold, int64_t timeout_ms, int64_t until,
                        void (*ended)(hf_op *op, hf_status status)) {
    hf_op *op = ended != NULL ? new_started(client) : new_waiter(client);
    if (op == NULL) {
        hf_fail(HF_ENOMEM, "no memory or file descriptor to wait with");
        return NULL;
    }
    op->hold = hold;
    op->ended = ended;
    op->timeout_ms = timeout_ms;
    op->until = until;
    op->since = hf_now();
    return op;
}

void hf_op_free_locked(hf_op *op) {
    hf_client *client = hf_op_client(op);
    if (op->ended != NULL) {
        hf_timer_clear(&client->timers, &op->timer);
        hf_timer_unreserve(&client->timers);
        hf_news_free_locked(op->news);
        free(op);
        return;
    }
    if (op->told)
        hf_event_clear(op->event.fd); /* a wake-up that comes later does no harm */
    hf_list_add_first(&client->waiting->spare, &op->seat);
}

hf_ask hf_op_ask(const hf_op *op) {
    hf_ask ask = hf_hold_ask(op->hold);
    if (op->queue == NULL)
        return ask; /* it was granted: its place is gone */
    ask.channel = op->queue->channel->name;
    ask.channel_length = op->queue->channel->length;
    ask.timeout_ms = op->timeout_ms;
    ask.score = op->score;
    return ask;
}

/* It is in no table by its id. A closed client's are given up by the close. */
static void give_up_id(hf_op *op) {
    hf_ask ask = hf_op_ask(op);
    if (hf_op_client(op)->swept)
        return;
    op->hold->bury = op->hold->bury || op->asking > 0;
    hf_undo_acquire_locked(op->hold, &ask);
}

void hf_op_left_locked(hf_op *op) {
    hf_hold *hold = op->hold;
    if (hold->bury || op->asking > 0)
        hf_undo_remember_locked(hold->client, hold->names, hold->id);
    hold->bury = false;
    op->asking = 0;
    op->score = 0;
}

static void join_link(hf_op *op, hf_link *link) {
    op->link = link;
    if (op->ended != NULL)
        link->others++;
    else
        hf_list_add_first(&link->threads, &op->seat);
}

static size_t owner_bucket(const hf_hold *hold) {
    return hf_hash(hold->names->hash, hold->owner, hold->owner_length) % OWNERS;
}

bool hf_op_enter_locked(hf_op *op) {
    hf_client *client = hf_op_client(op);
    op->queue = make_queue(client, op->hold->names);
    if (op->queue == NULL)
        return false;
    hf_list_add_last(&op->queue->ops, &op->place);
    put_id(op);
    op->owner = owner_bucket(op->hold);
    client->waiting->owners[op->owner]++;
    op->hold->counting.tally->stats.waiting++;
    join_link(op, op->queue->channel->link);
    return true;
}

/* It waits no more, or not there. */
static void leave_link(hf_op *op, const hf_queue *queue) {
    if (op->ended != NULL) {
        op->link->others--;
    } else {
        hf_list_remove(&op->seat);
        hf_op_hand_over_locked(op, queue);
    }
    op->link = NULL;
}

void hf_op_leave_locked(hf_op *op) {
    hf_client *client = hf_op_client(op);
    hf_queue *queue = op->queue;
    if (queue == NULL)
        return;
    take_id(op);
    if (op->hold->state != HF_STATE_HELD)
        give_up_id(op);
    op->queue = NULL;
    op->hold->counting.tally->stats.waiting--;
    hf_list_remove(&op->place);
    hf_timer_clear(&client->timers, &op->timer);
    client->waiting->owners[op->owner]--;
    leave_link(op, queue);
    if (queue->ops.first == NULL && !queue->asking)
        drop_queue(queue);
}

/* ------------------------------------------------------------ How ops end */

void hf_op_finish_locked(hf_op *op, hf_status status) {
    hf_op_leave_locked(op);
    op->done = true;
    op->status = status;
    if (op->ended != NULL)
        op->ended(op, status);
    else
        hf_op_notify_locked(op);
}

hf_status hf_op_renew_id_locked(hf_op *op) {
    char id[HF_ID_LENGTH + 1];
    hf_status status = hf_client_new_id_locked(hf_op_client(op), id);
    if (status != HF_OK)
        return status;
    if (op->queue != NULL)
        take_id(op);
    give_up_id(op);
    memcpy(op->hold->id, id, sizeof id);
    if (op->queue != NULL)
        put_id(op);
    op->hold->fence = op->early.fence = 0;
    op->epoch = 0;
    op->asking = 0;
    return HF_OK;
}

/* Others of this owner may nest in what it holds now: they find out when they ask. */
static void tell_nesting(const hf_op *op) {
    const hf_hold *hold = op->hold;
    if (hf_op_client(op)->waiting->owners[op->owner] < 2)
        return;
    HF_EACH(at, &op->queue->ops) {
        hf_op *other = HF_OP_AT(at);
        if (other == op || !other->hold->reentrant ||
            other->hold->owner_length != hold->owner_length ||
            memcmp(other->hold->owner, hold->owner, hold->owner_length) != 0)
            continue;
        other->epoch = 0;
        hf_op_ask_soon_locked(other);
    }
}

bool hf_op_take_locked(hf_op *op, int64_t fence, int64_t began_at, int64_t deadline, bool pushed) {
    hf_hold *hold = op->hold;
    hold->stray = true;
    if (hf_now() >= deadline || !hf_table_believes_locked(hold, fence))
        return false;
    hf_hold_begin(hold, fence, began_at, deadline);
    hold->pushed = pushed;
    hold->waited = op->score > 0 || pushed; /* a message may be faster than the answer */
    hf_op_client(op)->waiting->handed_on[hold->names->hash % QUEUES] = hold->waited ? began_at : 0;
    /* A thread that asks itself has its answer before it returns, and knows then. */
    hold->bury = hold->bury || op->asking > op->joining;
    tell_nesting(op);
    hf_op_finish_locked(op, HF_OK);
    return true;
}

/* It is granted. If it is told too late, and over already, it goes back to its place under
 * a new id. */
static void deliver(hf_op *op, int64_t fence, int64_t began_at, int64_t deadline, bool pushed) {
    if (op->canceled) /* its release is under way */
        return;
    if (hf_op_take_locked(op, fence, began_at, deadline, pushed))
        return;
    op->epoch = 0;
    if (op->busy) /* the answer that it waits for tells what is left */
        return;
    if (op->tries) {
        hf_op_finish_locked(op, HF_EBUSY);
        return;
    }
    hf_op_renew_id_locked(op);
    hf_queue_recheck_locked(hf_op_client(op), op->hold->names);
    hf_op_notify_locked(op);
}

/* A message may overtake the answer to an enqueue. Taken at once, its hold would have a copy under
 * way, and its release would bury the id, which slows the lock down for ten minutes. */
static bool comes_early(const hf_op *op) {
    return op->asking > op->joining && !op->hold->bury && !op->canceled;
}

static void deliver_early(hf_op *op) {
    int64_t fence = op->early.fence;
    op->early.fence = 0;
    deliver(op, fence, op->early.began_at, op->early.deadline, true);
}

/* For the thread that waits: why nothing comes of it. */
static void keep_reason(hf_client *client) {
    snprintf(client->waiting->reason, sizeof client->waiting->reason, "%s", hf_error_message());
}

/* ----------------------------------------------------------- Asking again */

/* When to look after a lock next: its holder's TTL, spread by rank, within bounds.
 * The bound is a lease like its own, if that is short: the holder of a grant that was
 * made since, and died, has mostly asked for the same. */
static int64_t pause_after(const hf_op *op, int64_t ttl_ms, const hf_standing *mine) {
    int64_t lease_ms = op->hold->validity.lease_ms;
    if (ttl_ms == HF_TTL_MORE || HF_UNUSUAL("asks again at once"))
        return 0;
    if (mine->state == HF_STANDS_BUSY || (mine->state == HF_STANDS_FOREIGN && mine->rank == 0) ||
        !hf_channel_works(op->queue->channel)) {
        /* No grant will come: poll. */
        int64_t ms = hf_jitter(8, 24);
        return ttl_ms >= 0 && ttl_ms < ms ? ttl_ms + 1 : ms;
    }
    int64_t longest = lease_ms == HF_NEVER || lease_ms > RECHECK_MS ? RECHECK_MS
                      : lease_ms < RECHECK_MIN_MS                   ? RECHECK_MIN_MS
                                                                    : lease_ms;
    int64_t ms = ttl_ms < 0 || ttl_ms > longest ? longest : ttl_ms + 1;
    ms += hf_jitter(0, 2 * (mine->rank < 200 ? mine->rank : 200) + 2);
    return ms < longest ? ms : longest - hf_jitter(0, longest / 8);
}

int64_t hf_standing_deadline(const hf_hold *hold, const hf_standing *mine, int64_t sent_at) {
    return hf_validity_deadline(&hold->validity, sent_at, mine->remaining_ms);
}

/* The queue asks by then: each of its ops may know best when the lock is free. */
static void ask_by(hf_queue *queue, int64_t due) {
    if (queue->timer.place == 0 || due < queue->timer.due)
        hf_thread_timer_locked(queue->client, &queue->timer, due);
}

/* It is in the queue, or where nothing queues: ask again when it is time. */
static void wait_on(hf_op *op, const hf_look *look, const hf_standing *mine) {
    bool again = op->epoch != op->queue->channel->epoch;
    ask_by(op->queue, again ? 0 : hf_after(hf_now(), pause_after(op, look->ttl_ms, mine)));
}

/* Its place is of no use. A thread that waits goes and asks for itself, or polls. */
static void leave_place(hf_op *op) {
    if (hf_op_renew_id_locked(op) != HF_OK)
        return;
    op->score = 0;
    hf_op_notify_locked(op);
}

/* Its place is over by the server's clock, which has stepped forward, and not here: each release
 * would skip it. */
static bool is_outlived(const hf_op *op, const hf_look *look) {
    return op->timeout_ms > 0 && !op->busy && !op->canceled && op->score > 0 &&
           (look->server_us - op->score) / 1000 > op->timeout_ms &&
           op->until > hf_after(hf_now(), STEP_MS);
}

/* It was in the queue, and nobody told it: the lock's end passed by itself; or its place was lost,
 * or the message of a result, and with it perhaps others'. Once for all that asked together. */
static void others_ask(const hf_op *op) {
    if (op->score > 0 && op->epoch == op->queue->channel->epoch)
        hf_queue_recheck_locked(hf_op_client(op), op->hold->names);
}

void hf_op_answer_locked(hf_op *op, hf_link *from, const hf_look *look, const hf_standing *mine,
                         int64_t sent_at) {
    hf_client *client = hf_op_client(op);
    hf_hold *hold = op->hold;
    bool busy = mine->state == HF_STANDS_BUSY || mine->state == HF_STANDS_FOREIGN;
    op->answered = true;
    if (from != NULL && look->server_us > 0)
        hf_link_pair(from, sent_at, look->server_us);
    /* What took its place away took others', too. */
    if (mine->was_out && hf_channel_works(op->queue->channel)) { /* or all ask when it does */
        HF_MARK("H2");
        hf_queue_recheck_locked(client, hold->names);
    }
    if (busy && look->ttl_ms == HF_TTL_NONE && hold->heal_ms > 0)
        hf_heal_locked(client, hold);
    switch (mine->state) {
    case HF_STANDS_HELD:
        others_ask(op);
        /* Less than was asked for: a grant whose message is not here yet. */
        deliver(op, mine->fence, sent_at, hf_standing_deadline(hold, mine, sent_at),
                mine->remaining_ms != hold->validity.lease_ms);
        return;
    case HF_STANDS_DEAD:
        hold->bury = false;
        if (op->tries)
            hf_op_finish_locked(op, HF_EBUSY);
        else if (!op->canceled && !op->busy && hf_op_renew_id_locked(op) == HF_OK)
            hf_queue_recheck_locked(client, hold->names);
        return;
    case HF_STANDS_RESULT:
        others_ask(op);
        if (hf_hold_take_result(hold, mine)) {
            HF_MARK("H28");
            hf_op_finish_locked(op, HF_EDONE);
            return;
        }
        hf_fail(HF_ENOMEM, "no memory");
        keep_reason(client);
        hf_op_finish_locked(op, HF_ENOMEM);
        return;
    case HF_STANDS_REFUSED:
        hf_hold_refuse(hold);
        keep_reason(client);
        hf_op_finish_locked(op, HF_EDEADLOCK);
        return;
    case HF_STANDS_BUSY:
        if (op->tries) {
            hf_op_finish_locked(op, HF_EBUSY);
            return;
        }
        break;
    default:
        op->score = mine->score;
    }
    if (is_outlived(op, look)) {
        HF_MARK("C16");
        leave_place(op);
    }
    wait_on(op, look, mine); /* at once, if it left its place */
}

/* Grants could come in, and do not just now. */
static bool is_deaf(const hf_channel *channel) {
    return channel->link->mode != HF_POLLING && !hf_channel_works(channel);
}

/* May the queue ask for it? A thread's own first request is the thread's to send, if it can. */
static bool may_ask(const hf_op *op) {
    return !op->canceled && !op->busy && !op->tries &&
           (op->ended != NULL || op->score > 0 || is_deaf(op->queue->channel));
}

/* Must it ask anew? */
static bool is_stale(const hf_op *op) {
    return op->epoch != op->queue->channel->epoch && may_ask(op);
}

typedef struct recheck_task {
    hf_task task;
    hf_client *client;
    hf_names *names;
    bool aside; /* not the queue's own question */
    bool wait;  /* they are to have a place in the queue */
    hf_way way;
    size_t count;
    char ids[][HF_ID_LENGTH + 1];
} recheck_task;

static void drop_recheck(hf_task *task) { hf_names_drop(HF_OF(recheck_task, task, task)->names); }

/* The server did not answer it: it asks again; or its caller learns why it cannot. */
static void recheck_failed(hf_op *op, hf_status status, bool refused) {
    bool never = op->score == 0 && op->ended != NULL; /* it never got a place */
    if (op->canceled || !(never || (refused && !op->busy))) {
        op->epoch = 0;
        return;
    }
    op->hold->stray = op->hold->stray || status == HF_EPROTOCOL;
    hf_fail(status, "%s", hf_op_client(op)->waiting->reason);
    hf_op_finish_locked(op, status);
}

/* When the queue asks next, if nothing of what it heard has said so. */
static void plan_queue(hf_queue *queue, hf_status status) {
    HF_EACH(at, &queue->ops)
    if (is_stale(HF_OP_AT(at))) {
        int64_t ms = status == HF_OK ? 0 : hf_jitter(100, 200);
        hf_thread_timer_locked(queue->client, &queue->timer, hf_after(hf_now(), ms));
        return;
    }
    if (queue->timer.place != 0)
        return;
    /* The one that asked is done; where no grants come, the next asks soon. */
    int64_t ms = hf_channel_works(queue->channel) ? RECHECK_MS : hf_jitter(8, 24);
    hf_thread_timer_locked(queue->client, &queue->timer, hf_after(hf_now(), ms));
}

/* The op's part in the question. */
static hf_ask ask_of(hf_op *op, bool wait) {
    hf_ask ask = hf_op_ask(op);
    if (!wait)
        ask.channel = NULL;
    op->hold->floor = hf_table_floor_locked(hf_op_client(op), op->hold->names);
    return ask;
}

static hf_answer_kind read_standings(const recheck_task *mine, const redisReply *reply,
                                     hf_look *look, hf_standing *standings) {
    const hf_op *op = hf_op_find_locked(mine->client, mine->ids[0]);
    if (mine->way != HF_BY_ACQUIRE)
        return op != NULL ? hf_way_reply(mine->way, op->hold, mine->wait || op->hold->bury, reply,
                                         look, standings)
                          : HF_ANSWER_ASK; /* it is over */
    return hf_reply_acquire(reply, look, standings, mine->count) ? HF_ANSWER_GOOD
                                                                 : HF_ANSWER_NONSENSE;
}

/* The cheap question did nothing: ask the general one. False: there is none to ask for. */
static bool ask_in_general(recheck_task *mine) {
    hf_op *op = hf_op_find_locked(mine->client, mine->ids[0]);
    if (op == NULL || op->canceled || op->queue == NULL)
        return false;
    hf_ask ask = ask_of(op, mine->wait);
    hf_request_free(&mine->task.request);
    mine->way = HF_BY_ACQUIRE;
    hf_way_request(&mine->task.request, mine->way, op->hold, &ask);
    mine->task.again = true;
    return true;
}

/* A copy has no answer: it may still arrive, and the answer may have told of places that are
 * gone. */
static void doubt(const recheck_task *mine) {
    HF_MARK("H25");
    for (size_t i = 0; i < mine->count; i++) {
        hf_op *op = hf_op_find_locked(mine->client, mine->ids[i]);
        if (op != NULL)
            op->hold->bury = true;
    }
    hf_queue_recheck_locked(mine->client, mine->names);
}

/* Sent after its end it could be granted a lock for nobody, if the server has lost the dead id. */
static bool recheck_over(const hf_task *task) {
    const recheck_task *mine = HF_OF(const recheck_task, task, task);
    for (size_t i = 0; i < mine->count; i++)
        if (hf_op_find_locked(mine->client, mine->ids[i]) != NULL)
            return false;
    return true;
}

static void rechecked(hf_task *task, hf_status status, const redisReply *reply) {
    recheck_task *mine = HF_OF(recheck_task, task, task);
    hf_client *client = mine->client;
    hf_standing standings[RECHECK_OPS];
    hf_look look;
    hf_answer_kind kind = HF_ANSWER_NONSENSE;
    if (task->course.doubtful)
        doubt(mine);
    if (status == HF_OK)
        kind = read_standings(mine, reply, &look, standings);
    if (kind == HF_ANSWER_ASK && mine->way == HF_BY_WAIT)
        hf_waiting_in_vain_locked(client, mine->names);
    if (kind == HF_ANSWER_ASK && ask_in_general(mine))
        return;
    if (status == HF_OK && kind == HF_ANSWER_NONSENSE)
        status = hf_unexpected("acquire");
    hf_queue *queue = find_queue(client, mine->names);
    if (queue != NULL && !mine->aside)
        queue->asking = false;
    bool refused = status == HF_ESERVER && hf_error_permission(hf_error_message());
    if (status != HF_OK && status != HF_ECANCELED)
        keep_reason(client);
    for (size_t i = 0; i < mine->count; i++) {
        hf_op *op = hf_op_find_locked(client, mine->ids[i]);
        if (op == NULL) {
            if (kind == HF_ANSWER_GOOD && standings[i].state == HF_STANDS_HELD)
                hf_undo_grant_locked(client, mine->ids[i], standings[i].fence);
            continue;
        }
        op->asking--;
        if (kind == HF_ANSWER_ASK)
            continue; /* it is being cancelled */
        if (status == HF_OK)
            hf_op_answer_locked(op, task->link, &look, &standings[i], task->sent_at);
        else if (op->early.fence == 0)
            recheck_failed(op, status, refused);
        op = hf_op_find_locked(client, mine->ids[i]);
        if (op != NULL && op->early.fence != 0 && (status != HF_OK || !comes_early(op)))
            deliver_early(op);
    }
    queue = find_queue(client, mine->names);
    if (queue != NULL && queue->ops.first == NULL)
        drop_queue(queue);
    else if (queue != NULL)
        plan_queue(queue, status);
}

/* What has no place yet is asked for until its time is up; the others ask again soon. */
static int64_t give_up_at(const hf_client *client, hf_op *const *ops, size_t count) {
    int64_t patience_ms = hf_transport_patience_ms(client->transport), now = hf_now();
    int64_t latest = hf_after(now, patience_ms + (ops[0]->score > 0 ? RECHECK_MS : 0));
    for (size_t i = 0; i < count; i++) {
        int64_t until = ops[i]->until == HF_NO_DEADLINE ? now : ops[i]->until;
        if (ops[i]->score == 0 && hf_after(until, patience_ms) > latest)
            latest = hf_after(until, patience_ms);
    }
    return latest;
}

/* Was it waited for a moment ago, so that whoever asks for it now will wait, too? */
static bool is_crowded(const hf_client *client, const hf_names *names) {
    int64_t handed_on = client->waiting->handed_on[names->hash % QUEUES];
    return handed_on > 0 && hf_now() < hf_after(handed_on, EXPECTED_MS);
}

hf_way hf_waiting_way_locked(const hf_hold *hold, const hf_ask *ask) {
    hf_way way = hf_way_of(hold, ask, is_crowded(hold->client, hold->names));
    int64_t in_vain = hold->client->waiting->in_vain[hold->names->hash % QUEUES];
    if (way == HF_BY_WAIT && in_vain > 0 && hf_now() < hf_after(in_vain, IN_VAIN_MS))
        return HF_BY_ACQUIRE;
    return way;
}

void hf_waiting_in_vain_locked(const hf_client *client, const hf_names *names) {
    client->waiting->in_vain[names->hash % QUEUES] = hf_now();
}

/* False: no memory. */
static bool recheck(hf_queue *queue, hf_op *const *ops, size_t count, bool wait, bool aside) {
    hf_client *client = queue->client;
    recheck_task *mine;
    hf_ask asks[RECHECK_OPS];
    hf_task *task = hf_task_new(sizeof *mine + count * sizeof *mine->ids, rechecked, drop_recheck);
    if (task == NULL)
        return false;
    mine = HF_OF(recheck_task, task, task);
    task->explains = true;
    task->over = recheck_over;
    mine->client = client;
    mine->names = hf_names_keep(queue->names);
    mine->aside = aside;
    mine->wait = wait;
    mine->count = count;
    for (size_t i = 0; i < count; i++) {
        memcpy(mine->ids[i], ops[i]->hold->id, sizeof *mine->ids);
        asks[i] = ask_of(ops[i], wait);
        if (!aside) /* a try asks for no place, and keeps its turn to ask for one */
            ops[i]->epoch = queue->channel->epoch;
        ops[i]->asking++;
    }
    mine->way = count == 1 ? hf_waiting_way_locked(ops[0]->hold, asks) : HF_BY_ACQUIRE;
    if (count == 1)
        hf_way_request(&task->request, mine->way, ops[0]->hold, asks);
    else
        hf_request_acquire(&task->request, queue->names, asks, count, ops[0]->hold->floor);
    hf_task_submit(&client->links, task, give_up_at(client, ops, count));
    return true;
}

bool hf_op_try_locked(hf_op *op, bool only) {
    op->tries = only;
    return recheck(op->queue, &op, 1, false, true);
}

/* Those that have not asked under this subscription, a hundred at a time; if all have, the
 * oldest, which stands for the rest. */
static size_t choose_askers(const hf_queue *queue, hf_op **ops) {
    size_t count = 0;
    HF_EACH(at, &queue->ops)
    if (count < RECHECK_OPS && is_stale(HF_OP_AT(at)))
        ops[count++] = HF_OP_AT(at);
    if (count > 0)
        return count;
    HF_EACH(at, &queue->ops) {
        if (!may_ask(HF_OP_AT(at)))
            continue;
        HF_MARK("H1");
        ops[0] = HF_OP_AT(at);
        return 1;
    }
    return 0;
}

/* Grants that have waited long enough for an answer: its connection may be dead. False: the queue
 * is gone, because nobody waits any more. */
static bool deliver_overdue(hf_queue *queue, int64_t now) {
    bool asking = queue->asking;
    queue->asking = true; /* so that it stays until the end of this */
    HF_EACH(at, &queue->ops) {
        hf_op *op = HF_OP_AT(at);
        if (op->early.fence == 0)
            continue;
        if (now >= op->early.until && op->early.late) {
            deliver_early(op);
            continue;
        }
        if (now >= op->early.until) { /* the answer may just be here: read it first */
            op->early.late = true;
            op->early.until = hf_after(now, 1);
        }
        ask_by(queue, op->early.until);
    }
    queue->asking = asking;
    if (queue->ops.first != NULL || asking)
        return true;
    drop_queue(queue);
    return false;
}

static void queue_due(hf_timer *timer, int64_t now) {
    hf_queue *queue = HF_OF(hf_queue, timer, timer);
    hf_op *ops[RECHECK_OPS];
    if (!deliver_overdue(queue, now))
        return;
    bool polling = queue->channel->link->mode == HF_POLLING, deaf = is_deaf(queue->channel);
    if (queue->asking)
        return;
    if (deaf && now < hf_channel_patience(queue->channel)) { /* it is looked at when that works */
        ask_by(queue, hf_channel_patience(queue->channel));
        return;
    }
    if (deaf)
        HF_MARK("H43");
    HF_EACH(at, &queue->ops) /* where none comes, each would be skipped */
    if (polling && HF_OP_AT(at)->score > 0 && may_ask(HF_OP_AT(at)))
        leave_place(HF_OP_AT(at));
    size_t count = choose_askers(queue, ops);
    if (count == 0)
        return;
    queue->asking = recheck(queue, ops, count, !polling, false);
    if (!queue->asking)
        hf_thread_timer_locked(queue->client, timer, hf_after(now, RECHECK_MS));
}

void hf_op_want_grants_locked(hf_op *op) {
    hf_channel *channel = op->queue->channel;
    hf_channel_want(&hf_op_client(op)->links, channel);
    if (is_deaf(channel))
        ask_by(op->queue, hf_channel_patience(channel));
}

unsigned hf_op_epoch(const hf_op *op) { return op->queue->channel->epoch; }

bool hf_waiting_expected_locked(const hf_client *client, const hf_names *names) {
    return find_queue(client, names) != NULL || is_crowded(client, names);
}

bool hf_op_is_alone(const hf_op *op) { return op->queue->ops.count == 1; }

void hf_op_ask_soon_locked(hf_op *op) {
    hf_thread_timer_locked(hf_op_client(op), &op->queue->timer, 0);
}

void hf_queue_recheck_locked(hf_client *client, const hf_names *names) {
    hf_queue *queue = find_queue(client, names);
    if (queue == NULL)
        return;
    HF_EACH(at, &queue->ops)
    HF_OP_AT(at)->epoch = 0;
    hf_thread_timer_locked(client, &queue->timer, 0);
}

const char *hf_waiting_reason_locked(const hf_client *client) { return client->waiting->reason; }

/* --------------------------------------------------- What the links tell */

static void wake(hf_links *links) { hf_thread_wake_locked(HF_OF(hf_client, links, links)); }

static void granted(hf_links *links, hf_link *link, const hf_grant *grant) {
    hf_op *op = hf_op_find_locked(HF_OF(hf_client, links, links), grant->id);
    if (op == NULL) {
        hf_undo_grant_locked(HF_OF(hf_client, links, links), grant->id, grant->fence);
        return;
    }
    int64_t start = hf_now(), gap_us = grant->server_us - link->pair_server;
    bool stepped = gap_us > STEP_US || gap_us < -STEP_US;
    if (link->pair_sent == 0 || stepped) {
        /* Nothing to tell its age by: ask. */
        op->epoch = 0;
        hf_op_ask_soon_locked(op);
        return;
    }
    /* Not requested just now, and perhaps long in a buffer: it began at the
     * receipt or, by the server's own clock since some request of ours was
     * sent, before; whichever is earlier. */
    if (link->pair_sent + gap_us * 1000 < start) {
        HF_MARK("C4");
        start = link->pair_sent + gap_us * 1000;
    }
    int64_t drift = gap_us < 0 ? -gap_us : gap_us; /* 1/1000 of it, in ns */
    int64_t ms = hf_granted_ms(op->hold->validity.lease_ms);
    op->early.fence = grant->fence;
    op->early.began_at = start;
    op->early.deadline = hf_deadline(start, ms) - drift;
    op->early.late = false;
    if (op->score == 0)
        HF_MARK("H4");
    if (!comes_early(op)) {
        deliver_early(op);
        return;
    }
    HF_MARK("H36");
    int64_t now = hf_now(), left_ms = hf_until(op->early.deadline, now) / 2;
    ms = 2 * link->trip_ms + EARLY_MS;
    op->early.until = hf_after(now, ms < left_ms ? ms : left_ms);
    ask_by(op->queue, op->early.until);
}

/* All of this client that waited for it have left the queue with that one: they ask for it. */
static void finished(hf_links *links, const char *id) {
    hf_client *client = HF_OF(hf_client, links, links);
    const hf_op *op = hf_op_find_locked(client, id);
    if (op != NULL) {
        hf_queue_recheck_locked(client, op->hold->names);
        return;
    }
    /* It waits no more, and which lock that was is not known. */
    for (size_t i = 0; i < QUEUES; i++)
        for (const hf_queue *queue = client->waiting->queues[i]; queue != NULL; queue = queue->next)
            hf_queue_recheck_locked(client, queue->names);
}

static void changed(hf_links *links, hf_channel *channel) {
    hf_client *client = HF_OF(hf_client, links, links);
    HF_EACH(at, &channel->users) {
        hf_thread_timer_locked(client, &QUEUE_AT(at)->timer, 0);
        HF_EACH(op, &QUEUE_AT(at)->ops)
        hf_op_notify_locked(HF_OP_AT(op));
    }
}

/* What has no place in the queue yet does not wait for a server for ever. */
static void silent(hf_links *links, hf_channel *channel, int64_t now, bool hopeless) {
    hf_client *client = HF_OF(hf_client, links, links);
    int64_t patience_ms = hf_transport_patience_ms(links->transport);
    HF_EACH(at, &channel->users)
    HF_EACH(place, &QUEUE_AT(at)->ops) {
        hf_op *op = HF_OP_AT(place);
        bool patient = op->until != HF_NO_DEADLINE || now < hf_after(op->since, patience_ms);
        if (op->score > 0 || op->asking > 0 || (patient && !hopeless))
            continue;
        hf_status status = hf_link_explain(links, op->link);
        keep_reason(client);
        hf_op_finish_locked(op, status);
    }
}

static void deaf(hf_links *links, hf_link *link) {
    (void)links;
    HF_EACH(at, &link->threads)
    hf_op_notify_locked(HF_SEATED(at));
}

static void moved(hf_links *links, hf_channel *channel, hf_link *from) {
    HF_EACH(at, &channel->users) {
        hf_thread_timer_locked(HF_OF(hf_client, links, links), &QUEUE_AT(at)->timer, 0);
        HF_EACH(place, &QUEUE_AT(at)->ops) {
            hf_op *op = HF_OP_AT(place);
            if (op->link != from)
                continue;
            leave_link(op, NULL);
            join_link(op, channel->link);
            hf_op_notify_locked(op); /* to read there, or to poll */
        }
    }
}

const hf_listener hf_waiting_listener = {.wake = wake,
                                         .granted = granted,
                                         .finished = finished,
                                         .changed = changed,
                                         .silent = silent,
                                         .deaf = deaf,
                                         .moved = moved};

void hf_waiting_notify_locked(hf_client *client) {
    HF_EACH(at, &client->links.all)
    deaf(&client->links, HF_OF(hf_link, item, at));
}

void hf_waiting_close_locked(hf_client *client, hf_list *tasks) {
    for (size_t i = 0; i < IDS; i++)
        for (hf_op *op = client->waiting->ids[i], *next; op != NULL; op = next) {
            next = op->same_id;
            hf_ask ask = hf_op_ask(op);
            /* Without memory the place is skipped, because nobody listens. */
            hf_task *task = hf_task_new(sizeof *task, NULL, NULL);
            if (task != NULL) {
                hf_request_release(&task->request, op->hold->names, &ask, op->hold->fence, true);
                hf_list_add_last(tasks, &task->item);
            }
            if (op->ended != NULL)
                hf_op_finish_locked(op, HF_ECANCELED);
        }
}
