/*
 * Connections that calls take for one round trip. Those of a node that has become another
 * server are closed as they are met. When all are in use calls wait, each in its place: the
 * urgent ones first, the others in the order in which they came.
 */
#ifndef HF_POOL_H
#define HF_POOL_H

#include "net/discovery.h"

typedef struct hf_pool hf_pool;

/* So many to each node, unless it is said how many to all nodes together. */
#define HF_POOL_EACH 16

/* idle_max: so many of each node are kept. open_max: so many there may be, idle or in use;
 * 0: HF_POOL_EACH to each node. The discovery must outlive it. NULL: no memory. */
hf_pool *hf_pool_new(hf_discovery *discovery, unsigned idle_max, unsigned open_max);
/* After the last has come back. */
void hf_pool_free(hf_pool *pool);
/* Close idle connections now, and the others when they come back. */
void hf_pool_shut(hf_pool *pool);

/* An idle connection to the node, or a new one. */
hf_status hf_pool_take(hf_pool *pool, int node, bool urgent, int64_t deadline,
                       hf_connection **connection_out);
/* It can be used again. */
void hf_pool_give(hf_pool *pool, hf_connection *connection);
/* It can not. */
void hf_pool_discard(hf_pool *pool, hf_connection *connection);
/* One has failed: close the node's idle ones, which lead to the same trouble. */
void hf_pool_drop(hf_pool *pool, int node);

#endif
