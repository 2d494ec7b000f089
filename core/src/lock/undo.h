/* Undoing, in the background, of holds that were given up, until they can no longer matter; and two
 * more requests whose answer no caller waits for: kick and heal. */
#ifndef HF_UNDO_H
#define HF_UNDO_H

#include "lock/holds.h"

/* NULL: no memory. */
struct hf_undoing *hf_undo_begin(hf_client *client);
void hf_undo_end(hf_client *client);

/* Release the hold in the background, whatever happened to it. This thread's message stays. False:
 * the client is closed, and hf_undo_now() must follow. */
bool hf_undo_locked(hf_hold *hold);
/* Release the hold that has this id now, even with another fence, and bury the id. */
void hf_undo_id_locked(hf_hold *hold);
/* Release the hold on this thread, until the deadline, with the request `left`, which reports the
 * end of its call; or NULL. This thread's message stays. Without the mutex. */
void hf_undo_now(const hf_hold *hold, hf_request *left, int64_t deadline);
/* Give up the id of an acquire, which ends without the lock, or goes on under another id. Whatever
 * its answers were, what it left on the server is undone, and a copy that is under way finds the id
 * dead. With ask, its place in the queue too. False: the client is closed, and hf_undo_now() must
 * follow. */
bool hf_undo_acquire_locked(hf_hold *hold, const hf_ask *ask);
/* Undo an acquire for which there is no memory now a little later, or in the close; of a hold whose
 * handle is closed, only bury the id. */
void hf_undo_later_locked(hf_hold *hold);
/* Bury the id: the server carries out no copy of its request that is under way; ends: it also ends
 * a hold that a copy has begun. False: no memory. */
bool hf_undo_bury_locked(hf_client *client, hf_names *names, const hf_ask *ask, bool ends);
/* Remember an id that is given up while a copy of its enqueue can still arrive late: if it is
 * granted the lock, the grant is given back. */
void hf_undo_remember_locked(hf_client *client, hf_names *names, const char *id);
/* Release a grant that arrived for an id that no longer waits, if the id was given up so. */
void hf_undo_grant_locked(hf_client *client, const char *id, int64_t fence);
/* Make a task for hf_undo_insist_locked(), for when there is no memory. NULL: there is none now. */
hf_task *hf_undo_spare(const hf_hold *hold);
/* Send that release of the hold, which reports the end of a call, until the server has answered and
 * not refused it, for as long as the client is open. Takes the request over, or leaves it empty;
 * without memory or a thread it takes *spare over, and if that is NULL the hold is only undone.
 * False: the client is closed, and hf_undo_now() must follow. */
bool hf_undo_insist_locked(hf_hold *hold, hf_request *request, hf_task **spare);
/* Hand on a lock that was left free with more waiters to skip in its queue. */
void hf_kick_locked(hf_client *client, hf_names *names);
/* Give another library's lock that has no TTL the TTL that the waiter's lock asks for. */
void hf_heal_locked(hf_client *client, const hf_hold *hold);

/* Return, while the client closes, the holds that could not be undone yet for want of memory:
 * linked by `undo`, each with a reference. */
hf_list *hf_undo_left_locked(hf_client *client);

#endif
