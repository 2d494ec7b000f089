#include "lock/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "lock/client.h"

/* How often a hold that never ends is looked at. */
#define LOOK_MS 10000
/* For how long what was given up is undone after it ended by itself, and a free
 * lock handed on. */
#define AFTERWARDS_MS 3000
/* What was given up and could not be undone, for want of memory, is tried again. */
#define UNDO_MS 50
#define BATCH (sizeof((hf_keeper *)0)->batch / sizeof(hf_hold *))

#define HOLD_OF(t) ((hf_hold *)((char *)(t)-offsetof(hf_hold, timer)))

/* ---------------------------------------------------------- Completions */

void hf_tell(hf_client *client, hf_news **kept, const hf_completion *completion) {
    hf_keeper *keeper = &client->keeper;
    if (keeper->news_fd < 0)
        return;
    /* Only a hold that is older than the descriptor has none. */
    hf_news *news = *kept != NULL ? *kept : malloc(sizeof *news);
    *kept = NULL;
    if (news == NULL)
        return;
    news->next = NULL;
    news->completion = *completion;
    if (keeper->news_first != NULL)
        keeper->news_last->next = news;
    else
        keeper->news_first = news;
    keeper->news_last = news;
    eventfd_write(keeper->news_fd, 1);
}

hf_status hf_keeper_tells(hf_client *client) {
    hf_status status = hf_client_check(client);
    if (status != HF_OK)
        return status;
    pthread_mutex_lock(&client->mutex);
    hf_keeper *keeper = &client->keeper;
    if (keeper->news_fd < 0)
        status = hf_keeper_start(client);
    if (keeper->news_fd < 0 && status == HF_OK) {
        keeper->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (keeper->news_fd < 0)
            status = hf_fail(HF_ENOMEM, "no descriptor: %s", strerror(errno));
        /* From now on somebody is to be told when a lease ends. */
        for (hf_hold *hold = client->holds; hold != NULL; hold = hold->next)
            hf_keeper_plan(client, hold, hf_now());
    }
    pthread_mutex_unlock(&client->mutex);
    return status;
}

int hf_client_fd(hf_client *client) {
    return hf_keeper_tells(client) == HF_OK ? client->keeper.news_fd : -1;
}

hf_status hf_client_next(hf_client *client, hf_completion *completion) {
    if (client == NULL || completion == NULL || completion->size < sizeof completion->size)
        return hf_fail(HF_EINVAL, "the handle is NULL, or hf_completion.size is not set");
    if (hf_client_inherited(client))
        return hf_client_check(client);
    uint32_t size = completion->size;
    hf_completion found = {0};
    pthread_mutex_lock(&client->mutex);
    hf_keeper *keeper = &client->keeper;
    hf_news *news = keeper->news_first;
    if (news != NULL) {
        keeper->news_first = news->next;
        found = news->completion;
    }
    bool ended = client->told;
    if (keeper->news_first == NULL && keeper->news_fd >= 0 && !ended) {
        eventfd_t count;
        eventfd_read(keeper->news_fd, &count);
    }
    pthread_mutex_unlock(&client->mutex);
    free(news);
    memset(completion, 0, size);
    memcpy(completion, &found, size < sizeof found ? size : sizeof found);
    completion->size = size;
    if (news == NULL && ended)
        return hf_fail(HF_ECLOSED, "the client is closed");
    return HF_OK;
}

/* ---------------------------------------------------------------- Holds */

static int64_t interval(const hf_hold *hold) {
    if (hold->lease_ms == HF_NEVER)
        return LOOK_MS * HF_MS;
    bool capped = hold->cap_ms > 0 && hold->cap_ms < hold->lease_ms;
    return (capped ? hold->cap_ms : hold->lease_ms) * HF_MS / 3;
}

static bool renews(const hf_hold *hold) {
    if (hold->lease_ms == HF_NEVER || hold->pushed)
        return true;
    return hold->renew && (hold->max_hold_ms == 0 ||
                           hold->renew_at < hf_after(hold->granted_at, hold->max_hold_ms));
}

static void hold_due(hf_client *client, hf_timer *timer, int64_t now);

