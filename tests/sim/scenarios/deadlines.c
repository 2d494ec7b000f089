/* Each call ends in its time, reports why, and sends no more requests than it should. */
#include "scenario.h"

static int set_up(void **state) { return begin_scenario(state); }
static int tear_down(void **state) { return end_scenario(state); }

/* Answer the log-in late, and nothing after it. */
static void greet_late(int fd) {
    static const char greeting[] =
        "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n";
    char heard[1000];
    if (recv(fd, heard, sizeof heard, 0) <= 0)
        return;
    sleep_ms(1500);
    say(fd, greeting, sizeof greeting - 1);
    while (recv(fd, heard, sizeof heard, 0) > 0)
        continue;
}

/* G4 */
static void test_an_open_takes_the_time_to_connect_once(void **state) {
    fake server;
    hf_client *client;
    hf_client_options options = {.size = sizeof options, .connect_timeout_ms = 2000};
    (void)state;
    fake_start(&server, greet_late);
    int64_t began = now_ms();
    hf_status status = hf_client_open(text("redis://127.0.0.1:%d", server.port), &options, &client);
    assert_in_range(now_ms() - began, 1500, 2200);
    if (status == HF_OK)
        hf_client_close(client);
    fake_stop(&server);
}

/* G5: each part of the request arrives in time. */
static void test_a_large_request_on_a_slow_way_ends_in_its_time(void **state) {
    enum { SIZE = 1024 * 1024 };
    (void)state;
    hf_hold *hold;
    relay *way = relay_start(SERVER);
    hf_client *client = open_with(text("redis://127.0.0.1:%d", way->port), 2000, 2000);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    char *result = calloc(1, SIZE);
    assert_status(hf_once_begin(lock, 0, NULL, NULL, 0, &hold), HF_OK);
    atomic_store(&way->bytes, 16384);
    int64_t began = now_ms();
    assert_status(hf_once_finish(hold, HF_ONCE_DONE, result, SIZE, 60000), HF_EUNKNOWN);
    assert_in_range(now_ms() - began, 1900, 2300);
    atomic_store(&way->bytes, 0);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
    relay_stop(way);
    free(result);
}

/* ------------------------------------------------------------ Several locks */

typedef struct several {
    hf_lock *locks[3];
    hf_hold *holds[3];
    hf_status status;
} several;

static void *acquire_several(void *argument) {
    several *all = argument;
    all->status = hf_lock_acquire_all(all->locks, 3, NULL, 0, HF_FOREVER, NULL, all->holds);
    return NULL;
}

/* G8: the first lease has ended when the last lock is acquired. */
static void test_leases_shorter_than_the_ways_cost_few_requests(void **state) {
    static const char *const names[] = {"a", "b", "c"};
    several all = {.status = -1};
    pthread_t thread;
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 2000, 2000);
    warm_up(client);
    for (int i = 0; i < 3; i++)
        all.locks[i] = lease_lock(client, names[i], 60, HF_OFF);
    atomic_store(&way->delay_ms, 12);
    assert_int_equal(pthread_create(&thread, NULL, acquire_several, &all), 0);
    sleep_ms(5000);
    TELL("CONFIG RESETSTAT");
    sleep_ms(10000);
    assert_in_range(scripts_run(), 1, 300);
    atomic_store(&way->delay_ms, 0);
    pthread_join(thread, NULL);
    assert_int_equal(all.status, HF_OK);
    for (int i = 0; i < 3; i++) {
        hf_hold_release(all.holds[i]);
        hf_hold_close(all.holds[i]);
        hf_lock_close(all.locks[i]);
    }
    hf_client_close(client);
    proxy_stop(way);
}

/* Seed 113453: the hold does not count as lost, because no caller learns of it. No thread of the
 * client sees its end earlier. */
