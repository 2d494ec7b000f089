#include "net/link.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/errors.h"

/* How soon a refusal that may pass is asked again. */
#define INSIST_MS 200
/* Before a request is sent again that was not carried out. */
#define AGAIN_MS 20
/* Redirections of one request, one after the other; the later ones with a pause. */
#define REDIRECTIONS_MAX 16
#define REDIRECTIONS_AT_ONCE 3

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
    link->overdue_at = HF_NO_DEADLINE;
    hf_list_add_last(&links->all, &link->item);
    return link;
}

hf_link *hf_link_of(hf_links *links, unsigned slot) {
    return link_to(links, hf_transport_node(links->transport, slot));
}

void hf_link_warm(hf_links *links, unsigned slot) {
    hf_link *link = hf_link_of(links, slot);
    if (link->commands != NULL || link->warm)
        return;
    link->warm = true;
    links->listener->wake(links);
}

void hf_link_pair(hf_link *link, int64_t sent_at, int64_t server_us) {
    if (sent_at <= link->pair_sent)
        return;
    link->pair_sent = sent_at;
    link->pair_server = server_us;
}

/* ---------------------------------------------------------------- Tasks */

hf_task *hf_task_new(size_t size, void (*done)(hf_task *, hf_status, const redisReply *),
                     void (*drop)(hf_task *)) {
    hf_task *task = calloc(1, size);
    if (task == NULL)
        return NULL;
    task->done = done;
    task->drop = drop;
    hf_bytes_init(&task->request.encoded);
    return task;
}

void hf_task_free(hf_task *task) {
    hf_list_remove(&task->item);
    if (task->drop != NULL)
        task->drop(task);
    hf_request_free(&task->request);
    free(task);
}

void hf_task_end(hf_task *task, hf_status status, const redisReply *reply) {
    if (task->done != NULL)
        task->done(task, status, reply);
    hf_task_free(task);
}

/* To those that wait for the server that serves it now. */
static void put_last(hf_links *links, hf_task *task) {
    if (!task->pinned && !task->asking)
        task->link = hf_link_of(links, task->request.slot);
    task->link->overdue_at = hf_earlier(task->link->overdue_at, task->give_up_at);
    hf_list_add_last(&task->link->waiting, &task->item);
}

static void delay(hf_links *links, hf_task *task, int64_t until) {
    task->asking = false;
    task->retry_at = until;
    hf_list_add_last(&links->delayed, &task->item);
}

void hf_task_submit(hf_links *links, hf_task *task, int64_t give_up_at) {
    if (links->closed) {
        hf_task_end(task, hf_fail(HF_ECLOSED, "the client is closed"), NULL);
        return;
    }
    task->give_up_at = give_up_at;
    put_last(links, task);
    links->listener->wake(links);
}

void hf_link_sort_again(hf_links *links, hf_link *link) {
    hf_list all = {0};
    hf_list_move(&link->waiting, &all);
    for (hf_item *at; (at = hf_list_take_first(&all)) != NULL;) {
        TASK_OF(at)->asking = false;
        put_last(links, TASK_OF(at));
    }
}

void hf_link_send_delayed(hf_links *links, int64_t now) {
    HF_EACH(at, &links->delayed) {
        if (now < TASK_OF(at)->retry_at)
            continue;
        hf_list_remove(at);
        put_last(links, TASK_OF(at));
    }
}

/* What was sent has no answer and will get none: it is sent again first. */
static void lose_connection(hf_links *links, hf_link *link, int64_t now) {
    hf_connection_close(link->commands);
    link->commands = NULL;
    link->asked_first = false;
    link->pair_sent = 0;
    hf_transport_look(links->transport); /* it may be elsewhere by now */
    HF_EACH(at, &link->sent) {
        TASK_OF(at)->doubtful = true;
        TASK_OF(at)->asking = false;
    }
    hf_list_move(&link->waiting, &link->sent);
    hf_list_move(&link->sent, &link->waiting);
    hf_link_sort_again(links, link);
    link->retry_ms = link->retry_ms < 5 ? 5 : link->retry_ms < 200 ? 2 * link->retry_ms : 200;
    link->retry_at = hf_after(now, hf_jitter(link->retry_ms / 2, link->retry_ms));
}

static hf_status explain_given_up(const hf_links *links, bool doubtful) {
    return hf_fail(doubtful ? HF_EUNKNOWN : HF_ECONNECT, "%s cannot be reached",
                   hf_transport_shown(links->transport));
}

