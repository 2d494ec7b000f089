/*
 * All locks of a server or a cluster: a walk over the keys of its masters, by SCAN. Two scans run
 * side by side: over hashes, which may be locks, and over queues, which also reveal a lock that is
 * free, or that another library holds; and, on request, one over the records of calls. A stored
 * limit is a hash, which the first scan finds, unless a pattern hides its key. The locks of a page
 * are inspected in one write.
 *
 * A key is on one node at a time, but its slot may move from a node that has not been walked to a
 * node that has. So if a slot moved, all nodes are walked once more: a key that is missed twice
 * would have had to move twice.
 */
#include <stdlib.h>
#include <string.h>

#include "lock/quorum.h"
#include "look/glob.h"
#include "look/node.h"
#include "look/set.h"
#include "look/view.h"
#include "look/wire.h"
#include "net/map.h"

#define PAGE 100 /* the number of keys that one SCAN looks at */
/* How many locks are inspected in one write, while other clients wait for the server. */
#define BATCH HF_NODE_MOST
#define SCAN_COST 3 /* one SCAN takes the server as long as this many looks at a lock */
#define SLEEP_MS 50 /* how often a language looks for signals */

typedef enum { LOCKS, QUEUES, RECORDS, LIMITS, SCANS } scan;

/* A key that may be a lock's. */
typedef struct suspect {
    hf_item item;
    hf_names *names;
    scan kind; /* the scan that found it */
} suspect;

/* A node in this pass. */
typedef struct place {
    bool walked, failed; /* failed: it was not walked to its end */
    unsigned version;    /* of the node that was walked */
    int64_t keys;
    bool known; /* `keys` is known */
    bool moving;
    uint64_t slots;
} place;

struct hf_locks {
    hf_client *opener;      /* with a reference */
    hf_client *client;      /* the client whose servers are walked: its own, or one of its
                             * masters' */
    pthread_mutex_t mutex;  /* guards `client` and all members below: a binding may call from two
                             * threads */
    bool records;           /* list records, too */
    int64_t rate, ready_at; /* looks per second, or HF_NEVER; when the next may be sent */
    size_t place_count;
    place *places;
    int passes, node;                    /* the node that is being walked, or -1 */
    char cursors[SCANS][HF_CURSOR_SIZE]; /* "": the scan has ended */
    hf_list suspects;
    hf_view *found[BATCH];
    size_t found_count, found_at;
    hf_set *told;
    int64_t seen, total, told_count, refused;
    int64_t node_seen,
        surveyed; /* keys seen on this node; how many nodes have reported their number of keys */
    int64_t commands, trips, answer_us;
    bool unknown_total, over;
    pthread_mutex_t telling; /* guards `progress` after the last step; it is taken within `mutex` */
    hf_progress progress;
    hf_status trouble; /* a node's failure, to be reported next */
    hf_error why;
    size_t pattern_length;
    char pattern[];
};

/* ------------------------------------------------------------------ Pace */

/* Wait until `looks` looks may be sent. */
static hf_status pace(hf_locks *locks, size_t looks) {
    int64_t now = hf_now();
    do { /* at least once, for signals */
        int64_t ms = hf_until(locks->ready_at, now);
        hf_status status = hf_client_sleep(locks->opener, ms < SLEEP_MS ? ms : SLEEP_MS, false);
        if (status != HF_OK)
            return status;
        now = hf_now();
    } while (locks->ready_at > now + HF_MS);
    if (locks->rate == HF_NEVER)
        return HF_OK;
    locks->ready_at = (locks->ready_at > now - 10 * HF_MS ? locks->ready_at : now) +
                      (int64_t)looks * (1000 * HF_MS / locks->rate);
    return HF_OK;
}

/* Count commands that were answered. */
static void count_trip(hf_locks *locks, size_t commands, int64_t sent_at) {
    locks->commands += (int64_t)commands;
    locks->trips++;
    locks->answer_us += (hf_now() - sent_at) / 1000;
}

/* Send one write to the node that is being walked. Frees the requests. */
static hf_status ask(hf_locks *locks, int node, hf_request *requests, size_t count, size_t cost,
                     redisReply **replies) {
    hf_status status = pace(locks, cost);
    if (status == HF_OK) {
        int64_t now = hf_now();
        status = hf_node_ask_all(locks->client, node, requests, count, replies);
        count_trip(locks, count, now);
    }
    for (size_t i = 0; i < count; i++)
        hf_request_free(&requests[i]);
    return status;
}

/* ------------------------------------------------------------- The nodes */

/* Ask a node for its number of keys, and its slots. */
static hf_status survey(hf_locks *locks, int node, place *told) {
    hf_request requests[2];
    redisReply *replies[2];
    size_t count = hf_discovery_clustered(locks->client->transport->discovery) ? 2 : 1;
    hf_request_dbsize(&requests[0]);
    if (count == 2)
        hf_request_nodes(&requests[1]);
    hf_status status = ask(locks, node, requests, count, count, replies);
    *told = (place){0};
    if (status != HF_OK)
        return status;
    told->known = replies[0]->type == REDIS_REPLY_INTEGER && replies[0]->integer >= 0;
    told->keys = told->known ? replies[0]->integer : 0;
    if (count == 2 && !hf_reply_slots(replies[1], &told->slots, &told->moving))
        told->moving = true; /* not known: assume that a slot is moving */
    hf_replies_free(replies, count);
    return HF_OK;
}

static bool is_serving(const hf_locks *locks, size_t node) {
    return hf_discovery_serves(locks->client->transport->discovery, (int)node);
}

static size_t count_nodes(const hf_locks *locks) {
    size_t count = hf_discovery_nodes(locks->client->transport->discovery);
    return count < locks->place_count ? count : locks->place_count;
}

/* Return whether the status concerns one node: it does not end the walk, and a node that does not
 * answer is reported when it is walked. */
static bool is_nodes(hf_status status) {
    return status == HF_ECONNECT || status == HF_ESERVER || status == HF_EAUTH ||
           status == HF_EPROTOCOL || status == HF_EUNSUPPORTED;
}

/* Look for the nodes. Returns HF_OK, or the reason why the walk has ended. */
static hf_status refresh(hf_locks *locks) {
    hf_status status = hf_discovery_refresh(locks->client->transport->discovery,
                                            hf_client_patience(locks->client));
    locks->over = is_nodes(status);
    return status;
}

static hf_status ping(hf_client *master, hf_request *request, redisReply **reply) {
    (void)request;
    return hf_node_ask(master, 0, NULL, &(const hf_words){1, {"PING"}}, reply);
}

/* Return the client of one master: among several, of the first that answers. */
static hf_client *choose_master(hf_client *client) {
    hf_gathering *of = client->quorum != NULL ? hf_gathering_new(client, ping) : NULL;
    if (of == NULL)
        return client;
    size_t at = 0;
    hf_gathering_run(of);
    while (at < of->masters && !(of->from[at].answered && of->from[at].status == HF_OK))
        at++;
    hf_client *chosen = client->quorum->masters[at < of->masters ? at : 0].client;
    hf_gathering_drop(of);
    return chosen;
}

static hf_status begin_pass(hf_locks *locks) {
    if (locks->passes == 0)
        locks->client = choose_master(locks->opener);
    hf_status status = refresh(locks);
    if (status != HF_OK)
        return status;
    memset(locks->places, 0, locks->place_count * sizeof *locks->places);
    locks->passes++;
    return HF_OK;
}

static void rewind_node(hf_locks *locks) {
    locks->places[locks->node].version =
        hf_discovery_version(locks->client->transport->discovery, locks->node);
    locks->node_seen = 0;
    for (int i = 0; i < SCANS; i++)
        strcpy(locks->cursors[i],
               (i != RECORDS || locks->records) &&
                       (i != LIMITS || strncmp(locks->pattern, "*", locks->pattern_length) != 0)
                   ? "0"
                   : "");
}

static hf_status begin_node(hf_locks *locks, int node) {
    place told;
    locks->node = node;
    rewind_node(locks);
    hf_status status = survey(locks, node, &told);
    if (status != HF_OK) {
        locks->node = is_nodes(status) ? node : -1;
        return status;
    }
    told.version = locks->places[node].version;
    locks->places[node] = told;
    locks->surveyed++;
    locks->total += told.keys;
    locks->unknown_total = locks->unknown_total || !told.known;
    return HF_OK;
}

static void end_node(hf_locks *locks) {
    locks->places[locks->node].walked = true;
    locks->seen += locks->places[locks->node].keys;
    locks->node_seen = 0;
    locks->node = -1;
}