static void test_what_ends_while_an_acquire_of_several_gives_it_up_is_no_loss(void **state) {
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 2000, 2000), *other = open_client();
    hf_stats stats = {.size = sizeof stats};
    hf_lock *theirs = lease_lock(other, "b", 60000, HF_OFF),
            *locks[] = {lease_lock(client, "a", 40, HF_OFF), lease_lock(client, "b", 40, HF_OFF)};
    hf_hold *hold = held(theirs), *holds[2];
    atomic_store(&way->delay_ms, 12);
    assert_status(hf_lock_acquire_all(locks, 2, NULL, 0, 0, NULL, holds), HF_EBUSY);
    assert_status(hf_client_stats(client, &stats), HF_OK);
    assert_int_equal(stats.lost_expired + stats.lost_unreachable + stats.lost_gone, 0);
    give_back(hold, HF_OK);
    hf_lock_close(theirs);
    hf_lock_close(locks[0]);
    hf_lock_close(locks[1]);
    close_both(way, client, other);
}

/* The nested hold has a longer max_hold than the hold around it. */
static void test_a_hold_that_ends_with_the_hold_around_it_says_so(void **state) {
    (void)state;
    hf_client *client = open_client();
    hf_lock *brief = open_lock(client, "k", "me", OPTIONS(.max_hold_ms = 1000)),
            *longer = open_lock(client, "k", "me", OPTIONS(.max_hold_ms = 60000));
    hf_hold *outer = held(brief), *inner = held(longer);
    sleep_ms(1100);
    assert_status(hf_hold_check(outer), HF_ELOST);
    assert_non_null(strstr(hf_error_message(), "its max_hold of 1000 ms"));
    assert_status(hf_hold_check(inner), HF_ELOST);
    assert_non_null(strstr(hf_error_message(), "the max_hold of the hold around it"));
    hf_hold_close(inner);
    hf_hold_close(outer);
    hf_lock_close(brief);
    hf_lock_close(longer);
    hf_client_close(client);
}

/* A hold without a lease is looked at, and not renewed. */
static void test_a_look_is_not_counted_as_a_renewal(void **state) {
    (void)state;
    hf_client *client = open_client();
    hf_stats stats = {.size = sizeof stats};
    hf_lock *lock = lease_lock(client, "k", HF_NEVER, HF_DEFAULT);
    hf_hold *hold = held(lock);
    sleep_ms(60000);
    assert_status(hf_client_stats(client, &stats), HF_OK);
    assert_int_equal(stats.renewed, 0);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(client);
}

/* H275: a thread stands still while it has the client's mutex, for which a call waits. */
static void test_a_call_that_had_to_wait_for_its_client_is_made(void **state) {
    hf_hold *hold;
    (void)state;
    hf_client *client = open_with(unix_url(), 500, 500);
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    pthread_t thread = mutex_thread(client);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    pthread_join(thread, NULL);
    thread = mutex_thread(client);
    assert_status(hf_hold_renew(hold), HF_OK);
    pthread_join(thread, NULL);
    thread = mutex_thread(client);
    assert_status(hf_hold_release(hold), HF_OK);
    pthread_join(thread, NULL);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

/* ----------------------------------------------------------------- Surveys */

/* H258: the server falls silent at each of the survey's questions. */
static void test_a_survey_tells_an_outage_as_no_finding(void **state) {
    static const char *const questions[] = {"INFO", "TIME", "timeout", "tcp-keepalive", NULL};
    hf_finding findings[HF_FINDINGS_MAX];
    size_t found;
    (void)state;
    for (int n = 0; n < 5; n++) {
        proxy *way = proxy_start();
        hf_client *client = open_with(url_of(way), 500, 500), *other = open_client();
        warm_up(client);
        proxy_next(way, GO_DEAD, questions[n] != NULL ? questions[n] : hf_script_permissions.sha1);
        assert_status(hf_client_survey(client, 0, "a", 1, findings, HF_FINDINGS_MAX, &found),
                      HF_ECONNECT);
        assert_int_equal(atomic_load(&way->mishaps), 1);
        close_both(way, client, other);
    }
}

/* ---------------------------------------------------------------- Replicas */

/* G9: the server falls silent when the acquire is to ask for replicas. */
static void test_an_acquire_with_replicas_waits_once_for_a_silent_server(void **state) {
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 2000, 2000), *other = open_client();
    warm_up(client);
    hf_lock *theirs = lease_lock(other, "k", 60000, HF_OFF), *lock;
    lock = open_lock(client, "k", NULL,
                     OPTIONS(.lease_ms = 60000, .replicas = 1, .replica_timeout_ms = 500));
    hf_hold *hold = held(theirs);
    waiter *w = waiter_start(lock, 20000);
    assert_soon(queued("k") == 1);
    proxy_next(way, GO_DEAD, hf_script_claim.sha1);
    give_back(hold, HF_OK);
    int64_t began = now_ms();
    assert_soon(atomic_load(&way->mishaps) == 1);
    sim_server_pause(servers_at(0), true);
    pthread_join(w->thread, NULL);
    assert_status(w->status, HF_EUNKNOWN); /* H280: it was granted */
    assert_in_range(w->done_at - began, 1900, 2800);
    sim_server_pause(servers_at(0), false);
    assert_stays_free("k", 3000);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    close_both(way, client, other);
}

