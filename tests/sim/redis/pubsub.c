/* Channels: plain ones, patterns and sharded ones. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

sim_channel *sim_channel_find(const sim_redis *server, char kind, sim_bytes name) {
    uint32_t hash = sim_hash(name);
    sim_channel *channel = server->channels[hash % SIM_CHANNEL_BUCKETS];
    while (channel != NULL && (channel->kind != kind || channel->name->hash != hash ||
                               !sim_same(sim_of(channel->name), name)))
        channel = channel->next;
    return channel;
}

static sim_channel *make_channel(sim_redis *server, char kind, sim_bytes name) {
    sim_channel *channel = sim_grow(NULL, sizeof *channel);
    *channel = (sim_channel){.kind = kind, .name = sim_text_new(name)};
    sim_channel **bucket = &server->channels[channel->name->hash % SIM_CHANNEL_BUCKETS];
    channel->next = *bucket;
    return *bucket = channel;
}

static void free_channel(sim_redis *server, sim_channel *channel) {
    sim_channel **at = &server->channels[channel->name->hash % SIM_CHANNEL_BUCKETS];
    while (*at != channel)
        at = &(*at)->next;
    *at = channel->next;
    free(channel->name);
    free(channel->peers);
    free(channel);
}

static int *count_of(sim_peer *peer, char kind) {
    return kind == 'c' ? &peer->channels : kind == 'p' ? &peer->patterns : &peer->shards;
}

/* ------------------------------------------------------------------ Pushes */

static void put_push(sim_peer *peer, int64_t parts) {
    sim_put_head(&peer->output, peer->resp > 2 ? '>' : '*', parts);
    sim_outgoing(peer);
}

static const char *prefix(char kind) { return kind == 'c' ? "" : kind == 'p' ? "p" : "s"; }

/* Send "subscribe" or "unsubscribe", the channel, and the number of channels that the peer still
 * has. */
static void tell_change(sim_peer *peer, char kind, const char *what, const sim_text *name) {
    char word[16];
    int left = kind == 's' ? peer->shards : peer->channels + peer->patterns;
    int length = snprintf(word, sizeof word, "%s%s", prefix(kind), what);
    put_push(peer, 3);
    sim_put_bytes(&peer->output, (sim_bytes){word, (size_t)length});
    if (name != NULL)
        sim_put_bytes(&peer->output, sim_of(name));
    else
        sim_add(&peer->output, peer->resp > 2 ? "_\r\n" : "$-1\r\n", peer->resp > 2 ? 3 : 5);
    sim_put_head(&peer->output, ':', left);
}

static void send_message(const sim_channel *channel, sim_bytes name, sim_bytes text) {
    char word[16];
    int length = snprintf(word, sizeof word, "%smessage", prefix(channel->kind));
    for (size_t i = 0; i < channel->count; i++) {
        sim_peer *peer = channel->peers[i];
        put_push(peer, channel->kind == 'p' ? 4 : 3);
        sim_put_bytes(&peer->output, (sim_bytes){word, (size_t)length});
        if (channel->kind == 'p')
            sim_put_bytes(&peer->output, sim_of(channel->name));
        sim_put_bytes(&peer->output, name);
        sim_put_bytes(&peer->output, text);
    }
}

/* ----------------------------------------------------------- Subscriptions */

static size_t place_of(const sim_channel *channel, const sim_peer *peer) {
    size_t at = 0;
    while (at < channel->count && channel->peers[at] != peer)
        at++;
    return at;
}

static void subscribe_to(sim_peer *peer, char kind, sim_bytes name) {
    sim_channel *channel = sim_channel_find(peer->server, kind, name);
    if (channel == NULL)
        channel = make_channel(peer->server, kind, name);
    if (place_of(channel, peer) == channel->count) {
        size_t size = (channel->count + 1) * sizeof(sim_peer *);
        channel->peers = sim_grow(channel->peers, size);
        channel->peers[channel->count++] = peer;
        ++*count_of(peer, kind);
    }
    peer->subscriber = true;
    tell_change(peer, kind, "subscribe", channel->name);
}

/* Return whether the peer was subscribed. The channel may be gone afterwards. */
static bool leave(sim_peer *peer, sim_channel *channel, bool tell) {
    size_t at = place_of(channel, peer);
    if (at == channel->count)
        return false;
    channel->count--;
    memmove(channel->peers + at, channel->peers + at + 1,
            (channel->count - at) * sizeof(sim_peer *));
    --*count_of(peer, channel->kind);
    peer->subscriber = peer->channels + peer->patterns + peer->shards > 0;
    if (tell)
        tell_change(peer, channel->kind, "unsubscribe", channel->name);
    if (channel->count == 0)
        free_channel(peer->server, channel);
    return true;
}

/* Leave all channels of a kind; 0: of every kind. */
static size_t leave_all(sim_peer *peer, char kind, bool tell) {
    size_t left = 0;
    for (int i = 0; i < SIM_CHANNEL_BUCKETS; i++)
        for (sim_channel *at = peer->server->channels[i], *next; at != NULL; at = next) {
            next = at->next;
            if (kind == 0 || at->kind == kind)
                left += leave(peer, at, tell);
        }
    return left;
}

void sim_unsubscribe_all(sim_peer *peer) {
    if (peer->channels + peer->patterns + peer->shards > 0)
        leave_all(peer, 0, false);
}

void sim_unsubscribe_slot(sim_redis *server, int slot) {
    for (int i = 0; i < SIM_CHANNEL_BUCKETS; i++)
        for (sim_channel *at = server->channels[i], *next; at != NULL; at = next) {
            next = at->next;
            bool gone = at->kind != 's' || sim_cluster_slot(sim_of(at->name)) != slot;
            while (!gone) {
                gone = at->count == 1; /* the channel is dropped with the last subscriber */
                leave(at->peers[0], at, true);
            }
        }
}

