/* A client of a cluster follows slots with its holds and its waiters. */
#include "scenario.h"

deployment sim_deployment = CLUSTER;

static hf_client *client, *other;

static int set_up(void **state) {
    (void)state;
    alarm(200);
    servers_heal();
    client = open_with(servers_url(CLUSTER), 2000, 2000);
    other = open_with(servers_url(CLUSTER), 2000, 2000);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    hf_client_close(client);
    hf_client_close(other);
    return 0;
}

/* Return the node that has the key; -1: no node has it. */
static int node_of(const char *key) {
    sim_seen seen;
    for (int i = 0; i < servers_count(); i++)
        if (sim_redis_see(servers_redis(i), 0, (sim_bytes){key, strlen(key)}, &seen))
            return i;
    return -1;
}

/* F3: the slot's new node does not know the hold. */
static void test_the_new_node_of_a_slot_is_asked_for_all_holds_there(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "{t}a", 60000, HF_OFF),
            *renewed = lease_lock(client, "{t}c", 60000, HF_ON),
            *another = lease_lock(client, "{t}b", 60000, HF_OFF);
    hf_client_options options = {.size = sizeof options, .trouble = HF_ON};
    hf_client *telling;
    assert_status(hf_client_open(servers_url(CLUSTER), &options, &telling), HF_OK);
    assert_true(hf_client_fd(telling) >= 0);
    hf_lock *told_of = lease_lock(telling, "{t}d", 60000, HF_ON),
            *moves = lease_lock(telling, "{t}e", 60000, HF_OFF);
    hf_hold *hold = held(lock), *mine = held(renewed), *moved = held(told_of);
    int slot = sim_cluster_slot((sim_bytes){"{t}a", 4});
    int next = (node_of("{t}a") + 1) % servers_count();
    for (int i = 0; i < servers_count(); i++)
        sim_cluster_give(servers_redis(i), slot, slot, next);
    give_back(held(another), HF_OK); /* which is redirected */
    for (int64_t until = now_ms() + 2000; now_ms() < until; sleep_ms(10))
        continue;
    assert_int_equal(hf_hold_state(hold), HF_STATE_LOST);
    assert_int_equal(hf_hold_state(mine), HF_STATE_LOST);
    give_back(held(moves), HF_OK);
    hf_completion told = next_of(telling);
    assert_int_equal(told.kind, HF_KIND_FAILOVER);
    assert_int_equal(told.holds, 1);
    assert_non_null(strstr(told.error.message, "another node of the cluster serves 1 hold now"));
    assert_int_equal(next_of(telling).kind, HF_KIND_LOSS);
    hf_hold_close(moved);
    hf_lock_close(told_of);
    hf_lock_close(moves);
    hf_client_close(telling);
    hf_hold_close(hold);
    hf_hold_close(mine);
    hf_lock_close(lock);
    hf_lock_close(renewed);
    hf_lock_close(another);
}

static void move_keys(int slot, int from, int to) {
    sim_seen seen;
    for (uint64_t cursor = 0; sim_redis_next(servers_redis(from), 0, &cursor, &seen);)
        if (sim_cluster_slot(seen.name) == slot) {
            sim_cluster_move_key(servers_redis(from), servers_redis(to), seen.name);
            cursor = 0;
        }
}

/* Give the whole slot to the other node. */
static void move_slot(const char *key, int from, int to) {
    move_keys(slot_of(key), from, to);
    for (int i = 0; i < servers_count(); i++)
        sim_cluster_give(servers_redis(i), slot_of(key), slot_of(key), to);
}

/* Return the name of a lock of that node. */
static const char *name_at(int node) {
    for (int i = 0;; i++) {
        const char *name = text("n%d", i);
        if (sim_cluster_slot((sim_bytes){name, strlen(name)}) * 3 / 16384 == node)
            return name;
    }
}

