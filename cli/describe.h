/* A lock as text: its holders and waiters, for inspect and top. */
#ifndef HOLDFAST_DESCRIBE_H
#define HOLDFAST_DESCRIBE_H

#include "show.h"

/* Add one page of a look; `first`: the number of holders, and of waiters, on the earlier pages. */
void describe(show_text *text, const hf_lock_info *info, const hf_view *view, int64_t first);

#endif
