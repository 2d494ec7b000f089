/* The live picture of top: pages, keys, questions. */
#ifndef HOLDFAST_LIVE_H
#define HOLDFAST_LIVE_H

#include "picture.h"

/* On a terminal that is open, until the user ends it, or after so many walks; 0: any number.
 * Returns the exit status. */
int live_run(watch *of, row_key key, bool reverse, int64_t walks);

#endif
