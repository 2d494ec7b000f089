/* A server that is far away: what is held is renewed all the same. */
#include "faults.h"

static proxy *way;
static hf_client *client; /* through it */
static hf_lock *lock;     /* k */
static hf_hold *hold;

static int set_up(void **state) {
    int result = begin_fault(state);
    way = proxy_start();
    client = must_open(text("redis://127.0.0.1:%d", way->port));
    return result;
}

static int tear_down(void **state) {
    (void)state;
    atomic_store(&way->delay_ms, 0);
    hf_client_close(client);
    proxy_stop(way);
    return 0;
}

static hf_completion told(int64_t until) {
    hf_completion completion = {.size = sizeof completion};
    do {
        struct pollfd fd = {.fd = hf_client_fd(client), .events = POLLIN};
        int64_t left = until - now_ms();
        poll(&fd, 1, left > 0 ? (int)left : 0);
        assert_status(hf_client_next(client, &completion), HF_OK);
    } while (completion.kind == HF_NOTHING && now_ms() < until);
    return completion;
}

/* The keeper has its connection, before it is in a hurry. */
static void wake_keeper(void) {
    hf_lock *another = must_lock(client, "another", NULL);
    hf_hold *mine;
    assert_status(hf_lock_acquire(another, 0, &mine), HF_OK);
    assert_status(hf_hold_check_start(mine, 1), HF_OK);
    assert_int_equal(told(now_ms() + 10000).op, 1);
    give_back(mine, HF_OK);
    hf_lock_close(another);
}

/* --------------------------------------------------------------- Renewal */

static void test_a_lease_of_five_round_trips_is_renewed(void **state) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = 200 * SLOW, .renew = HF_ON};
    (void)state;
    lock = must_lock(client, "k", &options);
    wake_keeper();
    atomic_store(&way->delay_ms, 20 * SLOW);
    assert_status(hf_lock_acquire(lock, 5000, &hold), HF_OK);
    int accepted = atomic_load(&way->accepted);
    int64_t since = now_ms();
    while (hf_hold_state(hold) == HF_HELD && now_ms() < since + 5000)
        sleep_ms(1);
    int64_t held_ms = now_ms() - since;
    int more = atomic_load(&way->accepted) - accepted;
    if (hf_hold_state(hold) != HF_HELD || more > 3)
        fail_msg("held for %lld ms, with %d new connections", (long long)held_ms, more);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_lease_of_five_round_trips_is_renewed),
    };
    return RUN_TESTS(tests, count, words);
}
