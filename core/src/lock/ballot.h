/*
 * A ballot: one acquire at all masters of a quorum. Its vote at a master is an ordinary hold there;
 * the caller's hold stands while a majority of the votes does. Everything here needs the quorum's
 * mutex.
 */
#ifndef HF_BALLOT_H
#define HF_BALLOT_H

#include "lock/quorum.h"

extern const hf_ballot_ways hf_ballot;
/* End the acquires of a client that is being closed. */
void hf_ballots_close(hf_client *client);

#endif
