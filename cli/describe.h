/* A lock with its holders, its waiters and its call: as text, for inspect and top, and as JSON. */
#ifndef HOLDFAST_DESCRIBE_H
#define HOLDFAST_DESCRIBE_H

#include "show.h"

/* Add a stored limit: "5 permits", "10 in 1m", "no limit". */
void describe_limit(show_text *text, int64_t permits, int64_t per_ms);
/* Add one page of a look; `first`: the number of holders, and of waiters, on the earlier pages. */
void describe(show_text *text, const hf_lock_info *info, const hf_view *view, int64_t first);
/* Return a look as an object; describe_json_page() adds the lists of its further pages. */
json_t *describe_json(const hf_lock_info *info, const hf_view *view);
void describe_json_page(json_t *lock, const hf_view *view);

#endif
