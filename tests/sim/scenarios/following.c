/* A client behind sentinels follows the master and no former one, and reports holds that the new
 * master does not know. */
#include "scenario.h"

deployment sim_deployment = SENTINELS;

static hf_client *client;

static int master(void) {
    int which = 0;
    while (!servers_is_master(which))
        which++;
    return which;
}

static void set_way(int from, int to, bool open) {
    sim_way(from, to, open);
    sim_way(to, from, open);
}

static int set_up(void **state) {
    (void)state;
    alarm(200);
    for (int i = 0; i < servers_count(); i++)
        for (int j = 0; j < servers_count(); j++)
            sim_way(servers_host(i), servers_host(j), true);
    servers_heal();
    sleep_ms(15000);
    client = open_with(servers_url(SENTINELS), 2000, 2000);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    hf_client_close(client);
    return 0;
}

/* Give the master no time to replicate what follows. */
static void hide_from_replicas(void) {
    for (int i = 0; i < servers_count(); i++)
        if (!servers_is_master(i))
            sim_way(servers_host(master()), servers_host(i), false);
}

static bool is_at(int which, const char *key) {
    sim_seen seen;
    return sim_redis_see(servers_redis(which), 0, (sim_bytes){key, strlen(key)}, &seen);
}

static void test_a_planned_failover_loses_no_hold(void **state) {
    (void)state;
    hf_lock *renewed = lease_lock(client, "a", 3000, HF_ON),
            *lock = lease_lock(client, "b", 60000, HF_OFF);
    hf_hold *mine = held(renewed), *other = held(lock);
    servers_fail_over(true);
    for (int64_t until = now_ms() + 10000; now_ms() < until; sleep_ms(5)) {
        assert_int_equal(hf_hold_state(mine), HF_STATE_HELD);
        assert_int_equal(hf_hold_state(other), HF_STATE_HELD);
    }
    assert_true(is_at(master(), "a") && is_at(master(), "b"));
    give_back(mine, HF_OK);
    give_back(other, HF_OK);
    hf_lock_close(renewed);
    hf_lock_close(lock);
}

/* A failover is reported once, with the address; it is no trouble, because the new master has the
 * renewed holds. */
static void test_a_failover_is_told(void **state) {
    (void)state;
    hf_client_options options = {.size = sizeof options, .trouble = HF_ON};
    hf_client *telling;
    assert_status(hf_client_open(servers_url(SENTINELS), &options, &telling), HF_OK);
    assert_true(hf_client_fd(telling) >= 0);
    hf_lock *lock = lease_lock(telling, "told", 60000, HF_ON);
    hf_hold *hold = held(lock);
    servers_fail_over(true);
    hf_completion told = next_of(telling);
    assert_int_equal(told.kind, HF_KIND_FAILOVER);
    assert_status(told.status, HF_OK);
    assert_int_equal(told.holds, 1);
    assert_non_null(
        strstr(told.error.message, text("another server, %s:6379, has taken over, with 1 hold",
                                        sim_address(servers_host(master())))));
    assert_int_equal(completion_within(telling, 30000).kind, HF_KIND_NONE);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(telling);
}

/* F3 */
static void test_a_new_master_is_asked_for_holds_that_are_not_renewed(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "c", 60000, HF_OFF);
    hide_from_replicas();
    hf_hold *hold = held(lock);
    servers_fail_over(false);
    assert_soon(hf_hold_state(hold) == HF_STATE_LOST);
    assert_int_equal(hf_hold_cause(hold), HF_CAUSE_GONE);
    assert_false(is_at(master(), "c"));
    hf_hold_close(hold);
    hf_lock_close(lock);
}

/* The client is opening a connection to the former master, which does not answer. */
static void test_a_dial_to_a_predecessor_keeps_no_hold_from_the_new_master(void **state) {
    int before = master();
    (void)state;
    hf_client *patient = open_with(servers_url(SENTINELS), 60000, 500);
    hf_lock *lock = lease_lock(patient, "h", 60000, HF_ON);
    assert_true(hf_client_fd(patient) >= 0);
    hf_hold *hold = held(lock);
    sleep_ms(1000); /* until the replicas have it, too */
    set_way(HERE, servers_host(before), false);
    assert_status(hf_hold_check_start(hold, 1), HF_OK);
    sleep_ms(3000);
    servers_fail_over(false);
    assert_int_equal(completion_within(patient, 15000).kind, HF_KIND_RENEWAL);
    assert_int_not_equal(master(), before);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(patient);
}