/* H280: the connection on which a granted acquire asks for replicas cannot be opened. */
static void test_a_granted_acquire_that_cannot_ask_for_replicas_may_be_held(void **state) {
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 500, 500), *other = open_client();
    warm_up(client);
    hf_lock *theirs = lease_lock(other, "k", 60000, HF_OFF), *lock;
    lock = open_lock(client, "k", NULL, OPTIONS(.lease_ms = 60000, .replicas = 1));
    hf_hold *hold = held(theirs);
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 20000, NULL, 1), HF_OK);
    assert_soon(queued("k") == 1);
    atomic_store(&way->holds_grants, true);
    give_back(hold, HF_OK);
    sim_server_pause(servers_at(0), true);
    atomic_store(&way->holds_grants, false);
    hf_completion done = next_of(client);
    assert_int_equal(done.kind, HF_KIND_ACQUIRE);
    assert_status(done.status, HF_EUNKNOWN);
    sim_server_pause(servers_at(0), false);
    assert_stays_free("k", 3000);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    close_both(way, client, other);
}

/* H280. The server falls silent while the acquire asks for replicas: it ends when it would, and
 * replica_timeout later. */
static void test_an_acquire_ends_in_time_though_nobody_says_what_replicas_have(void **state) {
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 500, 10000), *other = open_client();
    warm_up(client);
    hf_lock *lock = open_lock(client, "k", NULL,
                              OPTIONS(.lease_ms = 60000, .replicas = 1, .replica_timeout_ms = 300));
    hf_hold *none;
    proxy_next(way, GO_DEAD, "WAIT");
    int64_t began = now_ms();
    assert_status(hf_lock_acquire(lock, 200, &none), HF_EUNKNOWN);
    assert_in_range(now_ms() - began, 500, 1100);
    assert_int_equal(atomic_load(&way->mishaps), 1);
    assert_stays_free("k", 3000);
    hf_lock_close(lock);
    close_both(way, client, other);
}

/* H280: the connection ends while the acquire asks for replicas, which are asked for once more. The
 * release that follows has no answer. */
static void test_what_too_few_replicas_have_is_told_as_released_once_it_is(void **state) {
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 500, 10000), *other = open_client();
    warm_up(client);
    hf_lock *lock = open_lock(client, "k", NULL,
                              OPTIONS(.lease_ms = 60000, .replicas = 1, .replica_timeout_ms = 300));
    hf_hold *none;
    for (int lost = 0; lost < 2; lost++) {
        proxy_next(way, lost ? GO_DEAD : LOSE_REQUEST, lost ? hf_script_release.sha1 : "WAIT");
        int64_t began = now_ms();
        assert_status(hf_lock_acquire(lock, 0, &none), lost ? HF_EUNKNOWN : HF_EREPLICAS);
        assert_in_range(now_ms() - began, 300, 1100);
        assert_non_null(strstr(hf_error_message(), "reached 0 of the 1 replicas"));
        assert_int_equal(atomic_load(&way->mishaps), lost + 1);
        assert_stays_free("k", 3000);
    }
    hf_lock_close(lock);
    close_both(way, client, other);
}

