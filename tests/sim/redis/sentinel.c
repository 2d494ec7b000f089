/* A sentinel: it learns of a master from the world, and answers clients. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct sim_watch {
    char *name, *host;
    int port;
    int64_t epoch;
    sim_buffer known; /* places */
} sim_watch;

/* The place of another sentinel, or of a replica. */
typedef struct place {
    bool replica;
    char *host;
    int port;
} place;

static size_t place_count(const sim_watch *watch) { return watch->known.length / sizeof(place); }
static place *place_at(const sim_watch *watch, size_t i) { return (place *)watch->known.bytes + i; }

void sim_sentinel_free(sim_redis *sentinel) {
    if (sentinel->watch == NULL)
        return;
    for (size_t i = 0; i < place_count(sentinel->watch); i++)
        free(place_at(sentinel->watch, i)->host);
    free(sentinel->watch->known.bytes);
    free(sentinel->watch->name);
    free(sentinel->watch->host);
    free(sentinel->watch);
}

static void set_master(sim_watch *watch, const char *host, int port, int64_t epoch) {
    char *copy = strdup(host);
    free(watch->host);
    watch->host = copy;
    watch->port = port;
    watch->epoch = epoch;
}

void sim_sentinel_begin(sim_redis *sentinel, const char *name, const char *host, int port,
                        int64_t epoch) {
    sim_sentinel_free(sentinel);
    sentinel->watch = sim_grow(NULL, sizeof *sentinel->watch);
    *sentinel->watch = (sim_watch){.name = strdup(name)};
    set_master(sentinel->watch, host, port, epoch);
}

void sim_sentinel_know(sim_redis *sentinel, const char *what, const char *host, int port) {
    place one = {strcmp(what, "replica") == 0, strdup(host), port};
    sim_add(&sentinel->watch->known, &one, sizeof one);
}

void sim_sentinel_tell(sim_redis *sentinel, const char *event, const char *text) {
    sim_publish(sentinel, sim_word(event), sim_word(text));
    sim_flush(sentinel);
}

void sim_sentinel_switch(sim_redis *sentinel, const char *host, int port, int64_t epoch) {
    sim_watch *watch = sentinel->watch;
    sim_buffer text = {0};
    sim_addf(&text, "%s %s %d %s %d", watch->name, watch->host, watch->port, host, port);
    sim_add(&text, "", 1);
    set_master(watch, host, port, epoch);
    sim_sentinel_tell(sentinel, "+switch-master", text.bytes);
    free(text.bytes);
}

static bool is_known(sim_call *call) {
    const sim_watch *watch = call->server->watch;
    return sim_same(call->argv[2], sim_word(watch->name));
}

static void get_master(sim_call *call) {
    const sim_watch *watch = call->server->watch;
    if (!is_known(call)) {
        sim_reply_nil_array(call);
        return;
    }
    sim_reply_array(call, 2);
    sim_reply_word(call, watch->host);
    sim_reply_digits(call, watch->port);
}

static void reply_master(sim_call *call) {
    const sim_watch *watch = call->server->watch;
    sim_reply_map(call, 6);
    sim_reply_word(call, "name");
    sim_reply_word(call, watch->name);
    sim_reply_word(call, "ip");
    sim_reply_word(call, watch->host);
    sim_reply_word(call, "port");
    sim_reply_digits(call, watch->port);
    sim_reply_word(call, "flags");
    sim_reply_word(call, "master");
    sim_reply_word(call, "role-reported");
    sim_reply_word(call, "master");
    sim_reply_word(call, "config-epoch");
    sim_reply_digits(call, watch->epoch);
}

static void sentinel_master(sim_call *call) {
    if (is_known(call))
        reply_master(call);
    else
        sim_reply_error(call, "ERR No such master with that name");
}

static void sentinel_masters(sim_call *call) {
    sim_reply_array(call, 1);
    reply_master(call);
}

static void sentinel_places(sim_call *call) { /* SENTINELS, REPLICAS */
    const sim_watch *watch = call->server->watch;
    bool replicas = strcmp(call->command->name, "sentinel|replicas") == 0;
    size_t count = 0;
    if (!is_known(call)) {
        sim_reply_error(call, "ERR No such master with that name");
        return;
    }
    for (size_t i = 0; i < place_count(watch); i++)
        count += place_at(watch, i)->replica == replicas;
    sim_reply_array(call, count);
    for (size_t i = 0; i < place_count(watch); i++) {
        const place *one = place_at(watch, i);
        if (one->replica != replicas)
            continue;
        sim_reply_map(call, 3);
        sim_reply_word(call, "ip");
        sim_reply_word(call, one->host);
        sim_reply_word(call, "port");
        sim_reply_digits(call, one->port);
        sim_reply_word(call, "flags");
        sim_reply_word(call, replicas ? "slave" : "sentinel");
    }
}

void sim_sentinel_role(sim_call *call) {
    sim_reply_array(call, 2);
    sim_reply_word(call, "sentinel");
    sim_reply_array(call, 1);
    sim_reply_word(call, call->server->watch->name);
}

enum { ONLY = SIM_SENTINEL | SIM_SENTINEL_ONLY | SIM_NOSCRIPT };

const sim_command sim_sentinel_commands[] = {
    {"sentinel", NULL, -2, ONLY | SIM_GROUP, 0, 0, 0},
    {"sentinel|get-master-addr-by-name", get_master, 3, ONLY, 0, 0, 0},
    {"sentinel|master", sentinel_master, 3, ONLY, 0, 0, 0},
    {"sentinel|masters", sentinel_masters, 2, ONLY, 0, 0, 0},
    {"sentinel|sentinels", sentinel_places, 3, ONLY, 0, 0, 0},
    {"sentinel|replicas", sentinel_places, 3, ONLY, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};
