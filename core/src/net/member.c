#include "net/member.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/simulated.h"
#include "protocol/answers.h"

/* The uptime is whole seconds, the difference of two truncated clocks: it may be too long by
 * this. */
#define UPTIME_ERROR_S 1

static int compare(const void *a, const void *b) {
    return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

/* Return `1 <quarantine ms> <host:port>,…`, sorted, in lower case. */
static char *make_list(const char *const *names, size_t count, int64_t quarantine_ms) {
    const char *sorted[HF_MASTERS_MAX];
    hf_bytes text;
    char head[40];
    hf_bytes_init(&text);
    memcpy(sorted, names, count * sizeof *names);
    qsort(sorted, count, sizeof *sorted, compare);
    int length = snprintf(head, sizeof head, "1 %lld ", (long long)quarantine_ms);
    hf_bytes_add(&text, head, (size_t)length);
    for (size_t i = 0; i < count; i++) {
        hf_bytes_add(&text, ",", i > 0);
        hf_bytes_add(&text, sorted[i], strlen(sorted[i]));
    }
    char *list = text.failed ? NULL : strndup(text.data, text.length);
    hf_bytes_free(&text);
    for (char *c = list; c != NULL && *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    return list;
}

hf_members *hf_members_new(const char *const *names, size_t count, int64_t quarantine_ms) {
    hf_members *members = calloc(1, sizeof *members);
    if (members == NULL)
        return NULL;
    members->references = 1;
    members->count = count;
    members->quarantine_ms = quarantine_ms;
    members->list = make_list(names, count, quarantine_ms);
    for (size_t i = 0; i < count; i++)
        snprintf(members->of[i].shown, sizeof members->of[i].shown, "%s", names[i]);
    pthread_mutex_init(&members->mutex, NULL);
    if (members->list != NULL)
        return members;
    hf_members_drop(members);
    return NULL;
}

hf_members *hf_members_keep(hf_members *members) {
    __atomic_add_fetch(&members->references, 1, __ATOMIC_RELAXED);
    return members;
}

void hf_members_drop(hf_members *members) {
    if (members == NULL || __atomic_sub_fetch(&members->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    pthread_mutex_destroy(&members->mutex);
    free(members->list);
    free(members);
}

/* --------------------------------------------------------- Pure functions */

bool hf_run_read(const char *info, hf_run *run) {
    char number[24];
    *run = (hf_run){0};
    if (*hf_info_field(info, "run_id", run->id, sizeof run->id) == '\0' ||
        *hf_info_field(info, "uptime_in_seconds", number, sizeof number) == '\0')
        return false;
    run->uptime_s = strtoll(number, NULL, 10);
    run->server_us =
        strtoll(hf_info_field(info, "server_time_usec", number, sizeof number), NULL, 10);
    if (run->server_us < 0 || run->server_us > HF_NUMBER_MAX)
        run->server_us = 0; /* no script takes a greater fence */
    if (run->uptime_s < 0)  /* its clock was set back to before its start */
        run->uptime_s = 0;
    return true;
}

/* Return the length of the next name of a list; 0: no name is left. */
static size_t next_name(const char **at) {
    *at += **at == ',';
    return strcspn(*at, ",");
}

static bool has_name(const char *names, const char *name, size_t length) {
    for (size_t other; (other = next_name(&names)) > 0; names += other)
        if (other == length && memcmp(names, name, length) == 0)
            return true;
    return false;
}

/* Count the first names that are not among the second. */
static size_t count_others(const char *names, const char *among) {
    size_t count = 0;
    for (size_t length; (length = next_name(&names)) > 0; names += length)
        count += !has_name(among, names, length);
    return count;
}

bool hf_members_agree(const char *one, const char *other) {
    const char *names = strrchr(one, ' '), *theirs = strrchr(other, ' ');
    if (names == NULL || theirs == NULL || names - one != theirs - other ||
        memcmp(one, other, (size_t)(names - one)) != 0)
        return false;
    return count_others(names + 1, theirs + 1) + count_others(theirs + 1, names + 1) <= 1;
}

/* -------------------------------------------------------------- Log-ins */

static hf_status check_run(const hf_members *members, size_t at, const hf_run *run) {
    const hf_member *member = &members->of[at];
    for (size_t i = 0; i < members->count; i++)
        if (i != at && strcmp(members->of[i].run.id, run->id) == 0)
            return hf_fail(HF_EINVAL,
                           "%s and %s are one server: each master of a quorum must be a server of "
                           "its own",
                           members->of[i].shown, member->shown);
    if (strcmp(member->run.id, run->id) != 0 && strcmp(member->before, run->id) == 0)
        return hf_fail(HF_EINVAL,
                       "several servers answer at %s: each master of a quorum needs a name that "
                       "leads to it alone",
                       member->shown);
    return HF_OK;
}

hf_status hf_member_met(hf_members *members, size_t at, const hf_run *run, int64_t sent_at) {
    int64_t now = hf_now();
    hf_member *member = &members->of[at];
    HF_HOLDING(&members->mutex);
    bool same = strcmp(member->run.id, run->id) == 0, first = member->run.id[0] == '\0';
    if (!same && sent_at < member->seen_at) { /* it is not known which of the two was first */
        HF_MARK("H90");
        return hf_fail(HF_ECONNECT, "it has been restarted meanwhile");
    }
    hf_status status = check_run(members, at, run);
    if (status != HF_OK) {
        member->lets_in = false;
        return status;
    }
    int64_t up_s = run->uptime_s > UPTIME_ERROR_S ? run->uptime_s - UPTIME_ERROR_S : 0;
    int64_t started_at = up_s < HF_LEASE_MAX / 1000 ? now - up_s * 1000 * HF_MS : INT64_MIN;
    if (first)
        member->started_at = started_at;
    else if (!same && started_at < member->seen_at)
        member->started_at = member->seen_at; /* by its clock it began earlier: the clock has
                                               * stepped */
    else if (started_at > member->started_at)
        member->started_at = started_at;
    if (!same && !first)
        memcpy(member->before, member->run.id, sizeof member->before);
    member->run = *run;
    member->seen_at = now;
    if (run->server_us > 0 && now < hf_after(sent_at, HF_TRIP_MAX_MS)) {
        member->pair_sent = sent_at;
        member->pair_server = run->server_us;
    }
    return HF_OK;
}

hf_status hf_member_lists(hf_members *members, size_t at, const char *found) {
    HF_HOLDING(&members->mutex);
    hf_member *member = &members->of[at];
    member->lets_in = hf_members_agree(members->list, found);
    if (member->lets_in)
        return HF_OK;
    return hf_fail(HF_EINVAL,
                   "%s belongs to another quorum: its key %s has %s, and this client has %s: lists "
                   "may differ by one master, and must have one quarantine",
                   member->shown, HF_MEMBERS_KEY, hf_quote(found, strlen(found)), members->list);
}

bool hf_members_let_in(hf_members *members) {
    HF_HOLDING(&members->mutex);
    for (size_t i = 0; i < members->count; i++)
        if (!members->of[i].lets_in)
            return false;
    return true;
}

void hf_member_answered(hf_members *members, size_t at, int64_t sent_at, int64_t server_us) {
    hf_member *member = &members->of[at];
    HF_HOLDING(&members->mutex);
    member->seen_at = hf_later(member->seen_at, sent_at);
    if (server_us > 0 && sent_at > member->pair_sent) {
        member->pair_sent = sent_at;
        member->pair_server = server_us;
    }
}

/* ---------------------------------------------------------------- Queries */

int64_t hf_member_young_ms(hf_members *members, size_t at, int64_t sent_at) {
    HF_HOLDING(&members->mutex);
    const hf_member *member = &members->of[at];
    bool known = member->run.id[0] != '\0' && member->started_at != INT64_MIN;
    if (!known || members->quarantine_ms == 0)
        return 0;
    return hf_until(hf_after(member->started_at, members->quarantine_ms), sent_at);
}

int64_t hf_members_clock(hf_members *members, int64_t now) {
    int64_t newest = 0;
    HF_HOLDING(&members->mutex);
    for (size_t i = 0; i < members->count; i++) {
        const hf_member *member = &members->of[i];
        int64_t us = member->pair_server + (now - member->pair_sent) / 1000;
        if (member->pair_server > 0 && us > newest)
            newest = us;
    }
    return newest;
}
