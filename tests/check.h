/* Included by every test: cmocka, and a few helpers. */
#ifndef CHECK_H
#define CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/holdfast.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static inline void check_status(hf_status found, hf_status expected, const char *call,
                                const char *file, int line) {
    if (found == expected)
        return;
    print_error("%s answered %s, not %s: %s\n", call, hf_status_name(found),
                hf_status_name(expected), hf_error_message());
    _fail(file, line);
}

/* The call answers this status; if it does not, say which, and the message. */
#define assert_status(call, expected) check_status(call, expected, #call, __FILE__, __LINE__)

/* The last message of this thread says this. */
#define assert_message(part)                                                                       \
    do {                                                                                           \
        if (strstr(hf_error_message(), part) == NULL) {                                            \
            print_error("the message does not say '%s': %s\n", part, hf_error_message());          \
            _fail(__FILE__, __LINE__);                                                             \
        }                                                                                          \
    } while (0)

/* A text that lives until some thousands more were made. */
__attribute__((format(printf, 1, 2))) static inline char *text(const char *format, ...) {
    static char *texts[4096];
    static unsigned next;
    char **at = &texts[next++ % COUNT(texts)];
    va_list args;
    free(*at);
    va_start(args, format);
    assert_true(vasprintf(at, format, args) >= 0);
    va_end(args);
    return *at;
}

#endif