/* F6: the client already polls on that node, and gets no sign that it must for this waiter. */
static void test_who_waits_polls_where_its_slot_went_and_no_grants_come(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF),
            *theirs = lease_lock(other, "k", 60000, HF_OFF);
    hf_hold *hold = held(theirs);
    int from = node_of("k"), to = (from + 1) % servers_count();
    servers_command(to, "ACL SETUSER default resetchannels");
    hf_lock *there = lease_lock(client, name_at(to), 60000, HF_OFF),
            *held_there = lease_lock(other, name_at(to), 60000, HF_OFF);
    hf_hold *busy = held(held_there);
    assert_true(hf_client_fd(client) >= 0);
    assert_status(hf_lock_acquire_start(there, NULL, 0, 8000, NULL, 1), HF_OK); /* it polls */
    waiter *w = waiter_start(lock, 60000);
    sleep_ms(4000);
    int64_t asked = sim_redis_calls(servers_redis(from), "evalsha");
    assert_soon(sim_redis_calls(servers_redis(from), "evalsha") > asked); /* next in 3 s */
    move_slot("k", from, to);
    sleep_ms(300);
    int64_t since = now_ms();
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    assert_in_range(w->done_at - since, 0, 500);
    give_back(w->hold, HF_OK);
    assert_status(next_of(client).status, HF_ETIMEOUT);
    give_back(busy, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_lock_close(there);
    hf_lock_close(held_there);
}

static void test_a_grant_by_message_is_claimed_while_its_slot_moves(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_ON),
            *theirs = lease_lock(other, "k", 60000, HF_OFF);
    hf_hold *hold = held(theirs);
    waiter *w = waiter_start(lock, 60000);
    sleep_ms(1500);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    int slot = sim_cluster_slot((sim_bytes){"k", 1}), from = node_of("k");
    int to = (from + 1) % servers_count();
    sim_cluster_moving(servers_redis(to), slot, from, to);
    sim_cluster_moving(servers_redis(from), slot, from, to);
    sleep_ms(4000);
    assert_int_equal(hf_hold_state(w->hold), HF_STATE_HELD);
    move_slot("k", from, to);
    give_back(w->hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* The lock's keys are on two nodes, and neither node can end one of several holds alone. */
static void test_one_of_many_that_is_released_while_its_slot_moves_is_released_later(void **state) {
    (void)state;
    hf_lock_options options = {
        .size = sizeof options, .lease_ms = HF_NEVER, .renew = HF_OFF, .mode = HF_SHARED};
    hf_lock *lock = open_lock(client, "s", NULL, &options),
            *theirs = open_lock(other, "s", NULL, &options);
    hf_hold *hold = held(lock), *another = held(theirs);
    int slot = sim_cluster_slot((sim_bytes){"s", 1}), from = node_of("s");
    int to = (from + 1) % servers_count();
    sim_cluster_moving(servers_redis(to), slot, from, to);
    sim_cluster_moving(servers_redis(from), slot, from, to);
    sim_bytes ends = {"{s}s:hf1:s", 10};
    assert_true(sim_cluster_move_key(servers_redis(from), servers_redis(to), ends));
    give_back(hold, HF_EUNKNOWN);
    sleep_ms(2000);
    move_slot("s", from, to);
    give_back(another, HF_OK);
    assert_soon(node_of("s") == -1);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* The client is closed before an answer has shown that the lock has several holds. */
static void test_a_close_keeps_a_hold_in_which_another_has_nested(void **state) {
    (void)state;
    hf_client *brief = open_with(servers_url(CLUSTER), 500, 500);
    hf_lock *lock = open_lock(brief, "k", "me", OPTIONS(.lease_ms = 10000, .renew = HF_OFF));
    hf_hold *outer = held(lock), *inner = held(lock);
    give_back(inner, HF_OK);
    int host = servers_host(node_of("k"));
    sim_way(HERE, host, false);
    assert_true(hf_hold_keep(outer, 60000) != HF_OK);
    sim_way(HERE, host, true);
    hf_client_close(brief);
    hf_hold_close(outer);
    hf_lock_close(lock);
    sleep_ms(15000);
    assert_true(node_of("k") != -1);
    sleep_ms(60000);
}

/* The nested acquire began when the client had no hold in which it could nest. */
static void test_a_close_keeps_a_hold_that_nests_by_a_race(void **state) {
    (void)state;
    hf_client *brief = open_with(servers_url(CLUSTER), 500, 500);
    hf_lock *lock = open_lock(brief, "k", "me", OPTIONS(.lease_ms = 10000, .renew = HF_OFF));
    hf_hold *holds[2];
    for (int i = 0; i < 2; i++)
        assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, i + 1), HF_OK);
    for (int i = 0; i < 2; i++) {
        hf_completion done = next_of(brief);
        assert_status(done.status, HF_OK);
        holds[i] = done.hold;
    }
    assert_int_equal(hf_hold_fence(holds[0]), hf_hold_fence(holds[1]));
    int host = servers_host(node_of("k"));
    sim_way(HERE, host, false);
    assert_true(hf_hold_keep(holds[1], 60000) != HF_OK);
    sim_way(HERE, host, true);
    hf_client_close(brief);
    hf_hold_close(holds[0]);
    hf_hold_close(holds[1]);
    hf_lock_close(lock);
    sleep_ms(15000);
    assert_true(node_of("k") != -1);
    sleep_ms(60000);
}

