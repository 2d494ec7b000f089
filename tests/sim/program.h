/* A thread's program, and its holds: shared by the files of the workload. */
#ifndef SIM_PROGRAM_H
#define SIM_PROGRAM_H

#include <holdfast/holdfast.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "judge.h"
#include "workload.h"

enum { HOLDS = 4, STATUSES = 32, GATE_MS = 1000 };

/* A hold of a program, with the options of its acquire. */
typedef struct mine {
    hf_hold *hold;
    belief *belief;
    const char *key;
    bool shared;
    int64_t group;  /* holds that are lost together, and may be excused; 0: none */
    bool renewed;   /* renewed until it is released */
    bool once;      /* its release may leave a result */
    bool marked;    /* its call, made at most once, has begun */
    hf_lock *lock;  /* through which its owner, who left it with the client, releases it; or NULL */
    char owner[32]; /* that owner */
} mine;

typedef struct program {
    hf_client *client;
    pthread_t thread;
    int number;
    mine holds[HOLDS];
    int count;
    const bool *closed;      /* the close of its client has returned */
    int64_t ended[STATUSES]; /* acquires that ended, by status */
    int64_t found_lost;      /* holds whose loss a call found when it was to end them */
    bool brakes;             /* brakes may end its calls */
    bool uncounted;          /* some acquires were of several locks, which try more often */
} program;

static inline int below(int most) { return (int)sim_random((uint64_t)most); }
static inline bool often(double p) { return sim_chance(p); }
static inline void think(void) { usleep((unsigned)sim_span(10, work.think_ms * 1000 + 10)); }

/* Return how long a call may take that waits for an answer. A call that waits for a lock gets an
 * answer or gives up within this time in addition (bound_of()). */
static inline int64_t patience(void) { return work.connect_ms; }
static inline int64_t bound_of(int64_t timeout_ms, const hf_lock_options *options) {
    return timeout_ms < 0 ? -1 : timeout_ms + patience() + options->replica_timeout_ms;
}

static inline bool is_held_by_others(hf_status status) {
    return status == HF_EBUSY || status == HF_ETIMEOUT;
}

const char *any_key(void);
hf_lock_options lock_options(bool *shared, int64_t *permits);
hf_lock *open_lock(program *p, const char *key, const hf_lock_options *options);
int64_t any_timeout(const program *p);
void begin_thread(pthread_t *thread, void *(*main)(void *), void *argument);
hf_client *open_client(void);

/* Tell the judge what is certain of the hold now, from a call that began at `began`; 0: from no
 * call. */
void believe(mine *m, int64_t began);
mine *keep_hold(program *p, hf_hold *hold, const char *key, const hf_lock_options *options,
                int64_t began, int64_t group);
void drop_hold(program *p, int which);
/* Make a call with a random key, or with one of the program's holds. */
void acquire(program *p);
void release(program *p, int which);
void renew(const program *p, mine *m);

/* The rarer calls (calls.c). */
void once(program *p);
/* Check the outcome of a call that asks for a result. */
void take_result(const char *key, hf_hold *hold, int64_t began);
/* Release the hold with a result; return the status. */
hf_status finish(mine *m);
/* Return whether the calls of that key are made at most once. */
bool most_once(const char *key);
/* Return whether the status says that the call has been made, has failed or has begun. */
bool has_outcome(hf_status status);
void acquire_for_owner(program *p);
void walk(program *p);
void tell(program *p);
void brake(program *p);
void be_cancelled(program *p);
void split(program *p);
void set_limit(program *p);

#endif
