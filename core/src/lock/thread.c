#include "lock/thread.h"

#include <errno.h>
#include <string.h>

/* Return whether the client is closed, so that no thread is started any more. */
static bool is_over(const hf_client *client) {
    return client->swept || (client->stop && !client->started);
}

hf_status hf_thread_start_locked(hf_client *client) {
    if (is_over(client))
        return hf_fail(HF_ECLOSED, "the client is closed");
    if (client->started) /* or it has just ended: the closing thread does the rest of its work */
        return HF_OK;
    if (client->wake.fd < 0)
        client->wake = hf_event_new();
    if (client->wake.fd < 0 || (client->clock_fd < 0 && !hf_clock_open(&client->clock_fd)))
        return hf_fail(HF_ENOMEM, "no file descriptor for the background thread: %s",
                       strerror(errno));
    int error = hf_thread_run(&client->thread, client->run, client);
    if (error != 0)
        return hf_fail(HF_ENOMEM, "the background thread cannot be started: %s", strerror(error));
    client->started = true;
    hf_discovery_set_wake(client->transport->discovery, client->wake.to);
    return HF_OK;
}

void hf_thread_wake_locked(hf_client *client) {
    if (client->sleeps_until == INT64_MIN)
        return;
    hf_client_tell_locked(client, client->wake.to);
}

void hf_thread_timer_locked(hf_client *client, hf_timer *timer, int64_t due) {
    hf_timer_set(&client->timers, timer, due); /* also for a thread that starts later */
    /* This thread's message stays: its caller may be about to return it. */
    if (!is_over(client) && hf_thread_start_locked(client) == HF_OK && due < client->sleeps_until)
        hf_thread_wake_locked(client);
}

void hf_thread_end(hf_client *client) {
    hf_client_lock(client);
    bool running = client->started && !client->stop;
    client->stop = true;
    hf_thread_wake_locked(client);
    hf_client_unlock(client);
    if (running)
        pthread_join(client->thread, NULL);
}