/* H213: a dial for the subscription does not keep the client, either. */
static void test_a_dial_to_a_predecessor_keeps_no_subscription_from_the_new_master(void **state) {
    int before = master();
    int64_t subscribed[3] = {0};
    (void)state;
    hf_client *patient = open_with(servers_url(SENTINELS), 60000, 500);
    hf_lock *lock = lease_lock(patient, "q", 60000, HF_OFF),
            *theirs = lease_lock(client, "q", 60000, HF_ON);
    hf_hold *hold = held(theirs);
    waiter *w = waiter_start(lock, 120000);
    sleep_ms(2000); /* until the replicas have it, too */
    sim_way(HERE, servers_host(before), false);
    servers_command(before, "CLIENT KILL TYPE pubsub");
    sleep_ms(1000); /* until another connection is being opened */
    sim_way(servers_host(before), HERE, false);
    for (int i = 0; i < servers_count(); i++)
        subscribed[i] = sim_redis_calls(servers_redis(i), "subscribe");
    servers_fail_over(false);
    sleep_ms(20000);
    int after = master();
    assert_int_not_equal(after, before);
    assert_int_equal(sim_redis_calls(servers_redis(after), "subscribe"), subscribed[after] + 1);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    give_back(w->hold, HF_OK);
    set_way(HERE, servers_host(before), true);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(patient);
}

/* The former master has carried out the request, and answers when there is a new master. */
static void test_what_a_predecessor_answers_does_not_count(void **state) {
    int before = master();
    (void)state;
    hf_lock *lock = lease_lock(client, "f", 60000, HF_OFF);
    give_back(held(lock), HF_OK);
    sleep_ms(1000); /* until the replicas have it, too */
    hide_from_replicas();
    sim_way(servers_host(before), HERE, false);
    waiter *w = waiter_start(lock, 0);
    assert_soon(is_at(before, "f"));
    servers_fail_over(false);
    for (int i = 0; i < 3; i++)
        sim_sentinel_switch(servers_sentinel(i), sim_address(servers_host(master())), 6379, 100);
    sleep_ms(300);
    sim_way(servers_host(before), HERE, true);
    waiter_join(w, HF_OK);
    assert_true(is_at(master(), "f"));
    give_back(w->hold, HF_OK);
    hf_lock_close(lock);
}

static void hide_sentinel(int which) {
    set_way(HERE, SENTINEL_HOSTS + which, false);
    sim_cut(HERE, SENTINEL_HOSTS + which, 1);
}

/* F2: one of three sentinels does not know of the failover, and is the only one left. */
static void test_who_knows_of_the_new_master_does_not_go_back(void **state) {
    int before = master();
    hf_hold *hold;
    (void)state;
    hf_lock *lock = lease_lock(client, "d", 60000, HF_OFF);
    servers_fail_over(false);
    sleep_ms(12000);
    assert_int_not_equal(master(), before);
    give_back(held(lock), HF_OK);
    sleep_ms(1000); /* until the replica has it, too */
    sim_way(servers_host(master()), servers_host(before), false);
    sim_redis_promote(servers_redis(before));
    sim_sentinel_switch(servers_sentinel(0), sim_address(servers_host(before)), 6379, 1);
    for (int i = 1; i < 3; i++)
        hide_sentinel(i);
    int times = 0;
    for (int64_t until = now_ms() + 8000; now_ms() < until; sleep_ms(20)) {
        if (hf_lock_acquire(lock, 0, &hold) != HF_OK)
            continue;
        assert_true(is_at(master(), "d") && !is_at(before, "d"));
        give_back(hold, HF_OK);
        times++;
    }
    assert_in_range(times, 100, 400);
    for (int i = 1; i < 3; i++)
        set_way(HERE, SENTINEL_HOSTS + i, true);
    hf_lock_close(lock);
}

/* Return how often sentinels were asked for the master's address. */
static int64_t questions(void) {
    int64_t sum = 0;
    for (int i = 0; i < 3; i++)
        sum += sim_redis_calls(servers_sentinel(i), "sentinel|get-master-addr-by-name");
    return sum;
}

/* H177: the sentinel learns of the failover between its answers, because the questions arrive in
 * pieces. */