int hf_keeper_cause(const hf_hold *hold) {
    bool capped = hold->max_hold_ms > 0 && !renews(hold);
    bool tried = !capped && (hold->renew || hold->pushed);
    return tried ? HF_CAUSE_UNREACHABLE : HF_CAUSE_EXPIRED;
}

void hf_keeper_plan(hf_client *client, hf_hold *hold, int64_t now) {
    hf_keeper *keeper = &client->keeper;
    (void)now;
    int64_t due = HF_NO_DEADLINE;
    if (hold->state == HF_HELD && hold->listed) {
        bool renewing = renews(hold);
        if (renewing || hold->renew || keeper->news_fd >= 0)
            due = hold->deadline;
        if (renewing && !hold->asked && hold->renew_at < due)
            due = hold->renew_at;
    }
    hold->timer.fire = hold_due;
    if (due == HF_NO_DEADLINE)
        hf_timer_clear(&keeper->timers, &hold->timer);
    else
        hf_keeper_timer(client, &hold->timer, due);
}

void hf_keeper_lose(hf_client *client, hf_hold *hold, int cause) {
    hold->state = HF_LOST;
    hold->cause = cause;
    __atomic_add_fetch(&client->stats.lost, 1, __ATOMIC_RELAXED);
    hf_timer_clear(&client->keeper.timers, &hold->timer);
    hf_completion completion = {
        .kind = HF_LOSS, .status = HF_ELOST, .cause = cause, .hold_number = hold->number};
    hf_tell(client, &hold->news, &completion);
    /* A renewal of it may still arrive: without this it would then be held by
     * nobody for one more lease. */
    if (cause != HF_CAUSE_GONE)
        hf_keeper_undo(client, hold, NULL);
    if (hold->pushed)
        hf_list_recheck(client, hold->names);
}

static void kicked(hf_client *client, hf_task *task, hf_status status, const redisReply *reply);

void hf_keeper_kick(hf_client *client, hf_names *names) {
    hf_task *task = hf_task_new(kicked);
    if (task == NULL)
        return;
    task->names = hf_names_keep(names);
    hf_recheck_begin(&task->request, names, NULL, 0, 0, false);
    hf_task_submit(client, task, hf_after(hf_now(), AFTERWARDS_MS));
}

static void kicked(hf_client *client, hf_task *task, hf_status status, const redisReply *reply) {
    int64_t numbers[2];
    if (status == HF_OK && hf_reply_numbers(reply, numbers, 2) && numbers[1] == -2)
        hf_keeper_kick(client, task->names);
}

static void healed(hf_client *client, hf_task *task, hf_status status, const redisReply *reply) {
    (void)client, (void)task, (void)status, (void)reply;
}

void hf_keeper_heal(hf_client *client, const hf_hold *hold) {
    hf_task *task = hf_task_new(healed);
    if (task == NULL)
        return;
    hf_request_begin(&task->request, &hf_script_heal);
    hf_request_lock(&task->request, hold->names);
    hf_request_number(&task->request, hold->heal_ms);
    hf_task_submit(client, task, hf_after(hf_now(), hf_transport_patience_ms(client->transport)));
}

static void undone(hf_client *client, hf_task *task, hf_status status, const redisReply *reply) {
    if (status == HF_OK && hf_reply_number(reply) == 2)
        hf_keeper_kick(client, task->names);
}

void hf_keeper_undo(hf_client *client, hf_hold *hold, const hf_op *op) {
    hf_keeper *keeper = &client->keeper;
    if (client->swept)
        return;
    hf_task *task = hf_keeper_start(client) == HF_OK ? hf_task_new(undone) : NULL;
    if (task != NULL)
        hf_release_request(&task->request, hold, op);
    if (task == NULL || task->request.encoded.failed) {
        if (task != NULL)
            hf_task_free(task);
        if (!hold->undoing) {
            hold->undoing = true;
            hold->references++;
            hold->undo_next = keeper->undo;
            keeper->undo = hold;
        }
        keeper->undo_at = hf_after(hf_now(), UNDO_MS);
        hf_keeper_wake(client);
        return;
    }
    task->names = hf_names_keep(hold->names);
    task->insists = true;
    int64_t ms = hold->lease_ms == HF_NEVER ? HF_FOREVER : hold->lease_ms + AFTERWARDS_MS;
    hf_task_submit(client, task, hf_after(hf_now(), ms));
}