static bool is_due(const hf_locks *locks, size_t node) {
    const place *at = &locks->places[node];
    return is_serving(locks, node) &&
           !(at->walked &&
             at->version == hf_discovery_version(locks->client->transport->discovery, (int)node));
}

/* Return the next node to walk; -1: all are walked. */
static int next_node(const hf_locks *locks) {
    for (size_t i = 0; i < count_nodes(locks); i++)
        if (is_due(locks, i))
            return (int)i;
    return -1;
}

/* Find out whether a slot has another node than at the beginning of the pass, or is being moved. */
static hf_status find_moves(hf_locks *locks, bool *moved) {
    *moved = false;
    for (size_t i = 0; i < count_nodes(locks) && !*moved; i++) {
        const place *at = &locks->places[i];
        place now;
        if (!at->walked || at->failed)
            continue;
        hf_status status = survey(locks, (int)i, &now);
        if (status != HF_OK && !is_nodes(status))
            return status;
        *moved = status != HF_OK || at->moving || now.moving || now.slots != at->slots;
    }
    return HF_OK;
}

static hf_status end_pass(hf_locks *locks) {
    bool moved = false;
    if (!hf_discovery_clustered(locks->client->transport->discovery) || locks->passes == 2) {
        locks->over = true;
        return HF_OK;
    }
    hf_status status = refresh(locks);
    if (status != HF_OK || next_node(locks) >= 0)
        return status; /* a node that began to serve meanwhile is part of this pass */
    status = find_moves(locks, &moved);
    if (status == HF_OK && moved)
        return begin_pass(locks);
    locks->over = status == HF_OK;
    return status;
}

/* -------------------------------------------------------------- Suspects */

static void drop_suspect(hf_locks *locks) {
    suspect *first = HF_OF(suspect, item, hf_list_take_first(&locks->suspects));
    hf_names_drop(first->names);
    free(first);
}

/* Return the lock whose companion that key is: its queue (letter q), record (r) or limit (f).
 * HF_EINVAL, without a message: it belongs to no lock. */
static hf_status names_of(const char *key, size_t length, char letter, hf_names **names_out) {
    const char end[] = {':', 'h', 'f', '1', ':', letter};
    const char *close = length > 0 && *key == '{' ? memchr(key, '}', length) : NULL;
    if (close == NULL || length < sizeof end || (size_t)(close + 1 - key) > length - sizeof end ||
        memcmp(key + length - sizeof end, end, sizeof end) != 0)
        return HF_EINVAL;
    size_t tagged = length - sizeof end + 1; /* "{tag}name:" */
    hf_status status =
        hf_names_new(close + 1, tagged - 1 - (size_t)(close + 1 - key), 0, names_out);
    if (status != HF_OK)
        return status;
    const hf_names *names = *names_out;
    if (names->tagged == tagged && memcmp(names->companion, key, tagged) == 0)
        return HF_OK;
    hf_names_drop(*names_out);
    return HF_EINVAL;
}

static hf_status suspect_key(hf_locks *locks, scan kind, const char *key, size_t length) {
    hf_names *names;
    static const char letters[] = {[QUEUES] = 'q', [RECORDS] = 'r', [LIMITS] = 'f'};
    hf_status status = kind == LOCKS ? hf_names_new(key, length, 0, &names) : HF_EINVAL;
    if (status == HF_EINVAL) {
        kind = kind == LOCKS ? LIMITS : kind;
        status = names_of(key, length, letters[kind], &names);
    }
    if (status == HF_EINVAL)
        return HF_OK; /* no lock can have this name */
    if (status != HF_OK)
        return status;
    bool wanted = !hf_set_has(locks->told, names->data, names->length) &&
                  (kind == LOCKS ||
                   hf_glob(locks->pattern, locks->pattern_length, names->data, names->length));
    suspect *one = wanted ? calloc(1, sizeof *one) : NULL;
    if (one == NULL) {
        hf_names_drop(names);
        return wanted ? hf_fail(HF_ENOMEM, "no memory") : HF_OK;
    }
    one->names = names;
    one->kind = kind;
    hf_list_add_last(&locks->suspects, &one->item);
    return HF_OK;
}

