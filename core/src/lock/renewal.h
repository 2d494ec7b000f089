/*
 * Renewal: holds are renewed in batches, grants are claimed, and a loss is noticed and
 * told. hf_renewal_interval() alone decides how often. For a hold in the table everything
 * here needs the client's mutex.
 */
#ifndef HF_RENEWAL_H
#define HF_RENEWAL_H

#include "lock/holds.h"

/* NULL: no memory. */
struct hf_renewing *hf_renewal_begin(void);
void hf_renewal_end(struct hf_renewing *renewing);

/* The cadence, in ns: a hold is renewed a third of its lease after it was given, or by its client's
 * share earlier, so that two more tries fit in. A grant is claimed a third of its claim lease after
 * it. One that never ends is looked at now and then. */
int64_t hf_renewal_interval(const hf_hold *hold);

/* It is held, and in the table: plan its first renewal or its claim. */
void hf_renewal_first_locked(hf_hold *hold);
/* Its lease was replaced, and perhaps counts for less than was asked, or that came to nothing: plan
 * the next by what is left. */
void hf_renewal_shortened_locked(hf_hold *hold);
/* It was renewed by what was sent then: plan the next. */
void hf_renewal_next_locked(hf_hold *hold, int64_t sent_at);
/* A renewal, a claim or a look was answered so. True: nothing was done, because the lock turns out
 * to have several holds: the same is to be asked again. */
bool hf_renewal_learns_many_locked(hf_hold *hold, int64_t left_ms);
/* A renewal, a claim or a look was answered so: what that makes of its deadline. False: it is too
 * old to count. Plan it afterwards. */
bool hf_renewal_counts_locked(hf_hold *hold, hf_renew_mode mode, int64_t sent_at, int64_t left_ms);
/* It was changed: set its timer anew, for its renewal or its end. */
void hf_renewal_plan_locked(hf_hold *hold);
/* Some have another server than before: each of these is renewed there at once, or looked at if it
 * is not renewed. */
void hf_renewal_moved_locked(hf_client *client);
/* For how long a claim asks: its lease, or what is left of it if it is not renewed. */
int64_t hf_hold_claim_ms(const hf_hold *hold);
/* What claims a grant. Where replicas must have it, it writes something in any case. */
void hf_hold_claim_request(hf_request *request, const hf_hold *hold);
/* Claim it now, in the background. */
void hf_hold_claim_locked(hf_hold *hold, int64_t now);
/* Send what is due. */
void hf_renewal_flush_locked(hf_client *client);

/* From now on losses are told, too. */
hf_status hf_losses_tell_locked(hf_client *client);
/* An operation with that number is started, of which the news will tell, and of losses too.
 * Otherwise than HF_OK: it is not. */
hf_status hf_started_locked(hf_client *client, int64_t number, hf_news *news);
/* Why it is lost if its lease has ended: an HF_CAUSE_. */
int hf_loss_cause(const hf_hold *hold);
/* It is lost: tell, and see that nothing of it stays behind. */
void hf_hold_lose_locked(hf_hold *hold, int cause);
/* The answer to what was sent then has shown that the server has it: lose what the server has no
 * more, then. Beside a hold that was asked for later it may have forgotten this one since, which is
 * to be claimed. */
void hf_hold_shown_locked(hf_hold *hold, int64_t sent_at);
/* Lose the other holds of its ring, for that cause. */
void hf_hold_lose_others_locked(hf_hold *hold, int cause);
/* Lose the holds of a ring that one has left, and turned out to be lost. */
void hf_hold_lose_left_locked(hf_hold *hold, int cause);

#endif
