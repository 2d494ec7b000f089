/*
 * Links: the connections that one thread drives without ever blocking, two to each
 * server: one for requests, here, and one for channels (channel.h), which a thread that
 * waits may read too (hf_link_listen()). The caller holds the mutex of their owner, which
 * also decides when to drive them. hf_links_drive() (links.h) is the way in.
 *
 * A link knows requests, answers and a listener. It does not know which op a grant is for.
 */
#ifndef HF_LINK_H
#define HF_LINK_H

#include "base/index.h"
#include "base/list.h"
#include "base/timer.h"
#include "net/connection.h"
#include "net/course.h"
#include "net/dial.h"
#include "net/transport.h"
#include "protocol/answers.h"
#include "protocol/requests.h"

struct hf_channel;
typedef struct hf_links hf_links;

/* One request, from when it is made until it is answered: the first member of a struct with
 * the data of its kind. */
typedef struct hf_task {
    hf_item item;
    hf_links *links;      /* from hf_task_submit() on */
    struct hf_link *link; /* that it waits on, or was sent on */
    hf_names *names;      /* of the lock; or NULL */
    hf_request request;
    hf_course course;
    bool pinned;  /* to its link, whichever node serves the slot */
    bool insists; /* a refusal that may pass (a full disk) is asked again, until it is given up */
    bool insists_if_forbidden; /* also for want of a permission */
    bool explains; /* refused for a permission, it asks which one is missing before it ends */
    bool unclear;  /* set by done: the answer is a refusal, in this thread's message. Done is called
                      again, with HF_ESERVER and the missing permission in the message */
    bool again;    /* set by done: its request is another one now, which is sent, too */
    hf_status status;   /* while it asks for the missing permission: its final status */
    char *refusal;      /* and the text; or NULL */
    hf_request refused; /* and the request, in the place of which the question is */
    int64_t retry_at;   /* while it is delayed */
    int64_t sent_at, give_up_at;
    bool urgent;       /* it is sent before the waiting tasks */
    bool given_up;     /* after it was sent: only its answer is awaited */
    bool patient;      /* it is given up no earlier than connect_timeout after the last answer */
    int64_t answer_ms; /* how long its answer may take; 0: as long as for any command */
    /* Called once, except for `unclear`, with the mutex held; or NULL. The reply is the link's,
     * no error, and there only with HF_OK; otherwise the thread's message explains. Then the
     * task is freed, except a task that was sent and given up: it keeps its place until its answer
     * arrives. */
    void (*done)(struct hf_task *task, hf_status status, const redisReply *reply);
    /* A try has failed, for the reason in this thread's message, and another follows. Or NULL. */
    void (*tried)(struct hf_task *task, hf_status status);
    void (*drop)(struct hf_task *task); /* frees the data of its kind; or NULL */
    /* Is the answer useless by now? Then the task is not sent (again). Or NULL. */
    bool (*over)(const struct hf_task *task);
} hf_task;

/* Told of a link's events, with the mutex held. */
typedef struct hf_listener {
    /* There is something to drive. */
    void (*wake)(hf_links *links);
    void (*granted)(hf_links *links, struct hf_link *link, const hf_grant *grant);
    /* There is a result for the waiters of that hold id's lock. */
    void (*finished)(hf_links *links, const char *id);
    /* The channel has its subscription, or the link's mode has changed: its waiters look again. */
    void (*changed)(hf_links *links, struct hf_channel *channel);
    /* Another try to subscribe has failed; hf_link_explain() has the reason. hopeless: waiting does
     * not help. */
    void (*silent)(hf_links *links, struct hf_channel *channel, int64_t now, bool hopeless);
    /* The subscription is closed: no thread can read it. */
    void (*deaf)(hf_links *links, struct hf_link *link);
    /* The channel is at another link now. */
    void (*moved)(hf_links *links, struct hf_channel *channel, struct hf_link *from);
    /* A slot has another node, or a node is another server, than before. */
    void (*replaced)(hf_links *links);
} hf_listener;

/* Do grants arrive from that server? The self-test shows it: a message that the client sends to
 * itself. */
typedef enum {
    HF_UNTESTED, /* it is not known yet */
    HF_TESTING,
    HF_GRANTS, /* they do */
    HF_POLLING /* they do not, until retest_at */
} hf_link_mode;