void sim_channels_free(sim_redis *server) {
    for (int i = 0; i < SIM_CHANNEL_BUCKETS; i++)
        while (server->channels[i] != NULL)
            free_channel(server, server->channels[i]);
}

static char kind_of(const sim_call *call) {
    const char *name = call->command->name;
    if (*name == 'p')
        return 'p';
    return strncmp(name, "ss", 2) == 0 || strncmp(name, "sun", 3) == 0 ? 's' : 'c';
}

static void subscribe(sim_call *call) {
    for (int i = 1; i < call->argc; i++)
        subscribe_to(call->peer, kind_of(call), call->argv[i]);
}

static void unsubscribe(sim_call *call) {
    char kind = kind_of(call);
    if (call->argc == 1 && leave_all(call->peer, kind, true) == 0)
        tell_change(call->peer, kind, "unsubscribe", NULL);
    for (int i = 1; i < call->argc; i++) {
        sim_channel *channel = sim_channel_find(call->server, kind, call->argv[i]);
        if (channel != NULL && leave(call->peer, channel, true))
            continue;
        sim_text *name = sim_text_new(call->argv[i]);
        tell_change(call->peer, kind, "unsubscribe", name);
        free(name);
    }
}

/* ---------------------------------------------------------------- Messages */

static size_t publish_in(sim_redis *server, char kind, sim_bytes name, sim_bytes text) {
    sim_channel *channel = sim_channel_find(server, kind, name);
    size_t heard = channel != NULL ? channel->count : 0;
    if (channel != NULL)
        send_message(channel, name, text);
    for (int i = 0; i < SIM_CHANNEL_BUCKETS && kind == 'c'; i++)
        for (channel = server->channels[i]; channel != NULL; channel = channel->next)
            if (channel->kind == 'p' && sim_glob(sim_of(channel->name), name)) {
                send_message(channel, name, text);
                heard += channel->count;
            }
    return heard;
}

size_t sim_publish(sim_redis *server, sim_bytes channel, sim_bytes text) {
    return publish_in(server, 'c', channel, text);
}

static void publish(sim_call *call) {
    char kind = *call->command->name == 's' ? 's' : 'c';
    size_t heard = publish_in(call->server, kind, call->argv[1], call->argv[2]);
    call->changed = true;
    sim_reply_integer(call, (int64_t)heard);
}

/* NUMSUB, SHARDNUMSUB */
static void numsub(sim_call *call) {
    char kind = call->command->name[7] == 's' ? 's' : 'c';
    sim_reply_array(call, 2 * ((size_t)call->argc - 2));
    for (int i = 2; i < call->argc; i++) {
        const sim_channel *channel = sim_channel_find(call->server, kind, call->argv[i]);
        sim_reply_bytes(call, call->argv[i]);
        sim_reply_integer(call, channel != NULL ? (int64_t)channel->count : 0);
    }
}

/* Count the channels of a kind; with `tell`, send their names. */
static size_t each_channel(sim_call *call, char kind, bool tell) {
    size_t count = 0;
    for (int i = 0; i < SIM_CHANNEL_BUCKETS; i++)
        for (sim_channel *at = call->server->channels[i]; at != NULL; at = at->next) {
            if (at->kind != kind || (call->argc > 2 && !sim_glob(call->argv[2], sim_of(at->name))))
                continue;
            count++;
            if (tell)
                sim_reply_bytes(call, sim_of(at->name));
        }
    return count;
}

static void channels(sim_call *call) {
    sim_reply_array(call, each_channel(call, 'c', false));
    each_channel(call, 'c', true);
}

static void numpat(sim_call *call) {
    sim_reply_integer(call, (int64_t)each_channel(call, 'p', false));
}

size_t sim_redis_subscribers(const sim_redis *server, sim_bytes name) {
    const sim_channel *plain = sim_channel_find(server, 'c', name);
    const sim_channel *sharded = sim_channel_find(server, 's', name);
    return (plain != NULL ? plain->count : 0) + (sharded != NULL ? sharded->count : 0);
}

enum {
    LISTENS = SIM_NOSCRIPT | SIM_LOADABLE | SIM_PUSHES | SIM_SENTINEL,
    SENDS = SIM_LOADABLE | SIM_REPLICATED | SIM_CHANNEL
};

const sim_command sim_pubsub_commands[] = {
    {"subscribe", subscribe, -2, LISTENS | SIM_CHANNELS, 0, 0, 0},
    {"unsubscribe", unsubscribe, -1, LISTENS, 0, 0, 0},
    {"psubscribe", subscribe, -2, LISTENS | SIM_PATTERNS, 0, 0, 0},
    {"punsubscribe", unsubscribe, -1, LISTENS, 0, 0, 0},
    {"ssubscribe", subscribe, -2, LISTENS | SIM_CHANNELS | SIM_SHARDED, 1, -1, 1},
    {"sunsubscribe", unsubscribe, -1, LISTENS | SIM_SHARDED, 1, -1, 1},
    {"publish", publish, 3, SENDS | SIM_SENTINEL, 0, 0, 0},
    {"spublish", publish, 3, SENDS | SIM_SHARDED, 1, 1, 1},
    {"pubsub", NULL, -2, SIM_LOADABLE | SIM_GROUP, 0, 0, 0},
    {"pubsub|numsub", numsub, -2, SIM_LOADABLE, 0, 0, 0},
    {"pubsub|shardnumsub", numsub, -2, SIM_LOADABLE, 0, 0, 0},
    {"pubsub|channels", channels, -2, SIM_LOADABLE, 0, 0, 0},
    {"pubsub|numpat", numpat, 2, SIM_LOADABLE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};
