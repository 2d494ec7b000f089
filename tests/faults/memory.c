/*
 * No memory: every allocation of an operation fails once, the first in the first run, the second in
 * the second, until a run needs no more; and again, with all later allocations failing as well.
 * Whatever fails, the caller gets an error, no memory leaks, nothing is left on the server, and the
 * same operation works right afterwards.
 *
 * The linker puts these functions in the place of malloc() and its like in the core and in hiredis;
 * OpenSSL takes them at run time. The library has no hook.
 */
#include "../deployments/certificates.h"

#include <errno.h>
#include <execinfo.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

/* ------------------------------------------------- The allocator that fails */

static atomic_long left; /* allocations until one fails; 0: none fails */
static atomic_bool failed, go_on;
static atomic_bool openssl; /* count OpenSSL's allocations instead of the library's */
static void *trace[24];     /* the stack of the allocation that failed */
static _Atomic int traced;
static _Thread_local bool outside; /* allocations of the test itself */

/* The library's live allocations, encoded so that LeakSanitizer does not see references. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t live[65536];
static size_t live_count;

static bool fails(bool openssl_asks) {
    if (outside || openssl_asks != atomic_load(&openssl) || atomic_load(&left) == 0)
        return false;
    if (atomic_load(&failed))
        return atomic_load(&go_on);
    if (atomic_fetch_sub(&left, 1) > 1)
        return false;
    if (atomic_exchange(&failed, true))
        return atomic_load(&go_on);
    atomic_store(&left, 1);
    outside = true;
    traced = backtrace(trace, COUNT(trace));
    outside = false;
    return true;
}

static size_t bucket(uintptr_t key) { return (~key >> 4) % COUNT(live); }

static void put(const void *memory) {
    uintptr_t key = ~(uintptr_t)memory;
    if (memory == NULL || outside)
        return;
    pthread_mutex_lock(&mutex);
    size_t at = bucket(key);
    while (live[at] != 0)
        at = (at + 1) % COUNT(live);
    live[at] = key;
    if (++live_count > COUNT(live) / 2)
        abort();
    pthread_mutex_unlock(&mutex);
}

static void take(const void *memory) {
    uintptr_t key = ~(uintptr_t)memory;
    if (memory == NULL)
        return;
    pthread_mutex_lock(&mutex);
    size_t at = bucket(key);
    while (live[at] != 0 && live[at] != key)
        at = (at + 1) % COUNT(live);
    if (live[at] != 0)
        live_count--;
    for (size_t hole = at; live[at] != 0;) { /* move up the entries behind it that may move */
        live[hole] = 0;
        do
            at = (at + 1) % COUNT(live);
        while (live[at] != 0 && (at - bucket(live[at])) % COUNT(live) < (at - hole) % COUNT(live));
        live[hole] = live[at];
        hole = at;
    }
    pthread_mutex_unlock(&mutex);
}

static size_t count_live(void) {
    pthread_mutex_lock(&mutex);
    size_t count = live_count;
    pthread_mutex_unlock(&mutex);
    return count;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *string);
char *__real_strndup(const char *string, size_t length);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *string);
char *__wrap_strndup(const char *string, size_t length);
void __wrap_free(void *memory);

#define GIVE(type, call)                                                                           \
    if (fails(false)) {                                                                            \
        errno = ENOMEM;                                                                            \
        return NULL;                                                                               \
    }                                                                                              \
    type *memory = call;                                                                           \
    put(memory);                                                                                   \
    return memory

void *__wrap_malloc(size_t size) { GIVE(void, __real_malloc(size)); }
void *__wrap_calloc(size_t count, size_t size) { GIVE(void, __real_calloc(count, size)); }
char *__wrap_strdup(const char *string) { GIVE(char, __real_strdup(string)); }
char *__wrap_strndup(const char *string, size_t length) {
    GIVE(char, __real_strndup(string, length));
}

void *__wrap_realloc(void *memory, size_t size) {
    if (fails(false)) {
        errno = ENOMEM;
        return NULL;
    }
    take(memory); /* before another thread is given the same */
    void *grown = __real_realloc(memory, size);
    put(grown);
    return grown;
}

void __wrap_free(void *memory) {
    take(memory);
    __real_free(memory);
}

