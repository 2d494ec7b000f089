/* Included by every fuzzer. A broken promise ends it, as a fault does. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define promise(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Return a unix socket that listens, and its URL with this log-in. */
static inline int fuzz_listen(char *url, size_t capacity, const char *login) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    snprintf(address.sun_path, sizeof address.sun_path, "%s/holdfast-fuzz-%ld", folder,
             (long)getpid());
    snprintf(url, capacity, "unix://%s%s", login, address.sun_path);
    unlink(address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    promise(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 16) == 0);
    return fd;
}

/* The input, read from its beginning. */
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

/* Take `count` bytes, or all that are left. */
static inline const uint8_t *take_bytes(input *from, size_t *count) {
    const uint8_t *at = from->at;
    if (*count > from->left)
        *count = from->left;
    from->at += *count;
    from->left -= *count;
    return at;
}

#endif
