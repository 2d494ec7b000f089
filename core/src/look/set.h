/* A set of byte strings that only grows. */
#ifndef HF_SET_H
#define HF_SET_H

#include "base/util.h"

typedef struct hf_set hf_set;

/* NULL: no memory. */
hf_set *hf_set_new(void);
/* NULL is allowed. */
void hf_set_free(hf_set *set);
bool hf_set_has(const hf_set *set, const void *bytes, size_t length);
/* False: no memory. */
bool hf_set_add(hf_set *set, const void *bytes, size_t length);

#endif
