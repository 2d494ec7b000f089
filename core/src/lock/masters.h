/*
 * The operations under way at the masters of a quorum. A call is one operation that was
 * started at a master's client, and ends with its completion; the calls show the state of a master.
 * All of this needs the quorum's mutex.
 */
#ifndef HF_MASTERS_H
#define HF_MASTERS_H

#include "lock/quorum.h"

typedef enum {
    HF_CALL_ASK,  /* acquires a vote, at once */
    HF_CALL_LINE, /* acquires it by a place in line */
    HF_CALL_TELL  /* is about a vote that is there */
} hf_call_kind;

typedef struct hf_call {
    hf_item item; /* in master->calls; or in quorum->lines */
    int64_t sent_at;
    hf_call_kind kind;
    size_t at;
    hf_client *master;
    hf_hearer *heard; /* NULL: its end is not wanted, and a vote that it brings goes back */
    void *of;         /* the hearer's */
    int64_t fence;    /* that is to be confirmed */
} hf_call;

/* NULL: no memory. */
hf_call *hf_call_new(hf_client *client, hf_call_kind kind, size_t at, hf_hearer *heard, void *of);
/* Of its completion. */
static inline int64_t hf_call_number(const hf_call *call) { return (int64_t)(intptr_t)call; }
/* It was not started. */
void hf_call_drop(hf_call *call);
/* No caller waits for its end now. */
void hf_call_abandon(hf_call **of);

/* It could not be released, because there is no memory, or because its master keeps it while others
 * do not: its own client undoes it. */
void hf_vote_give_up(struct hf_hold *vote);
/* Give a vote back in the background. Takes the caller's reference. */
void hf_vote_give_back(hf_client *client, size_t at, struct hf_hold *vote);

/* For a short while nothing more is sent to a master that owes an answer for long: then it is
 * silent. */
bool hf_master_is_silent(const hf_client *client, size_t at, int64_t now);
int64_t hf_master_patience_ms(const hf_master *master);
/* When it will be, if the oldest call has no answer until then; HF_NO_DEADLINE: it owes nothing. */
int64_t hf_master_silent_at(const hf_client *client, size_t at);
/* A call to it has ended so. */
void hf_master_note(hf_master *master, hf_status status, const hf_error *why);
/* Do masters refuse this client, so that it never has a majority? */
bool hf_masters_refuse(const hf_client *client);
/* This thread's message: fewer than a majority could be asked for that lock. HF_ECONNECT, or the
 * status with which masters refuse this client. */
hf_status hf_masters_explain(const hf_client *client, const hf_names *names);

/* That master's client has told of something that is no loss. */
void hf_master_hear(hf_client *client, size_t at, const hf_completion *completion);
/* Free it with its client, and with all calls that were never answered. NULL is allowed. */
void hf_masters_end(struct hf_quorum *quorum);

#endif
