/* Holds: the object behind each handle, and the client's table of the holds that may still be on
 * the server. */
#ifndef HF_HOLDS_H
#define HF_HOLDS_H

#include "lock/numbers.h"
#include "lock/validity.h"
#include "protocol/answers.h"
#include "protocol/requests.h"

/* The reason of a loss, more exact than an HF_CAUSE_. */
enum {
    HF_WHY_UNKNOWN = 0,
    HF_WHY_LEASE,    /* its lease ended, and renewal is off */
    HF_WHY_MAX_HOLD, /* its max_hold has passed */
    HF_WHY_UNREACHABLE,
    HF_WHY_GONE,
    HF_WHY_JOINED = 16 /* a hold joined with it is lost; plus that hold's HF_CAUSE_ */
};

/* The terms of a lock, and of each of its holds, unless the acquire overrides them. */
typedef struct hf_terms {
    int64_t lease_ms;    /* for the acquire */
    int64_t max_hold_ms; /* 0: no limit */
    int64_t heal_ms;     /* the TTL for a foreign lock without one; 0: leave it */
    bool renew, reentrant;
    bool whole; /* the acquire returns only with most of its lease left */
    hf_mode mode;
    int64_t permits, weight; /* of a shared hold; permits 0: no limit; weight 0: 1 */
    int64_t ahead_ms;        /* the head start of its place in the queue */
    bool learns;             /* the lock gives no number: a stored limit applies */
    bool gate;               /* the lock gives neither number nor lease: a stored rate applies */
    int32_t replicas;        /* how many must have the hold before its acquire returns */
    int64_t replica_ms;
    int64_t lock_serial; /* not 0: only this lock finds the hold on the stack */
    hf_counting counting;
} hf_terms;

struct hf_hold {
    int references;                 /* of the caller's handle, the table, and each task */
    bool equipped;                  /* hf_hold_equip_locked() */
    char tag[HF_ID_LENGTH / 2 + 1]; /* of a vote: the end of its ids; or empty */
    hf_client *client;
    hf_names *names;
    int64_t number; /* for completions; never reused by this client */
    char id[HF_ID_LENGTH + 1];
    int64_t fence;

    hf_terms terms;                /* the terms of the lock and the call */
    struct hf_ballot *ballot;      /* with several masters: the ballot that it stands on; or NULL */
    struct hf_hold *beside;        /* the next hold on the same ballot */
    int64_t vote_floor;            /* of a vote: its fence must be greater than this */
    int64_t score;                 /* of a vote: its place in line; or a later one, if its place is
                                    * unknown */
    struct hf_once *once;          /* of a hold whose call is made once; or NULL */
    bool nests;                    /* reentrant, and may nest: hf_table_new_id_locked() */
    char inside[HF_ID_LENGTH + 1]; /* a live hold of the same owner; or empty */
    int64_t floor;                 /* hf_hold_floor_locked() at the time when its id was made */

    /* Before the hold is in the table it belongs to the thread that acquires it, or, while that
     * thread waits, to its op; with an op, or in the table, all members below are under the
     * client's mutex. */
    int state, cause;
    int why; /* an HF_WHY_, for the message about its loss. Atomic: read without the mutex */
    hf_validity validity;
    unsigned out;         /* the number of copies of its acquire under this id without a valid
                           * answer: the whole doubt. Its release buries the id if it is not 0 */
    bool stray;           /* the server has it, or may have it, and the table does not */
    bool pushed;          /* granted by a message, and not claimed yet */
    bool waited;          /* it had a place in the queue, so others may wait now */
    bool one_of_many;     /* the lock may have several holds */
    hf_company company;   /* of a shared hold, when it began */
    int64_t began_at;     /* not later than its own lease began */
    int64_t shown_at;     /* when an answer last showed it; 0: no answer did */
    int64_t least_until;  /* a release before then keeps the lock until then; 0: never */
    int64_t owed_until;   /* with several masters: it keeps the lock until then, for a hold that
                           * nested in it */
    int64_t keeps_until;  /* it is to be kept until then, even after a keep that failed; 0: no keep
                           * was asked for */
    int64_t reached;      /* how many replicas had it when it was acquired; -1: not asked yet */
    int64_t counts_since; /* it counts as held since then; 0: not yet, or no longer */