/* Return the error of SCAN, with the message that the permissions script would make, which does not
 * check SCAN. */
static hf_status refused_scan(hf_locks *locks, const redisReply *reply) {
    char shown[300];
    hf_status status;
    hf_discovery_show(locks->client->transport->discovery, locks->node, shown, sizeof shown);
    hf_transport_error(locks->client->transport, shown, reply->str, &status);
    if (strncmp(reply->str, "NOPERM", 6) == 0)
        hf_explain("%.300s; missing: +scan", hf_error_message());
    return status;
}

static hf_status read_page(hf_locks *locks, scan kind, const redisReply *reply) {
    char cursor[HF_CURSOR_SIZE];
    size_t count, length;
    if (reply->type == REDIS_REPLY_ERROR)
        return refused_scan(locks, reply);
    if (!hf_reply_scan(reply, cursor, &count))
        return hf_unexpected("SCAN");
    hf_status status = HF_OK;
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        const char *key = hf_reply_key(reply, i, &length);
        status = suspect_key(locks, kind, key, length);
    }
    if (status != HF_OK)
        return status;
    strcpy(locks->cursors[kind], strcmp(cursor, "0") == 0 ? "" : cursor);
    if (kind == LOCKS)
        locks->node_seen += PAGE;
    return HF_OK;
}

/* Read the next page of each scan, in one write. */
static hf_status turn_page(hf_locks *locks) {
    hf_request requests[SCANS];
    redisReply *replies[SCANS];
    scan kinds[SCANS];
    size_t count = 0;
    for (int kind = 0; kind < SCANS; kind++) {
        const char *cursor = locks->cursors[kind];
        if (*cursor == '\0')
            continue;
        static const char *const suffixed[] = {
            [QUEUES] = "{*:hf1:q", [RECORDS] = "{*:hf1:r", [LIMITS] = "{*:hf1:f"};
        const char *own = suffixed[kind];
        const void *pattern = kind == LOCKS ? locks->pattern : own;
        hf_request_scan(&requests[count], cursor, PAGE, kind == QUEUES ? "zset" : "hash", pattern,
                        kind == LOCKS ? locks->pattern_length : strlen(own));
        kinds[count++] = (scan)kind;
    }
    if (count == 0) {
        end_node(locks);
        return HF_OK;
    }
    hf_status status = ask(locks, locks->node, requests, count, SCAN_COST * count, replies);
    if (status != HF_OK)
        return status;
    /* A cursor is valid only on the server that gave it. */
    if (hf_discovery_version(locks->client->transport->discovery, locks->node) !=
        locks->places[locks->node].version)
        rewind_node(locks);
    else
        for (size_t i = 0; i < count && status == HF_OK; i++)
            status = read_page(locks, kinds[i], replies[i]);
    hf_replies_free(replies, count);
    return status;
}

/* ----------------------------------------------------------------- Looks */

/* Return whether the key is a lock. A key of another type or form is a lock if an acquire of ours
 * waits for it, or if it is one of Redisson's or a damaged one of ours. */
static bool is_lock(const hf_found *found, const suspect *one) {
    return (found->held && !found->plain) || found->waiters > 0 || found->permits > 0 ||
           (found->moving && one->kind != LOCKS); /* then that key could not be read */
}

/* Take one answer. Takes the reply over. */
static hf_status look(hf_locks *locks, const suspect *one, redisReply *reply) {
    hf_view *view;
    if (reply->type == REDIS_REPLY_ERROR) {
        bool hidden = hf_error_key(reply->str);
        freeReplyObject(reply);
        locks->refused += hidden;
        if (hidden)
            return HF_OK;
        int64_t now = hf_now();
        hf_status status =
            hf_node_inspect(locks->client, one->names, 0, HF_VIEW_MAX, false, &reply);
        count_trip(locks, 1, now);
        if (status != HF_OK)
            return status;
    }
    hf_status status = hf_view_new(one->names, reply, &view);
    if (status != HF_OK)
        return status;
    const void *name = one->names->data;
    bool tells =
        (is_lock(hf_view_found(view), one) || (locks->records && hf_view_recorded(view))) &&
        !hf_set_has(locks->told, name, one->names->length);
    if (tells && !hf_set_add(locks->told, name, one->names->length)) {
        hf_view_close(view);
        return hf_fail(HF_ENOMEM, "no memory");
    }
    if (tells)
        locks->found[locks->found_count++] = view;
    else
        hf_view_close(view);
    return HF_OK;
}

