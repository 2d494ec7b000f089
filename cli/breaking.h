/* Taking a lock away from one holder: the words and the deed, for break and top. */
#ifndef HOLDFAST_BREAKING_H
#define HOLDFAST_BREAKING_H

#include "show.h"

/* "the lock stock away from web-3/4711 thread 2, which has held it for 5s with the fence 17; 3
 * waiters". holder->owner is NULL for another library's lock. */
void breaking_add(show_text *text, const hf_view *view, const hf_lock_info *info,
                  const hf_lock_holder *holder);
/* "the lock stock", and why not; then its holders, a line each. */
void breaking_refuse(show_text *text, const hf_view *view, const char *why);
/* Takes it away from the holder with that fence, and nobody else, or, with the fence 0, from
 * another library. Returns CLI_OK, or the exit status, and why not. */
int breaking_take(hf_lock *lock, int64_t fence, show_text *why);

#endif
