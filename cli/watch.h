/*
 * Looks at all locks again and again, on a thread of its own or not, and knows what that costs the
 * server. A walk begins `delay_ms` after the one before it began, and never before that has ended;
 * the locks that are on the screen are looked at in between if it takes longer.
 */
#ifndef HOLDFAST_WATCH_H
#define HOLDFAST_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "look.h"
#include "table.h"

/* What somebody asks of the thread, besides: to look at one lock, or to take it away from one. */
typedef enum { WATCH_NOTHING, WATCH_LOOK, WATCH_TAKE } watch_kind;

typedef struct watch_errand {
    watch_kind kind;
    char *name;
    size_t name_length;
    int64_t fence; /* of WATCH_TAKE; 0: from another library */
} watch_errand;

typedef struct watch_answer {
    watch_kind kind;
    int result;    /* CLI_OK, or the exit status, and why */
    show_text why; /* free it */
    hf_lock_info info;
    hf_view *view; /* of WATCH_LOOK if the result is CLI_OK; close it */
} watch_answer;

enum { WATCH_TIMES = 64 };

/* Of late, of one command each. */
typedef struct watch_times {
    int64_t us[WATCH_TIMES];
    size_t count;
} watch_times;

typedef struct watch {
    /* For watch_open(). */
    hf_client *client;
    const char *pattern;
    look_filter filter;
    int64_t rate; /* of looks, as in hf_locks_options */
    bool json;    /* keep each lock as an object, too */

    pthread_mutex_t mutex; /* of all below that is not the thread's */
    int64_t delay_ms;
    bool paused, hurried; /* hurried: the next walk is due at once */
    table table;
    bool walking;
    int64_t walks, walk_ms; /* that have ended; how long the last whole one took */
    hf_progress progress;   /* of the walk that is under way, or of the last one */
    int64_t answered_at;    /* cli_now() */
    show_text trouble;      /* why the last walk found not all; empty: it did */
    int trouble_result;     /* the exit status for it */
    int64_t commands;       /* that were sent */
    int64_t busy_us;        /* the time that the servers took for them, without the network's */
    watch_errand errand;
    watch_answer answer;
    char **visible; /* names of locks that are on the screen */
    size_t *visible_lengths, visible_count;

    /* The thread's. */
    pthread_t thread;
    bool started;
    int wake, news; /* eventfd(2): for the thread; from it */
    atomic_bool ends, called;
    hf_locks *locks;
    hf_progress counted; /* what of the walk is in commands and busy_us */
    bool whole;
    int64_t began_at, looked_at, interrupt_at, told_at;
    int64_t trip_us;             /* a round trip of late; -1: not known */
    watch_times trips, times[2]; /* of PINGs; of round trips with few commands; with many */
} watch;

void watch_open(watch *it);
/* After watch_end() with the answer true. Leaves the client open. */
void watch_close(watch *it);

/* One whole walk, without the thread. */
void watch_walk(watch *it);

/* Begins the thread. False: the system refuses. */
bool watch_start(watch *it);
/* Ends it. False: it is in a call that lasts, and the process had better end without it. */
bool watch_end(watch *it);

/* With the mutex: the thread has to look at it again, because of what was changed. */
void watch_wake(watch *it);
/* With the mutex: what is on the screen from now on. */
void watch_show(watch *it, const row *const *rows, size_t count);
/* With the mutex. The one before it, if it has not begun, is forgotten; but to take a lock away is
 * not, and then this one is. */
void watch_ask(watch *it, watch_kind kind, const void *name, size_t length, int64_t fence);
/* With the mutex. False: none has come. */
bool watch_answered(watch *it, watch_answer *answer_out);

#endif
