/*
 * The room for the operating system: the functions that differ between systems, and that no other
 * file of the core calls. tests/imports lists the others, each with the files that may call them.
 *
 * os.c has the part for all systems, with the names of macOS; os_linux.c has Linux's ways to sleep
 * and to wake; os_portable.c has the same with POSIX alone. The build chooses one of the two.
 */
#ifndef HF_OS_H
#define HF_OS_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---------------------------------------------------------------- Time and randomness */

/* Return nanoseconds on CLOCK_BOOTTIME, which runs while the machine sleeps. */
int64_t hf_now(void);
/* Return microseconds since 1970, on the clock that people set: for comparison with a server's. */
int64_t hf_wall_us(void);

#define HF_MS INT64_C(1000000)
#define HF_NO_DEADLINE INT64_MAX
/* A thread that wakes, or has its turn, later than this stood still. Much less than the silence of
 * a master. */
#define HF_STILL_MS 10

/* Fill in random bytes from the system, 256 at most. False: it has none. */
bool hf_random(void *bytes, size_t count);

/* ---------------------------------------------------------------- Threads */

/* Run the function on a thread with our name, to be joined, which receives no signals: the
 * program's signals are for its own threads. Returns 0, or an errno. */
int hf_thread_run(pthread_t *thread, void *(*run)(void *), void *argument);
/* Run the function on a thread that is detached and has no name. False: no thread. */
bool hf_detach(void *(*run)(void *), void *argument);

/* For a function that waits, or that wakes other threads: a cancelled thread runs it to its end.
 * Otherwise other threads would wait forever for the cancelled thread. */
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

/* ---------------------------------------------------------------- Sleeping in poll(2) */

/* An event that wakes a thread in poll(2), and that another thread sets. */
typedef struct {
    int fd; /* readable while the event is set; -1: no event */
    int to; /* sets the event; may be the same descriptor */
} hf_event;

#define HF_NO_EVENT ((hf_event){-1, -1})

/* Make an event. HF_NO_EVENT with errno: no descriptor is left. */
hf_event hf_event_new(void);
void hf_event_free(hf_event event);

/* Set and clear take a member, so that the thread that sets the event needs only `to`. Both leave
 * errno unchanged. */
void hf_event_set(int to);
void hf_event_clear(int fd);

/* Make a descriptor for hf_poll(), which each sleep needs in fds. False with errno: no descriptor
 * is left. The portable build needs none, and sets -1. */
bool hf_clock_open(int *clock);
/* Call poll(2) until a time of hf_now(); HF_NO_DEADLINE: without a limit. The portable build may
 * not count the time that the machine sleeps. */
void hf_poll(struct pollfd *fds, size_t count, int clock, int64_t until);

/* ------------------------------------------------------------ Sleeping on a condition or a word */

void hf_sleep_init(pthread_cond_t *woken);
/* Sleep with the mutex held, as pthread_cond_timedwait() does: for `ms`, at most an hour, or
 * less. */
void hf_sleep(pthread_cond_t *woken, pthread_mutex_t *mutex, int64_t ms);

/*
 * Sleep until the word has another value, until `ms` have passed, or for no reason. The other
 * thread changes the word and then wakes: it needs no mutex, and the word may be gone when it
 * wakes. So the woken thread never waits for the thread that woke it.
 */
void hf_sleep_while(int *word, int is, int64_t ms);
void hf_wake(int *word);

/* ---------------------------------------------------------------- Descriptors and libraries */

/* Set whether the descriptor waits in connect, read and write. False with errno. */
bool hf_set_blocking(int fd, bool blocking);
/* Make a stream socket that does not wait. Programs that this process starts do not inherit it, and
 * it raises no SIGPIPE where send(2) cannot suppress that. -1 with errno. */
int hf_socket_new(int family);
/* Let the system probe the other end after `ms` of silence, and give up after as much again. */
void hf_socket_keep_alive(int fd, int64_t ms);

/* The names under which a loader finds OpenSSL, the newest first; NULL ends them. */
extern const char *const hf_libssl_names[];

#endif
