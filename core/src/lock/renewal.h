/*
 * Renewal: holds are renewed in batches, grants are claimed, and a loss is noticed
 * and reported. hf_renewal_interval() alone decides how often. For a hold in the table everything
 * here needs the client's mutex.
 */
#ifndef HF_RENEWAL_H
#define HF_RENEWAL_H

#include "lock/holds.h"

/* NULL: no memory. It is freed with free(). */
struct hf_renewing *hf_renewal_begin(void);

/* The cadence, in ns: a hold is renewed a third of its lease after it was given, or by its client's
 * share earlier, so that two more tries fit in. A grant is claimed a third of its claim lease after
 * it. A hold that never ends is checked now and then. */
int64_t hf_renewal_interval(const hf_hold *hold);

/* It is held, and in the table: plan its first renewal or its claim. */
void hf_renewal_first_locked(hf_hold *hold);
/* Its lease was replaced, and perhaps counts for less than was asked, or the replacement failed:
 * plan the next renewal by the time left. */
void hf_renewal_shortened_locked(hf_hold *hold);
/* It was renewed by a request that was sent then: plan the next renewal. */
void hf_renewal_next_locked(hf_hold *hold, int64_t sent_at);
/* A renewal, a claim or a look was answered so. True: nothing was done, because the lock turns out
 * to have several holds: the same is to be asked again. */
bool hf_renewal_learns_many_locked(hf_hold *hold, int64_t left_ms);
/* Set its deadline by this answer to a renewal, a claim or a look. False: the answer is too
 * old to count. Plan the next renewal afterwards. */
bool hf_renewal_counts_locked(hf_hold *hold, hf_renew_mode mode, int64_t sent_at, int64_t left_ms);
/* It was changed: set its timer anew, for its renewal or its end. */
void hf_renewal_plan_locked(hf_hold *hold);
/* Some have another server than before: each of these is renewed there at once, or looked at if it
 * is not renewed. */
void hf_renewal_moved_locked(hf_client *client);
/* The time that a claim asks for: its lease, or the rest of it if it is not renewed. */
int64_t hf_hold_claim_ms(const hf_hold *hold);
/* What claims a grant. Where replicas must have it, it writes something in any case. */
void hf_hold_claim_request(hf_request *request, const hf_hold *hold);
/* Claim it now, in the background. */
void hf_hold_claim_locked(hf_hold *hold, int64_t now);
/* Send what is due. */
void hf_renewal_flush_locked(hf_client *client);

/* From now on losses are reported, too. */
hf_status hf_losses_tell_locked(hf_client *client);
/* Start an operation with that number, whose end the news will report, and report losses
 * too. Any other status than HF_OK: it is not started. */
hf_status hf_started_locked(hf_client *client, int64_t number, hf_news *news);
/* Report that end, with this thread's message; acquired: the hold of an acquire, or NULL. */
void hf_ended_locked(hf_client *client, hf_news **news, hf_status status, hf_hold *acquired);
/* Why it is lost if its lease has ended: an HF_CAUSE_. */
int hf_loss_cause(const hf_hold *hold);
/* It is lost: report that, and undo the rest of it on the server. */
void hf_hold_lose_locked(hf_hold *hold, int cause);
/* The answer to a request of that time has shown that the server has it: lose the holds that
 * the server no longer has. Beside a hold that was asked for later, the server may have forgotten
 * this one since: claim it. */
void hf_hold_shown_locked(hf_hold *hold, int64_t sent_at);
/* Lose the other holds of its ring, for that cause. */
void hf_hold_lose_others_locked(hf_hold *hold, int cause);
/* Lose the holds of a ring that one has left, and turned out to be lost. */
void hf_hold_lose_left_locked(hf_hold *hold, int cause);

#endif