    /* Of the renewal. */
    unsigned server; /* the server that last reported it: hf_discovery_place() at the time of the
                      * request */
    bool asked;      /* a renewal or claim is under way */
    bool looks;      /* the request under way is a look, which does not renew */
    bool fails;      /* the last try failed: hf_hold_fails_locked() */
    int64_t renew_at;
    hf_timer timer;
    /* Of the undo. */
    hf_item undo;
    char undo_id[HF_ID_LENGTH]; /* the id under which it was given up */
    /* Of the completions. */
    hf_news *news; /* reports its loss; or NULL */

    /* Of the table. */
    hf_item item;
    bool kept;              /* on its owner's stack, for hf_lock_release() */
    int64_t thread;         /* the thread that acquired it; 0: it was started */
    struct hf_hold *joined; /* the next in a ring of holds that are lost together; NULL: it is in no
                             * ring */
    hf_entry stack;         /* among the holds of its name and owner */

    size_t text_length;
    char *text; /* the owner and its note, in the servers' form; NULL: no note */
    size_t owner_length;
    char owner[];
};

/* NULL: no memory. */
hf_hold *hf_hold_new(hf_client *client, hf_names *names, const void *owner, size_t owner_length);
/* Give a hold a note, before it is acquired; empty: no note. HF_EINVAL, HF_ENOMEM. */
hf_status hf_hold_note(hf_hold *hold, const void *note, size_t length);
/* Return the text by which the servers know its owner. */
static inline const char *hf_hold_text(const hf_hold *hold, size_t *length) {
    *length = hold->text != NULL ? hold->text_length : hold->owner_length;
    return hold->text != NULL ? hold->text : hold->owner;
}
/* Make another hold with the same owner and options, which has not been acquired. NULL: no
 * memory. */
hf_hold *hf_hold_like(hf_client *client, const hf_hold *hold);
/* Make a vote for the hold, at the master of that client. NULL: no memory. */
hf_hold *hf_hold_for(hf_client *client, const hf_hold *hold);
/* Allocate all memory that the hold will ever need, before it is acquired: so it can always be
 * kept. */
hf_status hf_hold_equip_locked(hf_hold *hold);
hf_hold *hf_hold_grab(hf_hold *hold);
/* Drop a reference. With the mutex, the hold must not be the last to refer to its client. NULL is
 * allowed. */
void hf_hold_drop(hf_hold *hold);

/* Begin the hold: by the answer to a request sent at began_at, or by a grant that began then. */
void hf_hold_begin(hf_hold *hold, int64_t fence, int64_t began_at, int64_t deadline);
/* Return the first to end of the hold and the holds that it is joined with: if one is lost, all
 * are. */
const hf_hold *hf_hold_first_to_end(const hf_hold *hold);
/* Take the hold out of its ring; the others stay joined without it. */
void hf_hold_part_locked(hf_hold *hold);
/* Return the state as of `now`, or on several masters as of the return: a hold past its deadline is
 * lost. */
int hf_hold_state_now(const hf_hold *hold, int64_t now);
static inline bool hf_hold_is_listed(const hf_hold *hold) { return hold->item.list != NULL; }

/* Count a hold: its acquire failed; it was lost; it has ended here; its acquire, which began at
 * began_at, succeeded. A loss or an end counts only after a successful acquire; before, the acquire
 * fails. */
static inline void hf_hold_count_refused_locked(const hf_hold *hold, hf_status status) {
    hf_count_refused_locked(hold->client, &hold->terms.counting, hold->names, status);
}
void hf_hold_count_loss_locked(hf_hold *hold, int64_t now);
/* Count a loss by its cause, whether or not the hold still counts. */
void hf_hold_count_cause_locked(const hf_hold *hold);
static inline void hf_hold_count_end_locked(hf_hold *hold, int64_t now) {
    if (hold->counts_since != 0)
        hf_record(&hold->terms.counting.tally->stats.hold, now - hold->counts_since);
    hold->counts_since = 0;
}
static inline void hf_hold_count_acquired_locked(hf_hold *hold, int64_t began_at, int64_t now) {
    hf_stats *stats = &hold->terms.counting.tally->stats;
    stats->acquired++;
    stats->queued += hold->waited; /* it had a place in the queue */
    hf_record(&stats->wait, now - began_at);
    hold->counts_since = now;
}

