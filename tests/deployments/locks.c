/* All locks of a Redis Cluster: on every master, also while a slot moves from a node that the walk
 * has not reached to one that it has, and when a node does not answer. tests/redis/locks.c tests
 * the same walk on a single server. */
#include "cluster.h"

enum { MANY = 900 };

static hf_client *client; /* waits a second for a dead node */
static hf_client *holding;
static hf_hold *holds[MANY];
static int told[MANY];

static int start_all(void **state) {
    if (open_folder(state) != 0)
        return 1;
    alarm(60);
    start_cluster();
    return 0;
}

static int stop_all(void **state) {
    stop_cluster();
    return remove_folder(state);
}

static char *name_of(int i) { return text("lock:%d", i); }

static int begin(void **state) {
    (void)state;
    alarm(60);
    const char *url = text("redis+cluster://127.0.0.1:%d", nodes[0]);
    assert_soon(hf_client_open(text("%s?connect_timeout=1", url), NULL, &client) == HF_OK);
    holding = open_at(url);
    memset(told, 0, sizeof told);
    for (int i = 0; i < MANY; i++) {
        hf_lock *lock = open_lock(holding, name_of(i), NULL, OPTIONS(.lease_ms = 60000));
        holds[i] = held(lock);
        hf_lock_close(lock);
    }
    return 0;
}

static int end(void **state) {
    (void)state;
    for (int i = 0; i < MANY; i++)
        hf_hold_close(holds[i]);
    hf_client_close(client);
    hf_client_close(holding);
    for (int i = 0; i < MASTERS; i++)
        if (node_pids[i] > 0)
            tell(nodes[i], "FLUSHALL");
    return 0;
}

static hf_locks *walk(void) {
    hf_locks_options fast = {.size = sizeof fast, .rate = HF_NEVER};
    hf_locks *locks;
    assert_status(hf_locks_open(client, "lock:*", 6, &fast, &locks), HF_OK);
    return locks;
}

static bool count_told(hf_view *view, int *which) {
    size_t length;
    if (view == NULL)
        return false;
    const char *name = hf_view_name(view, &length);
    *which = atoi(text("%.*s", (int)length, name) + strlen("lock:"));
    told[*which]++;
    hf_view_close(view);
    return true;
}

/* Finish the walk, which must not fail. */
static void finish(hf_locks *locks) {
    hf_lock_info info = {.size = sizeof info};
    hf_view *view;
    int which;
    do
        assert_status(hf_locks_next(locks, &info, &view), HF_OK);
    while (count_told(view, &which));
    hf_locks_close(locks);
}

static void assert_all_told_once(void) {
    for (int i = 0; i < MANY; i++)
        if (told[i] != 1)
            fail_msg("%s was told %d times", name_of(i), told[i]);
}

static int master_of(int i) { return slot_of(name_of(i)) * MASTERS / SLOTS; }

static void test_locks_of_all_masters_are_told_once(void **state) {
    hf_progress progress = {.size = sizeof progress};
    (void)state;
    hf_locks *locks = walk();
    int which;
    hf_view *view;
    for (int i = 0; i < MANY; i++) {
        assert_status(hf_locks_next(locks, NULL, &view), HF_OK);
        assert_true(count_told(view, &which));
        assert_status(hf_locks_progress(locks, &progress), HF_OK);
        assert_in_range(progress.keys, 2 * MANY * 8 / 10, 2 * MANY * 12 / 10);
    }
    assert_status(hf_locks_next(locks, NULL, &view), HF_OK);
    assert_null(view);
    assert_status(hf_locks_progress(locks, &progress), HF_OK);
    assert_int_equal(progress.keys, 2 * MANY);
    assert_int_equal(progress.keys_seen, 2 * MANY);
    hf_locks_close(locks);
    assert_all_told_once();
}

/* Return a master that the walk has not reached. */
static int unwalked_master(void) {
    bool seen[MASTERS] = {false};
    for (int i = 0; i < MANY; i++)
        seen[master_of(i)] |= told[i] > 0;
    for (int i = 0; i < MASTERS; i++)
        if (!seen[i])
            return i;
    fail_msg("all are walked");
    return -1;
}

