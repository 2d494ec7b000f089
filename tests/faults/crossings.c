/* Two events at once, and a server that behaves oddly for a moment: faults that once existed, each
 * with the order of events that showed it. */
#include "faults.h"

static hf_client *ann, *ben;

static int set_up(void **state) {
    int failed = begin_fault(state);
    ann = open_client();
    ben = open_client();
    return failed;
}

static int tear_down(void **state) {
    (void)state;
    TELL("CLIENT UNPAUSE");
    hf_client_close(ann);
    hf_client_close(ben);
    return 0;
}

static hf_lock *lock_for(hf_client *client, const char *name, const char *owner, int64_t lease_ms) {
    return open_lock(client, name, owner, OPTIONS(.lease_ms = lease_ms, .renew = HF_OFF));
}

/* The holder's lease and the waiter's time end together: the re-check is due when the cancel is
 * sent. The re-check must not take a lock for which no caller waits. */
static void *let_it_end(void *number) {
    for (int i = 0; i < 30; i++) {
        char name[40];
        snprintf(name, sizeof name, "race-%ld-%d", (long)(intptr_t)number, i);
        hf_lock *held = lock_for(ann, name, "ann", 60),
                *wanted = lock_for(ben, name, "ben", HF_NEVER);
        hf_hold *first, *second;
        /* On a busy machine the lease may end before the client knows that it has the lock. */
        bool got = hf_lock_acquire(held, 0, &first) == HF_OK;
        if (got && hf_lock_acquire(wanted, 60 + i % 5, &second) == HF_OK) {
            must_be(hf_hold_release(second), HF_OK);
            hf_hold_close(second);
        }
        hf_hold_close(first);
        hf_lock_close(held);
        hf_lock_close(wanted);
    }
    return NULL;
}

static void test_a_timeout_that_meets_the_end_of_the_lease_leaves_nothing_behind(void **state) {
    pthread_t threads[16];
    (void)state;
    for (intptr_t i = 0; i < 16; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, let_it_end, (void *)i), 0);
    for (int i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    sleep_ms(200);
    assert_nothing_left();
}

/* Two threads of one owner release at once: two holds end, not one hold twice. */
static pthread_barrier_t together;

static void *take_and_release(void *lock) {
    for (int i = 0; i < 300; i++) {
        must_be(hf_lock_acquire(lock, 5000, NULL), HF_OK);
        pthread_barrier_wait(&together);
        must_be(hf_lock_release(lock), HF_OK);
        pthread_barrier_wait(&together);
    }
    return NULL;
}

static void test_releases_at_once_end_a_hold_each(void **state) {
    hf_lock *lock = lock_for(ann, "shared", "one for all", 0);
    (void)state;
    pthread_barrier_init(&together, NULL, 8);
    run_together(8, take_and_release, lock, 0);
    pthread_barrier_destroy(&together);
    assert_int_equal(hf_lock_count_as(lock, NULL, 0), 0);
    assert_nothing_left();
    hf_lock_close(lock);
}

/* C4 d, C7: a replacement of the lease without an answer may arrive late; the server then has less
 * than later requests asked for. */
static void test_a_replacement_that_may_come_late_bounds_what_is_certain(void **state) {
    proxy *way = proxy_start();
    hf_client *cid;
    hf_hold *hold;
    (void)state;
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", way->port), NULL, &cid), HF_OK);
    hf_lock *lock = lock_for(cid, "stock", "cid", 60000);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_status(hf_hold_renew(hold), HF_OK); /* the server knows the script now */
    atomic_store(&way->next, LATE_REQUEST);
    assert_status(hf_hold_extend(hold, 2000, 1), HF_OK);
    assert_status(hf_hold_extend(hold, 60000, 1), HF_OK);
    assert_in_range(hf_hold_remaining_ms(hold), 1, 2000);
    proxy_deliver(way); /* as it does now */
    assert_in_range(NUMBER("PTTL stock"), 1, 2000);
    assert_true(hf_hold_remaining_ms(hold) <= NUMBER("PTTL stock"));
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(cid);
    proxy_stop(way);
}

