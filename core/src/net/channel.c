#include "net/channel.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/simulated.h"

/* How often a quiet subscription is tested with a PING. */
#define PING_MS 3000
/* After this time without a subscription, waiters ask the server instead. */
#define DEAF_MS 3000
/* The time limit for the test of a subscription. */
#define TEST_MS 1000
/* The pause before a new test where grants do not work: it grows. */
#define RETEST_MIN_MS 1000
#define RETEST_MAX_MS 30000
/* How long a channel without waiters is kept: in a cluster, and on a single server. */
#define LINGER_MS 3000
#define OWN_LINGER_MS 60000

#define CHANNEL_OF(at) HF_OF(hf_channel, item, at)

/* ------------------------------------------------------- A link's channels */

static bool is_asked(const hf_channel *channel) {
    return channel->item.list == &channel->link->asked;
}

static void take_channel(hf_channel *channel) {
    if (hf_channel_works(channel))
        channel->deaf_since = hf_now();
    channel->link->subscribed -= channel->subscribed;
    channel->link->wanted -= channel->wanted;
    hf_list_remove(&channel->item);
}

static void put_channel(hf_channel *channel, hf_link *link, hf_list *list) {
    channel->link = link;
    channel->subscribed = false;
    hf_list_add_first(list, &channel->item);
    link->wanted += channel->wanted;
}

static void set_asked(hf_channel *channel, bool asked) {
    hf_link *link = channel->link;
    take_channel(channel);
    put_channel(channel, link, asked ? &link->asked : &link->unasked);
}

/* ----------------------------------------------------------------- By name */

#define NAMED(at) HF_OF(hf_channel, by_name, at)

static hf_channel *find_channel(hf_links *links, const char *name, size_t length) {
    HF_EACH_OF(at, &links->channels, hf_hash(0, name, length))
    if (NAMED(at)->length == length && memcmp(NAMED(at)->name, name, length) == 0)
        return NAMED(at);
    return NULL;
}

static hf_channel *make_channel(hf_links *links, unsigned slot, const hf_bytes *name) {
    hf_channel *channel = name->failed ? NULL : calloc(1, sizeof *channel + name->length + 1);
    if (channel == NULL)
        return NULL;
    channel->epoch = 1; /* 0: an op that has not asked */
    channel->length = name->length;
    memcpy(channel->name, name->data, name->length);
    hf_index_add(&links->channels, &channel->by_name, hf_hash(0, name->data, name->length));
    hf_link *link = hf_link_of(links, slot);
    put_channel(channel, link, &link->unasked);
    return channel;
}

/* Return the lock's channel; NULL: it has none, or there is no memory to make it. */
static hf_channel *channel_of(hf_links *links, const hf_names *names, bool make) {
    hf_bytes name;
    if (links->own != NULL)
        return links->own;
    hf_bytes_init(&name);
    hf_names_channel(names, hf_discovery_clustered(links->discovery), links->client_id, &name);
    hf_channel *channel = name.failed ? NULL : find_channel(links, name.data, name.length);
    if (channel == NULL && make)
        channel = make_channel(links, names->slot, &name);
    if (!hf_discovery_clustered(links->discovery))
        links->own = channel;
    hf_bytes_free(&name);
    return channel;
}

/* The lock becomes the key of the channel's self-test: the same node serves both, and the user has
 * permission for a lock that it waits for. */
hf_channel *hf_channel_get(hf_links *links, hf_names *names) {
    hf_channel *channel = channel_of(links, names, true);
    if (channel != NULL && channel->names != names) {
        hf_names_drop(channel->names);
        channel->names = hf_names_keep(names);
    }
    return channel;
}

static void destroy_channel(hf_channel *channel) {
    hf_names_drop(channel->names);
    free(channel);
}

static void free_channel(hf_links *links, hf_channel *channel) {
    hf_index_remove(&links->channels, &channel->by_name);
    take_channel(channel);
    destroy_channel(channel);
}

void hf_channel_leave(hf_links *links, hf_channel *channel) {
    channel->left_at = hf_now();
    if (channel != links->own && !is_asked(channel))
        free_channel(links, channel);
}

bool hf_channel_works(const hf_channel *channel) {
    return channel->subscribed && channel->link->mode == HF_GRANTS;
}

int64_t hf_channel_patience(const hf_channel *channel) {
    return hf_after(channel->deaf_since, DEAF_MS);
}

