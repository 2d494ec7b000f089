#include "lock/quorum.h"

#include <stdlib.h>
#include <string.h>

#include "lock/majority.h"
#include "net/discovery.h"
#include "protocol/answers.h"

/* After a majority has answered, the others have the same time again, plus this. */
#define GRACE_MS 50

/* --------------------------------------------------------------- Gathering */

hf_gathering *hf_gathering_new(const hf_client *client, hf_question *ask) {
    hf_gathering *of = calloc(1, sizeof *of);
    if (of == NULL)
        return NULL;
    of->references = 1;
    of->ask = ask;
    of->masters = client->quorum->count;
    for (size_t i = 0; i < of->masters; i++)
        of->from[i] =
            (hf_heard){.of = of, .master = client->quorum->masters[i].client, .asked = true};
    pthread_mutex_init(&of->mutex, NULL);
    return of;
}

void hf_gathering_drop(hf_gathering *of) {
    if (__atomic_sub_fetch(&of->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (size_t i = 0; i < of->masters; i++) {
        hf_request_free(&of->from[i].request);
        freeReplyObject(of->from[i].reply);
    }
    pthread_mutex_destroy(&of->mutex);
    free(of);
}

static void note_answer(hf_heard *from, hf_status status, redisReply *reply) {
    hf_gathering *of = from->of;
    pthread_mutex_lock(&of->mutex);
    if (!of->over) {
        from->answered = true;
        from->status = status;
        from->error = *hf_error_last();
        from->reply = reply;
        reply = NULL;
    }
    of->answers++;
    pthread_mutex_unlock(&of->mutex);
    freeReplyObject(reply);
    hf_wake(&of->answers);
}

static void *run_question(void *argument) {
    hf_heard *from = argument;
    hf_client *master = from->master;
    hf_discovery *discovery = master->transport->discovery;
    redisReply *reply = NULL;
    hf_status status = from->of->ask(master, &from->request, &reply);
    note_answer(from, status, reply);
    hf_gathering_drop(from->of);
    hf_client_drop(master);
    hf_discovery_drop(discovery);
    return NULL;
}

static void start_question(hf_heard *from) {
    __atomic_add_fetch(&from->of->references, 1, __ATOMIC_RELAXED);
    hf_client_keep(from->master);
    if (hf_discovery_detach(from->master->transport->discovery, run_question, from))
        return;
    hf_gathering_drop(from->of);
    hf_client_drop(from->master);
    note_answer(from, hf_fail(HF_ENOMEM, "no thread to ask a master with"), NULL);
}

void hf_gathering_run(hf_gathering *of) {
    int64_t began = hf_now();
    int64_t until = hf_after(began, of->from[0].master->transport->connect_ms);
    for (size_t i = 0; i < of->masters; i++)
        if (of->from[i].asked)
            start_question(&of->from[i]);
    pthread_mutex_lock(&of->mutex);
    for (bool enough = false, late = false;;) {
        int answers = of->answers;
        int64_t now = hf_now();
        size_t good = 0, open = 0;
        for (size_t i = 0; i < of->masters; i++) {
            good += of->from[i].answered && of->from[i].status == HF_OK;
            open += of->from[i].asked && !of->from[i].answered;
        }
        if (!enough && !of->needs_all && good >= hf_majority(of->masters)) {
            enough = true;
            until = hf_earlier(until, now + (now - began) + GRACE_MS * HF_MS);
        }
        if (open > 0 && !enough && !late && now >= hf_after(until, HF_STILL_MS)) {
            /* This process stood still: the answers may be there, unread. */
            late = true;
            until = hf_after(now, of->from[0].master->transport->connect_ms / 2);
        }
        if (open == 0 || now >= until)
            break;
        pthread_mutex_unlock(&of->mutex);
        hf_sleep_while(&of->answers, answers, hf_until(until, now));
        pthread_mutex_lock(&of->mutex);
    }
    of->over = true;
    pthread_mutex_unlock(&of->mutex);
}

hf_status hf_gathering_lacks(const hf_gathering *of) {
    size_t at = 0;
    while (at < of->masters && !(of->from[at].answered && of->from[at].status == HF_ENOMEM))
        at++;
    if (at == of->masters)
        return HF_OK;
    hf_error_set(&of->from[at].error);
    return HF_ENOMEM;
}

/* ------------------------------------------------------------------ Opening */

hf_status hf_quorum_adopt(hf_client *client, hf_members *members, hf_client *const *masters,
                          const hf_ballot_ways *ways) {
    if (client->fence_life_ms > 0 && client->fence_life_ms < members->quarantine_ms)
        return hf_fail(HF_EINVAL,
                       "fence_life of %lld ms: it must not be shorter than the quarantine of the "
                       "masters, which is %lld ms: else they forget a fence that still counts",
                       (long long)client->fence_life_ms, (long long)members->quarantine_ms);
    struct hf_quorum *quorum = calloc(1, sizeof *quorum);
    if (quorum == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    quorum->ways = ways;
    quorum->members = hf_members_keep(members);
    quorum->count = members->count;
    for (size_t i = 0; i < quorum->count; i++)
        quorum->masters[i].client = hf_client_keep(masters[i]);
    if (quorum->count % 2 == 0)
        hf_warn(quorum->warning, sizeof quorum->warning,
                "%zu masters bear the loss of no more than %zu do: use an odd number",
                quorum->count, quorum->count - 1);
    client->quorum = quorum;
    return HF_OK;
}

bool hf_quorum_is_fatal(hf_status status) {
    return status == HF_EINVAL || status == HF_EAUTH || status == HF_EUNSUPPORTED ||
           status == HF_EPROTOCOL;
}

static hf_status log_in(hf_client *master, hf_request *request, redisReply **reply) {
    hf_connection *connection = NULL;
    hf_status status =
        hf_discovery_connect(master->transport->discovery, 0, HF_NO_DEADLINE, &connection);
    (void)request;
    if (status == HF_OK)
        status = hf_connection_ask(connection, hf_client_patience(master), 1,
                                   &(const hf_words){1, {"INFO"}}, reply);
    hf_connection_close(connection);
    return status;
}

/* Warn by what the masters that answered report. */
static void warn_of(struct hf_quorum *quorum, const hf_gathering *of) {
    char enabled[8], forgetful[300] = "";
    for (size_t i = 0; i < quorum->count; i++) {
        const redisReply *info = of->from[i].reply;
        if (!of->from[i].answered || info == NULL || info->type != REDIS_REPLY_STRING)
            continue;
        hf_warn_of_eviction(quorum->warning, sizeof quorum->warning, quorum->members->of[i].shown,
                            info->str);
        if (strcmp(hf_info_field(info->str, "aof_enabled", enabled, sizeof enabled), "0") == 0)
            hf_warn(forgetful, sizeof forgetful, "%s", quorum->members->of[i].shown);
    }
    if (quorum->members->quarantine_ms == 0 && *forgetful != '\0')
        hf_warn(quorum->warning, sizeof quorum->warning,
                "with quarantine=0 each master must keep its data over a restart, and these have "
                "no append-only file: %s. Set appendonly yes and appendfsync always, or give the "
                "URL a quarantine",
                forgetful);
}

hf_status hf_quorum_try(hf_client *client, bool opens, size_t *answered_out) {
    const struct hf_quorum *quorum = client->quorum;
    hf_gathering *of = hf_gathering_new(client, log_in);
    const hf_heard *fatal = NULL;
    size_t good = 0;
    char why[600] = "";
    if (of == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    hf_gathering_run(of);
    if (opens)
        warn_of(client->quorum, of);
    for (size_t i = 0; i < quorum->count; i++) {
        const hf_heard *each = &of->from[i];
        if (each->answered && each->status == HF_OK) {
            good++;
            continue;
        }
        if (fatal == NULL && each->answered && hf_quorum_is_fatal(each->status))
            fatal = each;
        if (each->answered)
            hf_warn(why, sizeof why, "%s", each->error.message);
        else
            hf_warn(why, sizeof why, "%s does not answer", quorum->members->of[i].shown);
    }
    if (answered_out != NULL)
        *answered_out = good;
    hf_status status = HF_OK;
    if (fatal != NULL && (opens || good < hf_majority(quorum->count))) {
        status = fatal->status;
        hf_error_set(&fatal->error);
    } else if (good < hf_majority(quorum->count)) {
        status = hf_gathering_lacks(of);
        if (status == HF_OK)
            status = hf_fail(HF_ECONNECT, "%zu of %zu masters answer, and a majority is needed; %s",
                             good, quorum->count, why);
    }
    hf_gathering_drop(of);
    return status;
}

hf_status hf_quorum_refuse(const char *what) {
    return hf_fail(
        HF_EUNSUPPORTED,
        "%s: a quorum of masters does not do that, because no single master knows all of it", what);
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
