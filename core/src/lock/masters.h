/*
 * The operations under way at the masters of a quorum. A call is one operation that was started at
 * a master's client, and ends with its completion; the calls show the state of a master. All
 * functions here need the quorum's mutex.
 */
#ifndef HF_MASTERS_H
#define HF_MASTERS_H

#include "lock/quorum.h"

typedef enum {
    HF_CALL_ASK,  /* acquires a vote at once */
    HF_CALL_LINE, /* acquires a vote through a place in line */
    HF_CALL_TELL  /* is about a vote that the ballot has */
} hf_call_kind;

typedef struct hf_call {
    hf_item item; /* in master->calls; or in quorum->lines */
    int64_t sent_at;
    hf_call_kind kind;
    size_t at;
    hf_client *master;
    hf_hearer *heard; /* NULL: its end is not awaited, and a vote that it brings is given back */
    void *of;         /* the hearer's */
    int64_t fence;    /* the fence to be confirmed */
} hf_call;

/* NULL: no memory. */
hf_call *hf_call_new(hf_client *client, hf_call_kind kind, size_t at, hf_hearer *heard, void *of);
/* Return the number of its completion. */
static inline int64_t hf_call_number(const hf_call *call) { return (int64_t)(intptr_t)call; }
/* Free a call that was not started. */
void hf_call_drop(hf_call *call);
/* Abandon a call: its end is no longer awaited. */
void hf_call_abandon(hf_call **of);

/* Leave a vote to the undo of its own client: it could not be released for want of memory, or its
 * master keeps it while others do not. */
void hf_vote_give_up(struct hf_hold *vote);
/* Give a vote back in the background. Takes the caller's reference. */
void hf_vote_give_back(hf_client *client, size_t at, struct hf_hold *vote);

/* Return whether a master is silent: it has owed an answer for too long, and for a short while
 * nothing more is sent to it. */
bool hf_master_is_silent(const hf_client *client, size_t at, int64_t now);
int64_t hf_master_patience_ms(const hf_master *master);
/* Return when the master will be silent, if its oldest call has no answer until then;
 * HF_NO_DEADLINE: it owes no answer. */
int64_t hf_master_silent_at(const hf_client *client, size_t at);
/* Note the status with which a call to the master has ended. */
void hf_master_note(hf_master *master, hf_status status, const hf_error *why);
/* Return whether masters refuse this client, so that it never has a majority. */
bool hf_masters_refuse(const hf_client *client);
/* Set this thread's message: fewer than a majority could be asked for that lock. Returns `status`,
 * or the status with which masters refuse this client. */
hf_status hf_masters_explain(const hf_client *client, const hf_names *names, hf_status status);

/* Take a completion of that master's client, other than a loss. */
void hf_master_hear(hf_client *client, size_t at, const hf_completion *completion);
/* Free the masters with their client, and all calls that were never answered. NULL is allowed. */
void hf_masters_end(struct hf_quorum *quorum);

#endif
