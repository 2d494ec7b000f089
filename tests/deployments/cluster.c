/* Redis Cluster: locks in all slots held by one client, slots that move, masters that fail. */
#include "cluster.h"
#include "certificates.h"

#include <pthread.h>
#include <stdatomic.h>

static char *url;
static hf_client *client;

static int begin(void **state) {
    (void)state;
    alarm(60);
    return 0;
}

/* Return the node that claims the slot. */
static int owner_of(int slot) {
    for (int i = 0; i < NODES; i++) {
        redisReply *reply =
            node_pids[i] > 0 ? tell(nodes[i], text("CLUSTER COUNTKEYSINSLOT %d", slot)) : NULL;
        if (reply == NULL)
            continue;
        reply = tell(nodes[i], "CLUSTER SLOTS");
        for (size_t at = 0;
             reply != NULL && reply->type == REDIS_REPLY_ARRAY && at < reply->elements; at++) {
            redisReply *range = reply->element[at];
            if (range->element[0]->integer <= slot && slot <= range->element[1]->integer &&
                range->element[2]->element[1]->integer == nodes[i])
                return i;
        }
    }
    return -1;
}

/* Return how many of these errors the node has answered: "MOVED", "ASK". */
static long errors_of(int which, const char *kind) {
    redisReply *reply = tell(nodes[which], "INFO errorstats");
    const char *at = reply != NULL ? strstr(reply->str, text("errorstat_%s:count=", kind)) : NULL;
    return at != NULL ? atol(strchr(at, '=') + 1) : 0;
}

static long all_errors(const char *kind) {
    long sum = 0;
    for (int i = 0; i < NODES; i++)
        sum += node_pids[i] > 0 ? errors_of(i, kind) : 0;
    return sum;
}

static long calls_of(int which, const char *command) {
    redisReply *reply = tell(nodes[which], "INFO commandstats");
    const char *at = reply != NULL ? strstr(reply->str, text("cmdstat_%s:calls=", command)) : NULL;
    return at != NULL ? atol(strchr(at, '=') + 1) : 0;
}

static int hung = -1; /* a node that does not answer */

static long all_calls(const char *command) {
    long sum = 0;
    for (int i = 0; i < NODES; i++)
        sum += node_pids[i] > 0 && i != hung ? calls_of(i, command) : 0;
    return sum;
}

static void reset_counts(void) {
    for (int i = 0; i < NODES; i++)
        if (node_pids[i] > 0)
            assert_ok(nodes[i], "CONFIG RESETSTAT");
}

/* ------------------------------------------------------------- All slots */

static void test_a_thousand_locks_on_all_shards_from_one_client(void **state) {
    enum { LOCKS = 1000 };
    static hf_lock *locks[LOCKS];
    static hf_hold *holds[LOCKS];
    hf_client *other;
    hf_hold *none;
    (void)state;
    client = open_at(url);
    other = open_at(url);
    reset_counts();
    for (int i = 0; i < LOCKS; i++) {
        const char *name = i % 2 == 0 ? text("lock-%d", i) : text("{user%d}:lock", i);
        locks[i] = open_lock(client, name, NULL, NULL);
        assert_status(hf_lock_acquire(locks[i], 0, &holds[i]), HF_OK);
    }
    long mine[MASTERS];
    for (int i = 0; i < MASTERS; i++)
        assert_true((mine[i] = calls_of(i, "evalsha")) > LOCKS / 5);
    assert_in_range(mine[0] + mine[1] + mine[2], LOCKS, LOCKS + MASTERS);
    assert_int_equal(all_errors("MOVED"), 0);
    hf_lock *lock = open_lock(other, "lock-0", NULL, NULL);
    assert_status(hf_lock_acquire(lock, 0, &none), HF_EBUSY);
    hf_lock_close(lock);
    for (int i = 0; i < LOCKS; i++) {
        assert_status(hf_hold_renew(holds[i]), HF_OK);
        assert_status(hf_hold_release(holds[i]), HF_OK);
        hf_hold_close(holds[i]);
        hf_lock_close(locks[i]);
    }
    hf_client_close(other);
    hf_client_close(client);
}