/* H5: whatever permission is missing, an acquire is complete or does nothing. */
static void test_a_missing_permission_leaves_no_half_lock(void **state) {
    static const char *const missing[] = {"pexpire", "pexpireat", "set",  "hset", "get",
                                          "exists",  "time",      "hget", "del"};
    (void)state;
    for (size_t i = 0; i < COUNT(missing); i++) {
        hf_client *cid;
        hf_hold *hold;
        TELL("ACL SETUSER cid on >secret ~* &* +@all -%s", missing[i]);
        assert_status(hf_client_open(text("unix://cid:secret@%s", unix_url() + strlen("unix://")),
                                     NULL, &cid),
                      HF_OK);
        hf_lock *lock = lock_for(cid, "stock", NULL, 60000);
        hf_status status = hf_lock_acquire(lock, 0, &hold);
        if (status == HF_OK)
            hf_hold_release(hold), hf_hold_close(hold);
        else
            assert_status(status, HF_ESERVER);
        if (strcmp(missing[i], "del") != 0) /* without DEL no lock can be released */
            assert_int_equal(NUMBER("EXISTS stock"), 0);
        hf_lock_close(lock);
        hf_client_close(cid);
        TELL("ACL DELUSER cid");
        TELL("FLUSHALL");
    }
}

static void test_a_releaser_who_may_not_ask_who_listens_leaves_the_queue_alone(void **state) {
    hf_client *cid;
    hf_hold *hold;
    (void)state;
    TELL("ACL SETUSER cid on >secret ~* &* +@all -pubsub");
    assert_status(
        hf_client_open(text("unix://cid:secret@%s", unix_url() + strlen("unix://")), NULL, &cid),
        HF_OK);
    hf_lock *theirs = lock_for(cid, "stock", "cid", 60000),
            *mine = lock_for(ann, "stock", "ann", 60000);
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    waiter *w = waiter_start(mine, 20000);
    assert_soon(queued("stock") == 1);
    give_back(hold, HF_OK);
    assert_true(queued("stock") == 1 || w->done);
    waiter_join(w, HF_OK); /* by its re-check */
    give_back(w->hold, HF_OK);
    hf_lock_close(theirs);
    hf_lock_close(mine);
    hf_client_close(cid);
    TELL("ACL DELUSER cid");
}

/* C4: an answer from before a replacement does not show the time that is left after it. */
static void test_a_renewal_that_is_answered_after_a_replacement_does_not_count(void **state) {
    proxy *way = proxy_start();
    hf_client *cid;
    hf_hold *hold;
    (void)state;
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", way->port), NULL, &cid), HF_OK);
    hf_lock *lock = lock_for(cid, "stock", "cid", 60000);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_status(hf_hold_extend(hold, 1000, 0), HF_OK);
    assert_status(hf_hold_check_start(hold, 1), HF_OK); /* its connection is there */
    assert_int_equal(next_of(cid).op, 1);
    sleep_ms(20);
    atomic_store(&way->next, LATE_REPLY);
    assert_status(hf_hold_renew_start(hold, 2), HF_OK);
    assert_soon(atomic_load(&way->next) == PASS);
    sleep_ms(20); /* until the server has it */
    assert_status(hf_hold_extend(hold, 2000, 1), HF_OK);
    hf_completion late = next_of(cid);
    assert_int_equal(late.op, 2);
    assert_status(late.status, HF_OK);
    assert_in_range(NUMBER("PTTL stock"), 1, 2000);
    assert_in_range(hf_hold_remaining_ms(hold), 1, 2000);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(cid);
    proxy_stop(way);
}

