#include "table.h"

#include <search.h>
#include <stdlib.h>

static int compare(const void *one, const void *other) {
    return row_compare_names(((const table_entry *)one)->row, ((const table_entry *)other)->row);
}

/* Find an entry: the results of tsearch() and tfind() point to it. */
static table_entry *find(const table *all, const void *name, size_t length) {
    row wanted = {.name = (char *)name, .name_length = length};
    table_entry key = {.row = &wanted};
    table_entry **found = tfind(&key, &all->index, compare);
    return found != NULL ? *found : NULL;
}

static table_entry *add(table *all, row *one) {
    all->entries = show_room(all->entries, all->count, &all->capacity, sizeof(table_entry *));
    table_entry *entry = show_memory(sizeof *entry);
    *entry = (table_entry){.row = one, .at = all->count};
    all->entries[all->count++] = entry;
    show_got(tsearch(entry, &all->index, compare));
    return entry;
}

void table_put(table *all, row *one, json_t *json, unsigned walk) {
    table_entry *entry = find(all, one->name, one->name_length);
    if (entry == NULL) {
        entry = add(all, one);
    } else {
        row_free(entry->row);
        json_decref(entry->json);
        entry->row = one; /* with the same name */
    }
    entry->json = json;
    entry->walk = walk > 0 ? walk : entry->walk;
    all->changes++;
}

const row *table_find(const table *all, const void *name, size_t length) {
    table_entry *entry = find(all, name, length);
    return entry != NULL ? entry->row : NULL;
}

static void drop(table *all, table_entry *entry) {
    tdelete(entry, &all->index, compare);
    all->entries[entry->at] = all->entries[--all->count];
    all->entries[entry->at]->at = entry->at;
    row_free(entry->row);
    json_decref(entry->json);
    free(entry);
    all->changes++;
}

void table_drop(table *all, const void *name, size_t length) {
    table_entry *entry = find(all, name, length);
    if (entry != NULL)
        drop(all, entry);
}

void table_sweep(table *all, unsigned walk) {
    for (size_t i = all->count; i-- > 0;) /* the last entry replaces a dropped one */
        if (all->entries[i]->walk < walk)
            drop(all, all->entries[i]);
}

void table_free(table *all) {
    while (all->count > 0)
        drop(all, all->entries[all->count - 1]);
    free(all->entries);
    *all = (table){0};
}
