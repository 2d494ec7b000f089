/*
 * Links: the connections that one thread drives without ever blocking, two to each server: one for
 * requests, here, and one for channels (channel.h), which a waiting thread may read too
 * (hf_link_listen()). The caller holds the mutex of their owner, which also decides when to drive
 * them, by hf_links_drive() (links.h).
 *
 * A link knows requests, answers and a listener. It does not know for which op a grant is.
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

/* One request, from its creation until its answer: the first member of a struct with the data of
 * its kind. */
typedef struct hf_task {
    hf_item item;
    hf_links *links;      /* set by hf_task_submit() */
    struct hf_link *link; /* the link on which it waits, or was sent */
    hf_names *names;      /* of the lock; or NULL */
    hf_request request;
    hf_course course;
    bool pinned;  /* it stays on its link, whichever node serves the slot */
    bool insists; /* after a refusal that may pass (a full disk) it is sent again, until it is given
                   * up */
    bool insists_if_forbidden; /* also after a refusal for want of a permission */
    bool explains; /* if refused for a permission, it asks which one is missing before it ends */
    bool unclear;  /* set by done: the answer is a refusal, in this thread's message. Done is called
                    * again, with HF_ESERVER and the missing permission in the message */
    bool again;    /* set by done: it has another request now, which is sent, too */
    hf_status status;   /* while it asks for the missing permission: its final status */
    char *refusal;      /* while it asks: the text of the refusal; or NULL */
    hf_request refused; /* while it asks: the refused request, which the question replaces */
    int64_t retry_at;   /* while it is delayed */
    int64_t submitted_at, sent_at, give_up_at;
    int64_t written_at; /* when the time for its answer began: as sent_at, or later */
    bool urgent;        /* it is sent before other waiting tasks */
    bool given_up;      /* after it was sent: its answer is still expected */
    bool respited;      /* it was given more time, after a stall */
    bool patient;       /* it is given up at the earliest connect_timeout after the last answer */
    int64_t answer_ms;  /* how long its answer may take; 0: as long as for any command */
    /* Called once, except for `unclear`, with the mutex held; or NULL. The reply belongs to the
     * link, is not an error, and is there only with HF_OK; otherwise the thread's message has the
     * reason. Then the task is freed, except a task that was sent and given up: it keeps its place
     * until its answer arrives. */
    void (*done)(struct hf_task *task, hf_status status, const redisReply *reply);
    /* Called when a try has failed, for the reason in this thread's message, and another follows.
     * Or NULL. */
    void (*tried)(struct hf_task *task, hf_status status);
    void (*drop)(struct hf_task *task); /* frees the data of its kind; or NULL */
    /* Returns whether the answer is useless now: then the task is not sent (again). Or NULL. */
    bool (*over)(const struct hf_task *task);
} hf_task;

/* The callbacks for a link's events, with the mutex held. */
typedef struct hf_listener {
    /* There is work for the driving thread. */
    void (*wake)(hf_links *links);
    void (*granted)(hf_links *links, struct hf_link *link, const hf_grant *grant);
    /* A result is there for the waiters of that hold id's lock. */
    void (*finished)(hf_links *links, const char *id);
    /* The channel has its subscription, or the link's mode has changed: its waiters look again. */
    void (*changed)(hf_links *links, struct hf_channel *channel);
    /* Another try to subscribe has failed; hf_link_explain() has the reason. hopeless: waiting does
     * not help. */
    void (*silent)(hf_links *links, struct hf_channel *channel, int64_t now, bool hopeless);
    /* The subscription is closed: no thread can read it. */
    void (*deaf)(hf_links *links, struct hf_link *link);
    /* The channel has moved to another link. */
    void (*moved)(hf_links *links, struct hf_channel *channel, struct hf_link *from);
    /* A slot has another node than before, or a node is another server. */
    void (*replaced)(hf_links *links);
} hf_listener;

/* Whether grants arrive from the server, as the self-test shows: a message that the client sends to
 * itself. */
typedef enum {
    HF_UNTESTED, /* not known yet */
    HF_TESTING,
    HF_GRANTS, /* grants arrive */
    HF_POLLING /* grants do not arrive; tested again at retest_at */
} hf_link_mode;

