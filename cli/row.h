/* A lock as one line: the result of a look, without its view, in columns and in an order. */
#ifndef HOLDFAST_ROW_H
#define HOLDFAST_ROW_H

#include "show.h"

typedef struct row {
    char *name, *owner; /* owner: of the holder that ends first; NULL: free, or foreign */
    char *note;         /* of the same holder; NULL: none */
    show_text people;   /* a line for each holder and waiter, as shown: for filters */
    size_t name_length, owner_length, note_length;
    bool held, foreign, shared, moving, kept;
    int64_t holders, count; /* count: their holds, with nested holds */
    int64_t fence, waiters;
    int64_t oldest;  /* the least fence of a holder: orders holds without jitter */
    int32_t call;    /* the state of a call that is made once: HF_ONCE_NONE and so on */
    int64_t weight;  /* of its shared holds */
    int64_t permits; /* the limit that is stored, or known from a waiter; 0: unknown, or none */
    /* Milliseconds at seen_at: of the longest hold, to the last end, of the first waiter. */
    int64_t held_ms, remaining_ms, waited_ms;
    int64_t seen_at; /* cli_now() */
} row;

/* Make a row. Exit if out of memory, as show.h does. */
row *row_new(const hf_lock_info *info, const hf_view *view);
void row_free(row *one);

/* --------------------------------------------------------------- Columns */

typedef struct row_layout {
    int name, holder; /* columns; holder 0: no limit */
    bool fence, cut;
} row_layout;

/* Compute the layout for a terminal of `columns` columns; 0: no terminal. */
row_layout row_fit(int columns, bool fence);
void row_add_head(show_text *line, const row_layout *layout);
/* Add the row with its times as of `now`. */
void row_add(show_text *line, const row_layout *layout, const row *one, int64_t now);
/* Return whether the filter is a part of the name, or of a holder or a waiter with its note, as
 * they are shown; a filter with * ? [ must match one of them as a whole. */
bool row_matches(const row *one, const char *filter);
/* Return the same without regard to the name. */
bool row_belongs(const row *one, const char *filter);
/* Add the first holder, and the number of other holders. */
void row_add_holder(show_text *text, const row *one);

/* ----------------------------------------------------------------- Order */

typedef enum {
    ROW_WAITERS,
    ROW_HELD,
    ROW_WAITED,
    ROW_REMAINING,
    ROW_NAME,
    ROW_FENCE,
    ROW_CALL,
    ROW_KEYS
} row_key;

/* "waiters", "held", "waited", "remaining", "name", "fence", "call" */
extern const char *const row_key_names[ROW_KEYS];

/* Compare two rows: below 0, `one` is first. The first row has the most waiters, the longest hold
 * or wait, the next end, the oldest fence, or an unknown outcome of a call. */
int row_compare(const row *one, const row *other, row_key key);
/* Compare the names only. */
int row_compare_names(const row *one, const row *other);

#endif
