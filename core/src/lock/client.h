/*
 * What a client keeps: its identity, its holds, the highest fences it has seen,
 * and its keeper. The structures behind the public handles are here, for the
 * layers `lock` and `keeper`.
 */
#ifndef HF_CLIENT_H
#define HF_CLIENT_H

#include <pthread.h>

#include "lock/keeper.h"
#include "net/transport.h"
#include "protocol/protocol.h"

#define BUCKETS 1024

struct hf_client {
    int references; /* the handle's, and one of each lock and hold */
    unsigned generation;
    hf_transport *transport;
    hf_interrupt interrupt;
    int closed_fd;    /* readable when the client is closed: ends waits */
    char prefix[336]; /* "<host>/<pid>:<client id>:" */
    size_t prefix_length;
    char channel[3 + HF_ID_LENGTH + 1]; /* "hf:<client id>": where grants come in */

    pthread_mutex_t mutex; /* of all below, and of what is marked so in a hold */
    bool closed;
    bool swept;                      /* and what was in the queue is seen to: who waits may go */
    bool told;                       /* and its last completion is in the queue */
    struct hf_hold *holds;           /* all that may still be on the server */
    struct hf_hold *stacks[BUCKETS]; /* the same by name and owner, newest first */
    struct {
        uint64_t hash;
        int64_t fence;
    } floors[BUCKETS]; /* the highest fences seen; a newer name takes an older one's place */
    unsigned char random[1024];
    size_t random_left;
    int64_t hold_numbers;
    hf_stats stats;
    hf_op *confirming; /* won by started acquires, and not told before replicas have them */
    int confirmers;    /* threads that see to it */
    hf_keeper keeper;
};

struct hf_lock {
    hf_client *client;
    hf_names *names;
    int64_t serial; /* never reused */
    int64_t lease_ms, max_hold_ms;
    int32_t replicas;
    int64_t replica_ms;
    bool renew, reentrant, heal;
    size_t owner_length; /* 0: the default owner */
    char owner[];
};

struct hf_hold {
    int references; /* the caller's handle, and the client's while it is listed */
    hf_client *client;
    hf_names *names;
    int64_t number; /* for completions; never reused by this client */
    char id[HF_ID_LENGTH + 1];
    int64_t fence;

    /* Under the client's mutex. */
    int state, cause;
    bool bury;           /* some copy of its acquire may still be under way */
    bool pushed;         /* granted by a message, and not claimed yet */
    int64_t deadline;    /* it is valid before this, on hf_now()'s clock */
    int64_t granted_at;  /* of the outermost hold of this owner */
    int64_t lease_ms;    /* HF_NEVER or what a renewal gives */
    int64_t extended_ms; /* the longest that it was extended to, or 0 */
    int64_t max_hold_ms; /* 0: none */
    bool renew, reentrant;
    int64_t heal_ms;  /* the TTL of a foreign lock without one; 0: leave it */
    int32_t replicas; /* so many must have it before its acquire is answered */
    int64_t replica_ms;
    int64_t reached; /* so many had it when it was acquired; -1: not asked yet */
    bool asked;      /* the keeper has a request for it under way */
    int64_t renew_at;
    /* A replacement (exactly so long) may overtake renewals, or a late copy of it
     * come after them: what they answer counts only if that cannot be. */
    int replacing;       /* replacements under way */
    int64_t replaced_at; /* the last one was answered then */
    int64_t cap_ms;      /* one has no answer: nothing counts for longer than this; 0: none */
    hf_timer timer;
    hf_news *news; /* what will tell of its loss; or NULL */
    bool listed;
    struct hf_hold *previous, *next; /* in client->holds */
    bool undoing;                    /* in keeper.undo, with a reference */
    struct hf_hold *undo_next;       /* there */
    bool kept;                       /* for hf_lock_release() */
    struct hf_hold *older;           /* in its bucket of client->stacks */
    uint64_t stack;                  /* the hash that chose the bucket */
    int64_t lock_serial;             /* not 0: only this lock finds it on the stack */

    size_t owner_length;
    char owner[];
};

/* Is the handle there, of this process, and not closed? */
hf_status hf_client_check(const hf_client *client);
/* Of the process that this one was forked from? */
bool hf_client_inherited(const hf_client *client);

hf_client *hf_client_keep(hf_client *client);
void hf_client_drop(hf_client *client);

/* A new hold id: random, 32 hex digits and a NUL. With the mutex held. */
hf_status hf_client_new_id(hf_client *client, char *id);

