/*
 * A thread that opens a connection for a caller that must not wait for sentinels, name servers, a
 * password file or a TLS handshake.
 */
#ifndef HF_DIAL_H
#define HF_DIAL_H

#include "net/transport.h"

typedef struct hf_dial hf_dial;

/* Start a dial, which writes to the transport's wake descriptor at its end. NULL: no memory, or no
 * thread. */
hf_dial *hf_dial_start(hf_transport *transport, int node);
/*
 * Take the result of a dial. False: it is still under way. True: it has ended and is freed;
 * *connection_out is a driven connection that is logged in; or NULL, with *status_out and the
 * message of the failure.
 */
bool hf_dial_take(hf_dial *dial, hf_connection **connection_out, hf_status *status_out);
/* Return whether the dial has, or is about to return, a connection to that version of its node.
 * False if it is NULL. */
bool hf_dial_reached(hf_dial *dial, unsigned version);
/* Abandon the dial: its connection is closed as soon as it is open. NULL is allowed. */
void hf_dial_drop(hf_dial *dial);

#endif
