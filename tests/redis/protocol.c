/*
 * The scripts as a wire format: what they do to keys that any client may have
 * written. C4 or H6 beside a test is a row of docs/interleavings.md.
 */
#include "../server.h"

#include <inttypes.h>

#include "protocol/errors.h"
#include "protocol/scripts.h"

#define K "stock"
#define F "{stock}stock:hf1:f"
#define Q "{stock}stock:hf1:q"

static redisContext *user; /* who runs the scripts */

static int set_up(void **state) {
    (void)state;
    start_afresh();
    user = raw();
    return 0;
}

/* ---------------------------------------------------------------- Calling */

static const char *number(int64_t value) { return text("%" PRId64, value); }

/* A hold id. */
static const char *id(int n) { return text("%032x", n); }
static const char *dead(const char *hold) { return text("{stock}stock:%s:hf1:d", hold); }
static const char *field(const char *hold) { return text("h%s", hold); }

static const char *netstring(const char *bytes) { return text("%zu:%s,", strlen(bytes), bytes); }

static const char *member_with(const char *hold, const char *channel, const char *owner,
                               const char *lease, const char *timeout) {
    return text("%s%s%s%s%s1:1,", hold, netstring(channel), netstring(owner), netstring(lease),
                netstring(timeout));
}

/* A member of the queue: hold id, channel, owner, 10 s, no timeout, reentrant. */
static const char *member(const char *hold, const char *channel, const char *owner) {
    return member_with(hold, channel, owner, "10000", "0");
}

/* Run a script; keys and arguments are strings, and NULL ends them. */
static redisReply *run(const hf_script *script, int keys, ...) {
    const char *words[1024] = {"EVAL", script->text, number(keys)};
    int count = 3;
    va_list args;
    va_start(args, keys);
    while ((words[count] = va_arg(args, const char *)) != NULL)
        count++;
    va_end(args);
    return asked(redisCommandArgv(user, count, words, NULL), script->sha1);
}

/* The answer about one hold id. */
typedef struct {
    int64_t now, ttl, state;
    union {
        int64_t fence, score;
    };
    union {
        int64_t left, rank;
    };
} answer;

enum { BUSY, HELD, QUEUED, DEAD, FOREIGN };

/* The lease that was asked for: a single number says that it is whole. */
static int64_t asked_ms;

static answer read_answer(redisReply *reply, size_t which) {
    if (good(reply)->type == REDIS_REPLY_INTEGER)
        return (answer){.now = integer(reply),
                        .ttl = asked_ms,
                        .state = HELD,
                        .fence = integer(reply),
                        .left = asked_ms};
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    assert_in_range(reply->elements, 5 + 3 * which, 2 + 3 * 100);
    return (answer){
        .now = integer(reply->element[0]),
        .ttl = integer(reply->element[1]),
        .state = integer(reply->element[2 + 3 * which]),
        .fence = integer(reply->element[3 + 3 * which]),
        .left = integer(reply->element[4 + 3 * which]),
    };
}

static redisReply *acquire_reply(const char *floor, const char *hold, const char *owner,
                                 const char *lease) {
    asked_ms = strcmp(lease, "0") == 0 ? -1 : atoll(lease);
    return run(&hf_script_acquire, 4, K, F, Q, dead(hold), hold, owner, lease, "1", floor, NULL);
}

static answer acquire_for(const char *hold, const char *owner, int64_t lease) {
    return read_answer(acquire_reply("0", hold, owner, number(lease)), 0);
}

static answer acquire(const char *hold, const char *owner) {
    return acquire_for(hold, owner, 10000);
}

/* Held, for the tests that begin with a holder. */
static int64_t hold_by(const char *hold, const char *owner, int64_t lease) {
    answer a = acquire_for(hold, owner, lease);
    assert_int_equal(a.state, HELD);
    return a.fence;
}

static redisReply *recheck_reply(const char *hold, const char *channel, const char *owner,
                                 const char *score) {
    return run(&hf_script_recheck, 4, K, F, Q, dead(hold), "0", "1", hold, owner, "10000", "1",
               member(hold, channel, owner), score, NULL);
}

/* Two ways to queue: for the first time, and to look after one's place. */
static redisReply *join_reply(const char *hold, const char *channel, const char *owner,
                              const char *score) {
    asked_ms = 10000;
    return run(&hf_script_acquire, 4, K, F, Q, dead(hold), hold, owner, "10000", "1", "0",
               member(hold, channel, owner), score, NULL);
}

static answer join(const char *hold, const char *channel, const char *owner) {
    return read_answer(join_reply(hold, channel, owner, "0"), 0);
}

/* The arguments of recheck about one waiter. */
#define WAITER(hold, channel, owner) hold, owner, "10000", "1", member(hold, channel, owner), "0"

static answer recheck(const char *hold, const char *channel, const char *owner) {
    return read_answer(recheck_reply(hold, channel, owner, "0"), 0);
}

static int64_t release_with(const char *hold, const char *bury, const char *pushed,
                            const char *its_member) {
    return integer(
        run(&hf_script_release, 4, K, F, Q, dead(hold), hold, bury, pushed, its_member, NULL));
}

static int64_t release(const char *hold) {
    return integer(run(&hf_script_release, 3, K, F, Q, hold, NULL));
}

static int64_t renew(const char *hold, int64_t lease, const char *mode) {
    return integer(good(run(&hf_script_renew, 1, K, hold, number(lease), mode, NULL))->element[1]);
}

#define LONGER "0"
#define EXACTLY "1"
#define LOOK "2"
#define RENEWAL(hold) hold, "60000", LONGER

static int64_t claim(const char *hold, int64_t lease) {
    return integer(good(run(&hf_script_claim, 2, K, F, hold, number(lease), NULL))->element[1]);
}

static answer cancel(const char *hold, const char *bury, const char *its_member) {
    return read_answer(run(&hf_script_cancel, 4, K, F, Q, dead(hold), hold, bury, its_member, NULL),
                       0);
}

static int64_t break_lock(int64_t fence, const char *also_foreign) {
    return integer(run(&hf_script_break, 3, K, F, Q, number(fence), also_foreign, NULL));
}

/* Hand on a free lock; -2: there is more to skip. */
static int64_t kick(void) {
    return integer(good(run(&hf_script_recheck, 3, K, F, Q, "0", "0", NULL))->element[1]);
}

/* ---------------------------------------------------------------- Looking */

static int64_t exists(const char *key) { return NUMBER("EXISTS %s", key); }
static int64_t queue_length(void) { return NUMBER("ZCARD " Q); }
static int64_t expiry(const char *hold) {
    return strtoll(STRING("HGET " K " %s", field(hold)), NULL, 10);
}

static int64_t server_us(void) {
    redisReply *time = TELL("TIME");
    return strtoll(time->element[0]->str, NULL, 10) * 1000000 +
           strtoll(time->element[1]->str, NULL, 10);
}

static void assert_holder(const char *hold, const char *owner) {
    assert_string_equal(STRING("HGET " K " hf1"), owner);
    assert_int_equal(NUMBER("HEXISTS " K " %s", field(hold)), 1);
}

/* Not before this time, and soon after it. */
static void assert_expires(const char *key, int64_t at) {
    assert_in_range(expires_at(key), at - (tells_expiry() ? 0 : EXPIRY_SLACK), at + 100);
}

static void queue(const char *its_member, int64_t score) {
    assert_int_equal(NUMBER("ZADD " Q " %s %s", number(score), its_member), 1);
}

/* A listener on a channel; heard() reads its messages. */
static redisContext *listen_to(const char *how, const char *channel) {
    redisContext *context = connect_raw();
    good(kept(redisCommand(context, "%s %s", how, channel)));
    return context;
}

static redisContext *subscribe(const char *channel) { return listen_to("SUBSCRIBE", channel); }

/* The message that came since the last time, or NULL; more than one is an error.
 * A message published before a PING arrives before its answer. */
static const char *heard(redisContext *context) {
    const char *message = NULL;
    redisReply *reply = asked(redisCommand(context, "PING"), "PING");
    if (strcmp(reply->element[0]->str, "pong") != 0) {
        void *next;
        message = text("%s", reply->element[reply->elements - 1]->str);
        assert_int_equal(redisGetReply(context, &next), REDIS_OK);
        reply = kept(next);
    }
    assert_string_equal(reply->element[0]->str, "pong");
    return message;
}

typedef struct {
    char hold[33];
    int64_t fence, server_us, granted_ms;
} message;

static message heard_grant(redisContext *context) {
    message m;
    const char *said = heard(context);
    assert_non_null(said);
    assert_int_equal(sscanf(said, "g %32s %" SCNd64 " %" SCNd64 " %" SCNd64, m.hold, &m.fence,
                            &m.server_us, &m.granted_ms),
                     4);
    assert_string_equal(said, text("g %s %" PRId64 " %" PRId64 " %" PRId64, m.hold, m.fence,
                                   m.server_us, m.granted_ms));
    return m;
}

/* Run the scripts as a user that lacks a permission. */
static redisContext *become(const char *rule) {
    TELL("ACL SETUSER limited reset on nopass ~* +@all &*");
    TELL(text("ACL SETUSER limited %s", rule));
    user = connect_raw();
    good(kept(redisCommand(user, "AUTH limited any")));
    return user;
}

static void become_oneself(void) {
    redisFree(user);
    user = raw();
    TELL("ACL DELUSER limited");
}

/* ---------------------------------------------------------------- Acquire */