/* H171: each of two nodes redirects to the other for the slot, until an operator repairs it. */
static void test_what_must_be_sent_outlasts_nodes_that_do_not_agree(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = held(lock);
    int slot = slot_of("k"), from = node_of("k"), to = (from + 1) % servers_count();
    sim_cluster_give(servers_redis(from), slot, slot, to);
    sim_cluster_give(servers_redis(to), slot, slot, from);
    give_back(hold, HF_ESERVER);
    sleep_ms(10000);
    move_slot("k", to, from);
    assert_soon(node_of("k") == -1);
    hf_lock_close(lock);
}

/* H172: the node already has all keys of the slot, and the other one redirects there. */
static void test_an_acquire_waits_for_the_node_to_which_its_slot_moves(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "{m}a", 60000, HF_OFF),
            *another = lease_lock(client, "{m}b", 60000, HF_OFF);
    give_back(held(lock), HF_OK);
    int slot = slot_of("{m}a"), from = servers_owner("{m}a"), to = (from + 1) % servers_count();
    sim_cluster_moving(servers_redis(to), slot, from, to);
    sim_cluster_moving(servers_redis(from), slot, from, to);
    move_keys(slot, from, to);
    servers_restart(to, true, 8 * SIM_S);
    assert_true(hf_client_fd(client) >= 0);
    assert_status(hf_lock_acquire_start(another, NULL, 0, 60000, NULL, 1), HF_OK);
    waiter *w = waiter_start(lock, 60000);
    sleep_ms(10000);
    move_slot("{m}a", from, to);
    waiter_join(w, HF_OK);
    hf_completion done = next_of(client);
    assert_status(done.status, HF_OK);
    give_back(w->hold, HF_OK);
    give_back(done.hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(another);
}

/* H174: the node is away when no acquire waits any more. */
static void test_a_channel_that_was_left_is_not_subscribed_to_again(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF),
            *theirs = lease_lock(other, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = held(theirs);
    int at = node_of("k");
    waiter *w = waiter_start(lock, 1000);
    waiter_join(w, HF_ETIMEOUT);
    servers_restart(at, true, 20 * SIM_S);
    sleep_ms(10000);
    int64_t before = sim_redis_calls(servers_redis(at), "ssubscribe");
    sleep_ms(20000);
    assert_int_equal(sim_redis_calls(servers_redis(at), "ssubscribe"), before);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* A keep failed, and then the hold was released; the servers know nothing of the release yet. */
static void test_a_close_keeps_nothing_that_was_released(void **state) {
    (void)state;
    for (int ms = 0; ms < 60; ms += 10) {
        hf_client *brief = open_with(servers_url(CLUSTER), 500, 500);
        hf_lock_options options = {
            .size = sizeof options, .lease_ms = 10000, .renew = HF_OFF, .mode = HF_SHARED};
        hf_lock *lock = open_lock(brief, "s", NULL, &options),
                *theirs = open_lock(other, "s", NULL, &options);
        hf_hold *another = held(theirs), *hold = held(lock);
        int slot = slot_of("s"), from = node_of("s"), to = (from + 1) % servers_count();
        assert_status(hf_hold_check(hold), HF_OK); /* it knows that the lock has several */
        sim_way(HERE, servers_host(from), false);
        assert_true(hf_hold_keep(hold, 60000) != HF_OK);
        sim_way(HERE, servers_host(from), true);
        sim_cluster_moving(servers_redis(to), slot, from, to);
        sim_cluster_moving(servers_redis(from), slot, from, to);
        sim_bytes ends = {"{s}s:hf1:s", 10};
        assert_true(sim_cluster_move_key(servers_redis(from), servers_redis(to), ends));
        assert_status(hf_hold_release(hold), HF_EUNKNOWN);
        sleep_ms(ms);
        move_slot("s", from, to);
        hf_client_close(brief);
        give_back(another, HF_OK);
        assert_soon(node_of("s") == -1);
        hf_hold_close(hold);
        hf_lock_close(lock);
        hf_lock_close(theirs);
    }
}

/* The client has no memory to send the renewal. */
static void test_a_hold_that_cannot_be_asked_for_stops_no_other_thread(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "k", 3000, HF_ON);
    sim_may_lack_memory(sim_self(), true);
    hf_hold *hold = held(lock);
    sim_set.no_memory = 1;
    for (int64_t until = now_ms() + 4000; now_ms() < until; sleep_ms(5)) {
        int64_t began = now_ms();
        hf_hold_state(hold);
        assert_in_range(now_ms() - began, 0, 20);
    }
    sim_set.no_memory = 0;
    sim_may_lack_memory(sim_self(), false);
    give_back(hold, HF_ELOST);
    hf_lock_close(lock);
}