static void test_a_ping_and_a_survey_ask_each_master(void **state) {
    hf_client_options lazy = {.size = sizeof lazy, .lazy = HF_ON};
    hf_finding found[HF_FINDINGS_MAX];
    size_t servers, count;
    int masters = 0, permissions = 0;
    long before[NODES];
    (void)state;
    client = open_at(url);
    for (int i = 0; i < NODES; i++)
        before[i] = calls_of(i, "time");
    for (;; masters++) {
        assert_status(
            hf_client_survey(client, (size_t)masters, "stock", 5, found, COUNT(found), &count),
            HF_OK);
        if (count == 0)
            break;
        for (size_t i = 0; i < count; i++)
            permissions += strcmp(found[i].subject, "permissions") == 0;
    }
    assert_int_equal(masters, MASTERS);
    assert_int_equal(permissions, 1); /* the lock's own master reports it */
    for (int i = 0; i < NODES; i++)
        assert_int_equal(calls_of(i, "time") - before[i], node_is_master(i));
    assert_status(hf_client_ping(client, &servers), HF_OK);
    assert_int_equal(servers, MASTERS);
    hf_client_close(client);
    assert_status(hf_client_open(url, &lazy, &client), HF_OK);
    assert_status(hf_client_ping(client, &servers), HF_OK);
    assert_in_range(servers, 1, MASTERS); /* perhaps it does not know them all yet */
    hf_client_close(client);
}

static void test_all_are_renewed_whatever_their_slot(void **state) {
    enum { LOCKS = 60 };
    hf_lock *locks[LOCKS];
    hf_hold *holds[LOCKS];
    hf_lock_options options = {.size = sizeof options, .lease_ms = 3600, .renew = HF_ON};
    (void)state;
    client = open_at(url);
    for (int i = 0; i < LOCKS; i++) {
        locks[i] = open_lock(client, text("renewed-%d", i), NULL, &options);
        assert_status(hf_lock_acquire(locks[i], 0, &holds[i]), HF_OK);
    }
    assert_soon(renewals(client) >= 2 * LOCKS);
    for (int i = 0; i < LOCKS; i++) {
        assert_int_equal(hf_hold_state(holds[i]), HF_STATE_HELD);
        assert_status(hf_hold_release(holds[i]), HF_OK);
        hf_hold_close(holds[i]);
        hf_lock_close(locks[i]);
    }
    hf_client_close(client);
}

/* --------------------------------------------------------------- Grants */

enum { TAKERS = 4, SHARES = 9 };

static struct {
    _Atomic int inside;
    _Atomic int64_t fence;
    _Atomic long turns;
} sections[SHARES];
static hf_lock *shared[2][SHARES];
static _Atomic long failures, doubts;
static _Atomic bool done;
static _Atomic bool strict; /* nothing may go wrong: no hold is lost */

typedef struct {
    int client, share;
} taker;

static void *take_turns(void *argument) {
    taker *me = argument;
    hf_hold *hold;
    while (!done) {
        hf_status status = hf_lock_acquire(shared[me->client][me->share], 20000, &hold);
        if (status == HF_OK) {
            int64_t fence = hf_hold_fence(hold);
            bool alone = atomic_fetch_add(&sections[me->share].inside, 1) == 0;
            bool later = atomic_exchange(&sections[me->share].fence, fence) < fence;
            if (strict && !(alone && later)) {
                print_error("two holders of %d, or a fence that fell\n", me->share);
                failures++;
            }
            sections[me->share].turns++;
            sections[me->share].inside--;
            status = hf_hold_release(hold);
            hf_hold_close(hold);
        }
        /* While no node serves the slot, a hold is lost, and a release reaches no node in time. */
        bool down = status == HF_ELOST || status == HF_EUNKNOWN || status == HF_ECONNECT ||
                    (status == HF_ESERVER && strstr(hf_error_message(), "CLUSTERDOWN") != NULL);
        if (down && !strict) {
            doubts++;
        } else if (status != HF_OK) {
            print_error("share %d: %s: %s\n", me->share, hf_status_name(status),
                        hf_error_message());
            failures++;
        }
    }
    return NULL;
}

static long all_turns(void) {
    long sum = 0;
    for (int i = 0; i < SHARES; i++)
        sum += sections[i].turns;
    return sum;
}

/* Check that all shares go on within ms, plus what a pause of the machine adds. */
static void assert_all_go_on(int ms) {
    long before[SHARES];
    int64_t until = now_ms() + ms + 8000;
    for (int i = 0; i < SHARES; i++)
        before[i] = sections[i].turns;
    for (int i = 0; i < SHARES; i++)
        while (sections[i].turns < before[i] + TAKERS) {
            if (now_ms() > until)
                fail_msg("share %d has stood still for %d ms", i, ms);
            sleep_ms(1);
        }
}