static void test_acquire_writes_owner_fence_and_hold(void **state) {
    (void)state;
    int64_t before = server_us();
    answer a = acquire_for(id(1), "ann", 5000);
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.left, 5000);
    assert_int_equal(a.ttl, 5000);
    assert_in_range(a.now, before, server_us());
    assert_int_equal(a.fence, a.now); /* the clock, in microseconds */
    assert_int_equal(NUMBER("HLEN " K), 3);
    assert_string_equal(STRING("HGET " K " hf1"), "ann");
    assert_string_equal(STRING("HGET " K " f"), number(a.fence));
    assert_int_equal(expiry(id(1)), a.now / 1000 + 5000);
    assert_expires(K, a.now / 1000 + 5000);
    assert_string_equal(STRING("GET " F), number(a.fence));
    assert_int_equal(exists(Q), 0);
    assert_int_equal(exists(dead(id(1))), 0);
}

static void test_a_lease_of_zero_never_ends(void **state) {
    (void)state;
    answer a = acquire_for(id(1), "ann", 0);
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.left, -1);
    assert_int_equal(a.ttl, -1);
    assert_int_equal(expiry(id(1)), 0);
    assert_int_equal(NUMBER("PTTL " K), -1);
}

static void test_a_busy_answer_tells_when_to_come_back(void **state) {
    (void)state;
    hold_by(id(1), "ann", 5000);
    char *before = snapshot(K);
    answer a = acquire(id(2), "ben");
    assert_int_equal(a.state, BUSY);
    assert_in_range(a.ttl, 4000, 5000);
    assert_string_equal(snapshot(K), before);
    assert_int_equal(exists(Q), 0); /* it did not ask to wait */
}

static void test_a_retry_of_acquire_is_told_what_is_left_and_adds_nothing(void **state) { /* C4a */
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 60000);
    char *before = snapshot(K);
    sleep_ms(30);
    answer a = acquire_for(id(1), "ann", 60000);
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.fence, fence);
    assert_in_range(a.left, 50000, 60000 - 29);
    assert_string_equal(snapshot(K), before);
}

static void test_two_acquires_and_a_retry_are_two_holds(void **state) { /* C2b */
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 10000);
    assert_int_equal(hold_by(id(2), "ann", 10000), fence);
    assert_int_equal(hold_by(id(1), "ann", 10000), fence);
    assert_int_equal(NUMBER("HLEN " K), 2 + 2);
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(release(id(2)), 1);
    assert_int_equal(exists(K), 0);
}

static void test_who_may_not_nest_is_busy_for_himself(void **state) {
    (void)state;
    hold_by(id(1), "ann", 10000);
    redisReply *reply = run(&hf_script_recheck, 4, K, F, Q, dead(id(2)), "0", "0", id(2), "ann",
                            "10000", "0", "", "0", NULL);
    assert_int_equal(read_answer(reply, 0).state, BUSY);
    /* But his retry is still known. */
    reply = run(&hf_script_recheck, 4, K, F, Q, dead(id(1)), "0", "0", id(1), "ann", "10000", "0",
                "", "0", NULL);
    assert_int_equal(read_answer(reply, 0).state, HELD);
}

/* ---------------------------------------------------------------- Release */

static void test_a_late_copy_of_a_release_touches_nobody(void **state) { /* C2a */
    (void)state;
    hold_by(id(1), "ann", 10000);
    hold_by(id(2), "ann", 10000);
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(release(id(1)), 0);
    assert_holder(id(2), "ann");
    assert_int_equal(release(id(2)), 1);
    hold_by(id(3), "ann", 10000); /* the same owner again, later */
    char *before = snapshot(K);
    assert_int_equal(release(id(1)), 0);
    assert_int_equal(release(id(2)), 0);
    assert_string_equal(snapshot(K), before);
}

static void test_a_retry_of_the_last_release_says_not_held(void **state) { /* C2c */
    (void)state;
    hold_by(id(1), "ann", 10000);
    char *fence = snapshot(F);
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(exists(K), 0);
    assert_int_equal(release(id(1)), 0);
    assert_string_equal(snapshot(F), fence);
    assert_int_equal(NUMBER("DBSIZE"), 1);
}

static void test_a_dead_hold_id_neither_acquires_nor_queues(void **state) { /* C3 */
    (void)state;
    hold_by(id(1), "ann", 10000);
    assert_int_equal(release_with(id(1), "1", "0", ""), 1);
    assert_in_range(NUMBER("PTTL %s", dead(id(1))), 590000, 600000);
    /* Late copies of its acquire, on a free lock and on one that is held. */
    assert_int_equal(acquire(id(1), "ann").state, DEAD);
    assert_int_equal(recheck(id(1), "hf:a", "ann").state, DEAD);
    assert_int_equal(join(id(1), "hf:a", "ann").state, DEAD);
    assert_int_equal(exists(K), 0);
    assert_int_equal(exists(Q), 0);
    hold_by(id(2), "ann", 10000);
    assert_int_equal(acquire(id(1), "ann").state, DEAD); /* nor does it nest */
    assert_int_equal(recheck(id(1), "hf:a", "ann").state, DEAD);
    assert_int_equal(join(id(1), "hf:a", "ann").state, DEAD);
    assert_int_equal(NUMBER("HLEN " K), 3);
    assert_int_equal(exists(Q), 0);
}

static void test_a_cancelled_hold_id_is_dead_and_out_of_the_queue(void **state) { /* C3 */
    (void)state;
    hold_by(id(1), "ann", 10000);
    assert_int_equal(recheck(id(2), "hf:b", "ben").state, QUEUED);
    assert_int_equal(cancel(id(2), "1", member(id(2), "hf:b", "ben")).state, BUSY);
    assert_int_equal(exists(Q), 0);
    assert_in_range(NUMBER("PTTL %s", dead(id(2))), 590000, 600000);
    assert_int_equal(recheck(id(2), "hf:b", "ben").state, DEAD);
    assert_int_equal(exists(Q), 0);
    /* Before its enqueue came at all. */
    assert_int_equal(cancel(id(3), "1", member(id(3), "hf:b", "ben")).state, BUSY);
    assert_int_equal(recheck(id(3), "hf:b", "ben").state, DEAD);
    /* Released before its acquire came at all, and its member with it. */
    assert_int_equal(recheck(id(4), "hf:b", "ben").state, QUEUED);
    assert_int_equal(release_with(id(4), "1", "0", member(id(4), "hf:b", "ben")), 0);
    assert_int_equal(exists(Q), 0);
    assert_int_equal(acquire(id(4), "ben").state, DEAD);
}

static void test_a_dead_hold_id_is_written_only_to_bury(void **state) {
    (void)state;
    hold_by(id(1), "ann", 10000);
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(cancel(id(2), "0", member(id(2), "hf:b", "ben")).state, BUSY);
    assert_int_equal(NUMBER("DBSIZE"), 1);
}

static void test_cancel_answers_a_grant_that_has_happened(void **state) {
    (void)state;
    redisContext *ben = subscribe("hf:ben");
    hold_by(id(1), "ann", 10000);
    assert_int_equal(recheck(id(2), "hf:ben", "ben").state, QUEUED);
    assert_int_equal(release(id(1)), 1);
    char *before = snapshot(K);
    answer a = cancel(id(2), "1", member(id(2), "hf:ben", "ben"));
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.fence, heard_grant(ben).fence);
    assert_in_range(a.left, 2000, 3000);
    assert_string_equal(snapshot(K), before);
    assert_int_equal(exists(dead(id(2))), 0); /* it lives */
    redisFree(ben);
}

/* ------------------------------------------------------------------ Leases */

static void test_a_renewal_never_shortens_another_hold(void **state) { /* C7 */
    (void)state;
    hold_by(id(1), "ann", 60000);
    hold_by(id(2), "ann", 5000);
    int64_t longest = expiry(id(1));
    for (int i = 0; i < 100; i++)
        renew(id(2), 5000, LONGER);
    assert_int_equal(expiry(id(1)), longest);
    assert_expires(K, longest);
    assert_in_range(renew(id(2), 5000, LOOK), 4000, 5000);
}

static void test_a_renewal_late_in_a_batch_never_shortens_another_hold(void **state) { /* C7 */
    enum { SLOW = 100, KEYS = SLOW + 1 };
    const char *words[3 + 4 * KEYS] = {"EVAL", hf_script_renew.text, number(KEYS)};
    (void)state;
    /* A lock that takes long to renew, again and again; the script asks for the time once. */
    TELL("HSET slow hf1 ann f 1");
    for (int i = 0; i < 500; i++)
        TELL("HSET slow %s 0", field(id(i)));
    for (int i = 0; i < KEYS; i++) {
        const char **arguments = words + 3 + KEYS + 3 * i;
        words[3 + i] = i < SLOW ? "slow" : K;
        arguments[0] = i < SLOW ? id(1) : id(2);
        arguments[1] = i % 2 == 0 ? "30000" : "40000";
        arguments[2] = i < SLOW ? EXACTLY : LONGER;
    }
    hold_by(id(1), "ann", 60000);
    hold_by(id(2), "ann", 5000);
    redisReply *reply = good(kept(redisCommandArgv(user, COUNT(words), words, NULL)));
    assert_int_equal(integer(reply->element[KEYS]), 30000);
    assert_expires(K, expiry(id(1)));
}

