/* The interactive part of top: pages, keys, questions. */
#ifndef HOLDFAST_LIVE_H
#define HOLDFAST_LIVE_H

#include "picture.h"

/* Run on the open terminal until the user quits, or for `walks` walks; 0: no limit. Return the
 * exit status. */
int live_run(watch *of, row_key key, bool reverse, int64_t walks);

#endif