bool hf_grants_come(hf_links *links, const hf_names *names) {
    const hf_channel *channel = channel_of(links, names, false);
    return channel != NULL && hf_channel_works(channel);
}

void hf_channel_want(hf_links *links, hf_channel *channel) {
    if (channel->wanted)
        return;
    channel->wanted = true;
    channel->deaf_since = hf_now();
    channel->link->wanted++;
    links->listener->wake(links);
}

void hf_channels_end(hf_links *links) {
    for (hf_entry *at = hf_index_after(&links->channels, NULL), *next; at != NULL; at = next) {
        next = hf_index_after(&links->channels, at);
        destroy_channel(NAMED(at));
    }
    hf_index_end(&links->channels);
}

/* ---------------------------------------------------------- A subscription */

void hf_link_close_subscription(hf_links *links, hf_link *link) {
    hf_connection_close(link->subscription);
    hf_dial_drop(link->subscription_dial);
    link->subscription = NULL;
    link->subscription_dial = NULL;
    link->pair_sent = 0;
    HF_EACH(at, &link->asked) {
        if (CHANNEL_OF(at)->users.first == NULL && CHANNEL_OF(at) != links->own)
            free_channel(links, CHANNEL_OF(at));
        else
            set_asked(CHANNEL_OF(at), false);
    }
    if (link->mode != HF_POLLING)
        link->mode = HF_UNTESTED; /* the next connection may reach another server of that name */
}

void hf_link_deaf(hf_links *links, hf_link *link) {
    int64_t now = hf_now();
    if (link->subscription != NULL) {
        HF_MARK("H3");
        hf_discovery_broke(links->discovery);
    }
    hf_link_close_subscription(links, link);
    hf_discovery_look(links->discovery);
    hf_try_later(&link->listens, now);
    links->listener->deaf(links, link);
    links->listener->wake(links);
    bool hopeless = link->failure != HF_OK && link->failure != HF_ECONNECT;
    HF_EACH(at, &link->unasked)
    links->listener->silent(links, CHANNEL_OF(at), now, hopeless);
}

/* Set the mode after a self-test, and have all waiters of the link look again. */
static void set_mode(hf_links *links, hf_link *link, hf_link_mode mode) {
    link->mode = mode;
    if (mode == HF_POLLING) {
        hf_link_close_subscription(links, link);
        link->retest_ms = hf_backoff(link->retest_ms, RETEST_MIN_MS, RETEST_MAX_MS);
        link->retest_at = hf_after(hf_now(), link->retest_ms);
    }
    if (mode == HF_UNTESTED)
        hf_link_deaf(links, link); /* test again on a new connection */
    if (mode == HF_GRANTS) {
        link->listens = (hf_tries){0};
        link->tests_failed = 0;
        link->retest_ms = 0;
    }
    HF_EACH(at, &link->asked)
    links->listener->changed(links, CHANNEL_OF(at));
    HF_EACH(at, &link->unasked)
    links->listener->changed(links, CHANNEL_OF(at));
}

/* Repeat a failed self-test on a new connection; or poll: if `poll` is set, or after too many
 * failures. In a cluster the channel may only have moved with its slot, which is no fault of the
 * server. */
static void fail_test(hf_links *links, hf_link *link, bool poll) {
    HF_MARK("M7");
    int most = hf_discovery_clustered(links->discovery) ? 4 : 1;
    set_mode(links, link, poll || ++link->tests_failed > most ? HF_POLLING : HF_UNTESTED);
}

static void test_answered(hf_task *task, hf_status status, const redisReply *reply) {
    hf_links *links = task->links;
    hf_link *link = task->link;
    if (link->mode != HF_TESTING)
        return;
    link->test_heard = status == HF_OK && hf_reply_number(reply) > 0;
    if (link->test_heard)
        return; /* the arrival of the message decides */
    bool deaf = status == HF_OK && !hf_discovery_clustered(links->discovery);
    bool refused = status != HF_OK && hf_error_permission(hf_error_message());
    bool tested = status == HF_OK || (status == HF_ESERVER && task->course.pause_ms == 0);
    if (tested || refused)
        fail_test(links, link, deaf || refused);
    else { /* it is loading, busy or away, which shows nothing about grants: test again later */
        link->mode = HF_UNTESTED;
        hf_try_later(&link->listens, hf_now());
        links->listener->wake(links);
    }
}

