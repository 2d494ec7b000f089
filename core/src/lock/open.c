/* A client's life: opening and closing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/completions.h"
#include "lock/keeper.h"
#include "lock/renewal.h"
#include "lock/replicas.h"
#include "lock/thread.h"
#include "lock/undo.h"
#include "lock/waiting.h"
#include "net/flush.h"

static hf_status name_client(hf_client *client, const char *name) {
    unsigned char id[HF_ID_LENGTH / 2];
    char host[256] = "";
    if (!hf_random(id, sizeof id))
        return hf_fail(HF_ENOMEM, "the system gives no random bytes");
    gethostname(host, sizeof host - 1);
    int length =
        snprintf(client->prefix, sizeof client->prefix, "%s@%s/%ld:", name, host, (long)getpid());
    client->id = client->prefix + length;
    hf_hex(client->prefix + length, id, sizeof id);
    strcat(client->prefix, ":");
    client->prefix_length = strlen(client->prefix);
    return HF_OK;
}

/* Free what a failed open, or the last handle, leaves. */
static void destroy_client(hf_client *client) {
    hf_waiting_end(client);
    if (client->transport != NULL) {
        hf_discovery_set_wake(client->transport->discovery, -1);
        hf_links_end(&client->links);
    }
    hf_undo_end(client);
    hf_confirming_end(client->confirming);
    hf_renewal_end(client->renewing);
    hf_table_end(client->table);
    hf_numbers_end(client->numbers);
    hf_completions_end(client->completions);
    hf_transport_free(client->transport);
    free(client->timers.heap);
    hf_event_free(client->closing);
    hf_event_free(client->wake);
    if (client->clock_fd >= 0)
        close(client->clock_fd);
    pthread_mutex_destroy(&client->mutex);
    hf_wipe(client->random, sizeof client->random);
    free(client);
}

/* One reference, and no descriptor yet. */
static hf_client *new_client(void) {
    hf_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return NULL;
    hf_generation_watch();
    client->references = 1;
    client->generation = hf_generation();
    client->destroy = destroy_client;
    client->run = hf_keeper_run;
    client->wake = client->closing = HF_NO_EVENT;
    client->clock_fd = -1;
    client->sleeps_until = INT64_MIN;
    pthread_mutex_init(&client->mutex, NULL);
    client->closing = hf_event_new();
    return client;
}

static void renew_moved(hf_links *links) {
    hf_renewal_moved_locked(HF_OF(hf_client, links, links));
}