static void test_a_sentinel_that_learns_of_the_new_master_leads_to_no_former_one(void **state) {
    int before = master();
    (void)state;
    hf_client_close(client);
    relay *way = relay_start(SENTINEL_HOSTS);
    way->server_port = 26379;
    client = open_with(text("redis+sentinel://127.0.0.1:%d/mymaster", way->port), 2000, 2000);
    servers_fail_over(false);
    sleep_ms(12000);
    int after = master();
    assert_int_not_equal(after, before);
    sim_sentinel_switch(servers_sentinel(0), sim_address(servers_host(after)), 6379, 300);
    sleep_ms(2000);
    sim_way(servers_host(after), servers_host(before), false);
    sim_redis_promote(servers_redis(before));
    int64_t tried = sim_redis_calls(servers_redis(before), "role");
    atomic_store(&way->bytes, 20);
    sim_sentinel_switch(servers_sentinel(0), sim_address(servers_host(before)), 6379, 1);
    int64_t asked = questions();
    while (questions() == asked)
        usleep(10);
    sim_sentinel_switch(servers_sentinel(0), sim_address(servers_host(after)), 6379, 300);
    atomic_store(&way->bytes, 0);
    sleep_ms(3000);
    assert_int_equal(sim_redis_calls(servers_redis(before), "role"), tried);
    hf_client_close(client);
    client = NULL;
    relay_stop(way);
}

/* H226: a sentinel's share of the time is enough for two round trips, and not for three. */
static void test_a_client_that_is_far_from_its_sentinels_reaches_the_master(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++)
        sim_distance(HERE, SENTINEL_HOSTS + i, 150 * SIM_MS);
    hf_client_close(open_with(servers_url(SENTINELS), 2000, 2000));
    for (int i = 0; i < 3; i++)
        sim_distance(HERE, SENTINEL_HOSTS + i, 0);
}

/* Send a sentinel commands without a connection. */
static void tell_sentinel(const char *lines) {
    sim_peer *once = sim_redis_accept(servers_sentinel(0), NULL);
    sim_redis_feed(once, lines, strlen(lines));
    sim_redis_gone(once);
}

static void test_a_sentinel_is_told_the_password_once_for_each_connection(void **state) {
    (void)state;
    servers_command(master(), "ACL SETUSER ann on >secret ~* &* +@all");
    tell_sentinel("ACL SETUSER ann on >secret &* +@all\r\nACL SETUSER default off\r\n");
    int64_t before = sim_redis_calls(servers_sentinel(0), "auth");
    hf_client *guarded = open_with(
        text("redis+sentinel://ann:secret@%s:26379/mymaster", sim_address(SENTINEL_HOSTS)), 2000,
        2000);
    sleep_ms(5000); /* one connection is closed, and two are kept */
    assert_int_equal(sim_redis_calls(servers_sentinel(0), "auth"), before + 3);
    hf_client_close(guarded);
    tell_sentinel("AUTH ann secret\r\nACL SETUSER default on\r\nACL DELUSER ann\r\n");
    servers_command(master(), "ACL DELUSER ann");
}

static void test_a_sentinel_may_refuse_to_tell_the_epoch_alone(void **state) {
    hf_client_options options = {.size = sizeof options, .connect_timeout_ms = 2000};
    const char *url = text("redis+sentinel://%s:26379/mymaster", sim_address(SENTINEL_HOSTS));
    hf_client *trusting;
    (void)state;
    tell_sentinel("ACL SETUSER default -sentinel|master\r\n");
    assert_status(hf_client_open(url, &options, &trusting), HF_OK);
    hf_client_close(trusting);
    tell_sentinel("ACL SETUSER default -sentinel|get-master-addr-by-name\r\n");
    assert_status(hf_client_open(url, &options, &trusting), HF_ECONNECT);
    assert_non_null(strstr(hf_error_message(), "knows no master"));
    tell_sentinel("ACL SETUSER default +@all\r\n");
}

/* H176: the sentinel that the client watches is cut off with the old master, whose host is gone:
 * the client asks the others. */
