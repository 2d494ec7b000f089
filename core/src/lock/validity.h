/*
 * Until when a hold is certain to stand. Plain data and pure functions: no function here waits,
 * sends or reads a clock.
 *
 * The rule: the client never counts on more than the server keeps. A request that makes a hold
 * shorter counts here before it is sent; a request that makes it longer counts when it is answered,
 * from the time when it was sent, and only if no request that is still under way, or crossed it,
 * can have made the hold shorter since.
 */
#ifndef HF_VALIDITY_H
#define HF_VALIDITY_H

#include "base/util.h"

typedef struct hf_validity {
    int64_t deadline;   /* it stands before this, on hf_now()'s clock */
    int64_t lease_ms;   /* the time that a renewal gives, or HF_NEVER */
    int64_t longest_ms; /* the longest of all leases that were asked for: the server may still have
                         * it */
    /* An extension was asked for until then, on the same clock, whatever time a server reports. */
    int64_t extended_until;
    /* Replacements (HF_EXTEND_REPLACE) shorten a hold, and the server may carry them out in an
     * order other than that in which they are sent or answered. */
    int replacing;         /* how many are under way */
    int64_t shortened_at;  /* the last answer to a replacement, or to a look that found the key's
                            * end cut short, arrived then; INT64_MIN: there was no such answer */
    int64_t lengthened_at; /* the last answer that moved the deadline on arrived then, or the hold
                            * began; INT64_MIN: neither */
    int64_t cap_ms;        /* the bound of a replacement without an answer; 0: no bound */
    int64_t end;           /* max_hold: no deadline is later; HF_NO_DEADLINE: there is none */
} hf_validity;

/* Return the end of a hold, given that a request sent at sent_at reported remaining_ms. */
int64_t hf_deadline(int64_t sent_at, int64_t remaining_ms);

void hf_validity_begin(hf_validity *validity, int64_t lease_ms);
/* Return the end of this hold by such a request: never later than if it had just got the whole time
 * asked for. */
int64_t hf_validity_deadline(const hf_validity *validity, int64_t sent_at, int64_t remaining_ms);

/* Let no deadline be later than `end` from now on. */
void hf_validity_end_by(hf_validity *validity, int64_t end);
/* Return the time that a renewal sent now asks for, out of lease_ms: at most the time until the
 * end. */
int64_t hf_validity_ask_ms(const hf_validity *validity, int64_t now, int64_t lease_ms);
/* Return whether the deadline is as near the end as a renewal can move it. */
bool hf_validity_is_last(const hf_validity *validity);

/* Take, now, the answer to a request that never shortens. False: it is too old to count. */
bool hf_validity_renewed(hf_validity *validity, int64_t now, int64_t sent_at, int64_t remaining_ms);
/* Take the answer to a look, which changes nothing: the key may end sooner than counted, because
 * another program set its end, unless a slow answer explains the difference. False: it is too old
 * to count. */
bool hf_validity_looked(hf_validity *validity, int64_t now, int64_t sent_at, int64_t remaining_ms);

/* Note that a longer end is requested, duration_ms from now. */
void hf_validity_extends(hf_validity *validity, int64_t now, int64_t duration_ms);

/* Note that a replacement is sent now; hf_validity_replaced() follows in any case. */
void hf_validity_replaces(hf_validity *validity, int64_t now, int64_t duration_ms);
/* Take, now, the time left by the answer to a replacement. Below HF_NEVER: there is no answer. */
void hf_validity_replaced(hf_validity *validity, int64_t now, int64_t sent_at,
                          int64_t remaining_ms);
/* Note that a replacement has no answer, and may be carried out at any time. */
void hf_validity_doubts(hf_validity *validity, int64_t duration_ms);
/* Return whether a replacement may still shorten the hold, to less than duration_ms or HF_NEVER
 * from its arrival. */
bool hf_validity_is_doubtful(const hf_validity *validity, int64_t duration_ms);

#endif
