/* A lock in some lines of text: its holders and all that wait, for inspect and top. */
#ifndef HOLDFAST_DESCRIBE_H
#define HOLDFAST_DESCRIBE_H

#include "show.h"

/* One page of a look; `first` of the holders and of the waiters were on the pages before it. */
void describe(show_text *text, const hf_lock_info *info, const hf_view *view, int64_t first);

#endif