static hf_client *clients[2];
static pthread_t takers[SHARES * TAKERS];

/* Start the takers; the names of the shares are spread over all masters. */
static void start_taking(bool nothing_goes_wrong) {
    static taker who[SHARES * TAKERS];
    memset(sections, 0, sizeof sections);
    done = false;
    strict = nothing_goes_wrong;
    hf_lock_options options = {
        .size = sizeof options, .lease_ms = strict ? 3000 : 2000, .renew = HF_ON};
    failures = doubts = 0;
    for (int c = 0; c < 2; c++) {
        if (strict)
            clients[c] = open_at(url);
        else
            assert_status(hf_client_open(url, NULL, &clients[c]), HF_OK);
        for (int i = 0; i < SHARES; i++)
            shared[c][i] = open_lock(clients[c], text("share-%d", i), NULL, &options);
    }
    for (int i = 0; i < SHARES * TAKERS; i++) {
        who[i] = (taker){i % 2, i / TAKERS};
        assert_int_equal(pthread_create(&takers[i], NULL, take_turns, &who[i]), 0);
    }
}

static void stop_taking(void) {
    done = true;
    for (int i = 0; i < SHARES * TAKERS; i++)
        pthread_join(takers[i], NULL);
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i < SHARES; i++)
            hf_lock_close(shared[c][i]);
        hf_client_close(clients[c]);
    }
    assert_int_equal(failures, 0);
}

static void test_grants_come_in_on_all_shards(void **state) {
    (void)state;
    start_taking(true);
    assert_all_go_on(5000);
    assert_soon(all_turns() > 500);
    reset_counts();
    long before = all_turns();
    assert_soon(all_turns() > before + 3000);
    long handoffs = all_turns() - before, commands = all_calls("evalsha") + all_calls("eval");
    long spread = 0;
    for (int i = 0; i < MASTERS; i++)
        spread += calls_of(i, "evalsha") > 0;
    stop_taking();
    print_message("%ld commands for %ld handoffs\n", commands, handoffs);
    assert_int_equal(spread, MASTERS);
    /* A release and an enqueue for each handoff, and a few re-checks. */
    assert_true(commands <= handoffs * 25 / 10);
}

static long channels(void) {
    long sum = 0;
    for (int i = 0; i < NODES; i++) {
        redisReply *reply = tell(nodes[i], "PUBSUB SHARDCHANNELS hf:{many-*");
        sum += reply != NULL ? (long)reply->elements : 0;
    }
    return sum;
}

static hf_client *waited; /* its channels are still subscribed */

static void test_a_thousand_waits_at_once_on_all_shards(void **state) {
    enum { LOCKS = 1000 };
    static hf_lock *theirs[LOCKS];
    static hf_hold *holds[LOCKS];
    hf_client *other;
    (void)state;
    client = open_at(url);
    other = open_at(url);
    for (int i = 0; i < LOCKS; i++) {
        hf_lock *lock = open_lock(client, text("many-%d", i), NULL, NULL);
        theirs[i] = open_lock(other, text("many-%d", i), NULL, NULL);
        assert_status(hf_lock_acquire(lock, 0, &holds[i]), HF_OK);
        hf_lock_close(lock);
    }
    int64_t since = now_ms();
    for (int i = 0; i < LOCKS; i++)
        assert_status(hf_lock_acquire_start(theirs[i], NULL, 0, 30000, NULL, i + 1), HF_OK);
    assert_soon(channels() == LOCKS);
    print_message("%d waits after %lld ms\n", LOCKS, (long long)(now_ms() - since));
    for (int i = 0; i < LOCKS; i++) {
        assert_status(hf_hold_release(holds[i]), HF_OK);
        hf_hold_close(holds[i]);
        hf_lock_close(theirs[i]);
    }
    int won = 0;
    while (won < LOCKS && now_ms() < since + 40000) {
        hf_completion told = {.size = sizeof told};
        assert_status(hf_client_next(other, &told), HF_OK);
        if (told.kind == HF_KIND_NONE) {
            sleep_ms(1);
            continue;
        }
        assert_status(told.status, HF_OK);
        assert_status(hf_hold_release(told.hold), HF_OK);
        hf_hold_close(told.hold);
        won++;
    }
    assert_int_equal(won, LOCKS);
    print_message("and all were granted after %lld ms\n", (long long)(now_ms() - since));
    waited = other;
    hf_client_close(client);
}

