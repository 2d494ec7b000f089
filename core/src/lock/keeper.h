/*
 * The keeper: what a client does in the background, on one thread started on
 * first need. It renews leases and notices their end, keeps the subscription
 * through which grants come in, looks after the waiting, carries out what was
 * started without blocking, and undoes what was given up.
 *
 * All of it is under the client's mutex, which the keeper holds except while it
 * sleeps in poll(2). Functions here are called with it held unless they say
 * otherwise.
 */
#ifndef HF_KEEPER_H
#define HF_KEEPER_H

#include <poll.h>
#include <pthread.h>

#include "base/timer.h"
#include "net/connection.h"
#include "protocol/protocol.h"

struct hf_client;
struct hf_hold;
struct hf_link;

/* An acquire that waits. Its name on the server is its hold's id. */
typedef struct hf_op {
    struct hf_hold *hold;
    int64_t number;     /* the caller's, of one that was started; or of none */
    bool started;       /* without blocking: ends with a completion */
    int64_t timeout_ms; /* HF_FOREVER or more */
    int64_t since;
    int64_t until;
    int64_t score;  /* its first place in the queue; 0: none yet */
    unsigned epoch; /* of its channel, when it last asked */
    int asking;     /* requests for it under way */
    bool busy;      /* its own thread, or its cancel, has a request for it under way */
    bool tries;     /* asks once, and does not queue */
    bool canceled;
    bool keeps;   /* the hold is to be left with the client */
    bool polling; /* its thread is in poll(2), and would notice */
    bool done;    /* status says how it ended; if HF_OK, hold is held */
    hf_status status;
    int event_fd; /* of a waiting thread: tells it to look again; or -1 */
    bool told;    /* that was, or will be, written to */
    size_t owner; /* its bucket in keeper.owners */
    hf_timer timer;
    struct hf_list *list;
    struct hf_link *link;          /* that of the list's channel */
    struct hf_op *previous, *next; /* in the list */
    struct hf_op *same_id;         /* in keeper.ids */
    struct hf_op *before, *after;  /* in link->threads; `after` also in keeper.spare */
    struct hf_news *news;          /* what will tell how it ended, if it was started */
} hf_op;

/* All that wait for one lock, in the order in which they came. */
typedef struct hf_list {
    hf_names *names;
    struct hf_op *first, *last;
    hf_timer timer;
    bool asking;          /* a re-check is under way */
    struct hf_list *next; /* in keeper.lists */
    struct hf_channel *channel;
    struct hf_list *before, *after; /* in channel->lists */
} hf_list;

/* What grants come in on: one channel of a single server, for all locks; in a Cluster one
 * for all locks of a tag, and so of one slot, which it goes with. */
typedef struct hf_channel {
    struct hf_link *link; /* to the server that has it */
    unsigned slot;
    hf_list *lists; /* that wait for grants on it */
    bool wanted;    /* somebody has come to wait */
    bool asked;     /* to be subscribed to */
    bool subscribed;
    unsigned epoch;             /* one more with each time that it was */
    int64_t retry_at, retry_ms; /* when it is asked for again that was refused */
    int64_t left_at;            /* by the last that waited */
    const char *name;
    size_t length;
    struct hf_channel *previous, *next; /* in link->asked or link->unasked */
    struct hf_channel *same_hash;       /* in keeper.channels */
} hf_channel;

/* One request of the keeper's, from when it is made until it is answered. */
typedef struct hf_task {
    struct hf_task *next;
    struct hf_link *link; /* that it waits on, or was sent on */
    hf_request request;
    bool whole, doubtful;
    bool pinned; /* to its link, whoever serves the slot */
    bool asking; /* that link's server is just being given the slot */
    bool split;  /* the slot was being moved: it is hf_request_alone() now */
    int redirections;
    bool insists; /* what is refused for now (a full disk) is asked again, until it is given up */
    int64_t retry_at; /* in keeper.delayed */
    int64_t sent_at, give_up_at;
    int64_t answer_ms; /* 0: as long as any command */
    /* Called once; the reply stays the engine's. HF_OK: it is no error. */
    void (*done)(struct hf_client *client, struct hf_task *task, hf_status status,
                 const redisReply *reply);
    hf_names *names;
    struct hf_hold **holds; /* with a reference of each */
    char (*ids)[HF_ID_LENGTH + 1];
    size_t count;
    int state;
    int64_t lease_ms;     /* of a renewal that was started */
    struct hf_news *news; /* what will tell its end, if somebody is to be told */
} hf_task;

/* A completion to be read. It is made with what it will tell of, so that telling
 * needs no memory: nobody is to wait for ever. */
typedef struct hf_news {
    struct hf_news *next;
    hf_completion completion;
} hf_news;

