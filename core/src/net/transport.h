/*
 * Requests and their answers, on the calling thread. The layers above know neither
 * connection nor deployment: a request has a slot, and is served by a node, which is a
 * number; where one server has everything, it is 0.
 */
#ifndef HF_TRANSPORT_H
#define HF_TRANSPORT_H

#include "net/address.h"
#include "net/connection.h"
#include "net/discovery.h"
#include "protocol/answers.h"
#include "protocol/errors.h"
#include "protocol/requests.h"

typedef struct hf_transport hf_transport;

typedef struct hf_answer {
    redisReply *reply; /* freeReplyObject(); NULL unless HF_OK */
    int64_t sent_at;   /* when the request that was answered was sent */
    int node;          /* that answered */
    bool doubtful;     /* some copy of the request was sent and has no answer */
    /* So many replicas are known to have what it wrote, if it asked; -1: WAIT was refused,
     * and the last message says why. */
    int64_t replicas;
} hf_answer;

/* Takes the address over, also if it fails; its options are complete. Connects once. */
hf_status hf_transport_open(hf_address *address, hf_transport **transport_out);
/* No call tries again from now on. */
void hf_transport_hurry(hf_transport *transport);
/* Close idle connections now, and the others when they come back. */
void hf_transport_shut(hf_transport *transport);
void hf_transport_free(hf_transport *transport);

/*
 * Run the request and wait for its answer, on the calling thread. It is sent
 * again, unchanged, as long as it is in doubt or the server is not ready, until
 * the deadline: so it must be one that a server can carry out twice.
 *
 *   HF_OK         an answer that is no error.
 *   HF_EUNKNOWN   sent, perhaps carried out.
 *   others        not carried out.
 */
hf_status hf_transport_call(hf_transport *transport, const hf_request *request, int64_t deadline,
                            hf_answer *answer);

/* Complete this thread's message about a refused request: which permissions the user lacks. */
void hf_transport_explain(hf_transport *transport, const hf_request *request, int64_t deadline);

/* Send all requests, HF_FLUSH_MAX at most, to each node in one go and read the answers
 * away, best effort: what a connection that died leaves unanswered is sent again, twice
 * at most. */
#define HF_FLUSH_MAX 50
void hf_transport_flush(hf_transport *transport, const hf_request *const *requests, size_t count,
                        int64_t deadline);

/* Who serves that slot now. */
int hf_transport_node(const hf_transport *transport, unsigned slot);
/* Goes up whenever some slot is served by another, or a node is another server. */
unsigned hf_transport_change(const hf_transport *transport);
/* Does it serve any slot? */
bool hf_transport_serves(hf_transport *transport, int node);
/* Are there slots, that is, must one script's keys be of one slot? */
bool hf_transport_clustered(const hf_transport *transport);
/* Where its MOVED or ASK leads; -1: it does not know, and all are asked anew. */
int hf_transport_redirect(hf_transport *transport, int node, const char *text);
/* hf_error_class() for an answer of a server that is so shown, with the message. */
hf_after_error hf_transport_error(hf_transport *transport, const char *shown, const char *text,
                                  hf_status *status);

/* Goes up whenever the node is found to be another server. */
unsigned hf_transport_version(hf_transport *transport, int node);
/* In a Cluster: have a thread ask the nodes which of them serves what. */
void hf_transport_look(hf_transport *transport);

/* An eventfd that is written to when a version or a slot's node changes, and when a dial is
 * over; -1: none any more. */
void hf_transport_set_wake(hf_transport *transport, int fd);
hf_discovery *hf_transport_discovery(hf_transport *transport);
/* What hf_client_warning() answers. */
const char *hf_transport_warning(const hf_transport *transport);
/* The user's address, for messages. */
const char *hf_transport_shown(const hf_transport *transport);
int64_t hf_transport_command_ms(const hf_transport *transport);

/* For how long a call without a timeout of its own may take. */
int64_t hf_transport_patience_ms(const hf_transport *transport);

#endif