/* OpenSSL keeps some memory for ever; it is not counted here. */
static void *openssl_malloc(size_t size, const char *file, int line) {
    (void)file, (void)line;
    return fails(true) ? NULL : __real_malloc(size);
}
static void *openssl_realloc(void *memory, size_t size, const char *file, int line) {
    (void)file, (void)line;
    return fails(true) ? NULL : __real_realloc(memory, size);
}
static void openssl_free(void *memory, const char *file, int line) {
    (void)file, (void)line;
    __real_free(memory);
}

/* ---------------------------------------------------------------- The runs */

static long failing; /* the allocation that fails in this run */

static void arm(void) {
    atomic_store(&failed, false);
    atomic_store(&left, failing);
}

static void disarm(void) { atomic_store(&left, 0); }

/* Return the answer to a raw request, whose memory is the test's. */
static long long number_of(const char *command, const char *key) {
    outside = true;
    long long found = integer(ask(command, key));
    outside = false;
    return found;
}

static void tell_raw(const char *command, const char *key) {
    outside = true;
    good(ask(command, key));
    outside = false;
}

/* Check that the call succeeded, or that there was no memory and the message states that. */
static void check_told(hf_status status, const char *call, int line) {
    /* Other errors: the answer could not be read, or the look at the lock failed, or OpenSSL does
     * not report the reason. */
    bool other = (atomic_load(&go_on) && (status == HF_EUNKNOWN || status == HF_ECONNECT)) ||
                 (atomic_load(&openssl) && (status == HF_ECONNECT || status == HF_EINVAL));
    if (status == HF_OK || other ||
        (status == HF_ENOMEM && strstr(hf_error_message(), "no memory") != NULL))
        return;
    print_error("%s answered %s: %s\n", call, hf_status_name(status), hf_error_message());
    _fail(__FILE__, line);
}
#define told(call) check_told((call), #call, __LINE__)

static void run_all(const char *name, void (*run)(void), bool all_that_follow) {
    int idle = 0;
    atomic_store(&go_on, all_that_follow);
    /* OpenSSL allocates thousands of times. */
    int64_t begun = now_ms();
    int step = atomic_load(&openssl) ? 97 : 1;
    for (failing = 1; idle < 2; failing += step) {
        alarm(60);
        size_t before = count_live();
        traced = 0;
        run();
        disarm();
        idle = traced > 0 ? 0 : idle + 1;
        assert_soon(count_live() == before && number_of("EXISTS %s", "stock") == 0);
        assert_soon(number_of("ZCOUNT %s 0 9007199254740992", "{stock}stock:hf1:q") == 0);
    }
    print_message("%s: %ld allocations%s, %lld ms\n", name, failing - 2 * step - 1,
                  all_that_follow ? ", and all that follow" : "", (long long)(now_ms() - begun));
    failing = 0;
    alarm(0);
}

/* Print which allocation failed, if the test did. */
static int report(void **state) {
    (void)state;
    disarm();
    outside = false;
    atomic_store(&openssl, false);
    if (failing > 0)
        backtrace_symbols_fd(trace, traced, STDERR_FILENO);
    return 0;
}

static void died(int signal) {
    backtrace_symbols_fd(trace, traced, STDERR_FILENO);
    _exit(128 + signal);
}

/* ------------------------------------------------------------------ Opening */

static char *url; /* the URL to be opened */

static void use(hf_client *client) {
    hf_hold *hold;
    hf_lock *lock = open_lock(client, "stock", NULL, NULL);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_status(hf_hold_release(hold), HF_OK);
    hf_hold_close(hold);
    hf_lock_close(lock);
}

static void run_open(void) {
    hf_client *client = NULL;
    arm();
    hf_status status = hf_client_open(url, NULL, &client);
    disarm();
    told(status);
    assert_true((status == HF_OK) == (client != NULL));
    if (client == NULL)
        assert_status(hf_client_open(url, NULL, &client), HF_OK);
    use(client);
    hf_client_close(client);
}

static void test_open(const char *name, char *address) {
    url = address;
    run_all(name, run_open, false);
    run_all(name, run_open, true);
}

/* A sentinel that knows the server of with-redis. */
static pid_t sentinel_pid, tls_pid;

static int sentinel_start(void) {
    int port = free_port();
    const char *file = text("%s/sentinel.conf", folder);
    FILE *conf = fopen(file, "w");
    fprintf(conf, "port %d\nsentinel monitor mine 127.0.0.1 %s 1\n", port,
            strrchr(tcp_url(), ':') + 1);
    fclose(conf);
    sentinel_pid = START(file, "--sentinel");
    assert_soon(answers(port));
    return port;
}