static void test_the_keys_expiry_is_the_latest_of_its_holds(void **state) { /* C7 */
    (void)state;
    hold_by(id(2), "ann", 5000);
    hold_by(id(1), "ann", 60000); /* a longer one comes */
    assert_expires(K, expiry(id(1)));
    hold_by(id(3), "ann", 20000); /* a shorter one */
    assert_expires(K, expiry(id(1)));
    assert_int_equal(release(id(1)), 1); /* the longest goes */
    assert_expires(K, expiry(id(3)));
    assert_in_range(renew(id(2), 30000, LONGER), 29000, 30000);
    assert_expires(K, expiry(id(2)));
    assert_int_equal(release(id(3)), 1); /* a shorter one goes */
    assert_expires(K, expiry(id(2)));
    hold_by(id(4), "ann", 0);
    assert_int_equal(NUMBER("PTTL " K), -1);
    assert_in_range(renew(id(2), 40000, LONGER), 39000, 40000);
    assert_int_equal(NUMBER("PTTL " K), -1);
    hold_by(id(5), "ann", 5000);
    assert_int_equal(NUMBER("PTTL " K), -1);
    assert_int_equal(release(id(4)), 1); /* the one without end goes */
    assert_expires(K, expiry(id(2)));
}

static void test_a_renewal_gives_the_lease_from_now(void **state) {
    (void)state;
    hold_by(id(1), "ann", 5000);
    int64_t before = expiry(id(1));
    sleep_ms(30);
    assert_int_equal(renew(id(1), 5000, LONGER), 5000);
    assert_in_range(expiry(id(1)), before + 29, before + 4000);
    assert_expires(K, expiry(id(1)));
    assert_int_equal(renew(id(1), 0, LONGER), -1);
    assert_int_equal(NUMBER("PTTL " K), -1);
    assert_int_equal(expiry(id(1)), 0);
}

static void test_a_renewal_shortens_nothing_unless_told_to(void **state) {
    (void)state;
    hold_by(id(1), "ann", 60000);
    char *before = snapshot(K);
    assert_in_range(renew(id(1), 5000, LONGER), 59000, 60000);
    assert_in_range(renew(id(1), 5000, LOOK), 59000, 60000);
    assert_in_range(renew(id(1), 99000, LOOK), 59000, 60000);
    assert_string_equal(snapshot(K), before);
    assert_int_equal(renew(id(1), 5000, EXACTLY), 5000);
    assert_expires(K, expiry(id(1)));
    /* A hold without end is shortened too; and another hold keeps its end. */
    assert_int_equal(renew(id(1), 0, EXACTLY), -1);
    hold_by(id(2), "ann", 30000);
    assert_int_equal(renew(id(1), 5000, EXACTLY), 5000);
    assert_expires(K, expiry(id(2)));
}

static void test_an_expired_hold_counts_for_nothing_although_the_key_lives(void **state) {
    (void)state;
    hold_by(id(1), "ann", 60000);
    hold_by(id(2), "ann", 10);
    assert_soon(renew(id(2), 10000, LOOK) == -2);
    char *before = snapshot(K);
    assert_int_equal(renew(id(2), 10000, LONGER), -2);
    assert_int_equal(renew(id(2), 10000, EXACTLY), -2);
    assert_int_equal(claim(id(2), 10000), -2);
    assert_int_equal(acquire(id(2), "ann").state, DEAD); /* a late copy must not revive it */
    assert_int_equal(cancel(id(2), "0", "").state, BUSY);
    assert_int_equal(release(id(2)), 0);
    assert_string_equal(snapshot(K), before);
    redisReply *reply = good(run(&hf_script_inspect, 2, K, Q, NULL));
    assert_int_equal(integer(reply->element[2]), 1);
    /* With the last hold that counts the lock is free. */
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(exists(K), 0);
}

static void test_a_field_that_is_no_hold_fails_no_script(void **state) {
    (void)state;
    hold_by(id(1), "ann", 60000);
    hold_by(id(2), "ann", 10000);
    TELL("HSET " K " hello x h y");
    assert_int_equal(renew(id(2), 5000, EXACTLY), 5000);
    assert_expires(K, expiry(id(1)));
    redisReply *reply = good(run(&hf_script_inspect, 2, K, Q, NULL));
    assert_int_equal(integer(reply->element[2]), 2);
    assert_int_equal(release_with(id(2), "1", "0", ""), 1);
    assert_expires(K, expiry(id(1)));
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(exists(K), 0);
}

static void test_renewals_of_many_locks_do_not_fail_each_other(void **state) { /* M10 */
    (void)state;
    hold_by(id(1), "ann", 5000);
    TELL("SET foreign x");
    TELL("HSET hash field x");
    redisReply *reply =
        good(run(&hf_script_renew, 5, "foreign", "missing", K, "hash", K, RENEWAL(id(1)),
                 RENEWAL(id(1)), RENEWAL(id(1)), RENEWAL(id(1)), RENEWAL(id(2)), NULL));
    assert_int_equal(reply->elements, 6);
    assert_int_equal(integer(reply->element[1]), -2);
    assert_int_equal(integer(reply->element[2]), -2);
    assert_int_equal(integer(reply->element[3]), 60000);
    assert_int_equal(integer(reply->element[4]), -2);
    assert_int_equal(integer(reply->element[5]), -2);
    assert_int_equal(exists("missing"), 0);
}

/* ------------------------------------------------------------------- Queue */

static void test_a_waiter_is_queued_in_the_order_of_arrival(void **state) {
    (void)state;
    hold_by(id(1), "ann", 10000);
    answer second = join(id(2), "hf:0123456789", "alice");
    assert_int_equal(second.state, QUEUED);
    assert_int_equal(second.score, second.now);
    assert_int_equal(second.rank, 0);
    assert_in_range(second.ttl, 9000, 10000);
    answer third = recheck(id(3), "hf:0123456789", "alice");
    assert_true(third.score > second.score);
    assert_int_equal(third.rank, 1);
    redisReply *members = TELL("ZRANGE " Q " 0 -1 WITHSCORES");
    assert_int_equal(members->elements, 4);
    assert_string_equal(members->element[0]->str,
                        text("%s13:hf:0123456789,5:alice,5:10000,1:0,1:1,", id(2)));
    assert_string_equal(members->element[1]->str, number(second.score));
    assert_in_range(NUMBER("PTTL " Q), 29000, 30000); /* lest a dead queue stay for ever */
}

static void test_a_retry_of_an_enqueue_keeps_one_member_and_its_first_score(void **state) { /* C8 */
    (void)state;
    hold_by(id(1), "ann", 10000);
    int64_t score = join(id(2), "hf:b", "ben").score;
    assert_int_equal(join(id(3), "hf:c", "cat").rank, 1);
    TELL("PEXPIRE " Q " 5000");
    sleep_ms(5);
    answer again = join(id(2), "hf:b", "ben"), looked = recheck(id(2), "hf:b", "ben");
    assert_int_equal(again.state, QUEUED);
    assert_int_equal(again.score, score);
    assert_int_equal(again.rank, 0);
    assert_int_equal(looked.state, QUEUED);
    assert_int_equal(looked.score, score);
    assert_int_equal(looked.rank, 0);
    assert_int_equal(queue_length(), 2);
    assert_in_range(NUMBER("PTTL " Q), 29000, 30000);
}

static void test_a_waiter_that_comes_back_is_queued_at_its_first_score(void **state) { /* H12 */
    (void)state;
    hold_by(id(1), "ann", 10000);
    answer a = recheck(id(2), "hf:b", "ben");
    assert_int_equal(NUMBER("ZREM " Q " %s", member(id(2), "hf:b", "ben")), 1);
    assert_int_equal(recheck(id(3), "hf:c", "cat").rank, 0);
    a = read_answer(recheck_reply(id(2), "hf:b", "ben", number(a.score)), 0);
    assert_int_equal(a.state, QUEUED);
    assert_int_equal(a.rank, 0);
    /* So does one that lost its id: it comes back under a new one. */
    a = read_answer(join_reply(id(4), "hf:b", "ben", number(a.score - 1)), 0);
    assert_int_equal(a.state, QUEUED);
    assert_int_equal(a.rank, 0);
}

static void test_a_score_is_above_all_others_although_they_are_ahead(void **state) { /* C8 */
    (void)state;
    hold_by(id(1), "ann", 10000);
    int64_t ahead = server_us() + 3600000000;
    queue(member(id(2), "hf:b", "ben"), ahead);
    assert_int_equal(join(id(3), "hf:c", "cat").score, ahead + 1);
    assert_int_equal(recheck(id(4), "hf:d", "dan").score, ahead + 2);
}

static void test_success_takes_the_waiter_out_of_the_queue(void **state) { /* C8 */
    (void)state;
    /* Free, and it is the head. */
    queue(member(id(1), "hf:a", "ann"), 1000);
    assert_int_equal(recheck(id(1), "hf:a", "ann").state, HELD);
    assert_int_equal(queue_length(), 0);
    /* Granted already, and its message lost. */
    queue(member(id(1), "hf:a", "ann"), 1000);
    assert_int_equal(recheck(id(1), "hf:a", "ann").state, HELD);
    assert_int_equal(queue_length(), 0);
    /* Its owner holds it by now. */
    queue(member(id(2), "hf:a", "ann"), 1000);
    assert_int_equal(recheck(id(2), "hf:a", "ann").state, HELD);
    queue(member(id(3), "hf:a", "ann"), 1000);
    assert_int_equal(join(id(3), "hf:a", "ann").state, HELD);
    assert_int_equal(queue_length(), 0);
}