/* The answer shows the time from before another program shortened the hold. */
static void test_a_renewal_that_crosses_a_cut_by_another_program_does_not_count(void **state) {
    proxy *way = proxy_start();
    hf_client *cid;
    hf_hold *hold;
    (void)state;
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", way->port), NULL, &cid), HF_OK);
    hf_lock *lock = lock_for(cid, "stock", "cid", 60000);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_status(hf_hold_check_start(hold, 1), HF_OK); /* its connection is there */
    assert_int_equal(next_of(cid).op, 1);
    TELL("PEXPIRE stock 50000");
    atomic_store(&way->next, LATE_REPLY);
    assert_status(hf_hold_renew_start(hold, 2), HF_OK);
    assert_soon(NUMBER("PTTL stock") > 55000); /* the server has it */
    TELL("PEXPIRE stock 2000");
    assert_status(hf_hold_check(hold), HF_OK);
    assert_int_equal(next_of(cid).op, 2);
    assert_in_range(hf_hold_remaining_ms(hold), 1, 2000);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_client_close(cid);
    proxy_stop(way);
}

/* C4 d: two replacements of a lease are under way at once, one through the pool and one through the
 * keeper. In whatever order they are sent, carried out and answered, the client never counts on
 * more than the server has. */
enum { SHORT_MS = 400, LONG_MS = 4000 };

typedef struct crossing {
    hf_hold *hold;
    bool first_started;   /* through the keeper; the second through the pool */
    bool carried_in_turn; /* the first is carried out first; else the second */
    bool answered_in_turn;
    int64_t first_ms, second_ms;
} crossing;

typedef struct replacement {
    hf_hold *hold;
    int64_t ms;
    pthread_t thread;
} replacement;

static void *replace(void *argument) {
    const replacement *r = argument;
    hf_status status = hf_hold_extend(r->hold, r->ms, 1);
    must(status == HF_OK || status == HF_ELOST); /* on a busy machine the lease may have ended */
    return NULL;
}

static void replace_start(replacement *r, hf_hold *hold, int64_t ms, bool started) {
    *r = (replacement){.hold = hold, .ms = ms};
    if (started)
        assert_status(hf_hold_extend_start(hold, ms, 1, 7), HF_OK);
    else
        must(pthread_create(&r->thread, NULL, replace, r) == 0);
}

static void replace_end(hf_client *cid, replacement *r) {
    if (r->thread != 0)
        pthread_join(r->thread, NULL);
    else
        assert_int_equal(next_of(cid).op, 7);
}

static void carried_out(int64_t ms) {
    int64_t left;
    assert_soon((left = NUMBER("PTTL stock")) <= ms && left > ms - SHORT_MS);
}

static void cross(proxy *way, hf_client *cid, const crossing *c) {
    replacement first, second;
    int mishaps = atomic_load(&way->mishaps);
    proxy_next(way, c->carried_in_turn ? HOLD_REPLY : HOLD_REQUEST, NULL);
    replace_start(&first, c->hold, c->first_ms, c->first_started);
    assert_soon(atomic_load(&way->mishaps) == mishaps + 1);
    if (c->carried_in_turn)
        carried_out(c->first_ms);
    if (c->answered_in_turn)
        proxy_next(way, HOLD_REPLY, NULL);
    replace_start(&second, c->hold, c->second_ms, !c->first_started);
    if (c->answered_in_turn)
        carried_out(c->second_ms);
    else
        replace_end(cid, &second);
    atomic_store(&way->holds_request, false);
    if (!c->answered_in_turn)
        atomic_store(&way->holds_reply, false);
    replace_end(cid, &first);
    atomic_store(&way->holds_reply, false);
    if (c->answered_in_turn)
        replace_end(cid, &second);
}

/* Compare with the server's time from before the client's was read. */
static bool more_here_than_there(const hf_hold *hold) {
    hf_lock *theirs = lock_for(ben, "stock", "ben", 60000);
    hf_hold *other = NULL;
    bool more = false;
    for (int64_t until = now_ms() + SHORT_MS + 200; other == NULL && now_ms() < until;
         sleep_ms(1)) {
        int64_t there = NUMBER("PTTL stock");
        bool taken = hf_lock_acquire(theirs, 0, &other) == HF_OK;
        int64_t here = hf_hold_remaining_ms(hold);
        more = more || (here > 0 && (taken || here > there));
    }
    if (other != NULL)
        give_back(other, HF_OK);
    hf_lock_close(theirs);
    return more;
}

