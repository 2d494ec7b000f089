#include "watch.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "breaking.h"
#include "describe.h"

enum {
    TELL_MS = 100,     /* the least time between two notifications during a walk */
    INTERRUPT_MS = 250 /* how often a walk is interrupted for other work */
};

/* ------------------------------------------------------------------ Cost */

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int compare_times(const void *one, const void *other) {
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/*
 * Add a time, and return the fastest tenth of the recent times: the excess of the others was caused
 * by other programs on both machines.
 */
static int64_t usual(watch_times *times, int64_t us) {
    int64_t sorted[WATCH_TIMES];
    times->us[times->count++ % WATCH_TIMES] = us;
    size_t count = times->count < WATCH_TIMES ? times->count : WATCH_TIMES;
    memcpy(sorted, times->us, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_times);
    return sorted[count / 10];
}

/* Count the cost of `commands` in `trips`, which took `us`. Trips with many commands look at locks;
 * trips with few commands scan keys, which takes longer. */
static void count_cost(watch *it, int64_t commands, int64_t trips, int64_t us) {
    int64_t busy = us - trips * it->trip_us;
    if (commands > 0 && trips > 0)
        busy = commands * usual(&it->times[commands > 2 * trips], busy > 0 ? busy / commands : 0);
    pthread_mutex_lock(&it->mutex);
    it->commands += commands;
    it->busy_us += busy > 0 ? busy : 0;
    pthread_mutex_unlock(&it->mutex);
}

/* Measure a round trip with little work. The first command connects, and is not measured. */
static void measure_trip(watch *it) {
    for (int i = it->trips.count == 0 ? 2 : 1; i > 0; i--) {
        size_t servers = 0;
        int64_t before = now_us();
        if (hf_client_ping(it->client, &servers) != HF_OK || servers == 0)
            return; /* the walk reports the error */
        if (i == 1)
            it->trip_us = usual(&it->trips, (now_us() - before) / (int64_t)servers);
        count_cost(it, (int64_t)servers, 0, 0);
    }
}

static void count_walk(watch *it) {
    hf_progress now = {.size = sizeof now};
    if (hf_locks_progress(it->locks, &now) != HF_OK)
        return;
    count_cost(it, now.commands - it->counted.commands, now.round_trips - it->counted.round_trips,
               now.answer_us - it->counted.answer_us);
    it->counted = now;
    pthread_mutex_lock(&it->mutex);
    it->progress = now;
    pthread_mutex_unlock(&it->mutex);
}

/* ------------------------------------------------------------------ News */

/* Notify the reader of news; soon: at most once in TELL_MS. */
static void tell(watch *it, bool soon) {
    int64_t now = cli_now();
    if (soon && now < it->told_at + TELL_MS)
        return;
    it->told_at = now;
    eventfd_write(it->news, 1);
}

static void note_trouble(watch *it, hf_status status) {
    pthread_mutex_lock(&it->mutex);
    show_clear(&it->trouble);
    show_bytes(&it->trouble, hf_error_message(), strlen(hf_error_message()));
    it->trouble_result = cli_status_of(status);
    pthread_mutex_unlock(&it->mutex);
    it->whole = false;
}

/* Put the lock into the table, or drop it. walk: as in table_put(). */
static void note_lock(watch *it, const hf_lock_info *info, const hf_view *view, unsigned walk) {
    hf_once_info call = {.size = sizeof call};
    bool recorded =
        it->flags != 0 && hf_view_once(view, &call) == HF_OK && call.state != HF_ONCE_NONE;
    bool wanted =
        (info->held || info->waiters > 0 || recorded) && look_passes(&it->filter, info, view);
    size_t length;
    const void *name = hf_view_name(view, &length);
    row *one = wanted ? row_new(info, view) : NULL;
    json_t *json = wanted && it->json ? describe_json(info, view) : NULL;
    pthread_mutex_lock(&it->mutex);
    if (wanted)
        table_put(&it->table, one, json, walk);
    else
        table_drop(&it->table, name, length);
    it->answered_at = cli_now();
    pthread_mutex_unlock(&it->mutex);
}

/* ------------------------------------------------------------------ Walk */

static void begin_walk(watch *it) {
    hf_locks_options options = {.size = sizeof options, .flags = it->flags, .rate = it->rate};
    it->began_at = it->looked_at = cli_now();
    it->whole = true;
    it->counted = (hf_progress){0};
    measure_trip(it);
    hf_status status =
        hf_locks_open(it->client, it->pattern, strlen(it->pattern), &options, &it->locks);
    if (status != HF_OK)
        note_trouble(it, status);
    pthread_mutex_lock(&it->mutex);
    it->walking = it->locks != NULL;
    it->hurried = false;
    pthread_mutex_unlock(&it->mutex);
}

static void end_walk(watch *it) {
    int64_t now = cli_now();
    hf_locks_close(it->locks);
    it->locks = NULL;
    pthread_mutex_lock(&it->mutex);
    it->walking = false;
    it->walks++;
    if (it->whole) {
        it->walk_ms = now - it->began_at;
        table_sweep(&it->table, (unsigned)it->walks);
        show_clear(&it->trouble);
        it->trouble_result = CLI_OK;
        it->answered_at = now;
    }
    pthread_mutex_unlock(&it->mutex);
    tell(it, false);
}

/* Walk to the next lock, the end, or an interrupt. */
static void step(watch *it) {
    hf_lock_info info = {.size = sizeof info};
    hf_view *view;
    hf_status status = hf_locks_next(it->locks, &info, &view);
    if (status == HF_OK && view != NULL)
        note_lock(it, &info, view, (unsigned)it->walks + 1);
    else if (status != HF_OK && status != HF_EINTR)
        note_trouble(it, status);
    count_walk(it);
    if (status == HF_OK ? view == NULL : status != HF_EINTR && !look_goes_on(status))
        end_walk(it);
    else
        tell(it, true);
    hf_view_close(view);
}

void watch_walk(watch *it) {
    begin_walk(it);
    while (it->locks != NULL)
        step(it);
}

/* ------------------------------------------------------------ One lock */

/* Read the first page of a lock. Return CLI_OK, or the exit status and the reason. */
static int look(watch *it, const void *name, size_t length, hf_lock **lock_out, hf_lock_info *info,
                hf_view **view_out, show_text *why) {
    *view_out = NULL;
    hf_status status = hf_lock_open(it->client, name, length, NULL, 0, NULL, lock_out);
    int64_t before = now_us();
    if (status == HF_OK)
        status = hf_lock_inspect(*lock_out, 0, info, view_out);
    if (status != HF_OK) {
        show_bytes(why, hf_error_message(), strlen(hf_error_message()));
        return cli_status_of(status);
    }
    count_cost(it, 1, 1, now_us() - before);
    note_lock(it, info, *view_out, 0);
    return CLI_OK;
}

static void run_errand(watch *it) {
    pthread_mutex_lock(&it->mutex);
    watch_errand errand = it->errand;
    it->errand = (watch_errand){0};
    atomic_store(&it->called, false);
    pthread_mutex_unlock(&it->mutex);
    if (errand.kind == WATCH_NOTHING)
        return;
    watch_answer answer = {.kind = errand.kind, .info = {.size = sizeof answer.info}};
    hf_lock *lock = NULL;
    answer.result =
        look(it, errand.name, errand.name_length, &lock, &answer.info, &answer.view, &answer.why);
    if (errand.kind == WATCH_TAKE && answer.result == CLI_OK) {
        answer.result = breaking_take(lock, errand.fence, &answer.why);
        count_cost(it, 1, 0, 0);
        hf_view_close(answer.view);
        hf_lock_close(lock);
        show_text ignored = {0};
        look(it, errand.name, errand.name_length, &lock, &answer.info, &answer.view, &ignored);
        show_free(&ignored);
    }
    hf_lock_close(lock);
    free(errand.name);
    pthread_mutex_lock(&it->mutex);
    show_free(&it->answer.why);
    hf_view_close(it->answer.view);
    it->answer = answer;
    pthread_mutex_unlock(&it->mutex);
    tell(it, false);
}

/* Refresh the locks on the screen, during a walk. */
static void look_at_visible(watch *it) {
    for (size_t i = 0;; i++) {
        show_text why = {0};
        hf_lock *lock = NULL;
        hf_lock_info info = {.size = sizeof info};
        hf_view *view = NULL;
        pthread_mutex_lock(&it->mutex);
        bool more = i < it->visible_count && !atomic_load(&it->called);
        size_t length = more ? it->visible_lengths[i] : 0;
        char *name = more ? show_copy(it->visible[i], length) : NULL;
        pthread_mutex_unlock(&it->mutex);
        if (!more)
            break;
        int result = look(it, name, length, &lock, &info, &view, &why);
        hf_view_close(view);
        hf_lock_close(lock);
        show_free(&why);
        free(name);
        if (result != CLI_OK)
            break; /* the walk reports the error */
    }
    it->looked_at = cli_now();
    tell(it, false);
}

/* ---------------------------------------------------------------- Thread */

static int interrupts(void *context) {
    watch *it = context;
    return atomic_load(&it->called) || cli_now() >= it->interrupt_at;
}

static void sleep_until(watch *it, int64_t at) {
    struct pollfd fd = {.fd = it->wake, .events = POLLIN};
    int64_t ms = at - cli_now();
    eventfd_t count;
    if (poll(&fd, 1, at == CLI_NEVER ? -1 : ms > 60000 ? 60000 : ms > 0 ? (int)ms : 0) > 0)
        eventfd_read(it->wake, &count);
}

static void *run(void *context) {
    watch *it = context;
    while (!atomic_load(&it->ends)) {
        int64_t now = cli_now();
        pthread_mutex_lock(&it->mutex);
        bool paused = it->paused;
        int64_t walk_at = it->hurried ? now : it->began_at + it->delay_ms;
        int64_t look_at = it->looked_at + it->delay_ms;
        pthread_mutex_unlock(&it->mutex);
        if (atomic_load(&it->called)) {
            run_errand(it);
        } else if (paused) {
            sleep_until(it, CLI_NEVER);
        } else if (it->locks == NULL && now < walk_at) {
            sleep_until(it, walk_at);
        } else if (it->locks == NULL) {
            begin_walk(it);
        } else if (now >= look_at) {
            look_at_visible(it);
        } else {
            it->interrupt_at = now + INTERRUPT_MS;
            step(it);
        }
    }
    return NULL;
}

bool watch_start(watch *it) {
    hf_client_set_interrupt(it->client, interrupts, it);
    it->started = pthread_create(&it->thread, NULL, run, it) == 0;
    return it->started;
}

bool watch_end(watch *it) {
    struct timespec until;
    if (!it->started)
        return true;
    atomic_store(&it->ends, true);
    atomic_store(&it->called, true);
    eventfd_write(it->wake, 1);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 300000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_timedjoin_np(it->thread, NULL, &until) == 0;
}

/* ------------------------------------------------------------ Open, close */

void watch_open(watch *it) {
    pthread_mutex_init(&it->mutex, NULL);
    it->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    it->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    it->began_at = INT64_MIN / 2; /* the first walk is due */
}

void watch_close(watch *it) {
    hf_locks_close(it->locks);
    table_free(&it->table);
    show_free(&it->trouble);
    show_free(&it->answer.why);
    hf_view_close(it->answer.view);
    free(it->errand.name);
    watch_show(it, NULL, 0);
    close(it->wake);
    close(it->news);
    pthread_mutex_destroy(&it->mutex);
}

/* -------------------------------------------------------------- Requests */

void watch_wake(watch *it) { eventfd_write(it->wake, 1); }

void watch_show(watch *it, const row *const *rows, size_t count) {
    for (size_t i = 0; i < it->visible_count; i++)
        free(it->visible[i]);
    free(it->visible);
    free(it->visible_lengths);
    it->visible_count = count;
    it->visible = count > 0 ? show_memory(count * sizeof(char *)) : NULL;
    it->visible_lengths = count > 0 ? show_memory(count * sizeof(size_t)) : NULL;
    for (size_t i = 0; i < count; i++) {
        it->visible_lengths[i] = rows[i]->name_length;
        it->visible[i] = show_copy(rows[i]->name, rows[i]->name_length);
    }
}

void watch_ask(watch *it, watch_kind kind, const void *name, size_t length, int64_t fence) {
    if (it->errand.kind == WATCH_TAKE)
        return;
    free(it->errand.name);
    it->errand = (watch_errand){kind, show_copy(name, length), length, fence};
    atomic_store(&it->called, true);
    eventfd_write(it->wake, 1);
}

bool watch_answered(watch *it, watch_answer *answer_out) {
    if (it->answer.kind == WATCH_NOTHING)
        return false;
    *answer_out = it->answer;
    it->answer = (watch_answer){0};
    return true;
}
