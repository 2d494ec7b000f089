#include "net/link.h"

#include <stdlib.h>
#include <string.h>

#include "base/simulated.h"
#include "net/member.h"
#include "net/pool.h"
#include "protocol/errors.h"

/* How long the keeper waits for a connection that calls use, if two usual answers take less. */
#define SHORT_MS 50
/* The most requests without an answer. With more of them, the last answer would take longer than
 * one answer may, and the connection would be given up and all requests sent again. */
#define UNANSWERED_MAX 256
/* How soon a task without room for its copy is tried again. */
#define NO_ROOM_MS 100

#define TASK_OF(at) HF_OF(hf_task, item, at)

hf_link *hf_link_find(const hf_links *links, int node) {
    HF_EACH(at, &links->all) {
        hf_link *link = HF_OF(hf_link, item, at);
        if (link->node == node)
            return link;
    }
    return NULL;
}

static hf_link *link_to(hf_links *links, int node) {
    hf_link *link = hf_link_find(links, node);
    if (link != NULL)
        return link;
    link = calloc(1, sizeof *link);
    if (link == NULL || !hf_timer_reserve(links->timers)) {
        free(link);
        return &links->first;
    }
    link->node = node;
    link->version = hf_discovery_version(links->discovery, node);
    link->overdue_at = link->silent_at = HF_NO_DEADLINE;
    hf_list_add_last(&links->all, &link->item);
    return link;
}

hf_link *hf_link_of(hf_links *links, unsigned slot) {
    return link_to(links, hf_discovery_node(links->discovery, slot));
}

void hf_link_pair(hf_link *link, int64_t sent_at, int64_t server_us) {
    /* An answer that took long dates nothing: this process may have stood still before the send. */
    if (sent_at <= link->pair_sent || hf_now() >= hf_after(sent_at, HF_TRIP_MAX_MS))
        return;
    link->pair_sent = sent_at;
    link->pair_server = server_us;
}

/* ---------------------------------------------------------------- Tasks */

hf_task *hf_task_new(size_t size, hf_names *names,
                     void (*done)(hf_task *, hf_status, const redisReply *),
                     void (*drop)(hf_task *)) {
    hf_task *task = calloc(1, size);
    if (task == NULL)
        return NULL;
    task->names = names != NULL ? hf_names_keep(names) : NULL;
    task->done = done;
    task->drop = drop;
    hf_bytes_init(&task->request.encoded);
    return task;
}

void hf_task_unask(hf_task *task) {
    if (task->refusal == NULL)
        return;
    free(task->refusal);
    task->refusal = NULL;
    hf_request_free(&task->request);
    hf_request_move(&task->request, &task->refused);
}

void hf_task_free(hf_task *task) {
    hf_list_remove(&task->item);
    hf_task_unask(task);
    if (task->drop != NULL)
        task->drop(task);
    hf_request_free(&task->request);
    hf_names_drop(task->names);
    free(task);
}

/* Call done. A task that asked for the missing permissions ends with the refusal, and its message
 * names them. */
static void call_done(hf_task *task, hf_status status, const redisReply *reply) {
    if (task->done == NULL)
        return;
    if (task->refusal != NULL) {
        hf_transport_refusal(task->refusal, &task->request, status == HF_OK ? reply : NULL);
        hf_task_unask(task);
        status = task->status;
        reply = NULL;
    }
    task->done(task, status, reply);
}

void hf_task_end(hf_task *task, hf_status status, const redisReply *reply) {
    call_done(task, status, reply);
    hf_task_free(task);
}

/* Choose the link to the server that serves the task now. */
static hf_list *route(hf_task *task) {
    if (task->course.asking)
        task->link = link_to(task->links, task->course.node);
    else if (!task->pinned)
        task->link = hf_link_of(task->links, task->request.slot);
    task->link->overdue_at = hf_earlier(task->link->overdue_at, task->give_up_at);
    return &task->link->waiting;
}

static void put_last(hf_task *task) { hf_list_add_last(route(task), &task->item); }

