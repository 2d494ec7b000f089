/* Shared by these tests: processes that work beside the test, the memory that they share, waiting
 * threads, and a proxy that tests control. */
#ifndef FAULTS_H
#define FAULTS_H

#include "../network.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SLOW = 2 }; /* a sanitizer makes the program at least this much slower */
#else
enum { SLOW = 1 };
#endif

/* ------------------------------------------------------ Outside the test */

/* Only the test's own thread may fail a test. Other threads and processes print the reason and end.
 */
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition,            \
                    hf_error_message());                                                           \
            fflush(stderr);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define must_be(call, expected)                                                                    \
    do {                                                                                           \
        hf_status must_be_ = (call);                                                               \
        if (must_be_ != (expected)) {                                                              \
            fprintf(stderr, "%s:%d: %s answered %s, not %s: %s\n", __FILE__, __LINE__, #call,      \
                    hf_status_name(must_be_), hf_status_name(expected), hf_error_message());       \
            fflush(stderr);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define wait_until(condition)                                                                      \
    do {                                                                                           \
        int64_t until_ = now_ms() + 60000;                                                         \
        while (!(condition)) {                                                                     \
            must(now_ms() < until_);                                                               \
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);                                \
        }                                                                                          \
    } while (0)

/* A seed for rand_r(). In the simulation it is the history's. */
static inline unsigned some_seed(void) {
    unsigned seed;
    must(getentropy(&seed, sizeof seed) == 0);
    return seed;
}

/* ------------------------------------------------------------- Workers */

/* Memory that all processes of a test share, zeroed. After the test the next test gets it. */
static char *shared_from, *shared_at;
enum { SHARED_SIZE = 1024 * 1024 };

static inline void *shared_memory(size_t size) {
    void *memory = shared_at;
    shared_at += (size + 63) / 64 * 64;
    must(shared_at <= shared_from + SHARED_SIZE);
    return memory;
}

static inline char *shared_text(const char *words) {
    return strcpy(shared_memory(strlen(words) + 1), words);
}

static pid_t workers[64]; /* running processes; 0: none */
static int nursery = -1;  /* a socket on which workers are ordered */

typedef struct errand {
    void (*work)(void *);
    void *argument; /* static, or in shared memory */
} errand;

/* Run in the worker's process. The test becomes its parent when the process between them has ended.
 */
static inline void worker_live(const errand *what, pid_t test) {
    while (getppid() != test)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(120);
    what->work(what->argument);
    fflush(NULL);
    _exit(0);
}

/* Start a process without threads from which the workers are forked: a child of a process with
 * threads is of little use to a sanitizer. */
static inline void nursery_start(void) {
    int ends[2];
    pid_t test = getpid();
    shared_from =
        mmap(NULL, SHARED_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared_from != MAP_FAILED);
    shared_at = shared_from;
    must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    must(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid > 0) {
        nursery = ends[0];
        close(ends[1]);
        return;
    }
    close(ends[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    errand what;
    while (recv(ends[1], &what, sizeof what, 0) == sizeof what) {
        pid_t between = fork();
        if (between == 0) {
            pid_t worker = fork();
            if (worker == 0)
                worker_live(&what, test);
            must(worker > 0 && send(ends[1], &worker, sizeof worker, 0) == sizeof worker);
            _exit(0);
        }
        must(between > 0 && waitpid(between, NULL, 0) == between);
    }
    _exit(0);
}

/* Start a separate process that does this work; it ends with the test at the latest. */
static inline pid_t worker_start(void (*work)(void *), void *argument) {
    errand what = {work, argument};
    pid_t pid;
    must(send(nursery, &what, sizeof what, 0) == sizeof what);
    must(recv(nursery, &pid, sizeof pid, 0) == sizeof pid);
    siginfo_t how; /* until it is our child */
    wait_until(waitid(P_PID, (id_t)pid, &how, WEXITED | WNOHANG | WNOWAIT) == 0);
    for (size_t i = 0; i < COUNT(workers); i++) {
        if (workers[i] == 0) {
            workers[i] = pid;
            return pid;
        }
    }
    must(!"too many workers");
    return pid;
}

static inline void worker_gone(pid_t pid) {
    for (size_t i = 0; i < COUNT(workers); i++)
        if (workers[i] == pid)
            workers[i] = 0;
}

static inline void worker_join(pid_t pid) {
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    worker_gone(pid);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0)
        fail_msg("a worker failed: %x", how);
}

static inline bool worker_failed(pid_t pid) {
    siginfo_t how = {0};
    return waitid(P_PID, (id_t)pid, &how, WEXITED | WNOHANG | WNOWAIT) == 0 && how.si_pid == pid &&
           (how.si_code != CLD_EXITED || how.si_status != 0);
}

static inline void worker_kill(pid_t pid) {
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    worker_gone(pid);
}

/* Stop the worker before returning. */
static inline void worker_stop(pid_t pid) {
    int how;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitpid(pid, &how, WUNTRACED), pid);
    assert_true(WIFSTOPPED(how));
}

static inline void worker_go_on(pid_t pid) { assert_int_equal(kill(pid, SIGCONT), 0); }

static inline hf_client *must_open(const char *url) {
    hf_client *client;
    must_be(hf_client_open(url, NULL, &client), HF_OK);
    return client;
}

/* Open a client through a proxy, and a client past it. */
static inline proxy *open_both(hf_client **through, hf_client **past) {
    proxy *way = proxy_start();
    *through = must_open(text("redis://127.0.0.1:%d", way->port));
    *past = open_client();
    return way;
}

static inline void close_both(proxy *way, hf_client *through, hf_client *past) {
    hf_client_close(through);
    hf_client_close(past);
    proxy_stop(way);
}

static inline hf_lock *must_lock(hf_client *client, const char *name,
                                 const hf_lock_options *options) {
    hf_lock *lock;
    must_be(hf_lock_open(client, name, strlen(name), NULL, 0, options, &lock), HF_OK);
    return lock;
}

/* -------------------------------------------------------- The section */

/* The protected data: how many callers are inside, a counter that is read and written in two steps,
 * and the fences in the order of the entries. */
typedef struct section {
    _Atomic int inside;
    _Atomic int64_t counter, fence;
} section;

static inline void section_enter(section *s, const hf_hold *hold) {
    int64_t fence = hf_hold_fence(hold);
    must(atomic_fetch_add(&s->inside, 1) == 0);
    must(atomic_exchange(&s->fence, fence) < fence);
    atomic_store(&s->counter, atomic_load(&s->counter) + 1);
}

static inline void section_leave(section *s) { must(atomic_fetch_sub(&s->inside, 1) == 1); }

/* ------------------------------------------------------- Waiting threads */

typedef struct waiter {
    hf_lock *lock;
    int64_t timeout_ms;
    const char *owner;
    hf_status status;
    char why[200]; /* the message, if the status is not HF_OK */
    hf_hold *hold;
    int64_t done_at;
    _Atomic bool done;
    pthread_t thread;
} waiter;

static inline void *waiter_main(void *argument) {
    waiter *w = argument;
    w->status = hf_lock_acquire_as(w->lock, w->owner, w->owner != NULL ? strlen(w->owner) : 0,
                                   w->timeout_ms, NULL, &w->hold);
    w->done_at = now_ms();
    if (w->status != HF_OK)
        snprintf(w->why, sizeof w->why, "%s", hf_error_message());
    atomic_store(&w->done, true);
    return NULL;
}

/* Start a waiter. It stays valid until some hundreds more are started, even if the test fails. */
static inline waiter *waiter_start_as(hf_lock *lock, const char *owner, int64_t timeout_ms) {
    static waiter waiters[512];
    static unsigned next;
    waiter *w = &waiters[next++ % COUNT(waiters)];
    memset(w, 0, sizeof *w);
    w->lock = lock;
    w->owner = owner;
    w->timeout_ms = timeout_ms;
    must(pthread_create(&w->thread, NULL, waiter_main, w) == 0);
    return w;
}

static inline waiter *waiter_start(hf_lock *lock, int64_t timeout_ms) {
    return waiter_start_as(lock, NULL, timeout_ms);
}

static inline void waiter_join(waiter *w, hf_status expected) {
    pthread_join(w->thread, NULL);
    if (w->status != expected)
        fail_msg("a waiter was answered %s, not %s", hf_status_name(w->status),
                 hf_status_name(expected));
}

/* ------------------------------------------------------------ The server */

/* Count the acquires in the queue of a lock with a name without braces. */
static inline int64_t queued(const char *name) {
    return NUMBER("ZCOUNT {%s}%s:hf1:q 0 9007199254740992", name, name);
}

static inline int64_t stat_calls(const char *command) {
    const char *stats = STRING("INFO commandstats");
    const char *at = strstr(stats, text("cmdstat_%s:calls=", command));
    return at != NULL ? atoll(strchr(at, '=') + 1) : 0;
}

/* Return how many scripts of the library were run since CONFIG RESETSTAT. */
static inline int64_t scripts_run(void) { return stat_calls("evalsha") + stat_calls("eval"); }

static inline pid_t server_pid(void) {
    return (pid_t)atoll(strstr(STRING("INFO server"), "process_id:") + strlen("process_id:"));
}

/* Check that the lock has left only its last fence and spent hold ids. */
static inline void assert_nothing_left(void) {
    redisReply *keys = TELL("KEYS *");
    for (size_t i = 0; i < keys->elements; i++) {
        const char *key = keys->element[i]->str;
        size_t length = keys->element[i]->len;
        if (length > 6 &&
            (strcmp(key + length - 6, ":hf1:f") == 0 || strcmp(key + length - 6, ":hf1:d") == 0))
            continue;
        /* The end of a queue may stay for 30 s after a lock whose lease has ended. */
        if (length > 6 && strcmp(key + length - 6, ":hf1:q") == 0 && NUMBER("ZCARD %s", key) == 1 &&
            NUMBER("PTTL %s", key) > 0 && strcmp(STRING("ZSCORE %s ~", key), "inf") == 0)
            continue;
        fail_msg("left on the server: %s", key);
    }
}

static pid_t the_server; /* its process */

static inline int begin_fault(void **state) {
    (void)state;
    if (the_server > 0)
        kill(the_server, SIGCONT);
    for (size_t i = 0; i < COUNT(workers); i++)
        if (workers[i] > 0)
            worker_kill(workers[i]); /* of a test that failed */
    shared_at = shared_from;
    memset(shared_from, 0, SHARED_SIZE);
    start_afresh();
    the_server = server_pid();
    TELL("CLIENT UNPAUSE");
    TELL("CONFIG RESETSTAT");
    alarm(100);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Run all tests, or those that match the pattern. */
#define RUN_TESTS(tests, count, words)                                                             \
    (nursery_start(), (count) > 1 ? cmocka_set_test_filter((words)[1]) : (void)0,                  \
     cmocka_run_group_tests(tests, NULL, NULL))

#endif
