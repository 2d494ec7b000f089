/*
 * What everything in this floor shares: the client, its handle, its mutex and its
 * thread. A file of the floor keeps its own data in a part that only it can see.
 *
 * The client's mutex, here, is for all of this floor and its links. Those of the floor
 * below (docs/design.md) may be taken under it, never the other way round. A function
 * whose name ends in _locked needs it held, and so do callbacks of timers, tasks and
 * links, and functions that are given an op. A function that takes it itself has a comment
 * that says "Without the mutex", or is in the public header. Functions that only
 * read constant members, or count references, work with and without it. hf_client_unlock() is the
 * one way to let it go.
 */
#ifndef HF_CLIENT_H
#define HF_CLIENT_H

#include <pthread.h>

#include "base/timer.h"
#include "net/links.h"
#include "net/transport.h"

/* Descriptors to be written to when the mutex has been let go: a thread that is woken
 * under it would at once wait for it. */
#define HF_TOLD_MAX 16

struct hf_client {
    int references; /* the handle's, and one of each lock and hold */
    unsigned generation;
    int64_t fence_life_ms; /* 0: a day */
    int32_t replicas;      /* of a lock that names no number of its own */
    hf_transport *transport;
    struct hf_quorum *quorum; /* several masters: their clients ask; or NULL */
    hf_interrupt interrupt;
    void *interrupt_context;
    hf_event closing;                       /* set when the client is closed: ends waits */
    char prefix[HF_DEFAULT_OWNER_MAX - 32]; /* "<client name>@<host>/<pid>:<client id>:" */
    size_t prefix_length;
    const char *id; /* of the client, in the prefix: HF_ID_LENGTH digits */
    void (*destroy)(struct hf_client *client); /* with the last reference */

    pthread_mutex_t mutex; /* of all below */
    bool tells_trouble;    /* on the completion queue */
    bool closed;           /* calls are refused */
    bool swept;            /* and the close collects everything: waiting threads return */
    unsigned char random[256];
    size_t random_left;
    hf_listener listener;
    hf_links links;

    /* The thread: thread.c. */
    pthread_t thread;
    bool started, stop; /* it is joined by the close, and started stays true */
    void *(*run)(void *client);
    hf_event wake;
    int clock_fd;
    int64_t sleeps_until; /* INT64_MIN while it is awake */
    hf_timers timers;
    int told[HF_TOLD_MAX];
    size_t told_count;

    /* The parts, each of the file of that name: */
    struct hf_numbers *numbers;
    struct hf_table *table;
    struct hf_completions *completions;
    struct hf_undoing *undoing;
    struct hf_renewing *renewing;
    struct hf_waiting *waiting;
    const struct hf_op *reading; /* on whose thread a subscription is being read just now */
    hf_list confirming; /* started acquires that wait for replicas or their lease: replicas.c */
    int confirmers;     /* threads that see to them */
};

/* Is the handle there, of this process, and not closed? With or without the mutex. */
hf_status hf_client_check(const hf_client *client);
/* Of the process that this one was forked from? */
bool hf_client_inherited(const hf_client *client);

/* An owner, as a server has it, in quotes for a message, and its note: a default owner by its
 * client's name, host, process and thread, without the digits that only tell clients apart;
 * HF_QUOTED_MAX bytes are enough. */
#define HF_QUOTED_MAX 400
void hf_owner_quote(const char *text, size_t length, char *to, size_t capacity);

hf_client *hf_client_keep(hf_client *client);
void hf_client_drop(hf_client *client);

hf_client *hf_client_lock(hf_client *client);
/* Let the mutex go, and only then wake the threads that have news. */
void hf_client_unlock(hf_client *client);
/* Hold it to the end of the block. */
#define HF_HOLDING_CLIENT(which)                                                                   \
    hf_client *locked_ __attribute__((cleanup(hf_client_let_go), unused)) = hf_client_lock(which)
static inline void hf_client_let_go(hf_client *const *held) { hf_client_unlock(*held); }
/* Set the event with this `to` in hf_client_unlock(): a thread is to wake up then. */
void hf_client_tell_locked(hf_client *client, int fd);

/* A new hold id: random, 32 hex digits and a NUL. */
hf_status hf_client_new_id_locked(hf_client *client, char *id);

/* The client of a task, once it is submitted. */
static inline hf_client *hf_task_client(const hf_task *task) {
    return HF_OF(hf_client, links, task->links);
}

/* For how long a call without a timeout may take, from now on. */
int64_t hf_client_patience(const hf_client *client);
/* Send the request on this thread, without the mutex, with that patience; and free it. */
hf_status hf_client_call(const hf_client *client, hf_request *request, hf_answer *answer);

/* HF_ECANCELED, with the message that the client was closed while a call waited. */
hf_status hf_client_explain_closed(void);
/* Sleep, without the mutex; HF_ECANCELED when the client closes, HF_EINTR when a signal ends it. */
hf_status hf_client_sleep(hf_client *client, int64_t ms, bool interruptible);
/* Let the language look for signals, without the mutex; HF_EINTR if one ends the wait, HF_EFORKED
 * in a child that a handler has forked. *listens: ask again. */
hf_status hf_client_listen(hf_client *client, bool *listens);

#endif