static void undo_again(hf_client *client, int64_t now) {
    hf_keeper *keeper = &client->keeper;
    hf_hold *hold = keeper->undo;
    if (hold == NULL || now < keeper->undo_at)
        return;
    keeper->undo = NULL;
    while (hold != NULL) {
        hf_hold *next = hold->undo_next;
        hold->undoing = false;
        hf_keeper_undo(client, hold, NULL);
        hf_hold_drop_locked(hold);
        hold = next;
    }
}

static void renewed(hf_client *client, hf_task *task, hf_status status, const redisReply *reply) {
    bool good =
        status == HF_OK && reply->type == REDIS_REPLY_ARRAY && reply->elements == task->count + 1;
    int64_t now = hf_now();
    for (size_t i = 0; i < task->count; i++) {
        hf_hold *hold = task->holds[i];
        int64_t left = good && reply->element[i + 1]->type == REDIS_REPLY_INTEGER
                           ? reply->element[i + 1]->integer
                           : -3;
        hold->asked = false;
        if (hold->state != HF_HELD || !hold->listed)
            continue;
        if (left == -2) {
            hf_keeper_lose(client, hold, HF_CAUSE_GONE);
            continue;
        }
        if (left >= -1) {
            hf_hold_renewed(hold, task->sent_at, left);
            hold->pushed = false;
            hold->renew_at = task->sent_at + interval(hold);
            client->stats.renewed++;
        } else {
            hold->renew_at = now + interval(hold) / 8;
        }
        hf_keeper_plan(client, hold, now);
    }
}

static void send_batch(hf_client *client) {
    hf_keeper *keeper = &client->keeper;
    size_t count = keeper->batch_count;
    keeper->batch_count = 0;
    hf_task *task = count > 0 ? hf_task_new(renewed) : NULL;
    hf_hold **holds = task != NULL ? malloc(count * sizeof(hf_hold *)) : NULL;
    if (holds == NULL) {
        for (size_t i = 0; i < count; i++) {
            keeper->batch[i]->asked = false;
            keeper->batch[i]->renew_at = hf_now() + interval(keeper->batch[i]) / 8;
            hf_keeper_plan(client, keeper->batch[i], hf_now());
            hf_hold_drop_locked(keeper->batch[i]);
        }
        free(task);
        return;
    }
    task->holds = memcpy(holds, keeper->batch, count * sizeof *holds);
    task->count = count;
    int64_t until = INT64_MAX;
    task->answer_ms = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        if (holds[i]->deadline < until)
            until = holds[i]->deadline;
        /* A failed attempt must leave time for another. */
        int64_t half = interval(holds[i]) / HF_MS / 2;
        if (half < task->answer_ms)
            task->answer_ms = half > 10 ? half : 10;
    }
    hf_renew_request(&task->request, holds, count);
    hf_task_submit(client, task, until);
}

static void claim(hf_client *client, hf_hold *hold) {
    hf_task *task = hf_task_new(renewed);
    hf_hold **holds = task != NULL ? malloc(sizeof(hf_hold *)) : NULL;
    if (holds == NULL) {
        free(task);
        return;
    }
    holds[0] = hold;
    hold->references++;
    hold->asked = true;
    task->holds = holds;
    task->count = 1;
    hf_claim_request(&task->request, hold);
    hf_task_submit(client, task, hold->deadline);
}

static void hold_due(hf_client *client, hf_timer *timer, int64_t now) {
    hf_keeper *keeper = &client->keeper;
    hf_hold *hold = HOLD_OF(timer);
    if (hold->state != HF_HELD)
        return;
    if (now >= hold->deadline) {
        hf_keeper_lose(client, hold, hf_keeper_cause(hold));
        return;
    }
    if (!hold->asked && renews(hold)) {
        if (hold->pushed) {
            claim(client, hold);
            if (!hold->asked)
                hold->renew_at = now + 100 * HF_MS;
        } else {
            hold->asked = true;
            hold->references++;
            keeper->batch[keeper->batch_count++] = hold;
            /* Where slots can be moved, a script of several keys is refused meanwhile. */
            if (keeper->batch_count == BATCH || hf_transport_clustered(client->transport))
                send_batch(client);
        }
    }
    hf_keeper_plan(client, hold, now);
}

