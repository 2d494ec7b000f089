/*
 * Which node of a cluster serves which slot, as far as the client knows. Pure functions
 * without I/O; the owner of a map keeps other threads out.
 */
#ifndef HF_MAP_H
#define HF_MAP_H

#include <hiredis/hiredis.h>

#include "net/address.h"
#include "protocol/names.h"

/* More nodes than Redis recommends. A node that has lost its slots makes room. */
#define HF_NODES_MAX 1024

typedef struct hf_map {
    hf_place nodes[HF_NODES_MAX];
    unsigned versions[HF_NODES_MAX]; /* goes up when the node is another place; atomic */
    unsigned owned[HF_NODES_MAX];    /* how many slots the node has */
    bool failed[HF_NODES_MAX];       /* it could not be reached the last time */
    size_t count;
    size_t seeds;    /* the first nodes: the nodes of the URL, which stay */
    unsigned change; /* goes up when a slot gets another node, or a node another place */
    uint16_t slots[HF_SLOTS];
} hf_map;

/* A map of the URL's places; the first has all slots until a node is asked. NULL: no memory. */
hf_map *hf_map_new(const hf_place *places, size_t count);
void hf_map_free(hf_map *map);

/* Take over the node's answer to CLUSTER SLOTS. Where it names no host, it means its own.
 * HF_EPROTOCOL: it is no such answer, or names no slot. */
hf_status hf_map_read(hf_map *map, int node, const redisReply *reply);

/* The node to which this node's MOVED or ASK leads; -1: not known. The map keeps a MOVED. */
int hf_map_redirect(hf_map *map, int node, const char *text);

#endif