static void test_who_comes_to_wait_for_a_free_lock_has_it(void **state) {
    redisContext *cat = subscribe("hf:cat");
    (void)state;
    answer a = join(id(1), "hf:a", "ann");
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.left, 10000);
    assert_int_equal(exists(Q), 0);
    assert_int_equal(release(id(1)), 1);
    /* But not before earlier waiters. */
    queue(member(id(2), "hf:gone", "gone"), 1000);
    queue(member(id(3), "hf:cat", "cat"), 2000);
    assert_int_equal(join(id(4), "hf:a", "ann").state, QUEUED);
    assert_string_equal(heard_grant(cat).hold, id(3));
    assert_int_equal(queue_length(), 1);
    redisFree(cat);
}

static void test_other_acquires_of_the_granted_owner_join_when_they_ask(void **state) {
    (void)state;
    redisContext *ben = subscribe("hf:ben");
    hold_by(id(1), "ann", 10000);
    assert_int_equal(recheck(id(2), "hf:ben", "ben").state, QUEUED);
    assert_int_equal(recheck(id(3), "hf:cat", "cat").state, QUEUED);
    assert_int_equal(recheck(id(4), "hf:ben", "ben").state, QUEUED);
    assert_int_equal(release(id(1)), 1);
    message grant = heard_grant(ben);
    assert_string_equal(grant.hold, id(2));
    answer a = recheck(id(4), "hf:ben", "ben");
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.fence, grant.fence);
    assert_int_equal(queue_length(), 1);
    assert_int_equal(NUMBER("HLEN " K), 4);
    redisFree(ben);
}

static void test_one_call_asks_for_many_waiters_and_tells_the_state_of_each(void **state) {
    (void)state;
    hold_by(id(1), "ann", 20000);
    int64_t fence = hold_by(id(2), "ann", 20000);
    assert_int_equal(cancel(id(3), "1", "").state, BUSY);
    int64_t score = recheck(id(4), "hf:a", "ben").score;
    redisReply *reply = run(&hf_script_recheck, 8, K, F, Q, dead(id(1)), dead(id(3)), dead(id(4)),
                            dead(id(5)), dead(id(6)), "0", "1", WAITER(id(1), "hf:a", "ann"),
                            WAITER(id(3), "hf:a", "cat"), WAITER(id(4), "hf:a", "ben"),
                            WAITER(id(5), "hf:a", "ann"), WAITER(id(6), "hf:a", "dan"), NULL);
    assert_int_equal(good(reply)->elements, 2 + 5 * 3);
    answer held = read_answer(reply, 0), buried = read_answer(reply, 1);
    answer queued = read_answer(reply, 2), nested = read_answer(reply, 3);
    answer joined = read_answer(reply, 4);
    assert_int_equal(held.state, HELD);
    assert_int_equal(held.fence, fence);
    assert_in_range(held.left, 19000, 20000);
    assert_in_range(held.ttl, 19000, 20000);
    assert_int_equal(buried.state, DEAD);
    assert_int_equal(queued.state, QUEUED);
    assert_int_equal(queued.score, score);
    assert_int_equal(queued.rank, 0);
    assert_int_equal(nested.state, HELD);
    assert_int_equal(nested.fence, fence);
    assert_int_equal(nested.left, 10000);
    assert_int_equal(joined.state, QUEUED);
    assert_true(joined.score > score);
    assert_int_equal(joined.rank, 1);
    assert_int_equal(queue_length(), 2);
    assert_int_equal(NUMBER("HLEN " K), 2 + 3);
}

static void test_of_many_waiters_of_one_call_the_head_is_granted(void **state) {
    (void)state;
    queue(member(id(1), "hf:a", "ann"), 1000);
    queue(member(id(2), "hf:a", "ben"), 2000);
    redisReply *reply = run(&hf_script_recheck, 5, K, F, Q, dead(id(2)), dead(id(1)), "0", "1",
                            WAITER(id(2), "hf:a", "ben"), WAITER(id(1), "hf:a", "ann"), NULL);
    answer a = read_answer(reply, 0), b = read_answer(reply, 1);
    assert_int_equal(a.state, QUEUED);
    assert_int_equal(a.rank, 0);
    assert_int_equal(a.score, 2000);
    assert_int_equal(b.state, HELD);
    assert_int_equal(b.left, 10000); /* who asks needs no claim */
    assert_in_range(b.ttl, 9000, 10000);
    assert_holder(id(1), "ann");
    assert_string_equal(STRING("GET " F), number(b.fence)); /* and leaves no mark */
}

/* ------------------------------------------------------------------- Grant */

static void test_a_release_grants_to_the_head_and_tells_it(void **state) {
    (void)state;
    redisContext *ben = subscribe("hf:ben"), *cat = subscribe("hf:cat");
    int64_t fence = hold_by(id(1), "ann", 10000);
    recheck(id(2), "hf:ben", "ben");
    recheck(id(3), "hf:cat", "cat");
    int64_t before = server_us();
    assert_int_equal(release(id(1)), 1);
    message grant = heard_grant(ben);
    assert_string_equal(grant.hold, id(2));
    assert_true(grant.fence > fence);
    assert_in_range(grant.server_us, before, server_us());
    assert_int_equal(grant.granted_ms, 3000);
    assert_null(heard(cat));
    assert_holder(id(2), "ben");
    assert_int_equal(NUMBER("HLEN " K), 3);
    assert_string_equal(STRING("HGET " K " f"), number(grant.fence));
    assert_int_equal(queue_length(), 1);
    /* In order of arrival. */
    assert_int_equal(release(id(2)), 1);
    grant = heard_grant(cat);
    assert_string_equal(grant.hold, id(3));
    assert_int_equal(release(id(3)), 1);
    assert_int_equal(exists(K), 0);
    assert_int_equal(exists(Q), 0);
    assert_null(heard(ben));
    redisFree(ben);
    redisFree(cat);
}

static void test_who_does_not_listen_is_skipped_and_not_told(void **state) { /* C1 */
    (void)state;
    /* A listener on all channels is no sign that a waiter lives. */
    redisContext *all = listen_to("PSUBSCRIBE", "*"), *cat = subscribe("hf:cat");
    hold_by(id(1), "ann", 10000);
    recheck(id(2), "hf:ben", "ben");
    recheck(id(3), "hf:cat", "cat");
    assert_int_equal(release(id(1)), 1);
    assert_holder(id(3), "cat");
    assert_string_equal(heard_grant(all).hold, id(3)); /* the first message there was */
    assert_string_equal(heard_grant(cat).hold, id(3));
    assert_null(heard(all));
    assert_int_equal(queue_length(), 0);
    redisFree(all);
    redisFree(cat);
}

static void test_if_nobody_listens_the_lock_is_free(void **state) {
    (void)state;
    hold_by(id(1), "ann", 10000);
    recheck(id(2), "hf:ben", "ben");
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(exists(K), 0);
    assert_int_equal(exists(Q), 0);
}

static void test_a_waiter_whose_time_is_up_is_skipped(void **state) {
    (void)state;
    redisContext *ben = subscribe("hf:ben"), *cat = subscribe("hf:cat");
    hold_by(id(1), "ann", 10000);
    int64_t now = server_us();
    queue(member_with(id(2), "hf:ben", "ben", "10000", "50"), now - 60000);
    queue(member_with(id(3), "hf:cat", "cat", "10000", "60000"), now - 50000);
    assert_int_equal(release(id(1)), 1);
    assert_holder(id(3), "cat");
    assert_null(heard(ben));
    assert_string_equal(heard_grant(cat).hold, id(3));
    redisFree(ben);
    redisFree(cat);
}

static void test_a_pushed_grant_lasts_until_its_claim_and_is_marked(void **state) {
    static const struct {
        const char *lease;
        int64_t granted;
    } leases[] = {{"10000", 3000}, {"3001", 3000}, {"3000", 3000}, {"500", 500}, {"0", 3000}};
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    for (size_t i = 0; i < COUNT(leases); i++) {
        hold_by(id(1), "ann", 10000);
        queue(member_with(id(2), "hf:ben", "ben", leases[i].lease, "0"), server_us());
        assert_int_equal(release(id(1)), 1);
        message grant = heard_grant(ben);
        assert_int_equal(grant.granted_ms, leases[i].granted);
        assert_int_equal(expiry(id(2)), grant.server_us / 1000 + leases[i].granted);
        assert_expires(K, expiry(id(2)));
        assert_string_equal(STRING("GET " F), text("%" PRId64 " hf:ben", grant.fence));
        assert_int_equal(release_with(id(2), "0", "1", ""), 1);
        assert_string_equal(STRING("GET " F), number(grant.fence));
    }
    redisFree(ben);
}

static void test_a_claim_gives_the_whole_lease_and_takes_the_mark_away(void **state) {
    static const int64_t leases[] = {60000, 3000, 500, 0};
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    for (size_t i = 0; i < COUNT(leases); i++) {
        hold_by(id(1), "ann", 10000);
        queue(member_with(id(2), "hf:ben", "ben", number(leases[i]), "0"), server_us());
        assert_int_equal(release(id(1)), 1);
        message grant = heard_grant(ben);
        int64_t left = claim(id(2), leases[i]);
        if (leases[i] > 0)
            assert_in_range(left, leases[i] / 2, leases[i]);
        else
            assert_int_equal(left, -1);
        assert_string_equal(STRING("GET " F), number(grant.fence));
        assert_int_equal(NUMBER("PTTL " K) == -1, leases[i] == 0);
        left = claim(id(2), leases[i]); /* and its retry changes nothing */
        if (leases[i] > 0)
            assert_in_range(left, leases[i] / 2, leases[i]);
        assert_int_equal(release(id(2)), 1);
    }
    redisFree(ben);
}