static int tls_start(void) {
    int port = free_port();
    identity authority = make_identity("test authority", NULL, NULL, 10);
    identity good = make_identity("server", "IP:127.0.0.1", &authority, 10);
    save(&authority, "ca");
    save(&good, "good");
    drop(&authority);
    drop(&good);
    tls_pid = START("--port", "0", "--tls-port", number(port), "--save", "", "--tls-cert-file",
                    "good.pem", "--tls-key-file", "good.key", "--tls-ca-cert-file", "ca.pem",
                    "--tls-auth-clients", "no");
    hf_client *client;
    url = text("rediss://127.0.0.1:%d?tls_ca=%s/ca.pem", port, folder);
    assert_soon(hf_client_open(url, NULL, &client) == HF_OK);
    hf_client_close(client);
    return port;
}

static void test_opening_a_client_without_memory(void **state) {
    (void)state;
    tell_raw("ACL SETUSER %s on >secret ~* &* +@all", "tester");
    const char *rest = strstr(tcp_url(), "://") + 3;
    test_open("open, unix", text("%s", unix_url()));
    test_open("open, TCP", text("redis://tester:secret@%s/1", rest));
    setenv("HOLDFAST_TEST_SECRET", "secret", 1);
    test_open("open, variable",
              text("redis://tester:@%s/?password_env=HOLDFAST_TEST_SECRET&db=1", rest));
}

static void test_opening_a_client_by_sentinel_without_memory(void **state) {
    (void)state;
    outside = true;
    int port = sentinel_start();
    outside = false;
    test_open("open, Sentinel", text("redis+sentinel://127.0.0.1:%d,127.0.0.1:1/mine", port));
    stop_server(&sentinel_pid);
}

static void test_opening_a_client_by_tls_without_memory(void **state) {
    (void)state;
    outside = true;
    int port = tls_start();
    outside = false;
    char *address = text("rediss://127.0.0.1:%d?tls_ca=%s/ca.pem", port, folder);
    test_open("open, TLS", address);
    atomic_store(&openssl, true);
    test_open("open, TLS, by OpenSSL", address);
    atomic_store(&openssl, false);
    stop_server(&tls_pid);
}

/* ------------------------------------------------------------- Acquiring */

/* A lease that does not end during a test. */
static const hf_lock_options long_lease = {
    .size = sizeof long_lease, .lease_ms = 60000, .renew = HF_ON, .heal = HF_ON};

static void break_it(hf_lock *lock) {
    hf_lock_info info = {.size = sizeof info};
    assert_status(hf_lock_inspect(lock, 0, &info, NULL), HF_OK);
    if (info.held)
        assert_status(hf_lock_break(lock, info.fence, 0), HF_OK);
}