static hf_status look_at_suspects(hf_locks *locks) {
    hf_request requests[BATCH];
    redisReply *replies[BATCH];
    size_t count = 0;
    locks->found_count = locks->found_at = 0;
    HF_EACH(at, &locks->suspects)
    if (count < BATCH)
        hf_request_inspect(&requests[count++], HF_OF(suspect, item, at)->names, 0, HF_VIEW_MAX,
                           false);
    hf_status status = ask(locks, locks->node, requests, count, count, replies);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        if (status == HF_OK)
            status = look(locks, HF_OF(suspect, item, locks->suspects.first), replies[i]);
        else
            freeReplyObject(replies[i]);
        if (status == HF_OK)
            drop_suspect(locks);
    }
    return status;
}

/* -------------------------------------------------------------- The walk */

/* Skip the rest of this node, which is then not listed. */
static hf_status skip_node(hf_locks *locks, hf_status status) {
    char shown[128];
    hf_discovery_show(locks->client->transport->discovery, locks->node, shown, sizeof shown);
    while (locks->suspects.first != NULL)
        drop_suspect(locks);
    locks->places[locks->node].failed = true;
    end_node(locks);
    return hf_fail(status, "not all locks of %.120s are listed: %.250s", shown, hf_error_message());
}

/* Do one piece of work. next: the node to begin with, if none is being walked. */
static hf_status work(hf_locks *locks, int next) {
    if (locks->node < 0)
        return begin_node(locks, next);
    return locks->suspects.first != NULL ? look_at_suspects(locks) : turn_page(locks);
}

/* Take one step towards the next lock. */
static hf_status step(hf_locks *locks) {
    hf_status trouble = locks->trouble;
    locks->trouble = HF_OK;
    if (trouble != HF_OK) {
        hf_error_set(&locks->why);
        return trouble;
    }
    if (locks->passes == 0)
        return begin_pass(locks);
    int next = locks->node < 0 ? next_node(locks) : -1; /* once: slots may move meanwhile */
    if (locks->node < 0 && next < 0)
        return end_pass(locks);
    hf_status status = work(locks, next);
    if (!is_nodes(status))
        return status;
    bool serves = is_serving(locks, (size_t)locks->node);
    status = skip_node(locks, status);
    return serves ? status : HF_OK; /* the nodes that serve its slots now are walked, too */
}

/* Estimate the number of keys: nodes that have not reported yet are taken to be like the others. */
static int64_t expected_keys(const hf_locks *locks) {
    int64_t due = 0;
    for (size_t i = 0; !locks->over && i < count_nodes(locks); i++)
        due += (int)i != locks->node && is_due(locks, i);
    return locks->total + due * (locks->total / locks->surveyed);
}

/* Note the progress for hf_locks_progress(), which waits for no step: a signal handler may call it
 * during one. */
static void note_progress(hf_locks *locks) {
    int64_t keys = locks->node >= 0 ? locks->places[locks->node].keys : 0;
    hf_progress progress = {
        .locks = locks->told_count,
        .keys_seen = locks->seen + (locks->node_seen < keys ? locks->node_seen : keys),
        .keys = locks->unknown_total || locks->surveyed == 0 ? -1 : expected_keys(locks),
        .refused = locks->refused,
        .commands = locks->commands,
        .round_trips = locks->trips,
        .answer_us = locks->answer_us,
    };
    HF_HOLDING(&locks->telling);
    locks->progress = progress;
}

static hf_status find_next(hf_locks *locks, hf_lock_info *info, hf_view **view_out) {
    hf_status status = hf_client_check(locks->opener);
    while (status == HF_OK && locks->found_at == locks->found_count &&
           (!locks->over || locks->trouble != HF_OK)) {
        status = step(locks);
        note_progress(locks);
        hf_status closed = hf_client_check(locks->opener);
        status = closed != HF_OK ? closed : status;
    }
    if (locks->found_at == locks->found_count)
        return status;
    if (is_nodes(status)) { /* reported after the locks found before it */
        locks->trouble = status;
        locks->why = *hf_error_last();
    }
    *view_out = locks->found[locks->found_at++];
    locks->told_count++;
    note_progress(locks);
    if (info != NULL)
        hf_view_tell(*view_out, info);
    return HF_OK;
}

