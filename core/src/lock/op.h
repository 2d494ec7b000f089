/*
 * The data of an acquire: an op, and the queue of its lock. queue.h has the order of the ops,
 * life.h the end of an op, waiting.h its re-checks, reading.h the sleep of a thread.
 */
#ifndef HF_OP_H
#define HF_OP_H

#include "lock/holds.h"

/* What wakes a thread that waits. */
typedef struct hf_bell {
    hf_item item; /* while it is spare */
    hf_event event;
} hf_bell;

/* An acquire. Its name on the server is its hold's id. */
typedef struct hf_op {
    hf_hold *hold;
    int64_t timeout_ms;   /* or HF_FOREVER; 0: it only tries */
    int64_t since, until; /* it waits since then, and until then */
    int64_t score;        /* its first place in the queue; 0: none yet */
    unsigned epoch;       /* of its channel, when it last asked; 0: it has not, or must again */
    int asking;           /* requests for it under way; hold->out counts them too */
    bool joining;         /* one of them by its own thread, which waits for the answer */
    struct {
        int64_t fence, began_at, deadline, until;
        bool late;
    } early;        /* a grant that overtook the answer of a request under way, for which it waits
                     * until then, and late for one more look; fence 0: none */
    int64_t ttl_ms; /* of the lock, when it was busy last */
    bool busy;      /* its own thread, or its leave, has a request for it under way */
    bool delegated; /* the keeper asks for it, as for each that was started */
    bool holds;     /* its caller has the lock by another owner: it would wait for itself */
    bool tries;     /* asks once, and does not queue */
    bool missed;    /* it was granted too late: a pause comes before it asks again */
    bool canceled;  /* its release is under way: a grant is not taken any more */
    bool waits;     /* it is counted as waiting */
    bool answered;  /* the server has said how it stands */
    bool explained; /* a message says how it ended: this thread's, or `why` */
    bool owed;      /* the client is closed: its thread undoes it itself */
    bool done;      /* status is its result; if HF_OK, hold is held */
    hf_status status;
    int64_t done_at;          /* since then it is in line to be confirmed */
    struct hf_ballot *ballot; /* of several masters, until it is done; or NULL */
    struct hf_queue *queue;   /* NULL: it is in no queue */
    hf_link *link;            /* the link of the queue's channel */
    hf_item place;            /* in the queue; then among those that are confirmed: replicas.c */
    size_t owner;             /* its bucket of owners */
    hf_entry by_id;

    /* Of one with a thread, which has the op on its stack. */
    hf_bell *bell; /* wakes it to look again; NULL until it waits */
    bool rung;     /* that has been, or will be, written to */
    bool polling;  /* it is in poll(2), and would notice */
    hf_item seat;  /* in link->threads */
    hf_error *why; /* how it ended, if `explained` */

    /* Of a started op: */
    bool started;
    void (*ended)(struct hf_op *op, hf_status status); /* instead of waking a thread */
    /* At last: takes its hold over. NULL: the close has told, before its thread was done. */
    void (*told)(struct hf_op *op, hf_status status);
    void *context; /* of that */
    bool keeps;    /* the hold stays with the client */
    /* While it is in line to be confirmed, and another op was confirmed in vain: until then the
     * server may answer, and replicas may have it. 0: it has all its time. */
    int64_t answer_by, reach_by;
    hf_news *news; /* will tell how it ended; or NULL */
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

/* By when a request for it must be answered. */
static inline int64_t hf_op_deadline(const hf_op *op) {
    int64_t until = op->until == HF_NO_DEADLINE ? hf_now() : op->until;
    return hf_after(until, hf_op_client(op)->transport->connect_ms);
}

#endif