void hf_task_submit(hf_links *links, hf_task *task, int64_t give_up_at) {
    task->links = links;
    if (links->closed) {
        hf_task_end(task, hf_fail(HF_ECLOSED, "the client is closed"), NULL);
        return;
    }
    task->submitted_at = hf_now();
    task->give_up_at = give_up_at;
    if (task->urgent)
        hf_list_add_first(route(task), &task->item);
    else
        put_last(task);
    links->listener->wake(links);
}

void hf_link_sort_again(hf_link *link) {
    hf_list all = {0};
    hf_list_move(&link->waiting, &all);
    for (hf_item *at; (at = hf_list_take_first(&all)) != NULL;) {
        TASK_OF(at)->course.asking = false;
        put_last(TASK_OF(at));
    }
}

void hf_link_send_delayed(hf_links *links, int64_t now) {
    HF_EACH(at, &links->delayed) {
        if (now < TASK_OF(at)->retry_at)
            continue;
        hf_list_remove(at);
        put_last(TASK_OF(at));
    }
}

/* Ask which permission is missing for a refused task. False: the task ends without asking. */
static bool ask_why(hf_task *task, hf_status status) {
    hf_request question;
    if (task->done == NULL || task->refusal != NULL)
        return false;
    task->refusal = strdup(hf_error_message());
    if (task->refusal == NULL)
        return false;
    hf_request_permissions(&question, &task->request);
    hf_request_move(&task->refused, &task->request);
    hf_request_move(&task->request, &question);
    task->course = (hf_course){.doubtful = task->course.doubtful};
    task->status = status;
    hf_list_add_first(route(task), &task->item);
    return true;
}

/* Call done, which may make another request for the task. */
static void end_task(hf_task *task, hf_status status, const redisReply *reply) {
    call_done(task, status, reply);
    bool unclear = task->unclear, again = task->again;
    task->unclear = task->again = false;
    if (again) {
        task->course = (hf_course){.doubtful = task->course.doubtful};
        hf_list_add_first(route(task), &task->item);
    } else if (!unclear)
        hf_task_free(task);
    else if (!ask_why(task, HF_ESERVER))
        hf_task_end(task, HF_ESERVER, NULL);
}

static void fail_task(hf_task *task, hf_status status) {
    bool refused = status == HF_ESERVER && hf_error_permission(hf_error_message());
    if (task->course.doubtful)
        status = hf_transport_unknown(task->links->transport);
    if (!refused || !task->explains || !ask_why(task, status))
        end_task(task, status, NULL);
}

static void tell_tried(hf_task *task, hf_status status) {
    if (task->tried != NULL && task->refusal == NULL)
        task->tried(task, status);
}

/* Take the next step of a task without a valid answer. True: leave the server. */
static bool go_on(hf_task *task, hf_outcome *outcome, hf_status status) {
    hf_links *links = task->links;
    outcome->clustered = hf_discovery_clustered(links->discovery);
    outcome->pinned = task->pinned;
    outcome->deadline = task->give_up_at;
    hf_step step = hf_course_next(&task->course, outcome);
    if (step.look)
        hf_discovery_look(links->discovery);
    if (step.what == HF_STEP_FAIL) {
        fail_task(task, hf_transport_ended(links->transport, &step, task->request.slot, status));
    } else if ((step.what == HF_STEP_ALONE && hf_request_alone(&task->request)) ||
               step.pause_ms == 0) {
        hf_list_add_first(route(task), &task->item); /* before later requests */
    } else {
        if (outcome->after != HF_AFTER_SILENCE)
            tell_tried(task, status);
        task->retry_at = hf_after(outcome->now, hf_spread(step.pause_ms));
        hf_list_add_last(&links->delayed, &task->item);
    }
    return step.leave;
}

/* Return the connection to the pool. */
static void end_loan(hf_links *links, hf_link *link, bool good, int64_t now) {
    if (link->commands == NULL)
        return;
    link->left_at = link->commands->used_at = now;
    hf_pool_give(links->transport->pool, link->commands, good);
    link->commands = NULL;
}

