#include "look/set.h"

#include <stdlib.h>
#include <string.h>

/* A place in the table: which bytes of the store. A length of 0 is a free place, and so is the
 * empty string, which is never in the set. */
typedef struct entry {
    uint64_t hash;
    size_t from, length;
} entry;

struct hf_set {
    uint64_t seed;          /* so that no user can choose strings that meet in one place */
    size_t count, capacity; /* a power of two, and never full */
    entry *entries;
    hf_bytes store;
};

hf_set *hf_set_new(void) {
    hf_set *set = calloc(1, sizeof *set);
    if (set == NULL)
        return NULL;
    hf_bytes_init(&set->store);
    hf_random(&set->seed, sizeof set->seed);
    set->capacity = 64;
    set->entries = calloc(set->capacity, sizeof *set->entries);
    if (set->entries != NULL)
        return set;
    hf_set_free(set);
    return NULL;
}

void hf_set_free(hf_set *set) {
    if (set == NULL)
        return;
    hf_bytes_free(&set->store);
    free(set->entries);
    free(set);
}

/* Where it is, or the free place where it belongs. */
static entry *find(const hf_set *set, uint64_t hash, const void *bytes, size_t length) {
    for (size_t at = hash & (set->capacity - 1);; at = (at + 1) & (set->capacity - 1)) {
        entry *each = &set->entries[at];
        if (each->length == 0 || (each->hash == hash && each->length == length &&
                                  memcmp(set->store.data + each->from, bytes, length) == 0))
            return each;
    }
}

static bool grow(hf_set *set) {
    size_t capacity = set->capacity;
    entry *old = set->entries, *entries = calloc(2 * capacity, sizeof *entries);
    if (entries == NULL)
        return false;
    set->entries = entries;
    set->capacity = 2 * capacity;
    for (size_t i = 0; i < capacity; i++)
        if (old[i].length > 0)
            *find(set, old[i].hash, set->store.data + old[i].from, old[i].length) = old[i];
    free(old);
    return true;
}

bool hf_set_has(const hf_set *set, const void *bytes, size_t length) {
    return find(set, hf_hash(set->seed, bytes, length), bytes, length)->length > 0;
}

bool hf_set_add(hf_set *set, const void *bytes, size_t length) {
    uint64_t hash = hf_hash(set->seed, bytes, length);
    if (length == 0 || find(set, hash, bytes, length)->length > 0)
        return true;
    if (2 * set->count >= set->capacity && !grow(set))
        return false;
    size_t from = set->store.length;
    hf_bytes_add(&set->store, bytes, length);
    if (set->store.failed) { /* and empty: nothing in the set can be found any more */
        memset(set->entries, 0, set->capacity * sizeof *set->entries);
        set->count = 0;
        return false;
    }
    *find(set, hash, bytes, length) = (entry){hash, from, length};
    set->count++;
    return true;
}