static void test_a_sentinel_that_names_a_host_that_hangs_leaves_time_for_the_others(void **state) {
    int before = master(), after = before == 0 ? 1 : 0, watched = 0;
    (void)state;
    hf_lock *lock = lease_lock(client, "o", 60000, HF_OFF);
    give_back(held(lock), HF_OK);
    sleep_ms(100); /* until the replica has it */
    while (sim_redis_subscribers(servers_sentinel(watched), (sim_bytes){"+switch-master", 14}) == 0)
        watched = (watched + 1) % 3, sleep_ms(10);
    sim_way(servers_host(before), servers_host(after), false);
    sim_redis_promote(servers_redis(after));
    set_way(HERE, servers_host(before), false);
    for (int i = 0; i < 3; i++)
        if (i != watched)
            sim_sentinel_switch(servers_sentinel(i), sim_address(servers_host(after)), 6379, 200);
    hf_hold *hold;
    assert_status(hf_lock_acquire(lock, 15000, &hold), HF_OK);
    assert_true(is_at(after, "o"));
    /* H229: the only connection to the new master is in use. */
    hf_client_fd(client);
    sim_distance(HERE, servers_host(after), 50 * SIM_MS);
    assert_status(hf_hold_check_start(hold, 1), HF_OK);
    sleep_ms(10);
    int64_t since = now_ms();
    give_back(hold, HF_OK);
    assert_in_range(now_ms() - since, 0, 700); /* without a second for the old master */
    sim_distance(HERE, servers_host(after), 0);
    hf_lock_close(lock);
    for (int i = 0; i < 10; i++) { /* each time the client begins with any sentinel */
        hf_client *another = open_with(servers_url(SENTINELS), 2000, 2000);
        hf_client_close(another);
    }
    set_way(HERE, servers_host(before), true);
}

/* F16: the server's name leads to another server for one connection. */
static void test_a_subscription_at_another_server_is_found_out(void **state) {
    int now = master(), another = now == 0 ? 1 : 0;
    (void)state;
    sim_way(servers_host(now), servers_host(another), false);
    sim_redis_promote(servers_redis(another));
    relay *way = relay_start(servers_host(now));
    hf_client *named = open_with(text("redis://127.0.0.1:%d", way->port), 2000, 2000);
    hf_lock *lock = lease_lock(named, "e", 60000, HF_OFF),
            *theirs = lease_lock(client, "e", 60000, HF_OFF);
    hf_hold *hold = held(theirs);
    waiter *w = waiter_start(lock, 60000);
    sleep_ms(2000);
    atomic_store(&way->once, servers_host(another));
    servers_command(now, "CLIENT KILL TYPE pubsub");
    sleep_ms(5500);
    int64_t asked = sim_redis_calls(servers_redis(now), "evalsha");
    assert_soon(sim_redis_calls(servers_redis(now), "evalsha") > asked);
    sleep_ms(200); /* the client asks again in 3 s */
    int64_t since = now_ms();
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    assert_in_range(w->done_at - since, 0, 500);
    give_back(w->hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(named);
    relay_stop(way);
}

/* H146: the server's name leads to another server, which the keeper's own dial finds first. */
static void test_the_connection_that_finds_another_server_is_used(void **state) {
    int before = master(), after = before == 0 ? 1 : 0;
    hf_stats stats = {.size = sizeof stats};
    (void)state;
    sim_way(servers_host(before), servers_host(after), false);
    sim_redis_promote(servers_redis(after));
    hf_client *named = open_with(text("redis://host%d:6379", servers_host(before)), 2000, 2000);
    assert_true(hf_client_fd(named) >= 0);
    hf_lock *lock = lease_lock(named, "n", 60000, HF_OFF);
    hf_hold *hold = held(lock);
    assert_status(hf_hold_check_start(hold, 1), HF_OK);
    assert_status(next_of(named).status, HF_OK);
    sim_move_name(servers_host(before), servers_host(after));
    sim_cut(HERE, servers_host(before), 1);
    sleep_ms(1000); /* a connection that was idle for this time is checked before it is used */
    assert_status(hf_client_stats(named, &stats), HF_OK);
    int64_t opened = stats.connections;
    assert_status(hf_hold_check_start(hold, 1), HF_OK);
    assert_status(next_of(named).status, HF_ELOST); /* this server does not know the hold */
    assert_status(hf_client_stats(named, &stats), HF_OK);
    assert_int_equal(stats.connections, opened + 1);
    sim_move_name(servers_host(before), 0);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(named);
}

/* Each new try of a connection would ask all sentinels, three of them some forty times. */
static void test_sentinels_are_not_stormed_while_the_master_is_away(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "g", 10000, HF_ON);
    hf_hold *hold = held(lock);
    waiter *w = waiter_start(lock, 60000);
    sleep_ms(2000);
    int64_t before = questions();
    servers_restart(master(), true, INT64_C(5000000000));
    sleep_ms(5000);
    assert_in_range(questions() - before, 2, 30);
    sleep_ms(2000);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    give_back(hold, HF_OK);
    waiter_join(w, HF_OK);
    give_back(w->hold, HF_OK);
    hf_lock_close(lock);
}

