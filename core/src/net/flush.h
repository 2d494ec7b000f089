/* The last requests of a closing client, many at once. */
#ifndef HF_FLUSH_H
#define HF_FLUSH_H

#include "net/transport.h"

/* Send the requests, HF_FLUSH_MAX at most, to each node in one write, and read the answers; best
 * effort. If a connection dies, the unanswered requests are sent again, twice at most. */
#define HF_FLUSH_MAX 50
void hf_flush(hf_transport *transport, const hf_request *const *requests, size_t count,
              int64_t deadline);

#endif
