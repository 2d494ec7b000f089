#include "lock/life.h"

#include <string.h>

#include "lock/reading.h"
#include "lock/thread.h"
#include "lock/undo.h"

void hf_op_sent_locked(hf_op *op) {
    op->asking++;
    op->hold->out++;
}

void hf_op_heard_locked(hf_op *op, bool doubtful) {
    op->asking--;
    if (!doubtful && op->hold->out > 0) /* the id may have been given up meanwhile */
        op->hold->out--;
}

void hf_op_left_locked(hf_op *op) {
    hf_hold *hold = op->hold;
    if (hold->out > 0)
        hf_undo_remember_locked(hold->client, hold->names, hold->id);
    hold->out = 0;
    hold->stray = false;
    op->score = 0;
}

hf_status hf_op_renew_id_locked(hf_op *op) {
    char id[HF_ID_LENGTH + 1];
    hf_ask ask = hf_op_ask(op);
    hf_status status = hf_client_new_id_locked(hf_op_client(op), id);
    if (status != HF_OK)
        return status;
    memcpy(id + HF_ID_LENGTH / 2, op->hold->tag, strlen(op->hold->tag));
    hf_undo_acquire_locked(op->hold, &ask);
    hf_op_rename_locked(op, id);
    op->hold->floor = hf_hold_floor_locked(op->hold);
    op->early.fence = 0;
    op->epoch = 0;
    op->asking = 0;
    return HF_OK;
}

/* Have other ops of this owner ask again, because they may nest in the hold now. */
static void tell_nesting(const hf_op *op) {
    const hf_hold *hold = op->hold;
    if (!hf_op_has_twin_locked(op))
        return;
    HF_EACH(at, &op->queue->ops) {
        hf_op *other = HF_OP_AT(at);
        if (other == op || !other->hold->terms.reentrant ||
            other->hold->owner_length != hold->owner_length ||
            memcmp(other->hold->owner, hold->owner, hold->owner_length) != 0)
            continue;
        other->epoch = 0;
        hf_thread_timer_locked(hold->client, &op->queue->timer, 0);
    }
}

bool hf_op_take_locked(hf_op *op, int64_t fence, int64_t began_at, int64_t deadline, bool pushed) {
    hf_hold *hold = op->hold;
    hold->stray = true;
    if (hf_now() >= deadline || !hf_table_believes_locked(hold, fence))
        return false;
    hf_hold_begin(hold, fence, began_at, deadline);
    hold->pushed = pushed;
    hold->waited = op->score > 0 || pushed; /* a message may be faster than the answer */
    hold->score = op->score > 0 ? op->score : fence;
    if (op->queue != NULL)
        hf_waiting_handed_on_locked(hold->client, hold->names, hold->waited ? began_at : 0);
    tell_nesting(op);
    hf_op_finish_locked(op, HF_OK);
    return true;
}

void hf_op_finish_locked(hf_op *op, hf_status status) {
    if (status != HF_OK) { /* while the op has its place, and its queue the channel */
        hf_ask ask = hf_op_ask(op);
        op->owed = !hf_undo_acquire_locked(op->hold, &ask);
    }
    hf_op_leave_locked(op);
    op->done = true;
    op->status = status;
    if (op->started)
        op->ended(op, status);
    else
        hf_op_notify_locked(op);
}

void hf_op_fail_locked(hf_op *op, hf_status status) {
    op->explained = true;
    if (op->why != NULL)
        *op->why = *hf_error_last();
    hf_op_finish_locked(op, status);
}
