/*
 * An old program on today's library: compiled with the first header, whose option
 * and answer structs are shorter than today's, and with structs that are shorter
 * still. Nothing is read or written behind them.
 */
#include <holdfast/holdfast.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition,                     \
                   hf_error_message());                                                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A struct of so many bytes, with a guard behind it that must stay as it is: what is
 * not zero would be an option that this program never heard of. */
typedef struct guarded {
    _Alignas(16) char bytes[256];
    uint32_t size;
} guarded;

static void *guard(guarded *g, const void *from, size_t size) {
    memset(g->bytes, 0x5a, sizeof g->bytes);
    memcpy(g->bytes, from, size);
    g->size = (uint32_t)size;
    memcpy(g->bytes, &g->size, sizeof g->size);
    return g->bytes;
}

static void check(const guarded *g) {
    uint32_t size;
    memcpy(&size, g->bytes, sizeof size);
    must(size == g->size);
    for (size_t i = g->size; i < sizeof g->bytes; i++)
        must(g->bytes[i] == 0x5a);
}

static void use(const char *url, int only_size) {
    hf_client_options opening = {.command_timeout_ms = 5000};
    hf_lock_options locking = {.lease_ms = 5000};
    hf_acquire_options acquiring = {.lease_ms = 4000};
    hf_stats stats = {0};
    hf_lock_info info = {0};
    hf_completion done = {0};
    size_t least = sizeof(uint32_t);
    guarded g;
    hf_client *client;
    hf_lock *lock;
    hf_hold *hold;

    must(hf_client_open(url, guard(&g, &opening, only_size ? least : sizeof opening), &client) ==
         HF_OK);
    check(&g);
    must(hf_lock_open(client, "stock", 5, NULL, 0,
                      guard(&g, &locking, only_size ? least : sizeof locking), &lock) == HF_OK);
    check(&g);
    must(hf_lock_acquire_as(lock, NULL, 0, 1000,
                            guard(&g, &acquiring, only_size ? least : sizeof acquiring),
                            &hold) == HF_OK);
    check(&g);
    must(hf_hold_fence(hold) > 0 && hf_hold_state(hold) == HF_HELD);
    must(hf_hold_remaining_ms(hold) <= (only_size ? HF_LEASE_DEFAULT : 4000));

    must(hf_client_stats(client, guard(&g, &stats, only_size ? least : sizeof stats)) == HF_OK);
    check(&g);
    if (!only_size) {
        memcpy(&stats, g.bytes, sizeof stats);
        must(stats.held == 1 && stats.acquired == 1);
    }
    must(hf_lock_inspect(lock, guard(&g, &info, only_size ? least : sizeof info), NULL, 0, NULL) ==
         HF_OK);
    check(&g);
    if (!only_size) {
        memcpy(&info, g.bytes, sizeof info);
        must(info.held == 1 && info.count == 1 && info.fence == hf_hold_fence(hold));
    }

    struct pollfd fd = {.fd = hf_client_fd(client), .events = POLLIN};
    must(fd.fd >= 0 && hf_hold_release_start(hold, 7) == HF_OK && poll(&fd, 1, 5000) == 1);
    must(hf_client_next(client, guard(&g, &done, only_size ? least : sizeof done)) == HF_OK);
    check(&g);
    if (!only_size) {
        memcpy(&done, g.bytes, sizeof done);
        must(done.kind == HF_RELEASE && done.status == HF_OK && done.op == 7);
    }
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

int main(void) {
    const char *url = getenv("HOLDFAST_TEST_URL");
    use(url, 0);
    use(url, 1);
    printf("first header %d.%d.%d, library %s\n", HF_VERSION_MAJOR, HF_VERSION_MINOR,
           HF_VERSION_PATCH, hf_version());
    return 0;
}