/* Start more acquires than are confirmed at once: if replicas do not answer, or the server falls
 * silent, each acquire takes its own time, not the time of all before it. */
static void all_end_in_time(bool silent, int64_t within_ms) {
    enum { MANY = 100 };
    hf_lock *locks[MANY];
    hf_client *client = open_with(tcp_url(), 2000, 2000);
    warm_up(client);
    for (int i = 0; i < MANY; i++)
        locks[i] = open_lock(client, text("r%d", i), NULL,
                             OPTIONS(.lease_ms = 60000, .replicas = 1, .replica_timeout_ms = 500));
    int64_t began = now_ms();
    for (int i = 0; i < MANY; i++)
        assert_status(hf_lock_acquire_start(locks[i], NULL, 0, 1000, NULL, i + 1), HF_OK);
    for (int i = 0; i < MANY; i++)
        assert_soon(NUMBER("EXISTS r%d", i) == 1);
    if (silent)
        sim_server_pause(servers_at(0), true);
    for (int i = 0; i < MANY; i++) {
        hf_completion done = next_of(client);
        assert_int_equal(done.kind, HF_KIND_ACQUIRE);
        assert_status(done.status, silent ? HF_EUNKNOWN : HF_EREPLICAS); /* H280 */
        assert_in_range(now_ms() - began, 500, within_ms);
        if (!silent)
            assert_int_equal(NUMBER("EXISTS r%lld", (long long)done.op - 1), 0);
    }
    sim_server_pause(servers_at(0), false);
    for (int i = 0; i < MANY; i++) {
        assert_soon(NUMBER("EXISTS r%d", i) == 0);
        hf_lock_close(locks[i]);
    }
    hf_client_close(client);
}

static void test_acquires_in_line_for_replicas_that_are_away_end_in_their_time(void **state) {
    (void)state;
    all_end_in_time(false, 700);
}

static void test_acquires_in_line_for_a_silent_server_end_in_their_time(void **state) {
    (void)state;
    all_end_in_time(true, 2800);
}

/* G9: the loss is reported with its reason, as for a lock that was broken. */
static void test_a_lease_that_ended_while_replicas_were_asked_for_is_told_as_that(void **state) {
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 2000, 2000), *other = open_client();
    warm_up(client);
    hf_lock *theirs = lease_lock(other, "k", 60000, HF_OFF), *lock;
    lock = open_lock(
        client, "k", NULL,
        OPTIONS(.lease_ms = 200, .renew = HF_OFF, .replicas = 1, .replica_timeout_ms = 100));
    for (int broken = 0; broken < 2; broken++) {
        hf_hold *hold = held(theirs);
        assert_status(hf_lock_acquire_start(lock, NULL, 0, 20000, NULL, 1), HF_OK);
        assert_soon(queued("k") == 1);
        proxy_next(way, HOLD_REQUEST, hf_script_claim.sha1);
        give_back(hold, HF_OK);
        assert_soon(atomic_load(&way->mishaps) == broken + 1);
        if (broken)
            TELL("DEL k");
        else
            sleep_ms(400);
        atomic_store(&way->holds_request, false);
        hf_completion done = next_of(client);
        assert_int_equal(done.kind, HF_KIND_ACQUIRE); /* and no loss of a hold it never had */
        assert_status(done.status, HF_ELOST);         /* H141 */
        assert_int_equal(done.error.cause, broken ? HF_CAUSE_GONE : HF_CAUSE_EXPIRED);
        assert_non_null(strstr(done.error.message, broken ? "the server no longer knows it"
                                                          : "its lease of 200 ms ended"));
    }
    hf_lock_close(lock);
    hf_lock_close(theirs);
    close_both(way, client, other);
}