static void test_a_claim_of_what_is_not_held_leaves_the_mark(void **state) {
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    hold_by(id(1), "ann", 10000);
    recheck(id(2), "hf:ben", "ben");
    assert_int_equal(release(id(1)), 1);
    char *lock = snapshot(K), *fence = snapshot(F);
    assert_int_equal(claim(id(1), 10000), -2);
    assert_int_equal(claim(id(3), 10000), -2);
    assert_string_equal(snapshot(K), lock);
    assert_string_equal(snapshot(F), fence);
    TELL("DEL " K);
    assert_int_equal(claim(id(2), 10000), -2);
    assert_int_equal(exists(K), 0);
    assert_string_equal(snapshot(F), fence);
    redisFree(ben);
}

/* ann's grant ran out without a claim, and she has more in the queue. */
static redisContext *leave_a_ghost(void) {
    redisContext *ann = subscribe("hf:ann");
    int64_t now = server_us();
    hold_by(id(1), "dan", 10000);
    queue(member_with(id(2), "hf:ann", "ann", "20", "0"), now);
    queue(member(id(3), "hf:ann", "ann2"), now + 1);
    queue(member(id(4), "hf:ben", "ben"), now + 2);
    queue(member(id(5), "hf:ann", "ann3"), now + 3);
    assert_int_equal(release(id(1)), 1);
    assert_string_equal(heard_grant(ann).hold, id(2));
    assert_soon(exists(K) == 0);
    return ann;
}

static void test_who_lets_a_grant_run_out_is_taken_out_of_the_queue(void **state) { /* H2 */
    enum { TRY, ENQUEUE, KICK, BREAK, WAYS };
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        redisContext *ben = subscribe("hf:ben"), *ann = leave_a_ghost();
        switch (way) {
        case TRY:
            assert_int_equal(acquire(id(9), "cat").state, BUSY);
            break;
        case ENQUEUE:
            assert_int_equal(recheck(id(9), "hf:cat", "cat").state, QUEUED);
            break;
        case KICK:
            assert_in_range(kick(), 1, 3000);
            break;
        case BREAK:
            assert_int_equal(break_lock(1, "0"), 1);
            break;
        }
        assert_string_equal(heard_grant(ben).hold, id(4));
        assert_holder(id(4), "ben");
        assert_null(heard(ann));
        assert_int_equal(queue_length(), way == ENQUEUE ? 1 : 0);
        redisFree(ann);
        redisFree(ben);
        TELL("FLUSHALL");
    }
}

static void test_a_ghost_that_asks_is_none(void **state) { /* H2 */
    (void)state;
    redisContext *ann = leave_a_ghost();
    assert_int_equal(recheck(id(5), "hf:ann", "ann3").state, QUEUED);
    /* Her first waiter is served: she lives. */
    assert_string_equal(heard_grant(ann).hold, id(3));
    assert_holder(id(3), "ann2");
    assert_int_equal(queue_length(), 2);
    redisFree(ann);
}

static void test_a_try_on_a_free_lock_serves_the_queue_first(void **state) { /* M1 */
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    queue(member(id(2), "hf:ben", "ben"), server_us());
    answer a = acquire(id(1), "ann");
    assert_int_equal(a.state, BUSY);
    assert_in_range(a.ttl, 2000, 3000);
    assert_string_equal(heard_grant(ben).hold, id(2));
    assert_holder(id(2), "ben");
    redisFree(ben);
}

static void test_a_try_gets_the_lock_if_all_who_queue_are_dead(void **state) { /* M1 */
    (void)state;
    queue(member(id(2), "hf:ben", "ben"), server_us());
    queue(member(id(3), "hf:cat", "cat"), server_us());
    answer a = acquire(id(1), "ann");
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.left, 10000);
    assert_in_range(a.ttl, 9000, 10000);
    assert_holder(id(1), "ann");
    assert_string_equal(STRING("HGET " K " f"), number(a.fence));
    assert_expires(K, expiry(id(1)));
    assert_int_equal(queue_length(), 0);
}

static void test_a_dead_crowd_is_skipped_in_bounded_steps(void **state) { /* M2 */
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    hold_by(id(1), "ann", 10000);
    for (int i = 0; i < 250; i++)
        queue(member(id(1000 + i), "hf:gone", "gone"), server_us());
    queue(member(id(2), "hf:ben", "ben"), server_us());
    assert_int_equal(release(id(1)), 2); /* released, and more to skip */
    assert_int_equal(exists(K), 0);
    assert_int_equal(queue_length(), 151);
    assert_int_equal(kick(), -2);
    assert_int_equal(queue_length(), 51);
    assert_in_range(kick(), 1, 3000);
    assert_string_equal(heard_grant(ben).hold, id(2));
    assert_holder(id(2), "ben");
    redisFree(ben);
}

static void test_kicks_come_to_an_end(void **state) { /* M2 */
    (void)state;
    assert_true(kick() != -2);
    for (int i = 0; i < 150; i++)
        queue(member(id(1000 + i), "hf:gone", "gone"), server_us());
    assert_int_equal(break_lock(1, "0"), 2);
    assert_int_equal(queue_length(), 50);
    /* Nobody is left: to ask again would find no more. */
    assert_true(kick() != -2);
    assert_int_equal(queue_length(), 0);
    assert_int_equal(exists(K), 0);
}

static void test_a_kick_does_nothing_to_a_lock_that_is_held(void **state) {
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    hold_by(id(1), "ann", 10000);
    recheck(id(2), "hf:ben", "ben");
    char *before = snapshot(K);
    assert_in_range(kick(), 9000, 10000);
    assert_string_equal(snapshot(K), before);
    assert_int_equal(queue_length(), 1);
    assert_null(heard(ben));
    redisFree(ben);
}

static void test_a_break_grants_to_the_next(void **state) {
    redisContext *ben = subscribe("hf:ben"), *cat = subscribe("hf:cat");
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 0);
    recheck(id(2), "hf:ben", "ben");
    recheck(id(3), "hf:cat", "cat");
    assert_int_equal(break_lock(fence - 1, "1"), 0);
    assert_holder(id(1), "ann");
    assert_int_equal(break_lock(fence, "0"), 1);
    assert_string_equal(heard_grant(ben).hold, id(2));
    assert_holder(id(2), "ben");
    assert_int_equal(NUMBER("HLEN " K), 3);
    /* A retry of the break does not break the next holder. */
    assert_int_equal(break_lock(fence, "0"), 0);
    assert_holder(id(2), "ben");
    TELL("DEL " K);
    assert_int_equal(break_lock(fence, "0"), 1); /* free: it goes on to the next */
    assert_holder(id(2 + 1), "cat");
    redisFree(ben);
    redisFree(cat);
}

static void test_garbage_in_the_queue_is_dropped(void **state) {
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    const char *const garbage[] = {
        "",
        "x",
        id(7),
        text("%s3:hf:", id(7)),
        text("%s99999:hf:ben,3:ben,5:10000,1:0,1:1,", id(7)),
        text("%s999999999:hf:ben,3:ben,5:10000,1:0,1:1,", id(7)),
        text("%s-1:hf:ben,3:ben,5:10000,1:0,1:1,", id(7)),
        text("%s6:hf:ben;3:ben;5:10000;1:0;1:1;", id(7)),
        text("%s6:hf:ben,3:ben,5:10000,1:0,", id(7)),
        member_with(id(7), "hf:ben", "ben", "", "0"),
        member_with(id(7), "hf:ben", "ben", "x", "0"),
        member_with(id(7), "hf:ben", "ben", "-1", "0"),
        member_with(id(7), "hf:ben", "ben", "0.5", "0"),
        member_with(id(7), "hf:ben", "ben", "9", "0"),
        member_with(id(7), "hf:ben", "ben", "10000.5", "0"),
        member_with(id(7), "hf:ben", "ben", "nan", "0"),
        member_with(id(7), "hf:ben", "ben", "inf", "0"),
        member_with(id(7), "hf:ben", "ben", "1e300", "0"),
        member_with(id(7), "hf:ben", "ben", "315360000001", "0"),
        member_with(id(7), "hf:ben", "ben", "10000", ""),
        member_with(id(7), "hf:ben", "ben", "10000", "x"),
        member_with(id(7), "hf:ben", "ben", "10000", "nan"),
        member_with(id(7), "hf:ben", "ben", "10000", "-1"),
    };
    for (size_t i = 0; i < COUNT(garbage); i++) {
        print_message("%s\n", garbage[i]);
        hold_by(id(1), "ann", 10000);
        queue(garbage[i], server_us());
        queue(member(id(2), "hf:ben", "ben"), server_us() + 1000);
        assert_int_equal(release(id(1)), 1);
        assert_string_equal(heard_grant(ben).hold, id(2));
        assert_holder(id(2), "ben");
        assert_int_equal(queue_length(), 0);
        assert_int_equal(release(id(2)), 1);
    }
    redisFree(ben);
}

