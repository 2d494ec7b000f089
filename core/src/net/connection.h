/* One connection to one server: reach it, log in, send, receive. Over hiredis. */
#ifndef HF_CONNECTION_H
#define HF_CONNECTION_H

#include <hiredis/hiredis.h>
#include <pthread.h>

#include "net/address.h"
#include "net/socket.h"
#include "net/tls.h"
#include "protocol/requests.h"

/* The calls that use a connection at once: net/joint.h. */
typedef struct hf_joint {
    bool on;
    pthread_mutex_t mutex; /* of all here, and of the connection's output */
    hf_list calls;         /* whose requests were sent, or will be, in this order; not answered */
    size_t behind;         /* so many answers come after theirs, for calls that have gone */
    hf_item *reader;       /* the call that reads, or was told to; or NULL */
    int64_t alive_at;      /* when that one was last seen */
    bool sending, reading; /* a call is at it, without the mutex */
    hf_bytes leaving;      /* the sender's */
    hf_status status;      /* HF_OK; or it has failed, */
    char why[300];         /* and this is the message */
} hf_joint;

typedef struct hf_connection {
    hf_socket socket;
    redisContext *redis;
    hf_tls_session *tls;               /* or NULL */
    hf_bytes output;                   /* commands, as they are sent */
    size_t sent;                       /* so much of it */
    redisContextFuncs functions;       /* hiredis's, but for reading */
    redisReplyObjectFunctions objects; /* hiredis's, but for arrays, strings and integers */
    void *(*create_array)(const redisReadTask *task, size_t elements);
    bool too_deep;  /* the current answer is */
    hf_item idle;   /* in the pool */
    unsigned users; /* calls that the pool gave it to */
    bool broken;    /* the last of them closes it */
    hf_joint joint;
    int node;            /* the node that it leads to, in a pool */
    unsigned version;    /* of that node */
    unsigned current_at; /* the last change of the discovery when that was the newest one */
    int64_t used_at;     /* when the last exchange began */
    int64_t deadline;    /* of the read or write that is under way */
    int64_t timeout_ms;  /* what the socket's timeout is set to */
    size_t received;     /* bytes of the reply that is being read */
    bool local;          /* over a path of this machine */
    bool heard;          /* the server has sent something */
    bool driven;         /* it waits in no read and no write, but its users in poll(2) */
    int unheeded;        /* how many of the next answers nobody waits for */
    char shown[128];     /* the address, for messages */
} hf_connection;

/* No array in an answer has more parts: hiredis makes room for all announced parts before they
 * come. */
#define HF_REPLY_PARTS_MAX 20000

/* Connect. Unless HF_ASKS_ONLY: log in, choose the database, and check that the server is new
 * enough. */
enum { HF_NEEDS_SERVER, HF_NEEDS_MASTER, HF_ASKS_ONLY };
hf_status hf_connection_open(const hf_address *address, const hf_tls *tls, int needs,
                             int64_t deadline, hf_connection **connection_out);
hf_status hf_connection_authenticate(hf_connection *connection, const hf_address *address,
                                     int64_t deadline);
/* Send one command of a few words, and read its reply. */
hf_status hf_connection_ask(hf_connection *connection, int64_t deadline, redisReply **reply_out,
                            int count, const char **words);
void hf_connection_close(hf_connection *connection);

/* Did the server close it, or send something unasked, while it was idle? */
bool hf_connection_stale(const hf_connection *connection);

/* Did the server send more than the last answer? The rest would be taken for the next answer. */
bool hf_connection_unasked(const hf_connection *connection);

/* The descriptor for poll(2). */
int hf_connection_fd(const hf_connection *connection);

/* Queue a command of some words, or a request, for the next exchange: each gets an answer, and
 * so does the ASKING before a request. lengths: of the words, or NULL if each ends with a NUL.
 * False: no memory, and the connection is of no use any more. */
bool hf_connection_append_words(hf_connection *connection, int count, const char **words,
                                const size_t *lengths);
bool hf_connection_append(hf_connection *connection, const hf_request *request, bool whole,
                          bool asking);

/*
 * Send what is queued and read one reply. After any other status than HF_OK the caller must close
 * the connection.
 */
hf_status hf_connection_exchange(hf_connection *connection, int64_t now, int64_t deadline,
                                 redisReply **reply_out);

/*
 * Make the connection non-blocking, for a thread that waits in poll(2). False: the system
 * refuses. From now on hf_connection_drive() sends and receives as much as it can, and
 * hf_connection_next() takes a reply that has come: HF_OK with NULL if there is no reply.
 */
bool hf_connection_set_driven(hf_connection *connection);
hf_status hf_connection_drive(hf_connection *connection);
/* Only the latter. */
hf_status hf_connection_receive(hf_connection *connection);
hf_status hf_connection_next(hf_connection *connection, redisReply **reply_out);
/* The events to wait for: POLLIN, and POLLOUT if there is something to send. */
short hf_connection_events(const hf_connection *connection);

#endif