static void run_try(void) {
    hf_client *client = open_client();
    hf_lock *lock = open_lock(client, "stock", NULL, &long_lease);
    hf_hold *hold = NULL;
    arm();
    hf_status status = hf_lock_acquire(lock, 0, &hold);
    told(status);
    assert_true((status == HF_OK) == (hold != NULL));
    if (status == HF_OK)
        told(hf_hold_release(hold));
    hf_hold_close(hold);
    disarm();
    if (status == HF_EUNKNOWN) /* held perhaps, unknown to the caller */
        break_it(lock);
    assert_soon(number_of("EXISTS %s", "stock") == 0);
    use(client);
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_a_try_without_memory(void **state) {
    (void)state;
    run_all("try", run_try, false);
    run_all("try", run_try, true);
}

static void run_once(void) {
    hf_client *client = open_client();
    hf_lock *lock = open_lock(client, "stock", NULL, &long_lease);
    hf_hold *hold = NULL;
    arm();
    hf_status status = hf_once_begin(lock, 0, NULL, NULL, 0, &hold);
    told(status);
    if (status == HF_OK) {
        hf_status end = hf_once_finish(hold, HF_ONCE_DONE, "done", 4, 60000);
        told(end);
        if (end == HF_ENOMEM) { /* H263: it is as if it had not been called */
            disarm();
            assert_status(hf_once_finish(hold, HF_ONCE_DONE, "done", 4, 60000), HF_OK);
        }
    }
    hf_hold_close(hold);
    hold = NULL;
    if (status == HF_OK && (status = hf_once_begin(lock, 0, NULL, NULL, 0, &hold)) != HF_EDONE)
        told(status);
    assert_true((status == HF_OK || status == HF_EDONE) == (hold != NULL));
    assert_true((status == HF_EDONE) == (hf_hold_result(hold, NULL) != NULL));
    hf_hold_close(hold);
    disarm();
    if (status == HF_EUNKNOWN || status == HF_OK)
        break_it(lock);
    assert_soon(number_of("EXISTS %s", "stock") == 0);
    number_of("DEL %s", "{stock}stock:hf1:r");
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_what_is_done_once_without_memory(void **state) {
    (void)state;
    run_all("once", run_once, false);
    run_all("once", run_once, true);
}

static void run_several(void) {
    hf_client *client = open_client();
    hf_lock *locks[] = {open_lock(client, "stock", NULL, &long_lease),
                        open_lock(client, "till", NULL, &long_lease)};
    hf_hold *holds[2] = {NULL, NULL};
    arm();
    hf_status status = hf_lock_acquire_all(locks, 2, NULL, 0, 0, NULL, holds);
    told(status);
    for (int i = 0; i < 2; i++) {
        assert_true((status == HF_OK) == (holds[i] != NULL));
        if (status == HF_OK)
            told(hf_hold_release(holds[i]));
        hf_hold_close(holds[i]);
    }
    disarm();
    for (int i = 0; i < 2; i++) {
        if (status == HF_EUNKNOWN) /* held perhaps, unknown to the caller */
            break_it(locks[i]);
        hf_lock_close(locks[i]);
    }
    assert_soon(number_of("EXISTS %s", "stock") == 0 && number_of("EXISTS %s", "till") == 0);
    use(client);
    hf_client_close(client);
}

static void test_several_at_once_without_memory(void **state) {
    (void)state;
    run_all("several", run_several, false);
    run_all("several", run_several, true);
}

typedef struct waiter {
    pthread_t thread;
    hf_client *client;
    int64_t timeout_ms;
    atomic_int status;
    char message[512];
} waiter;

static void *wait_for_it(void *argument) {
    waiter *w = argument;
    hf_hold *hold = NULL;
    hf_lock *lock = NULL;
    hf_status status = hf_lock_open(w->client, "stock", 5, NULL, 0, &long_lease, &lock);
    if (status == HF_OK)
        status = hf_lock_acquire(lock, w->timeout_ms, &hold);
    if (status == HF_OK)
        status = hf_hold_release(hold);
    strcpy(w->message, hf_error_message());
    hf_hold_close(hold);
    hf_lock_close(lock);
    atomic_store(&w->status, status);
    return NULL;
}

static void start_waiter(waiter *w, hf_client *client, int64_t timeout_ms) {
    *w = (waiter){.client = client, .timeout_ms = timeout_ms, .status = -1};
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_it, w), 0);
}

static hf_status end_of(waiter *w) {
    assert_soon(atomic_load(&w->status) >= 0);
    pthread_join(w->thread, NULL);
    if (w->status == HF_ENOMEM)
        assert_non_null(strstr(w->message, "no memory"));
    return w->status;
}

/* Wait in the queue, get the lock by a message, and release it. */
static void run_wait(void) {
    hf_client *holder = open_client(), *client = open_client();
    hf_lock *lock = open_lock(holder, "stock", NULL, &long_lease);
    hf_hold *hold;
    waiter w;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    arm();
    start_waiter(&w, client, 10000);
    assert_soon(number_of("ZCOUNT %s 0 9007199254740992", "{stock}stock:hf1:q") == 1 ||
                w.status >= 0);
    told(hf_hold_release(hold));
    hf_status status = end_of(&w);
    if (status != HF_ENOMEM)
        assert_status(status, HF_OK);
    disarm();
    assert_soon(number_of("EXISTS %s", "stock") == 0);
    start_waiter(&w, client, 10000);
    assert_status(end_of(&w), HF_OK);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
    hf_client_close(holder);
}

static void test_a_wait_and_its_grant_without_memory(void **state) {
    (void)state;
    run_all("wait", run_wait, false);
}

