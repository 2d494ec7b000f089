/* Undoing in the background of holds that were given up, until they can no longer matter; and two
 * more requests whose answer no caller waits for: kick and heal. */
#ifndef HF_UNDO_H
#define HF_UNDO_H

#include "lock/holds.h"

/* NULL: no memory. */
struct hf_undoing *hf_undo_begin(hf_client *client);
void hf_undo_end(hf_client *client);

/* Release it in the background, whatever became of it. This thread's message stays. False: the
 * client is closed, and hf_undo_now() has to follow. */
bool hf_undo_locked(hf_hold *hold);
/* Release whatever has its id now, with another fence too, and let the id be dead. */
void hf_undo_id_locked(hf_hold *hold);
/* Release it on this thread, until the deadline, by that request, which reports the end of its
 * call; or NULL. Its message stays. Without the mutex. */
void hf_undo_now(const hf_hold *hold, hf_request *left, int64_t deadline);
/* An acquire gives its id up: it ends without the lock, or goes on under another id. Whatever
 * its answers were: the rest of it on the server is undone, and a copy that is under way finds
 * the id dead. With ask, its place in the queue too. False: the client is closed, and hf_undo_now()
 * has to follow. */
bool hf_undo_acquire_locked(hf_hold *hold, const hf_ask *ask);
/* Bury the id: the server carries out no copy of its request that is under way; ends: and ends
 * a hold that a copy has begun. False: no memory. */
bool hf_undo_bury_locked(hf_client *client, hf_names *names, const hf_ask *ask, bool ends);
/* That id is given up while a copy of its enqueue can still arrive late: should it be granted the
 * lock, the grant is given back. */
void hf_undo_remember_locked(hf_client *client, hf_names *names, const char *id);
/* A grant arrived for an id that no longer waits: release it, if it was given up so. */
void hf_undo_grant_locked(hf_client *client, const char *id, int64_t fence);
/* Send that release of the hold until it is answered, and not refused, for as long as the client
 * is open: it reports the end of a call. Takes the request over, or leaves it empty; without memory
 * or a thread the hold is only undone. False: the client is closed, and hf_undo_now() has to
 * follow. */
bool hf_undo_insist_locked(hf_hold *hold, hf_request *request);
/* Hand on a lock that was left free with more of its queue to skip. */
void hf_kick_locked(hf_client *client, hf_names *names);
/* Give another library's lock without an end one, as the waiter's lock asks for. */
void hf_heal_locked(hf_client *client, const hf_hold *hold);

/* The client is being closed: return the holds that could not be undone yet, for want of memory.
 * Holds by `undo`, each with a reference. */
hf_list *hf_undo_left_locked(hf_client *client);

#endif