/* Begin a self-test. False: no memory. */
static bool begin_test(hf_links *links, hf_link *link, const hf_channel *channel) {
    hf_task *task = hf_task_new(sizeof(hf_task), NULL, test_answered, NULL);
    if (task == NULL)
        return false;
    link->mode = HF_TESTING;
    link->test_heard = false;
    link->tested_at = hf_now();
    hf_request_selftest(&task->request, channel->names, channel->name, channel->length);
    task->pinned = task->urgent = true;
    task->link = link;
    hf_task_submit(links, task, hf_after(link->tested_at, TEST_MS));
    return true;
}

/* Test an existing subscription. False: no memory. */
static bool test_again(hf_links *links, hf_link *link) {
    HF_EACH(at, &link->asked)
    if (CHANNEL_OF(at)->subscribed)
        return begin_test(links, link, CHANNEL_OF(at));
    return true;
}

static void subscribed(hf_links *links, hf_channel *channel) {
    hf_link *link = channel->link;
    link->subscribed += !channel->subscribed;
    channel->subscribed = true;
    channel->epoch++;
    channel->tries = (hf_tries){0};
    if (link->mode == HF_UNTESTED && !begin_test(links, link, channel)) {
        hf_link_deaf(links, link); /* subscribe anew, when there may be memory */
        return;
    }
    links->listener->changed(links, channel);
}

/* Subscribe again, after a growing pause: the subscription was refused, or has ended. */
static void ask_again(hf_links *links, hf_channel *channel) {
    hf_link *link = channel->link;
    set_asked(channel, false);
    hf_try_later(&channel->tries, hf_now());
    if (link->mode == HF_TESTING && link->subscribed == 0)
        link->mode = HF_UNTESTED;
    if (channel->users.first == NULL)
        free_channel(links, channel);
    links->listener->wake(links);
}

/* Follow MOVED: another node serves the slot. */
static void slot_moved(hf_links *links, hf_link *link, const char *text) {
    unsigned long slot = strtoul(text + strlen("MOVED "), NULL, 10);
    hf_discovery_redirect(links->discovery, link->node, text);
    HF_EACH(at, &link->asked) {
        hf_channel *channel = CHANNEL_OF(at);
        if (channel->names->slot == slot && !channel->subscribed)
            ask_again(links, channel);
    }
    /* The map may have been right, and the channel made when there was no memory for its link. */
    hf_link_move_channels(links, link);
}

static void hear_error(hf_links *links, hf_link *link, const char *text) {
    bool clustered = hf_discovery_clustered(links->discovery);
    hf_status status;
    hf_after_error after = hf_error_class(text, &status);
    bool moved = clustered && after == HF_AFTER_MOVED;
    bool refused = hf_error_permission(text) && (clustered || link->subscribed == 0);
    bool unknown = clustered && hf_error_command(text);
    if (refused || unknown) /* without a subscription the client asks often */
        set_mode(links, link, HF_POLLING);
    else if (moved)
        slot_moved(links, link, text);
    else if (after != HF_AFTER_WAIT || link->asked.count > link->subscribed)
        hf_link_deaf(links, link);
    /* Any other error passes (BUSY, LOADING and the like), and was the answer to a PING. */
}

static void hear_message(hf_links *links, hf_link *link, const redisReply *message) {
    hf_grant grant;
    if (hf_message_test(message->str) && link->mode == HF_TESTING)
        set_mode(links, link, HF_GRANTS);
    else if (hf_message_grant(message->str, (size_t)message->len, &grant))
        links->listener->granted(links, link, &grant);
    else if (hf_message_result(message->str, (size_t)message->len, grant.id))
        links->listener->finished(links, grant.id);
}

static void hear(hf_links *links, hf_link *link, const redisReply *reply) {
    bool clustered = hf_discovery_clustered(links->discovery);
    link->heard_at = hf_now();
    if (reply->type == REDIS_REPLY_ERROR) {
        hear_error(links, link, reply->str);
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING)
        return;
    const char *kind = reply->element[0]->str;
    const redisReply *name = reply->element[1];
    hf_channel *channel =
        name->type == REDIS_REPLY_STRING ? find_channel(links, name->str, name->len) : NULL;
    bool ours = channel != NULL && channel->link == link && is_asked(channel);
    if (clustered && *kind == 's')
        kind++; /* "ssubscribe", and so on */
    if (strcmp(kind, "subscribe") == 0 && ours) {
        subscribed(links, channel);
    } else if (strcmp(kind, "unsubscribe") == 0) {
        /* In a cluster the slot has moved. A single server never does this unasked. */
        if (!clustered) {
            hf_link_deaf(links, link);
        } else if (ours && channel->subscribed) {
            hf_discovery_look(links->discovery);
            ask_again(links, channel);
        }
    } else if (strcmp(kind, "message") == 0 && reply->elements >= 3 &&
               reply->element[2]->type == REDIS_REPLY_STRING) {
        hear_message(links, link, reply->element[2]);
    }
}