hf_status hf_locks_next(hf_locks *locks, hf_lock_info *info, hf_view **view_out) {
    HF_NOT_CANCELLED;
    if (view_out != NULL)
        *view_out = NULL;
    if (locks == NULL || view_out == NULL || (info != NULL && info->size < sizeof info->size))
        return hf_fail(HF_EINVAL, "a pointer is NULL, or hf_lock_info.size is not set");
    if (hf_client_inherited(locks->opener))
        return hf_client_check(locks->opener); /* another thread may have held the mutex */
    HF_HOLDING(&locks->mutex);
    return find_next(locks, info, view_out);
}

/* ------------------------------------------------------------ Open, close */

hf_status hf_locks_open(hf_client *client, const void *pattern, size_t pattern_len,
                        const hf_locks_options *options, hf_locks **locks_out) {
    hf_locks_options chosen;
    if (locks_out == NULL)
        return hf_fail(HF_EINVAL, "locks_out is NULL");
    *locks_out = NULL;
    hf_status status = hf_client_check(client);
    if (status == HF_OK)
        status = hf_options_copy(&chosen, sizeof chosen, options, "hf_locks_options");
    if (status != HF_OK)
        return status;
    if (pattern == NULL && pattern_len == 0)
        pattern = "*", pattern_len = 1;
    if (pattern == NULL || pattern_len == 0 || pattern_len > HF_NAME_MAX)
        return hf_fail(HF_EINVAL, "the pattern has %zu bytes: it takes 1 to %d", pattern_len,
                       HF_NAME_MAX);
    if (chosen.rate < HF_NEVER || chosen.rate > 1000000)
        return hf_fail(HF_EINVAL,
                       "a rate of %lld: it takes 1 to 1000000 reads a second, or "
                       "HF_NEVER for no limit",
                       (long long)chosen.rate);
    if ((chosen.flags & ~HF_LOCKS_RECORDS) != 0)
        return hf_fail(HF_EINVAL, "the flags of a walk have an unknown bit");
    hf_locks *locks = calloc(1, sizeof *locks + pattern_len);
    size_t places = hf_discovery_clustered(client->transport->discovery) ? HF_NODES_MAX : 1;
    if (locks != NULL) {
        locks->places = calloc(places, sizeof *locks->places);
        locks->told = hf_set_new();
    }
    if (locks == NULL || locks->places == NULL || locks->told == NULL) {
        if (locks != NULL) {
            free(locks->places);
            hf_set_free(locks->told);
        }
        free(locks);
        return hf_fail(HF_ENOMEM, "no memory");
    }
    pthread_mutex_init(&locks->mutex, NULL);
    pthread_mutex_init(&locks->telling, NULL);
    locks->opener = locks->client = hf_client_keep(client);
    locks->records = (chosen.flags & HF_LOCKS_RECORDS) != 0;
    locks->rate = chosen.rate == 0 ? HF_RATE_DEFAULT : chosen.rate;
    locks->node = -1;
    locks->place_count = places;
    locks->pattern_length = pattern_len;
    memcpy(locks->pattern, pattern, pattern_len);
    note_progress(locks);
    *locks_out = locks;
    return HF_OK;
}

hf_status hf_locks_progress(hf_locks *locks, hf_progress *progress) {
    if (locks == NULL || progress == NULL || progress->size < sizeof progress->size)
        return hf_fail(HF_EINVAL, "a pointer is NULL, or hf_progress.size is not set");
    if (hf_client_inherited(locks->opener))
        return hf_client_check(locks->opener);
    HF_HOLDING(&locks->telling);
    hf_struct_tell(progress, &locks->progress, sizeof locks->progress);
    return HF_OK;
}

void hf_locks_close(hf_locks *locks) {
    if (locks == NULL || hf_client_inherited(locks->opener))
        return;
    while (locks->suspects.first != NULL)
        drop_suspect(locks);
    while (locks->found_at < locks->found_count)
        hf_view_close(locks->found[locks->found_at++]);
    pthread_mutex_destroy(&locks->mutex);
    pthread_mutex_destroy(&locks->telling);
    hf_set_free(locks->told);
    hf_client_drop(locks->opener);
    free(locks->places);
    free(locks);
}