/* Stop waiting for a connection of the pool. */
static void forgo(hf_links *links, hf_link *link) {
    if (link->short_since == 0)
        return;
    link->short_since = 0;
    hf_pool_forgo(links->transport->pool, link->node);
}

void hf_link_close_requests(hf_links *links, hf_link *link) {
    end_loan(links, link, link->sent.first == NULL, hf_now());
    forgo(links, link);
    if (link->dial == NULL)
        return;
    hf_dial_drop(link->dial);
    link->dial = NULL;
    link->tries.began = 0;
    hf_pool_opened(links->transport->pool, link->node, NULL, HF_OK);
}

void hf_link_lose_requests(hf_links *links, hf_link *link, int64_t now) {
    hf_list lost = {0};
    end_loan(links, link, false, now);
    link->asked_first = false;
    link->pair_sent = 0;
    hf_list_move(&link->sent, &lost);
    while (lost.last != NULL) { /* backwards, because each goes to the front */
        hf_task *task = TASK_OF(lost.last);
        hf_outcome outcome = {.after = HF_AFTER_SILENCE, .to = -1, .now = now};
        hf_list_remove(&task->item);
        hf_fail(HF_ECONNECT, "%s cannot be reached", links->transport->shown);
        go_on(task, &outcome, HF_EUNKNOWN);
    }
    hf_link_sort_again(link);
}

/* Plan the next try to open a connection. */
static void try_later(hf_links *links, hf_link *link, int64_t now) {
    hf_discovery_look(links->discovery); /* its slots may have moved */
    hf_try_later(&link->tries, now);
}

/* Give the connection up, and plan the next try to open one. */
static void fail_connection(hf_links *links, hf_link *link, int64_t now) {
    hf_link_lose_requests(links, link, now);
    hf_pool_drop(links->transport->pool, link->node); /* the idle connections may be dead, too */
    try_later(links, link, now);
}

hf_status hf_link_explain(const hf_links *links, const hf_link *link) {
    if (link->failure == HF_OK)
        return hf_fail(HF_ECONNECT, "%s cannot be reached", links->transport->shown);
    hf_error_set(&link->why);
    return link->failure;
}

bool hf_link_is_unsent(const hf_link *link, int64_t since) {
    return link->commands == NULL && link->left_at < since;
}

/* Return the status of a task whose time is over. */
static hf_status explain_given_up(const hf_task *task) {
    hf_status status = hf_link_explain(task->links, task->link);
    return task->course.doubtful ? hf_transport_unknown(task->links->transport) : status;
}

/* Return when the task is given up. Until an answer arrives, the number of answers before its own
 * is not known. */
static int64_t gives_up_at(const hf_task *task) {
    int64_t later = hf_after(task->link->answered_at, task->links->transport->connect_ms);
    return task->patient && later > task->give_up_at ? later : task->give_up_at;
}

/* End the sent tasks whose time is over. Each keeps its place until its answer arrives, and the
 * server may still carry it out. */
static void give_up_sent(hf_link *link, int64_t now) {
    HF_EACH(at, &link->sent) {
        hf_task *task = TASK_OF(at);
        int64_t until = gives_up_at(task);
        if (now >= until) {
            HF_MARK("H39");
            task->course.doubtful = true;
            call_done(task, explain_given_up(task), NULL);
            task->done = NULL;
            task->given_up = true;
        } else if (task->done != NULL) {
            link->overdue_at = hf_earlier(link->overdue_at, until);
        }
    }
}

/* Give a task whose time is over half of the time to connect, once: this thread stood still, or was
 * busy, and the server may be well. */
static void grant_respite(hf_task *task, int64_t now) {
    if (task->respited || now < gives_up_at(task))
        return;
    task->respited = true;
    task->give_up_at = hf_after(now, task->links->transport->connect_ms / 2);
}

