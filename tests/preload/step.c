/* Preloaded into a server: its clock follows the file that HOLDFAST_TEST_CLOCK names, which has
 * three 64-bit numbers: the seconds from the system's clock; if not zero, the time in microseconds
 * instead, which goes on only with each reading of the clock; and by how many microseconds, if not
 * by one. (libfaketime does not work with the jemalloc of Redis.) */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    volatile int64_t seconds;
    _Atomic int64_t us;
    volatile int64_t more_us;
} setting;

static setting *set;

__attribute__((constructor)) static void open_clock(void) {
    const char *path = getenv("HOLDFAST_TEST_CLOCK");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *memory =
        fd >= 0 ? mmap(NULL, sizeof *set, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (memory != MAP_FAILED)
        set = memory;
    if (fd >= 0)
        close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status != 0 || set == NULL || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return status;
    if (set->us == 0) {
        now->tv_sec += set->seconds;
        return status;
    }
    int64_t more_us = set->more_us > 0 ? set->more_us : 1, us = set->us += more_us;
    *now = (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec time;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &time);
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}
