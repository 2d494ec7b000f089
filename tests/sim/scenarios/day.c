/* A day of a fleet in virtual time: clients hold locks, take turns, are replaced, and meet restarts
 * of the server and cut connections. At the end of each hour nothing has grown, here or at the
 * server. */
#include "scenario.h"

enum { CLIENTS = 30, STAY = 10, HOURS = 24, ROUNDS = 20, LEASE = 60000 };

typedef struct member {
    hf_client *client;
    hf_lock *own;
    hf_hold *hold;
} member;

static member members[CLIENTS];

static int set_up(void **state) { return begin_scenario(state); }
static int tear_down(void **state) { return end_scenario(state); }

static void join(int i, int64_t lease_ms) {
    hf_client_options options = {.size = sizeof options, .fence_life_ms = 1800000};
    member *one = &members[i];
    assert_status(
        hf_client_open(text("redis://%s:6379", sim_address(SERVER)), &options, &one->client),
        HF_OK);
    assert_true(hf_client_fd(one->client) >= 0);
    one->own = lease_lock(one->client, text("own:%d", i), lease_ms, HF_ON);
    one->hold = held(one->own);
}

static void leave(int i) {
    member *one = &members[i];
    give_back(one->hold, HF_OK);
    hf_lock_close(one->own);
    hf_client_close(one->client);
}

/* Replace the clients that do not stay, one after the other. */
static void deploy(void) {
    for (int i = STAY; i < CLIENTS; i++) {
        leave(i);
        join(i, LEASE);
        sleep_ms(2000);
    }
}

/* Let all clients ask for a lock with a new name; some give up. */
static void take_turns(int hour, int round) {
    hf_lock *locks[CLIENTS];
    int left = 0;
    for (int i = 0; i < CLIENTS; i++) {
        locks[i] = lease_lock(members[i].client, text("order:%d:%d", hour, round), LEASE, HF_ON);
        int64_t timeout = i % 10 == 9 ? 20 : HF_FOREVER;
        assert_status(hf_lock_acquire_start(locks[i], NULL, 0, timeout, NULL, i + 1), HF_OK);
        left++;
    }
    while (left > 0) {
        for (int i = 0; i < CLIENTS; i++) {
            hf_completion done = completion_within(members[i].client, 0);
            if (done.kind == HF_KIND_ACQUIRE && done.status == HF_OK) {
                sleep_ms(5);
                give_back(done.hold, HF_OK);
            }
            left -= done.kind == HF_KIND_ACQUIRE;
        }
        sleep_ms(1);
    }
    for (int i = 0; i < CLIENTS; i++)
        hf_lock_close(locks[i]);
}

static void have_trouble(int hour) {
    if (hour % 3 == 1)
        sim_cut(HERE, SERVER, 1);
    if (hour % 3 == 2)
        servers_restart(0, true, 3 * SIM_S);
    sleep_ms(30000);
    assert_int_equal(redisReconnect(raw()), REDIS_OK);
}

static void test_nothing_grows_in_a_day_of_a_fleet(void **state) {
    size_t most[4] = {0};
    (void)state;
    alarm(100000);
    for (int i = 0; i < 4096; i++)
        text("%d", i); /* these helpers keep as many texts */
    for (int i = 0; i < 256; i++)
        NUMBER("DBSIZE");
    for (int i = 0; i < CLIENTS; i++)
        join(i, LEASE);
    for (int hour = 0; hour < HOURS; hour++) {
        for (int round = 0; round < ROUNDS; round++) {
            take_turns(hour, round);
            sleep_ms(100000);
        }
        deploy();
        have_trouble(hour);
        for (int i = 0; i < CLIENTS; i++)
            assert_int_equal(hf_hold_state(members[i].hold), HF_STATE_HELD);
        sleep_ms(1490000); /* idle connections are closed, and fences are forgotten */
        size_t now[] = {sim_allocated(sim_self()), sim_descriptors(sim_self()),
                        sim_threads(sim_self()), (size_t)NUMBER("DBSIZE")};
        print_message("hour %d: %zu allocations, %zu descriptors, %zu threads, %zu keys\n", hour,
                      now[0], now[1], now[2], now[3]);
        for (size_t i = 0; i < COUNT(now); i++)
            if (hour < 3) /* an hour with each kind of trouble */
                most[i] = now[i] > most[i] ? now[i] : most[i];
            else
                assert_in_range(now[i], 1, most[i]);
    }
    for (int i = 0; i < CLIENTS; i++)
        leave(i);
}

/* All clients hold and wait again soon after the server is back, over two connections each. */
static void test_a_restart_with_all_holding_and_waiting_loses_nothing(void **state) {
    hf_lock *locks[CLIENTS];
    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        join(i, 10000);
        locks[i] = lease_lock(members[i].client, text("w%d", i / 10), 10000, HF_ON);
        assert_status(hf_lock_acquire_start(locks[i], NULL, 0, HF_FOREVER, NULL, 1), HF_OK);
    }
    sleep_ms(5000);
    int64_t before = connects();
    servers_restart(0, true, 4 * SIM_S);
    sleep_ms(4500); /* the last pause is at most 0.25 s */
    assert_int_equal(redisReconnect(raw()), REDIS_OK);
    assert_int_equal(ask("PUBSUB CHANNELS")->elements, CLIENTS);
    sleep_ms(1000);
    assert_in_range(connects() - before, CLIENTS, 2 * CLIENTS + 1);
    for (int i = 0; i < CLIENTS; i++) {
        hf_stats stats = {.size = sizeof stats};
        assert_int_equal(hf_hold_state(members[i].hold), HF_STATE_HELD);
        assert_status(hf_client_stats(members[i].client, &stats), HF_OK);
        assert_int_equal(stats.lost_expired + stats.lost_unreachable + stats.lost_gone, 0);
        leave(i);
    }
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_restart_with_all_holding_and_waiting_loses_nothing),
        TEST(test_nothing_grows_in_a_day_of_a_fleet),
    };
    return RUN_TESTS(tests, count, words);
}
