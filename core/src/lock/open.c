/* A client's life: opening and closing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/simulated.h"
#include "lock/ballot.h"
#include "lock/completions.h"
#include "lock/hold.h"
#include "lock/keeper.h"
#include "lock/masters.h"
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

/* Free the client: after a failed open, or with the last reference. */
static void destroy_client(hf_client *client) {
    HF_NOT_CANCELLED;
    hf_masters_end(client->quorum);
    hf_waiting_end(client->waiting);
    if (client->transport != NULL) {
        hf_discovery_set_wake(client->transport->discovery, -1);
        hf_links_end(&client->links);
    }
    hf_undo_end(client);
    free(client->renewing);
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

/* Make a client with one reference, and no descriptor yet. */
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
    client->undoing = hf_undo_begin(client);
    client->waiting = hf_waiting_begin(hf_waiting_ask);
    if (client->completions == NULL || client->table == NULL || client->renewing == NULL ||
        client->undoing == NULL || client->waiting == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    client->listener = hf_waiting_listener;
    client->listener.replaced = renew_moved;
    return hf_links_begin(&client->links, client->transport, &client->listener, &client->timers,
                          client->id);
}

/* Open a client. Takes the address over. */
static hf_status open_client(hf_address address, const hf_client_options *options,
                             hf_client **client_out) {
    hf_client_options chosen = *options;
    hf_status status = hf_address_options(&address, &chosen);
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
    client->replicas = address.replicas;
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

/* Open the client of one master, which connects at its first request. */
static hf_status open_master(const char *url, const hf_client_options *options, size_t at,
                             hf_members *members, hf_client **client_out) {
    hf_client_options chosen = *options;
    hf_address address;
    hf_status status = hf_address_parse(url, &address);
    if (status == HF_OK)
        status = hf_address_pick(&address, at);
    if (status != HF_OK) {
        hf_address_free(&address);
        return status;
    }
    address.members = hf_members_keep(members);
    address.member = at;
    chosen.lazy = HF_ON;
    chosen.count_names = HF_OFF;
    chosen.alarm_timeouts = 0;
    chosen.alarm_window_ms = 0;
    status = open_client(address, &chosen, client_out);
    if (status == HF_OK && hf_client_fd(*client_out) < 0)
        status = HF_ENOMEM;
    return status;
}

static hf_members *name_members(const hf_address *address) {
    char names[HF_MASTERS_MAX][300];
    const char *all[HF_MASTERS_MAX];
    for (size_t i = 0; i < address->place_count; i++) {
        snprintf(names[i], sizeof names[i], "%.280s:%d", address->places[i].host,
                 address->places[i].port);
        all[i] = names[i];
    }
    return hf_members_new(all, address->place_count, address->quarantine_ms);
}

/* Open the client of a quorum, an ordinary client beside the clients of the masters: it asks the
 * first master for data that only a single server has. */
static hf_status open_quorum(const char *url, hf_address *address, const hf_client_options *options,
                             hf_client **client_out) {
    hf_members *members = name_members(address);
    hf_client *masters[HF_MASTERS_MAX] = {NULL};
    hf_client_options chosen = *options;
    bool lazy =
        options->lazy != HF_DEFAULT ? options->lazy == HF_ON : address->options.lazy == HF_ON;
    size_t count = address->place_count, opened = 0;
    hf_status status = members != NULL ? hf_address_pick(address, 0) : HF_ENOMEM;
    if (options->lazy == HF_OFF || options->lazy == HF_DEFAULT) /* another number is refused */
        chosen.lazy = HF_ON;
    if (status == HF_OK) {
        status = open_client(*address, &chosen, client_out);
    } else {
        hf_address_free(address);
        hf_fail(status, "no memory");
    }
    while (opened < count && status == HF_OK) {
        status = open_master(url, options, opened, members, &masters[opened]);
        opened += masters[opened] != NULL;
    }
    if (status == HF_OK)
        status = hf_quorum_adopt(*client_out, members, masters, &hf_ballot);
    hf_members_drop(members);
    if (status != HF_OK)
        for (size_t i = 0; i < opened; i++)
            hf_client_close(masters[i]);
    else if (!lazy)
        status = hf_quorum_try(*client_out, true, NULL);
    if (status == HF_OK)
        return HF_OK;
    hf_error error = *hf_error_last();
    hf_client_close(*client_out);
    *client_out = NULL;
    hf_error_set(&error);
    return status;
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
    return address.kind == HF_QUORUM ? open_quorum(url, &address, &chosen, client_out)
                                     : open_client(address, &chosen, client_out);
}

/* ---------------------------------------------------------------- Closing */

static void end_holds_locked(hf_client *client, hf_list *ended) {
    for (hf_item *at; (at = hf_list_take_first(hf_undo_left_locked(client))) != NULL;) {
        hf_hold *hold = HF_OF(hf_hold, undo, at);
        bool listed = hf_hold_is_listed(hold);
        if (!listed && hold->state == HF_STATE_HELD) { /* its handle is closed: its lease runs */
            hf_hold_drop(hold);
            continue;
        }
        if (listed)
            hf_hold_drop(hold); /* it is released with the others */
        else
            hf_list_add_last(ended, &hold->item);
        if (hold->fence == 0) { /* an acquire without a caller, of which a copy may arrive */
            HF_MARK("H241");
            hold->out = 1;
        }
        if (hold->state != HF_STATE_HELD)
            hold->keeps_until = 0; /* the hold has ended since */
    }
    const hf_list *holds = hf_table_holds_locked(client);
    while (holds->first != NULL) {
        hf_hold *hold = HF_OF(hf_hold, item, holds->first);
        hf_table_remove_locked(client, hold);
        hold->state = HF_STATE_RELEASED;
        hf_list_add_last(ended, &hold->item);
    }
}

/* Send a closing client's last requests to the server, a few at a time, to need hardly any
 * memory. */
static void tell_server(hf_client *client, const hf_list *tasks, hf_list *ended) {
    int64_t deadline = hf_after(hf_now(), client->transport->command_ms);
    hf_request last[HF_FLUSH_MAX];
    hf_request *requests[HF_FLUSH_MAX];
    const hf_item *task = tasks->first;
    hf_item *hold = ended->first;
    hf_list lacking = {0}; /* the holds for whose requests there was no memory */
    while (task != NULL || hold != NULL) {
        size_t count = 0, made = 0;
        for (; task != NULL && count < HF_FLUSH_MAX; task = task->next)
            requests[count++] = &HF_OF(hf_task, item, task)->request;
        for (hf_item *next; hold != NULL && count + HF_HOLD_LAST_MAX <= HF_FLUSH_MAX; hold = next) {
            next = hold->next;
            hf_client_lock(client);
            size_t more = hf_hold_last_requests(&last[made], HF_OF(hf_hold, item, hold));
            hf_client_unlock(client);
            if (last[made].encoded.failed || last[made + more - 1].encoded.failed) {
                hf_list_remove(hold);
                hf_list_add_last(&lacking, hold);
            }
            while (more-- > 0)
                requests[count++] = &last[made++];
        }
        bool all = task == NULL && hold == NULL;
        hf_flush(client->transport, requests, count,
                 all ? deadline : hf_flush_share(client->transport, deadline));
        while (made > 0)
            hf_request_free(&last[--made]);
        if (all && lacking.first != NULL && hf_now() < deadline) {
            hf_transport_pause(HF_NO_MEMORY_MS);
            hold = lacking.first;
            hf_list_move(&lacking, ended);
        }
    }
    hf_list_move(&lacking, ended);
}

static void close_client(hf_client *client, bool release);

typedef struct closing {
    hf_client *client;
    bool release, runs;
    pthread_t thread;
} closing;

static void *run_close(void *argument) {
    const closing *mine = argument;
    close_client(mine->client, mine->release);
    return NULL;
}

/* Close the clients of several masters at once, so that one that hangs delays no other. */
static void close_masters(hf_client *client, bool release) {
    const struct hf_quorum *quorum = client->quorum;
    closing all[HF_MASTERS_MAX];
    for (size_t i = 0; i < quorum->count; i++) {
        all[i] = (closing){.client = quorum->masters[i].client, .release = release};
        all[i].runs = hf_thread_run(&all[i].thread, run_close, &all[i]) == 0;
    }
    for (size_t i = 0; i < quorum->count; i++)
        if (all[i].runs)
            pthread_join(all[i].thread, NULL);
        else
            run_close(&all[i]);
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

/* Take over the tasks whose answer no caller waits for any more: if an acquire were sent now, it
 * could be granted a lock that no caller wants, should the server have lost the dead id. */
static void take_over_locked(hf_list *tasks, hf_list *over) {
    HF_EACH(at, tasks) {
        hf_task *task = HF_OF(hf_task, item, at);
        if (task->over == NULL || !task->over(task))
            continue;
        hf_list_remove(at);
        hf_list_add_last(over, at);
    }
}

static void close_client(hf_client *client, bool release) {
    HF_NOT_CANCELLED;
    hf_list tasks = {0}, over = {0}, ended = {0};
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
    take_over_locked(&tasks, &over);
    hf_confirming_cancel_locked(client);
    if (client->quorum != NULL)
        hf_ballots_close(client);
    end_holds_locked(client, &ended);
    hf_completions_cancel_locked(client, hf_hold_drop);
    hf_waiting_notify_locked(client);
    hf_client_unlock(client);

    if (client->quorum != NULL)
        close_masters(client, release);
    else if (release)
        tell_server(client, &tasks, &ended);
    hf_transport_shut(client->transport);

    hf_client_lock(client);
    hf_list_move(&over, &tasks);
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

/* ------------------------------------------------------------- Queries */

const char *hf_client_warning(const hf_client *client) {
    if (client == NULL)
        return "";
    return client->quorum != NULL ? client->quorum->warning : client->transport->warning;
}

int hf_client_fd(hf_client *client) {
    if (hf_client_check(client) != HF_OK)
        return -1;
    HF_HOLDING_CLIENT(client);
    return hf_losses_tell_locked(client) == HF_OK ? hf_completions_fd(client) : -1;
}
