#include "lock/quorum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/completions.h"
#include "lock/majority.h"
#include "net/discovery.h"

/* A master that owes an answer for longer than this and ten ways is silent. */
#define SILENT_MS 50
/* And one of which it is not known yet how long a way takes. */
#define UNKNOWN_MS 500
/* When a majority has answered an open, the others have so much more time to say what is wrong. */
#define GRACE_MS 50

/* ------------------------------------------------------------------ Opening */

hf_status hf_quorum_adopt(hf_client *client, hf_members *members, hf_client *const *masters,
                          const hf_ballot_ways *ways) {
    struct hf_quorum *quorum = calloc(1, sizeof *quorum);
    if (quorum == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    quorum->ways = ways;
    quorum->members = hf_members_keep(members);
    quorum->count = members->count;
    for (size_t i = 0; i < quorum->count; i++)
        quorum->masters[i].client = hf_client_keep(masters[i]);
    if (quorum->count % 2 == 0)
        snprintf(quorum->warning, sizeof quorum->warning,
                 "%zu masters bear the loss of no more than %zu do: use an odd number",
                 quorum->count, quorum->count - 1);
    client->quorum = quorum;
    return HF_OK;
}

/* One open, shared by its caller and a thread for each master. */
typedef struct opening {
    pthread_mutex_t mutex;
    int answers; /* so many; they wake the caller */
    int references;
    size_t good, bad, fatal;
    hf_status status; /* of the last bad one, or of a fatal one, with the message */
    hf_error error;
    char why[600]; /* of all of them */
} opening;

typedef struct ping {
    opening *of;
    hf_client *master;
} ping;

static void drop_opening(opening *of) {
    pthread_mutex_lock(&of->mutex);
    bool last = --of->references == 0;
    pthread_mutex_unlock(&of->mutex);
    if (!last)
        return;
    pthread_mutex_destroy(&of->mutex);
    free(of);
}

/* No later answer mends that. */
static bool is_fatal(hf_status status) {
    return status == HF_EINVAL || status == HF_EAUTH || status == HF_EUNSUPPORTED ||
           status == HF_EPROTOCOL;
}

static void *run_ping(void *argument) {
    ping *mine = argument;
    opening *of = mine->of;
    hf_discovery *discovery = mine->master->transport->discovery;
    hf_connection *connection = NULL;
    hf_status status = hf_discovery_connect(discovery, 0, HF_NO_DEADLINE, &connection);
    hf_connection_close(connection);
    pthread_mutex_lock(&of->mutex);
    of->good += status == HF_OK;
    of->bad += status != HF_OK;
    if (status != HF_OK) {
        size_t length = strlen(of->why);
        snprintf(of->why + length, sizeof of->why - length, "; %s", hf_error_message());
        if (of->fatal == 0) {
            of->status = status;
            of->error = *hf_error_last();
        }
        of->fatal += is_fatal(status);
    }
    of->answers++;
    pthread_mutex_unlock(&of->mutex);
    hf_wake(&of->answers);
    drop_opening(of);
    hf_client_drop(mine->master);
    free(mine);
    hf_discovery_drop(discovery);
    return NULL;
}

static bool start_ping(opening *of, hf_client *master) {
    ping *mine = calloc(1, sizeof *mine);
    if (mine == NULL)
        return false;
    *mine = (ping){of, hf_client_keep(master)};
    if (hf_discovery_detach(master->transport->discovery, run_ping, mine))
        return true;
    hf_client_drop(master);
    free(mine);
    return false;
}

static hf_status opened(const struct hf_quorum *quorum, opening *of) {
    size_t majority = hf_majority(quorum->count);
    if (of->fatal > 0) {
        hf_error_set(&of->error);
        return of->status;
    }
    if (of->good >= majority)
        return HF_OK;
    return hf_fail(HF_ECONNECT, "%zu of %zu masters answer, and a majority is needed%s", of->good,
                   quorum->count, of->why);
}

hf_status hf_quorum_try(hf_client *client, size_t *answered_out) {
    int64_t connect_ms = client->transport->connect_ms;
    const struct hf_quorum *quorum = client->quorum;
    size_t majority = hf_majority(quorum->count);
    opening *of = calloc(1, sizeof *of);
    if (of == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    of->references = (int)quorum->count + 1;
    pthread_mutex_init(&of->mutex, NULL);
    for (size_t i = 0; i < quorum->count; i++)
        if (!start_ping(of, quorum->masters[i].client)) {
            pthread_mutex_lock(&of->mutex);
            of->bad++;
            of->answers++;
            of->references--;
            pthread_mutex_unlock(&of->mutex);
        }
    int64_t until = hf_after(hf_now(), connect_ms);
    bool enough = false;
    pthread_mutex_lock(&of->mutex);
    while (of->good + of->bad < quorum->count && of->fatal == 0 && hf_now() < until) {
        if (!enough && of->good >= majority) {
            enough = true;
            until = hf_earlier(until, hf_after(hf_now(), GRACE_MS));
        }
        int answers = of->answers;
        pthread_mutex_unlock(&of->mutex);
        hf_sleep_while(&of->answers, answers, hf_until(until, hf_now()));
        pthread_mutex_lock(&of->mutex);
    }
    hf_status status = opened(quorum, of);
    if (answered_out != NULL)
        *answered_out = of->good;
    pthread_mutex_unlock(&of->mutex);
    hf_error error = *hf_error_last();
    drop_opening(of);
    hf_error_set(&error);
    return status;
}

void hf_quorum_end(struct hf_quorum *quorum) {
    if (quorum == NULL)
        return;
    quorum->ways->end(quorum);
    for (size_t i = 0; i < quorum->count; i++)
        hf_client_drop(quorum->masters[i].client);
    hf_members_drop(quorum->members);
    free(quorum);
}

/* ------------------------------------------------------------------ Hearing */

int hf_quorum_fd(const hf_client *client, size_t at) {
    return hf_completions_fd(client->quorum->masters[at].client);
}

static bool is_answer(hf_status status) {
    return status == HF_OK || status == HF_EBUSY || status == HF_ETIMEOUT || status == HF_ELOST ||
           status == HF_ECANCELED || status == HF_ENOTHELD;
}

void hf_master_note(hf_master *master, hf_status status) {
    if (is_answer(status)) {
        if (master->down)
            master->up_since = hf_now();
        master->down = false;
        master->refusal = HF_OK;
        return;
    }
    master->down = true;
    master->refusal = is_fatal(status) ? status : HF_OK;
    snprintf(master->why, sizeof master->why, "%.*s", (int)sizeof master->why - 1,
             hf_error_message());
}

int64_t hf_master_patience_ms(const hf_master *master) {
    int64_t most_ms = master->client->transport->connect_ms;
    int64_t ms = master->tried ? 10 * master->trip_ms : UNKNOWN_MS;
    if (ms < SILENT_MS)
        ms = SILENT_MS;
    return ms < most_ms ? ms : most_ms;
}

int64_t hf_master_silent_at(const hf_client *client, size_t at) {
    const hf_master *master = &client->quorum->masters[at];
    if (master->calls.first == NULL)
        return HF_NO_DEADLINE;
    return hf_after(HF_OF(hf_call_head, item, master->calls.first)->sent_at,
                    hf_master_patience_ms(master));
}

bool hf_master_is_silent(const hf_client *client, size_t at, int64_t now) {
    return now >= hf_master_silent_at(client, at);
}

hf_client *hf_quorum_look(hf_client *client) {
    const struct hf_quorum *quorum = client->quorum;
    if (quorum == NULL)
        return client;
    hf_client_lock(client);
    size_t at = 0;
    int64_t now = hf_now();
    while (at < quorum->count && (quorum->masters[at].down || hf_master_is_silent(client, at, now)))
        at++;
    hf_client_unlock(client);
    return quorum->masters[at < quorum->count ? at : 0].client;
}

/* ---------------------------------------------------------------- Messages */

bool hf_quorum_refuses(const hf_client *client) {
    const struct hf_quorum *quorum = client->quorum;
    size_t left = quorum->count;
    for (size_t i = 0; i < quorum->count; i++)
        left -= quorum->masters[i].refusal != HF_OK;
    return left < hf_majority(quorum->count);
}

hf_status hf_quorum_explain(const hf_client *client, const hf_names *names) {
    const struct hf_quorum *quorum = client->quorum;
    hf_status status = HF_ECONNECT;
    bool refused = hf_quorum_refuses(client);
    char why[700] = "";
    int64_t now = hf_now();
    for (size_t i = 0; i < quorum->count; i++) {
        const hf_master *master = &quorum->masters[i];
        size_t length = strlen(why);
        if (status == HF_ECONNECT && master->refusal != HF_OK && refused)
            status = master->refusal;
        int64_t young_ms = hf_member_young_ms(quorum->members, i, now);
        if (young_ms > 0)
            snprintf(why + length, sizeof why - length,
                     "; %s has begun anew, and is in quarantine for another %.1f s",
                     quorum->members->of[i].shown, (double)young_ms / 1000);
        else if (hf_master_is_silent(client, i, now))
            snprintf(why + length, sizeof why - length, "; %s does not answer",
                     quorum->members->of[i].shown);
        else if (master->down)
            snprintf(why + length, sizeof why - length, "; %s", master->why);
    }
    return hf_fail(status, "fewer than a majority of the %zu masters can be asked for lock %s%s",
                   quorum->count, hf_names_quoted(names), why);
}

hf_status hf_quorum_refuse(const char *what) {
    return hf_fail(HF_EUNSUPPORTED, "%s: a quorum of masters does not do that, because %s", what,
                   "no single master knows all of it");
}

hf_status hf_quorum_check_lease(const hf_client *client, int64_t lease_ms, const char *what) {
    int64_t most_ms = client->quorum->members->quarantine_ms;
    if (lease_ms == HF_NEVER)
        return hf_fail(HF_EUNSUPPORTED,
                       "%s without an end: a quorum of masters needs one, because a "
                       "master that loses its data forgets the hold",
                       what);
    if (most_ms > 0 && lease_ms > most_ms)
        return hf_fail(HF_EINVAL,
                       "%s of %lld ms: it must not be longer than the quarantine of the masters, "
                       "which is %lld ms; the URL may have another, as quarantine=60",
                       what, (long long)lease_ms, (long long)most_ms);
    return HF_OK;
}

hf_status hf_quorum_check(const hf_client *client, const hf_lock_options *options) {
    if (options->mode == HF_SHARED)
        return hf_quorum_refuse("shared holds and permits");
    if (options->replicas > 0)
        return hf_quorum_refuse("replicas");
    if (options->heal == HF_ON)
        return hf_quorum_refuse("heal");
    return hf_quorum_check_lease(client, options->lease_ms, "a lease");
}