/* Renewals that are nearly due go with those that are: few, full batches. */
static bool due_now(const hf_timer *timer, int64_t now) {
    if (timer->due <= now)
        return true;
    if (timer->fire != hold_due)
        return false;
    const hf_hold *hold = HOLD_OF((hf_timer *)timer);
    return !hold->asked && !hold->pushed && renews(hold) && timer->due == hold->renew_at &&
           timer->due - interval(hold) / 8 <= now;
}

/* --------------------------------------------------------------- Thread */

static int64_t next_wake(const hf_client *client) {
    const hf_keeper *keeper = &client->keeper;
    const hf_timer *first = hf_timer_first(&keeper->timers);
    int64_t wake = first != NULL ? first->due : HF_NO_DEADLINE;
    if (keeper->undo != NULL && keeper->undo_at < wake)
        wake = keeper->undo_at;
    for (const hf_task *task = keeper->delayed; task != NULL; task = task->next)
        if (task->retry_at < wake)
            wake = task->retry_at;
    for (const hf_link *link = &keeper->first; link != NULL; link = link->next) {
        int64_t due = hf_link_wake(client, link);
        if (due < wake)
            wake = due;
    }
    return wake;
}

/* What to wait for on a link's two connections. */
static void watch(hf_link *link, struct pollfd fds[2]) {
    fds[0] = fds[1] = (struct pollfd){.fd = -1};
    if (link->commands != NULL) {
        fds[0].fd = hf_connection_fd(link->commands);
        fds[0].events = hf_connection_events(link->commands);
    }
    link->watching = link->reader == NULL &&
                     (link->started_ops > 0 || (link->threads == NULL && link->unread.place == 0));
    if (link->subscription != NULL) {
        fds[1].events = hf_connection_events(link->subscription);
        if (!link->watching && link->subscribed > 0)
            fds[1].events &= ~POLLIN;
        if (fds[1].events != 0)
            fds[1].fd = hf_connection_fd(link->subscription);
    }
}

static void sleep_until(hf_client *client, int64_t wake) {
    hf_keeper *keeper = &client->keeper;
    struct pollfd some[4], *fds = some;
    size_t count = 2;
    for (const hf_link *link = &keeper->first; link != NULL; link = link->next)
        count += 2;
    if (count > sizeof some / sizeof *some) {
        if (count > keeper->fd_count) {
            fds = realloc(keeper->fds, 2 * count * sizeof *fds);
            keeper->fds = fds != NULL ? fds : keeper->fds;
            keeper->fd_count = fds != NULL ? 2 * count : keeper->fd_count;
        }
        fds = keeper->fds;
    }
    if (count > keeper->fd_count && fds != some) {
        /* No memory to look at all: soon again. */
        fds = some;
        int64_t soon = hf_after(hf_now(), 10);
        wake = wake < soon ? wake : soon;
    }
    fds[0] = (struct pollfd){.fd = keeper->wake_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = keeper->clock_fd, .events = POLLIN};
    count = 2;
    for (hf_link *link = &keeper->first; link != NULL; link = link->next) {
        if (fds == some && count == 4)
            break;
        watch(link, fds + count);
        count += 2;
    }
    struct itimerspec when = {0};
    if (wake != HF_NO_DEADLINE) {
        if (wake < 1)
            wake = 1;
        when.it_value.tv_sec = wake / (1000 * HF_MS);
        when.it_value.tv_nsec = wake % (1000 * HF_MS);
    }
    timerfd_settime(keeper->clock_fd, TFD_TIMER_ABSTIME, &when, NULL);
    keeper->sleeps_until = wake;
    pthread_mutex_unlock(&client->mutex);
    poll(fds, count, -1);
    pthread_mutex_lock(&client->mutex);
    keeper->sleeps_until = INT64_MIN;
    eventfd_t times;
    if (fds[0].revents != 0)
        eventfd_read(keeper->wake_fd, &times);
}

static void *run(void *argument) {
    hf_client *client = argument;
    hf_keeper *keeper = &client->keeper;
    pthread_mutex_lock(&client->mutex);
    while (!keeper->stop) {
        int64_t now = hf_now();
        hf_timer *timer;
        while ((timer = hf_timer_first(&keeper->timers)) != NULL && due_now(timer, now)) {
            hf_timer_clear(&keeper->timers, timer);
            timer->fire(client, timer, now);
        }
        if (keeper->batch_count > 0)
            send_batch(client);
        undo_again(client, now);
        hf_links_follow(client, now);
        for (hf_link *link = &keeper->first; link != NULL; link = link->next)
            hf_link_drive(client, link, now);
        sleep_until(client, next_wake(client));
    }
    pthread_mutex_unlock(&client->mutex);
    return NULL;
}