static void run_timeout(void) {
    hf_client *holder = open_client(), *client = open_client();
    hf_lock *lock = open_lock(holder, "stock", NULL, &long_lease);
    hf_hold *hold;
    waiter w;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    arm();
    start_waiter(&w, client, 20);
    hf_status status = end_of(&w);
    if (status != HF_ENOMEM && status != HF_EUNKNOWN)
        assert_status(status, HF_ETIMEOUT);
    disarm();
    assert_soon(number_of("ZCOUNT %s 0 9007199254740992", "{stock}stock:hf1:q") == 0);
    assert_status(hf_hold_release(hold), HF_OK);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
    hf_client_close(holder);
}

static void test_a_wait_that_ends_without_memory(void **state) {
    (void)state;
    run_all("timeout", run_timeout, false);
}

/* ---------------------------------------------------------------- Started */

static void check_completion(const hf_completion *found, int kind) {
    assert_int_equal(found->kind, kind);
    if (found->status != HF_ENOMEM)
        assert_status(found->status, HF_OK);
}

/* Start an acquire that is granted by a message, then a release, each with its completion. */
static void run_started(void) {
    hf_client *holder = open_client(), *client = open_client();
    hf_lock *lock = open_lock(holder, "stock", NULL, &long_lease),
            *mine = open_lock(client, "stock", NULL, &long_lease);
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    arm();
    hf_status waits = hf_lock_acquire_start(mine, NULL, 0, 10000, NULL, 1);
    hf_status gives_up = hf_lock_acquire_start(mine, NULL, 0, 10000, NULL, 2);
    hf_status tries = hf_lock_acquire_start(mine, NULL, 0, 0, NULL, 3);
    told(waits);
    told(gives_up);
    told(tries);
    int expected = (waits == HF_OK) + (gives_up == HF_OK) + (tries == HF_OK);
    assert_soon(number_of("ZCOUNT %s 0 9007199254740992", "{stock}stock:hf1:q") >=
                    (waits == HF_OK) + (gives_up == HF_OK) ||
                hf_client_fd(client) < 0 || failed);
    if (gives_up == HF_OK) {
        hf_status cancel = hf_op_cancel(client, 2);
        if (cancel != HF_ENOTHELD) /* it has failed already */
            told(cancel);
    }
    told(hf_hold_release(hold));
    while (expected-- > 0) {
        hf_completion found = next_of(client);
        assert_int_equal(found.kind, HF_KIND_ACQUIRE);
        if (found.status == HF_OK && found.op != 3) {
            hf_status release = hf_hold_release_start(found.hold, 4);
            told(release);
            expected += release == HF_OK;
            if (release != HF_OK)
                told(hf_hold_release(found.hold));
            hf_hold_close(found.hold);
            while (release == HF_OK && (found = next_of(client)).kind == HF_KIND_ACQUIRE) {
                assert_int_not_equal(found.status, HF_OK);
                expected--;
            }
            if (release == HF_OK) {
                expected--;
                check_completion(&found, HF_KIND_RELEASE);
            }
        } else if (found.status == HF_OK) {
            told(hf_hold_release(found.hold));
            hf_hold_close(found.hold);
        } else if (found.status != HF_ENOMEM && (found.op != 3 || found.status != HF_EUNKNOWN)) {
            assert_status(found.status, found.op == 1   ? HF_OK
                                        : found.op == 2 ? HF_ECANCELED
                                                        : HF_EBUSY);
        }
    }
    disarm();
    assert_soon(number_of("EXISTS %s", "stock") == 0);
    assert_status(hf_lock_acquire_start(mine, NULL, 0, 20000, NULL, 5), HF_OK);
    hf_completion found = next_of(client);
    check_completion(&found, HF_KIND_ACQUIRE);
    assert_status(hf_hold_release(found.hold), HF_OK);
    hf_hold_close(found.hold);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_lock_close(mine);
    hf_client_close(client);
    hf_client_close(holder);
}

static void test_what_is_started_without_memory(void **state) {
    (void)state;
    run_all("started", run_started, false);
}

/* ------------------------------------------------------------------ Holds */

