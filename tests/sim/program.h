/* One thread's program, and what it holds: for the files of the workload. */
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

/* A hold that a program has, with what it was asked with. */
typedef struct mine {
    hf_hold *hold;
    belief *belief;
    const char *key;
    bool shared;
    int64_t group;  /* of holds with which it is lost, which may be excused; 0: alone */
    bool renewed;   /* until it is released */
    bool once;      /* its release may leave a result */
    bool marked;    /* its call has begun, at most once */
    hf_lock *lock;  /* through which its owner releases it, who left it with the client; or NULL */
    char owner[32]; /* of that */
} mine;

typedef struct program {
    hf_client *client;
    pthread_t thread;
    int number;
    mine holds[HOLDS];
    int count;
    const bool *closed;      /* the close of its client has returned */
    int64_t ended[STATUSES]; /* how many acquires did, by status */
    int64_t found_lost;      /* holds that a call was to end */
    bool brakes;             /* a brake may end its calls */
    bool uncounted;          /* some acquires were of several locks, which try more than once */
} program;

static inline int below(int most) { return (int)sim_random((uint64_t)most); }
static inline bool often(double p) { return sim_chance(p); }
static inline void think(void) { usleep((unsigned)sim_span(10, work.think_ms * 1000 + 10)); }

/* For how long a call may take that waits for an answer; and one that waits for a lock, which is
 * answered, or gives up, within one such time more. */
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

/* What is certain of it now, by a call that began then; 0: by none. */
void believe(mine *m, int64_t began);
mine *keep_hold(program *p, hf_hold *hold, const char *key, const hf_lock_options *options,
                int64_t began, int64_t group);
void drop_hold(program *p, int which);
/* Calls with any key, or with one of its holds. */
void acquire(program *p);
void release(program *p, int which);
void renew(const program *p, mine *m);

/* The rarer calls (calls.c). */
void once(program *p);
/* What a call by which a result is asked for brings. */
void take_result(const char *key, hf_hold *hold, int64_t began);
/* Releases it with a result; its status. */
hf_status finish(mine *m);
/* Are the calls of that key made at most once? */
bool most_once(const char *key);
/* Is the call made already, or failed, or begun? */
bool has_outcome(hf_status status);
void acquire_for_owner(program *p);
void walk(program *p);
void tell(program *p);
void brake(program *p);
void be_cancelled(program *p);
void split(program *p);
void set_limit(program *p);

#endif