/* The keeper's two connections to one server, one for requests and one for the
 * channels on which grants come in, and all that is known of that server. */
typedef struct hf_link {
    struct hf_link *next;
    int node; /* the transport's number of the server */

    hf_connection *commands;
    hf_task *waiting_first, *waiting_last, *sent_first, *sent_last;
    int64_t retry_at, retry_ms; /* when a failed connection is tried again */
    int64_t pause_until;        /* the server asked for it */
    bool asked_first;           /* ASKING is answered, what it stood before is not */

    hf_connection *subscription;
    unsigned version;            /* of the transport's target when it was begun */
    hf_channel *asked, *unasked; /* those it has, or is to have */
    size_t wanted, subscribed;   /* so many of them are */
    enum { HF_UNTESTED, HF_TESTING, HF_GRANTS, HF_POLLING } mode;
    int64_t listen_at, listen_ms; /* when it is tried again */
    int64_t failing_since, pinged_at, heard_at;
    int64_t tested_at;
    int tests_failed; /* one after the other */

    hf_op *threads;     /* those that wait with a thread of their own */
    hf_op *reader;      /* the one of them that reads the subscription */
    size_t started_ops; /* those that wait without one */
    bool watching;      /* the keeper reads it */
    hf_timer unread;    /* nobody does: the keeper will */
    int64_t pair_sent,
        pair_server; /* a request's send time, and the server's time (us) in its answer */
} hf_link;

typedef struct hf_keeper {
    pthread_t thread;
    bool started, stop;
    int wake_fd, clock_fd;
    int64_t sleeps_until; /* INT64_MIN while it is awake */
    hf_timers timers;

    hf_link first;      /* and those to the other nodes of a Cluster behind it */
    unsigned change;    /* of the transport's map, when they were last told apart by it */
    hf_task *delayed;   /* to be sent again at their time, wherever that is then */
    struct pollfd *fds; /* the thread's own */
    size_t fd_count;
    hf_channel *channels[256];  /* of a Cluster, by name */
    hf_channel own;             /* of a single server */
    struct hf_hold *batch[100]; /* due for renewal in this round */
    size_t batch_count;
    struct hf_hold *undo; /* given up when there was no memory to undo it */
    int64_t undo_at;

    hf_op *self;  /* the one on whose thread a subscription is being read just now */
    int told[16]; /* the event_fds that it is to write to when it has let the mutex go */
    size_t told_count;
    char refusal[200]; /* of the server's, which ended a wait */

    hf_list *lists[256];
    hf_op *ids[1024];
    unsigned owners[1024]; /* how many wait, by a hash of lock and owner */
    hf_op *spare;          /* with their descriptors, to be used again */

    hf_news *news_first, *news_last;
    int news_fd; /* -1 until somebody asked for it */
} hf_keeper;

void hf_keeper_init(struct hf_client *client);
void hf_keeper_free(struct hf_client *client);
/* End the thread. Without the mutex. */
void hf_keeper_join(struct hf_client *client);
/* HF_ENOMEM if there is no thread to be had. */
hf_status hf_keeper_start(struct hf_client *client);
/* Start it, with a descriptor for the completions. Without the mutex. */
hf_status hf_keeper_tells(struct hf_client *client);
void hf_keeper_wake(struct hf_client *client);
/* Unlock the mutex that was locked by hf_keeper_lock(), and only then wake the
 * keeper, which would else wake to wait for it. */
bool hf_keeper_lock(struct hf_client *client);
void hf_keeper_unlock(struct hf_client *client, bool asleep);
bool hf_keeper_timer(struct hf_client *client, hf_timer *timer, int64_t due);

/* A hold was acquired or renewed: see to what it needs next. */
void hf_keeper_plan(struct hf_client *client, struct hf_hold *hold, int64_t now);
/* Why its lease ended, if it did. */
int hf_keeper_cause(const struct hf_hold *hold);
/* It is lost: tell, and see that nothing of it stays behind. */
void hf_keeper_lose(struct hf_client *client, struct hf_hold *hold, int cause);
/* Release in the background what was given up, until it could not matter. */
void hf_keeper_undo(struct hf_client *client, struct hf_hold *hold, const hf_op *op);

/* hf_kick() in the background. */
void hf_keeper_kick(struct hf_client *client, hf_names *names);
/* Give somebody else's lock without an end one, as the waiter's lock asks for. */
void hf_keeper_heal(struct hf_client *client, const struct hf_hold *hold);

/* Put it where it is read, if anybody listens, in the news kept for it. */
void hf_tell(struct hf_client *client, hf_news **kept, const hf_completion *completion);

/* ----------------------------------------------------- Links (link.c) */