/* Some seconds after the test above. */
static void test_channels_that_nobody_waits_on_are_let_go(void **state) {
    (void)state;
    assert_soon(channels() == 0);
    hf_client_close(waited);
}

/* ------------------------------------------------------ Slots that move */

/* The lock, its queue and its last fence move one after the other, with pauses. */
static void test_a_slot_moves_under_load(void **state) {
    static const char *const orders[][3] = {
        {"share-0", ":hf1:q", ":hf1:f"},
        {":hf1:f", ":hf1:q", "share-0"},
    };
    int slot = slot_of("share-0");
    (void)state;
    start_taking(true);
    assert_all_go_on(5000);
    reset_counts();
    for (size_t i = 0; i < COUNT(orders); i++) {
        int from = owner_of(slot), to = (from + 1) % MASTERS;
        begin_moving(slot, from, to);
        for (int step = 0; step < 3; step++) {
            sleep_ms(150);
            move_keys(slot, from, to, orders[i][step]);
        }
        long others = all_turns() - sections[0].turns;
        assert_soon(all_turns() - sections[0].turns > others + 20); /* locks that do not move */
        int64_t moved = now_ms();
        end_moving(slot, from, to);
        assert_int_equal(owner_of(slot), to);
        assert_all_go_on(5000);
        print_message("all go on %lld ms after the move\n", (long long)(now_ms() - moved));
    }
    long asked = all_errors("ASK"), told = all_errors("MOVED"), split = all_errors("TRYAGAIN");
    stop_taking();
    print_message("%ld times ASK, %ld MOVED, %ld TRYAGAIN\n", asked, told, split);
    assert_true(asked > 0 && split > 0);
    assert_true(asked + told + split < 5000);
}

static void await_renewal(void) {
    int64_t before = renewals(client);
    assert_soon(renewals(client) > before);
}

/* H7: a hold is renewed and released while its keys are on two nodes. */
static void test_a_hold_outlives_the_move_of_its_slot(void **state) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = 3000, .renew = HF_ON};
    hf_hold *hold, *next, *none;
    hf_client *other;
    (void)state;
    client = open_at(url);
    assert_soon(hf_client_open(text("%s?connect_timeout=1.5", url), NULL, &other) == HF_OK);
    hf_lock *lock = open_lock(client, "movable", NULL, &options),
            *theirs = open_lock(other, "movable", NULL, NULL);
    int slot = slot_of("movable"), from = owner_of(slot), to = (from + 2) % MASTERS;
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    begin_moving(slot, from, to);
    await_renewal();
    assert_int_equal(move_keys(slot, from, to, "movable"), 1);
    await_renewal();
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_status(hf_hold_renew(hold), HF_OK);
    assert_status(hf_lock_acquire(theirs, 0, &none), HF_ESERVER); /* no node can answer yet */
    assert_message("TRYAGAIN");
    int64_t before = now_ms();
    assert_status(hf_hold_release(hold), HF_OK);
    assert_in_range(now_ms() - before, 0, 5000); /* not the 10 s of a request */
    assert_int_equal(tell(nodes[from], "EXISTS movable")->type, REDIS_REPLY_ERROR);
    end_moving(slot, from, to);
    long told = all_errors("MOVED");
    assert_status(hf_lock_acquire(theirs, 20000, &next), HF_OK);
    assert_int_equal(all_errors("MOVED"), told + 1);
    assert_true(hf_hold_fence(next) > hf_hold_fence(hold));
    assert_status(hf_hold_release(next), HF_OK);
    hf_hold_close(hold);
    hf_hold_close(next);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(other);
    hf_client_close(client);
}

/* As in a failover to a replica that lacked the holds. */
static void test_the_new_node_of_a_slot_is_asked_for_all_holds_there(void **state) {
    static const char *const names[] = {"{asked}kept", "{asked}renewed", "{asked}not"};
    hf_lock *locks[3];
    hf_hold *holds[3];
    int slot = slot_of("{asked}"), from = owner_of(slot), to = (from + 1) % MASTERS;
    (void)state;
    client = open_at(url);
    for (int i = 0; i < 3; i++) {
        locks[i] = lease_lock(client, names[i], 60000, i == 1 ? HF_ON : HF_OFF);
        holds[i] = held(locks[i]);
    }
    begin_moving(slot, from, to);
    assert_int_equal(tell(nodes[from], "DEL {asked}renewed")->integer, 1);
    assert_int_equal(tell(nodes[from], "DEL {asked}not")->integer, 1);
    end_moving(slot, from, to);
    give_back(holds[0], HF_OK); /* the client has learnt of it */
    for (int i = 1; i < 3; i++) {
        assert_soon(hf_hold_state(holds[i]) == HF_STATE_LOST);
        assert_int_equal(hf_hold_cause(holds[i]), HF_CAUSE_GONE);
        hf_hold_close(holds[i]);
    }
    for (int i = 0; i < 3; i++)
        hf_lock_close(locks[i]);
    hf_client_close(client);
}