static bool goes_wrong(crossing c) {
    proxy *way = proxy_start();
    hf_client *cid;
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", way->port), NULL, &cid), HF_OK);
    hf_lock *lock = lock_for(cid, "stock", "cid", 60000);
    assert_status(hf_lock_acquire(lock, 0, &c.hold), HF_OK);
    assert_status(hf_hold_check_start(c.hold, 1), HF_OK); /* its connection is there */
    assert_int_equal(next_of(cid).op, 1);
    cross(way, cid, &c);
    bool wrong = more_here_than_there(c.hold);
    if (wrong)
        print_error("%lld, then %lld ms, the %s by the keeper, carried out %s, answered %s\n",
                    (long long)c.first_ms, (long long)c.second_ms,
                    c.first_started ? "first" : "second", c.carried_in_turn ? "so" : "turned round",
                    c.answered_in_turn ? "so" : "turned round");
    hf_hold_close(c.hold);
    hf_lock_close(lock);
    hf_client_close(cid);
    proxy_stop(way);
    TELL("FLUSHALL");
    return wrong;
}

static void test_replacements_that_cross_never_leave_two_holders(void **state) {
    static const bool orders[][2] = {{true, false}, {false, false}, {false, true}};
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < COUNT(orders); i++)
        for (int turned = 0; turned < 2; turned++)
            for (int started = 0; started < 2; started++)
                wrong += goes_wrong((crossing){.first_started = started,
                                               .carried_in_turn = orders[i][0],
                                               .answered_in_turn = orders[i][1],
                                               .first_ms = turned ? SHORT_MS : LONG_MS,
                                               .second_ms = turned ? LONG_MS : SHORT_MS});
    assert_int_equal(wrong, 0);
}

/* The next holder would count on more than a late copy leaves on the server. */
static void test_what_a_replacement_may_still_shorten_is_not_handed_over(void **state) {
    proxy *way = proxy_start();
    char token[HF_TOKEN_MAX];
    size_t length;
    hf_client *cid;
    hf_hold *hold, *theirs = NULL;
    (void)state;
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", way->port), NULL, &cid), HF_OK);
    hf_lock *lock = lock_for(cid, "stock", "cid", 60000);
    hf_lock *other = lock_for(ben, "stock", NULL, 60000);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_status(hf_hold_renew(hold), HF_OK); /* the server knows the script now */
    atomic_store(&way->next, LATE_REQUEST);
    assert_status(hf_hold_extend(hold, 2000, 1), HF_OK);
    hf_status status = hf_hold_hand_over(hold, token, sizeof token, &length);
    if (status == HF_OK)
        assert_status(hf_lock_adopt(other, token, length, &theirs), HF_OK);
    proxy_deliver(way);
    assert_true(hf_hold_remaining_ms(theirs != NULL ? theirs : hold) <= NUMBER("PTTL stock"));
    assert_status(status, HF_EUNKNOWN);
    give_back(hold, HF_OK); /* as before */
    hf_lock_close(lock);
    hf_lock_close(other);
    hf_client_close(cid);
    proxy_stop(way);
}

/* Nor is it kept if it may then be kept for less. */
static void test_what_a_replacement_may_still_shorten_is_not_kept_for_longer(void **state) {
    proxy *way = proxy_start();
    hf_client *cid;
    hf_hold *hold;
    (void)state;
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", way->port), NULL, &cid), HF_OK);
    hf_lock *lock = lock_for(cid, "stock", "cid", 60000);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_status(hf_hold_renew(hold), HF_OK); /* the server knows the script now */
    atomic_store(&way->next, LATE_REQUEST);
    assert_status(hf_hold_extend(hold, 2000, 1), HF_OK);
    assert_status(hf_hold_keep(hold, 60000), HF_EUNKNOWN);
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    assert_status(hf_hold_keep(hold, 1500), HF_OK);
    proxy_deliver(way); /* the replacement, which does not change a kept hold */
    assert_in_range(NUMBER("PTTL stock"), 1, 1500);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(cid);
    proxy_stop(way);
    TELL("DEL stock");
}

