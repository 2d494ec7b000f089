#include "lock/validity.h"

#include "base/simulated.h"

int64_t hf_deadline(int64_t sent_at, int64_t remaining_ms) {
    if (remaining_ms < 0)
        return HF_NO_DEADLINE;
    remaining_ms = hf_earlier(remaining_ms, HF_LEASE_MAX); /* no answer counts for more */
    /* The two clocks may drift apart by 1 in 1000 and round to 1 ms each. */
    return hf_after(sent_at, remaining_ms) - 2 * HF_MS - remaining_ms * (HF_MS / 1000);
}

void hf_validity_begin(hf_validity *validity, int64_t lease_ms) {
    *validity = (hf_validity){.lease_ms = lease_ms,
                              .longest_ms = lease_ms,
                              .extended_until = INT64_MIN,
                              .shortened_at = INT64_MIN,
                              .lengthened_at = INT64_MIN,
                              .end = HF_NO_DEADLINE};
}

int64_t hf_validity_deadline(const hf_validity *validity, int64_t sent_at, int64_t remaining_ms) {
    /* A server whose clock went back reports more time than was ever asked for. If its clock is
     * corrected later, the extra time is gone. */
    int64_t most = hf_later(hf_deadline(sent_at, validity->lease_ms), validity->extended_until);
    if (validity->cap_ms > 0)
        most = hf_earlier(most, hf_deadline(sent_at, validity->cap_ms));
    int64_t until = hf_deadline(sent_at, remaining_ms);
    return hf_earlier(hf_earlier(until, most), validity->end);
}

void hf_validity_end_by(hf_validity *validity, int64_t end) {
    validity->end = hf_earlier(validity->end, end);
    validity->deadline = hf_earlier(validity->deadline, end);
}

int64_t hf_validity_ask_ms(const hf_validity *validity, int64_t now, int64_t lease_ms) {
    if (validity->end == HF_NO_DEADLINE)
        return lease_ms;
    int64_t left_ms = hf_later(hf_until(validity->end, now), HF_LEASE_MIN);
    return lease_ms == HF_NEVER || lease_ms > left_ms ? left_ms : lease_ms;
}

bool hf_validity_is_last(const hf_validity *validity) {
    if (validity->end == HF_NO_DEADLINE)
        return false;
    /* No renewal since then has asked for more. */
    int64_t asked_ms = validity->lease_ms;
    if (validity->lengthened_at != INT64_MIN)
        asked_ms = hf_earlier(asked_ms, hf_until(validity->end, validity->lengthened_at));
    /* A renewal cannot regain the margin for the clocks, or the shortest lease. */
    int64_t lost_ms = 2 + asked_ms / 1000 + HF_LEASE_MIN;
    return hf_after(validity->deadline, lost_ms) >= validity->end;
}

static void lengthen(hf_validity *validity, int64_t now, int64_t until) {
    if (until <= validity->deadline)
        return;
    validity->deadline = until;
    validity->lengthened_at = now;
}

bool hf_validity_renewed(hf_validity *validity, int64_t now, int64_t sent_at,
                         int64_t remaining_ms) {
    if (validity->replacing > 0 || sent_at < validity->shortened_at)
        return false;
    lengthen(validity, now, hf_validity_deadline(validity, sent_at, remaining_ms));
    return true;
}

bool hf_validity_looked(hf_validity *validity, int64_t now, int64_t sent_at, int64_t remaining_ms) {
    int64_t until = hf_validity_deadline(validity, sent_at, remaining_ms);
    if (until >= validity->deadline)
        return hf_validity_renewed(validity, now, sent_at, remaining_ms);
    if (sent_at < validity->lengthened_at)
        return false; /* the look may have been carried out before the request that made the hold
                       * longer */
    if (validity->deadline <= hf_after(now, remaining_ms)) {
        HF_MARK("H45");
        return true; /* the answer was slow, and takes back nothing that was certain */
    }
    /* Another program has cut the hold short. A renewal that is under way may have been carried out
     * before. */
    validity->shortened_at = now;
    validity->deadline = until;
    return true;
}

static void ask_for(hf_validity *validity, int64_t duration_ms) {
    int64_t longest_ms = validity->longest_ms;
    if (duration_ms == HF_NEVER || (longest_ms != HF_NEVER && duration_ms > longest_ms))
        validity->longest_ms = duration_ms;
}

void hf_validity_extends(hf_validity *validity, int64_t now, int64_t duration_ms) {
    ask_for(validity, duration_ms);
    validity->extended_until = hf_later(validity->extended_until, hf_deadline(now, duration_ms));
}

void hf_validity_replaces(hf_validity *validity, int64_t now, int64_t duration_ms) {
    ask_for(validity, duration_ms);
    validity->replacing++;
    validity->lease_ms = duration_ms; /* later renewals use it */
    validity->extended_until = INT64_MIN;
    validity->deadline = hf_earlier(validity->deadline, hf_deadline(now, duration_ms));
}

void hf_validity_replaced(hf_validity *validity, int64_t now, int64_t sent_at,
                          int64_t remaining_ms) {
    /* Two replacements under way together may have been carried out in either order: each can only
     * shorten. */
    bool crossed = --validity->replacing > 0 || sent_at < validity->shortened_at;
    if (crossed)
        HF_MARK("C18");
    validity->shortened_at = now;
    if (remaining_ms < HF_NEVER)
        return;
    bool over = now >= validity->deadline; /* the hold was lost, and the loss may have been
                                            * noticed */
    int64_t until = hf_validity_deadline(validity, sent_at, remaining_ms);
    validity->deadline = hf_earlier(validity->deadline, hf_deadline(sent_at, remaining_ms));
    if (!crossed && !over)
        lengthen(validity, now, until);
}

void hf_validity_doubts(hf_validity *validity, int64_t duration_ms) {
    if (duration_ms != HF_NEVER && (validity->cap_ms == 0 || duration_ms < validity->cap_ms))
        validity->cap_ms = duration_ms;
}

bool hf_validity_is_doubtful(const hf_validity *validity, int64_t duration_ms) {
    return validity->replacing > 0 ||
           (validity->cap_ms > 0 && (duration_ms == HF_NEVER || validity->cap_ms < duration_ms));
}
