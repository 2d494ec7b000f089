#include "lock/lock.h"

#include <stdlib.h>
#include <string.h>

#include "lock/quorum.h"

/* --------------------------------------------------------------- Options */

static hf_status check_owner(const void *owner, size_t length) {
    if (owner == NULL && length == 0)
        return HF_OK;
    if (length > PTRDIFF_MAX)
        return hf_fail(HF_EINVAL, "the owner's length is negative: it takes 1 to %d", HF_OWNER_MAX);
    if (owner == NULL || length == 0 || length > HF_OWNER_MAX)
        return hf_fail(HF_EINVAL, "the owner has %zu bytes%s: it takes 1 to %d", length,
                       owner == NULL && length > 0 ? " at NULL" : "", HF_OWNER_MAX);
    return HF_OK;
}

hf_status hf_check_note(const void *note, size_t length) {
    if ((note == NULL && length > 0) || length > HF_NOTE_MAX)
        return hf_fail(HF_EINVAL, "the note has %zu bytes%s: it takes up to %d", length,
                       note == NULL ? " at NULL" : "", HF_NOTE_MAX);
    return HF_OK;
}

static hf_status check_lease(int64_t lease_ms, int32_t renew) {
    if (lease_ms != HF_NEVER && (lease_ms < HF_LEASE_MIN || lease_ms > HF_LEASE_MAX))
        return hf_fail(HF_EINVAL, "a lease of %lld ms: it takes 10 ms to 10 years, or no end",
                       (long long)lease_ms);
    hf_status status = hf_check_switch(renew, "renew");
    if (status == HF_OK && lease_ms == HF_NEVER && renew == HF_ON)
        return hf_fail(HF_EINVAL, "renew does nothing for a lease that never ends: leave it out, "
                                  "or give a lease that ends");
    return status;
}

static hf_status check_max_hold(int64_t max_hold_ms, int64_t lease_ms, int32_t renew) {
    if (max_hold_ms == 0)
        return HF_OK;
    if (lease_ms == HF_NEVER)
        return hf_fail(HF_EINVAL, "max_hold needs a lease that ends");
    if (max_hold_ms < HF_LEASE_MIN || max_hold_ms > HF_LEASE_MAX)
        return hf_fail(HF_EINVAL, "a max_hold of %lld ms: it takes 10 ms to 10 years",
                       (long long)max_hold_ms);
    if (renew == HF_OFF)
        return hf_fail(HF_EINVAL, "max_hold does nothing without renewal: the lease ends the hold; "
                                  "leave max_hold out, or do not turn renew off");
    return HF_OK;
}

hf_status hf_lock_check_lease(const hf_lock *lock, const hf_acquire_options *options) {
    int64_t lease_ms = options->lease_ms != 0 ? options->lease_ms : lock->terms.lease_ms;
    hf_status status = check_lease(lease_ms, options->renew);
    return status == HF_OK ? check_max_hold(lock->terms.max_hold_ms, lease_ms, HF_DEFAULT) : status;
}

hf_status hf_check_replicas(int64_t lease_ms, int64_t *timeout_ms) {
    if (*timeout_ms == 0)
        *timeout_ms = lease_ms != HF_NEVER && lease_ms < 2000 ? lease_ms / 2 : 1000;
    if (lease_ms != HF_NEVER && *timeout_ms >= lease_ms)
        return hf_fail(HF_EINVAL,
                       "a replica_timeout of %lld ms: it must be shorter than the lease of %lld ms",
                       (long long)*timeout_ms, (long long)lease_ms);
    return HF_OK;
}

