/* The links to the servers: requests and their answers, and what grants come in on. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "lock/client.h"

/* How often a quiet subscription is looked at. */
#define PING_MS 3000
/* How soon what a server refuses for now is asked again. */
#define INSIST_MS 200
/* How long its test may take. */
#define TEST_MS 1000

/* Of a channel that nobody waits on, in a Cluster. */
#define LINGER_MS 3000
/* Before a request is sent again that was not carried out. */
#define AGAIN_MS 20
/* Redirections of one request, one after the other; the later ones with a pause. */
#define REDIRECTIONS_MAX 16
#define REDIRECTIONS_AT_ONCE 3

hf_link *hf_link_find(hf_client *client, int node) {
    hf_link *link = &client->keeper.first;
    while (link != NULL && link->node != node)
        link = link->next;
    return link;
}

/* The link to the node, made if there is none. Without memory the first, whose server
 * will say where to go. */
static hf_link *link_to(hf_client *client, int node) {
    hf_keeper *keeper = &client->keeper;
    hf_link *link = hf_link_find(client, node);
    if (link != NULL)
        return link;
    link = calloc(1, sizeof *link);
    if (link != NULL && hf_timer_reserve(&keeper->timers)) {
        link->node = node;
        link->next = keeper->first.next;
        keeper->first.next = link;
        return link;
    }
    free(link);
    return &keeper->first;
}

