#include "base/brake.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

struct hf_brake {
    pthread_mutex_t mutex; /* without it a pull could shut down a socket that has another owner by
                            * then */
    int fd;                /* of the request under way; -1: none */
    bool pulled;
    hf_event event; /* set by the pull */
};

static _Thread_local hf_brake *mine;

bool hf_brake_watch(int fd) {
    if (mine == NULL)
        return true;
    HF_HOLDING(&mine->mutex);
    mine->fd = mine->pulled ? -1 : fd;
    return !mine->pulled;
}

hf_status hf_brake_open(hf_brake **brake_out) {
    if (brake_out == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    hf_brake *brake = calloc(1, sizeof *brake);
    *brake_out = brake;
    if (brake == NULL || (brake->event = hf_event_new()).fd < 0) {
        free(brake);
        *brake_out = NULL;
        return hf_fail(HF_ENOMEM, "no memory or file descriptor for a brake");
    }
    pthread_mutex_init(&brake->mutex, NULL);
    brake->fd = -1;
    return HF_OK;
}

void hf_brake_close(hf_brake *brake) {
    if (brake == NULL)
        return;
    pthread_mutex_destroy(&brake->mutex);
    hf_event_free(brake->event);
    free(brake);
}

void hf_brake_set(hf_brake *brake) { mine = brake; }

void hf_brake_pull(hf_brake *brake) {
    if (brake == NULL)
        return;
    HF_HOLDING(&brake->mutex);
    brake->pulled = true;
    if (brake->fd >= 0)
        shutdown(brake->fd, SHUT_RDWR);
    hf_event_set(brake->event.to);
}

hf_brake *hf_brake_mine(void) { return mine; }

int hf_brake_fd(void) { return mine != NULL ? mine->event.fd : -1; }

bool hf_brake_is_pulled(void) { return !hf_brake_watch(-1); }