static void run_hold(void) {
    hf_client *client = open_client(), *other = open_client();
    hf_lock *lock = open_lock(client, "stock", NULL, &long_lease),
            *theirs = open_lock(other, "stock", NULL, &long_lease);
    hf_lock_info info = {.size = sizeof info};
    hf_hold *hold, *adopted = NULL;
    hf_view *view;
    char token[HF_TOKEN_MAX];
    size_t length = 0;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    arm();
    told(hf_hold_renew(hold));
    told(hf_hold_extend(hold, 1000, 0));
    told(hf_hold_extend(hold, 50000, 1));
    told(hf_hold_check(hold));
    told(hf_lock_inspect(lock, 0, &info, &view));
    hf_view_close(view);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    hf_status status = hf_hold_hand_over(hold, token, sizeof token, &length);
    if (status != HF_EUNKNOWN) { /* the answer to its replacement was read */
        told(status);
        status = hf_lock_adopt(theirs, token, length, &adopted);
        told(status);
        if (status != HF_OK) /* it may be tried again */
            status = hf_lock_adopt(theirs, token, length, &adopted);
        if (!atomic_load(&go_on))
            assert_status(status, HF_OK);
        if (status == HF_OK)
            told(hf_hold_keep(adopted, 60000));
    }
    told(hf_lock_break(lock, hf_hold_fence(hold), 0));
    disarm();
    status = hf_lock_break(lock, hf_hold_fence(hold), 0);
    assert_true(status == HF_OK || status == HF_ENOTHELD);
    hf_hold_close(adopted);
    hf_hold_close(hold);
    use(client);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(client);
    hf_client_close(other);
}

static void test_what_a_holder_does_without_memory(void **state) {
    (void)state;
    run_all("hold", run_hold, false);
    run_all("hold", run_hold, true);
}

/* Walk over all locks: each result is complete, and the walk can go on after an error. */
static void run_walk(void) {
    hf_client *client = open_client();
    hf_lock *lock = open_lock(client, "stock", NULL, &long_lease);
    hf_lock_info info = {.size = sizeof info};
    hf_locks *locks;
    hf_hold *hold;
    hf_view *view = NULL;
    int found = 0;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    arm();
    hf_status status = hf_locks_open(client, "st*", 3, NULL, &locks);
    told(status);
    for (int tries = 0; status == HF_OK && tries < 20; tries++) {
        hf_status next = hf_locks_next(locks, &info, &view);
        told(next);
        if (next == HF_OK && view == NULL)
            break;
        if (next == HF_OK) {
            assert_memory_equal(hf_view_name(view, NULL), "stock", 5);
            assert_true(info.held && hf_view_holders(view) == 1);
            found++;
        }
        hf_view_close(view);
    }
    hf_locks_close(locks);
    assert_in_range(found, 0, 1);
    disarm();
    assert_status(hf_hold_release(hold), HF_OK);
    hf_hold_close(hold);
    use(client);
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_a_walk_over_all_locks_without_memory(void **state) {
    (void)state;
    run_all("walk", run_walk, false);
    run_all("walk", run_walk, true);
}

/* Give an end to another library's lock that would stand for ever. */
static void run_heal(void) {
    hf_client *client = open_client();
    hf_lock *lock = open_lock(client, "stock", NULL, &long_lease);
    hf_hold *hold;
    tell_raw("SET %s theirs", "stock");
    arm();
    hf_status status = hf_lock_acquire(lock, 0, &hold);
    if (status != HF_EBUSY)
        told(status);
    disarm();
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_EBUSY);
    assert_soon(number_of("PTTL %s", "stock") > 0); /* the keeper does it */
    tell_raw("DEL %s", "stock");
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_a_lock_is_healed_without_memory(void **state) {
    (void)state;
    run_all("heal", run_heal, false);
}

static hf_stats stats_of(hf_client *client) {
    hf_stats stats = {.size = sizeof stats};
    assert_status(hf_client_stats(client, &stats), HF_OK);
    return stats;
}

/* Acquire for the first time, which starts the keeper, and renew at once, because the client is
 * told an earlier end of the lock. A single failure must not lose the lock. */
static void run_keeper(void) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = 60000, .renew = HF_ON};
    hf_client *client = open_client();
    hf_lock *lock = open_lock(client, "stock", NULL, &options);
    hf_hold *hold;
    arm();
    hf_status status = hf_lock_acquire(lock, 0, &hold);
    told(status);
    if (status == HF_OK) {
        tell_raw("PEXPIRE %s 15000", "stock");
        status = hf_hold_check(hold);
        told(status);
        if (status != HF_OK)
            assert_status(hf_hold_check(hold), HF_OK);
        assert_soon(stats_of(client).renewed > 0 || hf_hold_state(hold) != HF_STATE_HELD);
        assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
        told(hf_hold_release(hold));
        hf_hold_close(hold);
    }
    disarm();
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_renewals_without_memory(void **state) {
    (void)state;
    run_all("keeper", run_keeper, false);
}

