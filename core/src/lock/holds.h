/* Holds: the object behind each handle, and the client's table of those that may still
 * be on the server. */
#ifndef HF_HOLDS_H
#define HF_HOLDS_H

#include "lock/numbers.h"
#include "lock/validity.h"
#include "protocol/answers.h"
#include "protocol/requests.h"

/* Why it is lost, more closely than an HF_CAUSE_. */
enum {
    HF_WHY_UNKNOWN = 0,
    HF_WHY_LEASE,    /* its lease ended, and renewal is off */
    HF_WHY_MAX_HOLD, /* its max_hold has passed */
    HF_WHY_UNREACHABLE,
    HF_WHY_GONE,
    HF_WHY_JOINED = 16 /* another hold that it is joined with is lost; plus the HF_CAUSE_ of that */
};

/* The terms of a lock, and of each of its holds, unless the acquire overrides them. */
typedef struct hf_terms {
    int64_t lease_ms;    /* at the acquire */
    int64_t max_hold_ms; /* 0: no limit */
    int64_t heal_ms;     /* the TTL for a foreign lock without one; 0: leave it */
    bool renew, reentrant;
    bool whole; /* the acquire is to be answered with most of its lease */
    hf_mode mode;
    int64_t permits, weight; /* of a shared hold; 0: no limit; 0: 1 */
    int64_t ahead_ms;        /* the head start of its place in the queue */
    bool learns;             /* it gives no number: a stored limit applies */
    bool gate;               /* and a lease: it takes a stored rate */
    int32_t replicas;        /* how many must have the hold before its acquire is answered */
    int64_t replica_ms;
    int64_t lock_serial; /* not 0: only this lock finds the hold on the stack */
    hf_counting counting;
} hf_terms;

struct hf_hold {
    int references;                 /* the caller's handle, the table's, and one of each task */
    bool equipped;                  /* hf_hold_equip_locked() */
    char tag[HF_ID_LENGTH / 2 + 1]; /* of a vote: its ids end so; or empty */
    hf_client *client;
    hf_names *names;
    int64_t number; /* for completions; never reused by this client */
    char id[HF_ID_LENGTH + 1];
    int64_t fence;

    hf_terms terms;                /* the terms of the lock and the call */
    struct hf_ballot *ballot;      /* of several masters: whose votes it stands on; or NULL */
    struct hf_hold *beside;        /* the next one that does */
    int64_t vote_floor;            /* of a vote: its fence lies above this */
    int64_t score;                 /* of a vote: its place in line; or later, for a place unknown */
    struct hf_once *once;          /* of one whose call is made once; or NULL */
    bool nests;                    /* reentrant, and not alone: hf_table_new_id_locked() */
    char inside[HF_ID_LENGTH + 1]; /* a live hold of the same owner; or empty */
    int64_t floor;                 /* hf_hold_floor_locked() when its id was made */

    /* Until it is in the table it belongs to the thread that acquires it, or, while that
     * waits, to its op; with an op or in the table all below is under the client's mutex. */
    int state, cause;
    int why; /* an HF_WHY_, for the message about its loss. Atomic: read without the mutex */
    hf_validity validity;
    unsigned out;         /* copies of its acquire, under this id, without an answer that counts:
                           * the doubt, all of it. Its release buries the id if there is any */
    bool stray;           /* the server has it, or may have, and the table has not */
    bool pushed;          /* granted by a message, and not claimed yet */
    bool waited;          /* it had a place in the queue: so others may wait now */
    bool one_of_many;     /* the lock may have several holds */
    hf_company company;   /* of a shared one, when it began */
    int64_t began_at;     /* not later than its own lease did */
    int64_t shown_at;     /* when an answer has shown it last; 0: no answer has */
    int64_t least_until;  /* a release before then keeps the lock until then; 0: no release does */
    int64_t owed_until;   /* of several masters: what nested in it is kept until then, by it */
    int64_t keeps_until;  /* it is to be kept until then, though a keep may have failed; 0: it is
                           * not */
    int64_t reached;      /* how many replicas had it when it was acquired; -1: not asked yet */
    int64_t counts_since; /* it counts as held since then; 0: not yet, or no longer */

    /* The renewal's. */
    unsigned server; /* that reported it last: hf_discovery_place() when it was asked */
    bool asked;      /* a renewal or claim is under way */
    bool looks;      /* and it does not renew */
    bool fails;      /* the last try failed: hf_hold_fails_locked() */
    int64_t renew_at;
    hf_timer timer;
    /* The undoing's. */
    hf_item undo;
    char undo_id[HF_ID_LENGTH]; /* given up under this id */
    /* The completions'. */
    hf_news *news; /* reports its loss; or NULL */

    /* The table's. */
    hf_item item;
    bool kept;              /* on its owner's stack, for hf_lock_release() */
    int64_t thread;         /* that acquired it; 0: it was started, and no thread did */
    struct hf_hold *joined; /* the next in a ring: losing one is losing all; NULL: it is in none */
    hf_entry stack;         /* among those of its name and owner */

    size_t text_length;
    char *text; /* the owner and a note, as the servers get both; NULL: no note */
    size_t owner_length;
    char owner[];
};

