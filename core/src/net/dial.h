/*
 * A connection on its way, opened by a thread that may wait: for sentinels and name servers, a
 * password file, a TLS handshake. For whoever must not wait.
 */
#ifndef HF_DIAL_H
#define HF_DIAL_H

#include "net/transport.h"

typedef struct hf_dial hf_dial;

/* NULL: no memory, or no thread. When it is over the transport's wake descriptor is written to. */
hf_dial *hf_dial_start(hf_transport *transport, int node);
/*
 * False: it is not over yet. True: it is over, and the dial is freed. *connection_out is a
 * connection that is logged in and driven, or NULL with its thread's message, and with
 * *status_out.
 */
bool hf_dial_take(hf_dial *dial, hf_connection **connection_out, hf_status *status_out);
/* Nobody wants it any more: it is closed as soon as it is there. NULL: nothing to do. */
void hf_dial_drop(hf_dial *dial);

#endif