/* The keep's request is late, or its answer is lost: it is sent again. */
static void test_a_keep_without_an_answer_is_repeated(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        proxy *way = proxy_start();
        hf_client *cid;
        hf_hold *hold, *none;
        assert_status(hf_client_open(text("redis://127.0.0.1:%d", way->port), NULL, &cid), HF_OK);
        hf_lock *lock = lock_for(cid, "stock", "cid", 5000);
        assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
        assert_status(hf_hold_renew(hold), HF_OK); /* the server knows the script now */
        atomic_store(&way->next, i == 0 ? LATE_REQUEST : LOSE_REPLY);
        assert_status(hf_hold_keep(hold, 60000), HF_OK);
        assert_int_equal(hf_hold_state(hold), HF_STATE_RELEASED);
        if (i == 0)
            proxy_deliver(way);
        hf_hold_close(hold);
        hf_lock_close(lock);
        hf_client_close(cid);
        hf_lock *other = lock_for(ben, "stock", NULL, 60000);
        assert_status(hf_lock_acquire(other, 0, &none), HF_EBUSY);
        assert_in_range(NUMBER("PTTL stock"), 50000, 60000);
        hf_lock_close(other);
        proxy_stop(way);
        TELL("DEL stock");
    }
}

static void test_a_hold_whose_lease_is_being_replaced_is_not_handed_over(void **state) {
    char token[HF_TOKEN_MAX];
    size_t length;
    hf_hold *hold;
    (void)state;
    hf_lock *lock = lock_for(ann, "stock", "ann", 60000);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_true(hf_client_fd(ann) >= 0);
    TELL("CLIENT PAUSE 200 ALL");
    assert_status(hf_hold_extend_start(hold, 2000, 1, 9), HF_OK);
    assert_status(hf_hold_hand_over(hold, token, sizeof token, &length), HF_EUNKNOWN);
    hf_completion next = next_of(ann);
    assert_int_equal(next.op, 9);
    assert_status(next.status, HF_OK);
    assert_status(hf_hold_hand_over(hold, token, sizeof token, &length), HF_OK);
    assert_status(hf_hold_extend(hold, 1000, 1), HF_ENOTHELD);
    hf_hold_close(hold);
    hf_lock_close(lock);
    TELL("DEL stock");
}

/* For a thread sanitizer: a replacement sets the lease that renewals ask for. */
static void *renew_often(void *hold) {
    for (int i = 0; i < 50; i++)
        must_be(hf_hold_renew(hold), HF_OK);
    return NULL;
}

static void test_renewals_and_replacements_may_be_made_at_once(void **state) {
    hf_hold *hold;
    pthread_t thread;
    (void)state;
    hf_lock *lock = lock_for(ann, "stock", "ann", 60000);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_int_equal(pthread_create(&thread, NULL, renew_often, hold), 0);
    for (int i = 0; i < 50; i++)
        assert_status(hf_hold_extend(hold, 50000 + i, 1), HF_OK);
    pthread_join(thread, NULL);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
}

/* The lease ends before its answer arrives: the acquire ends nevertheless. */
static void test_a_started_try_that_is_answered_too_late_is_busy(void **state) {
    hf_lock *lock = lock_for(ann, "stock", "ann", 10);
    (void)state;
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 1), HF_OK);
    hf_completion first = next_of(ann); /* connected from now on */
    hf_hold_close(first.hold);
    assert_soon(NUMBER("EXISTS stock") == 0);
    TELL("CLIENT PAUSE 200 ALL");
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 7), HF_OK);
    hf_completion next = next_of(ann);
    assert_int_equal(next.op, 7);
    assert_int_equal(next.status, HF_EBUSY);
    hf_lock_close(lock);
}

