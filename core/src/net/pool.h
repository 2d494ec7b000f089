/*
 * HF_POOL_EACH connections to a node carry all calls and the keeper's requests, and one more the
 * calls that wait for replicas. A call has a connection to itself while that leaves one for the
 * others. Calls that may join others share one (net/joint.h): while two calls use it, all further
 * calls join them. A call that finds a connection being opened waits for it. While one is open and
 * no other can be opened (the server is full), calls share it, and try less and less often to open
 * another; no call joins while the keeper, or a call that joins no other, waits for it. When a node
 * has become another server, the pool closes the old connections as it meets them.
 */
#ifndef HF_POOL_H
#define HF_POOL_H

#include "net/discovery.h"

typedef struct hf_pool hf_pool;

#define HF_POOL_EACH 2

/* Make a pool. The discovery must outlive it. NULL: no memory. */
hf_pool *hf_pool_new(hf_discovery *discovery);
/* Free the pool, after the last connection was returned. */
void hf_pool_free(hf_pool *pool);
/* Close idle connections now, and the others when they are returned. */
void hf_pool_shut(hf_pool *pool);

/*
 * Take a connection to the node, idle or new. HF_POOL_ALONE: for this call alone. HF_POOL_JOINS:
 * perhaps shared with other calls: then joint.on. HF_POOL_CONFIRMS: the connection for calls that
 * wait for replicas; joint.on. *now: the current time; updated.
 */
enum { HF_POOL_ALONE, HF_POOL_JOINS, HF_POOL_CONFIRMS };
hf_status hf_pool_take(hf_pool *pool, int node, int how, int64_t deadline, int64_t *now,
                       hf_connection **connection_out);
/* Take an idle connection, without waiting. HF_ECONNECT: there is none. */
hf_status hf_pool_take_idle(hf_pool *pool, int node, int64_t now, hf_connection **connection_out);
/* Return a connection to the pool. good: it can be used again; otherwise no other call joins it. */
void hf_pool_give(hf_pool *pool, hf_connection *connection, bool good);
/* Close the idle connections to a node: one has failed, and the others would fail too. */
void hf_pool_drop(hf_pool *pool, int node);

/*
 * Take a connection for the keeper, which must not wait. HF_LENT: an idle one. HF_OPEN: there is
 * room for a new one; hf_pool_opened() must follow. HF_LATER: there is none. After any result but
 * HF_LENT, the next returned connection is kept for the keeper, which is woken.
 */
enum { HF_LENT, HF_OPEN, HF_LATER };
/* Whether the keeper may open a connection: never; if the pool has room; or one more rather than
 * wait. */
enum { HF_OPENS_NONE, HF_OPENS, HF_OPENS_MORE };
int hf_pool_lend(hf_pool *pool, int node, int opens, int64_t now, hf_connection **connection_out);
/* Return whether calls wait for the keeper's connection, because no other can be opened. */
bool hf_pool_waits(hf_pool *pool, int node);
/* Count the keeper's new connection; NULL: there is none, for the reason in the status and this
 * thread's message; HF_OK: it is no longer wanted, and a waiting call opens its own. Returns
 * whether a connection is open, this one or another. */
bool hf_pool_opened(hf_pool *pool, int node, hf_connection *connection, hf_status status);
/* Note that the keeper no longer waits for a connection. */
void hf_pool_forgo(hf_pool *pool, int node);
/* Close the connections that have been idle for a minute, except one to each node. Returns when to
 * call this again. */
int64_t hf_pool_tidy(hf_pool *pool, int64_t now);

#endif
