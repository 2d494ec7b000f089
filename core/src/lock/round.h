/*
 * All votes of a hold at once: each master does the same with its vote, and the result of the
 * majority is reported. All functions here need the quorum's mutex.
 */
#ifndef HF_ROUND_H
#define HF_ROUND_H

#include "lock/masters.h"

typedef struct hf_round hf_round;

/* Make a round, which reports once, as described at hf_ballot_ways.poll. office: it waits for that
 * master's release. NULL: no memory. */
hf_round *hf_round_new(struct hf_hold *hold, hf_round_kind kind, size_t office, hf_round_told *told,
                       void *context);
/* Have that master do it with its vote. */
void hf_round_ask(hf_round *mine, size_t at, struct hf_hold *of, int64_t duration_ms);
/* For a release: wait for a master that has no vote, but is asked for a vote and may still give it.
 * Cancelling that request would leave open whether the lock is free there. */
void hf_round_await(hf_round *mine, size_t at, hf_call **asking);
/* Report the round's result, if it is certain already. */
void hf_round_judge(hf_round *mine);
/* End the rounds of a client that is being closed. */
void hf_rounds_close(hf_client *client);

#endif