/* G10: the server is silent when the acquire would undo itself. */
static void test_an_acquire_whose_lease_ended_on_the_way_does_not_wait_to_undo_it(void **state) {
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 2000, 2000);
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", 100, HF_OFF);
    atomic_store(&way->delay_ms, 80);
    int64_t began = now_ms();
    waiter *w = waiter_start(lock, 0);
    assert_soon(NUMBER("EXISTS k") == 1);
    sim_server_pause(servers_at(0), true);
    waiter_join(w, HF_EBUSY);
    assert_in_range(w->done_at - began, 150, 500);
    sim_server_pause(servers_at(0), false);
    atomic_store(&way->delay_ms, 0);
    hf_lock_close(lock);
    hf_client_close(client);
    proxy_stop(way);
}

/* The server does not know the script, and no time is left to send its text. */
static void test_a_request_without_time_to_send_its_script_says_so(void **state) {
    hf_hold *hold;
    (void)state;
    proxy *way = proxy_start();
    hf_client *client = open_with(url_of(way), 500, 2000);
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    warm_up(client);
    for (int started = 0; started < 2; started++) {
        TELL("SCRIPT FLUSH");
        atomic_store(&way->delay_ms, 247);
        if (started)
            assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
        assert_status(started ? next_of(client).status : hf_lock_acquire(lock, 0, &hold),
                      HF_ECONNECT);
        assert_message("the time was over before the request could be sent with its script");
        atomic_store(&way->delay_ms, 0);
    }
    hf_lock_close(lock);
    hf_client_close(client);
    proxy_stop(way);
}

/* Their renewals spread, and cost little more. */
static void test_clients_that_began_together_do_not_renew_together(void **state) {
    enum { CLIENTS = 16, LEASE = 9000, ROUNDS = 15, SLICE = 100 };
    hf_client *clients[CLIENTS];
    hf_lock *locks[CLIENTS];
    hf_hold *holds[CLIENTS];
    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = open_client();
        locks[i] = lease_lock(clients[i], text("k%d", i), LEASE, HF_ON);
        assert_true(hf_client_fd(clients[i]) >= 0);
    }
    int64_t began = now_ms();
    for (int i = 0; i < CLIENTS; i++)
        holds[i] = held(locks[i]);
    assert_true(now_ms() - began < SLICE);
    int64_t first = scripts_run(), before = first;
    int most = 0;
    while (now_ms() < began + ROUNDS * LEASE / 3) {
        sleep_ms(SLICE);
        int64_t now = scripts_run();
        most = now - before > most ? (int)(now - before) : most;
        before = now;
    }
    assert_in_range(most, 1, CLIENTS / 2);
    assert_in_range(before - first, CLIENTS * (ROUNDS - 1), CLIENTS * (ROUNDS * 8 / 7 + 1));
    for (int i = 0; i < CLIENTS; i++) {
        give_back(holds[i], HF_OK);
        hf_lock_close(locks[i]);
        hf_client_close(clients[i]);
    }
}

/* The client's thread is busy with another lock, and is not woken for the time of the next try:
 * otherwise the tries would use up the refusals. */
static void test_a_renewal_that_is_refused_is_asked_for_after_an_eighth(void **state) {
    enum { LEASE = 24000, EIGHTH = LEASE / 3 / 8, TRIES = 1000 };
    (void)state;
    hf_client *client = open_client();
    warm_up(client);
    hf_lock *lock = lease_lock(client, "k", LEASE, HF_ON),
            *busy = lease_lock(client, "busy", 60000, HF_OFF);
    hf_hold *hold = held(lock);
    servers_refuse(0, SIM_SCRIPTS, "ERR something is wrong", TRIES + 40);
    sleep_ms(LEASE / 3);
    for (int i = 0; i < TRIES; i++) {
        sleep_ms(6 * EIGHTH / TRIES);
        assert_status(hf_lock_acquire_start(busy, NULL, 0, 0, NULL, 1), HF_OK);
        assert_status(next_of(client).status, HF_ESERVER);
    }
    servers_refuse(0, SIM_EVERYTHING, NULL, 0);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(busy);
    hf_client_close(client);
}

