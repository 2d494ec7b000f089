/* The links to the servers: requests and their answers, and what grants come in on. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

/* How often a quiet subscription is looked at. */
#define PING_MS 3000
/* How long its test may take. */
#define TEST_MS 1000

static hf_link *link_of(hf_client *client, const hf_request *request) {
    (void)request;
    return &client->keeper.first;
}

/* ---------------------------------------------------------------- Tasks */

hf_task *hf_task_new(void (*done)(hf_client *, hf_task *, hf_status, const redisReply *)) {
    hf_task *task = calloc(1, sizeof *task);
    if (task != NULL) {
        task->done = done;
        hf_bytes_init(&task->request.encoded);
    }
    return task;
}

void hf_task_free(hf_task *task) {
    for (size_t i = 0; task->holds != NULL && i < task->count; i++)
        hf_hold_drop_locked(task->holds[i]);
    hf_names_drop(task->names);
    hf_request_free(&task->request);
    free(task->holds);
    free(task->ids);
    free(task->news);
    free(task);
}

static void finish(hf_client *client, hf_task *task, hf_status status, const redisReply *reply) {
    task->done(client, task, status, reply);
    hf_task_free(task);
}

static void append_last(hf_task **first, hf_task **last, hf_task *task) {
    task->next = NULL;
    if (*first != NULL)
        (*last)->next = task;
    else
        *first = task;
    *last = task;
}

void hf_task_submit(hf_client *client, hf_task *task, int64_t give_up_at) {
    if (client->swept) {
        hf_fail(HF_ECLOSED, "the client is closed");
        finish(client, task, HF_ECLOSED, NULL);
        return;
    }
    task->give_up_at = give_up_at;
    task->link = link_of(client, &task->request);
    append_last(&task->link->waiting_first, &task->link->waiting_last, task);
    hf_keeper_wake(client);
}

hf_task *hf_tasks_take(hf_client *client) {
    hf_task *all = NULL, **last = &all;
    for (hf_link *link = &client->keeper.first; link != NULL; link = link->next) {
        *last = link->sent_first;
        while (*last != NULL)
            last = &(*last)->next;
        *last = link->waiting_first;
        while (*last != NULL)
            last = &(*last)->next;
        link->sent_first = link->waiting_first = NULL;
    }
    return all;
}

static hf_task *take_first(hf_task **first, hf_task **last) {
    hf_task *task = *first;
    *first = task->next;
    if (*first == NULL)
        *last = NULL;
    return task;
}

/* What was sent has no answer and will get none: it is sent again first. */
static void lose_commands(hf_client *client, hf_link *link, int64_t now) {
    hf_connection_close(link->commands);
    link->commands = NULL;
    link->pair_sent = 0;
    hf_transport_look(client->transport); /* it may be elsewhere by now */
    for (hf_task *task = link->sent_first; task != NULL; task = task->next)
        task->doubtful = true;
    if (link->sent_first != NULL) {
        link->sent_last->next = link->waiting_first;
        if (link->waiting_first == NULL)
            link->waiting_last = link->sent_last;
        link->waiting_first = link->sent_first;
        link->sent_first = link->sent_last = NULL;
    }
    link->retry_ms = link->retry_ms < 5 ? 5 : link->retry_ms < 200 ? 2 * link->retry_ms : 200;
    link->retry_at = hf_after(now, hf_jitter(link->retry_ms / 2, link->retry_ms));
}

static void give_up_old(hf_client *client, hf_link *link, int64_t now) {
    hf_task *all = link->waiting_first;
    link->waiting_first = link->waiting_last = NULL;
    while (all != NULL) {
        hf_task *task = all;
        all = task->next;
        if (now < task->give_up_at) {
            append_last(&link->waiting_first, &link->waiting_last, task);
        } else {
            hf_status status = task->doubtful ? HF_EUNKNOWN : HF_ECONNECT;
            hf_fail(status, "%s cannot be reached", hf_transport_shown(client->transport));
            finish(client, task, status, NULL);
        }
    }
}

static void put_first(hf_link *link, hf_task *task) {
    task->next = link->waiting_first;
    link->waiting_first = task;
    if (link->waiting_last == NULL)
        link->waiting_last = task;
}

/* False: half a request is there, for want of memory; the connection is of no
 * use any more, and what waits is for the next one. */
