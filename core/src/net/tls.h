/* TLS over a connected socket, by OpenSSL. It checks the identity of the server. */
#ifndef HF_TLS_H
#define HF_TLS_H

#include <sys/types.h>

#include "net/address.h"

typedef struct hf_tls hf_tls;                 /* shared by all connections to an address */
typedef struct hf_tls_session hf_tls_session; /* one connection */

/* Read certificates and keys. HF_EINVAL with a message. */
hf_status hf_tls_new(const hf_address *address, hf_tls **tls_out);
void hf_tls_free(hf_tls *tls);

/* Begin a session. has_time is called with `of` before each read and write of the socket that may
 * wait, and sets the socket's timeout; false: there is no time left. */
hf_status hf_tls_begin(const hf_tls *tls, const hf_address *address, int fd,
                       bool (*has_time)(void *of), void *of, hf_tls_session **session_out);
void hf_tls_end(hf_tls_session *session);

/* Receive and send as recv() and send() do, with their flags: a count, 0 at the end, or -1 with
 * errno; EPROTO: see hf_tls_error(). */
ssize_t hf_tls_receive(hf_tls_session *session, void *buffer, size_t size, int flags);
ssize_t hf_tls_send(hf_tls_session *session, const void *bytes, size_t size, int flags);

/* Return why the session failed, in words that a user can act on. */
const char *hf_tls_error(const hf_tls_session *session);
/* Return whether the handshake is complete. */
bool hf_tls_established(const hf_tls_session *session);
/* Return whether the last send waits for bytes from the server. A receive after it does not
 * count. */
bool hf_tls_starved(const hf_tls_session *session);
/* Return whether decrypted bytes are left, which poll(2) does not see. */
bool hf_tls_pending(const hf_tls_session *session);

#endif
