/* One connection to one server: reach it, log in, send, receive. Over hiredis. */
#ifndef HF_CONNECTION_H
#define HF_CONNECTION_H

#include <hiredis/hiredis.h>

#include "net/address.h"
#include "net/tls.h"

typedef struct hf_connection {
    redisContext *redis;
    hf_tls_session *tls;               /* or NULL */
    redisContextFuncs functions;       /* hiredis's, but for reading and writing */
    redisReplyObjectFunctions objects; /* hiredis's, but for arrays */
    void *(*create_array)(const redisReadTask *task, size_t elements);
    bool too_deep;                       /* the answer that was being read */
    struct hf_connection *next;          /* in the pool */
    struct hf_connection *older, *newer; /* of all of this process */
    int node;                            /* that it leads to, in a pool */
    unsigned version;                    /* of that node */
    int64_t idle_since;
    int64_t deadline;   /* of the read or write that is under way */
    int64_t timeout_ms; /* what the socket's timeout is set to */
    size_t received;    /* bytes of the reply that is being read */
    bool heard;         /* the server has sent something */
    bool driven;        /* non-blocking: driven by hand over poll(2) */
    int unheeded;       /* so many answers are still to come that nobody waits for */
    char shown[128];    /* the address, for messages */
} hf_connection;

/* No array in an answer has more parts: hiredis makes room for those that are
 * announced, before they come. */
#define HF_REPLY_PARTS_MAX 20000

/* Connect, log in; unless it is only to be asked, choose the database and see that the server is
 * new enough. */
enum { HF_NEEDS_SERVER, HF_NEEDS_MASTER, HF_ASKS_ONLY };
hf_status hf_connection_open(const hf_address *address, const hf_tls *tls, int needs,
                             int64_t deadline, hf_connection **connection_out);
hf_status hf_connection_authenticate(hf_connection *connection, const hf_address *address,
                                     int64_t deadline);
/* One command of a few words, and its reply. */
hf_status hf_connection_ask(hf_connection *connection, int64_t deadline, redisReply **reply_out,
                            int count, const char **words);
void hf_connection_close(hf_connection *connection);

/* Has it been closed, or been sent something nobody asked for, while it was idle? */
bool hf_connection_stale(const hf_connection *connection);

/* Is there more than the answer that was read last, of something nobody asked for? It
 * would be taken for the next answer. */
bool hf_connection_unasked(const hf_connection *connection);

/* What to give to poll(2). */
int hf_connection_fd(const hf_connection *connection);

/* Queue ASKING, a command of some words, or bytes, for the next exchange: each gets an
 * answer. lengths: of the words, or NULL if each ends with a NUL. False: no memory. */
bool hf_connection_append_asking(hf_connection *connection);
bool hf_connection_append_words(hf_connection *connection, int count, const char **words,
                                const size_t *lengths);
bool hf_connection_append(hf_connection *connection, const hf_bytes *bytes);

/*
 * Send what is queued and read one reply. After anything but HF_OK the
 * connection is good for nothing but to be closed.
 */
hf_status hf_connection_exchange(hf_connection *connection, int64_t deadline,
                                 redisReply **reply_out);

/*
 * The same without ever blocking from now on, for a thread that waits in poll(2).
 * hf_connection_drive() does what can be done now; hf_connection_next() takes the replies
 * that are there: HF_OK with NULL when there is none. False: the system refuses.
 */
bool hf_connection_set_driven(hf_connection *connection);
hf_status hf_connection_drive(hf_connection *connection);
hf_status hf_connection_next(hf_connection *connection, redisReply **reply_out);
/* What to wait for: POLLIN, and POLLOUT if there is something to send. */
short hf_connection_events(const hf_connection *connection);

#endif