/* H239: also if the requests for the hung node do not fit in one write. */
static void test_a_node_that_hangs_keeps_no_close_from_the_others(void **state) {
    enum { MANY = 60 };
    (void)state;
    for (int count = 1; count <= MANY; count += MANY - 1) {
        hf_client *brief = open_with(servers_url(CLUSTER), 2000, 2000);
        hf_lock *locks[MANY], *there = lease_lock(brief, name_at(1), HF_NEVER, HF_OFF);
        hf_hold *holds[MANY], *well = held(there);
        for (int i = 0; i < count; i++) {
            locks[i] = lease_lock(brief, text("{%s}%d", name_at(0), i), HF_NEVER, HF_OFF);
            holds[i] = held(locks[i]);
        }
        sim_way(HERE, servers_host(0), false);
        int64_t since = now_ms();
        hf_client_close(brief);
        assert_in_range(now_ms() - since, 0, 2100);
        assert_int_equal(node_of(name_at(1)), -1);
        sim_way(HERE, servers_host(0), true);
        servers_command(0, "FLUSHALL");
        for (int i = 0; i < count; i++) {
            hf_hold_close(holds[i]);
            hf_lock_close(locks[i]);
        }
        hf_hold_close(well);
        hf_lock_close(there);
    }
}

/* ------------------------------------------------------------------- Walks */

enum { LAST_NODE = 2, ITS_FIRST_SLOT = LAST_NODE * 16384 / 3 };

static void give_slots(int from, int to, int node) {
    for (int i = 0; i < servers_count(); i++)
        sim_cluster_give(servers_redis(i), from, to, node);
}

static void *take_the_last_slot(void *lock) {
    int slot = slot_of(name_at(LAST_NODE));
    sleep_ms((int)sim_random(300));
    give_slots(slot, slot, 1);
    give_back(held(lock), HF_OK); /* which is redirected */
    return NULL;
}

/* The last node has a slot, and none when the walk is about to begin there. */
static void test_a_walk_begins_with_no_node_that_has_just_lost_its_slots(void **state) {
    enum { ROUNDS = 100 };
    hf_locks_options fast = {.size = sizeof fast, .rate = HF_NEVER};
    sim_settings before = sim_set;
    int slot = slot_of(name_at(LAST_NODE));
    hf_lock *lock = lease_lock(client, name_at(LAST_NODE), 60000, HF_OFF);
    (void)state;
    give_slots(ITS_FIRST_SLOT, 16383, 1);
    for (int n = 0; n < ROUNDS; n++) {
        pthread_t thread;
        hf_locks *locks;
        hf_view *view;
        give_slots(slot, slot, LAST_NODE);
        assert_status(hf_locks_open(client, NULL, 0, &fast, &locks), HF_OK);
        sim_set.overtaken = 0.5;
        sim_set.overtaken_ns = 5 * SIM_MS;
        assert_int_equal(pthread_create(&thread, NULL, take_the_last_slot, lock), 0);
        do {
            assert_status(hf_locks_next(locks, NULL, &view), HF_OK);
            hf_view_close(view);
        } while (view != NULL);
        pthread_join(thread, NULL);
        sim_set = before;
        hf_locks_close(locks);
    }
    give_slots(ITS_FIRST_SLOT, 16383, LAST_NODE);
    hf_lock_close(lock);
}

/* H251: no other call meets the node that has died. */
static void test_a_ping_follows_the_slots_of_a_node_that_died(void **state) {
    size_t answered;
    (void)state;
    assert_status(hf_client_ping(client, &answered), HF_OK);
    sim_server_pause(servers_at(LAST_NODE), true);
    give_slots(ITS_FIRST_SLOT, 16383, 0);
    assert_status(hf_client_ping(client, &answered), HF_ECONNECT);
    sleep_ms(3000);
    assert_status(hf_client_ping(client, &answered), HF_OK);
    assert_int_equal(answered, servers_count() - 1);
    sim_server_pause(servers_at(LAST_NODE), false);
    give_slots(ITS_FIRST_SLOT, 16383, LAST_NODE);
}