hf_status hf_link_listen(hf_links *links, hf_link *link) {
    hf_connection *connection = link->subscription;
    hf_status status = hf_connection_drive(connection);
    while (status == HF_OK && connection == link->subscription) {
        redisReply *reply;
        status = hf_connection_next(connection, &reply);
        if (status != HF_OK || reply == NULL)
            break;
        hear(links, link, reply);
        freeReplyObject(reply);
    }
    return status;
}

/* ----------------------------------------------------------------- Driving */

/* Subscribe to the channels that need it. False: no memory. */
static bool ask_for_channels(const hf_links *links, hf_link *link, int64_t now) {
    bool clustered = hf_discovery_clustered(links->discovery);
    HF_EACH(at, &link->unasked) {
        hf_channel *channel = CHANNEL_OF(at);
        if (!channel->wanted || now < channel->tries.at)
            continue;
        const char *words[] = {clustered ? "SSUBSCRIBE" : "SUBSCRIBE", channel->name};
        size_t lengths[] = {strlen(words[0]), channel->length};
        if (!hf_connection_append_words(link->subscription, 2, words, lengths))
            return false;
        set_asked(channel, true);
    }
    return true;
}

/* Return whether the channel has had no waiters for a while. A channel that cannot be subscribed to
 * can be left, too. */
static bool is_left(const hf_links *links, const hf_channel *channel, int64_t now) {
    return channel->users.first == NULL && (channel->subscribed || !is_asked(channel)) &&
           now >= hf_after(channel->left_at, channel == links->own ? OWN_LINGER_MS : LINGER_MS);
}

/* Unsubscribe from a cluster's channels that had no waiters for a while. */
static void drop_channels(hf_links *links, hf_link *link, int64_t now) {
    HF_EACH(at, &link->asked) {
        hf_channel *channel = CHANNEL_OF(at);
        if (channel == links->own || !is_left(links, channel, now))
            continue;
        const char *words[] = {"SUNSUBSCRIBE", channel->name};
        size_t lengths[] = {strlen(words[0]), channel->length};
        hf_connection_append_words(link->subscription, 2, words, lengths);
        free_channel(links, channel);
    }
}

static bool take_subscription(hf_links *links, hf_link *link, int64_t now) {
    hf_status status;
    if (!hf_dial_take(link->subscription_dial, &link->subscription, &status))
        return false;
    link->subscription_dial = NULL;
    link->heard_at = link->pinged_at = now;
    if (status == HF_OK) {
        link->failure = HF_OK;
        link->listens.began = link->tries.at = 0; /* the server is there, for requests too */
        return true;
    }
    hf_link_failed(link, status); /* requests have their own dial or connection */
    hf_link_deaf(links, link);
    return false;
}

/* Return whether requests are trying to reach the server after a failure: one try is enough. */
static bool is_tried(const hf_link *link) {
    return link->tries.pause_ms > 0 && link->commands == NULL && link->waiting.first != NULL;
}

/* Return whether there is a subscription; dial if there is none. */
static bool have_subscription(hf_links *links, hf_link *link, int64_t now) {
    /* A former master publishes no grants. */
    if (link->subscription != NULL &&
        link->subscription->version != hf_discovery_version(links->discovery, link->node))
        hf_link_deaf(links, link);
    if (link->subscription != NULL)
        return true;
    if (link->subscription_dial == NULL && is_tried(link) && now >= link->listens.at) {
        link->listens.at = link->tries.at;
    } else if (link->subscription_dial == NULL && now >= link->listens.at) {
        link->listens.began = now;
        link->subscription_dial = hf_dial_start(links->transport, link->node);
        if (link->subscription_dial == NULL) /* without a thread, which shows nothing about the
                                              * server */
            hf_try_later(&link->listens, now);
    }
    return link->subscription_dial != NULL && take_subscription(links, link, now);
}

