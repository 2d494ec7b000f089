/*
 * Connected sockets. A forked child closes its copies at once: an open copy would keep the
 * subscription of a dead parent alive. So each socket is in a list from before it is connected
 * until it is closed.
 */
#ifndef HF_SOCKET_H
#define HF_SOCKET_H

#include "base/list.h"
#include "net/address.h"

/* A socket. It must not move while it is open. */
typedef struct hf_socket {
    int fd;
    hf_item open; /* in the list of all sockets */
} hf_socket;

/* Look the address up, and connect to the first place there that answers: a socket that waits in
 * reads and writes. HF_ECONNECT, with a message. */
hf_status hf_socket_connect(hf_socket *socket, const hf_address *address, int64_t deadline);
/* Close the socket, if it is open. */
void hf_socket_close(hf_socket *socket);

#endif
