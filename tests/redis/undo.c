/* Undos without memory or without a thread, and calls in a forked child, from within. */
#include "../lock.h"
#include "../server.h"

#include <sys/wait.h>

#include "lock/holds.h"
#include "lock/thread.h"
#include "lock/undo.h"

static int afresh(void **state) {
    (void)state;
    start_afresh();
    return 0;
}

/* Undo as if no thread could be started: before the first one starts, or after the last one has
 * ended. */
static void undo_without_a_thread(hf_client *client, hf_hold *hold) {
    hf_client_lock(client);
    assert_false(client->started);
    client->stop = true;
    hf_undo_locked(hold);
    client->stop = false;
    hf_client_unlock(client);
}

static void start_thread(hf_client *client) {
    hf_client_lock(client);
    assert_status(hf_thread_start_locked(client), HF_OK);
    hf_client_unlock(client);
}

static void test_what_was_given_up_without_a_thread_is_undone_when_there_is_one(void **state) {
    (void)state;
    hf_client *client = open_client();
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    hf_hold *hold = held(lock);
    undo_without_a_thread(client, hold);
    assert_int_equal(NUMBER("EXISTS k"), 1);
    start_thread(client);
    assert_soon(NUMBER("EXISTS k") == 0);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

/* An acquire that returns to its place gives up its first id, and may hold the lock under the next
 * one when the undo is carried out. */
static void test_what_is_given_up_is_the_id_of_then(void **state) {
    (void)state;
    hf_client *client = open_client();
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    hf_lock *other = lease_lock(client, "other", 60000, HF_OFF);
    hf_hold *hold = held(lock), *next = held(other);
    undo_without_a_thread(client, next);
    hf_client_lock(client);
    memcpy(next->id, hold->id, sizeof next->id);
    hf_client_unlock(client);
    start_thread(client);
    assert_soon(NUMBER("EXISTS other") == 0);
    give_back(hold, HF_OK);
    hf_hold_close(next);
    hf_lock_close(lock);
    hf_lock_close(other);
    hf_client_close(client);
}

/* Another thread of the parent may have the mutex, and the child has no such thread. */
static void test_a_forked_child_does_not_wait_for_the_clients_mutex(void **state) {
    int status;
    (void)state;
    hf_client *client = open_client();
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    hf_client_lock(client);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(hf_lock_acquire_all_start(&lock, 1, NULL, 0, 0, NULL, 1) != HF_EFORKED);
    }
    hf_client_unlock(client);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    hf_lock_close(lock);
    hf_client_close(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_what_was_given_up_without_a_thread_is_undone_when_there_is_one,
                               afresh),
        cmocka_unit_test_setup(test_what_is_given_up_is_the_id_of_then, afresh),
        cmocka_unit_test_setup(test_a_forked_child_does_not_wait_for_the_clients_mutex, afresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
