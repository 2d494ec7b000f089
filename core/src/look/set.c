#include "look/set.h"

#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "base/list.h"

#define MEMBER_OF(at) HF_OF(member, entry, at)

typedef struct member {
    hf_entry entry;
    size_t length;
    char bytes[];
} member;

struct hf_set {
    uint64_t seed; /* so that no user can choose strings with one hash */
    hf_index members;
};

hf_set *hf_set_new(void) {
    hf_set *set = calloc(1, sizeof *set);
    if (set != NULL)
        hf_random(&set->seed, sizeof set->seed);
    return set;
}

void hf_set_free(hf_set *set) {
    if (set == NULL)
        return;
    for (hf_entry *at = hf_index_after(&set->members, NULL), *next; at != NULL; at = next) {
        next = hf_index_after(&set->members, at);
        free(MEMBER_OF(at));
    }
    hf_index_end(&set->members);
    free(set);
}

bool hf_set_has(const hf_set *set, const void *bytes, size_t length) {
    HF_EACH_OF(at, &set->members, hf_hash(set->seed, bytes, length))
    if (MEMBER_OF(at)->length == length && memcmp(MEMBER_OF(at)->bytes, bytes, length) == 0)
        return true;
    return false;
}

bool hf_set_add(hf_set *set, const void *bytes, size_t length) {
    if (hf_set_has(set, bytes, length))
        return true;
    member *added = malloc(sizeof *added + length);
    if (added == NULL)
        return false;
    added->length = length;
    memcpy(added->bytes, bytes, length);
    hf_index_add(&set->members, &added->entry, hf_hash(set->seed, bytes, length));
    return true;
}