static hf_status check_mode(const hf_lock_options *options) {
    if (options->mode != HF_EXCLUSIVE && options->mode != HF_SHARED)
        return hf_fail(HF_EINVAL, "mode is %d: it takes HF_EXCLUSIVE or HF_SHARED",
                       (int)options->mode);
    if (options->permits < 0 || options->permits > HF_PERMITS_MAX)
        return hf_fail(HF_EINVAL, "permits is %lld: it takes 1 to %lld, or 0 for no limit",
                       (long long)options->permits, (long long)HF_PERMITS_MAX);
    if (options->permits > 0 && options->mode != HF_SHARED)
        return hf_fail(HF_EINVAL, "permits need the mode HF_SHARED");
    int64_t most = options->permits > 0         ? options->permits
                   : options->mode == HF_SHARED ? HF_PERMITS_MAX
                                                : 1;
    if (options->weight < 0 || options->weight > most)
        return hf_fail(HF_EINVAL, "weight is %lld: it takes 1 to the permits, which are %lld",
                       (long long)options->weight, (long long)options->permits);
    if (options->ahead_ms < 0 || options->ahead_ms > HF_AHEAD_MAX)
        return hf_fail(HF_EINVAL, "a head start of %lld ms: it takes 0 to %lld, an hour",
                       (long long)options->ahead_ms, (long long)HF_AHEAD_MAX);
    return HF_OK;
}

/* Check the options of a gate. A pass gives neither number nor lease: its request asks for the
 * stored ones, with the defaults. */
static hf_status check_gate(const hf_lock_options *options) {
    if (options->mode != HF_SHARED || options->permits > 0 || options->replicas > 0 ||
        options->renew != HF_OFF || options->reentrant != HF_OFF)
        return hf_fail(HF_EINVAL, "a lease of HF_STORED takes HF_SHARED, HF_OFF for renew and "
                                  "reentrant, and neither permits nor replicas");
    return HF_OK;
}

static int64_t default_lease_ms(const hf_client *client) {
    int64_t most_ms = client->quorum != NULL ? client->quorum->members->quarantine_ms : 0;
    return most_ms > 0 && most_ms < HF_LEASE_DEFAULT ? most_ms : HF_LEASE_DEFAULT;
}

/* Check the options, and fill in the defaults. */
static hf_status check_options(const hf_client *client, hf_lock_options *options) {
    bool gate = options->lease_ms == HF_STORED;
    if (gate && check_gate(options) != HF_OK)
        return HF_EINVAL;
    if (options->lease_ms == 0 || gate)
        options->lease_ms = default_lease_ms(client);
    hf_status status = check_lease(options->lease_ms, options->renew);
    if (status == HF_OK)
        status = check_max_hold(options->max_hold_ms, options->lease_ms, options->renew);
    if (status != HF_OK)
        return status;
    if (options->replicas == 0 && !gate)
        options->replicas = client->replicas;
    if (options->replicas < 0 || options->replica_timeout_ms < 0 ||
        options->replica_timeout_ms > HF_LEASE_MAX)
        return hf_fail(HF_EINVAL,
                       "replicas or replica_timeout is negative, or the timeout is over ten years");
    if (options->replica_timeout_ms > 0 && options->replicas == 0)
        return hf_fail(HF_EINVAL, "replica_timeout does nothing without replicas");
    status = check_mode(options);
    if (status == HF_OK)
        status = hf_check_note(options->note, options->note_len);
    if (status == HF_OK)
        status = hf_check_switch(options->reentrant, "reentrant");
    if (status == HF_OK)
        status = hf_check_switch(options->heal, "heal");
    if (status != HF_OK || options->replicas == 0)
        return status;
    return hf_check_replicas(options->lease_ms, &options->replica_timeout_ms);
}

/* ------------------------------------------------------------------ Lock */

static hf_lock *new_lock(hf_client *client, hf_names *names, const void *owner, size_t owner_len,
                         const hf_lock_options *options) {
    hf_lock *lock = calloc(1, sizeof *lock + owner_len + options->note_len);
    if (lock == NULL)
        return NULL;
    lock->client = hf_client_keep(client);
    lock->names = names;
    lock->serial = hf_next_serial();
    lock->owner_length = owner_len;
    if (owner_len > 0)
        memcpy(lock->owner, owner, owner_len);
    lock->note_length = options->note_len;
    if (options->note_len > 0)
        memcpy(lock->owner + owner_len, options->note, options->note_len);
    return lock;
}