void hf_keeper_init(hf_client *client) {
    hf_keeper *keeper = &client->keeper;
    keeper->wake_fd = keeper->clock_fd = keeper->news_fd = -1;
    keeper->sleeps_until = INT64_MIN;
    keeper->timers.reserved = 1; /* for first.unread, which is set after others were reserved */
    keeper->own.link = &keeper->first;
    keeper->own.name = client->channel;
}

hf_status hf_keeper_start(hf_client *client) {
    hf_keeper *keeper = &client->keeper;
    if (client->swept || (keeper->stop && !keeper->started))
        return hf_fail(HF_ECLOSED, "the client is closed");
    if (keeper->started) /* or just ended: what it left, the closer carries out */
        return HF_OK;
    if (keeper->wake_fd < 0)
        keeper->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (keeper->clock_fd < 0)
        keeper->clock_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (keeper->wake_fd < 0 || keeper->clock_fd < 0)
        return hf_fail(HF_ENOMEM, "no descriptor for the keeper: %s", strerror(errno));
    /* The program's signals are for the program's threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&keeper->thread, NULL, run, client);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return hf_fail(HF_ENOMEM, "no thread for the keeper: %s", strerror(error));
    pthread_setname_np(keeper->thread, "holdfast");
    keeper->started = true;
    return HF_OK;
}

void hf_keeper_wake(hf_client *client) {
    hf_keeper *keeper = &client->keeper;
    if (keeper->sleeps_until != INT64_MIN) {
        keeper->sleeps_until = INT64_MIN; /* once is enough */
        eventfd_write(keeper->wake_fd, 1);
    }
}

bool hf_keeper_lock(hf_client *client) {
    pthread_mutex_lock(&client->mutex);
    bool asleep = client->keeper.sleeps_until != INT64_MIN;
    client->keeper.sleeps_until = INT64_MIN;
    return asleep;
}

void hf_keeper_unlock(hf_client *client, bool asleep) {
    pthread_mutex_unlock(&client->mutex);
    if (asleep)
        eventfd_write(client->keeper.wake_fd, 1);
}

bool hf_keeper_timer(hf_client *client, hf_timer *timer, int64_t due) {
    if (hf_keeper_start(client) != HF_OK)
        return false;
    hf_timer_set(&client->keeper.timers, timer, due);
    if (due < client->keeper.sleeps_until)
        hf_keeper_wake(client);
    return true;
}

void hf_keeper_join(hf_client *client) {
    hf_keeper *keeper = &client->keeper;
    pthread_mutex_lock(&client->mutex);
    bool started = keeper->started && !keeper->stop;
    keeper->stop = true;
    hf_keeper_wake(client);
    pthread_mutex_unlock(&client->mutex);
    if (started)
        pthread_join(keeper->thread, NULL);
}

void hf_keeper_free(hf_client *client) {
    hf_keeper *keeper = &client->keeper;
    hf_links_free(client);
    free(keeper->fds);
    while (keeper->news_first != NULL) {
        hf_news *news = keeper->news_first;
        keeper->news_first = news->next;
        free(news); /* its hold was seen to when the client was closed */
    }
    for (size_t i = 0; i < sizeof keeper->lists / sizeof *keeper->lists; i++) {
        while (keeper->lists[i] != NULL) {
            hf_list *list = keeper->lists[i];
            keeper->lists[i] = list->next;
            hf_names_drop(list->names);
            free(list);
        }
    }
    while (keeper->spare != NULL) {
        hf_op *op = keeper->spare;
        keeper->spare = op->after;
        close(op->event_fd);
        free(op);
    }
    free(keeper->timers.heap);
    if (keeper->wake_fd >= 0)
        close(keeper->wake_fd);
    if (keeper->clock_fd >= 0)
        close(keeper->clock_fd);
    if (keeper->news_fd >= 0)
        close(keeper->news_fd);
}