/* Return the arguments with which the hold is requested, or given up; without a place in a
 * queue. */
hf_ask hf_hold_ask(const hf_hold *hold);
/* Make the request that releases the hold on the server; again: a copy of its acquire may still
 * arrive, so release it under any fence. */
void hf_hold_release_request(hf_request *request, const hf_hold *hold, bool again);
hf_renewal hf_hold_renewal(const hf_hold *hold, int64_t lease_ms, hf_renew_mode mode);

/* Set this thread's message, and return the status, of a lost hold. `how`: the reason, if the exact
 * reason is not known. */
hf_status hf_hold_explain_lost(const hf_hold *hold, const char *how);
hf_status hf_hold_explain_not_held(const hf_hold *hold);
/* Set the message, and return the status, of a hold that the server refuses to renew. */
hf_status hf_hold_explain_refused(const hf_hold *hold);
/* Return HF_OK if the state is held; otherwise the status and message of a hold that is lost or not
 * held. */
hf_status hf_hold_explain_state(const hf_hold *hold, int state, const char *how);
#define HF_HOW_LOST "its lease ended, or its key was taken away"

/* Remember the limit of the hold's lock; or return the reason why the hold cannot follow it:
 * HF_ELIMIT. */
hf_status hf_hold_learn_locked(hf_hold *hold, const hf_standing *limited);
/* Apply the remembered limit, if the hold gives no number. */
void hf_hold_follow_locked(hf_hold *hold);

/* ----------------------------------------------------------------- Table */

/* NULL: no memory. */
struct hf_table *hf_table_begin(void);
void hf_table_end(struct hf_table *table);

/* Give the hold a new id, and find the hold in which it may nest. An owner that belongs to this
 * client alone, and has no hold here, does not nest: a hold of that owner on the server is the
 * orphan of a lost release, and others may have held the lock since, with greater fences. */
hf_status hf_table_new_id_locked(hf_client *client, hf_hold *hold);
/* Return the live hold of this client in which it nests, as its id was made; or NULL. */
hf_hold *hf_table_outer_locked(const hf_hold *hold);
/* Return the highest fence seen for its name, or 0; for a vote also the fence that it must
 * exceed. */
int64_t hf_hold_floor_locked(const hf_hold *hold);
/* Return whether the hold can be granted with that fence. A fence lower than one seen before comes
 * from another server's memory; but of shared holds granted beside each other, a later one may be
 * reported first, and a nested hold has the fence of its outer hold. */
bool hf_table_believes_locked(const hf_hold *hold, int64_t fence);
/* Return a hold that this one, which an answer has shown, proves to be lost, though its lease has
 * not ended: an exclusive hold, or a hold nested in it, beside which the server would not have
 * granted this one. NULL: there is no further such hold. */
hf_hold *hf_table_superseded_locked(const hf_hold *hold);
/* Remember that an answer has shown this hold. */
void hf_table_shown_locked(hf_hold *hold);
/* Add a new hold to the table, and to its owner's stack if keep. HF_ECANCELED if the client is
 * closed. */
hf_status hf_table_add_locked(hf_client *client, hf_hold *hold, bool keep);
/* Remove the hold from the table. The caller gets the table's reference. */
void hf_table_remove_locked(hf_client *client, hf_hold *hold);
/* Note that renewals of a hold in the table fail, or work again. */
void hf_hold_fails_locked(hf_hold *hold, bool fails);
/* Return how many holds in the table have failing renewals. */
size_t hf_table_failing_locked(const hf_client *client);
/* Return all holds, newest first, linked by `item`. */
const hf_list *hf_table_holds_locked(const hf_client *client);

/* An owner, as it finds its holds again. */
typedef struct hf_holder {
    const char *bytes;
    size_t length;
    int64_t lock_serial; /* not 0: its holds are found through this lock only */
    bool shared;         /* only shared holds, or only exclusive ones */
} hf_holder;

/* Return the next hold on the owner's stack of that name: the newest, or the one below `hold`. */
hf_hold *hf_table_next_locked(const hf_client *client, const hf_names *names,
                              const hf_holder *holder, const hf_hold *hold);

#endif