static bool send_waiting(hf_client *client, hf_link *link, int64_t now) {
    while (link->waiting_first != NULL && now >= link->pause_until) {
        hf_bytes head;
        hf_task *task = take_first(&link->waiting_first, &link->waiting_last);
        if (task->request.encoded.failed) {
            hf_fail(HF_ENOMEM, "no memory");
            finish(client, task, HF_ENOMEM, NULL);
            continue;
        }
        hf_bytes_init(&head);
        hf_request_head(&task->request, task->whole, &head);
        bool ok = hf_connection_append(link->commands, &head) &&
                  hf_connection_append(link->commands, &task->request.encoded);
        hf_bytes_free(&head);
        if (!ok) {
            put_first(link, task);
            return false;
        }
        task->sent_at = now;
        append_last(&link->sent_first, &link->sent_last, task);
    }
    return true;
}

/* False: the connection is of no use any more. */
static bool take_answer(hf_client *client, hf_link *link, redisReply *reply, int64_t now) {
    if (link->sent_first == NULL)
        return false;
    hf_task *task = take_first(&link->sent_first, &link->sent_last);
    link->retry_ms = 0;
    if (reply->type != REDIS_REPLY_ERROR) {
        finish(client, task, HF_OK, reply);
        return true;
    }
    hf_status status;
    hf_after_error after = hf_error_class(reply->str, &status);
    if (after == HF_AFTER_FAIL || now >= task->give_up_at) {
        hf_fail(status, "%s answered: %.*s", hf_transport_shown(client->transport),
                hf_error_shown(reply->str), reply->str);
        finish(client, task, status, NULL);
        return true;
    }
    /* Not carried out: once more, in front of what came later. */
    if (after == HF_AFTER_LOAD)
        task->whole = true;
    else
        link->pause_until = hf_after(now, 20);
    put_first(link, task);
    return after != HF_AFTER_RECONNECT;
}

/* NULL: it is not known where the server is, or it cannot be reached just now. */
static hf_connection *start_connection(hf_client *client) {
    hf_connection *connection;
    hf_address address;
    if (!hf_transport_target(client->transport, &address))
        return NULL;
    hf_status status =
        hf_connection_start(&address, hf_transport_tls(client->transport), &connection);
    hf_address_unmake(&address);
    return status == HF_OK ? connection : NULL;
}

/* How long the oldest request under way may take to be answered. */
static int64_t answer_ms(const hf_client *client, const hf_link *link) {
    const hf_task *oldest = link->sent_first;
    int64_t ms = hf_transport_command_ms(client->transport);
    return oldest != NULL && oldest->answer_ms > 0 && oldest->answer_ms < ms ? oldest->answer_ms
                                                                             : ms;
}

static void drive_commands(hf_client *client, hf_link *link, int64_t now) {
    bool work = link->waiting_first != NULL || link->sent_first != NULL;
    if (link->commands == NULL && work) {
        give_up_old(client, link, now);
        if (now < link->retry_at || link->waiting_first == NULL)
            return;
        link->commands = start_connection(client);
        if (link->commands == NULL) {
            lose_commands(client, link, now);
            return;
        }
        link->commands->idle_since = now;
    }
    if (link->commands == NULL)
        return;
    int64_t oldest = !link->commands->connected ? link->commands->idle_since
                     : link->sent_first != NULL ? link->sent_first->sent_at
                                                : now;
    bool good = now < hf_after(oldest, answer_ms(client, link));
    do {
        good =
            send_waiting(client, link, now) && good && hf_connection_drive(link->commands) == HF_OK;
        while (good) {
            redisReply *reply;
            good = hf_connection_next(link->commands, &reply) == HF_OK;
            if (!good || reply == NULL)
                break;
            good = take_answer(client, link, reply, now);
            freeReplyObject(reply);
        }
    } while (good && link->waiting_first != NULL && now >= link->pause_until);
    if (!good)
        lose_commands(client, link, now);
}

/* -------------------------------------------------------------- Channels */

hf_channel *hf_channel_of(hf_client *client, const hf_names *names) {
    (void)names;
    return &client->keeper.own;
}

bool hf_channel_works(const hf_channel *channel) {
    return channel->subscribed && channel->link->mode == HF_GRANTS;
}

void hf_channel_want(hf_client *client, hf_channel *channel) {
    if (channel->wanted || channel->link->mode == HF_POLLING)
        return;
    channel->wanted = true;
    channel->link->wanted++;
    hf_keeper_wake(client);
}

static void take_channel(hf_channel *channel) {
    hf_link *link = channel->link;
    if (channel->previous != NULL)
        channel->previous->next = channel->next;
    else if (channel->asked)
        link->asked = channel->next;
    else
        link->unasked = channel->next;
    if (channel->next != NULL)
        channel->next->previous = channel->previous;
    link->subscribed -= channel->subscribed;
    link->wanted -= channel->wanted;
}

