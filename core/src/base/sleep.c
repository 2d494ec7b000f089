#include "base/sleep.h"

#include <time.h>

#ifndef HF_PORTABLE
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/list.h"
#include "base/util.h"

#define MOST_MS 3600000

/* Deadlines are on CLOCK_BOOTTIME, on which a condition cannot wait. */
void hf_sleep_init(pthread_cond_t *woken) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifndef __APPLE__
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_cond_init(woken, &attributes);
    pthread_condattr_destroy(&attributes);
}

void hf_sleep(pthread_cond_t *woken, pthread_mutex_t *mutex, int64_t ms) {
    struct timespec until;
    if (ms > MOST_MS)
        ms = MOST_MS;
#ifdef __APPLE__ /* where a condition knows only the wall clock, or a duration */
    until.tv_sec = ms / 1000;
    until.tv_nsec = ms % 1000 * HF_MS;
    pthread_cond_timedwait_relative_np(woken, mutex, &until);
#else
    clock_gettime(CLOCK_MONOTONIC, &until);
    ms += until.tv_nsec / HF_MS;
    until.tv_sec += ms / 1000;
    until.tv_nsec = ms % 1000 * HF_MS;
    pthread_cond_timedwait(woken, mutex, &until);
#endif
}

#ifdef HF_PORTABLE

/* Each has a condition of its own: one that several share may keep the one that wakes waiting for
 * a thread that a signal handler has stopped. */
typedef struct sleeper {
    hf_item place;
    const int *word;
    pthread_cond_t woken;
} sleeper;

static struct {
    pthread_mutex_t mutex;
    hf_list sleepers;
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A forked child has none of the threads that sleep here. */
static void before_fork(void) { pthread_mutex_lock(&all.mutex); }
static void in_parent(void) { pthread_mutex_unlock(&all.mutex); }

static void in_child(void) {
    all.sleepers = (hf_list){0};
    pthread_mutex_unlock(&all.mutex);
}

static void watch_forks(void) { pthread_atfork(before_fork, in_parent, in_child); }

void hf_sleep_while(int *word, int is, int64_t ms) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    sleeper me = {.word = word};
    hf_sleep_init(&me.woken);
    pthread_mutex_lock(&all.mutex);
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == is) {
        hf_list_add_last(&all.sleepers, &me.place);
        hf_sleep(&me.woken, &all.mutex, ms);
        hf_list_remove(&me.place);
    }
    pthread_mutex_unlock(&all.mutex);
    pthread_cond_destroy(&me.woken);
}

void hf_wake(int *word) {
    pthread_mutex_lock(&all.mutex);
    HF_EACH(at, &all.sleepers) {
        sleeper *who = HF_OF(sleeper, place, at);
        if (who->word == word)
            pthread_cond_signal(&who->woken);
    }
    pthread_mutex_unlock(&all.mutex);
}

#else

void hf_sleep_while(int *word, int is, int64_t ms) {
    /* As the kernel has it: a 32-bit libc's own struct timespec may be wider. */
    struct {
        long seconds, ns;
    } most = {ms / 1000, ms % 1000 * HF_MS};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, is, &most, NULL, 0);
}

void hf_wake(int *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

#endif