/* H249 */
static void test_a_ping_counts_the_nodes_that_answer(void **state) {
    size_t answered;
    (void)state;
    assert_status(hf_client_ping(client, &answered), HF_OK);
    assert_int_equal(answered, servers_count());
    sim_server_pause(servers_at(servers_count() - 1), true);
    assert_status(hf_client_ping(client, &answered), HF_ECONNECT);
    assert_int_equal(answered, servers_count() - 1);
    sim_server_pause(servers_at(servers_count() - 1), false);
}

/* H257 */
static void test_a_lazy_client_pings_all_nodes(void **state) {
    size_t answered;
    hf_finding findings[HF_FINDINGS_MAX];
    hf_client_options options = {.size = sizeof options, .lazy = HF_ON};
    hf_client *lazy;
    (void)state;
    for (int n = 0; n < 2; n++) {
        assert_status(hf_client_open(servers_url(CLUSTER), &options, &lazy), HF_OK);
        if (n == 0)
            assert_status(hf_client_ping(lazy, &answered), HF_OK);
        else
            assert_status(hf_client_survey(lazy, (size_t)LAST_NODE, NULL, 0, findings,
                                           HF_FINDINGS_MAX, &answered),
                          HF_OK);
        assert_int_not_equal(answered, 0);
        if (n == 0)
            assert_int_equal(answered, servers_count());
        hf_client_close(lazy);
    }
}

static int64_t subscriptions(void) {
    int64_t sum = 0;
    for (int i = 0; i < servers_count(); i++)
        sum += sim_redis_calls(servers_redis(i), "ssubscribe");
    return sum;
}

/* H266: each client is new, and may have no memory for its link to the node of the lock. */
static void test_a_channel_at_the_wrong_node_is_moved(void **state) {
    (void)state;
    hf_lock *theirs = lease_lock(other, "k", HF_NEVER, HF_OFF);
    hf_hold *hold = held(theirs);
    sim_may_lack_memory(sim_self(), true);
    for (int n = 0; n < 100; n++) {
        alarm(200);
        hf_client *cat = open_with(servers_url(CLUSTER), 2000, 2000);
        hf_lock *lock = lease_lock(cat, "k", 60000, HF_OFF),
                *beside = lease_lock(cat, "{k}b", 60000, HF_OFF);
        give_back(held(beside), HF_OK); /* there is a connection */
        int64_t before = subscriptions();
        waiter *w = waiter_start(lock, 2000);
        sim_set.no_memory = 0.2;
        sleep_ms(10);
        sim_set.no_memory = 0;
        while (!atomic_load(&w->done))
            sleep_ms(100);
        if (w->status == HF_ETIMEOUT)
            assert_true(subscriptions() > before);
        waiter_join(w, w->status);
        hf_lock_close(lock);
        hf_lock_close(beside);
        hf_client_close(cat);
    }
    sim_may_lack_memory(sim_self(), false);
    give_back(hold, HF_OK);
    hf_lock_close(theirs);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_the_new_node_of_a_slot_is_asked_for_all_holds_there),
        TEST(test_who_waits_polls_where_its_slot_went_and_no_grants_come),
        TEST(test_a_grant_by_message_is_claimed_while_its_slot_moves),
        TEST(test_one_of_many_that_is_released_while_its_slot_moves_is_released_later),
        TEST(test_a_close_keeps_a_hold_in_which_another_has_nested),
        TEST(test_a_close_keeps_a_hold_that_nests_by_a_race),
        TEST(test_what_must_be_sent_outlasts_nodes_that_do_not_agree),
        TEST(test_an_acquire_waits_for_the_node_to_which_its_slot_moves),
        TEST(test_a_channel_that_was_left_is_not_subscribed_to_again),
        TEST(test_a_close_keeps_nothing_that_was_released),
        TEST(test_a_node_that_hangs_keeps_no_close_from_the_others),
        TEST(test_a_hold_that_cannot_be_asked_for_stops_no_other_thread),
        TEST(test_a_walk_begins_with_no_node_that_has_just_lost_its_slots),
        TEST(test_a_ping_counts_the_nodes_that_answer),
        TEST(test_a_ping_follows_the_slots_of_a_node_that_died),
        TEST(test_a_lazy_client_pings_all_nodes),
        TEST(test_a_channel_at_the_wrong_node_is_moved),
    };
    return RUN_TESTS(tests, count, words);
}
