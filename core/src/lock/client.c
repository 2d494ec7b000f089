#include "lock/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

hf_status hf_client_check(const hf_client *client) {
    if (client == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    if (hf_client_inherited(client))
        return hf_fail(HF_EFORKED, "this client belongs to the parent process: open one of your "
                                   "own after fork");
    if (__atomic_load_n(&client->closed, __ATOMIC_ACQUIRE))
        return hf_fail(HF_ECLOSED, "the client is closed");
    return HF_OK;
}

bool hf_client_inherited(const hf_client *client) { return client->generation != hf_generation(); }

static hf_status name_client(hf_client *client) {
    unsigned char id[16];
    char host[256] = "";
    if (!hf_random(id, sizeof id))
        return hf_fail(HF_ENOMEM, "no random bytes from the system");
    gethostname(host, sizeof host - 1);
    int length = snprintf(client->prefix, sizeof client->prefix, "%s/%ld:", host, (long)getpid());
    hf_hex(client->prefix + length, id, sizeof id);
    client->keeper.own.length =
        (size_t)snprintf(client->channel, sizeof client->channel, "hf:%s", client->prefix + length);
    strcat(client->prefix, ":");
    client->prefix_length = strlen(client->prefix);
    return HF_OK;
}

hf_status hf_client_open(const char *url, const hf_client_options *options,
                         hf_client **client_out) {
    hf_client_options chosen;
    hf_address address;
    if (client_out == NULL)
        return hf_fail(HF_EINVAL, "client_out is NULL");
    *client_out = NULL;
    if (url == NULL)
        return hf_fail(HF_EINVAL, "the URL is NULL");
    hf_status status = hf_options_copy(&chosen, sizeof chosen, options, "hf_client_options");
    if (status != HF_OK)
        return status;
    status = hf_address_parse(url, &address);
    if (status != HF_OK)
        return status;
    status = hf_address_options(&address, &chosen);
    hf_client *client = status == HF_OK ? calloc(1, sizeof *client) : NULL;
    if (client == NULL) {
        hf_address_free(&address);
        return status != HF_OK ? status : hf_fail(HF_ENOMEM, "no memory");
    }
    hf_generation_watch();
    client->references = 1;
    client->generation = hf_generation();
    hf_keeper_init(client);
    pthread_mutex_init(&client->mutex, NULL);
    client->closed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (client->closed_fd < 0)
        status = hf_fail(HF_ENOMEM, "no descriptor for the client: %s", strerror(errno));
    if (status == HF_OK)
        status = name_client(client);
    if (status == HF_OK)
        status = hf_transport_open(&address, &client->transport);
    else
        hf_address_free(&address);
    if (status != HF_OK) {
        hf_client_drop(client);
        return status;
    }
    if (!hf_transport_clustered(client->transport)) /* else each tag will have its own */
        client->keeper.first.unasked = &client->keeper.own;
    *client_out = client;
    return HF_OK;
}

const char *hf_client_warning(const hf_client *client) {
    return client != NULL ? hf_transport_warning(client->transport) : "";
}

hf_client *hf_client_keep(hf_client *client) {
    __atomic_add_fetch(&client->references, 1, __ATOMIC_RELAXED);
    return client;
}

void hf_client_drop(hf_client *client) {
    if (__atomic_sub_fetch(&client->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    hf_keeper_free(client);
    hf_transport_free(client->transport);
    if (client->closed_fd >= 0)
        close(client->closed_fd);
    pthread_mutex_destroy(&client->mutex);
    explicit_bzero(client->random, sizeof client->random);
    free(client);
}

/* One more request to take what waits out of its queue; without memory for it the
 * place is skipped, because nobody listens. */
static hf_task *add_undo(hf_task *tasks, const hf_op *op) {
    hf_task *task = hf_task_new(NULL);
    if (task == NULL)
        return tasks;
    hf_release_request(&task->request, op->hold, op);
    task->next = tasks;
    return task;
}

/* Tell the server what a closing client leaves there: some at a time, so that
 * it needs no memory to speak of. */
static void tell_server(hf_client *client, const hf_task *tasks, const hf_hold *ended) {
    int64_t deadline = hf_after(hf_now(), hf_transport_command_ms(client->transport));
    hf_request releases[HF_FLUSH_MAX];
    const hf_request *requests[HF_FLUSH_MAX];
    while (tasks != NULL || ended != NULL) {
        size_t count = 0, made = 0;
        for (; tasks != NULL && count < HF_FLUSH_MAX; tasks = tasks->next)
            requests[count++] = &tasks->request;
        for (; ended != NULL && count < HF_FLUSH_MAX; ended = ended->next) {
            hf_release_request(&releases[made], ended, NULL);
            requests[count++] = &releases[made++];
        }
        hf_transport_flush(client->transport, requests, count, deadline);
        while (made > 0)
            hf_request_free(&releases[--made]);
    }
}

static void close_client(hf_client *client, bool release) {
    if (client == NULL || hf_client_inherited(client))
        return; /* a child's copy may be in the middle of a change: leave it */
    hf_task *tasks;
    hf_hold *ended = NULL;
    pthread_mutex_lock(&client->mutex);
    __atomic_store_n(&client->closed, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&client->mutex);
    eventfd_write(client->closed_fd, 1);
    hf_transport_hurry(client->transport);
    hf_keeper_join(client);

    pthread_mutex_lock(&client->mutex);
    /* A subscription that outlived its client would look like a live waiter. */
    hf_links_close(client);
    tasks = hf_tasks_take(client);
    for (size_t i = 0; i < sizeof client->keeper.ids / sizeof *client->keeper.ids; i++) {
        for (hf_op *op = client->keeper.ids[i], *next; op != NULL; op = next) {
            next = op->same_id;
            op->hold->bury = true;
            tasks = add_undo(tasks, op);
            if (op->started)
                hf_op_finish(client, op, HF_ECANCELED);
        }
    }
    hf_confirms_end(client);
    while (client->keeper.undo != NULL) {
        hf_hold *hold = client->keeper.undo;
        client->keeper.undo = hold->undo_next;
        if (hold->listed) {
            hf_hold_drop_locked(hold); /* and is released with the others */
        } else {
            hold->next = ended;
            ended = hold;
        }
    }
    while (client->holds != NULL) {
        hf_hold *hold = client->holds;
        hf_client_remove(client, hold);
        hold->state = HF_RELEASED;
        hold->next = ended;
        ended = hold;
    }
    /* What was won and not read yet is released too: nobody knows that he holds it. */
    for (hf_news *news = client->keeper.news_first; news != NULL; news = news->next) {
        if (news->completion.hold == NULL)
            continue;
        hf_hold_drop_locked(news->completion.hold);
        news->completion.hold = NULL;
        news->completion.status = HF_ECANCELED;
    }
    client->swept = true;
    for (const hf_link *link = &client->keeper.first; link != NULL; link = link->next)
        hf_ops_notify(client, link);
    pthread_mutex_unlock(&client->mutex);

    if (release)
        tell_server(client, tasks, ended);
    hf_transport_shut(client->transport);
    pthread_mutex_lock(&client->mutex);
    while (tasks != NULL) {
        hf_task *next = tasks->next;
        if (tasks->news != NULL) { /* it was started */
            hf_completion completion = tasks->news->completion;
            completion.status = HF_ECLOSED;
            hf_tell(client, &tasks->news, &completion);
        }
        hf_task_free(tasks);
        tasks = next;
    }
    while (ended != NULL) {
        hf_hold *next = ended->next;
        hf_hold_drop_locked(ended);
        ended = next;
    }
    if (client->keeper.news_fd >= 0) /* for good: whoever polls it is to see the end */
        eventfd_write(client->keeper.news_fd, 1);
    client->told = true;
    pthread_mutex_unlock(&client->mutex);
    hf_client_drop(client);
}

void hf_client_close(hf_client *client) { close_client(client, true); }

void hf_client_abandon(hf_client *client) { close_client(client, false); }

hf_status hf_client_owner(const hf_client *client, char kind, int64_t serial, char *buffer,
                          size_t capacity) {
    if (client == NULL || buffer == NULL || (kind != 't' && kind != 'a' && kind != 'o') ||
        serial < 1)
        return hf_fail(HF_EINVAL,
                       "an owner needs a client, a kind (t, a or o) and a serial above 0");
    char rest[24] = {kind}; /* by hand: every acquire and release asks for it */
    size_t length = 1 + hf_digits(rest + 1, serial);
    if (capacity <= client->prefix_length + length)
        return hf_fail(HF_EINVAL, "the buffer for the owner is too small");
    memcpy(buffer, client->prefix, client->prefix_length);
    memcpy(buffer + client->prefix_length, rest, length + 1);
    return HF_OK;
}

hf_status hf_client_new_id(hf_client *client, char *id) {
    if (client->random_left < 16) {
        /* In stock, because asking the system costs more than all else here. */
        if (!hf_random(client->random, sizeof client->random))
            return hf_fail(HF_ENOMEM, "no random bytes from the system");
        client->random_left = sizeof client->random;
    }
    client->random_left -= 16;
    hf_hex(id, client->random + client->random_left, 16);
    memset(client->random + client->random_left, 0, 16);
    return HF_OK;
}

int64_t hf_client_floor(const hf_client *client, const hf_names *names) {
    size_t at = names->hash % BUCKETS;
    return client->floors[at].hash == names->hash ? client->floors[at].fence : 0;
}

hf_status hf_client_set_interrupt(hf_client *client, hf_interrupt check) {
    hf_status status = hf_client_check(client);
    if (status == HF_OK)
        client->interrupt = check;
    return status;
}

hf_status hf_client_listen(const hf_client *client, bool *listens) {
    int answer = client->interrupt();
    *listens = answer >= 0;
    return answer > 0 ? hf_fail(HF_EINTR, "a signal ended the wait") : HF_OK;
}

hf_status hf_client_sleep(hf_client *client, int64_t ms, bool interruptible) {
    struct pollfd fd = {.fd = client->closed_fd, .events = POLLIN};
    bool listens = client->interrupt != NULL;
    int ready = poll(&fd, 1, ms > INT32_MAX ? INT32_MAX : (int)ms);
    if (ready > 0)
        return hf_fail(HF_ECANCELED, "the client was closed during the wait");
    if (ready < 0 && interruptible)
        return hf_fail(HF_EINTR, "a signal ended the wait");
    return listens ? hf_client_listen(client, &listens) : HF_OK;
}

/* ----------------------------------------------------------------- Counts */

void hf_client_count(hf_client *client, hf_status status, int64_t waited_since) {
    hf_stats *stats = &client->stats;
    if (status == HF_OK) {
        stats->acquired++;
        if (waited_since > 0) {
            stats->waited++;
            stats->waited_us += (hf_now() - waited_since) / 1000;
        }
    } else if (status == HF_EUNKNOWN) {
        stats->unknown++;
    } else if (status == HF_EBUSY || status == HF_ETIMEOUT || status == HF_ECANCELED ||
               status == HF_EINTR || status == HF_EREPLICAS) {
        stats->refused++;
    }
}

hf_status hf_client_stats(hf_client *client, hf_stats *stats) {
    hf_status status = hf_client_check(client);
    if (status != HF_OK)
        return status;
    if (stats == NULL || stats->size < sizeof stats->size)
        return hf_fail(HF_EINVAL, "stats is NULL, or its size is not set");
    uint32_t size = stats->size;
    pthread_mutex_lock(&client->mutex);
    hf_stats found = client->stats;
    found.waiting = 0;
    for (const hf_link *link = &client->keeper.first; link != NULL; link = link->next) {
        found.waiting += (int64_t)link->started_ops;
        for (const hf_op *op = link->threads; op != NULL; op = op->after)
            found.waiting++;
    }
    pthread_mutex_unlock(&client->mutex);
    memset(stats, 0, size);
    memcpy(stats, &found, size < sizeof found ? size : sizeof found);
    stats->size = size;
    return HF_OK;
}

/* ----------------------------------------------------- Holds of a client */

uint64_t hf_stack_hash(const hf_names *names, int64_t lock_serial, const void *owner,
                       size_t length) {
    if (lock_serial != 0)
        return hf_hash(names->hash, &lock_serial, sizeof lock_serial);
    return hf_hash(names->hash, owner, length);
}

hf_status hf_client_add(hf_client *client, hf_hold *hold, bool keep) {
    size_t at = hold->names->hash % BUCKETS;
    if (client->floors[at].hash != hold->names->hash || client->floors[at].fence < hold->fence) {
        client->floors[at].hash = hold->names->hash;
        client->floors[at].fence = hold->fence;
    }
    if (client->closed)
        return hf_fail(HF_ECANCELED, "the client was closed during the call");
    hold->references++;
    hold->listed = true;
    client->stats.held++;
    hold->kept = keep;
    hold->number = ++client->hold_numbers;
    hold->previous = NULL;
    hold->next = client->holds;
    if (hold->next != NULL)
        hold->next->previous = hold;
    client->holds = hold;
    hold->stack = hf_stack_hash(hold->names, hold->lock_serial, hold->owner, hold->owner_length);
    hf_hold **stack = &client->stacks[hold->stack % BUCKETS];
    hold->older = *stack;
    /* Nested in one that is held: one and the same section, as to max_hold. */
    for (const hf_hold *outer = *stack; outer != NULL; outer = outer->older)
        if (outer->stack == hold->stack && outer->fence == hold->fence) {
            hold->granted_at = outer->granted_at;
            break;
        }
    *stack = hold;
    return HF_OK;
}

void hf_client_remove(hf_client *client, hf_hold *hold) {
    hf_hold **at = &client->stacks[hold->stack % BUCKETS];
    while (*at != hold)
        at = &(*at)->older;
    *at = hold->older;
    hold->kept = false;
    hf_timer_clear(&client->keeper.timers, &hold->timer);
    if (hold->previous != NULL)
        hold->previous->next = hold->next;
    else
        client->holds = hold->next;
    if (hold->next != NULL)
        hold->next->previous = hold->previous;
    hold->previous = hold->next = NULL;
    hold->listed = false;
    client->stats.held--;
}
