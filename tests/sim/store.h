/* What the judge sees of the locks on the servers, past all commands. */
#ifndef SIM_STORE_H
#define SIM_STORE_H

#include "kernel.h"

void store_begin(void);

/* The fences of a lock's holds whose end has not come by the server's clock; how many. */
enum { STORE_HOLDS = 200 };
size_t store_fences(const char *key, int64_t *fences, size_t room);
/* Of independent masters: the votes of one hold have one number, its ballot. The ballots of all
 * votes that stand stand for the fences. These masters have a vote of it, and these would if they
 * had not lost their data less than a quarantine ago: each a bit. */
unsigned store_votes(const char *key, int64_t ballot);
unsigned store_young(void);
bool store_is_majority(unsigned masters);
/* The ballot of a vote with that fence; or the other one. */
int64_t store_ballot(const char *key, int64_t fence, int64_t otherwise);
/* Has any a majority, with those masters? */
bool store_is_decided(const char *key);
/* What they weigh together. */
int64_t store_weight(const char *key);
/* The limit that is stored with that lock: permits, and of a gate ms; 0, 0: none is. */
void store_limit(const char *key, int64_t *permits, int64_t *per_ms);
int64_t store_last(const char *key); /* fence; 0: none is known */
/* Has the lock such a hold with that fence? */
bool store_has(const char *key, int64_t fence);
/* Does no end of a lease end it? */
bool store_stays(const char *key);
/* How many replicas have that last fence of it, or a later one? */
int store_replicas(const char *key, int64_t fence);
/* The first of its queue, and its last fence. False: there is no waiter. */
bool store_head(const char *key, char *member, size_t room, int64_t *score, int64_t *last);
/* What it has, for people. */
const char *store_tell(const char *key);
/* Since when no valid hold stands; SIM_NEVER: one does. Looks each time it is asked. */
int64_t store_free_since(const char *key);
/* Has another library it? */
bool store_foreign(const char *key);
/* An operator deletes that key, a text that stays; its S may then be left over. */
void store_delete(const char *key);
/* A key that no lock may leave; NULL: none. */
const char *store_left(void);

#endif
