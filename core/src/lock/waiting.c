/* Those who wait: their places, the grants that come in, and when to ask again. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lock/client.h"

/* Nobody waits longer than this without asking again: a lost message or a lock
 * that never expires would else hang it. */
#define RECHECK_MS 3000
/* And not longer than its own lease, or this. */
#define RECHECK_MIN_MS 100
#define RECHECK_OPS 100
/* How soon a signal is noticed that came just before a wait began to sleep. */
#define SIGNAL_MS 50

#define LIST_OF(t) ((hf_list *)((char *)(t)-offsetof(hf_list, timer)))
#define OP_OF(t) ((hf_op *)((char *)(t)-offsetof(hf_op, timer)))

/* ---------------------------------------------------------------- Tables */

static hf_op **by_id(hf_keeper *keeper, const char *id) {
    size_t count = sizeof keeper->ids / sizeof *keeper->ids;
    return &keeper->ids[hf_hash(0, id, HF_ID_LENGTH) % count];
}

hf_op *hf_op_find(hf_client *client, const char *id) {
    hf_op *op = *by_id(&client->keeper, id);
    while (op != NULL && memcmp(op->hold->id, id, HF_ID_LENGTH) != 0)
        op = op->same_id;
    return op;
}

static void put_id(hf_client *client, hf_op *op) {
    hf_op **bucket = by_id(&client->keeper, op->hold->id);
    op->same_id = *bucket;
    *bucket = op;
}

static void take_id(hf_client *client, hf_op *op) {
    hf_op **at = by_id(&client->keeper, op->hold->id);
    while (*at != op)
        at = &(*at)->same_id;
    *at = op->same_id;
}

static hf_list **by_names(hf_keeper *keeper, const hf_names *names) {
    return &keeper->lists[names->hash % (sizeof keeper->lists / sizeof *keeper->lists)];
}

static void list_due(hf_client *client, hf_timer *timer, int64_t now);

static hf_list *find_list(hf_client *client, const hf_names *names) {
    hf_list *list = *by_names(&client->keeper, names);
    while (list != NULL && (list->names->length != names->length ||
                            memcmp(list->names->data, names->data, names->length) != 0))
        list = list->next;
    return list;
}

static hf_list *make_list(hf_client *client, hf_names *names) {
    hf_list **bucket = by_names(&client->keeper, names), *list = find_list(client, names);
    if (list != NULL || (list = calloc(1, sizeof *list)) == NULL)
        return list;
    bool reserved = hf_timer_reserve(&client->keeper.timers);
    list->channel = reserved ? hf_channel_get(client, names) : NULL;
    if (list->channel == NULL) {
        if (reserved)
            hf_timer_unreserve(&client->keeper.timers);
        free(list);
        return NULL;
    }
    list->names = hf_names_keep(names);
    list->timer.fire = list_due;
    list->after = list->channel->lists;
    if (list->after != NULL)
        list->after->before = list;
    list->channel->lists = list;
    list->next = *bucket;
    *bucket = list;
    return list;
}

static void drop_list(hf_client *client, hf_list *list) {
    hf_list **at = by_names(&client->keeper, list->names);
    while (*at != list)
        at = &(*at)->next;
    *at = list->next;
    if (list->before != NULL)
        list->before->after = list->after;
    else
        list->channel->lists = list->after;
    if (list->after != NULL)
        list->after->before = list->before;
    if (list->channel->lists == NULL)
        hf_channel_leave(client, list->channel);
    hf_timer_clear(&client->keeper.timers, &list->timer);
    hf_timer_unreserve(&client->keeper.timers);
    hf_names_drop(list->names);
    free(list);
}

/* ------------------------------------------------------------------- Ops */