static void *wait_for_it(void *lock) {
    hf_hold *hold = NULL;
    if (hf_lock_acquire(lock, 30000, &hold) != HF_OK)
        print_error("%s\n", hf_error_message());
    return hold;
}

/* H3: a waiter that sends nothing notices the move only because its subscription ends. */
static void test_a_waiter_goes_with_its_slot(void **state) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = 60000};
    hf_client *other;
    hf_hold *hold;
    void *won;
    pthread_t thread;
    int slot = slot_of("followed"), from = owner_of(slot), to = (from + 1) % MASTERS;
    (void)state;
    client = open_at(url);
    other = open_at(url);
    hf_lock *lock = open_lock(client, "followed", NULL, &options);
    hf_lock *theirs = open_lock(other, "followed", NULL, &options);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, theirs), 0);
    assert_soon(tell(nodes[from], "ZCOUNT {followed}followed:hf1:q 0 9007199254740992")->integer ==
                1);
    begin_moving(slot, from, to);
    end_moving(slot, from, to);
    int64_t moved = now_ms();
    assert_soon(tell(nodes[to], "PUBSUB SHARDCHANNELS hf:{followed}:*")->elements == 1);
    assert_in_range(now_ms() - moved, 0, 2500);
    int64_t before = now_ms();
    assert_status(hf_hold_release(hold), HF_OK);
    pthread_join(thread, &won);
    assert_in_range(now_ms() - before, 0, 2500); /* earlier than at a re-check */
    assert_non_null(won);
    assert_status(hf_hold_release(won), HF_OK);
    hf_hold_close(won);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(other);
    hf_client_close(client);
}

/* Two nodes redirect all clients to each other: no request goes back and forth for ever. */
static void test_redirections_are_limited(void **state) {
    hf_hold *hold;
    hf_completion told = {.size = sizeof told};
    int slot = slot_of("round"), one = owner_of(slot), two = (one + 1) % MASTERS;
    (void)state;
    client = open_at(url);
    hf_lock *lock = open_lock(client, "round", NULL, NULL);
    char *first = strdup(node_id(one)), *second = strdup(node_id(two));
    assert_ok(nodes[one], text("CLUSTER SETSLOT %d NODE %s", slot, second));
    assert_ok(nodes[two], text("CLUSTER SETSLOT %d NODE %s", slot, first));
    long before = all_errors("MOVED");
    int64_t since = now_ms();
    hf_status status = hf_lock_acquire(lock, 0, &hold);
    int64_t took = now_ms() - since;
    long moved = all_errors("MOVED") - before;
    assert_true(hf_client_fd(client) >= 0);
    hf_status started = hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1);
    do {
        sleep_ms(1);
        hf_client_next(client, &told);
    } while (told.kind == HF_KIND_NONE && now_ms() < since + 40000);
    long again = all_errors("MOVED") - before - moved;
    assert_ok(nodes[one], text("CLUSTER SETSLOT %d NODE %s", slot, first));
    assert_ok(nodes[two], text("CLUSTER SETSLOT %d NODE %s", slot, first));
    free(first);
    free(second);
    assert_status(status, HF_ESERVER);
    assert_message("redirected 16 times");
    assert_in_range(moved, 16, 18);
    assert_in_range(again, 16, 18);
    assert_in_range(took, 100, 8000);
    assert_status(started, HF_OK);
    assert_status(told.status, HF_ESERVER);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_status(hf_hold_release(hold), HF_OK);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

/* -------------------------------------------------- Masters that fail */

static void await_replica(int which) {
    assert_soon(node_follows(which));
    await_cluster();
}

static void test_a_failover_by_hand_loses_nothing(void **state) {
    int master = owner_of(slot_of("share-0")), replica = (master + MASTERS) % NODES;
    (void)state;
    start_taking(true);
    assert_all_go_on(5000);
    assert_ok(nodes[replica], "CLUSTER FAILOVER");
    assert_soon(node_is_master(replica) && !node_is_master(master));
    int64_t named = now_ms();
    assert_all_go_on(4000);
    print_message("all go on %lld ms after it\n", (long long)(now_ms() - named));
    stop_taking();
    await_replica(master);
}

