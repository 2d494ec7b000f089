/* TLS over a connected socket, by OpenSSL: who is at the other end is checked. */
#ifndef HF_TLS_H
#define HF_TLS_H

#include <sys/types.h>

#include "net/address.h"

typedef struct hf_tls hf_tls;                 /* what all connections to an address share */
typedef struct hf_tls_session hf_tls_session; /* one connection */

/* Read certificates and keys. HF_EINVAL with what is wrong with them. */
hf_status hf_tls_new(const hf_address *address, hf_tls **tls_out);
void hf_tls_free(hf_tls *tls);

hf_status hf_tls_begin(const hf_tls *tls, const hf_address *address, int fd,
                       hf_tls_session **session_out);
void hf_tls_end(hf_tls_session *session);

/* As recv() and send(): a count, 0 at the end, or -1 with errno; EPROTO: see hf_tls_error(). */
ssize_t hf_tls_receive(hf_tls_session *session, void *buffer, size_t size);
ssize_t hf_tls_send(hf_tls_session *session, const void *bytes, size_t size);

/* Why it failed, in words a user can act on: which certificate, and what of it. */
const char *hf_tls_error(const hf_tls_session *session);
/* The handshake is over. */
bool hf_tls_established(const hf_tls_session *session);
/* The last thing it did waits for bytes from the other end, even if it was a send. */
bool hf_tls_wants_input(const hf_tls_session *session);
/* Decrypted bytes that wait inside, where poll(2) does not see them. */
bool hf_tls_pending(const hf_tls_session *session);

#endif
