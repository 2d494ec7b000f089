/* A server whose clock steps (preload/step.c): which promises that breaks, and which it does not.
 */
#include "../clients.h"
#include "servers.h"

#include <pthread.h>
#include <sys/mman.h>

static int port;
static pid_t pid;
static int64_t *seconds; /* from our clock to the server's */

static long long server_seconds(void) {
    redisReply *reply = tell(port, "TIME");
    return reply != NULL && reply->type == REDIS_REPLY_ARRAY ? atoll(reply->element[0]->str) : 0;
}

static void step_clock(int to) {
    *seconds = to;
    assert_soon(llabs(server_seconds() - (time(NULL) + to)) < 2);
}

static int start_all(void **state) {
    if (open_folder(state) != 0)
        return 1;
    alarm(60);
    const char *path = text("%s/clock", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, sizeof *seconds), 0);
    seconds = mmap(NULL, sizeof *seconds, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(seconds != MAP_FAILED);
    close(fd);
    server_environment[0] = strdup("LD_PRELOAD=" HOLDFAST_TEST_STEP);
    server_environment[1] = strdup(text("HOLDFAST_TEST_CLOCK=%s", path));
    port = free_port();
    pid = START("--port", number(port), "--save", "");
    assert_soon(answers(port));
    return 0;
}

static int stop_all(void **state) {
    stop_server(&pid);
    munmap(seconds, sizeof *seconds);
    for (int i = 0; i < 2; i++)
        free(server_environment[i]);
    return remove_folder(state);
}

static int set_up(void **state) {
    (void)state;
    alarm(60);
    step_clock(0);
    tell(port, "FLUSHALL");
    const char *url = text("redis://127.0.0.1:%d", port);
    ann = open_at(url);
    ben = open_at(url);
    return 0;
}

/* ----------------------------------------------------------------- Tests */