/* The process stands still between the start of a call and its first try. */
static void test_a_call_that_stood_still_does_not_tell_what_failed_before(void **state) {
    enum { ROUNDS = 300 };
    (void)state;
    hf_client *client = open_client();
    sim_settings before = sim_set;
    int late = 0;
    for (int n = 0; n < ROUNDS; n++) {
        alarm(200);
        assert_status(hf_client_ping(NULL, NULL), HF_EINVAL);
        const char *old = text("%s", hf_error_message());
        sim_set.stunned = 0.3;
        sim_set.stunned_ns = 20 * SIM_S;
        hf_status status = hf_client_ping(client, NULL);
        sim_set = before;
        late += status == HF_ECONNECT;
        if (status != HF_OK)
            assert_string_not_equal(hf_error_message(), old);
    }
    assert_true(late > 0);
    hf_client_close(client);
}

/* The client's thread stands still for longer than the acquire's time: no server has reported that
 * others hold the lock, which is free. */
static void test_an_acquire_that_was_not_sent_in_its_time_is_not_told_as_held(void **state) {
    (void)state;
    hf_client *client = open_client();
    hf_lock *lock = lease_lock(client, "k", 60000, HF_OFF);
    warm_up(client);
    for (int64_t after_us = 0; after_us < 400; after_us += 20) {
        for (size_t n = 0, main = sim_threads(sim_self()) - 1; n < main; n++)
            sim_stun(sim_self(), n, 100 * SIM_MS);
        assert_status(hf_lock_acquire_start(lock, NULL, 0, 10, NULL, 1), HF_OK);
        hf_completion done = next_of(client);
        assert_status(done.status, HF_OK);
        give_back(done.hold, HF_OK);
        usleep((useconds_t)after_us);
    }
    hf_lock_close(lock);
    hf_client_close(client);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_an_open_takes_the_time_to_connect_once),
        TEST(test_a_large_request_on_a_slow_way_ends_in_its_time),
        TEST(test_leases_shorter_than_the_ways_cost_few_requests),
        TEST(test_what_ends_while_an_acquire_of_several_gives_it_up_is_no_loss),
        TEST(test_a_hold_that_ends_with_the_hold_around_it_says_so),
        TEST(test_a_look_is_not_counted_as_a_renewal),
        TEST(test_a_call_that_had_to_wait_for_its_client_is_made),
        TEST(test_a_survey_tells_an_outage_as_no_finding),
        TEST(test_an_acquire_with_replicas_waits_once_for_a_silent_server),
        TEST(test_a_granted_acquire_that_cannot_ask_for_replicas_may_be_held),
        TEST(test_an_acquire_ends_in_time_though_nobody_says_what_replicas_have),
        TEST(test_what_too_few_replicas_have_is_told_as_released_once_it_is),
        TEST(test_acquires_in_line_for_replicas_that_are_away_end_in_their_time),
        TEST(test_acquires_in_line_for_a_silent_server_end_in_their_time),
        TEST(test_a_lease_that_ended_while_replicas_were_asked_for_is_told_as_that),
        TEST(test_an_acquire_whose_lease_ended_on_the_way_does_not_wait_to_undo_it),
        TEST(test_a_request_without_time_to_send_its_script_says_so),
        TEST(test_clients_that_began_together_do_not_renew_together),
        TEST(test_a_renewal_that_is_refused_is_asked_for_after_an_eighth),
        TEST(test_a_call_that_stood_still_does_not_tell_what_failed_before),
        TEST(test_an_acquire_that_was_not_sent_in_its_time_is_not_told_as_held),
    };
    return RUN_TESTS(tests, count, words);
}