static void test_closing_under_a_started_try_ends_it_once(void **state) {
    hf_client *cid = open_client();
    hf_lock *lock = lock_for(cid, "stock", NULL, 0);
    (void)state;
    assert_true(hf_client_fd(cid) >= 0);
    TELL("CLIENT PAUSE 500 ALL");
    assert_status(hf_lock_acquire_start(lock, NULL, 0, 0, NULL, 5), HF_OK);
    sleep_ms(50);
    hf_client_close(cid);
    hf_completion next = next_of(cid);
    assert_int_equal(next.kind, HF_KIND_ACQUIRE);
    assert_int_equal(next.op, 5);
    next = (hf_completion){.size = sizeof next};
    assert_status(hf_client_next(cid, &next), HF_ECLOSED);
    hf_lock_close(lock);
}

static void *release_meanwhile(void *hold) {
    hf_hold_release(hold);
    return NULL;
}

/* The request is lost on the way; meanwhile the client is closed. */
static void test_a_release_that_fails_while_its_client_closes_is_made_all_the_same(void **state) {
    hf_client_options options = {.size = sizeof options, .command_timeout_ms = 500};
    (void)state;
    for (int started = 0; started < 2; started++) {
        proxy *way = proxy_start();
        hf_client *cid;
        pthread_t thread;
        hf_hold *hold, *next = NULL;
        assert_status(hf_client_open(text("redis://127.0.0.1:%d", way->port), &options, &cid),
                      HF_OK);
        hf_lock *lock = lock_for(cid, "stock", "cid", 60000),
                *theirs = lock_for(ben, "stock", "ben", 60000);
        assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
        assert_status(hf_hold_check_start(hold, 1), HF_OK); /* its connection is there */
        assert_int_equal(next_of(cid).op, 1);
        proxy_next(way, GO_DEAD, NULL);
        if (started)
            assert_status(hf_hold_release_start(hold, 2), HF_OK);
        else
            assert_int_equal(pthread_create(&thread, NULL, release_meanwhile, hold), 0);
        assert_soon(atomic_load(&way->mishaps) == 1);
        hf_client_close(cid);
        if (!started)
            pthread_join(thread, NULL);
        hf_status status = hf_lock_acquire(theirs, 3000, &next);
        hf_hold_close(hold);
        hf_lock_close(lock);
        proxy_stop(way);
        if (status != HF_OK)
            fail_msg("a %s release was dropped", started ? "started" : "waiting");
        give_back(next, HF_OK);
        hf_lock_close(theirs);
    }
}

/* A subscription that stayed would make the client's dead waiters look alive. */
static void test_a_closed_client_listens_no_more(void **state) {
    hf_client *cid = open_client();
    hf_lock *lock = lock_for(cid, "stock", "cid", 60000),
            *theirs = lock_for(ben, "stock", "ben", 60000);
    hf_hold *hold;
    (void)state;
    assert_status(hf_lock_acquire(theirs, 0, &hold), HF_OK);
    assert_status(hf_lock_acquire(lock, 50, NULL), HF_ETIMEOUT);
    assert_int_equal(TELL("PUBSUB CHANNELS")->elements, 1);
    hf_client_close(cid); /* while its lock is still open */
    assert_soon(TELL("PUBSUB CHANNELS")->elements == 0);
    give_back(hold, HF_OK);
    hf_lock_close(lock);
    hf_lock_close(theirs);
}

/* No renewal has reported the loss yet. Seed 652: also for the grant of a shared hold. */
static void test_the_next_grant_ends_what_was_lost_and_all_that_nested_in_it(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(ann, "k", 60000, HF_OFF);
    hf_lock *reads =
        open_lock(ann, "k", NULL, OPTIONS(.lease_ms = 60000, .renew = HF_OFF, .mode = HF_SHARED));
    for (int shared = 0; shared <= 1; shared++) {
        hf_hold *outer = held(lock), *nested = held(lock);
        TELL("DEL k");
        assert_int_equal(hf_hold_state(nested), HF_STATE_HELD);
        hf_hold *next = held(shared ? reads : lock);
        assert_true(hf_hold_fence(next) > hf_hold_fence(outer));
        assert_int_equal(hf_hold_cause(outer), HF_CAUSE_GONE);
        assert_int_equal(hf_hold_cause(nested), HF_CAUSE_GONE);
        assert_int_equal(hf_hold_state(next), HF_STATE_HELD);
        hf_hold_close(outer);
        hf_hold_close(nested);
        give_back(next, HF_OK);
    }
    hf_lock_close(reads);
    hf_lock_close(lock);
}