/* What was sent keeps its place, for an answer that nobody minds any more. */
static void give_up_sent(hf_links *links, hf_link *link, int64_t now) {
    HF_EACH(at, &link->sent) {
        hf_task *task = TASK_OF(at);
        void (*done)(hf_task *, hf_status, const redisReply *) = task->done;
        task->done = now < task->give_up_at ? done : NULL;
        if (done != NULL && task->done == NULL)
            done(task, explain_given_up(links, true), NULL);
        if (task->done != NULL)
            link->overdue_at = hf_earlier(link->overdue_at, task->give_up_at);
    }
}

static void give_up_old(hf_links *links, hf_link *link, int64_t now) {
    hf_list old = {0};
    if (now < link->overdue_at)
        return;
    link->overdue_at = HF_NO_DEADLINE;
    HF_EACH(at, &link->waiting) {
        if (now < TASK_OF(at)->give_up_at) {
            link->overdue_at = hf_earlier(link->overdue_at, TASK_OF(at)->give_up_at);
            continue;
        }
        hf_list_remove(at);
        hf_list_add_last(&old, at);
    }
    give_up_sent(links, link, now);
    for (hf_item *at; (at = hf_list_take_first(&old)) != NULL;)
        hf_task_end(TASK_OF(at), explain_given_up(links, TASK_OF(at)->doubtful), NULL);
}

static bool append_task(hf_connection *connection, const hf_task *task) {
    hf_bytes head;
    hf_bytes_init(&head);
    hf_request_head(&task->request, task->whole, &head);
    bool good = (!task->asking || hf_connection_append_asking(connection)) &&
                hf_connection_append(connection, &head) &&
                hf_connection_append(connection, &task->request.encoded);
    hf_bytes_free(&head);
    return good;
}

/* False: half a request is there, for want of memory; the connection is of no
 * use any more, and what waits is for the next one. */
static bool send_waiting(hf_link *link, int64_t now) {
    while (link->waiting.first != NULL && now >= link->pause_until) {
        hf_task *task = TASK_OF(hf_list_take_first(&link->waiting));
        if (task->request.encoded.failed) {
            hf_task_end(task, hf_fail(HF_ENOMEM, "no memory"), NULL);
            continue;
        }
        if (!append_task(link->commands, task)) {
            hf_list_add_first(&link->waiting, &task->item);
            return false;
        }
        task->sent_at = now;
        hf_list_add_last(&link->sent, &task->item);
    }
    return true;
}

/* It was not carried out there: where it goes now, or when. False: nowhere. */
static bool redirect(hf_links *links, hf_link *link, hf_task *task, hf_after_error after,
                     const char *text, int64_t now) {
    hf_request alone;
    if (after == HF_AFTER_SPLIT) {
        task->redirections = 0; /* it is not sent round in circles */
        if (!task->split && hf_request_alone(&alone, &task->request)) {
            hf_request_free(&task->request);
            hf_request_move(&task->request, &alone);
            task->split = true;
            task->asking = false;
            put_last(links, task);
        } else {
            delay(links, task, hf_after(now, AGAIN_MS));
        }
        return true;
    }
    int to = hf_transport_redirect(links->transport, link->node, text);
    if (++task->redirections > REDIRECTIONS_MAX) {
        hf_fail(HF_ESERVER, "%s: redirected %d times, because its nodes do not agree",
                hf_transport_shown(links->transport), REDIRECTIONS_MAX);
        return false;
    }
    task->asking = after == HF_AFTER_ASK && to >= 0;
    if (to < 0 || task->redirections > REDIRECTIONS_AT_ONCE) {
        delay(links, task, hf_after(now, AGAIN_MS));
        return true;
    }
    if (task->asking)
        task->link = link_to(links, to);
    put_last(links, task);
    return true;
}

/* False: the connection is of no use any more. */
static bool take_error(hf_links *links, hf_link *link, hf_task *task, const char *text,
                       int64_t now) {
    hf_status status;
    bool clustered = hf_transport_clustered(links->transport);
    hf_after_error after =
        hf_transport_error(links->transport, hf_transport_shown(links->transport), text, &status);
    if (after == HF_AFTER_FAIL && task->insists && now < task->give_up_at &&
        !hf_error_permission(text)) {
        delay(links, task, hf_after(now, INSIST_MS));
        return true;
    }
    bool stays =
        task->pinned && clustered && after != HF_AFTER_LOAD; /* and is of no use elsewhere */
    if (after == HF_AFTER_FAIL || now >= task->give_up_at || stays) {
        hf_task_end(task, status, NULL);
        return true;
    }
    /* Not carried out: once more, in front of what came later. */
    switch (after) {
    case HF_AFTER_LOAD:
        task->whole = true;
        hf_list_add_first(&link->waiting, &task->item);
        break;
    case HF_AFTER_MOVED:
    case HF_AFTER_ASK:
    case HF_AFTER_SPLIT:
        if (!redirect(links, link, task, after, text, now))
            hf_task_end(task, HF_ESERVER, NULL);
        break;
    default:
        if (clustered) {
            hf_transport_look(links->transport); /* another may serve it by now */
            delay(links, task, hf_after(now, AGAIN_MS));
        } else {
            link->pause_until = hf_after(now, AGAIN_MS);
            hf_list_add_first(&link->waiting, &task->item);
        }
    }
    return after != HF_AFTER_RECONNECT;
}

