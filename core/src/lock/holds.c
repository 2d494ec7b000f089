#include "lock/holds.h"

#include <stdlib.h>
#include <string.h>

#include "base/simulated.h"
#include "lock/quorum.h"

#define FLOORS 1024
#define LIMITS 256

struct hf_table {
    hf_list holds;   /* all holds that may still be on the server */
    hf_index stacks; /* the same holds by name and owner, newest first */
    struct {
        uint64_t hash;
        int64_t fence;
        hf_hold *hold; /* the last hold that an answer showed, or, if that hold has ended, that a
                        * message granted; exclusive, and still in the table */
    } floors[FLOORS];  /* the highest fences seen; a newer name takes the place of an older one */
    struct {
        uint64_t hash;
        int64_t permits, per_ms;
    } limits[LIMITS]; /* reported by servers; a newer name takes the place of an older one */
    int64_t numbers;
    size_t failing; /* how many holds have failing renewals */
};

/* ------------------------------------------------------------ The object */

hf_hold *hf_hold_new(hf_client *client, hf_names *names, const void *owner, size_t owner_length) {
    /* malloc(): the GNU library's calloc() reuses no memory that this thread has just freed. */
    hf_hold *hold = malloc(sizeof *hold + owner_length);
    if (hold == NULL)
        return NULL;
    memset(hold, 0, sizeof *hold);
    hold->references = 1;
    hold->client = hf_client_keep(client);
    hold->names = hf_names_keep(names);
    hold->server = hf_discovery_place(client->transport->discovery, names->slot);
    hold->owner_length = owner_length;
    memcpy(hold->owner, owner, owner_length);
    return hold;
}

