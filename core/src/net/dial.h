/*
 * A thread opens a connection for a caller that must not wait: for sentinels, name servers, a
 * password file or a TLS handshake.
 */
#ifndef HF_DIAL_H
#define HF_DIAL_H

#include "net/transport.h"

typedef struct hf_dial hf_dial;

/* NULL: no memory, or no thread. At its end it writes to the transport's wake descriptor. */
hf_dial *hf_dial_start(hf_transport *transport, int node);
/*
 * False: it is not over yet. True: it is over, and the dial is freed. *connection_out: a
 * driven connection that is logged in; or NULL, with *status_out and the message of the
 * failure.
 */
bool hf_dial_take(hf_dial *dial, hf_connection **connection_out, hf_status *status_out);
/* Does it have a connection to that version of its node, or is about to be over with one? Not if
 * it is NULL. */
bool hf_dial_reached(hf_dial *dial, unsigned version);
/* Give it up: the connection is closed as soon as it is open. Does nothing to NULL. */
void hf_dial_drop(hf_dial *dial);

#endif