static void give_up_old(hf_link *link, int64_t now) {
    hf_list old = {0};
    if (now < link->overdue_at)
        return;
    link->overdue_at = HF_NO_DEADLINE;
    HF_EACH(at, &link->waiting) {
        hf_task *task = TASK_OF(at);
        if (task->submitted_at > link->driven_at && task->submitted_at < task->give_up_at)
            grant_respite(task, now); /* it is looked at for the first time */
        int64_t until = gives_up_at(task);
        if (now < until) {
            link->overdue_at = hf_earlier(link->overdue_at, until);
            continue;
        }
        hf_list_remove(at);
        hf_list_add_last(&old, at);
    }
    give_up_sent(link, now);
    for (hf_item *at; (at = hf_list_take_first(&old)) != NULL;)
        end_task(TASK_OF(at), explain_given_up(TASK_OF(at)), NULL);
}

/* Return the deadline for the answer to a sent task. */
static int64_t answer_by(const hf_task *task) {
    int64_t most = hf_after(task->written_at, task->links->transport->command_ms);
    int64_t usual = 2 * task->link->trip_ms + 1;
    if (task->answer_ms == 0)
        return most;
    return hf_earlier(most, hf_after(task->written_at, hf_later(task->answer_ms, usual)));
}

static bool may_send(const hf_link *link) {
    return link->waiting.first != NULL && link->sent.count < UNANSWERED_MAX && !link->yields;
}

/* Send the tasks that may be sent. A task without room for its copy waits, and stops no other. */
static void send_waiting(hf_link *link, int64_t now) {
    hf_texts texts = {.count = 0};
    while (may_send(link)) {
        hf_task *task = TASK_OF(hf_list_take_first(&link->waiting));
        if (task->request.encoded.failed) {
            hf_task_end(task, hf_fail(HF_ENOMEM, "no memory"), NULL);
            continue;
        }
        if (task->over != NULL && task->over(task)) {
            hf_task_end(task, HF_ECANCELED, NULL);
            continue;
        }
        if (task->course.whole) /* otherwise the text in an earlier write may not have been read */
            task->course.whole = hf_texts_miss(&texts, task->request.script);
        if (!hf_connection_append(link->commands, &task->request,
                                  (task->course.whole ? HF_WHOLE : 0) |
                                      (task->course.asking ? HF_ASKING : 0))) {
            tell_tried(task, hf_fail(HF_ENOMEM, "no memory"));
            task->retry_at = hf_after(now, NO_ROOM_MS);
            hf_list_add_last(&task->links->delayed, &task->item);
            continue;
        }
        task->sent_at = task->written_at = now;
        hf_list_add_last(&link->sent, &task->item);
        link->silent_at = hf_earlier(link->silent_at, answer_by(task));
    }
}

/* Have the times of the tasks that were sent since then begin now: this thread stood still
 * meanwhile. */
static void begin_times_again(hf_link *link, int64_t since, int64_t now) {
    link->silent_at = HF_NO_DEADLINE;
    HF_EACH(at, &link->sent) {
        hf_task *task = TASK_OF(at);
        if (task->sent_at >= since && !task->given_up) {
            task->written_at = now;
            if (task->answer_ms > 0) /* leave time for another try */
                task->answer_ms =
                    hf_earlier(task->answer_ms, hf_until(task->give_up_at, now) / 2 + 1);
            grant_respite(task, now);
        }
        link->silent_at = hf_earlier(link->silent_at, answer_by(task));
    }
}

/* Take an error. False: the connection is useless now. */
static bool take_error(hf_task *task, const redisReply *reply, int64_t now) {
    hf_transport *transport = task->links->transport;
    hf_outcome outcome = {.to = -1,
                          .insists = task->insists && (task->insists_if_forbidden ||
                                                       !hf_error_permission(reply->str)),
                          .now = now};
    hf_status status =
        hf_transport_read_error(transport, transport->shown, task->link->node, reply, &outcome);
    return !go_on(task, &outcome, status);
}

