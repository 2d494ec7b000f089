/*
 * The room for the operating system: the functions that differ between systems, and that no
 * other file of the core calls. tests/imports lists the rest, each with the files that may have it.
 *
 * os.c has the part for all systems, with macOS's names; os_linux.c has Linux's ways to sleep and
 * to wake; os_portable.c has the same with POSIX alone. The build chooses one of the two.
 */
#ifndef HF_OS_H
#define HF_OS_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---------------------------------------------------------------- Time and randomness */

/* Nanoseconds on CLOCK_BOOTTIME, which goes on while the machine sleeps. */
int64_t hf_now(void);
/* Microseconds since 1970, on the clock that people set: to compare with a server's. */
int64_t hf_wall_us(void);

#define HF_MS INT64_C(1000000)
#define HF_NO_DEADLINE INT64_MAX

/* Fill with random bytes from the system, 256 at most. False: it has none. */
bool hf_random(void *bytes, size_t count);

/* ---------------------------------------------------------------- Threads */

/* Run the function on a thread with our name, to be joined, which receives no signals: the
 * program's are for the program's threads. Answers 0, or an errno. */
int hf_thread_run(pthread_t *thread, void *(*run)(void *), void *argument);
/* The same, detached and without a name. False: no thread. */
bool hf_detach(void *(*run)(void *), void *argument);

/* For a function that waits, or that wakes other threads: a cancelled thread runs it to its
 * end. Otherwise other threads would wait for ever for the cancelled one. */
#define HF_NOT_CANCELLED                                                                           \
    int cancelable_ __attribute__((cleanup(hf_cancelable), unused)) = hf_uncancelable()
int hf_uncancelable(void);
void hf_cancelable(const int *before);

/* Hold the mutex to the end of the block. */
#define HF_HOLDING(which)                                                                          \
    pthread_mutex_t *held_ __attribute__((cleanup(hf_let_go), unused)) = hf_hold_on(which)
static inline pthread_mutex_t *hf_hold_on(pthread_mutex_t *mutex) {
    pthread_mutex_lock(mutex);
    return mutex;
}
static inline void hf_let_go(pthread_mutex_t *const *held) { pthread_mutex_unlock(*held); }

/* ---------------------------------------------------------------- To sleep in poll(2) */

/* What wakes a thread that sleeps in poll(2), and that another thread sets. */
typedef struct {
    int fd; /* readable while the event is set; -1: none */
    int to; /* to set it; may be the same */
} hf_event;

#define HF_NO_EVENT ((hf_event){-1, -1})

/* HF_NO_EVENT with errno: no descriptor is left. */
hf_event hf_event_new(void);
void hf_event_free(hf_event event);

/* Take the members, so that the thread that sets it needs only `to`. Both leave errno alone. */
void hf_event_set(int to);
void hf_event_clear(int fd);

/* A descriptor for hf_poll(), which each sleep needs in fds. False with errno: no descriptor
 * is left. The portable build needs none, and returns -1. */
bool hf_clock_open(int *clock);
/* poll(2) until a time of hf_now(); HF_NO_DEADLINE: without a limit. The portable build may not
 * count the time that the machine sleeps. */
void hf_poll(struct pollfd *fds, size_t count, int clock, int64_t until);

/* ---------------------------------------------------------------- To sleep on a condition, or a
 * word */

void hf_sleep_init(pthread_cond_t *woken);
/* With the mutex held, as pthread_cond_timedwait(): for that many milliseconds, an hour, or
 * less. */
void hf_sleep(pthread_cond_t *woken, pthread_mutex_t *mutex, int64_t ms);

/*
 * Sleep until the word has another value, `ms` have passed, or for no reason. The other
 * thread changes the word and then wakes: it needs no mutex, and the word may be gone by then. So
 * the woken thread never waits for the thread that woke it.
 */
void hf_sleep_while(int *word, int is, int64_t ms);
void hf_wake(int *word);

/* ---------------------------------------------------------------- Descriptors and libraries */

/* Does it wait in connect, read and write? False with errno. */
bool hf_set_blocking(int fd, bool blocking);
/* A stream socket that does not wait. No program that is started has it, and it raises no SIGPIPE
 * where send(2) cannot leave that out. -1 with errno. */
int hf_socket_new(int family);
/* Let the system probe the other end after that much silence, and give up after as much again. */
void hf_socket_keep_alive(int fd, int64_t ms);

/* Where a loader finds OpenSSL, the newest first; NULL ends it. */
extern const char *const hf_libssl_names[];

#endif
