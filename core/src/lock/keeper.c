#include "lock/keeper.h"

#include <poll.h>
#include <stdlib.h>

#include "lock/client.h"
#include "lock/completions.h"
#include "lock/renewal.h"
#include "lock/votes.h"

#define LINK_OF(at) HF_OF(hf_link, item, at)

/* The descriptors that the thread waits for in poll(2). */
typedef struct poll_set {
    struct pollfd *fds;
    size_t capacity;
    struct pollfd some[4]; /* its own two, and one link's: used if an allocation fails */
} poll_set;

static void watch_link(hf_link *link, struct pollfd fds[2]) {
    fds[0] = fds[1] = (struct pollfd){.fd = -1};
    if (link->commands != NULL) {
        fds[0].fd = link->commands->socket.fd;
        fds[0].events = hf_connection_events(link->commands);
    }
    link->watching = link->reader == NULL &&
                     (link->others > 0 || (link->threads.count == 0 && link->unread.place == 0));
    if (link->subscription == NULL)
        return;
    fds[1].events = hf_connection_events(link->subscription);
    if (!link->watching && link->subscribed > 0)
        fds[1].events &= ~POLLIN;
    if (fds[1].events != 0)
        fds[1].fd = link->subscription->socket.fd;
}

/* Make room for `count` entries, or for fewer without memory. Return the room. */
static size_t make_room(poll_set *set, size_t count) {
    if (count > set->capacity) {
        struct pollfd *more = realloc(set->fds, 2 * count * sizeof *more);
        set->fds = more != NULL ? more : set->fds;
        set->capacity = more != NULL ? 2 * count : set->capacity;
    }
    return set->capacity;
}

static void sleep_until(hf_client *client, poll_set *set, int64_t wake) {
    size_t masters = client->quorum != NULL ? client->quorum->count : 0;
    size_t wanted = 2 + masters + 2 * client->links.all.count, room = make_room(set, wanted);
    struct pollfd *fds = room >= wanted ? set->fds : set->some;
    size_t most = room >= wanted ? wanted : sizeof set->some / sizeof *set->some;
    if (most < wanted) /* no memory to watch all descriptors: look again soon */
        wake = hf_earlier(wake, hf_after(hf_now(), 10));
    fds[0] = (struct pollfd){.fd = client->wake.fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = client->clock_fd, .events = POLLIN};
    size_t count = 2;
    for (size_t i = 0; i < masters && count < most; i++)
        fds[count++] = (struct pollfd){.fd = hf_completions_fd(client->quorum->masters[i].client),
                                       .events = POLLIN};
    HF_EACH(at, &client->links.all)
    if (count + 1 < most) {
        watch_link(LINK_OF(at), fds + count);
        count += 2;
    }
    client->sleeps_until = wake;
    hf_client_unlock(client);
    hf_poll(fds, count, client->clock_fd, wake);
    hf_client_lock(client);
    client->sleeps_until = INT64_MIN;
    if (fds[0].revents != 0)
        hf_event_clear(client->wake.fd);
}

void *hf_keeper_run(void *argument) {
    hf_client *client = argument;
    int64_t due = HF_NO_DEADLINE;
    poll_set set = {0};
    hf_client_lock(client);
    while (!client->stop) {
        int64_t now = client->quorum != NULL ? hf_votes_hear(client, due) : hf_now();
        hf_timers_fire(&client->timers, now);
        hf_renewal_flush_locked(client);
        hf_links_drive(&client->links, now);
        due = hf_earlier(hf_timers_due(&client->timers), hf_links_due(&client->links));
        sleep_until(client, &set, due);
    }
    hf_client_unlock(client);
    free(set.fds);
    return NULL;
}
