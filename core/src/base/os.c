#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_MS 3600000 /* the longest sleep on a condition */

#ifdef __APPLE__

/* CLOCK_MONOTONIC of macOS counts the time that the machine sleeps. */
enum { CLOCK = CLOCK_MONOTONIC, KEEP_IDLE = TCP_KEEPALIVE };

/* A loader does not look by itself where package managers install it. */
const char *const hf_libssl_names[] = {
    "libssl.3.dylib",
    "/opt/homebrew/opt/openssl@3/lib/libssl.3.dylib",
    "/usr/local/opt/openssl@3/lib/libssl.3.dylib",
    "/opt/local/lib/libssl.3.dylib",
    NULL,
};

/* A thread can only name itself. */
static void give_name(pthread_t thread) { (void)thread; }

int hf_socket_new(int family) {
    int on = 1, fd = socket(family, SOCK_STREAM, 0);
    if (fd < 0)
        return -1;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
    hf_set_blocking(fd, false);
    return fd;
}

void hf_sleep_init(pthread_cond_t *woken) { pthread_cond_init(woken, NULL); }

/* A condition of macOS knows only the wall clock, or a duration. */
static void wait_for(pthread_cond_t *woken, pthread_mutex_t *mutex, int64_t ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * HF_MS};
    pthread_cond_timedwait_relative_np(woken, mutex, &time);
}

#else

enum { CLOCK = CLOCK_BOOTTIME, KEEP_IDLE = TCP_KEEPIDLE };

const char *const hf_libssl_names[] = {"libssl.so.3", "libssl.so.1.1", NULL};

static void give_name(pthread_t thread) { pthread_setname_np(thread, "holdfast"); }

/* Our send(2) suppresses SIGPIPE. */
int hf_socket_new(int family) {
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Deadlines are on CLOCK_BOOTTIME, on which a condition cannot wait. */
void hf_sleep_init(pthread_cond_t *woken) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(woken, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void wait_for(pthread_cond_t *woken, pthread_mutex_t *mutex, int64_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    ms += until.tv_nsec / HF_MS;
    until.tv_sec += ms / 1000;
    until.tv_nsec = ms % 1000 * HF_MS;
    pthread_cond_timedwait(woken, mutex, &until);
}

#endif

int64_t hf_now(void) {
    struct timespec now;
    clock_gettime(CLOCK, &now);
    return (int64_t)now.tv_sec * 1000 * HF_MS + now.tv_nsec;
}

int64_t hf_wall_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

bool hf_random(void *bytes, size_t count) { return getentropy(bytes, count) == 0; }

static int run_thread(pthread_t *thread, int state, void *(*run)(void *), void *argument) {
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, state);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

int hf_thread_run(pthread_t *thread, void *(*run)(void *), void *argument) {
    int error = run_thread(thread, PTHREAD_CREATE_JOINABLE, run, argument);
    if (error == 0)
        give_name(*thread);
    return error;
}

bool hf_detach(void *(*run)(void *), void *argument) {
    pthread_t thread;
    return run_thread(&thread, PTHREAD_CREATE_DETACHED, run, argument) == 0;
}

int hf_uncancelable(void) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

void hf_cancelable(const int *before) { pthread_setcancelstate(*before, NULL); }

/* The writing end is closed first: no thread may write to a pipe without a reader. */
void hf_event_free(hf_event event) {
    if (event.to >= 0 && event.to != event.fd)
        close(event.to);
    if (event.fd >= 0)
        close(event.fd);
}

/* Write eight bytes, as an eventfd requires. A full pipe is readable already. */
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

void hf_sleep(pthread_cond_t *woken, pthread_mutex_t *mutex, int64_t ms) {
    wait_for(woken, mutex, ms < MOST_MS ? ms : MOST_MS);
}

bool hf_set_blocking(int fd, bool blocking) {
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 &&
           fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) == 0;
}

void hf_socket_keep_alive(int fd, int64_t ms) {
    int seconds = ms > INT16_MAX * 1000 ? INT16_MAX : (int)((ms + 999) / 1000);
    int pause = seconds > 3 ? seconds / 3 : 1, tries = 3, on = 1;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, KEEP_IDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
}
