/* A lock as one line: what a look found, kept without the view, in columns and in an order. */
#ifndef HOLDFAST_ROW_H
#define HOLDFAST_ROW_H

#include "show.h"

typedef struct row {
    char *name, *owner; /* of the holder that ends first; NULL: there is none, or it is foreign */
    size_t name_length, owner_length;
    bool held, foreign, shared, moving;
    int64_t holders, count; /* how many; and their holds, nested ones too */
    int64_t fence, waiters;
    int64_t oldest;  /* the least fence of a holder, which tells the order in time without jitter */
    int64_t permits; /* how many may share it, as one that waits says; 0: unknown, or any number */
    /* Milliseconds when it was looked at: the longest hold, the last end, the first that waits. */
    int64_t held_ms, remaining_ms, waited_ms;
    int64_t seen_at; /* cli_now() */
} row;

/* It ends the program if there is no memory, as all of show.h. */
row *row_new(const hf_lock_info *info, const hf_view *view);
void row_free(row *one);

/* --------------------------------------------------------------- Columns */

typedef struct row_layout {
    int name, holder; /* columns; of the holder 0: all that it needs */
    bool fence, cut;
} row_layout;

/* For so many columns, 0: for no terminal. */
row_layout row_fit(int columns, bool fence);
void row_add_head(show_text *line, const row_layout *layout);
/* As it is at `now`, if nothing has changed since it was seen. */
void row_add(show_text *line, const row_layout *layout, const row *one, int64_t now);
/* Who holds it: one, and how many others. */
void row_add_holder(show_text *text, const row *one);

/* ----------------------------------------------------------------- Order */

typedef enum {
    ROW_WAITERS,
    ROW_HELD,
    ROW_WAITED,
    ROW_REMAINING,
    ROW_NAME,
    ROW_FENCE,
    ROW_KEYS
} row_key;

/* "waiters", "held", "waited", "remaining", "name", "fence" */
extern const char *const row_key_names[ROW_KEYS];

/* Below 0: the first one comes first, which for a time or a number is the one that an operator
 * looks for: most waiters, the longest times, the next end, the oldest fence. */
int row_compare(const row *one, const row *other, row_key key);
/* The same for names alone. */
int row_compare_names(const row *one, const row *other);

#endif
