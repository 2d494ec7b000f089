#include "net/links.h"

#include <stdlib.h>

#include "net/pool.h"

/* How soon another try follows to start the thread that watches the sentinels. */
#define WATCH_MS 1000

#define LINK_OF(at) HF_OF(hf_link, item, at)
#define TASK_OF(at) HF_OF(hf_task, item, at)

hf_status hf_links_begin(hf_links *links, hf_transport *transport, const hf_listener *listener,
                         hf_timers *timers, const char *client_id) {
    links->transport = transport;
    links->discovery = transport->discovery;
    links->listener = listener;
    links->timers = timers;
    links->client_id = client_id;
    links->first.version = hf_discovery_version(transport->discovery, 0);
    links->first.overdue_at = links->first.silent_at = HF_NO_DEADLINE;
    hf_list_add_last(&links->all, &links->first.item);
    return hf_timer_reserve(timers) ? HF_OK : hf_fail(HF_ENOMEM, "no memory");
}

static void close_link(hf_links *links, hf_link *link) {
    hf_link_close_requests(links, link);
    hf_link_close_subscription(links, link);
}

static void free_link(hf_links *links, hf_link *link) {
    close_link(links, link);
    hf_timer_clear(links->timers, &link->unread);
    hf_timer_unreserve(links->timers);
    hf_list_remove(&link->item);
    if (link != &links->first)
        free(link);
}

void hf_links_end(hf_links *links) {
    while (links->all.first != NULL)
        free_link(links, LINK_OF(links->all.first));
    hf_channels_end(links);
}

/* Return whether a delayed task is bound to the link. */
static bool is_awaited(const hf_links *links, const hf_link *link) {
    HF_EACH(at, &links->delayed)
    if (TASK_OF(at)->pinned && TASK_OF(at)->link == link)
        return true;
    return false;
}

/* Return whether the link is useless, now and later. */
static bool is_spent(const hf_links *links, const hf_link *link) {
    return link != &links->first && link->waiting.count + link->sent.count == 0 &&
           link->asked.count + link->unasked.count == 0 && link->threads.count == 0 &&
           link->others == 0 && !is_awaited(links, link) &&
           !hf_discovery_serves(links->discovery, link->node);
}

/* Move the waiting tasks whose slots other nodes serve now. */
static void follow_slots(hf_links *links) {
    unsigned change = hf_discovery_change(links->discovery);
    if (change == links->change)
        return;
    links->change = change;
    HF_EACH(at, &links->all) {
        hf_link_sort_again(LINK_OF(at));
        hf_link_move_channels(links, LINK_OF(at));
    }
    HF_EACH(at, &links->all)
    if (is_spent(links, LINK_OF(at)))
        free_link(links, LINK_OF(at));
    links->listener->replaced(links);
}

/* Leave the old server if another server has become the node. */
static void follow_server(hf_links *links, hf_link *link, int64_t now) {
    unsigned version = hf_discovery_version(links->discovery, link->node);
    if (version == link->version)
        return;
    link->version = version;
    link->tries.at = link->listens.at = 0;
    hf_link_lose_requests(links, link, now);
    if (!hf_dial_reached(link->dial, version)) /* that dial may hang */
        hf_link_close_requests(links, link);
    if (link->subscription == NULL && !hf_dial_reached(link->subscription_dial, version))
        hf_link_close_subscription(links, link);
}

void hf_links_drive(hf_links *links, int64_t now) {
    hf_link_send_delayed(links, now);
    follow_slots(links);
    HF_EACH(at, &links->all) {
        follow_server(links, LINK_OF(at), now);
        hf_link_drive_channels(links, LINK_OF(at), now);
        hf_link_drive_requests(links, LINK_OF(at), now);
    }
}

int64_t hf_links_due(const hf_links *links) {
    int64_t due = hf_pool_tidy(links->transport->pool, hf_now());
    if (!hf_discovery_watch(links->discovery))
        due = hf_earlier(due, hf_after(hf_now(), WATCH_MS));
    HF_EACH(at, &links->delayed)
    due = hf_earlier(due, TASK_OF(at)->retry_at);
    HF_EACH(at, &links->all) {
        due = hf_earlier(due, hf_link_requests_due(LINK_OF(at)));
        due = hf_earlier(due, hf_link_channels_due(links, LINK_OF(at)));
    }
    return due;
}

void hf_links_close(hf_links *links) {
    HF_EACH(at, &links->all)
    close_link(links, LINK_OF(at));
}

void hf_links_take(hf_links *links, hf_list *tasks) {
    hf_list_move(&links->delayed, tasks);
    HF_EACH(at, &links->all) {
        HF_EACH(sent, &LINK_OF(at)->sent)
        if (TASK_OF(sent)->given_up)
            hf_task_free(TASK_OF(sent));
        hf_list_move(&LINK_OF(at)->sent, tasks);
        hf_list_move(&LINK_OF(at)->waiting, tasks);
    }
    HF_EACH(at, tasks)
    hf_task_unask(TASK_OF(at));
    links->closed = true;
}
