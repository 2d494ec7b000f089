/* What top shows of a watch: the locks in an order, and the lines above them. All of it needs the
 * watch's mutex. */
#ifndef HOLDFAST_PICTURE_H
#define HOLDFAST_PICTURE_H

#include "watch.h"

typedef struct picture {
    /* For picture_take(). */
    row_key key;
    bool reverse;
    const char *filter; /* only what is so named or held; a pattern if it has * ? [; "": all */

    table_entry **entries; /* until table.changes is another */
    size_t count;
    size_t all, held, shared, foreign, waiting; /* locks, with and without the filter; acquires */

    /* The rates of late. */
    int64_t cost_at, commands, busy_us; /* when they were computed, and of what */
    double per_second, share;           /* below 0: not known yet; share: of one server's time */
} picture;

void picture_open(picture *it, row_key key, bool reverse);
void picture_take(picture *it, const watch *of);
/* Compute the rates since the last time, if `ms` have passed. */
void picture_measure(picture *it, const watch *of, int64_t ms);
/* "12 locks, 9 held, 2 shared, 1 foreign, 5 waiters; sorted by waiters" */
void picture_add_counts(show_text *line, const picture *it);
/* "Cost: 42 commands a second, 0.4 % of a server's time", and how far the walk is. */
void picture_add_cost(show_text *line, const picture *it, const watch *of);
void picture_close(picture *it);

#endif
