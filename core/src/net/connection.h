/* One connection to one server: reach it, send, receive. hiredis reads the answers. */
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
    size_t behind;         /* how many answers, for calls that have left, come after theirs */
    hf_item *reader;       /* the call that reads, or is woken to read; or NULL */
    int64_t alive_at;      /* when that one was last seen */
    bool sending, reading; /* a call is at it; without the mutex, but for TLS */
    hf_bytes leaving;      /* the sender's */
    hf_status status;      /* HF_OK; or it has failed, */
    char why[300];         /* and this is the message */
    /* Of the calls that wait for replicas: */
    pthread_cond_t counted; /* one of them has an answer to its WAIT */
    bool counting;          /* one of them waits for it */
    size_t written;         /* how many calls have written something, */
    size_t covered;         /* how many of these had before the last WAIT with an answer, */
    int64_t replicas;       /* and that answer */
} hf_joint;

typedef struct hf_connection {
    hf_socket socket;
    redisReader *reader;
    int error;                         /* hiredis's number of what has failed, or 0; */
    char why[128];                     /* and the reason */
    hf_tls_session *tls;               /* or NULL */
    hf_bytes output;                   /* commands, as they are sent */
    redisReplyObjectFunctions objects; /* hiredis's, but for arrays, strings and integers */
    void *(*create_array)(const redisReadTask *task, size_t elements);
    bool too_deep;          /* the current answer is */
    hf_item idle;           /* in the pool */
    struct hf_shelf *shelf; /* the pool's */
    unsigned users;         /* calls that the pool gave it to */
    bool broken;            /* the last of them closes it */
    hf_joint joint;
    int node;           /* the node that it leads to, in a pool */
    unsigned version;   /* of that node */
    int64_t used_at;    /* when the last exchange began */
    int64_t deadline;   /* of the read or write that is under way */
    int64_t timeout_ms; /* the socket's timeout */
    size_t received;    /* bytes of the reply that is being read */
    bool fetches;       /* some request of it may be answered with a result */
    bool local;         /* over a path of this machine */
    bool heard;         /* the server has sent something */
    bool driven;        /* it waits in no read and no write, but its users in poll(2) */
    int unheeded;       /* how many of the next answers no call waits for */
    char shown[128];    /* the address, for messages */
} hf_connection;

/* No array in an answer has more parts: hiredis makes room for all announced parts before
 * they arrive. */
#define HF_REPLY_PARTS_MAX 20000

/* Connect. */
hf_status hf_connection_new(const hf_address *address, const hf_tls *tls, int64_t deadline,
                            hf_connection **connection_out);
/* A command; without words it is not sent. */
typedef struct hf_words {
    int count;
    const char *words[4];
} hf_words;
/* Send the commands in one write, and read their replies, of which some may be there after a
 * failure, too: for hf_replies_free(). */
hf_status hf_connection_ask(hf_connection *connection, int64_t deadline, size_t count,
                            const hf_words *commands, redisReply **replies);
void hf_replies_free(redisReply **replies, size_t count);
void hf_connection_close(hf_connection *connection);

/* Did the server close it, or is there something to read? While it was idle nothing was asked. */
bool hf_connection_stale(const hf_connection *connection);

/* Did the server send more than the last answer? The rest would be taken for the next answer. */
bool hf_connection_unasked(const hf_connection *connection);

/* Queue a command of some words, or a request, for the next exchange. lengths: of the words, or
 * NULL if each ends with a NUL. False: no memory, and the connection must be closed. */
bool hf_connection_append_words(hf_connection *connection, int count, const char *const *words,
                                const size_t *lengths);
/* how: HF_WHOLE: with the script's text; HF_ASKING: after ASKING; HF_NUDGES: after a PING. */
enum { HF_WHOLE = 1, HF_ASKING = 2, HF_NUDGES = 4 };
bool hf_connection_append(hf_connection *connection, const hf_request *request, int how);
/* The scripts whose text is in a write: later requests find them loaded. */
typedef struct hf_texts {
    const hf_script *told[4];
    size_t count;
} hf_texts;
/* Is the text of that script missing? It is to be added then. */
bool hf_texts_miss(hf_texts *texts, const hf_script *script);
/* How many answers arrive before the answer to a request. */
static inline int hf_answers_before(int how) {
    return ((how & HF_ASKING) != 0) + ((how & HF_NUDGES) != 0);
}

/*
 * Send what is queued and read one reply. After any other status than HF_OK the caller must close
 * the connection.
 */
hf_status hf_connection_exchange(hf_connection *connection, int64_t now, int64_t deadline,
                                 redisReply **reply_out);

/*
 * Let a thread drive the connection that waits in poll(2). From now on hf_connection_drive() sends
 * and receives as much as it can, and hf_connection_next() takes a reply that has arrived: HF_OK
 * with NULL if there is no reply.
 */
void hf_connection_set_driven(hf_connection *connection);
hf_status hf_connection_drive(hf_connection *connection);
/* Receive only. */
hf_status hf_connection_receive(hf_connection *connection);
/* Send the bytes as send(2) does. */
ssize_t hf_connection_send(const hf_connection *connection, const char *bytes, size_t count);
/* Why that failed, with this errno. */
const char *hf_connection_error(const hf_connection *connection, int error);
hf_status hf_connection_next(hf_connection *connection, redisReply **reply_out);
/* The events to wait for: POLLIN, and POLLOUT if there is something to send. */
short hf_connection_events(const hf_connection *connection);

#endif