/* Take an answer. False: the connection is useless now. */
static bool take_answer(hf_link *link, redisReply *reply, int64_t now) {
    if (link->sent.first == NULL)
        return false;
    if (TASK_OF(link->sent.first)->course.asking && !link->asked_first) {
        link->asked_first = true; /* this answers ASKING */
        return true;
    }
    link->asked_first = false;
    hf_task *task = TASK_OF(hf_list_take_first(&link->sent));
    if (link->dial == NULL && link->tries.began != 0) /* on the keeper's own connection */
        link->tries = (hf_tries){0};
    link->trip_ms = hf_earlier((now - task->sent_at) / HF_MS, HF_TRIP_MAX_MS);
    if (reply->type == REDIS_REPLY_ERROR)
        return take_error(task, reply, now);
    link->answered_at = now;
    link->failure = HF_OK;
    end_task(task, HF_OK, reply);
    return true;
}

void hf_link_failed(hf_link *link, hf_status status) {
    link->failure = status;
    link->why = *hf_error_last();
}

/* Report to all waiting tasks that the dial for them failed. Waiting does not make a wrong password
 * right. */
static void tell_waiting(hf_links *links, hf_link *link) {
    hf_list all = {0};
    hf_list_move(&link->waiting, &all);
    for (hf_item *at; (at = hf_list_take_first(&all)) != NULL;) {
        hf_task *task = TASK_OF(at);
        task->course.redirections = 0;
        tell_tried(task, hf_link_explain(links, link));
        if (link->failure == HF_ECONNECT || task->insists || task->course.doubtful)
            hf_list_add_last(&link->waiting, at);
        else
            end_task(task, hf_link_explain(links, link), NULL);
    }
}

/* Follow a dial of which no connection came, for the reason in this thread's message. `open`:
 * another connection will be free. */
static void dial_failed(hf_links *links, hf_link *link, hf_status status, bool open, int64_t now) {
    if (!open) {
        hf_link_failed(link, status);
        tell_waiting(links, link);
    }
    hf_link_sort_again(link);
    try_later(links, link, now);
}

/* Check the dial. A dial that fails closes nothing: the idle connections were returned after it
 * began, by calls that got answers. */
static void take_dialled(hf_links *links, hf_link *link, int64_t now) {
    hf_connection *connection;
    hf_status status;
    if (link->dial == NULL || !hf_dial_take(link->dial, &connection, &status))
        return;
    link->dial = NULL;
    bool open = hf_pool_opened(links->transport->pool, link->node, connection, status);
    if (status == HF_OK) {
        link->failure = HF_OK;
        link->listens.at = 0; /* the server is there, for channels too */
    } else {
        dial_failed(links, link, status, open, now);
    }
    if (link->commands == NULL)
        link->commands = connection;
    else if (connection != NULL)
        hf_pool_give(links->transport->pool, connection, true);
}

/* Return when the keeper must have a connection at the latest. */
static int64_t patience(const hf_link *link) {
    return hf_after(link->short_since, hf_later(2 * link->trip_ms + 1, SHORT_MS));
}

/* Take one of the pool's connections, or a new one. The pool's calls end soon, so waiting pays; but
 * not for long, because a connection may be dead. While no connection can be opened, the next one
 * that is returned serves as well. */
static void borrow(hf_links *links, hf_link *link, int64_t now) {
    hf_pool *pool = links->transport->pool;
    int opens = link->dial != NULL || now < link->tries.at                    ? HF_OPENS_NONE
                : link->short_since > link->tries.at && now >= patience(link) ? HF_OPENS_MORE
                                                                              : HF_OPENS;
    int lent = hf_pool_lend(pool, link->node, opens, now, &link->commands);
    if (lent == HF_LENT)
        link->short_since = 0;
    else if (link->short_since <= link->tries.at)
        link->short_since = now;
    if (lent != HF_OPEN)
        return;
    link->dial = hf_dial_start(links->transport, link->node);
    link->tries.began = now;
    if (link->dial != NULL)
        return;
    /* Calls that wait for a connection open one themselves, without a thread. */
    bool open = hf_pool_opened(pool, link->node, NULL, HF_OK);
    dial_failed(links, link, hf_fail(HF_ENOMEM, "no memory or no thread"), open, now);
}