/* Lose a hold, and read the report. */
static void run_loss(void) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = 100, .renew = HF_ON};
    hf_client *client = open_client();
    assert_true(hf_client_fd(client) >= 0);
    hf_lock *lock = open_lock(client, "stock", NULL, &options);
    hf_hold *hold;
    arm();
    hf_status status = hf_lock_acquire(lock, 0, &hold);
    if (status != HF_EBUSY) /* the machine stood still for the lease */
        told(status);
    if (status == HF_OK) {
        tell_raw("DEL %s", "stock");
        assert_int_equal(next_of(client).kind, HF_KIND_LOSS);
        assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
        hf_hold_close(hold);
    }
    disarm();
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_a_loss_is_told_without_memory(void **state) {
    (void)state;
    run_all("loss", run_loss, false);
}

/* Close a client with holds, a waiter, and a release under way. */
static void run_close(void) {
    hf_client *client = open_client();
    hf_lock *lock = open_lock(client, "stock", NULL, &long_lease);
    hf_hold *holds[3];
    waiter w;
    for (size_t i = 0; i < COUNT(holds); i++)
        assert_status(hf_lock_acquire(lock, 0, &holds[i]), HF_OK);
    start_waiter(&w, client, 10000);
    assert_soon(number_of("ZCOUNT %s 0 9007199254740992", "{stock}stock:hf1:q") == 1);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 10000, NULL, 1), HF_OK);
    assert_soon(number_of("ZCOUNT %s 0 9007199254740992", "{stock}stock:hf1:q") == 2);
    assert_true(hf_client_fd(client) >= 0);
    arm();
    hf_status release = hf_hold_release_start(holds[0], 2);
    told(release);
    hf_client_close(client);
    disarm();
    int found = release == HF_OK ? 0 : 1;
    for (hf_completion one = {.size = sizeof one}; hf_client_next(client, &one) == HF_OK;)
        found++;
    assert_int_equal(found, 2);
    hf_status waited = end_of(&w); /* unknown: it was being sent again on a slow machine */
    assert_true(waited == HF_ECANCELED || waited == HF_EUNKNOWN);
    /* At once, or when its grant ends, if there was no memory to remove the waiter. */
    assert_soon(number_of("EXISTS %s", "stock") == 0);
    for (size_t i = 0; i < COUNT(holds); i++)
        hf_hold_close(holds[i]);
    hf_lock_close(lock);
}

static void test_a_client_is_closed_without_memory(void **state) {
    (void)state;
    run_all("close", run_close, false);
}

/* ------------------------------------------------------------------- Main */

static int prepare(void **state) {
    signal(SIGSEGV, died);
    signal(SIGABRT, died);
    signal(SIGALRM, died);
    outside = true;
    TELL("FLUSHALL");
    int answer = open_folder(state);
    outside = false;
    return answer;
}

static int afresh(void **state) {
    (void)state;
    tell_raw("DEL %s", "stock");
    return 0;
}

static int clean_up(void **state) {
    stop_server(&sentinel_pid);
    stop_server(&tls_pid);
    return remove_folder(state);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, afresh, report)

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_opening_a_client_without_memory),
        TEST(test_opening_a_client_by_sentinel_without_memory),
        TEST(test_opening_a_client_by_tls_without_memory),
        TEST(test_a_try_without_memory),
        TEST(test_what_is_done_once_without_memory),
        TEST(test_several_at_once_without_memory),
        TEST(test_a_wait_and_its_grant_without_memory),
        TEST(test_a_wait_that_ends_without_memory),
        TEST(test_what_is_started_without_memory),
        TEST(test_what_a_holder_does_without_memory),
        TEST(test_a_walk_over_all_locks_without_memory),
        TEST(test_a_lock_is_healed_without_memory),
        TEST(test_renewals_without_memory),
        TEST(test_a_loss_is_told_without_memory),
        TEST(test_a_client_is_closed_without_memory),
    };
    if (count > 1)
        cmocka_set_test_filter(words[1]);
    CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free);
    return cmocka_run_group_tests(tests, prepare, clean_up);
}
