#include "net/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hf_map *hf_map_new(const hf_place *places, size_t count) {
    hf_map *map = calloc(1, sizeof *map);
    for (size_t i = 0; map != NULL && i < count && i < HF_NODES_MAX / 2; i++) {
        map->nodes[i].port = places[i].port;
        map->nodes[i].host = strdup(places[i].host);
        map->count = map->seeds = i + 1;
        if (map->nodes[i].host == NULL) {
            hf_map_free(map);
            return NULL;
        }
    }
    if (map != NULL)
        map->owned[0] = HF_SLOTS;
    return map;
}

void hf_map_free(hf_map *map) {
    for (size_t i = 0; map != NULL && i < map->count; i++)
        free(map->nodes[i].host);
    free(map);
}

/* Return the node at that place, known or new; -1: no memory, or no room. */
static int node_at(hf_map *map, const char *host, size_t length, int port) {
    size_t free_one = map->count;
    for (size_t i = 0; i < map->count; i++) {
        const hf_place *place = &map->nodes[i];
        if (place->port == port && strlen(place->host) == length &&
            memcmp(place->host, host, length) == 0)
            return (int)i;
        if (i >= map->seeds && map->owned[i] == 0 && free_one == map->count)
            free_one = i;
    }
    char *copy = free_one < HF_NODES_MAX ? strndup(host, length) : NULL;
    if (copy == NULL)
        return -1;
    free(map->nodes[free_one].host);
    map->nodes[free_one] = (hf_place){copy, port};
    __atomic_add_fetch(&map->versions[free_one], 1, __ATOMIC_RELEASE);
    map->failed[free_one] = false;
    map->change++;
    map->count += free_one == map->count;
    return (int)free_one;
}

static void give(hf_map *map, int64_t slot, int node) {
    if (map->slots[slot] == node)
        return;
    map->owned[map->slots[slot]]--;
    map->owned[node]++;
    __atomic_store_n(&map->slots[slot], (uint16_t)node, __ATOMIC_RELAXED);
    map->change++;
}

/* Check one range of CLUSTER SLOTS: first, last, then the master: host, port and more, then
 * replicas. */
static bool good_range(const redisReply *range) {
    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
        range->element[0]->type != REDIS_REPLY_INTEGER ||
        range->element[1]->type != REDIS_REPLY_INTEGER ||
        range->element[2]->type != REDIS_REPLY_ARRAY || range->element[2]->elements < 2)
        return false;
    const redisReply *host = range->element[2]->element[0], *port = range->element[2]->element[1];
    return (host->type == REDIS_REPLY_STRING || host->type == REDIS_REPLY_NIL) &&
           port->type == REDIS_REPLY_INTEGER && port->integer >= 0 && port->integer <= 65535 &&
           range->element[0]->integer >= 0 && range->element[1]->integer < HF_SLOTS;
}

hf_status hf_map_read(hf_map *map, int node, const redisReply *reply) {
    char own[256];
    snprintf(own, sizeof own, "%s", map->nodes[node].host);
    bool good = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0;
    for (size_t i = 0; good && i < reply->elements; i++)
        good = good_range(reply->element[i]);
    if (!good)
        return hf_fail(HF_EPROTOCOL, "%.200s:%d knows of no slots: it belongs to no cluster yet",
                       own, map->nodes[node].port);
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *const *range = (const redisReply *const *)reply->element[i]->element;
        const redisReply *host = range[2]->element[0];
        int port = (int)range[2]->element[1]->integer;
        bool unknown = host->type == REDIS_REPLY_STRING && strcmp(host->str, "?") == 0;
        if (unknown || port == 0)
            continue; /* the node does not know this address yet */
        bool named = host->type == REDIS_REPLY_STRING && host->len > 0;
        const char *name = named ? host->str : own;
        int owner = node_at(map, name, strlen(name), port);
        if (owner < 0)
            return hf_fail(HF_ENOMEM, "no memory for the nodes of the cluster");
        for (int64_t slot = range[0]->integer; slot <= range[1]->integer; slot++)
            give(map, slot, owner);
    }
    return HF_OK;
}

/* The text is "MOVED <slot> <host>:<port>", where the host may be an IPv6 address, or missing. */
int hf_map_redirect(hf_map *map, int node, const char *text) {
    bool moved = strncmp(text, "MOVED ", 6) == 0;
    char *end;
    if (!moved && strncmp(text, "ASK ", 4) != 0)
        return -1;
    long slot = strtol(strchr(text, ' ') + 1, &end, 10);
    const char *host = end + 1, *colon = strrchr(text, ':');
    if (*end != ' ' || slot < 0 || slot >= HF_SLOTS || colon == NULL || colon < host)
        return -1;
    long port = strtol(colon + 1, &end, 10);
    size_t length = (size_t)(colon - host);
    if (*end != '\0' || port < 1 || port > 65535 || length > 255 || (length == 1 && *host == '?'))
        return -1;
    if (length == 0) {
        host = map->nodes[node].host;
        length = strlen(host);
    }
    int owner = node_at(map, host, length, (int)port);
    if (moved && owner >= 0)
        give(map, slot, owner);
    return owner;
}