/* False: the connection is of no use any more. */
static bool take_answer(hf_links *links, hf_link *link, redisReply *reply, int64_t now) {
    if (link->sent.first == NULL)
        return false;
    if (TASK_OF(link->sent.first)->asking && !link->asked_first) {
        link->asked_first = true; /* that was the answer to ASKING */
        return true;
    }
    link->asked_first = false;
    hf_task *task = TASK_OF(hf_list_take_first(&link->sent));
    link->retry_ms = 0;
    link->trip_ms = (now - task->sent_at) / HF_MS;
    if (reply->type == REDIS_REPLY_ERROR)
        return take_error(links, link, task, reply->str, now);
    hf_task_end(task, HF_OK, reply);
    return true;
}

hf_connection *hf_link_connect(hf_links *links, const hf_link *link) {
    hf_connection *connection;
    hf_address address;
    if (!hf_transport_target(links->transport, link->node, &address))
        return NULL;
    hf_status status =
        hf_connection_start(&address, hf_transport_tls(links->transport), &connection);
    hf_address_unmake(&address);
    if (status != HF_OK)
        return NULL;
    connection->version = hf_transport_version(links->transport, link->node);
    return connection;
}

/* How long the oldest request under way may take to be answered. */
static int64_t answer_ms(const hf_links *links, const hf_link *link) {
    int64_t ms = hf_transport_command_ms(links->transport);
    if (link->sent.first == NULL)
        return ms;
    int64_t its = TASK_OF(link->sent.first)->answer_ms, usual = 2 * link->trip_ms + 1;
    its = its > usual ? its : usual;
    return TASK_OF(link->sent.first)->answer_ms > 0 && its < ms ? its : ms;
}

/* False: not yet, or there is nothing to do. */
static bool have_connection(hf_links *links, hf_link *link, int64_t now) {
    if (link->commands != NULL)
        return true;
    if (now < link->retry_at || (link->waiting.first == NULL && !link->warm))
        return false;
    link->commands = hf_link_connect(links, link);
    if (link->commands == NULL) {
        lose_connection(links, link, now);
        return false;
    }
    link->commands->idle_since = now;
    link->warm = false;
    return true;
}

/* Is it answered in time, and still the same server? */
static bool is_good(const hf_links *links, const hf_link *link, int64_t now) {
    int64_t oldest = !link->commands->connected ? link->commands->idle_since
                     : link->sent.first != NULL ? TASK_OF(link->sent.first)->sent_at
                                                : now;
    if (now >= hf_after(oldest, answer_ms(links, link)))
        return false;
    return !hf_transport_clustered(links->transport) ||
           link->commands->version == hf_transport_version(links->transport, link->node);
}

static bool read_answers(hf_links *links, hf_link *link, int64_t now) {
    for (;;) {
        redisReply *reply;
        if (hf_connection_next(link->commands, &reply) != HF_OK)
            return false;
        if (reply == NULL)
            return true;
        bool good = take_answer(links, link, reply, now);
        freeReplyObject(reply);
        if (!good)
            return false;
    }
}

void hf_link_drive_requests(hf_links *links, hf_link *link, int64_t now) {
    give_up_old(links, link, now);
    if (!have_connection(links, link, now))
        return;
    bool good = is_good(links, link, now);
    do
        good = send_waiting(link, now) && good && hf_connection_drive(link->commands) == HF_OK &&
               read_answers(links, link, now);
    while (good && link->waiting.first != NULL && now >= link->pause_until);
    if (!good)
        lose_connection(links, link, now);
}

int64_t hf_link_requests_due(const hf_links *links, const hf_link *link) {
    int64_t due = link->overdue_at;
    if (link->waiting.first != NULL || link->warm)
        due = hf_earlier(due, link->commands == NULL ? link->retry_at : link->pause_until);
    if (link->commands != NULL && !link->commands->connected)
        return hf_earlier(
            due, hf_after(link->commands->idle_since, hf_transport_command_ms(links->transport)));
    if (link->sent.first != NULL)
        due = hf_earlier(due, hf_after(TASK_OF(link->sent.first)->sent_at, answer_ms(links, link)));
    return due;
}
