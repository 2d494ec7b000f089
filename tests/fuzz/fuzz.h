/* What every fuzzer includes. A promise that is broken ends it, as a fault would. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define promise(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input, from its beginning. */
typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

static inline unsigned take_byte(input *from) {
    if (from->left == 0)
        return 0;
    from->left--;
    return *from->at++;
}

/* So many bytes, or what there is. */
static inline const uint8_t *take_bytes(input *from, size_t *count) {
    const uint8_t *at = from->at;
    if (*count > from->left)
        *count = from->left;
    from->at += *count;
    from->left -= *count;
    return at;
}

#endif
