/* A thread that is paused between two readings of the clock, as on a busy machine. */
#include "faults.h"

static proxy *way;
static hf_client *client, *other; /* client: through the proxy; other: past it */

/* --------------------------------------------------------------- The clock */

enum { PAUSE_MS = 40 };
static _Atomic bool pauses; /* the keeper pauses after each reading */

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time) {
    char name[16] = "";
    int result = __real_clock_gettime(clock, time);
    if (clock == CLOCK_BOOTTIME && atomic_load(&pauses) && prctl(PR_GET_NAME, name) == 0 &&
        strcmp(name, "holdfast") == 0)
        sleep_ms(PAUSE_MS);
    return result;
}

static int set_up(void **state) {
    int result = begin_fault(state);
    way = open_both(&client, &other);
    return result;
}

static int tear_down(void **state) {
    (void)state;
    atomic_store(&pauses, false);
    close_both(way, client, other);
    return 0;
}

/* ------------------------------------------------------------------ Tests */

/* Let the time of a waiter end while it is granted the lock, without a message: the cancel finds
 * that it holds the lock, and for how long. Return whether the wait ended, and not because others
 * held the lock. */
static bool ends(const char *name, int64_t lease_ms) {
    enum { TIMEOUT_MS = 250, BEFORE_MS = 20 };
    hf_lock_options options = {.size = sizeof options, .lease_ms = lease_ms, .renew = HF_OFF};
    hf_lock *lock = must_lock(client, name, &options), *theirs = must_lock(other, name, NULL);
    hf_hold *hold;
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    int64_t since = now_ms();
    assert_status(hf_lock_acquire_start(lock, NULL, 0, TIMEOUT_MS, NULL, lease_ms), HF_OK);
    assert_soon(queued(name) == 1);
    while (now_ms() < since + TIMEOUT_MS - BEFORE_MS)
        sleep_ms(1);
    give_back(hold, HF_OK);
    atomic_store(&pauses, true);
    hf_completion completion = completion_within(client, 3000);
    atomic_store(&pauses, false);
    if (completion.hold != NULL) {
        hf_hold_release(completion.hold);
        hf_hold_close(completion.hold);
    }
    hf_lock_close(lock);
    hf_lock_close(theirs);
    if (completion.kind == HF_KIND_NONE)
        print_error("with a lease of %lld ms it never ended\n", (long long)lease_ms);
    if (strstr(completion.error.message, "held by others") != NULL) {
        print_error("with a lease of %lld ms: %s\n", (long long)lease_ms, completion.error.message);
        return false;
    }
    return completion.kind != HF_KIND_NONE;
}

/* Some of these leases end between the two readings. */
static void test_a_lease_that_ends_while_its_timeout_is_answered_ends_the_wait(void **state) {
    int hang = 0;
    (void)state;
    assert_true(ends("warm", 60000)); /* it has subscribed */
    atomic_store(&way->holds_grants, true);
    for (int64_t lease_ms = 40; lease_ms <= 400; lease_ms += 20)
        hang += !ends(text("k%lld", (long long)lease_ms), lease_ms);
    assert_int_equal(hang, 0);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_lease_that_ends_while_its_timeout_is_answered_ends_the_wait),
    };
    return RUN_TESTS(tests, count, words);
}
