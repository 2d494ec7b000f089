/* Many requests to one node in one write; and the last requests of a closing client. */
#ifndef HF_FLUSH_H
#define HF_FLUSH_H

#include "net/transport.h"

/*
 * Send the requests to the node in one write, whatever slots they have, and read the answers:
 * replies[i], perhaps an error, for hf_replies_free(). whole: the first request of a script
 * includes the script's text, so that the server knows the script.
 *
 *   HF_OK        all are answered.
 *   HF_ECONNECT  the node was not reached, or hung up (the first answers may be there), or is
 *                no longer the master (no answer is there). Its idle connections are then closed.
 */
hf_status hf_ask_many(hf_transport *transport, int node, const hf_request *const *requests,
                      size_t count, bool whole, int64_t deadline, redisReply **replies);

/* Send the requests, at most HF_FLUSH_MAX, to each node in one write; best effort. A request
 * without a valid answer is sent again alone, at most twice; without memory to send it, every
 * HF_NO_MEMORY_MS. */
#define HF_FLUSH_MAX 50
#define HF_NO_MEMORY_MS 10
void hf_flush(hf_transport *transport, hf_request *const *requests, size_t count, int64_t deadline);
/* Return the deadline of a flush that others follow: in a cluster half of the time is left for
 * them, because a node that hangs takes all the time that it is given. */
int64_t hf_flush_share(const hf_transport *transport, int64_t deadline);

#endif
