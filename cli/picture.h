/* A snapshot of a watch, for top: the locks in an order, and the lines above them. All functions
 * need the watch's mutex. */
#ifndef HOLDFAST_PICTURE_H
#define HOLDFAST_PICTURE_H

#include "watch.h"

typedef struct picture {
    /* Set before picture_take(). */
    row_key key;
    bool reverse;
    const char *filter; /* of names and holders; a pattern if it has * ? [; "": all */

    table_entry **entries; /* valid until table.changes differs */
    size_t count;
    size_t all, held, shared, foreign, waiting; /* locks, unfiltered; waiting: acquires */
    size_t calls[HF_ONCE_FAILED + 1];           /* by their state */

    /* The recent rates. */
    int64_t cost_at, commands, busy_us; /* when and from which counts they were computed */
    double per_second, share;           /* below 0: not known yet; share: of one server */
} picture;

void picture_open(picture *it, row_key key, bool reverse);
void picture_take(picture *it, const watch *of);
/* Compute the rates since the last call, if `ms` have passed. */
void picture_measure(picture *it, const watch *of, int64_t ms);
/* Add "12 locks, 9 held, 2 shared, 1 foreign, 5 waiters, 1 running; sorted by waiters" */
void picture_add_counts(show_text *line, const picture *it);
/* Add "Cost: 42 commands a second, 0.4 % of a server's time", and the progress of the walk. */
void picture_add_cost(show_text *line, const picture *it, const watch *of);
void picture_close(picture *it);

#endif