/* Stop a master: the client gets READONLY, CLUSTERDOWN or no answer at all. */
static void fall(bool killed) {
    set_node_timeout(1000);
    int master = owner_of(slot_of("share-0")), replica = (master + MASTERS) % NODES;
    hf_hold *hold;
    start_taking(false);
    hf_lock_options options = {.size = sizeof options, .replicas = 1, .replica_timeout_ms = 3000};
    hf_lock *kept = open_lock(clients[0], "{share-0}:kept", NULL, &options);
    assert_status(hf_lock_acquire(kept, 0, &hold), HF_OK);
    assert_all_go_on(5000);
    reset_counts();
    if (killed)
        stop_server(&node_pids[master]);
    else
        kill(node_pids[hung = master], SIGSTOP);
    int64_t fell = now_ms();
    assert_soon(node_is_master(replica));
    int64_t named = now_ms();
    assert_all_go_on(killed ? 3000 : 6000);
    print_message("all go on %lld ms after the replica became master\n",
                  (long long)(now_ms() - named));
    long asked = all_calls("cluster|slots"), took = now_ms() - fell;
    print_message("%ld times asked for the slots, %ld in doubt or lost\n", asked, doubts);
    if (killed)
        start_node(master);
    else
        kill(node_pids[master], SIGCONT);
    hung = -1;
    assert_all_go_on(4000);
    assert_in_range(asked, 1, 2 * (took / 80 + 20)); /* two clients ask, and neither in a hurry */
    assert_status(hf_hold_renew(hold), HF_OK);       /* it was replicated, and still stands */
    assert_status(hf_hold_release(hold), HF_OK);
    hf_hold_close(hold);
    hf_lock_close(kept);
    stop_taking();
    await_replica(master);
    set_node_timeout(15000);
}

static void test_waits_go_on_when_a_master_is_killed(void **state) {
    (void)state;
    fall(true);
}

static void test_waits_go_on_when_a_master_hangs(void **state) {
    (void)state;
    fall(false);
}

/* --------------------------------------------------- A Cluster of one node */

/* The node does not know its own address, because it has met no other node: CLUSTER SLOTS names no
 * host. */
enum { WITHOUT_SHARDED_CHANNELS, WITH_TLS, LONE };
static int lone_ports[LONE], tls_port;
static pid_t lone_pids[LONE];

static void start_lone_node(int which) {
    const char *port = number(lone_ports[which]);
    if (which == WITHOUT_SHARDED_CHANNELS) {
        lone_pids[which] =
            START("--port", port, "--save", "", "--cluster-enabled", "yes", "--cluster-config-file",
                  "lone-0.conf", "--rename-command", "SSUBSCRIBE", "");
        return;
    }
    tls_port = free_port();
    lone_pids[which] =
        START("--port", port, "--save", "", "--cluster-enabled", "yes", "--cluster-config-file",
              "lone-1.conf", "--tls-port", number(tls_port), "--tls-cert-file", "good.pem",
              "--tls-key-file", "good.key", "--tls-ca-cert-file", "ca.pem", "--tls-auth-clients",
              "no", "--tls-cluster", "yes");
}

static void start_lone(void) {
    const char *here = "DNS:localhost,IP:127.0.0.1";
    identity authority = make_identity("test authority", NULL, NULL, 10);
    identity good = make_identity("server", here, &authority, 10);
    save(&authority, "ca");
    save(&good, "good");
    drop(&authority);
    drop(&good);
    for (int i = 0; i < LONE; i++) {
        do {
            lone_ports[i] = free_port();
            start_lone_node(i);
        } while (!came_up(&lone_pids[i], lone_ports[i]));
        serve(lone_ports[i], 0, SLOTS - 1);
    }
}

