/* The known locks, by name, over many walks. One thread at a time. */
#ifndef HOLDFAST_TABLE_H
#define HOLDFAST_TABLE_H

#include "row.h"

typedef struct table_entry {
    row *row;
    json_t *json; /* of the same look, or NULL */
    size_t at;    /* in table.entries */
    unsigned walk;
} table_entry;

/* The table; initialize it with zeros. */
typedef struct table {
    table_entry **entries; /* not sorted */
    size_t count, capacity;
    void *index;      /* of tsearch(3) */
    unsigned changes; /* a counter: entries keep their places while it stays the same */
} table;

/* Insert the row and the object, which the table then owns, or replace those of the same name.
 * walk: the walk that found it; 0: keep the number of the earlier row. */
void table_put(table *all, row *one, json_t *json, unsigned walk);
/* Return the row with this name, or NULL. */
const row *table_find(const table *all, const void *name, size_t length);
void table_drop(table *all, const void *name, size_t length);
/* Drop the rows that were not found in this walk or later. */
void table_sweep(table *all, unsigned walk);
void table_free(table *all);

#endif