static void test_a_queue_of_another_type_is_an_error_and_nothing_is_changed(void **state) {
    static const char *const types[] = {"SET " Q " x", "RPUSH " Q " x", "HSET " Q " a b"};
    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        TELL("FLUSHALL");
        TELL(types[i]);
        char *queue_before = snapshot(Q);
        redisReply *reply = acquire_reply("0", id(1), "ann", "10000");
        assert_int_equal(reply->type, REDIS_REPLY_ERROR);
        assert_int_equal(NUMBER("DBSIZE"), 1);
        TELL("DEL " Q);
        hold_by(id(1), "ann", 10000);
        TELL(types[i]);
        char *lock = snapshot(K), *fence = snapshot(F);
        reply = recheck_reply(id(2), "hf:ben", "ben", "0");
        assert_int_equal(reply->type, REDIS_REPLY_ERROR);
        reply = run(&hf_script_cancel, 4, K, F, Q, dead(id(2)), id(2), "1",
                    member(id(2), "hf:ben", "ben"), NULL);
        assert_int_equal(reply->type, REDIS_REPLY_ERROR);
        assert_string_equal(snapshot(K), lock);
        assert_string_equal(snapshot(F), fence);
        assert_int_equal(NUMBER("DBSIZE"), 3);
        /* The holder can still renew and release. */
        assert_int_equal(renew(id(1), 20000, LONGER), 20000);
        assert_int_equal(release(id(1)), 1);
        assert_int_equal(exists(K), 0);
        assert_string_equal(snapshot(Q), queue_before);
    }
}

/* ------------------------------------------------------------------ Fences */

static void test_fifty_grants_at_once_have_fifty_fences_with_all_digits(void **state) { /* C13 */
    redisContext *all = subscribe("hf:all");
    (void)state;
    /* Far ahead of the clock, where the last fence alone counts: each must differ by one. */
    int64_t ahead = server_us() + 3600000000, last = 0;
    TELL("SET " F " %s", number(ahead));
    assert_int_equal(hold_by(id(0), "ann", 10000), ahead + 1);
    for (int i = 1; i <= 50; i++)
        queue(member(id(i), "hf:all", "ann"), server_us());
    for (int i = 0; i < 50; i++) {
        const char *words[] = {
            "EVAL", hf_script_release.text, "4", K, F, Q, dead(id(i)), id(i), "0", "1", ""};
        assert_int_equal(redisAppendCommandArgv(user, COUNT(words), words, NULL), REDIS_OK);
    }
    for (int i = 0; i < 50; i++) {
        void *reply;
        assert_int_equal(redisGetReply(user, &reply), REDIS_OK);
        assert_int_equal(integer(kept(reply)), 1);
    }
    for (int i = 1; i <= 50; i++) {
        void *reply;
        int64_t fence;
        assert_int_equal(redisGetReply(all, &reply), REDIS_OK);
        const char *said = kept(reply)->element[2]->str;
        assert_int_equal(sscanf(said, "g %*32s %" SCNd64, &fence), 1);
        const char *expected = text("g %s %" PRId64 " ", id(i), ahead + 1 + i);
        assert_memory_equal(said, expected, strlen(expected));
        assert_true(fence > last);
        last = fence;
    }
    assert_string_equal(STRING("HGET " K " f"), number(last));
    assert_string_equal(STRING("GET " F), text("%" PRId64 " hf:all", last));
    redisFree(all);
}

static void test_fences_at_one_time_differ_in_their_last_digit(void **state) { /* C13 */
    (void)state;
    int64_t ahead = server_us() + 3600000000;
    TELL("SET " F " %s", number(ahead));
    for (int i = 1; i <= 200; i++) {
        assert_int_equal(hold_by(id(i), "ann", 10000), ahead + i);
        assert_string_equal(STRING("GET " F), number(ahead + i));
        assert_string_equal(STRING("HGET " K " f"), number(ahead + i));
        assert_int_equal(release(id(i)), 1);
    }
}

static void
test_the_last_fence_is_kept_for_a_day_after_itself_and_the_clock(void **state) { /* C10 */
    const int64_t day = 86400000;
    (void)state;
    answer a = acquire(id(1), "ann");
    assert_expires(F, a.now / 1000 + day);
    assert_int_equal(release(id(1)), 1);
    /* As an absolute time, also when it is ahead of the clock. */
    int64_t ahead = server_us() + 10 * day * 1000;
    a = read_answer(acquire_reply(number(ahead), id(2), "ann", "10000"), 0);
    assert_int_equal(a.fence, ahead + 1);
    assert_expires(F, (ahead + 1) / 1000 + day);
}

static void test_fences_grow_although_the_last_one_is_lost(void **state) { /* C10 */
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 10000);
    assert_int_equal(release(id(1)), 1);
    TELL("DEL " F); /* the clock knows better */
    assert_true(hold_by(id(2), "ann", 10000) > fence);
    assert_int_equal(release(id(2)), 1);
    int64_t ahead = server_us() + 3600000000;
    TELL("DEL " F); /* only the client knows better */
    answer a = read_answer(acquire_reply(number(ahead), id(3), "ann", "10000"), 0);
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.fence, ahead + 1);
    assert_int_equal(release(id(3)), 1);
    a = read_answer(acquire_reply(number(ahead - 5), id(4), "ann", "10000"), 0);
    assert_int_equal(a.fence, ahead + 2); /* a floor that is lower changes nothing */
}

static void test_a_floor_counts_for_the_next_grant_too(void **state) { /* C10 */
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    int64_t ahead = server_us() + 3600000000;
    hold_by(id(1), "ann", 10000);
    recheck(id(2), "hf:ben", "ben");
    /* A busy answer remembers it, and a free lock with a queue. */
    assert_int_equal(read_answer(acquire_reply(number(ahead), id(3), "cat", "10000"), 0).state,
                     BUSY);
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(heard_grant(ben).fence, ahead + 1);
    TELL("DEL " K " " F);
    queue(member(id(4), "hf:ben", "ben"), server_us());
    assert_int_equal(read_answer(acquire_reply(number(ahead + 9), id(5), "cat", "10000"), 0).state,
                     BUSY);
    assert_int_equal(heard_grant(ben).fence, ahead + 10);
    redisFree(ben);
}

static void test_a_nested_hold_has_the_outer_fence_whatever_the_floor(void **state) {
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 10000);
    answer a = read_answer(acquire_reply(number(fence + 1000000), id(2), "ann", "10000"), 0);
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.fence, fence);
}

static void test_a_fence_out_of_bounds_is_an_error_before_any_write(void **state) { /* C13 */
    static const char *const fences[] = {"9007199254740991", "9007199254740992",
                                         "99999999999999999999", "9007199254740992 hf:ben"};
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    for (size_t i = 0; i < COUNT(fences); i++) {
        TELL("FLUSHALL");
        TELL("SET " F " %s", fences[i]);
        assert_int_equal(acquire_reply("0", id(1), "ann", "10000")->type, REDIS_REPLY_ERROR);
        assert_int_equal(NUMBER("DBSIZE"), 1);
        TELL("DEL " F);
        hold_by(id(1), "ann", 10000);
        recheck(id(2), "hf:ben", "ben");
        TELL("SET " F " %s", fences[i]);
        redisReply *reply =
            run(&hf_script_release, 4, K, F, Q, dead(id(1)), id(1), "0", "0", "", NULL);
        assert_int_equal(integer(reply), 1); /* given back, but to nobody */
        assert_int_equal(exists(K), 0);
        assert_int_equal(NUMBER("ZCARD " Q), 1);
        assert_true(NUMBER("PTTL " Q) > 0);
        assert_null(heard(ben));
    }
    redisFree(ben);
}

static void test_absurd_numbers_are_refused_before_any_write(void **state) {
    static const char *const leases[] = {"0.5",          "9",   "-1",  "10000.5", "1e300",
                                         "315360000001", "nan", "inf", "",        "x"};
    static const char *const floors[] = {
        "9007199254740991", "9007199254740992", "1e300", "-1", "1.5", "nan", "inf", "", "x"};
    static const char *const scores[] = {"9007199254740991", "1e300", "-1", "nan", "inf", "", "x"};
    (void)state;
    for (int held = 0; held < 2; held++) {
        int64_t keys = held ? 2 : 0;
        if (held)
            hold_by(id(1), "ann", 60000);
        char *before = snapshot(K);
        for (size_t i = 0; i < COUNT(leases); i++) {
            print_message("lease %s\n", leases[i]);
            redisReply *reply = acquire_reply("0", id(1 + held), "ann", leases[i]);
            assert_int_equal(reply->type, REDIS_REPLY_ERROR);
            assert_non_null(strstr(reply->str, "lease out of bounds"));
            reply = run(&hf_script_claim, 2, K, F, id(1), leases[i], NULL);
            assert_int_equal(reply->type, REDIS_REPLY_ERROR);
            reply = run(&hf_script_renew, 2, K, K, id(1), "90000", EXACTLY, id(1), leases[i],
                        EXACTLY, NULL);
            assert_int_equal(reply->type, REDIS_REPLY_ERROR);
        }
        for (size_t i = 0; i < COUNT(floors); i++) {
            print_message("floor %s\n", floors[i]);
            redisReply *reply = acquire_reply(floors[i], id(2), "ann", "10000");
            assert_int_equal(reply->type, REDIS_REPLY_ERROR);
            assert_non_null(strstr(reply->str, "fence floor out of bounds"));
        }
        for (size_t i = 0; i < COUNT(scores); i++) {
            print_message("score %s\n", scores[i]);
            redisReply *reply = recheck_reply(id(2), "hf:b", "ben", scores[i]);
            assert_int_equal(reply->type, REDIS_REPLY_ERROR);
            assert_non_null(strstr(reply->str, "score out of bounds"));
            /* On a free lock it is not even looked at. */
            reply = join_reply(id(2), "hf:b", "ben", scores[i]);
            assert_int_equal(reply->type, held ? REDIS_REPLY_ERROR : REDIS_REPLY_INTEGER);
            if (!held)
                TELL("FLUSHALL");
        }
        assert_string_equal(snapshot(K), before);
        assert_int_equal(NUMBER("DBSIZE"), keys);
    }
}