/* H178: each try is a log-in, and a fleet tries, for example while the server is full. */
static void test_a_new_master_that_lets_no_client_in_is_tried_ever_less_often(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(client, "p", 10000, HF_ON);
    servers_fail_over(false);
    sim_redis *full = servers_redis(master());
    servers_refuse(master(), SIM_BUSY, NULL, -1); /* also refuses ROLE */
    sleep_ms(6000);
    int64_t before = sim_redis_calls(full, "hello"), asked = questions();
    sleep_ms(10000);
    assert_in_range(sim_redis_calls(full, "hello") - before, 8, 14);
    assert_in_range(questions() - asked, 8, 14);
    servers_refuse(master(), SIM_BUSY, NULL, 0);
    sleep_ms(1500);
    give_back(held(lock), HF_OK);
    hf_lock_close(lock);
}

static void hang_up(int fd) { (void)fd; }

static void all_name(const fake *server, int64_t epoch) {
    for (int i = 0; i < 3; i++)
        sim_sentinel_switch(servers_sentinel(i), "127.0.0.1", server->port, epoch);
}

/* H228 */
static void test_a_second_new_master_is_tried_as_often_as_the_first(void **state) {
    fake first, second;
    (void)state;
    fake_start(&first, hang_up);
    fake_start(&second, hang_up);
    all_name(&first, 200);
    sleep_ms(6000); /* it is now tried once a second */
    int before = atomic_load(&first.accepted);
    assert_in_range(before, 7, 10);
    all_name(&second, 300);
    sleep_ms(550); /* 100, 200 and 400 ms apart */
    assert_int_equal(atomic_load(&second.accepted), 3);
    fake_stop(&first);
    fake_stop(&second);
}

/* ---------------------------------------------------------------- Replicas */

/* The claim that waits for the replicas finds that the lock has several holds. */
static void test_a_hold_that_nests_in_another_clients_has_its_replicas(void **state) {
    (void)state;
    hf_client *other = open_with(servers_url(SENTINELS), 2000, 2000);
    hf_lock *outer = open_lock(other, "r", "me", OPTIONS(.lease_ms = 60000)),
            *lock =
                open_lock(client, "r", "me",
                          OPTIONS(.lease_ms = 60000, .replicas = 1, .replica_timeout_ms = 5000));
    hf_hold *hold = held(outer);
    assert_true(hf_client_fd(client) >= 0);
    assert_status(hf_lock_acquire_start(lock, "me", 2, 0, NULL, 1), HF_OK);
    hf_completion done = next_of(client);
    assert_status(done.status, HF_OK);
    assert_int_equal(hf_hold_fence(done.hold), hf_hold_fence(hold));
    give_back(done.hold, HF_OK);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(outer);
    hf_client_close(other);
}

/* More acquires than are confirmed at once, on slow networks: the turn of the last ones arrives
 * late, and their replicas have the holds. */
static void test_acquires_in_line_for_slow_replicas_are_not_refused(void **state) {
    enum { MANY = 100 };
    hf_lock *locks[MANY];
    sim_settings before = sim_set;
    (void)state;
    assert_true(hf_client_fd(client) >= 0);
    for (int i = 0; i < MANY; i++)
        locks[i] = open_lock(client, text("slow%d", i), NULL,
                             OPTIONS(.lease_ms = 60000, .replicas = 1, .replica_timeout_ms = 500));
    sim_set.slow = 1;
    sim_set.slow_ns = 200 * SIM_MS;
    int64_t began = now_ms();
    for (int i = 0; i < MANY; i++)
        assert_status(hf_lock_acquire_start(locks[i], NULL, 0, 1000, NULL, i + 1), HF_OK);
    for (int ended = 0; ended < MANY;) {
        hide_from_replicas();
        hf_completion done = completion_within(client, 30);
        for (int i = 0; i < servers_count(); i++)
            set_way(servers_host(master()), servers_host(i), true);
        sleep_ms(10);
        if (done.kind == HF_KIND_NONE)
            continue;
        assert_status(done.status, HF_OK);
        hf_hold_close(done.hold);
        ended++;
    }
    assert_true(now_ms() - began > 1000);
    sim_set = before;
    for (int i = 0; i < MANY; i++)
        hf_lock_close(locks[i]);
}