/* H208: the outer hold was released before the nested one. */
static void test_the_next_grant_ends_what_nested_in_a_hold_that_was_released(void **state) {
    (void)state;
    hf_lock *lock = lease_lock(ann, "k", 60000, HF_OFF);
    hf_hold *outer = held(lock), *nested = held(lock), *inmost = held(lock);
    give_back(outer, HF_OK);
    TELL("DEL k");
    hf_hold *next = held(lock);
    assert_true(hf_hold_fence(next) > hf_hold_fence(nested));
    assert_int_equal(hf_hold_cause(nested), HF_CAUSE_GONE);
    assert_int_equal(hf_hold_cause(inmost), HF_CAUSE_GONE);
    assert_int_equal(hf_hold_state(next), HF_STATE_HELD);
    give_back(next, HF_OK);
    hf_hold_close(nested);
    hf_hold_close(inmost);
    hf_lock_close(lock);
}

/* If a lease is not renewed, and the program does not wait for losses, no timer sees its end. */
static void test_what_is_over_when_another_is_granted_is_told_as_that(void **state) {
    (void)state;
    hf_lock *lock = lock_for(ann, "k", "ann", 50), *theirs = lock_for(ann, "k", "cid", 60000);
    hf_hold *hold = held(lock);
    sleep_ms(60);
    hf_hold *next = held(theirs);
    assert_int_equal(hf_hold_cause(hold), HF_CAUSE_EXPIRED);
    assert_status(hf_hold_release(hold), HF_ELOST);
    assert_message("its lease of 50 ms ended");
    give_back(next, HF_OK);
    hf_hold_close(hold);
    hf_lock_close(theirs);
    hf_lock_close(lock);
}

/* The lost grant may be unclaimed; it may also follow a lost hold whose handle is still open. */
static void test_the_next_grant_ends_what_was_told_by_a_message_and_lost(void **state) {
    (void)state;
    hf_lock *lock = lock_for(ann, "k", "ann", 60000), *theirs = lock_for(ann, "k", "cid", 60000),
            *others = lock_for(ben, "k", "ben", 60000);
    for (int after = 0; after <= 1; after++) {
        hf_hold *open = after ? held(lock) : NULL;
        TELL("DEL k");
        if (after)
            assert_status(hf_hold_renew(open), HF_ELOST);
        hf_hold *before = held(others);
        assert_status(hf_lock_acquire_start(theirs, NULL, 0, 60000, NULL, 7), HF_OK);
        assert_soon(queued("k") == 1);
        give_back(before, HF_OK);
        hf_completion granted;
        do
            granted = next_of(ann);
        while (granted.kind != HF_KIND_ACQUIRE);
        assert_status(granted.status, HF_OK);
        TELL("DEL k");
        assert_int_equal(hf_hold_state(granted.hold), HF_STATE_HELD);
        hf_hold *next = held(lock);
        assert_int_equal(hf_hold_cause(granted.hold), HF_CAUSE_GONE);
        assert_int_equal(hf_hold_state(next), HF_STATE_HELD);
        give_back(next, HF_OK);
        hf_hold_close(granted.hold);
        hf_hold_close(open);
    }
    hf_lock_close(others);
    hf_lock_close(theirs);
    hf_lock_close(lock);
}

