/*
 * Which node of a cluster serves which slot, as far as the client knows. Pure functions without
 * I/O; the owner of a map keeps other threads out.
 */
#ifndef HF_MAP_H
#define HF_MAP_H

#include <hiredis/hiredis.h>

#include "net/address.h"
#include "protocol/names.h"

/* More nodes than Redis recommends. A node that has lost its slots gives its number to another. */
#define HF_NODES_MAX 1024

typedef struct hf_map {
    hf_place nodes[HF_NODES_MAX];
    unsigned versions[HF_NODES_MAX]; /* grows when the node is at another place; atomic */
    unsigned owned[HF_NODES_MAX];    /* how many slots the node has */
    bool failed[HF_NODES_MAX];       /* the last attempt to reach it failed */
    size_t count;
    size_t seeds;    /* the first nodes, from the URL, which stay */
    unsigned change; /* grows when a slot gets another node, or a node another place */
    uint16_t slots[HF_SLOTS];
} hf_map;

/* Make a map of the URL's places; the first has all slots until a node is asked. NULL: no
 * memory. */
hf_map *hf_map_new(const hf_place *places, size_t count);
void hf_map_free(hf_map *map);

/* Take over the node's answer to CLUSTER SLOTS. Where the answer names no host, it means the node's
 * own. HF_EPROTOCOL: it is no such answer, or has no slot. */
hf_status hf_map_read(hf_map *map, int node, const redisReply *reply);

/* Return the node to which this node's MOVED or ASK points; -1: not known. The map remembers a
 * MOVED. */
int hf_map_redirect(hf_map *map, int node, const char *text);

#endif
