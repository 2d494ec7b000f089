/*
 * Requests and their answers, on the calling thread. The layers above know neither connections nor
 * the deployment: a request has a slot, and a node serves the slot. A node is a number; a single
 * server is node 0.
 */
#ifndef HF_TRANSPORT_H
#define HF_TRANSPORT_H

#include "net/address.h"
#include "net/connection.h"
#include "net/course.h"
#include "net/discovery.h"
#include "protocol/answers.h"
#include "protocol/errors.h"
#include "protocol/requests.h"

typedef struct hf_transport {
    hf_discovery *discovery;
    struct hf_pool *pool;
    const char *shown;              /* the user's address, for messages */
    int64_t connect_ms, command_ms; /* the first also limits calls without a timeout of their own */
    bool hurried;                   /* no call tries again; atomic */
    char warning[700];              /* the answer of hf_client_warning() */
} hf_transport;

typedef struct hf_answer {
    redisReply *reply; /* for freeReplyObject(); NULL unless HF_OK */
    int64_t sent_at;   /* when the answered request was sent */
    int node;          /* the node that answered */
    bool doubtful;     /* a copy of the request was sent and has no answer */
    /* How many replicas have the request's writes, if it asked for replicas; -1: not known, for the
     * reason in the last message, with the status `counted`. */
    int64_t replicas;
    hf_status counted;
} hf_answer;

/* Open the transport, and connect once. Takes the address over, even if it fails; its options must
 * be complete. */
hf_status hf_transport_open(hf_address *address, hf_transport **transport_out);
/* Let no call try again from now on. */
void hf_transport_hurry(hf_transport *transport);
/* Close idle connections now, and the others when they are returned. */
void hf_transport_shut(hf_transport *transport);
void hf_transport_free(hf_transport *transport);

/* Append a warning to the warnings, as far as there is room. */
__attribute__((format(printf, 3, 4))) void hf_warn(char *warnings, size_t capacity,
                                                   const char *format, ...);
/* Append a warning if the server, by this answer of INFO, may evict a held lock. */
void hf_warn_of_eviction(char *warnings, size_t capacity, const char *shown, const char *info);

/*
 * Run the request and wait for its answer, on the calling thread. While the request is in doubt or
 * the server is not ready, the call sends it again, unchanged, until the deadline: the server must
 * be able to carry it out twice. Only while its slot is being moved, it may become
 * hf_request_alone().
 *
 *   HF_OK         an answer that is no error.
 *   HF_EUNKNOWN   sent, perhaps carried out.
 *   others        not carried out.
 */
hf_status hf_transport_call(hf_transport *transport, hf_request *request, int64_t deadline,
                            hf_answer *answer);

/* Add to this thread's message about a refused request which permissions the user lacks. */
void hf_transport_explain(hf_transport *transport, const hf_request *request, int64_t deadline);
/* Return the status of a request whose answer was lost, for the reason in this thread's message. */
hf_status hf_transport_unknown(const hf_transport *transport);
/* Set the message of a refusal: its text, with the result of hf_request_permissions(): a reply, or
 * NULL and this thread's message. */
void hf_transport_refusal(const char *text, const hf_request *question, const redisReply *reply);

/* Return hf_error_class() of an error, and set the message; shown: the server's address. */
hf_after_error hf_transport_error(hf_transport *transport, const char *shown, const char *text,
                                  hf_status *status);

/* Read a node's error: what it means, with the message, and where it points. */
hf_status hf_transport_read_error(hf_transport *transport, const char *shown, int node,
                                  const redisReply *reply, hf_outcome *outcome);

/* Return the status of a request that the step ends after an error, and set the message if the
 * error has no reason. */
hf_status hf_transport_ended(const hf_transport *transport, const hf_step *step, unsigned slot,
                             hf_status status);

/* Pause for half of `ms` to all of it. */
void hf_transport_pause(int64_t ms);
#endif