static void put_channel(hf_channel *channel, hf_link *link, bool asked) {
    hf_channel **list = asked ? &link->asked : &link->unasked;
    channel->link = link;
    channel->asked = asked;
    channel->subscribed = false;
    channel->previous = NULL;
    channel->next = *list;
    if (channel->next != NULL)
        channel->next->previous = channel;
    *list = channel;
    link->wanted += channel->wanted;
}

static void set_asked(hf_channel *channel, bool asked) {
    take_channel(channel);
    put_channel(channel, channel->link, asked);
}

static void close_subscription(hf_link *link) {
    hf_connection_close(link->subscription);
    link->subscription = NULL;
    link->pair_sent = 0;
    while (link->asked != NULL)
        set_asked(link->asked, false);
    if (link->mode == HF_TESTING)
        link->mode = HF_UNTESTED;
}

void hf_link_deaf(hf_client *client, hf_link *link) {
    int64_t now = hf_now(), ms = link->listen_ms;
    close_subscription(link);
    hf_transport_look(client->transport);
    if (link->failing_since == 0)
        link->failing_since = now;
    link->listen_ms = ms < 5 ? 5 : ms < 200 ? 2 * ms : 200;
    link->listen_at = hf_after(now, hf_jitter(ms / 2, ms + 1));
    hf_ops_notify(client, link);
    hf_keeper_wake(client);
    if (now < hf_after(link->failing_since, hf_transport_patience_ms(client->transport)))
        return;
    for (hf_channel *channel = link->unasked, *next; channel != NULL; channel = next) {
        next = channel->next;
        hf_channel_give_up(client, channel, now);
    }
}

/* What came of its test: all who wait on it are to look. */
static void set_mode(hf_client *client, hf_link *link, int mode) {
    link->mode = mode;
    if (mode == HF_POLLING)
        close_subscription(link);
    if (mode == HF_UNTESTED)
        hf_link_deaf(client, link); /* once more, on a new connection */
    if (mode == HF_GRANTS)
        link->tests_failed = 0;
    for (hf_channel *channel = link->asked; channel != NULL; channel = channel->next)
        hf_channel_notify(client, channel);
    for (hf_channel *channel = link->unasked; channel != NULL; channel = channel->next)
        hf_channel_notify(client, channel);
}

/* Its test failed: try it again, or, for good or after a second time, poll. */
static void untested(hf_client *client, hf_link *link, bool for_good) {
    set_mode(client, link, for_good || ++link->tests_failed > 1 ? HF_POLLING : HF_UNTESTED);
}

static void tested(hf_client *client, hf_task *task, hf_status status, const redisReply *reply) {
    hf_link *link = task->link;
    if (link->mode != HF_TESTING || (status == HF_OK && hf_reply_number(reply) > 0))
        return; /* the message decides */
    untested(client, link, status == HF_OK || strstr(hf_error_message(), "NOPERM") != NULL);
}

static void subscribed(hf_client *client, hf_channel *channel) {
    hf_link *link = channel->link;
    if (!channel->subscribed)
        link->subscribed++;
    channel->subscribed = true;
    channel->epoch++;
    link->listen_ms = link->failing_since = 0;
    if (link->mode == HF_UNTESTED) {
        hf_task *task = hf_task_new(tested);
        if (task == NULL) {
            hf_link_deaf(client, link); /* and made anew, when there may be memory */
            return;
        }
        link->mode = HF_TESTING;
        link->tested_at = hf_now();
        hf_request_begin(&task->request, &hf_script_selftest);
        hf_request_bytes(&task->request, channel->name, channel->length);
        hf_task_submit(client, task, hf_after(hf_now(), TEST_MS));
    }
    hf_channel_notify(client, channel);
}

static hf_channel *find_channel(hf_client *client, const redisReply *name) {
    hf_channel *own = &client->keeper.own;
    return name->type == REDIS_REPLY_STRING && name->len == own->length &&
                   memcmp(name->str, own->name, own->length) == 0
               ? own
               : NULL;
}

static void heard(hf_client *client, hf_link *link, const redisReply *reply) {
    link->heard_at = hf_now();
    if (reply->type == REDIS_REPLY_ERROR) {
        bool refused = link->subscribed == 0 && strncmp(reply->str, "NOPERM", 6) == 0;
        if (refused) /* it works without, by asking often */
            set_mode(client, link, HF_POLLING);
        else /* it passes: BUSY, LOADING and their like */
            hf_link_deaf(client, link);
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING)
        return;
    const char *kind = reply->element[0]->str;
    hf_channel *channel = find_channel(client, reply->element[1]);
    if (strcmp(kind, "subscribe") == 0 && channel != NULL && channel->link == link) {
        subscribed(client, channel);
    } else if (strcmp(kind, "unsubscribe") == 0) {
        hf_link_deaf(client, link); /* nobody here asked for that */
    } else if (strcmp(kind, "message") == 0 && reply->elements >= 3 &&
               reply->element[2]->type == REDIS_REPLY_STRING) {
        const char *text = reply->element[2]->str;
        if (strcmp(text, "t") == 0 && link->mode == HF_TESTING)
            set_mode(client, link, HF_GRANTS);
        else if (text[0] == 'g')
            hf_grant(client, link, text);
    }
}