static void ping(hf_links *links, hf_link *link, int64_t now) {
    if (link->subscribed == 0 || now < hf_after(link->pinged_at, PING_MS))
        return;
    hf_connection_append_words(link->subscription, 1, (const char *[]){"PING"}, NULL);
    if (link->pinged_at <= link->heard_at) /* the thread may be late, not the server */
        link->heard_at = hf_later(link->heard_at, now - PING_MS * HF_MS);
    link->pinged_at = now;
    drop_channels(links, link, now);
}

/* Return when the self-test fails for want of its message; HF_NO_DEADLINE: none is awaited. */
static int64_t test_fails_at(const hf_link *link) {
    return link->mode == HF_TESTING && link->test_heard ? hf_after(link->tested_at, TEST_MS)
                                                        : HF_NO_DEADLINE;
}

/* Return when the server counts as silent, if it sends nothing until then. */
static int64_t silent_at(const hf_links *links, const hf_link *link) {
    return hf_after(link->heard_at, PING_MS + links->transport->command_ms);
}

void hf_link_drive_channels(hf_links *links, hf_link *link, int64_t now) {
    if (link == &links->first && links->own != NULL && links->own->wanted &&
        is_left(links, links->own, now)) {
        links->own->wanted = false;
        link->wanted--;
    }
    if (link->wanted == 0 && (link->subscription != NULL || link->subscription_dial != NULL)) {
        hf_link_close_subscription(links, link); /* no channel needs it now */
        link->listens = (hf_tries){0};
    }
    if (link->mode == HF_POLLING && now >= link->retest_at) {
        HF_MARK("M12");
        link->mode = HF_UNTESTED;
        HF_EACH(at, &link->unasked)
        CHANNEL_OF(at)->deaf_since = now;
    }
    if (link->mode == HF_POLLING || link->wanted == 0 || !have_subscription(links, link, now))
        return;
    bool good = ask_for_channels(links, link, now);
    ping(links, link, now);
    if (link->mode == HF_UNTESTED && link->subscribed > 0 && now >= link->listens.at)
        good = test_again(links, link) && good;
    /* Read before any verdict: the thread that reads may stand still. */
    bool mine = link->reader == NULL || link->subscribed == 0 || now >= test_fails_at(link) ||
                now >= silent_at(links, link) ||
                (hf_connection_events(link->subscription) & POLLOUT) != 0;
    if (good && mine)
        good = hf_link_listen(links, link) == HF_OK;
    if (good && now >= test_fails_at(link))
        fail_test(links, link, false); /* without the test's message there are no grants either */
    else if (!good || (link->subscription != NULL && now >= silent_at(links, link)))
        hf_link_deaf(links, link);
}

int64_t hf_link_channels_due(const hf_links *links, const hf_link *link) {
    if (link->wanted == 0)
        return HF_NO_DEADLINE;
    if (link->mode == HF_POLLING)
        return link->retest_at;
    if (link->subscription == NULL)
        return link->subscription_dial != NULL || is_tried(link) ? HF_NO_DEADLINE
                                                                 : link->listens.at;
    int64_t due = hf_earlier(silent_at(links, link), test_fails_at(link));
    HF_EACH(at, &link->unasked)
    if (CHANNEL_OF(at)->wanted)
        due = hf_earlier(due, CHANNEL_OF(at)->tries.at);
    if (link->subscribed > 0)
        due = hf_earlier(due, hf_after(link->pinged_at, PING_MS));
    if (link->mode == HF_UNTESTED && link->subscribed > 0)
        due = hf_earlier(due, link->listens.at);
    return due;
}

static void move_channels(hf_links *links, hf_link *link, hf_list *channels) {
    HF_EACH(at, channels) {
        hf_channel *channel = CHANNEL_OF(at);
        hf_link *to = hf_link_of(links, channel->names->slot);
        if (to == link || channel == links->own)
            continue;
        take_channel(channel);
        put_channel(channel, to, &to->unasked);
        channel->tries.at = 0;
        links->listener->moved(links, channel, link);
        if (channel->users.first == NULL)
            free_channel(links, channel);
    }
}

void hf_link_move_channels(hf_links *links, hf_link *link) {
    move_channels(links, link, &link->asked);
    move_channels(links, link, &link->unasked);
}
