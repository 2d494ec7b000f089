/*
 * Several masters: the client of a quorum, and its knowledge of each master. For each master it has
 * an ordinary client, which does not know the others: it sends, waits in the queue, renews and
 * undoes as usual. Their operations are started under the quorum's own mutex, which may be held
 * while theirs is taken, never the other way round; and the quorum's keeper gets the results by
 * their completions.
 */
#ifndef HF_QUORUM_H
#define HF_QUORUM_H

#include "lock/client.h"
#include "net/member.h"

/* What all masters do with their votes for a hold. */
typedef enum {
    HF_ROUND_RELEASE,
    HF_ROUND_RENEW,
    HF_ROUND_LOOK,
    HF_ROUND_EXTEND,
    HF_ROUND_REPLACE,
    HF_ROUND_KEEP
} hf_round_kind;

typedef void hf_round_told(void *context, hf_status status);
struct hf_ballot;
struct hf_call;
typedef void hf_hearer(struct hf_call *call, const hf_completion *completion);

/* What happens to the votes that a ballot lets go: each is given back, or is no longer renewed and
 * ends by itself, or stays with its master's client. */
typedef enum { HF_PARTING_BACK, HF_PARTING_ENDS, HF_PARTING_STAYS } hf_parting;

/* The functions of ballot.c that files below it call. With the quorum's mutex. */
typedef struct hf_ballot_ways {
    /* Acquire on the calling thread, until op->done. */
    void (*run)(struct hf_op *op, bool interruptible);
    /* Begin a started acquire, after a pause. False: no memory. */
    bool (*begin)(struct hf_op *op, int64_t pause_ms);
    /* End the op without the lock: HF_ECANCELED. */
    void (*cancel)(struct hf_op *op);
    /* Called by the hold's timer: ask for a missing vote, or lose the hold. */
    void (*due)(struct hf_hold *hold, int64_t now);
    /* Set the hold's deadline by its votes, if it has votes; lengthens: even to a later deadline,
     * if it is not renewed. */
    void (*count)(const struct hf_hold *hold, bool lengthens);
    /* Take the hold off its votes; the last hold of a ballot lets them go. */
    void (*leave)(struct hf_hold *hold, hf_parting how);
    /* Called for a ballot that acquires: an acquire of a vote has ended; a vote has confirmed, or
     * is no longer a vote. */
    hf_hearer *voted;
    void (*changed)(struct hf_ballot *ballot);
    /* Return how many masters have the hold now. */
    size_t (*votes)(const struct hf_hold *hold);
    /* Have all masters do `kind` with their votes, and report the result of the majority, with the
     * thread's message: HF_OK, HF_ELOST, HF_EUNKNOWN, or the reason why no majority answers.
     * Reports at once if no master must be asked. After a release the hold has no votes. HF_ENOMEM:
     * no report follows. */
    hf_status (*poll)(struct hf_hold *hold, hf_round_kind kind, int64_t duration_ms,
                      hf_round_told *told, void *context);
} hf_ballot_ways;

typedef struct hf_master {
    hf_client *client;
    hf_list calls; /* started there, without an answer, the oldest first; without those in line */
    bool tried;    /* a call has ended: the duration of a call is known */
    bool down;     /* the last call failed, for the reason in `why` */
    bool fails;    /* it fails to renew its votes */
    int64_t up_since;  /* it was down before */
    int64_t trip_ms;   /* the duration of the last answer */
    hf_status refusal; /* the status of a failure that no time mends; or HF_OK */
    char why[200];
} hf_master;

struct hf_quorum {
    const hf_ballot_ways *ways;
    hf_members *members;
    size_t count;
    hf_master masters[HF_MASTERS_MAX];
    bool some_fail, most_fail; /* fail to renew, as last announced */
    hf_list ballots, rounds;
    hf_list lines;      /* calls that stand or stood in line */
    int64_t still_at;   /* this process stood still until then: no master counts as silent for
                         * that */
    char warning[1200]; /* the answer of hf_client_warning() */
};

/* Adopt a client for each master, each with one more reference than its handle's, until
 * hf_masters_end(). HF_ENOMEM. */
hf_status hf_quorum_adopt(hf_client *client, hf_members *members, hf_client *const *masters,
                          const hf_ballot_ways *ways);
typedef hf_status hf_question(hf_client *master, hf_request *request, redisReply **reply);
/* The answer of one master. */
typedef struct hf_heard {
    struct hf_gathering *of;
    hf_client *master;
    bool asked;         /* true, unless the caller sets it to false before the run */
    hf_request request; /* the request; the caller's before the run */
    bool answered;      /* in time */
    hf_status status;
    hf_error error;
    redisReply *reply; /* the caller may take it */
} hf_heard;

/* A question to several masters, each asked on a thread of its own, so that a master that hangs
 * delays no answer of another. */
typedef struct hf_gathering {
    pthread_mutex_t mutex;
    int references; /* of the caller, and of each thread */
    int answers;    /* wakes the caller */
    bool over;      /* no thread waits for the answer now */
    bool needs_all; /* the caller's before the run: wait for late masters, too */
    size_t masters;
    hf_question *ask;
    hf_heard from[HF_MASTERS_MAX];
} hf_gathering;

/* NULL: no memory. */
hf_gathering *hf_gathering_new(const hf_client *client, hf_question *ask);
/* Ask, and wait until all have answered; or until a majority has and the others are late, unless
 * all are needed. Without the mutex. */
void hf_gathering_run(hf_gathering *of);
/* Return HF_ENOMEM, with this thread's message, if there was no thread or memory to ask one of the
 * masters, which shows nothing about that master. */
hf_status hf_gathering_lacks(const hf_gathering *of);
void hf_gathering_drop(hf_gathering *of);

/* Log in at all masters at once, and check that a majority answers, and that no master is wrong.
 * opens: also warn by what they report. Without the mutex. */
hf_status hf_quorum_try(hf_client *client, bool opens, size_t *answered_out);

/* Return whether no later answer can mend that status. */
bool hf_quorum_is_fatal(hf_status status);

/* Check a lock's options: HF_EUNSUPPORTED or HF_EINVAL with the reason, for an option that a quorum
 * does not support. */
hf_status hf_quorum_check(const hf_client *client, const hf_lock_options *options);
hf_status hf_quorum_check_lease(const hf_client *client, int64_t lease_ms, const char *what);
/* Refuse an operation that only a single master can do. HF_EUNSUPPORTED. */
hf_status hf_quorum_refuse(const char *what);

#endif
