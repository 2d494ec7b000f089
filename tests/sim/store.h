/* What the judge sees of the locks on the servers, without commands. */
#ifndef SIM_STORE_H
#define SIM_STORE_H

#include "kernel.h"

void store_begin(void);

/* Store the fences of a lock's holds that have not ended by the server's clock; return their
 * number. */
enum { STORE_HOLDS = 200 };
size_t store_fences(const char *key, int64_t *fences, size_t room);
/* With independent masters: the votes of one hold have one number, its ballot, and store_fences()
 * stores the ballots of all standing votes in the place of fences. Return the masters that have a
 * vote of the ballot; and those that would have it if they had not lost their data less than a
 * quarantine ago. Each master is a bit. */
unsigned store_votes(const char *key, int64_t ballot);
unsigned store_young(void);
bool store_is_majority(unsigned masters);
/* Return the ballot of a vote with that fence, or `otherwise` if there is none. */
int64_t store_ballot(const char *key, int64_t fence, int64_t otherwise);
/* Return whether a ballot has, or may have, a majority. */
bool store_is_decided(const char *key);
/* Return what the lock's holds weigh together. */
int64_t store_weight(const char *key);
/* Return the limit that is stored with the lock: permits, and ms of a gate; 0 and 0: no limit. */
void store_limit(const char *key, int64_t *permits, int64_t *per_ms);
int64_t store_last(const char *key); /* last fence; 0: unknown */
/* Return whether the lock has a hold with that fence. */
bool store_has(const char *key, int64_t fence);
/* Return whether the lock has holds that no lease ends. */
bool store_stays(const char *key);
/* Return how many replicas have this last fence of the lock, or a later one. */
int store_replicas(const char *key, int64_t fence);
/* Return the first member of the queue, its score, and the last fence. False: there is no waiter.
 */
bool store_head(const char *key, char *member, size_t room, int64_t *score, int64_t *last);
/* Return the lock's state, for people. */
const char *store_tell(const char *key);
/* Return since when the lock has no valid hold; SIM_NEVER: it has one. Each call looks again. */
int64_t store_free_since(const char *key);
/* Return whether another library holds the lock. */
bool store_foreign(const char *key);
/* Note that an operator deletes the lock's key (a text that must stay valid): its S may be left
 * over. */
void store_delete(const char *key);
/* Return a key that no lock may leave behind; NULL: there is none. */
const char *store_left(void);

#endif