hf_status hf_lock_open(hf_client *client, const void *name, size_t name_len, const void *owner,
                       size_t owner_len, const hf_lock_options *options, hf_lock **lock_out) {
    hf_lock_options chosen;
    hf_names *names;
    if (lock_out == NULL)
        return hf_fail(HF_EINVAL, "lock_out is NULL");
    *lock_out = NULL;
    hf_status status = hf_client_check(client);
    if (status == HF_OK)
        status = hf_options_copy(&chosen, sizeof chosen, options, "hf_lock_options");
    if (status != HF_OK)
        return status;
    bool gate = chosen.lease_ms == HF_STORED;
    int64_t given_replica_ms = chosen.replica_timeout_ms;
    status = check_options(client, &chosen);
    if (status == HF_OK && client->quorum != NULL)
        status = hf_quorum_check(client, &chosen);
    if (status == HF_OK)
        status = check_owner(owner, owner_len);
    if (status == HF_OK)
        status = hf_names_new(name, name_len, client->fence_life_ms, &names);
    if (status != HF_OK)
        return status;
    hf_counting counting;
    status = hf_numbers_lock(client, names, &chosen, &counting);
    hf_lock *lock = status == HF_OK ? new_lock(client, names, owner, owner_len, &chosen) : NULL;
    if (lock == NULL) {
        hf_names_drop(names);
        return status != HF_OK ? status : hf_fail(HF_ENOMEM, "no memory");
    }
    lock->terms = (hf_terms){
        .lease_ms = chosen.lease_ms,
        .max_hold_ms = chosen.max_hold_ms,
        .renew = chosen.renew != HF_OFF,
        .reentrant = chosen.reentrant != HF_OFF,
        .mode = chosen.mode == HF_SHARED ? HF_MODE_SHARED : HF_MODE_EXCLUSIVE,
        .permits = chosen.permits,
        .learns = chosen.mode == HF_SHARED && chosen.permits == 0,
        .gate = gate,
        .weight = chosen.weight,
        .ahead_ms = chosen.ahead_ms,
        .replicas = chosen.replicas,
        .replica_ms = chosen.replica_timeout_ms,
        .counting = counting,
    };
    lock->given_replica_ms = given_replica_ms;
    if (chosen.heal == HF_ON)
        lock->terms.heal_ms = chosen.lease_ms == HF_NEVER ? HF_LEASE_DEFAULT : chosen.lease_ms;
    *lock_out = lock;
    return HF_OK;
}

void hf_lock_close(hf_lock *lock) {
    if (lock == NULL || hf_client_inherited(lock->client))
        return;
    hf_names_drop(lock->names);
    hf_client_drop(lock->client);
    free(lock);
}

void hf_lock_configure(const hf_lock *lock, hf_hold *hold, int64_t lease_ms, bool renew) {
    int64_t max_ms = lock->terms.max_hold_ms;
    hold->terms = lock->terms;
    hold->terms.renew = renew;
    hold->terms.lease_ms = max_ms > 0 && lease_ms > max_ms ? max_ms : lease_ms;
    hf_validity_begin(&hold->validity, hold->terms.lease_ms);
}

/* ---------------------------------------------------------------- Owners */

/* Choose the calling thread; or the acquire itself, whose hold only the lock finds again. */
static hf_status default_owner(const hf_lock *lock, bool thread, hf_owner *chosen) {
    bool shared = lock->terms.reentrant && thread;
    if (!lock->terms.reentrant)
        chosen->holder.lock_serial = lock->serial;
    hf_status status =
        hf_client_owner(lock->client, shared ? 't' : 'o', shared ? 0 : hf_next_serial(),
                        chosen->buffer, sizeof chosen->buffer);
    chosen->holder.bytes = chosen->buffer;
    chosen->holder.length = strlen(chosen->buffer);
    return status;
}

hf_status hf_lock_choose_owner(const hf_lock *lock, const void *owner, size_t length, bool thread,
                               hf_owner *chosen) {
    hf_status status = check_owner(owner, length);
    if (status != HF_OK)
        return status;
    bool shared = lock->terms.mode == HF_MODE_SHARED;
    chosen->holder = (hf_holder){.bytes = owner, .length = length, .shared = shared};
    if (length > 0)
        return HF_OK;
    chosen->holder.bytes = lock->owner;
    chosen->holder.length = lock->owner_length;
    return lock->owner_length > 0 ? HF_OK : default_owner(lock, thread, chosen);
}
