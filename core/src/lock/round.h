/*
 * All votes of a hold at once: each master does the same with its own, and the result of the
 * majority is reported. All of this needs the quorum's mutex.
 */
#ifndef HF_ROUND_H
#define HF_ROUND_H

#include "lock/masters.h"

typedef struct hf_round hf_round;

/* It is reported once, as in hf_ballot_ways.poll. office: it waits for that master's release. NULL:
 * no memory. */
hf_round *hf_round_new(struct hf_hold *hold, hf_round_kind kind, size_t office, hf_round_told *told,
                       void *context);
/* Have that master do it with its vote. */
void hf_round_ask(hf_round *mine, size_t at, struct hf_hold *of, int64_t duration_ms);
/* Of a release: that master has no vote, but may give one yet, if it is asked. To cancel that would
 * leave open whether the lock is free there. */
void hf_round_await(hf_round *mine, size_t at, hf_call **asking);
/* Report its result, if that is certain by now. */
void hf_round_judge(hf_round *mine);
/* The client is being closed. */
void hf_rounds_close(hf_client *client);

#endif