/* ------------------------------------------------------------------ Limits */

static hf_lock *pool_with_a_replica(hf_client *of, const char *name) {
    return open_lock(of, name, NULL,
                     OPTIONS(.lease_ms = 60000, .renew = HF_OFF, .mode = HF_SHARED,
                             .reentrant = HF_OFF, .replicas = 1, .replica_timeout_ms = 300));
}

static void *store_limit(void *lock) {
    assert_status(hf_lock_limit(lock, 5, 0, NULL, NULL), HF_EREPLICAS);
    return NULL;
}

/* The answer is lost, and the next copy finds the limit stored. */
static void test_a_limit_that_is_asked_for_again_waits_for_its_replicas(void **state) {
    pthread_t thread;
    int host = servers_host(master());
    (void)state;
    hf_client *brief = open_with(servers_url(SENTINELS), 5000, 500);
    hf_lock *before = pool_with_a_replica(brief, "l"), *lock = pool_with_a_replica(brief, "m");
    assert_status(hf_lock_limit(before, 5, 0, NULL, NULL), HF_OK); /* the server knows the script */
    hide_from_replicas();
    sim_way(host, HERE, false);
    assert_int_equal(pthread_create(&thread, NULL, store_limit, lock), 0);
    assert_soon(is_at(master(), "{m}m:hf1:f"));
    sim_deaden(HERE, host, 1);
    sim_way(host, HERE, true);
    pthread_join(thread, NULL);
    hf_lock_close(before);
    hf_lock_close(lock);
    hf_client_close(brief);
}

static void grow_no_more(void *process) { sim_may_grow(process, false); }
static void open_way(void *host) { sim_way((int)(intptr_t)host, HERE, true); }

/* H260: the client opens no second connection. A client asks the watched sentinel once a second,
 * which the other client does here, too. */
static void test_a_watch_that_could_not_be_started_is_started_later(void **state) {
    int host = servers_host(master());
    (void)state;
    set_way(HERE, host, true);
    sim_way(host, HERE, false);
    sim_at(sim_now() + 200 * SIM_MS, grow_no_more, sim_self()); /* the socket is open by then */
    sim_at(sim_now() + 300 * SIM_MS, open_way, (void *)(intptr_t)host);
    hf_client *quiet = open_with(servers_url(SENTINELS), 9000, 2000);
    sim_may_grow(sim_self(), true);
    hf_lock *lock = lease_lock(quiet, "r", 60000, HF_OFF);
    hf_hold *hold = held(lock);
    sleep_ms(3000);
    int64_t asked = questions();
    sleep_ms(10000);
    assert_in_range(questions() - asked, 18, 22);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(quiet);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_hold_that_nests_in_another_clients_has_its_replicas),
        TEST(test_a_limit_that_is_asked_for_again_waits_for_its_replicas),
        TEST(test_a_planned_failover_loses_no_hold),
        TEST(test_a_failover_is_told),
        TEST(test_a_new_master_is_asked_for_holds_that_are_not_renewed),
        TEST(test_what_a_predecessor_answers_does_not_count),
        TEST(test_who_knows_of_the_new_master_does_not_go_back),
        TEST(test_a_sentinel_that_learns_of_the_new_master_leads_to_no_former_one),
        TEST(test_a_client_that_is_far_from_its_sentinels_reaches_the_master),
        TEST(test_a_sentinel_is_told_the_password_once_for_each_connection),
        TEST(test_a_sentinel_may_refuse_to_tell_the_epoch_alone),
        TEST(test_a_sentinel_that_names_a_host_that_hangs_leaves_time_for_the_others),
        TEST(test_a_subscription_at_another_server_is_found_out),
        TEST(test_the_connection_that_finds_another_server_is_used),
        TEST(test_sentinels_are_not_stormed_while_the_master_is_away),
        TEST(test_a_new_master_that_lets_no_client_in_is_tried_ever_less_often),
        TEST(test_a_second_new_master_is_tried_as_often_as_the_first),
        TEST(test_a_dial_to_a_predecessor_keeps_no_subscription_from_the_new_master),
        TEST(test_a_dial_to_a_predecessor_keeps_no_hold_from_the_new_master),
        TEST(test_acquires_in_line_for_slow_replicas_are_not_refused),
        TEST(test_a_watch_that_could_not_be_started_is_started_later),
    };
    return RUN_TESTS(tests, count, words);
}