/* After a downgrade the server keeps the shared hold: another holder may be beside it. */
static void test_a_shared_hold_is_no_loss_of_what_was_downgraded(void **state) {
    (void)state;
    const hf_lock_options *reads = OPTIONS(.lease_ms = 60000, .renew = HF_OFF, .mode = HF_SHARED);
    hf_lock *writes = lock_for(ann, "k", "ann", 50), *mine = open_lock(ann, "k", "ann", reads),
            *theirs = open_lock(ann, "k", "cid", reads);
    hf_hold *outer = held(writes), *nested = held(mine), *next;
    assert_soon(hf_lock_acquire(theirs, 0, &next) == HF_OK); /* when the lease has ended */
    assert_true(hf_hold_fence(next) > hf_hold_fence(nested));
    assert_int_equal(hf_hold_state(nested), HF_STATE_HELD);
    give_back(next, HF_OK);
    give_back(nested, HF_OK);
    hf_hold_close(outer);
    hf_lock_close(theirs);
    hf_lock_close(mine);
    hf_lock_close(writes);
}

/* Seed 8004009: the server has lost its data since the grant, and with it the grant's fence. */
static void test_a_grant_that_its_server_has_forgotten_ends_no_other_hold(void **state) {
    (void)state;
    hf_lock *lock = lock_for(ann, "k", "ann", 60000), *theirs = lock_for(ann, "k", "ben", 60000);
    hf_hold *hold = held(lock), *other;
    assert_status(hf_lock_acquire_start(theirs, NULL, 0, 60000, NULL, 7), HF_OK);
    assert_soon(queued("k") == 1);
    char member[65] = "", grant[80];
    strncat(member, TELL("ZRANGE {k}k:hf1:q 0 0")->element[0]->str, 64);
    const redisReply *time = TELL("TIME");
    snprintf(grant, sizeof grant, "g%.32s%lld%s%06d", member, (long long)hf_hold_fence(hold) + 1000,
             time->element[0]->str, atoi(time->element[1]->str));
    TELL("PUBLISH hf:%s %s", member + 32, grant);
    hf_completion granted = next_of(ann);
    assert_int_equal(granted.op, 7);
    assert_status(granted.status, HF_OK);
    other = granted.hold;
    assert_soon(hf_hold_state(other) == HF_STATE_LOST); /* when its claim is answered */
    assert_int_equal(hf_hold_state(hold), HF_STATE_HELD);
    give_back(hold, HF_OK);
    hf_hold_close(other);
    hf_lock_close(theirs);
    hf_lock_close(lock);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_timeout_that_meets_the_end_of_the_lease_leaves_nothing_behind),
        TEST(test_releases_at_once_end_a_hold_each),
        TEST(test_a_replacement_that_may_come_late_bounds_what_is_certain),
        TEST(test_a_renewal_that_is_answered_after_a_replacement_does_not_count),
        TEST(test_a_renewal_that_crosses_a_cut_by_another_program_does_not_count),
        TEST(test_replacements_that_cross_never_leave_two_holders),
        TEST(test_what_a_replacement_may_still_shorten_is_not_handed_over),
        TEST(test_a_hold_whose_lease_is_being_replaced_is_not_handed_over),
        TEST(test_what_a_replacement_may_still_shorten_is_not_kept_for_longer),
        TEST(test_a_keep_without_an_answer_is_repeated),
        TEST(test_renewals_and_replacements_may_be_made_at_once),
        TEST(test_a_missing_permission_leaves_no_half_lock),
        TEST(test_a_releaser_who_may_not_ask_who_listens_leaves_the_queue_alone),
        TEST(test_a_started_try_that_is_answered_too_late_is_busy),
        TEST(test_closing_under_a_started_try_ends_it_once),
        TEST(test_a_release_that_fails_while_its_client_closes_is_made_all_the_same),
        TEST(test_a_closed_client_listens_no_more),
        TEST(test_the_next_grant_ends_what_was_lost_and_all_that_nested_in_it),
        TEST(test_the_next_grant_ends_what_nested_in_a_hold_that_was_released),
        TEST(test_what_is_over_when_another_is_granted_is_told_as_that),
        TEST(test_the_next_grant_ends_what_was_told_by_a_message_and_lost),
        TEST(test_a_shared_hold_is_no_loss_of_what_was_downgraded),
        TEST(test_a_grant_that_its_server_has_forgotten_ends_no_other_hold),
    };
    return RUN_TESTS(tests, count, words);
}
