/* Intrusive hash tables, which grow with their elements: an element contains its own entry. Adding
 * an element needs no memory; if the table cannot grow, it only becomes slower. */
#ifndef HF_INDEX_H
#define HF_INDEX_H

#include <stddef.h>
#include <stdint.h>

#define HF_INDEX_LEAST 64

/* A place in an index. */
typedef struct hf_entry {
    struct hf_entry *next; /* in its bucket: newest first */
    uint64_t hash;
} hf_entry;

/* All zeros: empty. */
typedef struct hf_index {
    size_t count, mask; /* count: of entries; mask: number of allocated buckets - 1, or 0 */
    hf_entry **buckets; /* NULL: `least` is used */
    hf_entry *least[HF_INDEX_LEAST];
} hf_index;

static inline size_t hf_index_mask(const hf_index *index) {
    return index->mask | (HF_INDEX_LEAST - 1);
}

static inline hf_entry **hf_index_bucket(hf_index *index, uint64_t hash) {
    hf_entry **buckets = index->buckets != NULL ? index->buckets : index->least;
    return &buckets[hash & hf_index_mask(index)];
}

/* Return the first from this entry on that has the hash; or NULL. */
static inline hf_entry *hf_entry_from(hf_entry *entry, uint64_t hash) {
    while (entry != NULL && entry->hash != hash)
        entry = entry->next;
    return entry;
}

/* Return the newest entry of the hash; or NULL. */
static inline hf_entry *hf_index_find(const hf_index *index, uint64_t hash) {
    return hf_entry_from(*hf_index_bucket((hf_index *)index, hash), hash);
}

/* Return the next older entry of the same hash; or NULL. */
static inline hf_entry *hf_entry_older(const hf_entry *entry) {
    return hf_entry_from(entry->next, entry->hash);
}

/* Visit each entry of the hash, the newest first. */
#define HF_EACH_OF(at, index, of)                                                                  \
    for (hf_entry *at = hf_index_find(index, of); at != NULL; at = hf_entry_older(at))

/* Double the buckets, if there is memory. Entries with one hash keep their order. */
void hf_index_grow(hf_index *index);

static inline void hf_index_add(hf_index *index, hf_entry *entry, uint64_t hash) {
    if (index->count++ > hf_index_mask(index))
        hf_index_grow(index);
    hf_entry **bucket = hf_index_bucket(index, hash);
    *entry = (hf_entry){*bucket, hash};
    *bucket = entry;
}

static inline void hf_index_remove(hf_index *index, hf_entry *entry) {
    hf_entry **at = hf_index_bucket(index, entry->hash);
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    index->count--;
}

/* Return the entry after this one, or with NULL the first; NULL: there are no more. */
hf_entry *hf_index_after(const hf_index *index, const hf_entry *entry);

/* Free the buckets; the entries are not changed. */
void hf_index_end(hf_index *index);

#endif