static void test_a_slot_that_moves_behind_the_walk_is_told(void **state) {
    int first = -1, which;
    hf_view *view;
    (void)state;
    hf_locks *locks = walk();
    do { /* until the walk is at its second master: the first is done */
        assert_status(hf_locks_next(locks, NULL, &view), HF_OK);
        assert_true(count_told(view, &which));
        first = first < 0 ? master_of(which) : first;
    } while (master_of(which) == first);
    int from = unwalked_master(), victim = 0;
    while (master_of(victim) != from)
        victim++;
    int slot = slot_of(name_of(victim));
    begin_moving(slot, from, first);
    end_moving(slot, from, first);
    assert_int_equal(tell(nodes[first], text("EXISTS %s", name_of(victim)))->integer, 1);
    finish(locks);
    assert_all_told_once();
    begin_moving(slot, first, from);
    end_moving(slot, first, from);
}

static void test_a_lock_whose_slot_is_being_moved_is_told_by_its_own_key(void **state) {
    hf_lock_info info = {.size = sizeof info};
    hf_lock_holder holder = {.size = sizeof holder};
    int victim = 0, which, moving = 0;
    hf_view *view;
    (void)state;
    while (master_of(victim) != 2)
        victim++;
    int slot = slot_of(name_of(victim));
    begin_moving(slot, 2, 0);
    assert_int_equal(move_keys(slot, 2, 0, name_of(victim)), 1); /* but not the last fence */
    hf_locks *locks = walk();
    for (;;) {
        assert_status(hf_locks_next(locks, &info, &view), HF_OK);
        if (view == NULL)
            break;
        if (info.moving) {
            moving++;
            assert_int_equal(info.waiters, 0);
            assert_true(info.held && !info.shared && !info.foreign);
            assert_int_equal(hf_view_holders(view), 1);
            assert_status(hf_view_holder(view, 0, &holder), HF_OK);
            assert_in_range(holder.remaining_ms, 1, 60000);
        }
        count_told(view, &which);
    }
    hf_locks_close(locks);
    assert_all_told_once();
    assert_true(moving >= 1); /* the slot may have other locks */
    hf_lock *lock = open_lock(client, name_of(victim), NULL, NULL);
    assert_status(hf_lock_inspect(lock, 0, &info, &view), HF_OK);
    assert_true(info.moving && info.fence == hf_hold_fence(holds[victim]));
    hf_view_close(view);
    end_moving(slot, 2, 0);
    assert_status(hf_lock_inspect(lock, 0, &info, NULL), HF_OK);
    assert_false(info.moving);
    hf_lock_close(lock);
    begin_moving(slot, 0, 2);
    end_moving(slot, 0, 2);
}

/* The walk goes on without the node only if it is asked to. */
static void test_a_node_that_does_not_answer_is_said_and_the_others_are_listed(void **state) {
    int dead = 1, failures = 0, which;
    hf_view *view;
    (void)state;
    for (int i = 0; i < NODES; i++)
        assert_ok(nodes[i], "CONFIG SET cluster-require-full-coverage no");
    kill(node_pids[dead + MASTERS], SIGSTOP); /* no replica takes over */
    kill(node_pids[dead], SIGSTOP);
    hf_locks *locks = walk();
    for (;;) {
        hf_status status = hf_locks_next(locks, NULL, &view);
        if (status == HF_OK && view == NULL)
            break;
        if (status == HF_OK) {
            count_told(view, &which);
            continue;
        }
        assert_status(status, HF_ECONNECT);
        assert_non_null(strstr(hf_error_message(), text("127.0.0.1:%d are listed", nodes[dead])));
        failures++;
    }
    hf_locks_close(locks);
    assert_int_equal(failures, 1);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(told[i], master_of(i) != dead);
    kill(node_pids[dead], SIGCONT);
    kill(node_pids[dead + MASTERS], SIGCONT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_locks_of_all_masters_are_told_once),
        TEST(test_a_slot_that_moves_behind_the_walk_is_told),
        TEST(test_a_lock_whose_slot_is_being_moved_is_told_by_its_own_key),
        TEST(test_a_node_that_does_not_answer_is_said_and_the_others_are_listed),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
