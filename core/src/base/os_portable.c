#include <fcntl.h>
#include <unistd.h>

#include "base/list.h"
#include "base/os.h"

/* ------------------------------------------------------------------ Events, as pipes */

hf_event hf_event_new(void) {
    int ends[2];
    if (pipe(ends) != 0)
        return HF_NO_EVENT;
    hf_event event = {ends[0], ends[1]};
    for (int i = 0; i < 2; i++)
        if (!hf_set_blocking(ends[i], false) || fcntl(ends[i], F_SETFD, FD_CLOEXEC) != 0) {
            hf_event_free(event);
            return HF_NO_EVENT;
        }
    return event;
}

bool hf_clock_open(int *clock) {
    *clock = -1;
    return true;
}

void hf_poll(struct pollfd *fds, size_t count, int clock, int64_t until) {
    (void)clock;
    int64_t now = hf_now(), ms = until > now ? (until - now - 1) / HF_MS + 1 : 0;
    poll(fds, (nfds_t)count, until == HF_NO_DEADLINE ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms);
}

/* --------------------------------------------------------------- A futex, as a list of sleepers */

/* Each sleeper has its own condition: with a shared condition, the waking thread might wait for a
 * sleeper that a signal handler has stopped. */
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
    HF_NOT_CANCELLED; /* a futex does not end a cancelled thread either */
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
    HF_HOLDING(&all.mutex);
    HF_EACH(at, &all.sleepers) {
        sleeper *who = HF_OF(sleeper, place, at);
        if (who->word == word)
            pthread_cond_signal(&who->woken);
    }
}
