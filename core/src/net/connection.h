/* One connection to one server: connect, send, receive. hiredis reads the answers. */
#ifndef HF_CONNECTION_H
#define HF_CONNECTION_H

#include <hiredis/hiredis.h>
#include <pthread.h>

#include "net/address.h"
#include "net/socket.h"
#include "net/tls.h"
#include "protocol/requests.h"

/* The calls that share a connection: net/joint.h. */
typedef struct hf_joint {
    bool on;
    pthread_mutex_t mutex; /* guards all members, and the connection's output */
    hf_list calls;         /* calls without an answer, in the order in which their requests were or
                            * will be sent */
    size_t behind;         /* the number of answers after theirs, for calls that have left */
    hf_item *reader;       /* the call that reads, or is woken to read; or NULL */
    int64_t alive_at;      /* when the reader was last active */
    bool sending, reading; /* a call is doing it; without the mutex, except over TLS */
    hf_bytes leaving;      /* bytes that the sender has taken */
    hf_status status;      /* not HF_OK: the connection has failed */
    char why[300];         /* the message of the failure */
    /* For the calls that wait for replicas: */
    pthread_cond_t counted; /* a call has received the answer to its WAIT */
    bool counting;          /* a call waits for that answer */
    size_t written;         /* the number of calls that have written */
    size_t covered;         /* the number of these that the last answer to a WAIT covers */
    int64_t replicas;       /* the number in that answer */
} hf_joint;

typedef struct hf_connection {
    hf_socket socket;
    redisReader *reader;
    int error;                         /* hiredis's number of the failure, or 0 */
    char why[128];                     /* the reason of the failure */
    hf_tls_session *tls;               /* or NULL */
    hf_bytes output;                   /* commands, in the form in which they are sent */
    redisReplyObjectFunctions objects; /* hiredis's functions, with ours for arrays, strings and
                                        * integers */
    void *(*create_array)(const redisReadTask *task, size_t elements);
    bool too_deep;          /* the current answer is nested too deep */
    hf_item idle;           /* in the pool */
    struct hf_shelf *shelf; /* the shelf of the pool */
    unsigned users;         /* the number of calls that the pool gave it to */
    bool broken;            /* its last user closes it */
    hf_joint joint;
    int node;           /* the node that it leads to, in a pool */
    unsigned version;   /* of that node */
    int64_t used_at;    /* when the last exchange began */
    int64_t deadline;   /* of the read or write that is under way */
    int64_t timeout_ms; /* the socket's current timeout */
    size_t received;    /* bytes received of the current reply */
    bool fetches;       /* a request on it may be answered with a result */
    bool local;         /* over a path on this machine */
    bool heard;         /* the server has sent something */
    bool driven;        /* it never waits in a read or a write; its users wait in poll(2) */
    int unheeded;       /* how many of the next answers no call waits for */
    char shown[128];    /* the address, for messages */
} hf_connection;

/* The most elements of an array in an answer: hiredis allocates room for all announced elements
 * before they arrive. */
#define HF_REPLY_PARTS_MAX 20000

/* Connect. */
hf_status hf_connection_new(const hf_address *address, const hf_tls *tls, int64_t deadline,
                            hf_connection **connection_out);
/* A command; without words it is not sent. */
typedef struct hf_words {
    int count;
    const char *words[4];
} hf_words;
/* Send the commands in one write, and read their replies, which hf_replies_free() frees; some may
 * be there after a failure, too. */
hf_status hf_connection_ask(hf_connection *connection, int64_t deadline, size_t count,
                            const hf_words *commands, redisReply **replies);
void hf_replies_free(redisReply **replies, size_t count);
void hf_connection_close(hf_connection *connection);

/* Return whether the server has closed the connection, or has sent bytes: while it was idle, no
 * request was under way. */
bool hf_connection_stale(const hf_connection *connection);

/* Return whether the server sent more than the last answer: the rest would be taken for the next
 * answer. */
bool hf_connection_unasked(const hf_connection *connection);

/* Queue a command of some words for the next exchange. lengths: of the words, or NULL if each ends
 * with a NUL. False: no memory, and the connection must be closed. */
bool hf_connection_append_words(hf_connection *connection, int count, const char *const *words,
                                const size_t *lengths);
/* How to send a request. HF_WHOLE: with the script's text; HF_ASKING: after ASKING; HF_NUDGES:
 * after a PING. */
enum { HF_WHOLE = 1, HF_ASKING = 2, HF_NUDGES = 4 };
/* Queue the request. False: no memory, and what was queued before stays. */
bool hf_connection_append(hf_connection *connection, const hf_request *request, int how);
/* The scripts whose text is in a write: later requests in it find them loaded. */
typedef struct hf_texts {
    const hf_script *told[4];
    size_t count;
} hf_texts;
/* Return whether the text of that script is missing, and must be added. */
bool hf_texts_miss(hf_texts *texts, const hf_script *script);
/* Return how many answers arrive before the answer to a request. */
static inline int hf_answers_before(int how) {
    return ((how & HF_ASKING) != 0) + ((how & HF_NUDGES) != 0);
}

/*
 * Send the queued bytes and read one reply. After any status but HF_OK the caller must close the
 * connection.
 */
hf_status hf_connection_exchange(hf_connection *connection, int64_t now, int64_t deadline,
                                 redisReply **reply_out);

/*
 * Let a thread that waits in poll(2) drive the connection. From now on hf_connection_drive() sends
 * and receives as much as it can, and hf_connection_next() takes a reply that has arrived: HF_OK
 * with NULL if there is no reply.
 */
void hf_connection_set_driven(hf_connection *connection);
hf_status hf_connection_drive(hf_connection *connection);
/* Receive as hf_connection_drive() does, but send nothing. */
hf_status hf_connection_receive(hf_connection *connection);
/* Send the bytes as send(2) does. */
ssize_t hf_connection_send(const hf_connection *connection, const char *bytes, size_t count);
/* Return why hf_connection_send() failed, with this errno. */
const char *hf_connection_error(const hf_connection *connection, int error);
hf_status hf_connection_next(hf_connection *connection, redisReply **reply_out);
/* Return the events to wait for: POLLIN, and POLLOUT if there are bytes to send. */
short hf_connection_events(const hf_connection *connection);

#endif