static hf_link *link_of(hf_client *client, unsigned slot) {
    return link_to(client, hf_transport_node(client->transport, slot));
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

/* To those that wait for the server that serves it now. */
static void put_last(hf_client *client, hf_task *task) {
    if (!task->pinned && !task->asking)
        task->link = link_of(client, task->request.slot);
    append_last(&task->link->waiting_first, &task->link->waiting_last, task);
}

static void delay(hf_client *client, hf_task *task, int64_t until) {
    task->asking = false;
    task->retry_at = until;
    task->next = client->keeper.delayed;
    client->keeper.delayed = task;
}

void hf_task_submit(hf_client *client, hf_task *task, int64_t give_up_at) {
    if (client->swept) {
        hf_fail(HF_ECLOSED, "the client is closed");
        finish(client, task, HF_ECLOSED, NULL);
        return;
    }
    task->give_up_at = give_up_at;
    put_last(client, task);
    hf_keeper_wake(client);
}

hf_task *hf_tasks_take(hf_client *client) {
    hf_task *all = client->keeper.delayed, **last = &all;
    client->keeper.delayed = NULL;
    for (hf_link *link = &client->keeper.first; link != NULL; link = link->next) {
        while (*last != NULL)
            last = &(*last)->next;
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

/* All that waits on the link is to go where it is served now. */
static void sort_again(hf_client *client, hf_link *link) {
    hf_task *all = link->waiting_first;
    link->waiting_first = link->waiting_last = NULL;
    while (all != NULL) {
        hf_task *task = all;
        all = task->next;
        task->asking = false;
        put_last(client, task);
    }
}

/* What was sent has no answer and will get none: it is sent again first. */
static void lose_commands(hf_client *client, hf_link *link, int64_t now) {
    hf_connection_close(link->commands);
    link->commands = NULL;
    link->asked_first = false;
    link->pair_sent = 0;
    hf_transport_look(client->transport); /* it may be elsewhere by now */
    for (hf_task *task = link->sent_first; task != NULL; task = task->next) {
        task->doubtful = true;
        task->asking = false;
    }
    if (link->sent_first != NULL) {
        link->sent_last->next = link->waiting_first;
        if (link->waiting_first == NULL)
            link->waiting_last = link->sent_last;
        link->waiting_first = link->sent_first;
        link->sent_first = link->sent_last = NULL;
    }
    sort_again(client, link);
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
        bool ok = (!task->asking || hf_connection_append_asking(link->commands)) &&
                  hf_connection_append(link->commands, &head) &&
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

/* It was not carried out there: where it is to go now, or when. False: nowhere. */
static bool redirect(hf_client *client, hf_link *link, hf_task *task, hf_after_error after,
                     const char *text, int64_t now) {
    hf_request alone;
    if (after == HF_AFTER_SPLIT) {
        task->redirections = 0; /* it is not sent round in circles */
        if (!task->split && hf_request_alone(&alone, &task->request)) {
            hf_request_free(&task->request);
            hf_request_move(&task->request, &alone);
            task->split = true;
            task->asking = false;
            put_last(client, task);
        } else {
            delay(client, task, hf_after(now, AGAIN_MS));
        }
        return true;
    }
    int to = hf_transport_redirect(client->transport, link->node, text);
    if (++task->redirections > REDIRECTIONS_MAX) {
        hf_fail(HF_ESERVER, "%s: redirected %d times, because its nodes do not agree",
                hf_transport_shown(client->transport), REDIRECTIONS_MAX);
        return false;
    }
    task->asking = after == HF_AFTER_ASK && to >= 0;
    if (to < 0 || task->redirections > REDIRECTIONS_AT_ONCE) {
        delay(client, task, hf_after(now, AGAIN_MS));
        return true;
    }
    if (task->asking)
        task->link = link_to(client, to);
    put_last(client, task);
    return true;
}

/* False: the connection is of no use any more. */
static bool take_answer(hf_client *client, hf_link *link, redisReply *reply, int64_t now) {
    if (link->sent_first == NULL)
        return false;
    if (link->sent_first->asking && !link->asked_first) {
        link->asked_first = true; /* that was the answer to ASKING */
        return true;
    }
    link->asked_first = false;
    hf_task *task = take_first(&link->sent_first, &link->sent_last);
    link->retry_ms = 0;
    if (reply->type != REDIS_REPLY_ERROR) {
        finish(client, task, HF_OK, reply);
        return true;
    }
    hf_status status;
    hf_after_error after = hf_transport_error(
        client->transport, hf_transport_shown(client->transport), reply->str, &status);
    if (after == HF_AFTER_FAIL && task->insists && now < task->give_up_at &&
        !hf_error_permission(reply->str)) {
        delay(client, task, hf_after(now, INSIST_MS));
        return true;
    }
    bool clustered = hf_transport_clustered(client->transport);
    bool stays =
        task->pinned && clustered && after != HF_AFTER_LOAD; /* and is of no use elsewhere */
    if (after == HF_AFTER_FAIL || now >= task->give_up_at || stays) {
        finish(client, task, status, NULL);
        return true;
    }
    /* Not carried out: once more, in front of what came later. */
    switch (after) {
    case HF_AFTER_LOAD:
        task->whole = true;
        put_first(link, task);
        break;
    case HF_AFTER_MOVED:
    case HF_AFTER_ASK:
    case HF_AFTER_SPLIT:
        if (!redirect(client, link, task, after, reply->str, now))
            finish(client, task, HF_ESERVER, NULL);
        break;
    default:
        if (clustered) {
            hf_transport_look(client->transport); /* another may serve it by now */
            delay(client, task, hf_after(now, AGAIN_MS));
        } else {
            link->pause_until = hf_after(now, AGAIN_MS);
            put_first(link, task);
        }
    }
    return after != HF_AFTER_RECONNECT;
}

/* NULL: it is not known where the server is, or it cannot be reached just now. */
static hf_connection *start_connection(hf_client *client, const hf_link *link) {
    hf_connection *connection;
    hf_address address;
    if (!hf_transport_target(client->transport, link->node, &address))
        return NULL;
    hf_status status =
        hf_connection_start(&address, hf_transport_tls(client->transport), &connection);
    hf_address_unmake(&address);
    if (status != HF_OK)
        return NULL;
    connection->version = hf_transport_version(client->transport, link->node);
    return connection;
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
        link->commands = start_connection(client, link);
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
    if (hf_transport_clustered(client->transport)) /* is it still the same server? */
        good =
            good && link->commands->version == hf_transport_version(client->transport, link->node);
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

/* "hf:<client id>", or "hf:{tag}:<client id>". */
void hf_channel_name(const hf_client *client, const hf_names *names, hf_bytes *name) {
    if (!hf_transport_clustered(client->transport)) {
        hf_bytes_add(name, client->channel, strlen(client->channel));
        return;
    }
    hf_bytes_add(name, "hf:", 3);
    hf_bytes_add(name, names->data + names->length, names->tagged - names->length - 1);
    hf_bytes_add(name, client->channel + 2, strlen(client->channel + 2));
}

static hf_channel **same_hash(hf_client *client, const char *name, size_t length) {
    size_t count = sizeof client->keeper.channels / sizeof *client->keeper.channels;
    return &client->keeper.channels[hf_hash(0, name, length) % count];
}

static hf_channel *find_channel(hf_client *client, const char *name, size_t length) {
    hf_channel *channel = &client->keeper.own;
    if (hf_transport_clustered(client->transport))
        channel = *same_hash(client, name, length);
    while (channel != NULL &&
           (channel->length != length || memcmp(channel->name, name, length) != 0))
        channel = channel->same_hash;
    return channel;
}

hf_channel *hf_channel_get(hf_client *client, const hf_names *names) {
    hf_bytes name;
    if (!hf_transport_clustered(client->transport))
        return &client->keeper.own;
    hf_bytes_init(&name);
    hf_channel_name(client, names, &name);
    hf_channel *channel = name.failed ? NULL : find_channel(client, name.data, name.length);
    if (channel == NULL && !name.failed &&
        (channel = calloc(1, sizeof *channel + name.length)) != NULL) {
        hf_channel **bucket = same_hash(client, name.data, name.length);
        channel->name = memcpy(channel + 1, name.data, name.length);
        channel->length = name.length;
        channel->slot = names->slot;
        channel->same_hash = *bucket;
        *bucket = channel;
        put_channel(channel, link_of(client, channel->slot), false);
    }
    hf_bytes_free(&name);
    return channel;
}

static void free_channel(hf_client *client, hf_channel *channel) {
    hf_channel **at = same_hash(client, channel->name, channel->length);
    while (*at != channel)
        at = &(*at)->same_hash;
    *at = channel->same_hash;
    take_channel(channel);
    free(channel);
}

void hf_channel_leave(hf_client *client, hf_channel *channel) {
    channel->left_at = hf_now();
    if (channel != &client->keeper.own && !channel->asked)
        free_channel(client, channel);
}

bool hf_grants_come(hf_client *client, const hf_names *names) {
    hf_bytes name;
    if (!hf_transport_clustered(client->transport))
        return hf_channel_works(&client->keeper.own);
    hf_bytes_init(&name);
    hf_channel_name(client, names, &name);
    const hf_channel *channel = name.failed ? NULL : find_channel(client, name.data, name.length);
    hf_bytes_free(&name);
    return channel != NULL && hf_channel_works(channel);
}

bool hf_channel_works(const hf_channel *channel) {
    return channel->subscribed && channel->link->mode == HF_GRANTS;
}

void hf_channel_want(hf_client *client, hf_channel *channel) {
    if (channel->wanted)
        return;
    channel->wanted = true;
    channel->link->wanted++;
    hf_keeper_wake(client);
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

/* Its test failed: try it again, or, for good or after a second time, poll. In a Cluster the
 * channel may just have gone with its slot, which says nothing of the server. */
static void untested(hf_client *client, hf_link *link, bool for_good) {
    int most = hf_transport_clustered(client->transport) ? 4 : 1;
    set_mode(client, link, for_good || ++link->tests_failed > most ? HF_POLLING : HF_UNTESTED);
}

static void tested(hf_client *client, hf_task *task, hf_status status, const redisReply *reply) {
    hf_link *link = task->link;
    if (link->mode != HF_TESTING || (status == HF_OK && hf_reply_number(reply) > 0))
        return; /* the message decides */
    bool deaf = status == HF_OK && !hf_transport_clustered(client->transport);
    bool refused = status != HF_OK && strstr(hf_error_message(), "NOPERM") != NULL;
    untested(client, link, deaf || refused);
}

static void subscribed(hf_client *client, hf_channel *channel) {
    hf_link *link = channel->link;
    if (!channel->subscribed)
        link->subscribed++;
    channel->subscribed = true;
    channel->epoch++;
    channel->retry_ms = 0;
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
        task->pinned = true;
        task->link = link;
        hf_task_submit(client, task, hf_after(hf_now(), TEST_MS));
    }
    hf_channel_notify(client, channel);
}

/* It was refused, or has ended: ask for it again, soon, and slower and slower. */
static void ask_again(hf_client *client, hf_channel *channel) {
    int64_t ms = channel->retry_ms;
    hf_link *link = channel->link;
    set_asked(channel, false);
    channel->retry_ms = ms < 5 ? 5 : ms < 200 ? 2 * ms : 200;
    channel->retry_at = hf_after(hf_now(), hf_jitter(ms / 2, ms + 1));
    if (link->mode == HF_TESTING && link->subscribed == 0)
        link->mode = HF_UNTESTED;
    if (channel->lists == NULL)
        free_channel(client, channel);
    hf_keeper_wake(client);
}

static void ended(hf_client *client, hf_channel *channel) {
    hf_transport_look(client->transport);
    ask_again(client, channel);
}

/* What was asked for is another node's: MOVED, with the slot and the place. */
static void moved(hf_client *client, hf_link *link, const char *text) {
    unsigned long slot = strtoul(text + strlen("MOVED "), NULL, 10);
    hf_transport_redirect(client->transport, link->node, text);
    for (hf_channel *channel = link->asked, *next; channel != NULL; channel = next) {
        next = channel->next;
        if (channel->slot == slot && !channel->subscribed)
            ask_again(client, channel);
    }
}

static void heard(hf_client *client, hf_link *link, const redisReply *reply) {
    link->heard_at = hf_now();
    bool clustered = hf_transport_clustered(client->transport);
    if (reply->type == REDIS_REPLY_ERROR) {
        bool refused =
            strncmp(reply->str, "NOPERM", 6) == 0 && (clustered || link->subscribed == 0);
        bool unknown = clustered && strncmp(reply->str, "ERR unknown command", 19) == 0;
        if (refused || unknown) /* it works without, by asking often */
            set_mode(client, link, HF_POLLING);
        else if (clustered && strncmp(reply->str, "MOVED ", 6) == 0)
            moved(client, link, reply->str);
        else /* it passes: BUSY, LOADING and their like */
            hf_link_deaf(client, link);
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING)
        return;
    const char *kind = reply->element[0]->str;
    const redisReply *name = reply->element[1];
    hf_channel *channel =
        name->type == REDIS_REPLY_STRING ? find_channel(client, name->str, name->len) : NULL;
    bool ours = channel != NULL && channel->link == link && channel->asked;
    if (clustered && *kind == 's')
        kind++; /* "ssubscribe", and so on */
    if (strcmp(kind, "subscribe") == 0 && ours) {
        subscribed(client, channel);
    } else if (strcmp(kind, "unsubscribe") == 0) {
        /* Its slot has moved; or, of a single server, nobody here asked for that. */
        if (!clustered)
            hf_link_deaf(client, link);
        else if (ours && channel->subscribed)
            ended(client, channel);
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
static bool ask_for_channels(const hf_client *client, hf_link *link, int64_t now) {
    bool clustered = hf_transport_clustered(client->transport);
    for (hf_channel *channel = link->unasked, *next; channel != NULL; channel = next) {
        next = channel->next;
        if (!channel->wanted || now < channel->retry_at)
            continue;
        const char *words[] = {clustered ? "SSUBSCRIBE" : "SUBSCRIBE", channel->name};
        size_t lengths[] = {strlen(words[0]), channel->length};
        if (!hf_connection_append_words(link->subscription, 2, words, lengths))
            return false;
        set_asked(channel, true);
    }
    return true;
}

/* Let go of the channels that nobody has waited on for a while. */
static void drop_channels(hf_client *client, hf_link *link, int64_t now) {
    for (hf_channel *channel = link->asked, *next; channel != NULL; channel = next) {
        next = channel->next;
        if (channel == &client->keeper.own || channel->lists != NULL || !channel->subscribed ||
            now < hf_after(channel->left_at, LINGER_MS))
            continue;
        const char *words[] = {"SUNSUBSCRIBE", channel->name};
        hf_connection_append_words(link->subscription, 2, words, (size_t[]){12, channel->length});
        free_channel(client, channel);
    }
}

static void drive_subscription(hf_client *client, hf_link *link, int64_t now) {
    int64_t command_ms = hf_transport_command_ms(client->transport);
    if (link->wanted == 0 && link->subscription != NULL) {
        close_subscription(link); /* all its channels have gone */
        link->failing_since = 0;
    }
    if (link->mode == HF_POLLING || link->wanted == 0)
        return;
    /* Nobody would be told anything by a server that is the master no more. */
    if (link->subscription != NULL &&
        link->version != hf_transport_version(client->transport, link->node))
        hf_link_deaf(client, link);
    if (link->subscription == NULL) {
        if (now < link->listen_at)
            return;
        link->version = hf_transport_version(client->transport, link->node);
        link->subscription = start_connection(client, link);
        if (link->subscription == NULL) {
            hf_link_deaf(client, link);
            return;
        }
        link->heard_at = link->pinged_at = now;
    }
    bool good = ask_for_channels(client, link, now);
    if (link->subscribed > 0 && now >= hf_after(link->pinged_at, PING_MS)) {
        hf_connection_append_words(link->subscription, 1, (const char *[]){"PING"}, NULL);
        link->pinged_at = now;
        drop_channels(client, link, now);
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
    for (const hf_channel *channel = link->unasked; channel != NULL; channel = channel->next)
        if (channel->wanted)
            wake = earlier(wake, channel->retry_at);
    wake = earlier(wake, hf_after(link->heard_at, PING_MS + command_ms));
    if (link->subscribed > 0)
        wake = earlier(wake, hf_after(link->pinged_at, PING_MS));
    if (link->mode == HF_TESTING)
        wake = earlier(wake, hf_after(link->tested_at, TEST_MS));
    return wake;
}

static void send_delayed(hf_client *client, int64_t now) {
    hf_task *all = client->keeper.delayed;
    client->keeper.delayed = NULL;
    while (all != NULL) {
        hf_task *task = all;
        all = task->next;
        if (now < task->retry_at)
            delay(client, task, task->retry_at);
        else
            put_last(client, task);
    }
}

static void move_channels(hf_client *client, hf_link *link, hf_channel *channel) {
    for (hf_channel *next; channel != NULL; channel = next) {
        next = channel->next;
        hf_link *to = link_of(client, channel->slot);
        if (to == link)
            continue;
        take_channel(channel);
        put_channel(channel, to, false);
        channel->retry_at = 0;
        hf_channel_ops_move(client, channel, link);
        if (channel->lists == NULL)
            free_channel(client, channel);
    }
}

/* Nobody uses the link, and nobody will. */
static bool spent(hf_client *client, const hf_link *link) {
    return link->waiting_first == NULL && link->sent_first == NULL && link->asked == NULL &&
           link->unasked == NULL && link->threads == NULL && link->started_ops == 0 &&
           !hf_transport_serves(client->transport, link->node);
}

static void close_link(hf_link *link) {
    hf_connection_close(link->commands);
    link->commands = NULL;
    close_subscription(link);
}

void hf_links_follow(hf_client *client, int64_t now) {
    hf_keeper *keeper = &client->keeper;
    if (keeper->delayed != NULL)
        send_delayed(client, now);
    unsigned change = hf_transport_change(client->transport);
    if (change == keeper->change)
        return;
    keeper->change = change;
    for (hf_link *link = &keeper->first; link != NULL; link = link->next) {
        sort_again(client, link);
        move_channels(client, link, link->asked);
        move_channels(client, link, link->unasked);
    }
    for (hf_link **at = &keeper->first.next; *at != NULL;) {
        hf_link *link = *at;
        if (spent(client, link)) {
            close_link(link);
            hf_timer_clear(&keeper->timers, &link->unread);
            hf_timer_unreserve(&keeper->timers);
            *at = link->next;
            free(link);
        } else {
            at = &link->next;
        }
    }
}

void hf_links_close(hf_client *client) {
    for (hf_link *link = &client->keeper.first; link != NULL; link = link->next)
        close_link(link);
}

void hf_links_free(hf_client *client) {
    hf_keeper *keeper = &client->keeper;
    hf_links_close(client);
    for (size_t i = 0; i < sizeof keeper->channels / sizeof *keeper->channels; i++)
        for (hf_channel *channel = keeper->channels[i], *next; channel != NULL; channel = next) {
            next = channel->same_hash;
            free(channel);
        }
    while (keeper->first.next != NULL) {
        hf_link *link = keeper->first.next;
        keeper->first.next = link->next;
        free(link);
    }
}