/* ------------------------------------------------------------ Foreign locks */

static void test_a_foreign_lock_is_busy_and_never_overwritten(void **state) { /* C14 */
    static const char *const foreign[] = {
        "SET " K " token PX 60000", "HSET " K " 8743c9c0-0795-4907-87fd-6c719a6b4586:1 1",
        "HSET " K " hf2 ann f 7",   "RPUSH " K " a",
        "ZADD " K " 1 a",           "SADD " K " a",
        "XADD " K " * a b",
    };
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    for (size_t i = 0; i < COUNT(foreign); i++) {
        print_message("%s\n", foreign[i]);
        TELL(foreign[i]);
        char *before = snapshot(K);
        answer a = acquire(id(1), "ann");
        assert_int_equal(a.state, BUSY);
        if (i == 0)
            assert_in_range(a.ttl, 59000, 60000);
        else
            assert_int_equal(a.ttl, -1);
        a = recheck(id(2), "hf:ben", "ben");
        assert_int_equal(a.state, FOREIGN);
        assert_int_equal(a.rank, 0);
        assert_int_equal(release(id(1)), 0);
        assert_int_equal(release_with(id(8), "1", "0", ""), 0);
        assert_int_equal(renew(id(1), 10000, LONGER), -2);
        assert_int_equal(renew(id(1), 10000, EXACTLY), -2);
        assert_int_equal(claim(id(1), 10000), -2);
        assert_int_equal(cancel(id(1), "0", "").state, BUSY);
        kick();
        assert_int_equal(break_lock(0, "0"), 0);
        assert_int_equal(break_lock(7, "0"), 0);
        redisReply *look = good(run(&hf_script_inspect, 2, K, Q, NULL));
        assert_int_equal(integer(look->element[0]), 2);
        assert_string_equal(string(look->element[1]), "");
        assert_int_equal(integer(look->element[2]), 0);
        assert_int_equal(integer(look->element[3]), 0);
        assert_int_equal(integer(look->element[4]) == -1, i != 0);
        assert_int_equal(integer(look->element[5]), 1);
        assert_string_equal(snapshot(K), before);
        assert_null(heard(ben));
        /* Only when asked to, and then the next waiter has it. */
        assert_int_equal(break_lock(0, "1"), 1);
        assert_string_equal(heard_grant(ben).hold, id(2));
        assert_int_equal(release_with(id(2), "0", "1", ""), 1);
    }
    redisFree(ben);
}

static void test_only_a_foreign_lock_without_end_is_healed(void **state) {
    (void)state;
    assert_int_equal(integer(run(&hf_script_heal, 1, K, "60000", NULL)), 0);
    assert_int_equal(exists(K), 0);
    TELL("SET " K " token");
    assert_int_equal(run(&hf_script_heal, 1, K, "0", NULL)->type, REDIS_REPLY_ERROR);
    assert_int_equal(run(&hf_script_heal, 1, K, "nan", NULL)->type, REDIS_REPLY_ERROR);
    assert_int_equal(NUMBER("PTTL " K), -1);
    assert_int_equal(integer(run(&hf_script_heal, 1, K, "60000", NULL)), 1);
    assert_in_range(NUMBER("PTTL " K), 59000, 60000);
    assert_int_equal(integer(run(&hf_script_heal, 1, K, "90000", NULL)), 0);
    assert_in_range(NUMBER("PTTL " K), 59000, 60000);
    assert_string_equal(STRING("GET " K), "token");
    TELL("DEL " K);
    TELL("HSET " K " uuid:1 1");
    assert_int_equal(integer(run(&hf_script_heal, 1, K, "60000", NULL)), 1);
    TELL("DEL " K);
    hold_by(id(1), "ann", 0); /* one of ours may have no end */
    assert_int_equal(integer(run(&hf_script_heal, 1, K, "60000", NULL)), 0);
    assert_int_equal(NUMBER("PTTL " K), -1);
}

static void test_the_self_test_tells_who_listens_and_is_heard(void **state) { /* C1, H5 */
    (void)state;
    assert_int_equal(integer(run(&hf_script_selftest, 0, "hf:ann", NULL)), 0);
    redisContext *ann = subscribe("hf:ann"), *all = listen_to("PSUBSCRIBE", "*");
    assert_int_equal(integer(run(&hf_script_selftest, 0, "hf:ann", NULL)), 1);
    assert_string_equal(heard(ann), "t");
    assert_string_equal(heard(all), "t");
    become("resetchannels");
    assert_int_equal(run(&hf_script_selftest, 0, "hf:ann", NULL)->type, REDIS_REPLY_ERROR);
    become_oneself();
    redisFree(ann);
    redisFree(all);
}

static void test_inspect_changes_nothing_and_tells_all(void **state) {
    (void)state;
    redisReply *look = good(run(&hf_script_inspect, 2, K, Q, NULL));
    assert_int_equal(integer(look->element[0]), 0);
    assert_int_equal(NUMBER("DBSIZE"), 0);
    int64_t fence = hold_by(id(1), "ann", 20000);
    hold_by(id(2), "ann", 10000);
    recheck(id(3), "hf:ben", "ben");
    char *lock = snapshot(K), *line = snapshot(Q);
    look = good(run(&hf_script_inspect, 2, K, Q, NULL));
    assert_int_equal(integer(look->element[0]), 1);
    assert_string_equal(string(look->element[1]), "ann");
    assert_int_equal(integer(look->element[2]), 2);
    assert_int_equal(integer(look->element[3]), fence);
    assert_in_range(integer(look->element[4]), 19000, 20000);
    assert_int_equal(integer(look->element[5]), 1);
    assert_string_equal(snapshot(K), lock);
    assert_string_equal(snapshot(Q), line);
}

/* ------------------------------------------- No memory, missing permissions */

/* From here on the server refuses commands that need memory. */
static void fill_the_server(void) { TELL("CONFIG SET maxmemory 1"); }

static void assert_out_of_memory(redisReply *reply) {
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(reply->str, "OOM ")); /* before 7.0 inside of another */
}

static void test_without_memory_an_acquire_fails_clean(void **state) { /* H6 */
    (void)state;
    fill_the_server();
    assert_out_of_memory(acquire_reply("0", id(1), "ann", "10000"));
    assert_out_of_memory(acquire_reply("12345", id(1), "ann", "0"));
    assert_int_equal(NUMBER("DBSIZE"), 0);
    TELL("CONFIG SET maxmemory 0");
    hold_by(id(1), "ann", 10000);
    fill_the_server();
    char *lock = snapshot(K), *fence = snapshot(F);
    assert_int_equal(acquire(id(2), "ben").state, BUSY);
    assert_out_of_memory(acquire_reply("0", id(2), "ann", "10000"));
    assert_out_of_memory(recheck_reply(id(2), "hf:b", "ben", "0"));
    assert_out_of_memory(join_reply(id(2), "hf:b", "ben", "0"));
    assert_string_equal(snapshot(K), lock);
    assert_string_equal(snapshot(F), fence);
    assert_int_equal(NUMBER("DBSIZE"), 2);
    assert_int_equal(acquire(id(1), "ann").state, HELD); /* a retry is still known */
}

static void test_without_memory_what_is_held_can_be_renewed_and_released(void **state) { /* H6 */
    (void)state;
    hold_by(id(1), "ann", 10000);
    hold_by(id(2), "ann", 20000);
    fill_the_server();
    assert_int_equal(renew(id(1), 30000, LONGER), 30000);
    assert_expires(K, expiry(id(1)));
    assert_int_equal(renew(id(2), 25000, LONGER), 25000); /* which does not move the key's */
    assert_int_equal(renew(id(1), 5000, EXACTLY), 5000);
    assert_int_equal(renew(id(1), 0, EXACTLY), -1);
    assert_int_equal(NUMBER("PTTL " K), -1);
    assert_int_equal(renew(id(1), 7000, EXACTLY), 7000);
    assert_expires(K, expiry(id(2)));
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(release_with(id(2), "1", "0", ""), 1);
    assert_int_equal(exists(K), 0);
    assert_int_equal(exists(dead(id(2))), 1);
}

static void test_without_memory_the_queue_moves_on(void **state) { /* H6 */
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 10000);
    recheck(id(2), "hf:gone", "gone");
    recheck(id(3), "hf:ben", "ben");
    recheck(id(4), "hf:ben", "ben");
    recheck(id(5), "hf:ben", "dan");
    fill_the_server();
    assert_int_equal(release(id(1)), 1);
    message grant = heard_grant(ben);
    assert_string_equal(grant.hold, id(3));
    assert_true(grant.fence > fence);
    assert_string_equal(STRING("GET " F), text("%" PRId64 " hf:ben", grant.fence));
    assert_in_range(NUMBER("PTTL " K), 2000, 3000);
    assert_int_equal(claim(id(3), 10000), 10000);
    assert_string_equal(STRING("GET " F), number(grant.fence));
    assert_int_equal(cancel(id(4), "1", member(id(4), "hf:ben", "ben")).state, BUSY);
    assert_int_equal(exists(dead(id(4))), 1);
    assert_int_equal(queue_length(), 1);
    assert_int_equal(recheck(id(5), "hf:ben", "dan").state, QUEUED); /* it stands there already */
    assert_int_equal(break_lock(grant.fence, "0"), 1);
    assert_string_equal(heard_grant(ben).hold, id(5));
    /* A claim that moves nothing still takes the mark away. */
    TELL("CONFIG SET maxmemory 0");
    TELL("HSET " K " %s %s", field(id(5)), number(server_us() / 1000 + 60000));
    fill_the_server();
    assert_in_range(claim(id(5), 10000), 50000, 60000);
    assert_null(strstr(STRING("GET " F), "hf:ben"));
    redisFree(ben);
}

