/*
 * Until when a hold is certain to stand. Plain data and pure functions: nothing here
 * waits, sends or looks at a clock.
 *
 * The rule: the client never counts on more than the server keeps. A request that
 * makes a hold shorter counts here before it is sent; a request that makes it
 * longer counts when it is answered, from the time when it was sent, and only if no
 * request that is still under way, or crossed it, can have made the hold shorter since.
 */
#ifndef HF_VALIDITY_H
#define HF_VALIDITY_H

#include "base/util.h"

typedef struct hf_validity {
    int64_t deadline;   /* it stands before this, on hf_now()'s clock */
    int64_t lease_ms;   /* the time that a renewal gives, or HF_NEVER */
    int64_t longest_ms; /* of all leases that were asked for: the server may still have that */
    /* An extension was asked for until then, on the same clock, whatever time a server reports. */
    int64_t extended_until;
    /* Replacements (HF_EXTEND_REPLACE) shorten, and the server may carry them out in
     * another order than they were sent or are answered. */
    int replacing;         /* how many are under way */
    int64_t shortened_at;  /* the last answer to one came then, or a look that found the key's end
                            * cut short; INT64_MIN: neither did */
    int64_t lengthened_at; /* the last answer that moved the deadline on came then, or the hold
                            * began; INT64_MIN: neither */
    int64_t cap_ms;        /* the bound of a replacement without an answer; 0: no bound */
    int64_t end;           /* max_hold: no deadline is later; HF_NO_DEADLINE: there is none */
} hf_validity;

/* The end of a hold, of which a request that was sent then reported remaining_ms. */
int64_t hf_deadline(int64_t sent_at, int64_t remaining_ms);

void hf_validity_begin(hf_validity *validity, int64_t lease_ms);
/* The same for this hold: never later than if it had just got the whole time that was asked for. */
int64_t hf_validity_deadline(const hf_validity *validity, int64_t sent_at, int64_t remaining_ms);

/* From now on no deadline is later than `end`. */
void hf_validity_end_by(hf_validity *validity, int64_t end);
/* The time that a renewal sent now asks for, out of lease_ms: no more than the time until
 * the end. */
int64_t hf_validity_ask_ms(const hf_validity *validity, int64_t now, int64_t lease_ms);
/* Does the deadline lie as near the end as a renewal can move it? */
bool hf_validity_is_last(const hf_validity *validity);

/* Something that never shortens was answered now. False: that is too old to count. */
bool hf_validity_renewed(hf_validity *validity, int64_t now, int64_t sent_at, int64_t remaining_ms);
/* A look was answered, which changes nothing: the key may end sooner than counted, because
 * another program set its end, if no way of the answer explains it. False: that is too old to
 * count. */
bool hf_validity_looked(hf_validity *validity, int64_t now, int64_t sent_at, int64_t remaining_ms);

/* A longer end is asked for, that many ms from now. */
void hf_validity_extends(hf_validity *validity, int64_t now, int64_t duration_ms);

/* A replacement is sent now; hf_validity_replaced() follows in any case. */
void hf_validity_replaces(hf_validity *validity, int64_t now, int64_t duration_ms);
/* The time left by an answer of now. Below HF_NEVER: there is no such answer. */
void hf_validity_replaced(hf_validity *validity, int64_t now, int64_t sent_at,
                          int64_t remaining_ms);
/* It has no answer, and may be carried out at any time. */
void hf_validity_doubts(hf_validity *validity, int64_t duration_ms);
/* May a replacement still shorten it, to less than that many ms or HF_NEVER from when it comes? */
bool hf_validity_is_doubtful(const hf_validity *validity, int64_t duration_ms);

#endif