/* What is known of one server. */
typedef struct hf_link {
    hf_item item;     /* in links->all */
    int node;         /* the discovery's number of the server */
    unsigned version; /* of that node, when it was last looked at */

    /* Requests: link.c. */
    hf_connection *commands; /* the pool's, while something waits for it */
    hf_dial *dial;           /* to it */
    int64_t short_since;     /* since then the pool keeps the next that comes back for it; or 0 */
    hf_list waiting, sent;   /* tasks */
    bool yields;             /* calls wait for `commands`: no more is sent on it */
    hf_tries tries;          /* to open one */
    int64_t overdue_at;      /* no task here is given up before that */
    int64_t silent_at;       /* and none that was sent must be answered before that */
    bool asked_first;        /* ASKING is answered, but not yet what it stood before */
    int64_t left_at;         /* when the last connection was lost or given back */
    int64_t answered_at;     /* when the last answer came that was no error */
    hf_status failure;       /* why the last dial came to nothing, with the message */
    hf_error why;
    int64_t trip_ms;                /* how long the last answer took */
    int64_t pair_sent, pair_server; /* a request's send time, and the server's time (us) in its
                                     * answer; 0: not known */

    /* Channels: channel.c. */
    hf_connection *subscription;
    hf_dial *subscription_dial;
    hf_list asked, unasked;    /* the channels that it has, and the channels that it should have */
    size_t wanted, subscribed; /* how many of these */
    hf_link_mode mode;
    int64_t retest_at, retest_ms; /* while grants do not work: when that is tried again */
    hf_tries listens;             /* tries to subscribe */
    int64_t pinged_at, heard_at, tested_at;
    bool test_heard;  /* the server has published the message of the test */
    int tests_failed; /* one after the other */

    /* The waiters, and the thread that reads: written by the listener. A link with waiters is kept,
     * and the driving thread does not read if there is a reader. */
    hf_list threads; /* that wait here */
    hf_item *reader; /* the waiting thread that reads the subscription; or NULL */
    size_t others;   /* wait here without a thread */
    bool watching;   /* the driving thread polls it to read */
    hf_timer unread; /* until it fires, the driving thread reads only for waiters */
} hf_link;

struct hf_links {
    hf_transport *transport;
    hf_discovery *discovery; /* the transport's */
    const hf_listener *listener;
    hf_timers *timers;
    const char *client_id;
    hf_list all;
    hf_link first;          /* of all; the links to other nodes of a cluster come and go */
    unsigned change;        /* the discovery's, when tasks and channels were last sorted by it */
    hf_list delayed;        /* tasks to be sent again at their time, wherever that is then */
    bool closed;            /* no task is accepted */
    struct hf_channel *own; /* of a single server, from its first use on */
    hf_index channels;      /* all, by name */
};

/* The link to that node, or NULL. */
hf_link *hf_link_find(const hf_links *links, int node);
/* The link to the node of that slot, made if it does not exist. Without memory the
 * first link, whose server redirects the request. */
hf_link *hf_link_of(hf_links *links, unsigned slot);
/* Note the server's clock at an answer. */
void hf_link_pair(hf_link *link, int64_t sent_at, int64_t server_us);

/* A task of that size, all zeros but for these; it keeps the names, or NULL. NULL: no memory. */
hf_task *hf_task_new(size_t size, hf_names *names,
                     void (*done)(hf_task *, hf_status, const redisReply *),
                     void (*drop)(hf_task *));
void hf_task_free(hf_task *task);
/* End the request for the missing permission, if there is one, and restore the refused
 * request. */
void hf_task_unask(hf_task *task);
/* Why the server was not asked, for this thread's message: the status of the last dial. */
hf_status hf_link_explain(const hf_links *links, const hf_link *link);
/* Note why its dial failed, with this thread's message. */
void hf_link_failed(hf_link *link, hf_status status);
/* Has nothing been sent since then? */
bool hf_link_is_unsent(const hf_link *link, int64_t since);
/* Call done, and free it. */
void hf_task_end(hf_task *task, hf_status status, const redisReply *reply);
/* Send it soon, and call done with the outcome: at once, if the links are closed. Takes the
 * task over. */
void hf_task_submit(hf_links *links, hf_task *task, int64_t give_up_at);

/* Send, receive and reconnect as far as that needs no waiting. */
void hf_link_drive_requests(hf_links *links, hf_link *link, int64_t now);
/* Close the connection for requests. The sent ones get no answer: their course decides whether they
 * are sent again. */
void hf_link_lose_requests(hf_links *links, hf_link *link, int64_t now);
/* Close the connection for requests, and give up its dial, without a word to the tasks. */
void hf_link_close_requests(hf_links *links, hf_link *link);
/* When it must be driven next. */
int64_t hf_link_requests_due(const hf_link *link);
/* The server may be another, or serve other slots: all waiting tasks go to the server of their
 * slots. */
void hf_link_sort_again(hf_link *link);
/* Send the delayed tasks that are due. */
void hf_link_send_delayed(hf_links *links, int64_t now);

#endif
