#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/os.h"

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

void hf_sleep_while(int *word, int is, int64_t ms) {
    /* As the kernel defines it: the struct timespec of a 32-bit libc may be wider. */
    struct {
        long seconds, ns;
    } most = {ms / 1000, ms % 1000 * HF_MS};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, is, &most, NULL, 0);
}

void hf_wake(int *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }
