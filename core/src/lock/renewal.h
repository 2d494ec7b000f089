/*
 * Renewal: holds are renewed in batches, grants are claimed, and losses are found and reported.
 * Only hf_renewal_interval() decides how often. For a hold in the table all functions here need the
 * client's mutex.
 */
#ifndef HF_RENEWAL_H
#define HF_RENEWAL_H

#include "lock/holds.h"

/* Make the data of the renewals; free() frees it. NULL: no memory. */
struct hf_renewing *hf_renewal_begin(void);

/* Return the cadence, in ns: a hold is renewed a third of its lease after it was given, or earlier
 * by its client's share, so that there is time for two more tries. A grant is claimed a third of
 * its claim lease after it began. A hold that never ends is checked now and then. */
int64_t hf_renewal_interval(const hf_hold *hold);

/* Plan the first renewal or the claim of a hold that has just entered the table. */
void hf_renewal_first_locked(hf_hold *hold);
/* Plan the next renewal by the time left: the hold's lease was replaced, and perhaps counts for
 * less than was asked, or the replacement failed. */
void hf_renewal_shortened_locked(hf_hold *hold);
/* Plan the next renewal after a renewal sent at sent_at. */
void hf_renewal_next_locked(hf_hold *hold, int64_t sent_at);
/* Take the answer to a renewal, a claim or a look. True: the server did nothing, because the lock
 * turns out to have several holds: the same request must be sent again. */
bool hf_renewal_learns_many_locked(hf_hold *hold, int64_t left_ms);
/* Set the hold's deadline by this answer to a renewal, a claim or a look. False: the answer is too
 * old to count. Plan the next renewal afterwards. */
bool hf_renewal_counts_locked(hf_hold *hold, hf_renew_mode mode, int64_t sent_at, int64_t left_ms);
/* Set the timer of a changed hold, for its renewal or its end. */
void hf_renewal_plan_locked(hf_hold *hold);
/* Renew each hold whose server has changed there at once, or look at it if it is not renewed. */
void hf_renewal_moved_locked(hf_client *client);
/* Return the lease that a claim asks for: the hold's, or the rest of it if it is not renewed. */
int64_t hf_hold_claim_ms(const hf_hold *hold);
/* Make the request that claims a grant. If replicas must have it, the request writes in any
 * case. */
void hf_hold_claim_request(hf_request *request, const hf_hold *hold);
/* Claim the grant now, in the background. */
void hf_hold_claim_locked(hf_hold *hold, int64_t now);
/* Send the batch that is due. */
void hf_renewal_flush_locked(hf_client *client);

/* Report losses, too, from now on. */
hf_status hf_losses_tell_locked(hf_client *client);
/* Start an operation with that number, whose end the news will report; losses are reported too.
 * After any status but HF_OK it is not started. */
hf_status hf_started_locked(hf_client *client, int64_t number, hf_news *news);
/* Report the end of an operation, with this thread's message; acquired: the hold of an acquire, or
 * NULL. */
void hf_ended_locked(hf_client *client, hf_news **news, hf_status status, hf_hold *acquired);
/* Return the cause of the loss of a hold whose lease has ended: an HF_CAUSE_. */
int hf_loss_cause(const hf_hold *hold);
/* Return the cause of the loss of a hold that the server does not have: its lease may have ended,
 * which no timer has seen. */
int hf_gone_cause(const hf_hold *hold);
/* Lose the hold: report the loss, and undo what is left of it on the server. */
void hf_hold_lose_locked(hf_hold *hold, int cause);
/* Lose a hold that the server does not have. */
void hf_hold_lose_gone_locked(hf_hold *hold);
/* Take an answer to a request sent at sent_at that shows that the server has the hold: lose the
 * holds that the server no longer has. If a hold was requested later, the server may have forgotten
 * this hold since: claim it. */
void hf_hold_shown_locked(hf_hold *hold, int64_t sent_at);
/* Lose the other holds of its ring, for that cause. */
void hf_hold_lose_others_locked(hf_hold *hold, int cause);
/* Lose the holds of this hold's ring: a hold that had left the ring turned out to be lost. */
void hf_hold_lose_left_locked(hf_hold *hold, int cause);

#endif
