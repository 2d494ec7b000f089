/*
 * The votes of a ballot: each an ordinary hold at one master. They are requested, confirmed, taken
 * and let go here, and the caller's holds stand on them. All functions here need the quorum's
 * mutex.
 */
#ifndef HF_VOTES_H
#define HF_VOTES_H

#include "lock/op.h"
#include "lock/round.h"

typedef struct hf_vote {
    hf_hold *hold;     /* with a reference; or NULL */
    hf_call *asking;   /* an acquire, or a confirmation, without an answer; or NULL */
    int64_t confirmed; /* the last fence that it has confirmed */
    bool refuses;      /* others hold the lock at this master */
    bool fails;        /* the master's last answer to the acquire was an error, */
    bool forbids;      /* for want of a permission */
} hf_vote;

struct hf_ballot {
    hf_item item;
    hf_client *client;
    hf_hold *like; /* the model of a vote: the first hold that stands on it; with a reference */
    int64_t fence;
    int64_t lease_ms; /* the lease with which its votes are renewed */
    hf_vote votes[HF_MASTERS_MAX];
    size_t office; /* the master where it stands in line, or would stand */
    hf_timer timer;

    /* While it acquires: */
    hf_op *op;        /* or NULL */
    int64_t asked_at; /* when the last round began, which may be under way */
    unsigned rounds;
    size_t reached; /* how many masters had answered when the last round ended */
    size_t refused; /* how many of these refused */
    bool asks;      /* a round is under way */
    bool lacks;     /* it had no memory to ask some master */
    enum {
        HF_IN_TIME,
        HF_LATE, /* the time is up, and the acquire is leaving the line */
        HF_LAST  /* the last round is under way */
    } time;
    int64_t ends_at; /* the end of its time; then, or for a try, of the time that the masters
                      * have */
    hf_call *line;
    hf_error *why;      /* its master's last answer: who has the lock; NULL: there was none */
    int64_t recheck_at; /* when all masters are tried again, in line */
    int64_t score;      /* its first place in a line; 0: not known */
    int64_t head_at;    /* when it came to the head of the line; 0: it has not */

    /* While holds stand on it: */
    hf_hold *holds;     /* linked by `beside`; with the holds that nest in the first */
    bool doubts;        /* it is asking whether the other masters still know their votes: until then
                         * it asks for no missing vote */
    int64_t join_ms;    /* the pause before it next asks for missing votes */
    int64_t most;       /* a hold that is not renewed does not last longer than this when missing
                         * votes arrive */
    int64_t counted_at; /* when its votes were last counted; a hold that had ended before is lost */
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
/* Free the ballot, and let its votes go. */
void hf_votes_free(struct hf_ballot *ballot, hf_parting how);

/* Ask for the vote of that master, through a place in its line or at once. */
void hf_vote_acquire(struct hf_ballot *ballot, hf_call_kind kind, size_t at, int64_t floor);
/* Take a vote that was given. */
void hf_vote_take(struct hf_ballot *ballot, size_t at, hf_hold *hold);
/* Ask a vote to stand for the fence. A vote that cannot be asked, because its hold is lost, is
 * dropped: if it stayed and was asked again, the ballot would choose without end. */
void hf_vote_confirm(struct hf_ballot *ballot, size_t at);
/* Return whether the vote's master may not know the fence yet. */
bool hf_vote_is_behind(const struct hf_ballot *ballot, const hf_vote *of);
/* Let go all votes of the ballot, except the vote of that master. */
void hf_votes_let_go(struct hf_ballot *ballot, size_t but, hf_parting how);
/* Return the time until which a majority of the votes stands. */
int64_t hf_votes_deadline(const struct hf_ballot *ballot);

/* Let the hold of its op stand on the ballot from now on. */
void hf_votes_stand(struct hf_ballot *ballot, int64_t deadline);
/* Let the op's hold nest in a hold of the same owner, as another handle of the same ballot. If its
 * own lease is longer, that lease is requested in the background. */
bool hf_votes_nest(hf_op *op);
/* Read the completions of the masters' clients. due: when this thread was meant to wake. Return the
 * time. */
int64_t hf_votes_hear(hf_client *client, int64_t due);
/* Forget the votes of a closed client. The clients of the masters release the holds there: their
 * close does, or leaves them. */
void hf_votes_close(struct hf_ballot *ballot);

/* As described at hf_ballot_ways. */
size_t hf_votes_held(const hf_hold *hold);
void hf_votes_due(hf_hold *hold, int64_t now);
void hf_votes_count(const hf_hold *hold, bool lengthens);
void hf_votes_leave(hf_hold *hold, hf_parting how);
hf_status hf_votes_poll(hf_hold *hold, hf_round_kind kind, int64_t duration_ms, hf_round_told *told,
                        void *context);

#endif
