#include "base/brake.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

struct hf_brake {
    pthread_mutex_t mutex; /* or a pull could shut a socket that has another owner by then */
    int fd;                /* of the request under way; -1: none */
    bool pulled;
};

static _Thread_local hf_brake *mine;

hf_status hf_brake_open(hf_brake **brake_out) {
    if (brake_out == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    hf_brake *brake = calloc(1, sizeof *brake);
    *brake_out = brake;
    if (brake == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    pthread_mutex_init(&brake->mutex, NULL);
    brake->fd = -1;
    return HF_OK;
}

void hf_brake_close(hf_brake *brake) {
    if (brake == NULL)
        return;
    pthread_mutex_destroy(&brake->mutex);
    free(brake);
}

void hf_brake_set(hf_brake *brake) { mine = brake; }

void hf_brake_pull(hf_brake *brake) {
    if (brake == NULL)
        return;
    pthread_mutex_lock(&brake->mutex);
    brake->pulled = true;
    if (brake->fd >= 0)
        shutdown(brake->fd, SHUT_RDWR);
    pthread_mutex_unlock(&brake->mutex);
}

hf_brake *hf_brake_mine(void) { return mine; }

/* Answers whether it was not pulled so far. */
static bool watch(hf_brake *brake, int fd) {
    if (brake == NULL)
        return true;
    pthread_mutex_lock(&brake->mutex);
    bool free = !brake->pulled;
    brake->fd = free ? fd : -1;
    pthread_mutex_unlock(&brake->mutex);
    return free;
}

bool hf_brake_engage(hf_brake *brake, int fd) { return watch(brake, fd); }

bool hf_brake_release(hf_brake *brake) { return watch(brake, -1); }