hf_op *hf_op_new(hf_client *client, hf_hold *hold, int64_t timeout_ms, int64_t until, bool thread) {
    hf_keeper *keeper = &client->keeper;
    hf_op *op = thread ? keeper->spare : NULL;
    hf_news *news = NULL;
    int event_fd = -1;
    if (op != NULL) {
        keeper->spare = op->after;
        event_fd = op->event_fd;
    } else {
        op = malloc(sizeof *op);
        bool good = op != NULL;
        if (good && thread)
            good = (event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0;
        else if (good)
            good = (news = malloc(sizeof *news)) != NULL && hf_timer_reserve(&keeper->timers);
        if (!good) {
            free(news);
            free(op);
            hf_fail(HF_ENOMEM, "no memory or descriptor to wait with");
            return NULL;
        }
    }
    memset(op, 0, sizeof *op);
    op->event_fd = event_fd;
    op->news = news;
    op->hold = hold;
    op->started = !thread;
    op->timeout_ms = timeout_ms;
    op->until = until;
    op->since = hf_now();
    return op;
}

void hf_op_free(hf_client *client, hf_op *op) {
    if (op->event_fd < 0) {
        hf_timer_unreserve(&client->keeper.timers);
        free(op->news);
        free(op);
        return;
    }
    eventfd_t count;
    if (op->told)
        eventfd_read(op->event_fd, &count);
    op->after = client->keeper.spare;
    client->keeper.spare = op;
}

static void join_link(hf_op *op, hf_link *link) {
    op->link = link;
    if (op->started) {
        link->started_ops++;
        return;
    }
    op->before = NULL;
    op->after = link->threads;
    if (op->after != NULL)
        op->after->before = op;
    link->threads = op;
}

bool hf_op_enter(hf_client *client, hf_op *op) {
    hf_keeper *keeper = &client->keeper;
    hf_list *list = make_list(client, op->hold->names);
    if (list == NULL)
        return false;
    op->list = list;
    op->previous = list->last;
    op->next = NULL;
    if (list->last != NULL)
        list->last->next = op;
    else
        list->first = op;
    list->last = op;
    put_id(client, op);
    op->owner = hf_stack_hash(op->hold->names, 0, op->hold->owner, op->hold->owner_length) %
                (sizeof keeper->owners / sizeof *keeper->owners);
    keeper->owners[op->owner]++;
    join_link(op, list->channel->link);
    return true;
}

static void watch_again(hf_client *client, hf_timer *timer, int64_t now) {
    /* The keeper is awake now, and sees for itself that nobody reads. */
    (void)client, (void)timer, (void)now;
}

/* Wake a waiting thread. One that would at once wait for the mutex, because the
 * caller is a reader with more to do, is woken when that lets the mutex go. */
static void notify(hf_client *client, hf_op *op) {
    hf_keeper *keeper = &client->keeper;
    if (op->event_fd < 0 || op == keeper->self)
        return;
    op->told = true;
    if (keeper->self != NULL && keeper->told_count < sizeof keeper->told / sizeof *keeper->told)
        keeper->told[keeper->told_count++] = op->event_fd;
    else
        eventfd_write(op->event_fd, 1);
}

/* The thread that reads the subscription leaves it: to another one, or the keeper. */
static void hand_over_reading(hf_client *client, const hf_op *op, const hf_list *list) {
    hf_link *link = op->link;
    hf_op *next = list != NULL ? list->first : NULL;
    if (link == NULL || link->reader != op)
        return;
    /* Only to one that would notice: others are in the middle of a request. Best
     * to the next in line: the next grant is mostly its own, and needs no second
     * thread to be woken. */
    if (next == NULL || next == op || !next->polling)
        for (next = link->threads; next != NULL && (next == op || !next->polling);)
            next = next->after;
    link->reader = next;
    if (next != NULL) {
        notify(client, next);
    } else if (link->started_ops > 0 || link->threads != NULL) {
        hf_keeper_wake(client);
    } else if (link->unread.place == 0) {
        /* Mostly the next waiter comes at once: do not wake the keeper for it. */
        link->unread.fire = watch_again;
        hf_keeper_timer(client, &link->unread, hf_after(hf_now(), 500));
    }
}

/* It waits no more, or not there. */
static void leave_link(hf_client *client, hf_op *op, const hf_list *list) {
    hf_link *link = op->link;
    if (op->started) {
        link->started_ops--;
    } else {
        if (op->before != NULL)
            op->before->after = op->after;
        else
            link->threads = op->after;
        if (op->after != NULL)
            op->after->before = op->before;
        hand_over_reading(client, op, list);
    }
    op->link = NULL;
}

void hf_op_leave(hf_client *client, hf_op *op) {
    hf_keeper *keeper = &client->keeper;
    hf_list *list = op->list;
    if (list == NULL)
        return;
    op->list = NULL;
    take_id(client, op);
    if (op->previous != NULL)
        op->previous->next = op->next;
    else
        list->first = op->next;
    if (op->next != NULL)
        op->next->previous = op->previous;
    else
        list->last = op->previous;
    hf_timer_clear(&keeper->timers, &op->timer);
    keeper->owners[op->owner]--;
    leave_link(client, op, list);
    if (list->first == NULL && !list->asking)
        drop_list(client, list);
}

void hf_ops_notify(hf_client *client, const hf_link *link) {
    for (hf_op *op = link->threads; op != NULL; op = op->after)
        notify(client, op);
}

hf_status hf_op_renew_id(hf_client *client, hf_op *op) {
    char id[HF_ID_LENGTH + 1];
    hf_status status = hf_client_new_id(client, id);
    if (status != HF_OK)
        return status;
    if (op->list != NULL)
        take_id(client, op);
    memcpy(op->hold->id, id, sizeof id);
    if (op->list != NULL)
        put_id(client, op);
    op->hold->bury = false;
    op->epoch = 0;
    op->asking = 0;
    return HF_OK;
}

void hf_op_member(const hf_op *op, hf_bytes *member) {
    char text[64];
    const hf_hold *hold = op->hold;
    int64_t timeout = op->timeout_ms == HF_FOREVER ? 0 : op->timeout_ms;
    int64_t lease = hold->lease_ms == HF_NEVER ? 0 : hold->lease_ms;
    hf_bytes channel;
    hf_bytes_init(&channel);
    hf_channel_name(hold->client, hold->names, &channel);
    hf_bytes_add(member, hold->id, HF_ID_LENGTH);
    int length = snprintf(text, sizeof text, "%zu:", channel.length);
    hf_bytes_add(member, text, (size_t)length);
    hf_bytes_add(member, channel.data, channel.length);
    member->failed = member->failed || channel.failed;
    hf_bytes_free(&channel);
    length = snprintf(text, sizeof text, ",%zu:", hold->owner_length);
    hf_bytes_add(member, text, (size_t)length);
    hf_bytes_add(member, hold->owner, hold->owner_length);
    int64_t numbers[] = {lease, timeout, hold->reentrant};
    for (size_t i = 0; i < 3; i++) {
        char digits[24];
        int count = snprintf(digits, sizeof digits, "%lld", (long long)numbers[i]);
        length = snprintf(text, sizeof text, ",%d:%s", count, digits);
        hf_bytes_add(member, text, (size_t)length);
    }
    hf_bytes_add(member, ",", 1);
}

void hf_op_finish(hf_client *client, hf_op *op, hf_status status) {
    hf_op_leave(client, op);
    op->done = true;
    op->status = status;
    if (!op->started) {
        notify(client, op);
        return;
    }
    hf_hold *hold = op->hold;
    if (status == HF_OK) {
        op->keeps = hold->kept;
        status = hf_client_add(client, hold, op->keeps && hold->replicas == 0);
        if (status != HF_OK) /* it is just being closed, and is to release this too */
            hf_keeper_undo(client, hold, NULL);
    }
    if (status == HF_OK)
        hf_keeper_plan(client, hold, hf_now());
    if (status == HF_OK && hold->replicas > 0)
        hf_op_confirm(client, op);
    else
        hf_op_tell(client, op, status, 0);
}

void hf_op_tell(hf_client *client, hf_op *op, hf_status status, int64_t replicas) {
    hf_hold *hold = op->hold;
    hf_client_count(client, status, op->score > 0 ? op->since : 0);
    hf_completion completion = {
        .kind = HF_ACQUIRED, .status = status, .op = op->number, .replicas = replicas};
    if (status == HF_OK) {
        completion.hold = hold;
        completion.hold_number = hold->number;
    }
    hf_tell(client, &op->news, &completion);
    if (status != HF_OK)
        hf_hold_drop_locked(hold);
    hf_op_free(client, op);
}

void hf_op_deliver(hf_client *client, hf_op *op, int64_t fence, int64_t deadline, bool pushed) {
    hf_hold *hold = op->hold;
    if (op->canceled)
        return; /* its release is under way */
    if (hf_now() >= deadline && op->busy) {
        op->epoch = 0; /* the answer that its thread waits for tells what is left */
        return;
    }
    if (hf_now() >= deadline && op->tries) {
        hf_keeper_undo(client, hold, op);
        hf_op_finish(client, op, HF_EBUSY);
        return;
    }
    if (hf_now() >= deadline) {
        /* Told too late: it is over already. Back to its place under a new id. */
        hf_keeper_undo(client, hold, op);
        hf_op_renew_id(client, op);
        hf_list_recheck(client, hold->names);
        notify(client, op);
        return;
    }
    int64_t claimed = hold->lease_ms == HF_NEVER || hold->lease_ms > 3000 ? 3000 : hold->lease_ms;
    int64_t lease = hold->lease_ms == HF_NEVER ? 30000 : hold->lease_ms;
    hold->fence = fence;
    hold->deadline = deadline;
    hold->state = HF_HELD;
    hold->pushed = pushed;
    hold->granted_at = hf_now();
    hold->renew_at = hold->granted_at + (pushed ? claimed : lease) * HF_MS / 3;
    hold->bury = hold->bury || op->asking > 0;
    /* Others of this owner may nest in it: they find out when they ask. */
    hf_op *other = client->keeper.owners[op->owner] > 1 ? op->list->first : NULL;
    for (; other != NULL; other = other->next)
        if (other != op && other->hold->reentrant &&
            other->hold->owner_length == hold->owner_length &&
            memcmp(other->hold->owner, hold->owner, hold->owner_length) == 0) {
            other->epoch = 0;
            hf_keeper_timer(client, &op->list->timer, 0);
        }
    hf_op_finish(client, op, HF_OK);
}

/* ----------------------------------------------------------- Asking again */

static void pair(hf_link *link, int64_t sent_at, int64_t server_us) {
    if (sent_at > link->pair_sent) {
        link->pair_sent = sent_at;
        link->pair_server = server_us;
    }
}

/* When to look after a lock next: its holder's TTL, spread by rank, within bounds.
 * The bound is a lease like its own, if that is short: who was granted the lock
 * since, and died, has mostly asked for the same. */
static int64_t pause_after(int64_t ttl_ms, int64_t state, int64_t rank, int64_t lease_ms) {
    if (ttl_ms == -2)
        return 0; /* free, with more dead waiters to skip */
    if (state == HF_REPLY_BUSY || (state == HF_REPLY_FOREIGN && rank == 0)) {
        /* No grant will come: poll. */
        int64_t ms = hf_jitter(8, 24);
        return ttl_ms >= 0 && ttl_ms < ms ? ttl_ms + 1 : ms;
    }
    int64_t longest = lease_ms == HF_NEVER || lease_ms > RECHECK_MS ? RECHECK_MS
                      : lease_ms < RECHECK_MIN_MS                   ? RECHECK_MIN_MS
                                                                    : lease_ms;
    int64_t ms = ttl_ms < 0 || ttl_ms > longest ? longest : ttl_ms + 1;
    ms += hf_jitter(0, 2 * (rank < 200 ? rank : 200) + 2);
    return ms < longest ? ms : longest - hf_jitter(0, longest / 8);
}

void hf_op_answer(hf_client *client, hf_link *from, hf_op *op, const int64_t *numbers,
                  const int64_t *mine, int64_t sent_at) {
    hf_list *list = op->list;
    int64_t lease_ms = op->hold->lease_ms;
    if (from != NULL)
        pair(from, sent_at, numbers[0]);
    if (numbers[1] == -1 && op->hold->heal_ms > 0 &&
        (mine[0] == HF_REPLY_FOREIGN || mine[0] == HF_REPLY_BUSY))
        hf_keeper_heal(client, op->hold);
    switch (mine[0]) {
    case HF_REPLY_HELD:
        /* Less than was asked for: a grant whose message is not here yet. */
        hf_op_deliver(client, op, mine[1], hf_hold_deadline(op->hold, sent_at, mine[2]),
                      mine[2] != lease_ms);
        return;
    case HF_REPLY_DEAD:
        if (op->tries)
            hf_op_finish(client, op, HF_EBUSY);
        else if (!op->canceled && !op->busy && hf_op_renew_id(client, op) == HF_OK)
            hf_list_recheck(client, list->names);
        return;
    case HF_REPLY_QUEUED:
    case HF_REPLY_FOREIGN:
        op->score = mine[1];
        break;
    default:
        if (op->tries) {
            hf_op_finish(client, op, HF_EBUSY);
            return;
        }
        break;
    }
    bool again = op->epoch != list->channel->epoch;
    int64_t pause_ms = again ? 0 : pause_after(numbers[1], mine[0], mine[2], lease_ms);
    int64_t due = again ? 0 : hf_after(hf_now(), pause_ms);
    if (again || op == list->first || list->timer.place == 0)
        hf_keeper_timer(client, &list->timer, due);
}

/* Is it to ask anew? A thread's own first request is the thread's to send. */
static bool stale(const hf_op *op) {
    return op->epoch != op->list->channel->epoch && !op->canceled && !op->busy && !op->tries &&
           (op->started || op->score > 0);
}

static void rechecked(hf_client *client, hf_task *task, hf_status status, const redisReply *reply) {
    hf_list *list = find_list(client, task->names);
    int64_t numbers[2 + 3 * RECHECK_OPS];
    if (status == HF_OK && !hf_reply_states(reply, numbers, task->count))
        status = hf_fail(HF_EPROTOCOL, "an answer that the acquire script does not give");
    if (list != NULL && !task->state)
        list->asking = false;
    bool refused = status == HF_ESERVER && hf_error_permission(hf_error_message());
    if (refused)
        snprintf(client->keeper.refusal, sizeof client->keeper.refusal, "%s", hf_error_message());
    for (size_t i = 0; i < task->count; i++) {
        hf_op *op = hf_op_find(client, task->ids[i]);
        if (op == NULL)
            continue;
        op->asking--;
        if (task->doubtful)
            op->hold->bury = true;
        if (status == HF_OK) {
            hf_op_answer(client, task->link, op, numbers, numbers + 2 + 3 * i, task->sent_at);
        } else if (((op->score == 0 && op->started) || (refused && !op->busy)) && !op->canceled) {
            /* It never got a place, or could get no further: its caller is to know why. */
            if (op->hold->bury || status == HF_EPROTOCOL || op->score > 0)
                hf_keeper_undo(client, op->hold, op);
            hf_op_finish(client, op, status);
        } else {
            op->epoch = 0;
        }
    }
    list = find_list(client, task->names);
    if (list == NULL)
        return;
    if (list->first == NULL) {
        drop_list(client, list);
        return;
    }
    bool left = false;
    for (hf_op *op = list->first; op != NULL && !left; op = op->next)
        left = stale(op);
    if (left) {
        hf_keeper_timer(client, &list->timer,
                        status == HF_OK ? 0 : hf_after(hf_now(), hf_jitter(100, 200)));
    } else if (list->timer.place == 0) {
        /* The one that asked is done; where no grants come, the next asks soon. */
        int64_t ms = list->channel->link->mode == HF_POLLING ? hf_jitter(8, 24) : RECHECK_MS;
        hf_keeper_timer(client, &list->timer, hf_after(hf_now(), ms));
    }
}

static bool ask(hf_client *client, hf_list *list, hf_op *const *ops, size_t count, bool wait) {
    hf_task *task = hf_task_new(rechecked);
    char(*ids)[HF_ID_LENGTH + 1] = task != NULL ? malloc(count * sizeof *ids) : NULL;
    const char *listed[RECHECK_OPS];
    if (ids == NULL) {
        free(task);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        listed[i] = memcpy(ids[i], ops[i]->hold->id, sizeof *ids);
    task->ids = ids;
    task->count = count;
    task->state = ops[0]->tries; /* not the list's own question */
    task->names = hf_names_keep(list->names);
    hf_recheck_begin(&task->request, list->names, listed, count,
                     hf_client_floor(client, list->names), wait);
    for (size_t i = 0; i < count; i++) {
        hf_recheck_add(&task->request, ops[i]->hold, ops[i]);
        ops[i]->epoch = list->channel->epoch;
        ops[i]->asking++;
    }
    int64_t ms = hf_transport_patience_ms(client->transport) + (ops[0]->tries ? 0 : RECHECK_MS);
    hf_task_submit(client, task, hf_after(hf_now(), ms));
    return true;
}

bool hf_op_try(hf_client *client, hf_op *op) {
    op->tries = true;
    return ask(client, op->list, &op, 1, false);
}

/* Ask for all that have not asked under this subscription, a hundred at a time;
 * if all have, for the oldest, which stands for the rest. */
static void list_due(hf_client *client, hf_timer *timer, int64_t now) {
    hf_list *list = LIST_OF(timer);
    hf_op *ops[RECHECK_OPS];
    size_t count = 0;
    bool polling = list->channel->link->mode == HF_POLLING;
    if (list->asking)
        return;
    if (!polling && !hf_channel_works(list->channel))
        return; /* when it does, all its lists are looked at */
    for (hf_op *op = list->first; op != NULL && count < RECHECK_OPS; op = op->next)
        if (stale(op))
            ops[count++] = op;
    for (hf_op *op = list->first; op != NULL && count == 0; op = op->next)
        if (!op->tries && !op->canceled && !op->busy && (op->started || op->score > 0))
            ops[count++] = op;
    if (count == 0)
        return;
    list->asking = ask(client, list, ops, count, !polling);
    if (!list->asking)
        hf_keeper_timer(client, timer, hf_after(now, RECHECK_MS));
}

void hf_list_recheck(hf_client *client, const hf_names *names) {
    hf_list *list = find_list(client, names);
    if (list == NULL)
        return;
    for (hf_op *op = list->first; op != NULL; op = op->next)
        op->epoch = 0;
    hf_keeper_timer(client, &list->timer, 0);
}

void hf_channel_ops_move(hf_client *client, const hf_channel *channel, hf_link *from) {
    for (hf_list *list = channel->lists; list != NULL; list = list->after)
        for (hf_op *op = list->first; op != NULL; op = op->next) {
            if (op->link != from)
                continue;
            leave_link(client, op, NULL);
            join_link(op, channel->link);
            notify(client, op); /* to read there */
        }
}

void hf_channel_notify(hf_client *client, const hf_channel *channel) {
    for (hf_list *list = channel->lists; list != NULL; list = list->after) {
        hf_keeper_timer(client, &list->timer, 0);
        for (hf_op *op = list->first; op != NULL; op = op->next)
            notify(client, op);
    }
}

/* --------------------------------------------------------------- Grants */

/* `g <hold id> <fence> <server us> <granted ms>` */
void hf_grant(hf_client *client, const hf_link *link, const char *text) {
    char id[HF_ID_LENGTH + 1];
    long long fence, server_us, granted_ms;
    if (sscanf(text, "g %32s %lld %lld %lld", id, &fence, &server_us, &granted_ms) != 4 ||
        strlen(id) != HF_ID_LENGTH || fence < 1 || fence > HF_NUMBER_MAX || server_us < 1 ||
        server_us > HF_NUMBER_MAX || granted_ms < 0 || granted_ms > HF_LEASE_MAX)
        return;
    hf_op *op = hf_op_find(client, id);
    if (op == NULL)
        return; /* who gave it up has seen to its release */
    if (link->pair_sent == 0) {
        /* Nothing to tell its age by: ask. */
        op->epoch = 0;
        hf_keeper_timer(client, &op->list->timer, 0);
        return;
    }
    /* Not requested just now, and perhaps long in a buffer: it began at the
     * receipt or, by the server's own clock since some request of ours was
     * sent, before; whichever is earlier. */
    int64_t start = hf_now(), gap_us = server_us - link->pair_server;
    if (gap_us > INT64_C(1000000000000) || gap_us < -INT64_C(1000000000000))
        return;
    if (link->pair_sent + gap_us * 1000 < start)
        start = link->pair_sent + gap_us * 1000;
    int64_t drift = (gap_us < 0 ? -gap_us : gap_us); /* 1/1000 of it, in ns */
    hf_op_deliver(client, op, fence, hf_deadline(start, granted_ms) - drift, true);
}

void hf_channel_give_up(hf_client *client, const hf_channel *channel, int64_t now) {
    int64_t patience_ms = hf_transport_patience_ms(client->transport);
    for (hf_list *list = channel->lists, *after; list != NULL; list = after) {
        after = list->after;
        for (hf_op *op = list->first, *next; op != NULL; op = next) {
            next = op->next;
            if (op->score == 0 && op->asking == 0 && now >= hf_after(op->since, patience_ms))
                hf_op_finish(client, op, HF_ECONNECT);
        }
    }
}

/* ------------------------------------------------------ A waiting thread */

void hf_unlock_and_tell(hf_client *client) {
    hf_keeper *keeper = &client->keeper;
    int told[sizeof keeper->told / sizeof *keeper->told];
    size_t count = keeper->told_count;
    memcpy(told, keeper->told, count * sizeof *told);
    keeper->told_count = 0;
    pthread_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < count; i++)
        eventfd_write(told[i], 1);
}

hf_status hf_op_wait(hf_client *client, hf_op *op, bool ask, bool interruptible) {
    hf_keeper *keeper = &client->keeper;
    hf_status status = HF_OK;
    bool listens = client->interrupt != NULL; /* for signals that came before the poll */
    for (;;) {
        if (op->done)
            break;
        if (client->swept) {
            status = hf_fail(HF_ECANCELED, "the client was closed during the wait");
            break;
        }
        hf_link *link = op->link;
        if (ask && (link->mode == HF_POLLING || hf_channel_works(op->list->channel)))
            break;
        int64_t now = hf_now(), left = -1;
        if (op->until != HF_NO_DEADLINE) {
            left = hf_until(op->until, now);
            if (left == 0) {
                status = HF_ETIMEOUT;
                break;
            }
            if (left > 3600000)
                left = 3600000;
        }
        if (listens && (left < 0 || left > SIGNAL_MS))
            left = SIGNAL_MS;
        if (link->reader == NULL) {
            link->reader = op;
            if (link->watching) {
                link->watching = false;
                hf_keeper_wake(client); /* two that poll one socket wake in vain */
            }
        }
        const hf_connection *heard =
            link->reader == op && link->subscribed > 0 ? link->subscription : NULL;
        struct pollfd fds[2] = {
            {.fd = op->event_fd, .events = POLLIN},
            {.fd = heard != NULL ? hf_connection_fd(heard) : -1, .events = POLLIN}};
        op->polling = true;
        hf_unlock_and_tell(client);
        int ready = poll(fds, 2, (int)left);
        bool interrupted = ready < 0 && errno == EINTR;
        eventfd_t count;
        if (ready > 0 && fds[0].revents != 0)
            eventfd_read(op->event_fd, &count);
        pthread_mutex_lock(&client->mutex);
        op->polling = false;
        if (interrupted && interruptible)
            status = hf_fail(HF_EINTR, "a signal ended the wait");
        if (ready <= 0 && listens && status == HF_OK) {
            /* The handlers may take their time: let another read meanwhile. */
            hand_over_reading(client, op, op->list);
            hf_unlock_and_tell(client);
            status = hf_client_listen(client, &listens);
            pthread_mutex_lock(&client->mutex);
        }
        if (status != HF_OK)
            break;
        if (ready > 0 && fds[0].revents != 0)
            op->told = false;
        link = op->link; /* NULL: it is done, and another reads */
        if (ready > 0 && fds[1].revents != 0 && link != NULL && heard == link->subscription) {
            keeper->self = op;
            if (hf_link_listen(client, link) != HF_OK)
                hf_link_deaf(client, link);
            keeper->self = NULL;
        }
    }
    if (!op->done)
        hand_over_reading(client, op, op->list);
    return status;
}
