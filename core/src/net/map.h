/*
 * Which node of a Cluster serves which slot, as far as is known. Pure functions on
 * data of one owner, who keeps others out; no I/O.
 */
#ifndef HF_MAP_H
#define HF_MAP_H

#include <hiredis/hiredis.h>

#include "net/address.h"
#include "protocol/names.h"

/* More nodes with slots than Redis recommends; what has none any more makes room. */
#define HF_NODES_MAX 1024

typedef struct hf_map {
    hf_place nodes[HF_NODES_MAX];
    unsigned versions[HF_NODES_MAX]; /* one more when it is another place */
    unsigned owned[HF_NODES_MAX];    /* so many slots are its */
    size_t count;
    size_t seeds;    /* the first of them: those of the URL, which stay */
    unsigned change; /* one more with each change of a slot */
    uint16_t slots[HF_SLOTS];
} hf_map;

/* With the places of the URL, and all slots at the first until more is known. NULL: no memory. */
hf_map *hf_map_new(const hf_place *places, size_t count);
void hf_map_free(hf_map *map);

/* Take over what a node of that number answered to CLUSTER SLOTS. Where it names no host, it
 * means its own. HF_EPROTOCOL if that is no such answer, or there is not one slot in it. */
hf_status hf_map_read(hf_map *map, int node, const redisReply *reply);

/* Where the node's MOVED or ASK leads: a node's number, or -1 if it does not say. MOVED is
 * remembered. */
int hf_map_redirect(hf_map *map, int node, const char *text);

#endif