/* Let a client wait for the other's lock; return the ms from the release to its grant. */
static int64_t hand_over(const char *at, int queue_port, bool queues) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = 3000, .renew = HF_ON};
    hf_client *other;
    hf_hold *hold;
    void *won;
    pthread_t thread;
    client = open_at(at);
    other = open_at(at);
    hf_lock *lock = open_lock(client, "lone", NULL, &options),
            *theirs = open_lock(other, "lone", NULL, NULL);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, theirs), 0);
    if (queue_port > 0)
        assert_soon(tell(queue_port, "ZCOUNT {lone}lone:hf1:q 0 9007199254740992")->integer ==
                    queues);
    assert_soon(renewals(client) > 0);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    int64_t before = now_ms();
    assert_status(hf_hold_release(hold), HF_OK);
    pthread_join(thread, &won);
    int64_t took = now_ms() - before;
    assert_non_null(won);
    assert_true(hf_hold_fence(won) > hf_hold_fence(hold));
    assert_status(hf_hold_release(won), HF_OK);
    hf_hold_close(won);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_lock_close(theirs);
    hf_client_close(other);
    hf_client_close(client);
    return took;
}

/* As on Redis 6.2. */
static void test_without_sharded_channels_they_poll(void **state) {
    int port = lone_ports[WITHOUT_SHARDED_CHANNELS];
    (void)state;
    assert_in_range(hand_over(text("redis+cluster://127.0.0.1:%d", port), 0, false), 0, 1800);
    assert_int_equal(tell(port, "EXISTS {lone}lone:hf1:q")->integer, 0);
    redisReply *stats = tell(port, "INFO commandstats");
    assert_non_null(strstr(stats->str, "cmdstat_evalsha"));
}

static void test_a_cluster_over_tls_with_a_password(void **state) {
    (void)state;
    int port = lone_ports[WITH_TLS];
    assert_ok(port, "CONFIG SET requirepass hunter2");
    const char *at =
        text("rediss+cluster://:hunter2@127.0.0.1:%d?tls_ca=%s/ca.pem", tls_port, folder);
    assert_in_range(hand_over(at, 0, true), 0, 1800);
    assert_status(
        hf_client_open(text("rediss+cluster://127.0.0.1:%d?tls_ca=%s/ca.pem", tls_port, folder),
                       NULL, &client),
        HF_EAUTH);
    assert_status(
        hf_client_open(text("rediss+cluster://:hunter2@127.0.0.1:%d", tls_port), NULL, &client),
        HF_ECONNECT);
    assert_message("certificate");
}

/* Closing a client releases its holds on all shards. */
static void test_a_close_releases_on_all_shards(void **state) {
    enum { LOCKS = 120 };
    (void)state;
    int slot = slot_of("left-7"), from = owner_of(slot), to = (from + 1) % MASTERS;
    for (int round = 0; round < 2; round++) {
        client = open_at(url);
        for (int i = 0; i < LOCKS; i++) {
            hf_lock *lock = open_lock(client, text("left-%d", i), NULL, NULL);
            assert_status(hf_lock_acquire(lock, 0, NULL), HF_OK);
            hf_lock_close(lock);
        }
        if (round == 0) { /* also while a slot is moving */
            begin_moving(slot, from, to);
            assert_int_equal(move_keys(slot, from, to, "left-7"), 1);
        }
        hf_client_close(client);
        if (round == 0)
            end_moving(slot, from, to);
    }
}

/* Several locks, each on another master; one master does not answer for a while. */
static void test_several_locks_of_all_masters_are_all_or_none(void **state) {
    static const hf_client_options brief = {
        .size = sizeof brief, .connect_timeout_ms = 1500, .command_timeout_ms = 1000};
    hf_lock *locks[MASTERS], *theirs[MASTERS];
    hf_hold *holds[MASTERS];
    hf_client *other;
    int owners[MASTERS];
    (void)state;
    assert_soon(hf_client_open(url, &brief, &client) == HF_OK);
    other = open_at(url);
    for (int found = 0, i = 0; found < MASTERS; i++) { /* in the order of their names */
        const char *name = text("several-%c", 'a' + i);
        int owner = owner_of(slot_of(name));
        bool had = false;
        for (int at = 0; at < found; at++)
            had = had || owners[at] == owner;
        if (had)
            continue;
        assert_in_range(i, 0, 25);
        locks[found] = open_lock(client, name, NULL, NULL);
        theirs[found] = open_lock(other, name, NULL, NULL);
        owners[found++] = owner;
    }
    for (int round = 0; round < 2; round++) {
        assert_soon(hf_lock_acquire_all(locks, MASTERS, NULL, 0, 5000, NULL, holds) == HF_OK);
        for (int i = 0; i < MASTERS; i++) {
            assert_status(hf_lock_acquire(theirs[i], 0, NULL), HF_EBUSY);
            assert_status(hf_hold_release(holds[i]), HF_OK);
            hf_hold_close(holds[i]);
        }
        if (round == 1)
            break;
        kill(node_pids[owners[1]], SIGSTOP);
        hf_status status = hf_lock_acquire_all(locks, MASTERS, NULL, 0, 0, NULL, holds);
        kill(node_pids[owners[1]], SIGCONT);
        assert_true(status == HF_ECONNECT || status == HF_EUNKNOWN); /* no client has it */
        assert_null(holds[0]);
        for (int i = 0; i < MASTERS; i++) { /* long before a lease ends */
            assert_status(hf_lock_acquire(theirs[i], 20000, &holds[i]), HF_OK);
            assert_status(hf_hold_release(holds[i]), HF_OK);
            hf_hold_close(holds[i]);
        }
    }
    for (int i = 0; i < MASTERS; i++) {
        hf_lock_close(locks[i]);
        hf_lock_close(theirs[i]);
    }
    hf_client_close(client);
    hf_client_close(other);
}