/* Borrow a connection, if there are tasks to send. False: there is no connection yet. */
static bool have_connection(hf_links *links, hf_link *link, int64_t now) {
    if (link->commands == NULL && link->waiting.first != NULL)
        borrow(links, link, now);
    take_dialled(links, link, now);
    if (link->commands != NULL || link->waiting.first == NULL)
        forgo(links, link);
    return link->commands != NULL;
}

/* Return whether no answer is overdue, and report the tasks with overdue answers. A later task may
 * have less time than the oldest. */
static bool is_answered(const hf_links *links, hf_link *link, int64_t now) {
    if (now < link->silent_at)
        return true;
    link->silent_at = HF_NO_DEADLINE;
    HF_EACH(at, &link->sent) {
        int64_t by = answer_by(TASK_OF(at));
        link->silent_at = hf_earlier(link->silent_at, by);
        if (now >= by)
            tell_tried(TASK_OF(at),
                       hf_fail(HF_ECONNECT, "%s does not answer", links->transport->shown));
    }
    return now < link->silent_at;
}

/* Send and receive. False: the connection is useless now. */
static bool exchange(hf_links *links, hf_link *link, int64_t now) {
    if (hf_connection_drive(link->commands) != HF_OK)
        return false;
    for (;;) {
        redisReply *reply;
        if (hf_connection_next(link->commands, &reply) != HF_OK)
            return false;
        if (reply == NULL)
            return true;
        bool good =
            hf_discovery_current(links->discovery, link->commands) && take_answer(link, reply, now);
        freeReplyObject(reply);
        if (!good)
            return false;
    }
}

void hf_link_drive_requests(hf_links *links, hf_link *link, int64_t now) {
    bool late = now >= link->silent_at || now >= link->overdue_at, good = true;
    /* Overdue answers may have arrived, and take several reads: this thread may have been late. */
    for (late = late && link->commands != NULL; late && good;
         late = hf_connection_stale(link->commands))
        good = exchange(links, link, now);
    give_up_old(link, now);
    link->driven_at = now;
    if (!have_connection(links, link, now))
        return;
    bool rests = link->sent.first == NULL && link->waiting.first == NULL;
    link->yields = link->sent.first != NULL && link->waiting.first != NULL &&
                   hf_pool_waits(links->transport->pool, link->node);
    bool answered = is_answered(links, link, now);
    good = good && answered && hf_discovery_current(links->discovery, link->commands) &&
           !(rests && HF_UNUSUAL("the keeper closes a good connection"));
    int64_t looked_at = now;
    now = hf_now(); /* the time of the answers begins now, though this thread was late */
    do {
        if (good)
            send_waiting(link, now);
        good = good && exchange(links, link, now);
    } while (good && may_send(link));
    int64_t written_at = hf_now();
    if (written_at >= hf_after(looked_at, HF_STILL_MS))
        begin_times_again(link, now, written_at);
    if (!good)
        fail_connection(links, link, now);
    else if (link->sent.first == NULL)
        end_loan(links, link, true, now);
    if (link->commands == NULL && link->waiting.first != NULL) {
        link->yields = false;
        borrow(links, link, now); /* the next one that is returned is for the rest */
    }
}

int64_t hf_link_requests_due(const hf_link *link) {
    int64_t due = link->overdue_at;
    if (link->commands == NULL && link->dial == NULL && link->waiting.first != NULL)
        due = hf_earlier(due, link->short_since > link->tries.at ? patience(link) : link->tries.at);
    if (link->commands != NULL && may_send(link))
        due = 0; /* another link has moved the task here, after this link was driven */
    if (link->sent.first != NULL)
        due = hf_earlier(due, link->silent_at);
    return due;
}
