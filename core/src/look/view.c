#include "look/view.h"

#include <stdlib.h>

#include "lock/outcome.h"

struct hf_view {
    hf_names *names;
    redisReply *reply; /* contains the owners */
    hf_found found;
    bool recorded;
    hf_call_record record; /* the record of the call */
    size_t holder_count, waiter_count;
    hf_lock_holder *holders;
    hf_lock_waiter *waiters;
};

/* Return the time between two times of the server, in us; a fence of 0 is no fence. */
static int64_t elapsed_ms(int64_t now_us, int64_t since_us) {
    return since_us > 0 && since_us < now_us ? (now_us - since_us) / 1000 : 0;
}

static int64_t remaining_ms(int64_t left_ms) {
    return left_ms == HF_TTL_NONE ? HF_NEVER : left_ms < 0 ? 0 : left_ms;
}

/* Return the holder with that fence: holds with one fence have one owner, and nest. */
static hf_lock_holder *holder_with(hf_view *view, int64_t fence) {
    for (size_t i = 0; i < view->holder_count; i++)
        if (view->holders[i].fence == fence)
            return &view->holders[i];
    hf_lock_holder *holder = &view->holders[view->holder_count++];
    *holder = (hf_lock_holder){.mode = HF_SHARED, .fence = fence, .kept = 1};
    return holder;
}

static void add_hold(hf_view *view, const hf_holding *holding) {
    hf_lock_holder *holder = holder_with(view, holding->fence);
    int64_t left_ms = remaining_ms(holding->remaining_ms);
    bool longer =
        left_ms == HF_NEVER || (holder->remaining_ms != HF_NEVER && left_ms > holder->remaining_ms);
    holder->count++;
    holder->held_ms = elapsed_ms(view->found.server_us, holding->fence);
    holder->kept = holder->kept && holding->kept;
    holder->owner = holding->owner;
    holder->owner_len = holding->owner_length;
    holder->note = holding->note;
    holder->note_len = holding->note_length;
    holder->weight += holding->shared ? holding->weight : 0;
    if (!holding->shared)
        holder->mode = HF_EXCLUSIVE;
    if (longer)
        holder->remaining_ms = left_ms;
}

static void add_waiter(hf_view *view, const hf_queued *queued) {
    view->waiters[view->waiter_count++] = (hf_lock_waiter){
        .mode = queued->shared ? HF_SHARED : HF_EXCLUSIVE,
        .permits = queued->permits,
        .weight = queued->shared ? queued->weight : 0,
        .waited_ms = elapsed_ms(view->found.server_us, queued->score),
        .timeout_ms = queued->timeout_ms,
        .owner = queued->owner,
        .owner_len = queued->owner_length,
        .note = queued->note,
        .note_len = queued->note_length,
    };
}

static hf_status read_lists(hf_view *view) {
    size_t holds = hf_reply_holdings(view->reply), waiters = hf_reply_queued_count(view->reply);
    hf_holding holding;
    hf_queued queued;
    view->holders = calloc(holds + 1, sizeof *view->holders);
    view->waiters = calloc(waiters + 1, sizeof *view->waiters);
    if (view->holders == NULL || view->waiters == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    for (size_t i = 0; i < holds; i++)
        if (hf_reply_holding(view->reply, i, &holding))
            add_hold(view, &holding);
    for (size_t i = 0; i < waiters; i++)
        if (hf_reply_queued(view->reply, i, &queued))
            add_waiter(view, &queued);
    return HF_OK;
}

hf_status hf_view_new(hf_names *names, redisReply *reply, hf_view **view_out) {
    hf_view *view = calloc(1, sizeof *view);
    *view_out = NULL;
    if (view == NULL) {
        freeReplyObject(reply);
        return hf_fail(HF_ENOMEM, "no memory");
    }
    view->names = hf_names_keep(names);
    view->reply = reply;
    hf_status status =
        hf_reply_inspect(reply, &view->found) ? read_lists(view) : hf_unexpected("inspect");
    if (status == HF_OK) {
        view->recorded = hf_reply_found_record(reply, &view->record);
        *view_out = view;
    } else {
        hf_view_close(view);
    }
    return status;
}

const hf_found *hf_view_found(const hf_view *view) { return &view->found; }

bool hf_view_recorded(const hf_view *view) { return view->recorded; }

void hf_view_tell(const hf_view *view, hf_lock_info *info) {
    const hf_found *found = &view->found;
    hf_lock_info told = {
        .held = found->held,
        .foreign = found->foreign,
        .shared = found->shared,
        .count = found->count,
        .fence = found->first.fence,
        .waiters = found->waiters,
        .held_ms = elapsed_ms(found->server_us, found->first.fence),
        .remaining_ms = found->held ? remaining_ms(found->ttl_ms) : 0,
        .result_ms = remaining_ms(found->result_ms),
        .moving = found->moving,
        .kept = view->holder_count > 0 && view->holders[0].kept,
        .permits = found->permits,
        .per_ms = found->per_ms,
    };
    hf_struct_tell(info, &told, sizeof told);
}

/* ---------------------------------------------------------------- Public */

void hf_view_close(hf_view *view) {
    if (view == NULL)
        return;
    hf_names_drop(view->names);
    freeReplyObject(view->reply);
    free(view->holders);
    free(view->waiters);
    free(view);
}

const void *hf_view_name(const hf_view *view, size_t *name_len_out) {
    if (name_len_out != NULL)
        *name_len_out = view != NULL ? view->names->length : 0;
    return view != NULL ? view->names->data : "";
}

size_t hf_view_holders(const hf_view *view) { return view != NULL ? view->holder_count : 0; }

size_t hf_view_waiters(const hf_view *view) { return view != NULL ? view->waiter_count : 0; }

hf_status hf_view_holder(const hf_view *view, size_t which, hf_lock_holder *holder) {
    if (view == NULL || holder == NULL || holder->size < sizeof holder->size)
        return hf_fail(HF_EINVAL, "the view is NULL, or hf_lock_holder.size is not set");
    if (which >= view->holder_count)
        return hf_fail(HF_EINVAL, "the view has %zu holders", view->holder_count);
    hf_struct_tell(holder, &view->holders[which], sizeof *view->holders);
    return HF_OK;
}

hf_status hf_view_waiter(const hf_view *view, size_t which, hf_lock_waiter *waiter) {
    if (view == NULL || waiter == NULL || waiter->size < sizeof waiter->size)
        return hf_fail(HF_EINVAL, "the view is NULL, or hf_lock_waiter.size is not set");
    if (which >= view->waiter_count)
        return hf_fail(HF_EINVAL, "the view has %zu waiters", view->waiter_count);
    hf_struct_tell(waiter, &view->waiters[which], sizeof *view->waiters);
    return HF_OK;
}

hf_status hf_view_once(const hf_view *view, hf_once_info *info) {
    if (view == NULL || info == NULL || info->size < sizeof info->size)
        return hf_fail(HF_EINVAL, "the view is NULL, or hf_once_info.size is not set");
    hf_once_tell(view->recorded ? &view->record : NULL, info);
    return HF_OK;
}
