/*
 * The votes of a ballot: each an ordinary hold at one master. They are asked for, confirmed, taken
 * and let go here, and the caller's holds stand on them. All of this needs the quorum's mutex.
 */
#ifndef HF_VOTES_H
#define HF_VOTES_H

#include "lock/op.h"
#include "lock/round.h"

typedef struct hf_vote {
    hf_hold *hold;     /* with a reference; or NULL */
    hf_call *asking;   /* an acquire, or a confirmation, without an answer; or NULL */
    int64_t confirmed; /* the last fence that it has confirmed */
    bool refuses;      /* others have this master */
} hf_vote;

struct hf_ballot {
    hf_item item;
    hf_client *client;
    hf_hold *like; /* the model of a vote: the first hold that stands on it; with a reference */
    int64_t fence;
    int64_t lease_ms; /* for which its votes are renewed */
    hf_vote votes[HF_MASTERS_MAX];
    size_t office; /* where it stands in line, or would */
    hf_timer timer;

    /* While it acquires: */
    hf_op *op;        /* or NULL */
    int64_t asked_at; /* the round that is under way, or the last, began then */
    unsigned rounds;
    size_t reached; /* how many masters had answered when the last round ended */
    bool asks;      /* a round is under way */
    bool lacks;     /* it had no memory for some master */
    enum {
        HF_IN_TIME,
        HF_LATE, /* the time is up, and the line is left just now */
        HF_LAST  /* and this is the last round */
    } time;
    int64_t ends_at; /* its time; then, or for a try, the time that the masters have */
    hf_call *line;
    hf_error *why;      /* its master's last word: who has the lock; NULL: it has said none */
    int64_t recheck_at; /* in line, all masters are tried again then */
    int64_t score;      /* its first place in a line; 0: not known */
    int64_t head_at;    /* it came to the head of the line then; 0: it has not */

    /* While holds stand on it: */
    hf_hold *holds;     /* by `beside`: those that nest in the first, too */
    bool doubts;        /* asking whether the other masters still know theirs: until then it joins
                         * nowhere */
    int64_t join_ms;    /* how long after the last time it asks for missing votes */
    int64_t most;       /* votes that join make no hold last longer that is not renewed */
    int64_t counted_at; /* its votes were last; a hold that had ended by then is lost */
    int64_t renewed_to; /* its deadline when a renewal was last counted */
};

static inline hf_master *hf_votes_master(const struct hf_ballot *ballot, size_t at) {
    return &ballot->client->quorum->masters[at];
}

static inline size_t hf_votes_masters(const struct hf_ballot *ballot) {
    return ballot->client->quorum->count;
}

#define HF_NO_MASTER SIZE_MAX

/* NULL: no memory. */
struct hf_ballot *hf_votes_new(hf_op *op);
/* Its votes go, too. */
void hf_votes_free(struct hf_ballot *ballot, hf_parting how);

/* Ask for the vote of that master, by a place in its line or at once. */
void hf_vote_acquire(struct hf_ballot *ballot, hf_call_kind kind, size_t at, int64_t floor);
/* Take a vote that was given. */
void hf_vote_take(struct hf_ballot *ballot, size_t at, hf_hold *hold);
/* Ask a vote to stand for the fence. A vote that cannot be asked, because its hold is lost,
 * is dropped: if it stayed and was asked again, the ballot would choose without an end. */
void hf_vote_confirm(struct hf_ballot *ballot, size_t at);
/* Its master may not know the fence yet. */
bool hf_vote_is_behind(const struct hf_ballot *ballot, const hf_vote *of);
/* All its votes, except the vote of that master. */
void hf_votes_let_go(struct hf_ballot *ballot, size_t but, hf_parting how);
/* A majority of them stands until then. */
int64_t hf_votes_deadline(const struct hf_ballot *ballot);

/* The hold of its op stands on it from now on. */
void hf_votes_stand(struct hf_ballot *ballot, int64_t deadline);
/* The op's hold nests in a hold of the same owner: another handle of the same ballot. A longer
 * lease of its own is asked for in the background. */
bool hf_votes_nest(hf_op *op);
/* Read the completions of the masters' clients. due: when this thread was to wake. Return the
 * time. */
int64_t hf_votes_hear(hf_client *client, int64_t due);
/* The client is closed. What is held is the masters' clients' to release: their close does, or
 * leaves it. */
void hf_votes_close(struct hf_ballot *ballot);

/* As described in hf_ballot_ways. */
size_t hf_votes_held(const hf_hold *hold);
void hf_votes_due(hf_hold *hold, int64_t now);
void hf_votes_count(const hf_hold *hold, bool lengthens);
void hf_votes_leave(hf_hold *hold, hf_parting how);
hf_status hf_votes_poll(hf_hold *hold, hf_round_kind kind, int64_t duration_ms, hf_round_told *told,
                        void *context);

#endif
