/* The locks that are known, by name, over many walks. One thread at a time. */
#ifndef HOLDFAST_TABLE_H
#define HOLDFAST_TABLE_H

#include "row.h"

typedef struct table_entry {
    row *row;
    json_t *json; /* or NULL; what was seen with it, of table_put() */
    size_t at;    /* in table.entries */
    unsigned walk;
} table_entry;

/* Zero it first. */
typedef struct table {
    table_entry **entries; /* in no order */
    size_t count, capacity;
    void *index;      /* of tsearch(3) */
    unsigned changes; /* counts them: an entry stays where it is while this is the same */
} table;

/* Takes the row and the object over, in place of the row with that name. walk: in which it was
 * found; 0: as the one before. */
void table_put(table *all, row *one, json_t *json, unsigned walk);
/* NULL: there is none. */
const row *table_find(const table *all, const void *name, size_t length);
void table_drop(table *all, const void *name, size_t length);
/* Drops what was found in no walk from this one on. */
void table_sweep(table *all, unsigned walk);
void table_free(table *all);

#endif