hf_status hf_hold_note(hf_hold *hold, const void *note, size_t length) {
    size_t before = hold->owner_length + HF_NOTE_MARK_LENGTH;
    if (length == 0)
        return HF_OK;
    if (before + length > HF_OWNER_MAX)
        return hf_fail(HF_EINVAL, "the owner and the note have %zu bytes together: up to %zu",
                       hold->owner_length + length, (size_t)HF_OWNER_MAX - HF_NOTE_MARK_LENGTH);
    hold->text = malloc(before + length);
    if (hold->text == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    memcpy(hold->text, hold->owner, hold->owner_length);
    memcpy(hold->text + hold->owner_length, HF_NOTE_MARK, HF_NOTE_MARK_LENGTH);
    memcpy(hold->text + before, note, length);
    hold->text_length = before + length;
    return HF_OK;
}

/* Copy the text of the outer hold: the server lets a hold nest only in a hold with the same text.
 * False: no memory. */
static bool take_text(hf_hold *hold, const hf_hold *outer) {
    char *text = NULL;
    if (outer->text == NULL && hold->text == NULL)
        return true;
    if (outer->text != NULL) {
        text = malloc(outer->text_length);
        if (text == NULL)
            return false;
        memcpy(text, outer->text, outer->text_length);
    }
    free(hold->text);
    hold->text = text;
    hold->text_length = outer->text_length;
    return true;
}

hf_hold *hf_hold_like(hf_client *client, const hf_hold *hold) {
    hf_hold *made = hf_hold_new(client, hold->names, hold->owner, hold->owner_length);
    if (made == NULL)
        return NULL;
    if (!take_text(made, hold)) {
        hf_hold_drop(made);
        return NULL;
    }
    hf_validity_begin(&made->validity, hold->validity.lease_ms);
    made->terms = hold->terms;
    return made;
}

hf_hold *hf_hold_for(hf_client *client, const hf_hold *hold) {
    hf_hold *made = hf_hold_like(client, hold);
    if (made == NULL)
        return NULL;
    made->terms.reentrant = made->terms.whole = false;
    made->terms.lock_serial = 0;
    made->terms.counting = hf_numbers_common(client);
    return made;
}

hf_status hf_hold_equip_locked(hf_hold *hold) {
    hf_client *client = hold->client;
    if (hold->equipped)
        return HF_OK;
    bool told = hf_completions_wanted_locked(client);
    if (told && hold->news == NULL)
        hold->news = hf_news_new(&(hf_completion){0});
    hold->equipped = (!told || hold->news != NULL) && hf_timer_reserve(&client->timers);
    return hold->equipped ? HF_OK : hf_fail(HF_ENOMEM, "no memory");
}

hf_hold *hf_hold_grab(hf_hold *hold) {
    __atomic_add_fetch(&hold->references, 1, __ATOMIC_RELAXED);
    return hold;
}

void hf_hold_drop(hf_hold *hold) {
    if (hold == NULL || __atomic_sub_fetch(&hold->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    hf_client *client = hold->client;
    if (hold->equipped)
        hf_timer_unreserve(&client->timers);
    hf_names_drop(hold->names);
    free(hold->news);
    free(hold->once);
    free(hold->text);
    free(hold);
    hf_client_drop(client);
}

void hf_hold_begin(hf_hold *hold, int64_t fence, int64_t began_at, int64_t deadline) {
    hold->fence = fence;
    hold->began_at = began_at;
    hold->validity.deadline = deadline;
    hold->validity.lengthened_at = began_at;
    hold->validity.end = HF_NO_DEADLINE;
    if (hold->terms.max_hold_ms > 0)
        hf_validity_end_by(&hold->validity, hf_after(began_at, hold->terms.max_hold_ms));
    hold->reached = -1;
    hold->stray = true;
    hold->state = HF_STATE_HELD;
}

static inline int64_t deadline_alone(const hf_hold *hold) {
    if (hold->ballot != NULL)
        hold->client->quorum->ways->count(hold, false);
    return hold->validity.deadline;
}

const hf_hold *hf_hold_first_to_end(const hf_hold *hold) {
    const hf_hold *first = hold;
    for (const hf_hold *at = hold->joined; at != NULL && at != hold; at = at->joined)
        if (deadline_alone(at) < first->validity.deadline)
            first = at;
    return first;
}

static inline int64_t deadline_of(const hf_hold *hold) {
    int64_t deadline = deadline_alone(hold);
    return hold->joined != NULL ? hf_hold_first_to_end(hold)->validity.deadline : deadline;
}

void hf_hold_part_locked(hf_hold *hold) {
    hf_hold *before = hold->joined;
    while (before->joined != hold)
        before = before->joined;
    before->joined = hold->joined != before ? hold->joined : NULL; /* a single hold is in no ring */
    hold->joined = NULL;
}

int hf_hold_state_now(const hf_hold *hold, int64_t now) {
    int64_t deadline = hold->state == HF_STATE_HELD ? deadline_of(hold) : HF_NO_DEADLINE;
    if (hold->ballot != NULL) /* the mutexes of its masters' clients may have been waited for */
        now = hf_now();
    return now >= deadline ? HF_STATE_LOST : hold->state;
}

static int why_lost(const hf_hold *hold) {
    if (hold->cause == HF_CAUSE_GONE)
        return HF_WHY_GONE;
    if (hf_hold_first_to_end(hold) != hold)
        return HF_WHY_JOINED + hold->cause;
    return hold->cause == HF_CAUSE_UNREACHABLE ? HF_WHY_UNREACHABLE
           : hold->terms.renew                 ? HF_WHY_MAX_HOLD
                                               : HF_WHY_LEASE;
}

void hf_hold_count_cause_locked(const hf_hold *hold) {
    hf_stats *stats = &hold->terms.counting.tally->stats;
    stats->lost_gone += hold->cause == HF_CAUSE_GONE;
    stats->lost_unreachable += hold->cause == HF_CAUSE_UNREACHABLE;
    stats->lost_expired += hold->cause == HF_CAUSE_EXPIRED;
}

void hf_hold_count_loss_locked(hf_hold *hold, int64_t now) {
    if (hold->why == HF_WHY_UNKNOWN)
        __atomic_store_n(&hold->why, why_lost(hold), __ATOMIC_RELAXED);
    if (hold->counts_since != 0)
        hf_hold_count_cause_locked(hold);
    hf_hold_count_end_locked(hold, now);
}

hf_ask hf_hold_ask(const hf_hold *hold) {
    size_t length;
    const char *owner = hf_hold_text(hold, &length);
    /* A weight without permits is never granted: it is the request for the limit. */
    bool asks = hold->terms.gate && hold->terms.permits == 0 && hold->terms.weight < 2;
    return (hf_ask){.id = hold->id,
                    .owner = owner,
                    .owner_length = length,
                    .lease_ms = hold->validity.lease_ms,
                    .mode = hold->terms.mode,
                    .permits = hold->terms.permits,
                    .weight = asks ? 2 : hold->terms.weight,
                    .ahead_ms = hold->terms.ahead_ms,
                    .reentrant = hold->nests,
                    .inside = hold->inside[0] != '\0' ? hold->inside : NULL};
}

void hf_hold_release_request(hf_request *request, const hf_hold *hold, bool again) {
    hf_ask ask = hf_hold_ask(hold);
    int64_t fence = again && hold->out > 0 ? 0 : hold->fence;
    hf_request_release(request, hold->names, &ask, fence, hold->out > 0);
    request->hands_on = hold->waited;
}

hf_renewal hf_hold_renewal(const hf_hold *hold, int64_t lease_ms, hf_renew_mode mode) {
    return (hf_renewal){.names = hold->names,
                        .id = hold->id,
                        .fence = hold->fence,
                        .lease_ms = mode != HF_RENEW_KEEP
                                        ? hf_validity_ask_ms(&hold->validity, hf_now(), lease_ms)
                                        : lease_ms,
                        .mode = mode,
                        .one_of_many = hold->one_of_many};
}

static int cause_of(int why) {
    static const int causes[] = {[HF_WHY_UNKNOWN] = HF_CAUSE_NONE,
                                 [HF_WHY_LEASE] = HF_CAUSE_EXPIRED,
                                 [HF_WHY_MAX_HOLD] = HF_CAUSE_EXPIRED,
                                 [HF_WHY_GONE] = HF_CAUSE_GONE,
                                 [HF_WHY_UNREACHABLE] = HF_CAUSE_UNREACHABLE};
    return why >= HF_WHY_JOINED ? why - HF_WHY_JOINED : causes[why];
}

static hf_status explain(const hf_hold *hold, int why, const char *how) {
    const char *name = hf_names_quoted(hold->names);
    if (why == HF_WHY_LEASE)
        hf_explain("the hold of lock %s is lost: its lease of %lld ms ended, and renew is off: "
                   "turn it on, or give a longer lease",
                   name, (long long)hold->terms.lease_ms);
    else if (why == HF_WHY_MAX_HOLD &&
             hold->validity.end < hf_after(hold->began_at, hold->terms.max_hold_ms))
        hf_explain("the hold of lock %s is lost: the max_hold of the hold around it has passed",
                   name);
    else if (why == HF_WHY_MAX_HOLD)
        hf_explain("the hold of lock %s is lost: its max_hold of %lld ms has passed", name,
                   (long long)hold->terms.max_hold_ms);
    else
        hf_explain("the hold of lock %s is lost: %s", name,
                   why == HF_WHY_UNREACHABLE
                       ? "its lease ended before the client could renew it on the server"
                   : why == HF_WHY_GONE   ? "the server no longer knows it"
                   : why >= HF_WHY_JOINED ? "another hold that it is joined with is lost"
                                          : how);
    hf_explain_cause(cause_of(why));
    return HF_ELOST;
}

hf_status hf_hold_explain_lost(const hf_hold *hold, const char *how) {
    return explain(hold, __atomic_load_n(&hold->why, __ATOMIC_RELAXED), how);
}

hf_status hf_hold_explain_not_held(const hf_hold *hold) {
    hf_status status = hf_client_check(hold->client); /* perhaps the close released it */
    if (status != HF_OK)
        return status;
    return hf_fail(HF_ENOTHELD, "this hold of lock %s was released before",
                   hf_names_quoted(hold->names));
}

hf_status hf_hold_explain_refused(const hf_hold *hold) {
    return hf_fail(HF_ESERVER,
                   "the server refused to renew lock %s: the user lacks a permission, or the "
                   "server cannot write",
                   hf_names_quoted(hold->names));
}

hf_status hf_hold_explain_state(const hf_hold *hold, int state, const char *how) {
    if (state == HF_STATE_LOST)
        return hf_hold_explain_lost(hold, how);
    return state == HF_STATE_HELD ? HF_OK : hf_hold_explain_not_held(hold);
}

int64_t hf_hold_fence(const hf_hold *hold) { return hold != NULL ? hold->fence : 0; }

int64_t hf_hold_number(const hf_hold *hold) { return hold != NULL ? hold->number : 0; }

/* Return for how long the hold lasts, in ns; 0: it is not held. The clock is read last: the mutexes
 * of this client and of its masters may have been waited for. */
static int64_t left_of(const hf_hold *hold) {
    int64_t deadline = deadline_of(hold), now = hf_now();
    if (hold->state != HF_STATE_HELD || now >= deadline)
        return 0;
    return deadline == HF_NO_DEADLINE ? HF_NO_DEADLINE : deadline - now;
}

int hf_hold_state(const hf_hold *hold) {
    if (hold == NULL)
        return HF_STATE_RELEASED;
    if (hf_client_inherited(hold->client))
        return HF_STATE_LOST;
    HF_HOLDING_CLIENT(hold->client);
    return left_of(hold) == 0 && hold->state == HF_STATE_HELD ? HF_STATE_LOST : hold->state;
}

int64_t hf_hold_remaining_ms(const hf_hold *hold) {
    if (hold == NULL || hf_client_inherited(hold->client))
        return 0;
    HF_HOLDING_CLIENT(hold->client);
    int64_t left = left_of(hold);
    return left == HF_NO_DEADLINE ? HF_NEVER : left / HF_MS;
}

/* ----------------------------------------------------------------- Table */

struct hf_table *hf_table_begin(void) {
    return calloc(1, sizeof(struct hf_table));
}

void hf_table_end(struct hf_table *table) {
    if (table != NULL)
        hf_index_end(&table->stacks);
    free(table);
}

#define STACKED(at) HF_OF(hf_hold, stack, at)

/* Return the highest fence seen for this name, or 0. */
static int64_t floor_of(const hf_client *client, const hf_names *names) {
    size_t at = names->hash % FLOORS;
    return client->table->floors[at].hash == names->hash ? client->table->floors[at].fence : 0;
}

int64_t hf_hold_floor_locked(const hf_hold *hold) {
    return hf_later(floor_of(hold->client, hold->names), hold->vote_floor);
}

static void raise_floor(struct hf_table *table, hf_hold *hold) {
    size_t at = hold->names->hash % FLOORS;
    if (table->floors[at].hash != hold->names->hash)
        table->floors[at].hold = NULL;
    else if (table->floors[at].fence >= hold->fence)
        return;
    table->floors[at].hash = hold->names->hash;
    table->floors[at].fence = hold->fence;
    if (hold->terms.mode != HF_MODE_SHARED && hf_table_superseded_locked(hold) == NULL)
        table->floors[at].hold = hold;
}

hf_hold *hf_table_superseded_locked(const hf_hold *hold) {
    const struct hf_table *table = hold->client->table;
    const hf_hold *before = table->floors[hold->names->hash % FLOORS].hold;
    if (before == NULL || before->fence >= hold->fence ||
        !hf_names_equal(before->names, hold->names))
        return NULL;
    bool shared = hold->terms.mode == HF_MODE_SHARED;
    HF_EACH_OF(at, &table->stacks, before->stack.hash)
    if (STACKED(at)->fence == before->fence && STACKED(at)->state == HF_STATE_HELD &&
        !(shared && STACKED(at)->terms.mode == HF_MODE_SHARED))
        return STACKED(at);
    return NULL;
}

void hf_table_shown_locked(hf_hold *hold) {
    struct hf_table *table = hold->client->table;
    size_t at = hold->names->hash % FLOORS;
    const hf_hold *before = table->floors[at].hold;
    /* A close has holds that have ended in a list of its own. */
    if (table->floors[at].hash == hold->names->hash && hf_hold_is_listed(hold) &&
        hold->state == HF_STATE_HELD && (before == NULL || before->fence < hold->fence))
        table->floors[at].hold = hold->terms.mode != HF_MODE_SHARED ? hold : NULL;
}

static uint64_t stack_hash(const hf_names *names, const hf_holder *holder) {
    if (holder->lock_serial != 0)
        return hf_hash(names->hash, &holder->lock_serial, sizeof holder->lock_serial);
    return hf_hash(names->hash, holder->bytes, holder->length);
}

static uint64_t stack_of(const hf_hold *hold) {
    hf_holder holder = {hold->owner, hold->owner_length, hold->terms.lock_serial,
                        hold->terms.mode == HF_MODE_SHARED};
    return stack_hash(hold->names, &holder);
}

/* Return a live hold of the same owner; or NULL. */
static hf_hold *find_live(const hf_client *client, const hf_hold *hold) {
    HF_EACH_OF(at, &client->table->stacks, stack_of(hold)) {
        hf_hold *other = STACKED(at);
        if (hf_names_equal(other->names, hold->names) &&
            other->owner_length == hold->owner_length &&
            memcmp(other->owner, hold->owner, hold->owner_length) == 0 &&
            hf_hold_state_now(other, hf_now()) == HF_STATE_HELD)
            return other;
    }
    return NULL;
}

hf_hold *hf_table_outer_locked(const hf_hold *hold) {
    hf_hold *outer = hold->inside[0] != '\0' ? find_live(hold->client, hold) : NULL;
    return outer != NULL && memcmp(outer->id, hold->inside, sizeof hold->inside) == 0 ? outer
                                                                                      : NULL;
}

bool hf_table_believes_locked(const hf_hold *hold, int64_t fence) {
    const hf_client *client = hold->client;
    int64_t floor =
        hold->terms.mode == HF_MODE_SHARED ? hold->floor : floor_of(client, hold->names);
    const hf_hold *outer = fence < floor ? find_live(client, hold) : NULL;
    return fence >= floor || (outer != NULL && outer->fence == fence);
}

void hf_hold_follow_locked(hf_hold *hold) {
    size_t at = hold->names->hash % LIMITS;
    int64_t permits = hold->client->table->limits[at].permits,
            per_ms = hold->client->table->limits[at].per_ms;
    if (!hold->terms.learns || hold->client->table->limits[at].hash != hold->names->hash ||
        permits < hold->terms.weight || (hold->terms.gate && per_ms == 0))
        return;
    hold->terms.permits = permits;
    if (hold->terms.gate)
        hf_validity_begin(&hold->validity, hold->terms.lease_ms = per_ms);
}

hf_status hf_table_new_id_locked(hf_client *client, hf_hold *hold) {
    bool own = hold->owner_length > client->prefix_length &&
               memcmp(hold->owner, client->prefix, client->prefix_length) == 0;
    const hf_hold *outer = hold->terms.reentrant ? find_live(client, hold) : NULL;
    hold->nests = hold->terms.reentrant && (!own || outer != NULL);
    hold->one_of_many = hold->terms.mode == HF_MODE_SHARED || outer != NULL;
    hold->inside[0] = '\0';
    if (outer != NULL) {
        if (!take_text(hold, outer))
            return hf_fail(HF_ENOMEM, "no memory");
        memcpy(hold->inside, outer->id, sizeof hold->inside);
    }
    hf_hold_follow_locked(hold);
    hold->floor = hf_hold_floor_locked(hold);
    return hf_client_new_id_locked(client, hold->id);
}

hf_status hf_hold_learn_locked(hf_hold *hold, const hf_standing *limited) {
    struct hf_table *table = hold->client->table;
    size_t at = hold->names->hash % LIMITS;
    const char *name = hf_names_quoted(hold->names);
    long long permits = limited->permits, mine = hold->terms.permits, per_ms = limited->per_ms,
              lease_ms = hold->validity.lease_ms;
    if (hold->terms.gate && per_ms == 0)
        return hf_fail(HF_ELIMIT,
                       "no rate is stored with gate %s, and this acquire gives none: store a rate "
                       "with limit() or holdfast set",
                       name);
    if (permits == 0)
        return hf_fail(HF_ELIMIT,
                       "no limit is stored with lock %s, and this acquire takes %lld permits: "
                       "give the number of all permits, or store it with limit() or holdfast set",
                       name, (long long)hold->terms.weight);
    if (per_ms > 0 && !hold->terms.gate && (per_ms != lease_ms || !hold->terms.learns))
        return hf_fail(
            HF_ELIMIT,
            "lock %s is a gate that lets pass %lld in %lld ms, and this acquire gives %lld "
            "in %lld ms: change the stored rate with limit() or holdfast set",
            name, permits, per_ms, mine, lease_ms);
    if (!hold->terms.learns)
        return hf_fail(HF_ELIMIT,
                       "lock %s has %lld permits, and this acquire gives %lld: give no number, or "
                       "change the stored number with limit() or holdfast set",
                       name, permits, mine);
    table->limits[at].hash = hold->names->hash;
    table->limits[at].permits = permits;
    table->limits[at].per_ms = per_ms;
    if (hold->terms.weight > permits)
        return hf_fail(HF_ELIMIT, "lock %s has %lld permits, and this acquire takes %lld", name,
                       permits, (long long)hold->terms.weight);
    return HF_OK;
}

hf_status hf_table_add_locked(hf_client *client, hf_hold *hold, bool keep) {
    struct hf_table *table = client->table;
    if (client->closed)
        return hf_fail(HF_ECANCELED, "the client was closed during the call");
    raise_floor(table, hold);
    hf_hold_grab(hold);
    hold->stray = false;
    hold->kept = keep;
    hold->number = ++table->numbers;
    hold->terms.counting.tally->stats.held++;
    hf_list_add_first(&table->holds, &hold->item);
    uint64_t stack = stack_of(hold);
    /* A hold nested in a live hold is part of the same section, and shares its max_hold. */
    HF_EACH_OF(at, &table->stacks, stack)
    if (STACKED(at)->fence == hold->fence) {
        HF_MARK("M5");
        STACKED(at)->one_of_many = hold->one_of_many = true;
        if (hold->terms.max_hold_ms > 0)
            hf_validity_end_by(&hold->validity, STACKED(at)->validity.end);
        break;
    }
    hf_index_add(&table->stacks, &hold->stack, stack);
    return HF_OK;
}

void hf_table_remove_locked(hf_client *client, hf_hold *hold) {
    hf_hold **newest = &client->table->floors[hold->names->hash % FLOORS].hold;
    hf_index_remove(&client->table->stacks, &hold->stack);
    if (*newest == hold) {
        *newest = NULL;
        HF_EACH_OF(at, &client->table->stacks, hold->stack.hash) /* a hold nested in it remains */
        if (STACKED(at)->fence == hold->fence && STACKED(at)->terms.mode != HF_MODE_SHARED)
            *newest = STACKED(at);
    }
    if (hold->joined != NULL)
        hf_hold_part_locked(hold);
    hf_hold_fails_locked(hold, false);
    hold->kept = false;
    hold->terms.counting.tally->stats.held--;
    hf_timer_clear(&client->timers, &hold->timer);
    hf_list_remove(&hold->item);
}

void hf_hold_fails_locked(hf_hold *hold, bool fails) {
    struct hf_table *table = hold->client->table;
    if (fails && !hold->fails)
        table->failing++;
    else if (!fails && hold->fails)
        table->failing--;
    hold->fails = fails;
}

size_t hf_table_failing_locked(const hf_client *client) { return client->table->failing; }

const hf_list *hf_table_holds_locked(const hf_client *client) { return &client->table->holds; }

static bool is_of(const hf_hold *hold, const hf_names *names, const hf_holder *holder) {
    if (!hold->kept || hold->terms.lock_serial != holder->lock_serial ||
        (hold->terms.mode == HF_MODE_SHARED) != holder->shared ||
        !hf_names_equal(hold->names, names))
        return false;
    return holder->lock_serial != 0 || (hold->owner_length == holder->length &&
                                        memcmp(hold->owner, holder->bytes, holder->length) == 0);
}

hf_hold *hf_table_next_locked(const hf_client *client, const hf_names *names,
                              const hf_holder *holder, const hf_hold *hold) {
    hf_entry *next = hold != NULL
                         ? hf_entry_older(&hold->stack)
                         : hf_index_find(&client->table->stacks, stack_hash(names, holder));
    while (next != NULL && !is_of(STACKED(next), names, holder))
        next = hf_entry_older(next);
    return next != NULL ? STACKED(next) : NULL;
}

hf_status hf_client_kept(hf_client *client, const void *owner, size_t owner_len, void *name,
                         size_t capacity, size_t *name_len_out) {
    if (owner == NULL || name == NULL || name_len_out == NULL)
        return hf_fail(HF_EINVAL, "owner, name or name_len_out is NULL");
    hf_status status = hf_client_check(client);
    if (status != HF_OK)
        return status;
    HF_HOLDING_CLIENT(client);
    int64_t now = hf_now();
    HF_EACH(at, &client->table->holds) {
        const hf_hold *hold = HF_OF(hf_hold, item, at);
        if (!hold->kept || hold->owner_length != owner_len ||
            memcmp(hold->owner, owner, owner_len) != 0 ||
            hf_hold_state_now(hold, now) != HF_STATE_HELD)
            continue;
        *name_len_out = hold->names->length;
        if (hold->names->length > capacity)
            return hf_fail(HF_EINVAL, "the buffer is too small for the name");
        memcpy(name, hold->names->data, hold->names->length);
        return HF_OK;
    }
    return hf_fail(HF_ENOTHELD, "this owner has nothing to release");
}