/* -------------------------------------------------------------- Mistakes */

static void test_unreachable_seeds_are_said(void **state) {
    (void)state;
    assert_status(
        hf_client_open(text("redis+cluster://127.0.0.1:%d,127.0.0.1:%d", free_port(), free_port()),
                       NULL, &client),
        HF_ECONNECT);
    assert_message("refused");
    client = open_at(text("redis://127.0.0.1:%d", nodes[0]));
    hf_hold *hold;
    int strangers = 0;
    for (int i = 0; i < 20; i++) {
        hf_lock *lock = open_lock(client, text("stranger-%d", i), NULL, NULL);
        hf_status status = hf_lock_acquire(lock, 0, &hold);
        if (status != HF_OK) {
            assert_int_equal(status, HF_EUNSUPPORTED);
            assert_message("redis+cluster://");
            strangers++;
        } else {
            hf_hold_close(hold);
        }
        hf_lock_close(lock);
    }
    assert_in_range(strangers, 1, 19);
    hf_client_close(client);
}

static int start_all(void **state) {
    if (open_folder(state) != 0)
        return 1;
    alarm(60);
    start_lone();
    start_cluster();
    for (int i = 0; i < LONE; i++)
        assert_soon(strstr(tell(lone_ports[i], "CLUSTER INFO")->str, "cluster_state:ok") != NULL);
    url = strdup(text("redis+cluster://127.0.0.1:%d,127.0.0.1:%d", nodes[0], nodes[1]));
    return 0;
}

static int stop_all(void **state) {
    free(url);
    for (int i = 0; i < LONE; i++)
        stop_server(&lone_pids[i]);
    stop_cluster();
    return remove_folder(state);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_unreachable_seeds_are_said, begin),
        cmocka_unit_test_setup(test_a_thousand_locks_on_all_shards_from_one_client, begin),
        cmocka_unit_test_setup(test_a_ping_and_a_survey_ask_each_master, begin),
        cmocka_unit_test_setup(test_all_are_renewed_whatever_their_slot, begin),
        cmocka_unit_test_setup(test_grants_come_in_on_all_shards, begin),
        cmocka_unit_test_setup(test_a_thousand_waits_at_once_on_all_shards, begin),
        cmocka_unit_test_setup(test_a_close_releases_on_all_shards, begin),
        cmocka_unit_test_setup(test_several_locks_of_all_masters_are_all_or_none, begin),
        cmocka_unit_test_setup(test_without_sharded_channels_they_poll, begin),
        cmocka_unit_test_setup(test_a_cluster_over_tls_with_a_password, begin),
        cmocka_unit_test_setup(test_a_slot_moves_under_load, begin),
        cmocka_unit_test_setup(test_a_hold_outlives_the_move_of_its_slot, begin),
        cmocka_unit_test_setup(test_the_new_node_of_a_slot_is_asked_for_all_holds_there, begin),
        cmocka_unit_test_setup(test_channels_that_nobody_waits_on_are_let_go, begin),
        cmocka_unit_test_setup(test_a_waiter_goes_with_its_slot, begin),
        cmocka_unit_test_setup(test_redirections_are_limited, begin),
        cmocka_unit_test_setup(test_a_failover_by_hand_loses_nothing, begin),
        cmocka_unit_test_setup(test_waits_go_on_when_a_master_is_killed, begin),
        cmocka_unit_test_setup(test_waits_go_on_when_a_master_hangs, begin),
    };
    if (count > 1)
        cmocka_set_test_filter(words[1]);
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
