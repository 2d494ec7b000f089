/*
 * A server that sends anything: the whole library over a real socket, from the connection and the
 * log-in on. The input is its answers, in parts that end with a ~, one for each request; then it
 * hangs up.
 */
#include "fuzz.h"

#include <holdfast/holdfast.h>
#include <pthread.h>

static int listener;
static char url[128];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static input words;

/* Send the next part of the answers; false: there are no more. */
static bool say_next(int fd) {
    char part[65536];
    size_t length = 0;
    pthread_mutex_lock(&mutex);
    bool more = words.left > 0;
    while (words.left > 0 && length < sizeof part) {
        char byte = (char)take_byte(&words);
        if (byte == '~')
            break;
        part[length++] = byte;
    }
    pthread_mutex_unlock(&mutex);
    return more && send(fd, part, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static void *serve(void *argument) {
    char heard[65536];
    int fd;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        while (recv(fd, heard, sizeof heard, 0) > 0 && say_next(fd))
            ;
        close(fd);
    }
    return argument;
}

static void set_up(void) {
    pthread_t thread;
    listener = fuzz_listen(url, sizeof url, "user:hunter2@");
    promise(pthread_create(&thread, NULL, serve, NULL) == 0);
    pthread_detach(thread);
}

static bool told; /* the server sends the password itself, elsewhere than in the answer to AUTH */

static void check(hf_status status) {
    promise(status == HF_OK || *hf_error_message() != '\0');
    promise(status == HF_OK || told || strstr(hf_error_message(), "hunter2") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool ready;
    if (!ready)
        set_up();
    ready = true;
    hf_client_options options = {
        .size = sizeof options, .connect_timeout_ms = 20, .command_timeout_ms = 20};
    hf_client *client = NULL;
    hf_lock *lock = NULL;
    hf_hold *hold = NULL;
    hf_lock_info info = {.size = sizeof info};
    hf_view *view;
    char *copy = malloc(size + 1);
    memcpy(copy, data, size);
    const uint8_t *after = memchr(data, '~', size);
    told = after != NULL && memmem(after, size - (size_t)(after - data), "hunter2", 7) != NULL;
    pthread_mutex_lock(&mutex);
    words = (input){(uint8_t *)copy, size};
    pthread_mutex_unlock(&mutex);
    hf_status status = hf_client_open(url, &options, &client);
    check(status);
    if (status == HF_OK) {
        hf_lock_options once = {.size = sizeof once, .lease_ms = 1000, .renew = HF_OFF};
        check(hf_lock_open(client, "stock", 5, NULL, 0, &once, &lock));
        check(hf_lock_inspect(lock, 0, &info, &view));
        hf_view_close(view);
        status = hf_lock_acquire(lock, 0, &hold);
        check(status);
        if (status == HF_OK) {
            promise(hf_hold_fence(hold) > 0);
            check(hf_hold_renew(hold));
            check(hf_hold_extend(hold, 100, 1));
            check(hf_hold_release(hold));
            hf_hold_close(hold);
        }
        check(hf_lock_break(lock, 1, 0));
        hf_lock_close(lock);
        hf_client_close(client);
    }
    pthread_mutex_lock(&mutex);
    words = (input){NULL, 0};
    pthread_mutex_unlock(&mutex);
    free(copy);
    return 0;
}