static hf_status begin_parts(hf_client *client, const hf_client_options *options) {
    hf_status status = hf_numbers_begin(options, &client->numbers);
    if (status != HF_OK)
        return status;
    client->completions = hf_completions_begin();
    client->table = hf_table_begin();
    client->renewing = hf_renewal_begin();
    client->confirming = hf_confirming_begin();
    client->undoing = hf_undo_begin(client);
    client->waiting = hf_waiting_begin(hf_waiting_ask);
    if (client->completions == NULL || client->table == NULL || client->renewing == NULL ||
        client->confirming == NULL || client->undoing == NULL || client->waiting == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    client->listener = hf_waiting_listener;
    client->listener.replaced = renew_moved;
    return hf_links_begin(&client->links, client->transport, &client->listener, &client->timers,
                          client->id);
}

hf_status hf_client_open(const char *url, const hf_client_options *options,
                         hf_client **client_out) {
    HF_NOT_CANCELLED;
    hf_client_options chosen;
    hf_address address;
    if (client_out == NULL)
        return hf_fail(HF_EINVAL, "client_out is NULL");
    *client_out = NULL;
    if (url == NULL)
        return hf_fail(HF_EINVAL, "the URL is NULL");
    hf_status status = hf_options_copy(&chosen, sizeof chosen, options, "hf_client_options");
    if (status == HF_OK)
        status = hf_address_parse(url, &address);
    if (status != HF_OK)
        return status;
    status = hf_address_options(&address, &chosen);
    hf_client *client = status == HF_OK ? new_client() : NULL;
    if (client == NULL) {
        hf_address_free(&address);
        return status != HF_OK ? status : hf_fail(HF_ENOMEM, "no memory");
    }
    if (client->closing.fd < 0)
        status = hf_fail(HF_ENOMEM, "no file descriptor for the client: %s", strerror(errno));
    if (status == HF_OK)
        status = name_client(client, address.options.client_name);
    client->fence_life_ms = address.options.fence_life_ms;
    client->tells_trouble = chosen.trouble == HF_ON;
    if (status == HF_OK)
        status = hf_transport_open(&address, &client->transport);
    else
        hf_address_free(&address);
    if (status == HF_OK)
        status = hf_check_switch(chosen.trouble, "trouble");
    if (status == HF_OK)
        status = begin_parts(client, &chosen);
    if (status != HF_OK) {
        hf_client_drop(client);
        return status;
    }
    *client_out = client;
    return HF_OK;
}

/* ---------------------------------------------------------------- Closing */

static void end_holds_locked(hf_client *client, hf_list *ended) {
    hf_list *left = hf_undo_left_locked(client);
    for (hf_item *at; (at = hf_list_take_first(left)) != NULL;) {
        hf_hold *hold = HF_OF(hf_hold, undo, at);
        if (hf_hold_is_listed(hold))
            hf_hold_drop(hold); /* and is released with the others */
        else
            hf_list_add_last(ended, &hold->item);
    }
    const hf_list *holds = hf_table_holds_locked(client);
    while (holds->first != NULL) {
        hf_hold *hold = HF_OF(hf_hold, item, holds->first);
        hf_table_remove_locked(client, hold);
        hold->state = HF_STATE_RELEASED;
        hf_list_add_last(ended, &hold->item);
    }
}

/* Tell the server what a closing client leaves there: some at a time, so that it needs
 * no memory to speak of. */
static void tell_server(hf_client *client, const hf_list *tasks, const hf_list *ended) {
    int64_t deadline = hf_after(hf_now(), client->transport->command_ms);
    hf_request releases[HF_FLUSH_MAX];
    const hf_request *requests[HF_FLUSH_MAX];
    const hf_item *task = tasks->first, *hold = ended->first;
    while (task != NULL || hold != NULL) {
        size_t count = 0, made = 0;
        for (; task != NULL && count < HF_FLUSH_MAX; task = task->next)
            requests[count++] = &HF_OF(hf_task, item, task)->request;
        for (; hold != NULL && count < HF_FLUSH_MAX; hold = hold->next) {
            hf_hold_release_request(&releases[made], HF_OF(hf_hold, item, hold), true);
            requests[count++] = &releases[made++];
        }
        hf_flush(client->transport, requests, count, deadline);
        while (made > 0)
            hf_request_free(&releases[--made]);
    }
}

void hf_client_stop(hf_client *client) {
    HF_NOT_CANCELLED;
    if (client == NULL || hf_client_inherited(client))
        return; /* a child's copy may be in the middle of a change: leave it */
    hf_client_lock(client);
    __atomic_store_n(&client->closed, true, __ATOMIC_RELEASE);
    hf_client_unlock(client);
    hf_event_set(client->closing.to);
}

static void close_client(hf_client *client, bool release) {
    HF_NOT_CANCELLED;
    hf_list tasks = {0}, ended = {0};
    if (client == NULL || hf_client_inherited(client))
        return;
    hf_client_stop(client);
    hf_transport_hurry(client->transport);
    hf_thread_end(client);

    hf_client_lock(client);
    client->swept = true;
    /* A subscription that outlived its client would look like a live waiter. */
    hf_links_close(&client->links);
    hf_links_take(&client->links, &tasks);
    hf_waiting_close_locked(client, &tasks);
    hf_confirming_cancel_locked(client);
    end_holds_locked(client, &ended);
    hf_completions_cancel_locked(client, hf_hold_drop);
    hf_waiting_notify_locked(client);
    hf_client_unlock(client);

    if (release)
        tell_server(client, &tasks, &ended);
    hf_transport_shut(client->transport);

    hf_client_lock(client);
    for (hf_item *at; (at = hf_list_take_first(&tasks)) != NULL;)
        hf_task_end(HF_OF(hf_task, item, at), hf_fail(HF_ECLOSED, "the client is closed"), NULL);
    for (hf_item *at; (at = hf_list_take_first(&ended)) != NULL;)
        hf_hold_drop(HF_OF(hf_hold, item, at));
    hf_completions_close_locked(client);
    hf_client_unlock(client);
    hf_client_drop(client);
}

void hf_client_close(hf_client *client) { close_client(client, true); }

void hf_client_abandon(hf_client *client) { close_client(client, false); }

/* ---------------------------------------------------- What it can tell */

const char *hf_client_warning(const hf_client *client) {
    return client != NULL ? client->transport->warning : "";
}

int hf_client_fd(hf_client *client) {
    hf_status status = hf_client_check(client);
    if (status != HF_OK)
        return -1;
    hf_client_lock(client);
    status = hf_losses_tell_locked(client);
    hf_client_unlock(client);
    return status == HF_OK ? hf_completions_fd(client) : -1;
}