/* NULL: no memory. */
hf_hold *hf_hold_new(hf_client *client, hf_names *names, const void *owner, size_t owner_length);
/* Give it a note, before it is acquired; empty: no note. HF_EINVAL, HF_ENOMEM. */
hf_status hf_hold_note(hf_hold *hold, const void *note, size_t length);
/* What the servers know its owner by. */
static inline const char *hf_hold_text(const hf_hold *hold, size_t *length) {
    *length = hold->text != NULL ? hold->text_length : hold->owner_length;
    return hold->text != NULL ? hold->text : hold->owner;
}
/* Another with the same owner and options, which has not been acquired. NULL: no memory. */
hf_hold *hf_hold_like(hf_client *client, const hf_hold *hold);
/* A vote for it, at the master of that client. NULL: no memory. */
hf_hold *hf_hold_for(hf_client *client, const hf_hold *hold);
/* All the memory that it will ever need, before it is acquired: then it can be kept. */
hf_status hf_hold_equip_locked(hf_hold *hold);
hf_hold *hf_hold_grab(hf_hold *hold);
/* With the mutex, the hold must not be the last to know its client. NULL is allowed. */
void hf_hold_drop(hf_hold *hold);

/* It is held from now on, by the answer to a request of that time, or a grant that began
 * then. */
void hf_hold_begin(hf_hold *hold, int64_t fence, int64_t began_at, int64_t deadline);
/* Return the first to end of it and the holds that it is joined with: losing that hold is losing
 * all. */
const hf_hold *hf_hold_first_to_end(const hf_hold *hold);
/* It is joined with others, which go on without it. */
void hf_hold_part_locked(hf_hold *hold);
/* The state as of now: a hold past its deadline is lost. */
int hf_hold_state_now(const hf_hold *hold, int64_t now);
static inline bool hf_hold_is_listed(const hf_hold *hold) { return hold->item.list != NULL; }

/* Count a hold: its acquire failed; it was lost; it has ended here; its acquire, which began at
 * began_at, succeeded. A loss and an end count only after that: before, the acquire fails. */
static inline void hf_hold_count_refused_locked(const hf_hold *hold, hf_status status) {
    hf_count_refused_locked(hold->client, &hold->terms.counting, hold->names, status);
}
void hf_hold_count_loss_locked(hf_hold *hold, int64_t now);
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

/* What it asks a server for, or gives up; not in any queue. */
hf_ask hf_hold_ask(const hf_hold *hold);
/* The request that releases it on the server; again: if a copy of its acquire may arrive, under any
 * fence. */
void hf_hold_release_request(hf_request *request, const hf_hold *hold, bool again);
hf_renewal hf_hold_renewal(const hf_hold *hold, int64_t lease_ms, hf_renew_mode mode);

/* Set this thread's message and answer the status. `how` is for a loss of which nothing closer is
 * known. */
hf_status hf_hold_explain_lost(const hf_hold *hold, const char *how);
/* The same for a hold that the server does not have. */
hf_status hf_hold_explain_gone(const hf_hold *hold);
hf_status hf_hold_explain_not_held(const hf_hold *hold);
/* The same for a hold that the server answers and does not renew. */
hf_status hf_hold_explain_refused(const hf_hold *hold);
/* HF_OK if the state is held; otherwise the status and message of the two above. */
hf_status hf_hold_explain_state(const hf_hold *hold, int state, const char *how);
#define HF_HOW_LOST "its lease ended, or its key was taken away"

/* Remember the limit of the hold's lock; or return why the hold cannot follow it: HF_ELIMIT. */
hf_status hf_hold_learn_locked(hf_hold *hold, const hf_standing *limited);
/* Use the limit that is remembered, if the hold gives no number. */
void hf_hold_follow_locked(hf_hold *hold);

/* ----------------------------------------------------------------- Table */

/* NULL: no memory. */
struct hf_table *hf_table_begin(void);
void hf_table_end(struct hf_table *table);

/* Give it a new hold id, and find the hold in which it may nest. An owner that is this client's
 * own, and has no hold here, does not nest: a hold of it on the server is the orphan of a release
 * that was lost, and others may have held the lock since, with greater fences. */
hf_status hf_table_new_id_locked(hf_client *client, hf_hold *hold);
/* The live hold of this client in which it nests, as its id was made; or NULL. */
hf_hold *hf_table_outer_locked(const hf_hold *hold);
/* The highest fence of its name that was seen, or 0; and of a vote what it must lie above. */
int64_t hf_hold_floor_locked(const hf_hold *hold);
/* Can it be granted to that hold? A lower one than was seen before comes from another server's
 * memory; but of shared holds, which are granted beside each other, a later one may be told first,
 * and a nested one has its outer's. */
bool hf_table_believes_locked(const hf_hold *hold, int64_t fence);
/* Return a hold that this one, which an answer has shown, proves to be lost, though its
 * lease has not ended: an exclusive hold, or a hold nested in it, beside which the server would not
 * have granted this one. NULL: no more. */
hf_hold *hf_table_superseded_locked(const hf_hold *hold);
/* Remember that an answer has shown this hold. */
void hf_table_shown_locked(hf_hold *hold);
/* Put a new hold in, and on its owner's stack if keep. HF_ECANCELED if the client is closed. */
hf_status hf_table_add_locked(hf_client *client, hf_hold *hold, bool keep);
/* Take it out. The caller gets the table's reference. */
void hf_table_remove_locked(hf_client *client, hf_hold *hold);
/* Note that the renewals of a hold in the table fail, or no longer do. */
void hf_hold_fails_locked(hf_hold *hold, bool fails);
/* How many holds in the table have failing renewals. */
size_t hf_table_failing_locked(const hf_client *client);
/* All of them, newest first: holds by `item`. */
const hf_list *hf_table_holds_locked(const hf_client *client);

/* An owner, as it finds its holds again. */
typedef struct hf_holder {
    const char *bytes;
    size_t length;
    int64_t lock_serial; /* not 0: its holds are found by the lock alone */
    bool shared;         /* only shared holds, or only exclusive ones */
} hf_holder;

/* The next hold on the owner's stack of that name: the newest, or the one below `hold`. */
hf_hold *hf_table_next_locked(const hf_client *client, const hf_names *names,
                              const hf_holder *holder, const hf_hold *hold);

#endif
