/* Included by every test: cmocka and a few helpers. */
#ifndef CHECK_H
#define CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
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

/* Check that the call returns this status; if it does not, print the status and the message. */
#define assert_status(call, expected) check_status(call, expected, #call, __FILE__, __LINE__)

/* Check that the last message of this thread contains the part. */
#define assert_message(part)                                                                       \
    do {                                                                                           \
        if (strstr(hf_error_message(), part) == NULL) {                                            \
            print_error("the message does not say '%s': %s\n", part, hf_error_message());          \
            _fail(__FILE__, __LINE__);                                                             \
        }                                                                                          \
    } while (0)

/* Run the function on `count` threads at once, and wait for all. size: of an element of
 * `arguments`; 0: all threads get `arguments` itself. */
static inline void run_together(size_t count, void *(*run)(void *), void *arguments, size_t size) {
    pthread_t threads[64];
    for (size_t i = 0; i < count; i++) {
        void *argument = size > 0 ? (char *)arguments + i * size : arguments;
        if (i == COUNT(threads) || pthread_create(&threads[i], NULL, run, argument) != 0)
            abort();
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* Return a text that stays valid until some thousands more are made. */
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
