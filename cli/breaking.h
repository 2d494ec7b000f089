/* Taking a lock away from one holder, and the messages for that, for break and top. */
#ifndef HOLDFAST_BREAKING_H
#define HOLDFAST_BREAKING_H

#include "show.h"

/* Add "the lock stock away from web-3/4711 thread 2, which has held it for 5s with the fence 17; 3
 * waiters". holder->owner is NULL for another library's lock. */
void breaking_add(show_text *text, const hf_view *view, const hf_lock_info *info,
                  const hf_lock_holder *holder);
/* Add "the lock stock" and the reason, and its holders on a line each. */
void breaking_refuse(show_text *text, const hf_view *view, const char *why);
/* Take the lock away only from the holder with this fence, or, with the fence 0, from another
 * library. Return CLI_OK, or the exit status, and the reason in `why`. */
int breaking_take(hf_lock *lock, int64_t fence, show_text *why);

#endif