static void test_a_step_forward_ends_leases_and_the_holder_is_told(void **state) { /* C16 */
    (void)state;
    hf_lock *mine = lease_lock(ann, "stock", 6000, HF_ON),
            *theirs = lease_lock(ben, "stock", 6000, HF_ON);
    hf_hold *hold, *next;
    assert_status(hf_lock_acquire(mine, 0, &hold), HF_OK);
    step_clock(3600);
    assert_status(hf_lock_acquire(theirs, 0, &next), HF_OK); /* two holders: */
    assert_true(hf_hold_fence(next) > hf_hold_fence(hold));  /* only the fence protects */
    assert_soon(hf_hold_state(hold) == HF_STATE_LOST);       /* at its next renewal */
    assert_int_equal(hf_hold_cause(hold), HF_CAUSE_GONE);
    assert_status(hf_hold_release(hold), HF_ELOST);
    assert_status(hf_hold_check(next), HF_OK);
    assert_status(hf_hold_release(next), HF_OK);
    hf_hold_close(hold);
    hf_hold_close(next);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_a_step_back_leaves_holds_and_fences_grow_all_the_same(void **state) { /* C10 */
    (void)state;
    hf_lock *mine = lease_lock(ann, "stock", 6000, HF_ON),
            *theirs = lease_lock(ben, "stock", 6000, HF_ON);
    hf_hold *hold;
    step_clock(3600);
    assert_status(hf_lock_acquire(mine, 0, &hold), HF_OK);
    step_clock(-3600);
    assert_status(hf_hold_check(hold), HF_OK);
    assert_status(hf_lock_acquire(theirs, 0, NULL), HF_EBUSY);
    assert_in_range(hf_hold_remaining_ms(hold), 1, 6000);
    assert_soon(renewals(ann) > 0); /* its end by the server's clock is far away, by ours near */
    assert_in_range(hf_hold_remaining_ms(hold), 1, 6000);
    assert_status(hf_hold_extend(hold, 60000, 0), HF_OK);
    assert_in_range(hf_hold_remaining_ms(hold), 50000, 66000);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    int64_t fence = hf_hold_fence(hold);
    assert_status(hf_hold_release(hold), HF_OK);
    hf_hold_close(hold);
    for (int i = 0; i < 20; i++) {
        assert_status(hf_lock_acquire(i % 2 ? mine : theirs, 0, &hold), HF_OK);
        assert_true(hf_hold_fence(hold) > fence);
        assert_in_range(hf_hold_remaining_ms(hold), 1, 6000);
        fence = hf_hold_fence(hold);
        assert_status(hf_hold_release(hold), HF_OK);
        hf_hold_close(hold);
    }
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void *check_it(void *hold) { return (void *)(intptr_t)hf_hold_check(hold); }

static void test_what_was_seen_to_be_lost_stays_lost_whatever_the_server_says(void **state) {
    (void)state;
    hf_lock_options options = {.size = sizeof options, .lease_ms = 600, .renew = HF_OFF};
    hf_lock *lock;
    hf_hold *hold;
    pthread_t thread;
    void *status;
    assert_status(hf_lock_open(ann, "stock", 5, NULL, 0, &options, &lock), HF_OK);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    step_clock(-3600); /* so that the server will answer: held */
    sleep_ms(300);     /* longer than the lease that is known here */
    kill(pid, SIGSTOP);
    assert_int_equal(pthread_create(&thread, NULL, check_it, hold), 0);
    assert_soon(hf_hold_state(hold) == HF_STATE_LOST);
    kill(pid, SIGCONT);
    pthread_join(thread, &status);
    assert_status((hf_status)(intptr_t)status, HF_ELOST);
    assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
    hf_hold_close(hold);
    hf_lock_close(lock);
}

typedef struct waiting {
    hf_lock *lock;
    hf_hold *hold;
    hf_status status;
    int64_t done_at;
    pthread_t thread;
} waiting;

static void *wait_for_it(void *argument) {
    waiting *w = argument;
    w->status = hf_lock_acquire(w->lock, 20000, &w->hold);
    w->done_at = now_ms();
    return NULL;
}

/* Check that a waiter in the queue gets the lock after a step, with a hold that counts from now. */
static void wait_over_a_step(int from, int to) {
    hf_lock *mine = lease_lock(ann, "stock", 10000, HF_ON),
            *theirs = lease_lock(ben, "stock", 10000, HF_ON);
    hf_hold *hold;
    waiting w = {.lock = mine};
    step_clock(from);
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    pthread_create(&w.thread, NULL, wait_for_it, &w);
    assert_soon(tell(port, "ZCOUNT {stock}stock:hf1:q 0 9007199254740992")->integer == 1);
    step_clock(to);
    hf_hold_release(hold); /* it is lost if the step was forward */
    hf_hold_close(hold);
    int64_t released_at = now_ms();
    pthread_join(w.thread, NULL);
    assert_status(w.status, HF_OK);
    assert_in_range(w.done_at - released_at + 1, 0, 9000); /* at the latest by a re-check */
    assert_in_range(hf_hold_remaining_ms(w.hold), 1, 10000);
    assert_status(hf_hold_check(w.hold), HF_OK);
    assert_status(hf_hold_release(w.hold), HF_OK);
    hf_hold_close(w.hold);
    hf_lock_close(mine);
    hf_lock_close(theirs);
}

static void test_a_step_forward_under_a_wait_ends_in_a_hold(void **state) {
    (void)state;
    wait_over_a_step(0, 3600);
}

static void test_a_step_back_under_a_wait_ends_in_a_hold(void **state) { /* C4 */
    (void)state;
    wait_over_a_step(3600, -3600);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_step_forward_ends_leases_and_the_holder_is_told),
        TEST(test_a_step_back_leaves_holds_and_fences_grow_all_the_same),
        TEST(test_what_was_seen_to_be_lost_stays_lost_whatever_the_server_says),
        TEST(test_a_step_forward_under_a_wait_ends_in_a_hold),
        TEST(test_a_step_back_under_a_wait_ends_in_a_hold),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
