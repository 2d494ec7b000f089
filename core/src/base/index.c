#include "base/index.h"

#include <stdlib.h>

hf_entry *hf_index_after(const hf_index *index, const hf_entry *entry) {
    size_t mask = hf_index_mask(index);
    if (entry != NULL && entry->next != NULL)
        return entry->next;
    hf_entry **buckets = hf_index_bucket((hf_index *)index, 0);
    for (size_t i = entry != NULL ? (entry->hash & mask) + 1 : 0; i <= mask; i++)
        if (buckets[i] != NULL)
            return buckets[i];
    return NULL;
}

void hf_index_grow(hf_index *index) {
    size_t size = hf_index_mask(index) + 1;
    hf_entry **old = hf_index_bucket(index, 0), **made = calloc(2 * size, sizeof(hf_entry *));
    if (made == NULL)
        return;
    for (size_t i = 0; i < size; i++) {
        hf_entry **ends[] = {&made[i], &made[i + size]};
        for (hf_entry *at = old[i]; at != NULL; at = at->next) {
            hf_entry ***end = &ends[(at->hash & size) != 0];
            **end = at;
            *end = &at->next;
        }
        *ends[0] = *ends[1] = NULL;
    }
    free(index->buckets);
    index->buckets = made;
    index->mask = 2 * size - 1;
}

void hf_index_end(hf_index *index) { free(index->buckets); }
