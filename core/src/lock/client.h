/*
 * What all files of this floor share: the client, its handle, its mutex and its thread. Each file
 * of the floor keeps its own data in a part that only it can see.
 *
 * The client's mutex guards all of this floor and its links. The mutexes of the floor below
 * (docs/design.md) may be taken under it, never the other way round. A function whose name ends in
 * _locked must be called with the mutex held, and so must callbacks of timers, tasks and links, and
 * functions that are given an op. A function that takes the mutex itself has a comment that says
 * "Without the mutex", or is in the public header. Functions that only read constant members, or
 * count references, work with and without it. Only hf_client_unlock() releases the mutex.
 */
#ifndef HF_CLIENT_H
#define HF_CLIENT_H

#include <pthread.h>

#include "base/timer.h"
#include "net/links.h"
#include "net/transport.h"

/* The number of descriptors to be written to after the mutex is released: a thread that was woken
 * under the mutex would at once wait for it. */
#define HF_TOLD_MAX 16

struct hf_client {
    int references; /* one for the handle, and one for each lock and hold */
    unsigned generation;
    int64_t fence_life_ms; /* 0: a day */
    int32_t replicas;      /* for a lock whose options give no number */
    hf_transport *transport;
    struct hf_quorum *quorum; /* with several masters, whose clients send the requests; or NULL */
    hf_interrupt interrupt;
    void *interrupt_context;
    hf_event closing;                       /* set when the client is closed: ends waits */
    char prefix[HF_DEFAULT_OWNER_MAX - 32]; /* "<client name>@<host>/<pid>:<client id>:" */
    size_t prefix_length;
    const char *id; /* the client's id in the prefix: HF_ID_LENGTH digits */
    void (*destroy)(struct hf_client *client); /* called with the last reference */

    pthread_mutex_t mutex; /* guards all members below */
    bool tells_trouble;    /* report trouble on the completion queue */
    bool closed;           /* new calls are refused */
    bool swept;            /* the close now collects everything: waiting threads return */
    unsigned char random[256];
    size_t random_left;
    hf_listener listener;
    hf_links links;

    /* The thread: thread.c. */
    pthread_t thread;
    bool started, stop; /* the close joins it, and started stays true */
    void *(*run)(void *client);
    hf_event wake;
    int clock_fd;
    int64_t sleeps_until; /* INT64_MIN while it is awake */
    hf_timers timers;
    int told[HF_TOLD_MAX];
    size_t told_count;

    /* The parts, each defined in the file of that name. */
    struct hf_numbers *numbers;
    struct hf_table *table;
    struct hf_completions *completions;
    struct hf_undoing *undoing;
    struct hf_renewing *renewing;
    struct hf_waiting *waiting;
    const struct hf_op *reading; /* the op whose thread is reading a subscription now */
    hf_list confirming; /* started acquires that wait for replicas or for their whole lease:
                         * replicas.c */
    int confirmers;     /* the number of threads that confirm them */
};

/* Check that the handle is not NULL, belongs to this process and is not closed. With or without the
 * mutex. */
hf_status hf_client_check(const hf_client *client);
/* Return whether the client belongs to the process that this one was forked from. */
bool hf_client_inherited(const hf_client *client);

/* Write an owner, as a server has it, and its note in quotes for a message. A default owner is
 * shown by its client's name, host, process and thread, without the digits that only distinguish
 * clients; HF_QUOTED_MAX bytes are enough. */
#define HF_QUOTED_MAX 400
void hf_owner_quote(const char *text, size_t length, char *to, size_t capacity);

hf_client *hf_client_keep(hf_client *client);
void hf_client_drop(hf_client *client);

hf_client *hf_client_lock(hf_client *client);
/* Release the mutex, and only then wake the threads that have news. */
void hf_client_unlock(hf_client *client);
/* Hold the mutex to the end of the block. */
#define HF_HOLDING_CLIENT(which)                                                                   \
    hf_client *locked_ __attribute__((cleanup(hf_client_let_go), unused)) = hf_client_lock(which)
static inline void hf_client_let_go(hf_client *const *held) { hf_client_unlock(*held); }
/* Have hf_client_unlock() set the event with this `to`, which wakes a thread. */
void hf_client_tell_locked(hf_client *client, int fd);

/* Make a hold id: 32 random hex digits and a NUL. */
hf_status hf_client_new_id_locked(hf_client *client, char *id);

/* Return the client of a task that has been submitted. */
static inline hf_client *hf_task_client(const hf_task *task) {
    return HF_OF(hf_client, links, task->links);
}

/* Return the deadline, from now, of a call without a timeout. */
int64_t hf_client_patience(const hf_client *client);
/* Send the request on this thread, without the mutex, by that deadline; and free it. */
hf_status hf_client_call(const hf_client *client, hf_request *request, hf_answer *answer);

/* Return HF_ECANCELED, with the message that the client was closed while a call waited. */
hf_status hf_client_explain_closed(void);
/* Sleep, without the mutex; HF_ECANCELED when the client closes, HF_EINTR when a signal ends it. */
hf_status hf_client_sleep(hf_client *client, int64_t ms, bool interruptible);
/* Let the language handle signals, without the mutex; HF_EINTR if a signal ends the wait,
 * HF_EFORKED in a child that a handler has forked. *listens: call this again. */
hf_status hf_client_listen(hf_client *client, bool *listens);

#endif
