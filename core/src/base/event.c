#include "base/event.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#ifndef HF_PORTABLE
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#endif

#ifdef HF_PORTABLE

hf_event hf_event_new(void) {
    int ends[2];
    if (pipe(ends) != 0)
        return HF_NO_EVENT;
    hf_event event = {ends[0], ends[1]};
    for (int i = 0; i < 2; i++) {
        int flags = fcntl(ends[i], F_GETFL);
        if (flags < 0 || fcntl(ends[i], F_SETFL, flags | O_NONBLOCK) != 0 ||
            fcntl(ends[i], F_SETFD, FD_CLOEXEC) != 0) {
            hf_event_free(event);
            return HF_NO_EVENT;
        }
    }
    return event;
}

bool hf_clock_open(int *clock) {
    *clock = -1;
    return true;
}

void hf_poll(struct pollfd *fds, size_t count, int clock, int64_t until) {
    (void)clock;
    int64_t ms = hf_until(until, hf_now());
    poll(fds, (nfds_t)count, until == HF_NO_DEADLINE ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms);
}

#else

hf_event hf_event_new(void) {
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return (hf_event){fd, fd};
}

bool hf_clock_open(int *clock) {
    *clock = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    return *clock >= 0;
}

void hf_poll(struct pollfd *fds, size_t count, int clock, int64_t until) {
    struct itimerspec when = {0};
    if (until != HF_NO_DEADLINE) {
        until = until > 0 ? until : 1;
        when.it_value.tv_sec = until / (1000 * HF_MS);
        when.it_value.tv_nsec = until % (1000 * HF_MS);
    }
    timerfd_settime(clock, TFD_TIMER_ABSTIME, &when, NULL);
    poll(fds, count, -1);
}

#endif

/* The writing end first: nobody may write to a pipe that nobody can read. */
void hf_event_free(hf_event event) {
    if (event.to >= 0 && event.to != event.fd)
        close(event.to);
    if (event.fd >= 0)
        close(event.fd);
}

/* Eight bytes, as an eventfd takes them. A pipe that is full is readable already. */
void hf_event_set(int to) {
    HF_NOT_CANCELLED;
    int before = errno;
    const uint64_t one = 1;
    while (write(to, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    errno = before;
}

void hf_event_clear(int fd) {
    HF_NOT_CANCELLED;
    int before = errno;
    char bytes[512];
    ssize_t got;
    do
        got = read(fd, bytes, sizeof bytes);
    while (got == sizeof bytes || (got < 0 && errno == EINTR));
    errno = before;
}
