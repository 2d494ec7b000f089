/*
 * Calls take a connection for one round trip. The first HF_POOL_ALONE to a node have one each; then
 * those that may join others get one together (net/joint.h), and so do all that come while it is in
 * use. When a node has become another server, the pool closes the old connections as it meets them.
 * When all are in use, calls wait in a queue: the urgent ones first, each kind in the order of
 * arrival.
 */
#ifndef HF_POOL_H
#define HF_POOL_H

#include "net/discovery.h"

typedef struct hf_pool hf_pool;

/* The limit for each node, unless the user limits all nodes together. */
#define HF_POOL_EACH 16
#define HF_POOL_ALONE 2

/* idle_max: how many idle connections to each node the pool keeps. open_max: how many there may be
 * in all, idle or in use; 0: HF_POOL_EACH to each node. The discovery must outlive the pool. NULL:
 * no memory. */
hf_pool *hf_pool_new(hf_discovery *discovery, unsigned idle_max, unsigned open_max);
/* Call it after the last connection has come back. */
void hf_pool_free(hf_pool *pool);
/* Close idle connections now, and the others when they come back. */
void hf_pool_shut(hf_pool *pool);

/* An idle connection to the node, or a new one, or one together with other calls: then joint.on.
 * *now is the time, and again afterwards. */
enum { HF_POOL_URGENT = 1, HF_POOL_JOINS = 2 };
hf_status hf_pool_take(hf_pool *pool, int node, int how, int64_t deadline, int64_t *now,
                       hf_connection **connection_out);
/* The same without waiting: only an idle one. HF_ECONNECT: there is none. */
hf_status hf_pool_take_idle(hf_pool *pool, int node, int64_t now, hf_connection **connection_out);
/* Give back a connection that can be used again. */
void hf_pool_give(hf_pool *pool, hf_connection *connection);
/* Give back a connection that cannot, and that no other call joins. */
void hf_pool_discard(hf_pool *pool, hf_connection *connection);
/* A connection to the node has failed: close its idle ones, which would fail too. */
void hf_pool_drop(hf_pool *pool, int node);

#endif