/* The highest fence of this name that was seen, or 0. With the mutex held. */
int64_t hf_client_floor(const hf_client *client, const hf_names *names);

/* Sleep; HF_ECANCELED when the client closes, HF_EINTR when a signal is to end it. */
hf_status hf_client_sleep(hf_client *client, int64_t ms, bool interruptible);
/* Let the language look for signals; HF_EINTR if one is to end the wait. Without
 * the mutex. *listens: ask again. */
hf_status hf_client_listen(const hf_client *client, bool *listens);

/* Put a new hold on the list, and on the stack if keep. HF_ECANCELED if closed.
 * With the mutex held. */
hf_status hf_client_add(hf_client *client, hf_hold *hold, bool keep);
/* Take it off list and stack; with the mutex held. The caller gets the list's reference. */
void hf_client_remove(hf_client *client, hf_hold *hold);

uint64_t hf_stack_hash(const hf_names *names, int64_t lock_serial, const void *owner,
                       size_t length);

/* Count how an acquire that began to wait then (0: it did not) ended. With the mutex held. */
void hf_client_count(hf_client *client, hf_status status, int64_t waited_since);

/* ------------------------------------------------------------------ Hold */

/* With all the memory that it will ever need: what is acquired can be kept. */
hf_hold *hf_hold_new(hf_client *client, hf_names *names, const void *owner, size_t owner_length);
void hf_hold_drop(hf_hold *hold);
/* The same with the mutex held; the hold must not be the last to know its client. */
void hf_hold_drop_locked(hf_hold *hold);

/* When a hold ends that a request sent then was told remaining_ms of. */
int64_t hf_deadline(int64_t sent_at, int64_t remaining_ms);
/* The same for this hold: never later than if it had just got all that was asked for. */
int64_t hf_hold_deadline(const hf_hold *hold, int64_t sent_at, int64_t remaining_ms);
/* A renewal sent then was told remaining_ms: the hold lasts longer, if that is
 * certain. With the mutex held. */
void hf_hold_renewed(hf_hold *hold, int64_t sent_at, int64_t remaining_ms);
/* The state as of now: a hold past its deadline is lost. With the mutex held. */
int hf_hold_state_now(const hf_hold *hold, int64_t now);

/* An acquire that was won, and is listed: wait until enough replicas have it. If
 * they do not it is released. Without the mutex. */
hf_status hf_hold_confirm(hf_hold *hold);
/* The same for one that was started, which ends with it. With the mutex held. */
void hf_op_confirm(hf_client *client, hf_op *op);
/* The client is closed: those that wait for replicas end. With the mutex held. */
void hf_confirms_end(hf_client *client);
/* Release it for an acquire that came to nothing. Without the mutex. */
void hf_hold_give_up(hf_hold *hold);

/* End it here, before the server is told. Answers the state it had; it is off
 * the list, whose reference is the caller's if *listed. With the mutex held. */
int hf_hold_end(hf_hold *hold, int64_t now, bool *listed);
/* What a release came to. `outcome` is the script's answer, or below 0 if none. */
hf_status hf_release_status(const hf_hold *hold, int state, hf_status status, int64_t outcome,
                            bool doubtful);
int64_t hf_reply_number(const redisReply *reply);

/* The requests. A queue member is told by its op; NULL: none. */
void hf_release_request(hf_request *request, const hf_hold *hold, const hf_op *op);
void hf_cancel_request(hf_request *request, const hf_op *op);
void hf_claim_request(hf_request *request, const hf_hold *hold);
void hf_renew_request(hf_request *request, hf_hold *const *holds, size_t count);
/* With an op it joins the queue. */
void hf_acquire_request(hf_request *request, const hf_hold *hold, const hf_op *op, int64_t floor);
/* What it answered: server us, TTL, state, and the two numbers of the state. */
bool hf_acquire_reply(const redisReply *reply, const hf_hold *hold, int64_t numbers[5]);
/* For several that wait; with none it only hands on a free lock. */
void hf_recheck_begin(hf_request *request, const hf_names *names, const char *const *ids,
                      size_t count, int64_t floor, bool wait);
void hf_recheck_add(hf_request *request, const hf_hold *hold, const hf_op *op);

/* Hand on a lock that was left free with more of its queue to skip; best effort. */
void hf_kick(hf_client *client, const hf_names *names, int64_t deadline);

#endif