/* What is known of one server. */
typedef struct hf_link {
    hf_item item;     /* in links->all */
    int node;         /* the discovery's number of the server */
    unsigned version; /* of that node, at the last look */

    /* Requests: link.c. */
    hf_connection *commands; /* borrowed from the pool, while tasks need it */
    hf_dial *dial;           /* the dial for `commands` */
    int64_t short_since;     /* since then the pool keeps the next returned connection for this
                              * link; or 0 */
    hf_list waiting, sent;   /* tasks */
    bool yields;             /* calls wait for `commands`: nothing more is sent on it */
    hf_tries tries;          /* to open a connection */
    int64_t overdue_at;      /* no task here is given up before then */
    int64_t driven_at;       /* when the tasks were last looked at */
    int64_t silent_at;       /* no answer to a sent task is due before then */
    bool asked_first;        /* ASKING is answered, but not yet the request that follows it */
    int64_t left_at;         /* when the last connection was lost or given back */
    int64_t answered_at;     /* when the last answer that was no error arrived */
    hf_status failure;       /* why the last dial failed, with the message in `why` */
    hf_error why;
    int64_t trip_ms;                /* the duration of the last answer */
    int64_t pair_sent, pair_server; /* the send time of a request, and the server's time (us) in its
                                     * answer; 0: not known */

    /* Channels: channel.c. */
    hf_connection *subscription;
    hf_dial *subscription_dial;
    hf_list asked, unasked;    /* the channels with a request to subscribe, and those without */
    size_t wanted, subscribed; /* how many channels are wanted; how many are subscribed to */
    hf_link_mode mode;
    int64_t retest_at, retest_ms; /* while grants do not work: when to test again */
    hf_tries listens;             /* tries to subscribe */
    int64_t pinged_at, heard_at, tested_at;
    bool test_heard;  /* the server has published the test's message */
    int tests_failed; /* in a row */

    /* The waiters, and the thread that reads, written by the listener. A link with waiters is kept,
     * and the driving thread does not read while there is a reader. */
    hf_list threads; /* the threads that wait here */
    hf_item *reader; /* the waiting thread that reads the subscription; or NULL */
    size_t others;   /* ops that wait here without a thread */
    bool watching;   /* the driving thread polls the subscription, to read it */
    hf_timer unread; /* until it fires, the driving thread reads only for waiters */
} hf_link;

struct hf_links {
    hf_transport *transport;
    hf_discovery *discovery; /* the transport's */
    const hf_listener *listener;
    hf_timers *timers;
    const char *client_id;
    hf_list all;
    hf_link first;          /* the first link; the links to other nodes of a cluster come and go */
    unsigned change;        /* the discovery's, when tasks and channels were last sorted */
    hf_list delayed;        /* tasks to be sent again at their time, to whichever server then serves
                             * them */
    bool closed;            /* no task is accepted */
    struct hf_channel *own; /* for a single server, from its first use */
    hf_index channels;      /* all channels */
};

/* Return the link to that node, or NULL. */
hf_link *hf_link_find(const hf_links *links, int node);
/* Return the link to the node of that slot, made if it does not exist. Without memory: the first
 * link, whose server redirects the request. */
hf_link *hf_link_of(hf_links *links, unsigned slot);
/* Note the server's clock at an answer. */
void hf_link_pair(hf_link *link, int64_t sent_at, int64_t server_us);

/* Make a task of that size, all zeros except for these arguments; it keeps the names, or NULL.
 * NULL: no memory. */
hf_task *hf_task_new(size_t size, hf_names *names,
                     void (*done)(hf_task *, hf_status, const redisReply *),
                     void (*drop)(hf_task *));
void hf_task_free(hf_task *task);
/* End the request for the missing permission, if there is one, and restore the refused
 * request. */
void hf_task_unask(hf_task *task);
/* Return the status of the last dial, which is why the server was not asked; sets this thread's
 * message. */
hf_status hf_link_explain(const hf_links *links, const hf_link *link);
/* Note why the link's dial failed, with this thread's message. */
void hf_link_failed(hf_link *link, hf_status status);
/* Return whether nothing has been sent since then. */
bool hf_link_is_unsent(const hf_link *link, int64_t since);
/* Call done, and free the task. */
void hf_task_end(hf_task *task, hf_status status, const redisReply *reply);
/* Send the task soon, and call done with the outcome: at once, if the links are closed. Takes the
 * task over. */
void hf_task_submit(hf_links *links, hf_task *task, int64_t give_up_at);

/* Send, receive and reconnect as far as possible without waiting. */
void hf_link_drive_requests(hf_links *links, hf_link *link, int64_t now);
/* Close the connection for requests. The sent tasks get no answer: their course decides whether
 * they are sent again. */
void hf_link_lose_requests(hf_links *links, hf_link *link, int64_t now);
/* Close the connection for requests, and abandon its dial, without telling the tasks. */
void hf_link_close_requests(hf_links *links, hf_link *link);
/* Return when the link must be driven next for its requests. */
int64_t hf_link_requests_due(const hf_link *link);
/* Move all waiting tasks to the servers of their slots: the server may be another, or serve other
 * slots. */
void hf_link_sort_again(hf_link *link);
/* Send the delayed tasks that are due. */
void hf_link_send_delayed(hf_links *links, int64_t now);

#endif
