#include "describe.h"

#include "call.h"

static const char *mode_of(int32_t mode) { return mode == HF_SHARED ? "shared" : "exclusive"; }

static void add_end(show_text *text, int64_t remaining_ms) {
    show_add(text, remaining_ms == HF_NEVER ? ", " : ", ends in ");
    show_duration(text, remaining_ms);
    show_add(text, remaining_ms == HF_NEVER ? " ends" : "");
}

static void add_holder(show_text *text, const hf_lock_holder *holder) {
    show_add(text, "  ");
    show_owner_noted(text, holder->owner, holder->owner_len, holder->note, holder->note_len);
    show_add(text, "\n    ");
    show_add(text, mode_of(holder->mode));
    show_add(text, ", fence ");
    show_number(text, holder->fence);
    show_add(text, holder->kept ? ", kept, began " : ", held for ");
    show_duration(text, holder->held_ms);
    show_add(text, holder->kept ? " ago" : "");
    add_end(text, holder->remaining_ms);
    if (holder->count > 1) {
        show_add(text, ", ");
        show_number(text, holder->count);
        show_add(text, " holds");
    }
    if (holder->mode == HF_SHARED && holder->weight > holder->count) {
        show_add(text, ", weight ");
        show_number(text, holder->weight);
    }
    show_add(text, "\n");
}

static void add_waiter(show_text *text, const hf_lock_waiter *waiter, int64_t number) {
    show_add(text, "  ");
    show_number(text, number);
    show_add(text, ". ");
    show_owner_noted(text, waiter->owner, waiter->owner_len, waiter->note, waiter->note_len);
    show_add(text, "\n    ");
    show_add(text, mode_of(waiter->mode));
    if (waiter->permits > 0) {
        show_add(text, ", at most ");
        show_number(text, waiter->permits);
        show_add(text, waiter->permits == 1 ? " holder" : " holders");
    }
    if (waiter->weight > 1) {
        show_add(text, ", weight ");
        show_number(text, waiter->weight);
    }
    show_add(text, ", has waited ");
    show_duration(text, waiter->waited_ms);
    if (waiter->timeout_ms != HF_FOREVER) {
        show_add(text, " of ");
        show_duration(text, waiter->timeout_ms);
    }
    show_add(text, "\n");
}

void describe_limit(show_text *text, int64_t permits, int64_t per_ms) {
    if (permits == 0) {
        show_add(text, "no limit");
        return;
    }
    show_number(text, permits);
    show_add(text, per_ms > 0 ? " in " : permits == 1 ? " permit" : " permits");
    if (per_ms > 0)
        show_duration(text, per_ms);
}

static void add_state(show_text *text, const hf_lock_info *info, const hf_view *view) {
    hf_once_info call = {.size = sizeof call};
    size_t length;
    const void *name = hf_view_name(view, &length);
    show_bytes(text, name, length);
    show_add(text, !info->held     ? ": free"
                   : info->foreign ? ": another library's lock"
                   : info->kept    ? ": kept after its holder's work"
                   : info->shared  ? ": held shared"
                                   : ": held exclusively");
    if (info->foreign)
        add_end(text, info->remaining_ms);
    show_add(text, info->moving ? "; its slot is moving, the rest is unknown\n" : "\n");
    if (info->permits > 0) {
        show_add(text, "Limit: ");
        describe_limit(text, info->permits, info->per_ms);
        show_add(text, "\n");
    }
    if (hf_view_once(view, &call) == HF_OK && call.state != HF_ONCE_NONE) {
        show_add(text, "Once: ");
        call_describe(text, &call);
    }
}

void describe(show_text *text, const hf_lock_info *info, const hf_view *view, int64_t first) {
    hf_lock_holder holder = {.size = sizeof holder};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    if (first == 0)
        add_state(text, info, view);
    if (first == 0 && hf_view_holders(view) > 0)
        show_add(text, "Holders:\n");
    for (size_t i = 0; hf_view_holder(view, i, &holder) == HF_OK; i++)
        add_holder(text, &holder);
    if (first == 0 && info->waiters > 0) {
        show_add(text, info->count > HF_VIEW_MAX ? "Waiters, and further holders: " : "Waiters: ");
        show_number(text, info->waiters);
        show_add(text, "\n");
    }
    for (size_t i = 0; hf_view_waiter(view, i, &waiter) == HF_OK; i++)
        add_waiter(text, &waiter, first + (int64_t)i + 1);
}

/* ------------------------------------------------------------------ JSON */

void describe_json_page(json_t *lock, const hf_view *view) {
    json_t *holders = json_object_get(lock, "holders"), *waiters = json_object_get(lock, "waiters");
    hf_lock_holder holder = {.size = sizeof holder};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    for (size_t i = 0; hf_view_holder(view, i, &holder) == HF_OK; i++) {
        json_t *each = show_json_object();
        show_json_owner(each, holder.owner, holder.owner_len);
        show_json_note(each, holder.note, holder.note_len);
        show_json_text(each, "mode", mode_of(holder.mode));
        show_json_number(each, "fence", holder.fence);
        show_json_number(each, "holds", holder.count);
        if (holder.mode == HF_SHARED)
            show_json_number(each, "weight", holder.weight);
        show_json_ms(each, "held_ms", holder.held_ms);
        show_json_ms(each, "remaining_ms", holder.remaining_ms);
        show_json_bool(each, "kept", holder.kept);
        show_json_append(holders, each);
    }
    for (size_t i = 0; hf_view_waiter(view, i, &waiter) == HF_OK; i++) {
        json_t *each = show_json_object();
        show_json_owner(each, waiter.owner, waiter.owner_len);
        show_json_note(each, waiter.note, waiter.note_len);
        show_json_text(each, "mode", mode_of(waiter.mode));
        if (waiter.permits > 0)
            show_json_number(each, "permits", waiter.permits);
        if (waiter.mode == HF_SHARED)
            show_json_number(each, "weight", waiter.weight);
        show_json_ms(each, "waited_ms", waiter.waited_ms);
        show_json_ms(each, "timeout_ms", waiter.timeout_ms);
        show_json_append(waiters, each);
    }
}

json_t *describe_json(const hf_lock_info *info, const hf_view *view) {
    json_t *lock = show_json_object();
    size_t length;
    const void *name = hf_view_name(view, &length);
    show_json_bytes(lock, "name", name, length);
    show_json_text(lock, "state",
                   !info->held     ? "free"
                   : info->foreign ? "foreign"
                                   : mode_of(info->shared ? HF_SHARED : HF_EXCLUSIVE));
    show_json_number(lock, "holds", info->count);
    show_json_number(lock, "waiting", info->waiters);
    show_json_ms(lock, "remaining_ms", info->remaining_ms);
    hf_once_info call = {.size = sizeof call};
    if (hf_view_once(view, &call) == HF_OK && call.state != HF_ONCE_NONE) {
        json_t *record = show_json_object();
        call_json(record, &call);
        show_json_set(lock, "call", record);
    } else {
        show_json_set(lock, "call", json_null());
    }
    show_json_bool(lock, "moving", info->moving);
    if (info->permits > 0) {
        show_json_number(lock, "permits", info->permits);
        if (info->per_ms > 0)
            show_json_ms(lock, "per_ms", info->per_ms);
    }
    show_json_set(lock, "holders", json_array());
    show_json_set(lock, "waiters", json_array());
    describe_json_page(lock, view);
    return lock;
}
