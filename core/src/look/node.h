/* Requests to a server that concern no single lock; they end with the client's patience. */
#ifndef HF_NODE_H
#define HF_NODE_H

#include "lock/client.h"
#include "net/flush.h"

/* Send one plain command to the node, again on a new connection if an idle one turns out to be
 * dead. An error is an answer too. The caller frees the reply. shown: receives the server's
 * address, with room for HF_SHOWN_MAX bytes; or NULL. */
#define HF_SHOWN_MAX 128
hf_status hf_node_ask(hf_client *client, int node, char *shown, const hf_words *words,
                      redisReply **reply_out);

/*
 * All requests, HF_NODE_MOST at most, in one write, whatever slots the node serves. They must only
 * read, because they are sent again while the node is not ready.
 *
 *   HF_OK        replies[i] is the answer to each, perhaps an error; for hf_replies_free().
 *   HF_ECONNECT  no request was answered, or the node no longer serves slots.
 */
#define HF_NODE_MOST 25
hf_status hf_node_ask_all(hf_client *client, int node, const hf_request *requests, size_t count,
                          redisReply **replies);

/* Look at a lock, wherever it is now, as hf_request_inspect() describes. The caller frees the
 * reply. */
hf_status hf_node_inspect(const hf_client *client, const hf_names *names, int64_t skip,
                          int64_t most, bool whole, redisReply **reply_out);

/* Make a new id, for a request or a hold. */
hf_status hf_node_new_id(hf_client *client, char *id);
/* Bury the request with that id: no copy of it is carried out from then on. If the client's thread
 * cannot do it, because it is closed or for want of memory, this thread does, until the
 * deadline. */
void hf_node_bury(hf_client *client, hf_names *names, const char *id, int64_t deadline);
/* Have a lock handed on that was left free with more waiters to skip in its queue. */
void hf_node_kick(hf_client *client, hf_names *names);

/* Return the next node, from this number on, that serves a slot or might; -1: there is none. */
int hf_node_next(hf_transport *transport, int node);

#endif
