/*
 * The data of those that wait: an op, and the queue of its lock. waiting.h says what is done
 * with them, reading.h how a thread sleeps.
 */
#ifndef HF_OP_H
#define HF_OP_H

#include "lock/holds.h"

struct hf_queue;

/* An acquire that waits. Its name on the server is its hold's id. */
typedef struct hf_op {
    hf_hold *hold;
    int64_t timeout_ms;   /* or HF_FOREVER */
    int64_t since, until; /* it waits since then, and until then */
    int64_t score;        /* its first place in the queue; 0: none yet */
    unsigned epoch;       /* of its channel, when it last asked; 0: it has not, or must again */
    int asking;           /* requests for it under way */
    bool joining;         /* one of them by its own thread, which waits for the answer */
    struct {
        int64_t fence, began_at, deadline, until;
        bool late;
    } early;        /* a grant that overtook the answer of a request under way, for which it waits
                     * until then, and late for one more look; fence 0: none */
    bool busy;      /* its own thread, or its cancel, has a request for it under way */
    bool tries;     /* asks once, and does not queue */
    bool canceled;  /* its release is under way: a grant is not taken any more */
    bool answered;  /* the server has said how it stands */
    bool explained; /* this thread's message says how it ended */
    bool done;      /* status says how it ended; if HF_OK, hold is held */
    hf_status status;
    struct hf_queue *queue; /* NULL: it is in none */
    hf_link *link;          /* that of the queue's channel */
    hf_item place;          /* in the queue */
    size_t owner;           /* its bucket of owners */
    struct hf_op *same_id;  /* the next in its bucket of ids */

    /* Of one with a thread. */
    hf_event event; /* tells it to look again; or HF_NO_EVENT */
    bool told;      /* that has been, or will be, written to */
    bool polling;   /* it is in poll(2), and would notice */
    hf_item seat;   /* in link->threads, or among the spare ones */

    /* Of one that was started: */
    void (*ended)(struct hf_op *op, hf_status status); /* instead of waking a thread */
    int64_t number;                                    /* the caller's */
    bool keeps;                                        /* the hold stays with the client */
    hf_news *news;                                     /* will tell how it ended */
    hf_timer timer;
} hf_op;

/* All of this client that wait for one lock, in the order in which they came. */
typedef struct hf_queue {
    hf_client *client;
    hf_names *names;
    hf_list ops;
    hf_timer timer;
    bool asking;           /* a re-check is under way */
    struct hf_queue *next; /* in its bucket */
    hf_channel *channel;
    hf_item user; /* in channel->users */
} hf_queue;

#define HF_OP_AT(at) HF_OF(hf_op, place, at)
#define HF_SEATED(at) HF_OF(hf_op, seat, at)

static inline hf_client *hf_op_client(const hf_op *op) { return op->hold->client; }

#endif