/* Send soon, and call done with what came of it. Takes the task over. */
hf_task *hf_task_new(void (*done)(struct hf_client *, hf_task *, hf_status, const redisReply *));
void hf_task_submit(struct hf_client *client, hf_task *task, int64_t give_up_at);
/* After hf_keeper_join(): take what was not answered. Each is to be freed. */
hf_task *hf_tasks_take(struct hf_client *client);
void hf_task_free(hf_task *task);

/* Send, receive and reconnect what can be without waiting; and when to look next. */
void hf_link_drive(struct hf_client *client, hf_link *link, int64_t now);
int64_t hf_link_wake(const struct hf_client *client, const hf_link *link);
/* Read what came in on its channels. HF_OK, or that connection is lost. */
hf_status hf_link_listen(struct hf_client *client, hf_link *link);
void hf_link_deaf(struct hf_client *client, hf_link *link);
/* Close all connections. */
void hf_links_close(struct hf_client *client);
void hf_links_free(struct hf_client *client);

/* The link to that node, or NULL. */
hf_link *hf_link_find(struct hf_client *client, int node);
/* Slots may be served by others now: take what waits there. */
void hf_links_follow(struct hf_client *client, int64_t now);

/* The name of the channel for the grants of that lock. */
void hf_channel_name(const struct hf_client *client, const hf_names *names, hf_bytes *name);
/* The channel, made if there is none; NULL: no memory. */
hf_channel *hf_channel_get(struct hf_client *client, const hf_names *names);
/* Nobody waits on it any more. */
void hf_channel_leave(struct hf_client *client, hf_channel *channel);
/* See that it is subscribed to, where that is of use. */
void hf_channel_want(struct hf_client *client, hf_channel *channel);
/* Do grants come in on it, or on that of the lock? */
bool hf_channel_works(const hf_channel *channel);
bool hf_grants_come(struct hf_client *client, const hf_names *names);

/* ------------------------------------------------- Waiting (waiting.c) */

hf_op *hf_op_new(struct hf_client *client, struct hf_hold *hold, int64_t timeout_ms, int64_t until,
                 bool thread);
void hf_op_free(struct hf_client *client, hf_op *op);
bool hf_op_enter(struct hf_client *client, hf_op *op); /* false: no memory */
void hf_op_leave(struct hf_client *client, hf_op *op);
/* Its id is spent: give it a new one, with its old place. */
hf_status hf_op_renew_id(struct hf_client *client, hf_op *op);
hf_op *hf_op_find(struct hf_client *client, const char *id);
/* It holds the lock, until the deadline. */
void hf_op_deliver(struct hf_client *client, hf_op *op, int64_t fence, int64_t deadline,
                   bool pushed);
void hf_op_finish(struct hf_client *client, hf_op *op, hf_status status);
/* Its completion; the op is freed. `replicas` for HF_EREPLICAS. */
void hf_op_tell(struct hf_client *client, hf_op *op, hf_status status, int64_t replicas);
/* What acquire answered for it, from a server with a link or NULL. rank and TTL say when to
 * ask again. */
void hf_op_answer(struct hf_client *client, hf_link *from, hf_op *op, const int64_t *numbers,
                  const int64_t *mine, int64_t sent_at);
/* The member of the queue that stands for it. */
void hf_op_member(const hf_op *op, hf_bytes *member);

/* Ask once, without queueing. False: no memory. */
bool hf_op_try(struct hf_client *client, hf_op *op);

/* A grant to this client ran out unclaimed. Who found that took the client's others
 * out of this queue too: they ask again, for their places. */
void hf_list_recheck(struct hf_client *client, const hf_names *names);
/* The state of the channel has changed: who waits for it is to look, or to ask again. */
void hf_channel_notify(struct hf_client *client, const hf_channel *channel);
/* A grant has come in. */
void hf_grant(struct hf_client *client, const hf_link *link, const char *text);
/* Who has no place in the queue yet is not to wait for a server for ever. */
void hf_channel_give_up(struct hf_client *client, const hf_channel *channel, int64_t now);
void hf_ops_notify(struct hf_client *client, const hf_link *link);
/* The channel is another link's now: so are those who wait on it. */
void hf_channel_ops_move(struct hf_client *client, const hf_channel *channel, hf_link *from);
/* A thread waits for its op, reading the subscription itself if nobody else does,
 * until it is done or should ask (again). Let the mutex go with the function
 * below afterwards: the thread may have to tell others of what it read. */
hf_status hf_op_wait(struct hf_client *client, hf_op *op, bool ask, bool interruptible);
/* Let the mutex go, and only then wake whom the reading was for. */
void hf_unlock_and_tell(struct hf_client *client);

#endif