hf_status hf_link_listen(hf_client *client, hf_link *link) {
    hf_connection *connection = link->subscription;
    hf_status status = hf_connection_drive(connection);
    while (status == HF_OK && connection == link->subscription) {
        redisReply *reply;
        status = hf_connection_next(connection, &reply);
        if (status != HF_OK || reply == NULL)
            break;
        heard(client, link, reply);
        freeReplyObject(reply);
    }
    return status;
}

/* False: no memory. */
static bool ask_for_channels(hf_link *link) {
    for (hf_channel *channel = link->unasked, *next; channel != NULL; channel = next) {
        next = channel->next;
        if (!channel->wanted)
            continue;
        if (redisAppendCommand(link->subscription->redis, "SUBSCRIBE %b", channel->name,
                               channel->length) != REDIS_OK)
            return false;
        set_asked(channel, true);
    }
    return true;
}

static void drive_subscription(hf_client *client, hf_link *link, int64_t now) {
    int64_t command_ms = hf_transport_command_ms(client->transport);
    if (link->mode == HF_POLLING || link->wanted == 0)
        return;
    /* Nobody would be told anything by a server that is the master no more. */
    if (link->subscription != NULL && link->version != hf_transport_version(client->transport))
        hf_link_deaf(client, link);
    if (link->subscription == NULL) {
        if (now < link->listen_at)
            return;
        link->version = hf_transport_version(client->transport);
        link->subscription = start_connection(client);
        if (link->subscription == NULL) {
            hf_link_deaf(client, link);
            return;
        }
        link->heard_at = link->pinged_at = now;
    }
    bool good = ask_for_channels(link);
    if (link->subscribed > 0 && now >= hf_after(link->pinged_at, PING_MS)) {
        redisAppendCommand(link->subscription->redis, "PING");
        link->pinged_at = now;
    }
    if (link->mode == HF_TESTING && now >= hf_after(link->tested_at, TEST_MS)) {
        untested(client, link, false); /* no word of the test: no grants either */
        return;
    }
    bool mine = link->reader == NULL || link->subscribed == 0 ||
                (hf_connection_events(link->subscription) & POLLOUT) != 0;
    if (good && mine)
        good = hf_link_listen(client, link) == HF_OK;
    if (!good ||
        (link->subscription != NULL && now >= hf_after(link->heard_at, PING_MS + command_ms)))
        hf_link_deaf(client, link);
}

/* ----------------------------------------------------------------- Links */

void hf_link_drive(hf_client *client, hf_link *link, int64_t now) {
    drive_subscription(client, link, now);
    drive_commands(client, link, now);
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t hf_link_wake(const hf_client *client, const hf_link *link) {
    int64_t command_ms = hf_transport_command_ms(client->transport), wake = HF_NO_DEADLINE;
    if (link->commands == NULL && link->waiting_first != NULL)
        wake = earlier(wake, link->retry_at);
    if (link->commands != NULL && link->waiting_first != NULL)
        wake = earlier(wake, link->pause_until);
    if (link->commands != NULL && !link->commands->connected)
        wake = earlier(wake, hf_after(link->commands->idle_since, command_ms));
    else if (link->sent_first != NULL)
        wake = earlier(wake, hf_after(link->sent_first->sent_at, answer_ms(client, link)));
    if (link->mode == HF_POLLING || link->wanted == 0)
        return wake;
    if (link->subscription == NULL)
        return earlier(wake, link->listen_at);
    wake = earlier(wake, hf_after(link->heard_at, PING_MS + command_ms));
    if (link->subscribed > 0)
        wake = earlier(wake, hf_after(link->pinged_at, PING_MS));
    if (link->mode == HF_TESTING)
        wake = earlier(wake, hf_after(link->tested_at, TEST_MS));
    return wake;
}

void hf_links_close(hf_client *client) {
    for (hf_link *link = &client->keeper.first; link != NULL; link = link->next) {
        hf_connection_close(link->commands);
        link->commands = NULL;
        close_subscription(link);
    }
}
