/*
 * The data of an acquire: an op, and the queue of its lock. queue.h has the order of the ops,
 * life.h the end of an op, waiting.h its re-checks, reading.h the sleep of a thread.
 */
#ifndef HF_OP_H
#define HF_OP_H

#include "lock/holds.h"

/* The event that wakes a waiting thread. */
typedef struct hf_bell {
    hf_item item; /* while it is spare */
    hf_event event;
} hf_bell;

/* An acquire. Its name on the server is its hold's id. */
typedef struct hf_op {
    hf_hold *hold;
    int64_t timeout_ms;   /* or HF_FOREVER; 0: a try */
    int64_t since, until; /* it waits from `since` to `until` */
    int64_t score;        /* its first place in the queue; 0: none yet */
    unsigned epoch;       /* the epoch of its channel at its last request; 0: it must ask (again) */
    int asking;           /* the number of requests for it under way; hold->out counts them too */
    bool joining;         /* its own thread waits for the answer to one of them */
    struct {
        int64_t fence, began_at, deadline, until;
        bool late;
    } early;        /* a grant that overtook the answer to a request under way, for which it waits
                     * until `until`, and `late` for one more look; fence 0: there is no grant */
    int64_t ttl_ms; /* of the lock, when it was last busy */
    bool busy;      /* its own thread, or its leave, has a request under way */
    bool delegated; /* the keeper sends its requests, as for each started op */
    bool holds;     /* its caller has the lock as another owner: it would wait for itself */
    bool tries;     /* asks once, and does not queue */
    bool missed;    /* it was granted too late: a pause comes before it asks again */
    bool canceled;  /* its release is under way: it takes no grant */
    bool waits;     /* it is counted as waiting */
    bool answered;  /* the server has reported its state */
    bool explained; /* a message gives the reason of its end: this thread's, or `why` */
    bool owed;      /* the client is closed: its thread sends the undo itself */
    bool done;      /* it has ended with `status`; if HF_OK, hold is held */
    hf_status status;
    int64_t done_at;          /* it is in line to be confirmed since then */
    struct hf_ballot *ballot; /* with several masters, until it is done; or NULL */
    struct hf_queue *queue;   /* NULL: it is in no queue */
    hf_link *link;            /* the link of the queue's channel */
    hf_item place;            /* in the queue; then among the ops to be confirmed: replicas.c */
    size_t owner;             /* its bucket of owners */
    hf_entry by_id;

    /* Of an op with a thread, which has the op on its stack: */
    hf_bell *bell; /* wakes it to look again; NULL until it waits */
    bool rung;     /* the bell has been, or will be, written to */
    bool polling;  /* it is in poll(2), and would notice */
    hf_item seat;  /* in link->threads */
    hf_error *why; /* the reason of its end, if `explained` */

    /* Of a started op: */
    bool started;
    void (*ended)(struct hf_op *op, hf_status status); /* called instead of waking a thread */
    /* Called last: takes its hold over. NULL: the close has reported the op before its thread was
     * done. */
    void (*told)(struct hf_op *op, hf_status status);
    void *context; /* for `told` */
    bool keeps;    /* the hold stays with the client */
    /* While it is in line to be confirmed, and another op was confirmed in vain: the server may
     * answer until answer_by, and replicas may have it until reach_by. 0: it has all its time. */
    int64_t answer_by, reach_by;
    hf_news *news; /* will report its end; or NULL */
    hf_timer timer;
} hf_op;

/* All ops of this client that wait for one lock, in order of arrival. */
typedef struct hf_queue {
    hf_client *client;
    hf_names *names;
    hf_list ops;
    hf_timer timer;
    bool asking; /* a re-check is under way */
    hf_entry by_name;
    hf_channel *channel;
    hf_item user; /* in channel->users */
} hf_queue;

#define HF_OP_AT(at) HF_OF(hf_op, place, at)
#define HF_SEATED(at) HF_OF(hf_op, seat, at)

static inline hf_client *hf_op_client(const hf_op *op) { return op->hold->client; }

/* Return the deadline for the answer to a request for the op. */
static inline int64_t hf_op_deadline(const hf_op *op) {
    int64_t until = op->until == HF_NO_DEADLINE ? hf_now() : op->until;
    return hf_after(until, hf_op_client(op)->transport->connect_ms);
}

#endif
