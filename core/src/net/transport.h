/*
 * Requests and their answers, on the calling thread. The layers above know neither connections
 * nor the deployment: a request has a slot, and a node serves the slot. A node is a number; a
 * single server is node 0.
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
    int node;          /* the node that answered */
    bool doubtful;     /* a copy of the request was sent and has no answer */
    /* How many replicas have what the request wrote, if it asked for that; -1: WAIT was refused,
     * and the last message says why. */
    int64_t replicas;
} hf_answer;

/* Takes the address over, even if it fails; its options must be complete. Connects once. */
hf_status hf_transport_open(hf_address *address, hf_transport **transport_out);
/* No call tries again from now on. */
void hf_transport_hurry(hf_transport *transport);
/* Close idle connections now, and the others when they come back. */
void hf_transport_shut(hf_transport *transport);
void hf_transport_free(hf_transport *transport);

/*
 * Run the request and wait for its answer, on the calling thread. While it is in doubt or the
 * server is not ready, the call sends it again, unchanged, until the deadline: the server must be
 * able to carry it out twice.
 *
 *   HF_OK         an answer that is no error.
 *   HF_EUNKNOWN   sent, perhaps carried out.
 *   others        not carried out.
 */
hf_status hf_transport_call(hf_transport *transport, const hf_request *request, int64_t deadline,
                            hf_answer *answer);

/* Complete this thread's message about a refused request: which permissions the user lacks. */
void hf_transport_explain(hf_transport *transport, const hf_request *request, int64_t deadline);
/* The status of a request whose answer was lost, for the reason that this thread's message
 * says. */
hf_status hf_transport_unknown(const hf_transport *transport);
/* The message of a refusal: its text, with what came of hf_request_permissions(): a reply, or
 * NULL and this thread's message. */
void hf_transport_refusal(const char *text, const hf_request *question, const redisReply *reply);

/* Send the requests, HF_FLUSH_MAX at most, to each node in one write, and read the answers; best
 * effort. If a connection dies, the unanswered requests are sent again, twice at most. */
#define HF_FLUSH_MAX 50
void hf_transport_flush(hf_transport *transport, const hf_request *const *requests, size_t count,
                        int64_t deadline);

/* The node that serves the slot now. */
int hf_transport_node(const hf_transport *transport, unsigned slot);
/* Goes up whenever a slot gets another node, or a node becomes another server. */
unsigned hf_transport_change(const hf_transport *transport);
/* Another number than before: the slot has another server. */
unsigned hf_transport_place(const hf_transport *transport, unsigned slot);
/* May other servers take the place of these? Then a thread of the client is to know. */
bool hf_transport_follows(const hf_transport *transport);
/* Does the node serve any slot? */
bool hf_transport_serves(hf_transport *transport, int node);
/* Is it a cluster, where all keys of a script must be in one slot? */
bool hf_transport_clustered(const hf_transport *transport);
/* The node to which this node's MOVED or ASK leads; -1: it does not say, and all nodes are asked
 * again. */
int hf_transport_redirect(hf_transport *transport, int node, const char *text);
/* hf_error_class() of an error, with the message; shown: the server's address. */
hf_after_error hf_transport_error(hf_transport *transport, const char *shown, const char *text,
                                  hf_status *status);

/* Goes up whenever the node turns out to be another server. */
unsigned hf_transport_version(hf_transport *transport, int node);
/* In a cluster: let a thread ask the nodes which of them serves which slot. */
void hf_transport_look(hf_transport *transport);

/* Set the `to` of the hf_event to set when a version or a slot's node changes, and when a dial is
 * over; -1: no more. */
void hf_transport_set_wake(hf_transport *transport, int fd);
hf_discovery *hf_transport_discovery(hf_transport *transport);
struct hf_pool *hf_transport_pool(hf_transport *transport);
/* Has hf_transport_hurry() been called? */
bool hf_transport_hurries(const hf_transport *transport);
/* Pause for half of this up to all of it. */
void hf_transport_pause(int64_t ms);
/* The answer of hf_client_warning(). */
const char *hf_transport_warning(const hf_transport *transport);
/* How many connections were opened, and how many of them in place of others that broke. */
void hf_transport_connections(const hf_transport *transport, int64_t *opened, int64_t *again);
/* The user's address, for messages. */
const char *hf_transport_shown(const hf_transport *transport);
int64_t hf_transport_command_ms(const hf_transport *transport);

/* How long a call without its own timeout may take. */
int64_t hf_transport_patience_ms(const hf_transport *transport);

#endif