static void test_without_memory_a_free_lock_goes_to_the_next(void **state) { /* H6 */
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    for (int asks = 0; asks < 2; asks++) { /* who holds it has died: nothing was deleted before */
        queue(member(id(2), "hf:ben", "ben"), server_us());
        fill_the_server();
        if (asks)
            assert_int_equal(recheck(id(2), "hf:ben", "ben").state, HELD);
        else
            assert_in_range(kick(), 1, 3000);
        assert_holder(id(2), "ben");
        assert_int_equal(heard(ben) == NULL, asks);
        assert_int_equal(release_with(id(2), "0", "1", ""), 1);
        TELL("CONFIG SET maxmemory 0");
    }
    redisFree(ben);
}

static void test_a_releaser_who_may_not_publish_leaves_no_half_grant(void **state) { /* H5 */
    static const char *const rules[] = {"resetchannels", "-publish"};
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++) {
        print_message("%s\n", rules[i]);
        hold_by(id(1), "ann", 10000);
        answer queued = recheck(id(2), "hf:ben", "ben");
        become(rules[i]);
        assert_int_equal(release(id(1)), 1);
        become_oneself();
        assert_int_equal(exists(K), 0);
        assert_null(heard(ben));
        /* The waiter keeps its place, and gets the lock when it asks. */
        assert_string_equal(STRING("ZSCORE " Q " %s", member(id(2), "hf:ben", "ben")),
                            number(queued.score));
        assert_null(strchr(STRING("GET " F), ' '));
        answer a = recheck(id(2), "hf:ben", "ben");
        assert_int_equal(a.state, HELD);
        assert_int_equal(a.left, 10000);
        assert_int_equal(release(id(2)), 1);
    }
    redisFree(ben);
}

static void test_a_releaser_who_may_not_ask_who_listens_sets_it_free(void **state) { /* H5 */
    redisContext *ben = subscribe("hf:ben");
    (void)state;
    hold_by(id(1), "ann", 10000);
    recheck(id(2), "hf:ben", "ben");
    become("-pubsub");
    assert_int_equal(release(id(1)), 1);
    become_oneself();
    assert_int_equal(exists(K), 0);
    assert_null(heard(ben));
    assert_int_equal(recheck(id(2), "hf:ben", "ben").state, HELD);
    redisFree(ben);
}

static void test_without_a_permission_to_write_nothing_is_changed(void **state) {
    (void)state;
    hold_by(id(1), "ann", 10000);
    char *before = snapshot(K), *fence = snapshot(F);
    become("-pexpireat");
    assert_int_equal(renew(id(1), 60000, LONGER), -3);
    become_oneself();
    become("-hmget");
    assert_int_equal(renew(id(1), 60000, LONGER), -3);
    redisReply *reply = run(&hf_script_cancel, 4, K, F, Q, dead(id(1)), id(1), "1", "", NULL);
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    become_oneself();
    become("resetkeys");
    assert_int_equal(acquire_reply("0", id(2), "ben", "10000")->type, REDIS_REPLY_ERROR);
    become_oneself();
    assert_string_equal(snapshot(K), before);
    assert_string_equal(snapshot(F), fence);
}

/* Its error goes through, so that the client looks for the master. */
static void test_a_replica_refuses_a_renewal_and_a_claim_with_its_own_error(void **state) {
    (void)state;
    hold_by(id(1), "ann", 10000);
    TELL("REPLICAOF 127.0.0.1 1");
    redisReply *renewed = run(&hf_script_renew, 1, K, RENEWAL(id(1)), NULL);
    redisReply *claimed = run(&hf_script_claim, 2, K, F, id(1), "60000", NULL);
    TELL("REPLICAOF NO ONE");
    redisReply *replies[] = {renewed, claimed};
    for (size_t i = 0; i < COUNT(replies); i++) {
        hf_status status;
        assert_int_equal(replies[i]->type, REDIS_REPLY_ERROR);
        assert_int_equal(hf_error_class(replies[i]->str, &status), HF_AFTER_RECONNECT);
    }
    assert_int_equal(renew(id(1), 60000, LONGER), 60000);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_acquire_writes_owner_fence_and_hold),
        TEST(test_a_lease_of_zero_never_ends),
        TEST(test_a_busy_answer_tells_when_to_come_back),
        TEST(test_a_retry_of_acquire_is_told_what_is_left_and_adds_nothing),
        TEST(test_two_acquires_and_a_retry_are_two_holds),
        TEST(test_who_may_not_nest_is_busy_for_himself),
        TEST(test_a_late_copy_of_a_release_touches_nobody),
        TEST(test_a_retry_of_the_last_release_says_not_held),
        TEST(test_a_dead_hold_id_neither_acquires_nor_queues),
        TEST(test_a_cancelled_hold_id_is_dead_and_out_of_the_queue),
        TEST(test_a_dead_hold_id_is_written_only_to_bury),
        TEST(test_cancel_answers_a_grant_that_has_happened),
        TEST(test_a_renewal_never_shortens_another_hold),
        TEST(test_a_renewal_late_in_a_batch_never_shortens_another_hold),
        TEST(test_the_keys_expiry_is_the_latest_of_its_holds),
        TEST(test_a_renewal_gives_the_lease_from_now),
        TEST(test_a_renewal_shortens_nothing_unless_told_to),
        TEST(test_an_expired_hold_counts_for_nothing_although_the_key_lives),
        TEST(test_a_field_that_is_no_hold_fails_no_script),
        TEST(test_renewals_of_many_locks_do_not_fail_each_other),
        TEST(test_a_waiter_is_queued_in_the_order_of_arrival),
        TEST(test_a_retry_of_an_enqueue_keeps_one_member_and_its_first_score),
        TEST(test_a_waiter_that_comes_back_is_queued_at_its_first_score),
        TEST(test_a_score_is_above_all_others_although_they_are_ahead),
        TEST(test_success_takes_the_waiter_out_of_the_queue),
        TEST(test_who_comes_to_wait_for_a_free_lock_has_it),
        TEST(test_other_acquires_of_the_granted_owner_join_when_they_ask),
        TEST(test_one_call_asks_for_many_waiters_and_tells_the_state_of_each),
        TEST(test_of_many_waiters_of_one_call_the_head_is_granted),
        TEST(test_a_release_grants_to_the_head_and_tells_it),
        TEST(test_who_does_not_listen_is_skipped_and_not_told),
        TEST(test_if_nobody_listens_the_lock_is_free),
        TEST(test_a_waiter_whose_time_is_up_is_skipped),
        TEST(test_a_pushed_grant_lasts_until_its_claim_and_is_marked),
        TEST(test_a_claim_gives_the_whole_lease_and_takes_the_mark_away),
        TEST(test_a_claim_of_what_is_not_held_leaves_the_mark),
        TEST(test_who_lets_a_grant_run_out_is_taken_out_of_the_queue),
        TEST(test_a_ghost_that_asks_is_none),
        TEST(test_a_try_on_a_free_lock_serves_the_queue_first),
        TEST(test_a_try_gets_the_lock_if_all_who_queue_are_dead),
        TEST(test_a_dead_crowd_is_skipped_in_bounded_steps),
        TEST(test_kicks_come_to_an_end),
        TEST(test_a_kick_does_nothing_to_a_lock_that_is_held),
        TEST(test_a_break_grants_to_the_next),
        TEST(test_garbage_in_the_queue_is_dropped),
        TEST(test_a_queue_of_another_type_is_an_error_and_nothing_is_changed),
        TEST(test_fifty_grants_at_once_have_fifty_fences_with_all_digits),
        TEST(test_fences_at_one_time_differ_in_their_last_digit),
        TEST(test_the_last_fence_is_kept_for_a_day_after_itself_and_the_clock),
        TEST(test_fences_grow_although_the_last_one_is_lost),
        TEST(test_a_floor_counts_for_the_next_grant_too),
        TEST(test_a_nested_hold_has_the_outer_fence_whatever_the_floor),
        TEST(test_a_fence_out_of_bounds_is_an_error_before_any_write),
        TEST(test_absurd_numbers_are_refused_before_any_write),
        TEST(test_a_foreign_lock_is_busy_and_never_overwritten),
        TEST(test_only_a_foreign_lock_without_end_is_healed),
        TEST(test_the_self_test_tells_who_listens_and_is_heard),
        TEST(test_inspect_changes_nothing_and_tells_all),
        TEST(test_without_memory_an_acquire_fails_clean),
        TEST(test_without_memory_what_is_held_can_be_renewed_and_released),
        TEST(test_without_memory_the_queue_moves_on),
        TEST(test_without_memory_a_free_lock_goes_to_the_next),
        TEST(test_a_releaser_who_may_not_publish_leaves_no_half_grant),
        TEST(test_a_releaser_who_may_not_ask_who_listens_sets_it_free),
        TEST(test_without_a_permission_to_write_nothing_is_changed),
        TEST(test_a_replica_refuses_a_renewal_and_a_claim_with_its_own_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
