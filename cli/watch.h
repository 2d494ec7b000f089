/*
 * Walks all locks again and again, perhaps on its own thread, and measures the cost for the server.
 * A walk begins `delay_ms` after the beginning of the previous walk, and never before its end;
 * during a longer walk, the locks on the screen are refreshed.
 */
#ifndef HOLDFAST_WATCH_H
#define HOLDFAST_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "look.h"
#include "table.h"

/* An errand for the thread: look at one lock, or take it away from a holder. */
typedef enum { WATCH_NOTHING, WATCH_LOOK, WATCH_TAKE } watch_kind;

typedef struct watch_errand {
    watch_kind kind;
    char *name;
    size_t name_length;
    int64_t fence; /* of WATCH_TAKE; 0: from another library */
} watch_errand;

typedef struct watch_answer {
    watch_kind kind;
    int result;    /* CLI_OK, or the exit status, with `why` */
    show_text why; /* free it */
    hf_lock_info info;
    hf_view *view; /* of WATCH_LOOK if the result is CLI_OK; close it */
} watch_answer;

enum { WATCH_TIMES = 64 };

/* Recent times, each of one command. */
typedef struct watch_times {
    int64_t us[WATCH_TIMES];
    size_t count;
} watch_times;

typedef struct watch {
    /* Set before watch_open(). */
    hf_client *client;
    const char *pattern;
    look_filter filter;
    int64_t rate;   /* of looks, as in hf_locks_options */
    uint32_t flags; /* of hf_locks_options */
    bool json;      /* keep each lock as an object, too */

    pthread_mutex_t mutex; /* guards the fields up to the thread's */
    int64_t delay_ms;
    bool paused, hurried; /* hurried: the next walk is due at once */
    table table;
    bool walking;
    int64_t walks, walk_ms; /* the number of ended walks; the time of the last whole walk */
    hf_progress progress;   /* of the current walk, or of the last */
    int64_t answered_at;    /* the last response, on cli_now()'s clock */
    show_text trouble;      /* why the last walk was not whole; empty: it was */
    int trouble_result;     /* the exit status for it */
    int64_t commands;       /* sent */
    int64_t busy_us;        /* time of the servers for them, without the network */
    watch_errand errand;
    watch_answer answer;
    char **visible; /* names of the locks on the screen */
    size_t *visible_lengths, visible_count;

    /* The thread's. */
    pthread_t thread;
    bool started;
    int wake, news; /* eventfd(2): to the thread; from the thread */
    atomic_bool ends, called;
    hf_locks *locks;
    hf_progress counted; /* the part of the walk in commands and busy_us */
    bool whole;
    int64_t began_at, looked_at, interrupt_at, told_at;
    int64_t trip_us;             /* a recent round trip; 0: not known */
    watch_times trips, times[2]; /* of PINGs; of round trips with few commands; with many */
} watch;

void watch_open(watch *it);
/* Close all but the client, after watch_end() has returned true. */
void watch_close(watch *it);

/* Run one whole walk, without the thread. */
void watch_walk(watch *it);

/* Start the thread. False: failed. */
bool watch_start(watch *it);
/* End the thread. False: it still waits for a server; exit without joining it. */
bool watch_end(watch *it);

/* Wake the thread after a change. Needs the mutex. */
void watch_wake(watch *it);
/* Set the locks on the screen. Needs the mutex. */
void watch_show(watch *it, const row *const *rows, size_t count);
/* Request an errand. It replaces a pending errand, but a pending WATCH_TAKE stays, and the new
 * errand is dropped. Needs the mutex. */
void watch_ask(watch *it, watch_kind kind, const void *name, size_t length, int64_t fence);
/* Take the answer of the last errand. False: there is none. Needs the mutex. */
bool watch_answered(watch *it, watch_answer *answer_out);

#endif
