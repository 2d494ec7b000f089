/*
 * The scripts as a wire format: their effect on keys that any client may have written. A label as
 * C4 or H6 beside a test is a row of docs/interleavings.md.
 */
#include "../server.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>

#include "protocol/errors.h"
#include "protocol/scripts.h"

#define K "stock"
#define F "{stock}stock:hf1:f"
#define Q "{stock}stock:hf1:q"
#define S "{stock}stock:hf1:s"
#define R "{stock}stock:hf1:r"
#define KEYS K, F, Q, S, R

/* Client ids. */
#define ANN "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define BEN "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define CAT "cccccccccccccccccccccccccccccccc"
#define DAN "dddddddddddddddddddddddddddddddd"
#define GONE "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
#define NOBODY "--------------------------------"
#define NO_DEAD "0000000000000"

#define DAY INT64_C(86400000)
enum { NEVER = -1 };

static redisContext *user; /* the connection that runs the scripts */
static bool whole;         /* all requests take the general way, none a short one first */

/* The server's clock in microseconds, which only the test moves (preload/step.c), so that no pause
 * of the machine ends a lease. NULL: with-redis gave no such clock. */
static _Atomic int64_t *clock_us;

static int stop_clock(void **state) {
    (void)state;
    const char *path = getenv("HOLDFAST_TEST_CLOCK");
    if (path == NULL)
        return 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    _Atomic int64_t *clock =
        mmap(NULL, 2 * sizeof *clock, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(clock != MAP_FAILED);
    close(fd);
    clock_us = clock + 1;
    return 0;
}

/* Let ms pass for the server. It reads its clock when a command arrives, each reading adds a
 * microsecond, and servers differ in how often they read it: a pause begins at a whole millisecond,
 * so that all servers are in the same one. */
static void pass_ms(int ms) {
    if (clock_us != NULL)
        *clock_us += ms * 1000 - *clock_us % 1000;
    else
        sleep_ms(ms);
}

static int set_up(void **state) {
    (void)state;
    if (clock_us != NULL) { /* a later test gets a later clock */
        int64_t now = (int64_t)time(NULL) * 1000000;
        if (now > *clock_us)
            *clock_us = now;
        else
            pass_ms(1);
    }
    start_afresh();
    user = raw();
    whole = false;
    return 0;
}

static int set_up_whole(void **state) {
    set_up(state);
    whole = true;
    return 0;
}

/* ---------------------------------------------------------------- Calling */

static const char *number(int64_t value) { return text("%" PRId64, value); }
static const char *fence16(int64_t fence) { return text("%016" PRId64, fence); }

/* Return a hold id. */
static const char *id(int n) { return text("%032x", n); }
static const char *dead(const char *hold) { return text("{stock}stock:%s:hf1:d", hold); }
static const char *field(const char *hold) { return text("h%s", hold); }
static const char *channel(const char *client) { return text("hf:%s", client); }

/* The request of one hold id. Default values: 10 s, exclusive, nests, does not wait. */
typedef struct {
    const char *hold, *owner;
    const char *client; /* given: it waits */
    int64_t lease;      /* or NEVER */
    const char *mode;   /* x, o, s0, s2 */
    const char *nests;
    int64_t timeout, score;
    bool sharded;
} asking;

static int64_t lease_of(const asking *a) {
    return a->lease == 0 ? 10000 : a->lease == NEVER ? 0 : a->lease;
}

/* Return what a hold nests in; a shared hold does not nest unless it says so. */
static const char *nests_of(const asking *a) {
    return a->nests != NULL ? a->nests : a->mode != NULL && *a->mode == 's' ? "0" : "1";
}

/* Return its member of the queue. */
static const char *member_of(asking a) {
    const char *mode = a.mode != NULL ? a.mode : "x";
    return text("%s%s%c%010" PRId64 "%c%012" PRId64 "%s%s", a.hold, a.client, a.sharded ? 's' : 'p',
                a.timeout, *mode, lease_of(&a), *mode == 's' ? text("%010d", atoi(mode + 1)) : "",
                a.owner);
}

static const char *member(const char *hold, const char *client, const char *owner) {
    return member_of((asking){hold, owner, .client = client});
}

/* Run a script; keys and arguments are strings, ended by a NULL. */
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
    int64_t now, again, state;
    const char *result; /* the result, if there is one */
    union {
        int64_t fence, score;
    };
    union {
        int64_t left, rank;
    };
} answer;

enum { BUSY, HELD, QUEUED, DEAD, FOREIGN, RESULT, QUEUED_AGAIN, FOREIGN_AGAIN = 8, REFUSED };

static answer read_answer(redisReply *reply, size_t which) {
    assert_int_equal(good(reply)->type, REDIS_REPLY_ARRAY);
    assert_in_range(reply->elements, 5 + 3 * which, 2 + 3 * 100);
    redisReply **mine = reply->element + 2 + 3 * which;
    bool result = integer(mine[0]) == RESULT;
    return (answer){
        .now = integer(reply->element[0]),
        .again = integer(reply->element[1]),
        .state = integer(mine[0]),
        .result = result ? (mine[1]->elements == 3 ? string(mine[1]->element[2]) : string(mine[1]))
                         : NULL,
        .fence = result ? 0 : integer(mine[1]),
        .left = integer(mine[2]),
    };
}

static redisReply *acquire_all(const char *floor, const asking *asks, size_t count) {
    const char *words[1024] = {"EVAL", hf_script_acquire.text, number(5 + (int64_t)count), KEYS};
    size_t n = 8;
    for (size_t i = 0; i < count; i++)
        words[n++] = dead(asks[i].hold);
    words[n++] = floor;
    for (size_t i = 0; i < count; i++) {
        const asking *a = &asks[i];
        words[n++] = a->hold;
        words[n++] = a->owner;
        words[n++] = number(lease_of(a));
        words[n++] = a->mode != NULL ? a->mode : "x";
        words[n++] = nests_of(a);
        words[n++] = a->client != NULL ? member_of(*a) : "";
        words[n++] = number(a->score);
    }
    return asked(redisCommandArgv(user, (int)n, words, NULL), "acquire");
}

/* A floor, even a low one, is checked in the general way only. */
static const char *no_floor(void) { return whole ? "1" : "0"; }

static redisReply *acquire_reply(asking a) { return acquire_all(no_floor(), &a, 1); }
static answer acquire(asking a) { return read_answer(acquire_reply(a), 0); }

static answer acquire_above(int64_t floor, asking a) {
    return read_answer(acquire_all(number(floor), &a, 1), 0);
}

/* Try to acquire. */
static answer try_once(const char *hold, const char *owner) {
    return acquire((asking){hold, .owner = owner});
}

/* Queue, or look after a place. */
static answer join(const char *hold, const char *client, const char *owner) {
    return acquire((asking){hold, owner, .client = client});
}

/* Hold the lock, for tests that begin with a holder. */
static int64_t hold_as(asking a) {
    answer got = acquire(a);
    assert_int_equal(got.state, HELD);
    return got.fence;
}

static int64_t hold_by(const char *hold, const char *owner, int64_t lease) {
    return hold_as((asking){hold, owner, .lease = lease});
}

static redisReply *take_reply(const char *hold, const char *owner, const char *lease,
                              int64_t floor) {
    return run(&hf_script_take, 2, K, F, field(hold), owner, lease, fence16(floor), NULL);
}

/* Return its fence, 0 or -1. */
static int64_t take(const char *hold, const char *owner) {
    redisReply *reply = good(take_reply(hold, owner, "10000", 0));
    if (reply->type == REDIS_REPLY_INTEGER)
        return reply->integer;
    assert_int_equal(reply->len, 16);
    return strtoll(reply->str, NULL, 10);
}

/* Return its answer, or NULL if there is more to look at. */
static const char *wait_for(asking a) {
    redisReply *reply = good(run(&hf_script_wait, 2, K, Q, member_of(a), a.owner, NULL));
    if (reply->type == REDIS_REPLY_STRING)
        return reply->str;
    assert_int_equal(integer(reply), 0);
    return NULL;
}

static const char *held_fence(const char *hold);

static int64_t release_of(const char *hold, const char *fence) {
    if (whole)
        return integer(run(&hf_script_release, 5, KEYS, hold, fence, "0", "", NULL));
    return integer(run(&hf_script_release, 5, KEYS, hold, fence, NULL));
}

static int64_t release(const char *hold) { return release_of(hold, held_fence(hold)); }

/* Release with everything that a client may add. */
static int64_t release_with(const char *hold, const char *bury, const char *its_member) {
    const char *fence = held_fence(hold);
    if (*bury == '0')
        return integer(run(&hf_script_release, 5, KEYS, hold, fence, bury, its_member, NULL));
    return integer(
        run(&hf_script_release, 6, KEYS, dead(hold), hold, fence, bury, its_member, NULL));
}

/* The other mode's columns, without a print. */
#define TERMS "-----------------------------------------------------------------"

static int64_t finish(const char *hold, const char *fence, const char *ms, const char *bytes,
                      const char *how) {
    return integer(
        run(&hf_script_release, 5, KEYS, hold, fence, "0", "", ms, bytes, how, TERMS, NULL));
}

static int64_t release_result(const char *hold, const char *ms, const char *bytes) {
    return finish(hold, held_fence(hold), ms, bytes, "d");
}

/* Leave a record as another caller would. */
static void leave_record(const char *hold, const char *kind, int64_t fence, const char *bytes) {
    good(kept(redisCommand(user, "HSET %s hf1 %s%s%s%s%08d" TERMS "ann n %s b %s", R, hold, kind,
                           fence16(fence), fence16(fence), (int)strlen(bytes), "", bytes)));
    TELL("PEXPIRE " R " 20000");
}

static void assert_record(const char *hold, const char *kind, int64_t fence, const char *bytes) {
    const char *head = STRING("HGET " R " hf1");
    assert_memory_equal(head, text("%s%s%s", hold, kind, fence16(fence)), 49);
    assert_memory_equal(head + 65, text("%08d" TERMS, (int)strlen(bytes)), 73);
    assert_string_equal(STRING("HGET " R " b"), bytes);
    assert_string_equal(STRING("HGET " R " n"), "");
}

#define LONGER "0"
#define EXACTLY "1"
#define LOOK "2"

static int64_t renew_of(const char *hold, const char *fence, int64_t lease, const char *mode) {
    redisReply *reply = good(run(&hf_script_renew, 2, K, S, text("%s%s", hold, fence),
                                 number(lease == NEVER ? 0 : lease), mode, "2", NULL));
    assert_int_equal(reply->elements, 2);
    return integer(reply->element[1]);
}

static int64_t renew(const char *hold, int64_t lease, const char *mode) {
    return renew_of(hold, held_fence(hold), lease, mode);
}

static int64_t claim_with(const char *hold, const char *client, int64_t lease, const char *write) {
    redisReply *reply = good(run(&hf_script_claim, 3, K, F, S, client, hold,
                                 number(lease == NEVER ? 0 : lease), write, NULL));
    assert_int_equal(reply->elements, 2);
    return integer(reply->element[1]);
}

static int64_t claim(const char *hold, const char *client, int64_t lease) {
    return claim_with(hold, client, lease, "0");
}

static int64_t leave(const char *hold, const char *fence) {
    return integer(run(&hf_script_leave, 1, K, hold, fence, NULL));
}

static answer cancel(const char *hold, const char *bury, const char *its_member) {
    return read_answer(run(&hf_script_cancel, 6, KEYS, dead(hold), hold, bury, its_member, NULL),
                       0);
}

static int64_t break_lock(int64_t fence, const char *also_foreign) {
    return integer(run(&hf_script_break, 5, KEYS, number(fence), also_foreign, NULL));
}

/* Hand on a free lock; -2: there are more waiters to skip. */
static int64_t kick(void) {
    redisReply *reply = good(run(&hf_script_acquire, 5, KEYS, "0", NULL));
    assert_int_equal(reply->elements, 2);
    return integer(reply->element[1]);
}

static redisReply *inspect(int skip, int most) {
    redisReply *reply =
        good(run(&hf_script_inspect, 5, K, Q, S, R, F, number(skip), number(most), NULL));
    assert_int_equal(reply->elements, 11);
    return reply;
}
enum { STATE, HOLDS, WAITERS, TTL, RESULT_TTL, NOW, HOLDERS, QUEUERS };
static int64_t seen(int what) { return integer(inspect(0, 0)->element[what]); }

/* ---------------------------------------------------------------- Looking */

static int64_t exists(const char *key) { return NUMBER("EXISTS %s", key); }
/* Return the number of waiters; the member ~ only keeps the queue. */
static int64_t queue_length(void) { return NUMBER("ZCOUNT " Q " -inf (inf"); }
static int64_t place(const char *its_member) {
    const char *score = STRING("ZSCORE " Q " %s", its_member);
    return score != NULL ? strtoll(score, NULL, 10) : -1;
}

/* Check that the key ends at about this time: a relative end counts from the start of the script.
 */
static void assert_expires(const char *key, int64_t at) {
    assert_in_range(expires_at(key), at - 1000, at + 1000);
}
/* Check that the key ends exactly then. */
static void assert_ends(const char *key, int64_t at) {
    int slack = tells_expiry() ? 0 : EXPIRY_SLACK;
    assert_in_range(expires_at(key), at - slack, at + slack);
}

/* Check an end that a script computed from a PTTL: it may be a little late. */
static void assert_near(const char *key, int64_t at) {
    if (at < 0)
        assert_int_equal(expires_at(key), at);
    else
        assert_in_range(expires_at(key), at - 100, at + 100); /* a busy machine pauses in between */
}

/* The columns of a hold, whatever the form of K. */
typedef struct {
    char form; /* t aken, o ne, b arred to wait, m any; or 0 */
    const char *fence, *owner, *client;
    char mode;
} column;

static column columns(const char *hold) {
    column c = {.fence = "0000000000000001"};
    if (strcmp(STRING("TYPE " K), "hash") != 0)
        return c;
    redisReply *all = TELL("HGETALL " K);
    for (size_t i = 0; i < all->elements; i += 2) {
        const char *name = all->element[i]->str, *value = all->element[i + 1]->str;
        size_t length = strlen(value);
        if (strcmp(name, "hf1") == 0 && length > 62 && (value[32] == '1' || value[32] == '2') &&
            strncmp(value, hold, 32) == 0)
            return (column){value[32] == '1' ? 'o' : 'b', text("%.16s", value + 33),
                            text("%s", value + 62), NOBODY, value[49]};
        if (*name != 'h' || strncmp(name + 1, hold, 32) != 0)
            continue;
        if (strlen(name) == 49)
            return (column){'t', text("%s", name + 33), text("%s", value), NOBODY, 'x'};
        if (strlen(name) == 33 && length > 49)
            return (column){'m', text("%.16s", value + 1), text("%s", value + 49),
                            text("%.32s", value + 17), *value};
    }
    return c;
}

static const char *held_fence(const char *hold) { return columns(hold).fence; }

static void assert_holder(const char *hold, const char *owner) {
    column c = columns(hold);
    if (c.owner == NULL)
        fail_msg("%s is not held", hold);
    assert_string_equal(c.owner, owner);
    assert_int_equal(NUMBER("HLEN " K) == 1, c.form != 'm');
}

static void assert_not_held(const char *hold) { assert_null(columns(hold).owner); }

/* Check the three forms, byte by byte. */
static void assert_taken(const char *hold, int64_t fence, const char *owner) {
    assert_int_equal(NUMBER("HLEN " K), 1);
    assert_string_equal(STRING("HGET " K " h%s%s", hold, fence16(fence)), owner);
}

static void assert_one(const char *hold, int64_t fence, const char *mode_lease_owner) {
    assert_int_equal(NUMBER("HLEN " K), 1);
    assert_string_equal(STRING("HGET " K " hf1"),
                        text("%s1%s%s", hold, fence16(fence), mode_lease_owner));
}

static void assert_many(int64_t fence, int exclusive, const char *owner, int holds) {
    assert_string_equal(STRING("HGET " K " hf1"),
                        text("%s%016dn9999999999999999%c000000000000%s", fence16(fence), exclusive,
                             exclusive > 0 ? 'x' : 's', owner));
    assert_int_equal(NUMBER("HLEN " K), 1 + holds);
    assert_int_equal(NUMBER("ZCARD " S), holds);
    assert_near(S, expires_at(K));
}

static void assert_hold(const char *hold, char mode, int64_t fence, const char *client,
                        const char *owner) {
    assert_string_equal(STRING("HGET " K " %s", field(hold)),
                        text("%c%s%s%s", mode, fence16(fence), client, owner));
}

static void assert_plain(int64_t fence) { assert_string_equal(STRING("GET " F), fence16(fence)); }

static void assert_flagged(int64_t fence, const char *client) {
    assert_string_equal(STRING("GET " F), text("%s%s" NO_DEAD, fence16(fence), client));
}

static int64_t server_us(void) {
    redisReply *time = TELL("TIME");
    return strtoll(time->element[0]->str, NULL, 10) * 1000000 +
           strtoll(time->element[1]->str, NULL, 10);
}

/* Return the end of a hold according to S; -1: never. */
static int64_t expiry(const char *hold) {
    const char *ends = STRING("ZSCORE " S " %s", hold);
    assert_non_null(ends);
    return strcmp(ends, "inf") == 0 ? -1 : strtoll(ends, NULL, 10);
}

/* --------------------------------------------------------------- Preparing */

/* Hold the lock in the form that a queue needs, without a waiter. */
static int64_t hold_one(const char *hold, const char *owner) {
    int64_t fence = hold_by(hold, owner, 10000);
    assert_int_equal(join(id(0xffff), GONE, "gone").state, QUEUED);
    assert_int_equal(cancel(id(0xffff), "0", member(id(0xffff), GONE, "gone")).state, BUSY);
    assert_one(hold, fence, text("x000000000000%s", owner));
    assert_flagged(fence, NOBODY);
    return fence;
}

/* Add a member, whoever wrote it. F must be flagged or lost. */
static void queue(const char *its_member, int64_t score) {
    assert_in_range(NUMBER("ZADD " Q " %s %s inf ~", number(score), its_member), 1, 2);
    TELL("PEXPIRE " Q " 30000");
}

/* Open a listener; heard() reads its messages. */
static redisContext *listen_to(const char *how, const char *name) {
    redisContext *context = connect_raw();
    good(kept(redisCommand(context, "%s %s", how, name)));
    return context;
}

static redisContext *subscribe(const char *client) {
    return listen_to("SUBSCRIBE", channel(client));
}

/* Let the queue's waiters look alive: without a listener they are thrown out sooner or later. */
static redisContext *all_live(void) {
    static const char *const clients[] = {ANN, BEN, CAT, DAN};
    redisContext *context = connect_raw();
    for (size_t i = 0; i < COUNT(clients); i++)
        good(kept(redisCommand(context, "SUBSCRIBE %s", channel(clients[i]))));
    return context;
}

/* Return the message that arrived since the last call, or NULL; more than one is an error. A
 * message that is published before a PING arrives before the PING's answer. */
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
    int64_t fence, server_us;
} message;

static message read_grant(const char *said) {
    message m;
    assert_non_null(said);
    assert_int_equal(strlen(said), 1 + 32 + 16 + 16);
    assert_int_equal(sscanf(said, "g%32s%16" SCNd64 "%16" SCNd64, m.hold, &m.fence, &m.server_us),
                     3);
    assert_string_equal(said, text("g%s%s%s", m.hold, fence16(m.fence), fence16(m.server_us)));
    return m;
}

static message heard_grant(redisContext *context) { return read_grant(heard(context)); }

/* Run the scripts from now on as a user without a permission. */
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

/* ------------------------------------------------------------------- Take */

static void test_a_take_writes_one_field_and_a_plain_fence(void **state) {
    (void)state;
    int64_t before = server_us();
    int64_t fence = take(id(1), "ann");
    assert_in_range(fence, before, server_us()); /* the clock, in microseconds */
    assert_taken(id(1), fence, "ann");
    assert_plain(fence);
    assert_expires(K, fence / 1000 + 10000);
    assert_expires(F, fence / 1000 + DAY);
    assert_int_equal(NUMBER("DBSIZE"), 2);
    /* The plain HDEL as a release. */
    assert_int_equal(NUMBER("HDEL " K " h%s%s", id(1), fence16(fence + 1)), 0);
    assert_int_equal(NUMBER("HDEL " K " h%s%s", id(1), fence16(fence)), 1);
    assert_int_equal(exists(K), 0);
    assert_true(take(id(2), "ann") > fence);
}

static void test_a_take_of_a_lock_that_is_not_free_does_nothing(void **state) {
    static const char *const foreign[] = {"SET " K " x", "HSET " K " a b", "RPUSH " K " x"};
    (void)state;
    hold_by(id(1), "ann", 10000);
    char *before = snapshot(K), *fence = snapshot(F);
    assert_int_equal(take(id(2), "ben"), -1);
    assert_int_equal(take(id(1), "ann"), -1); /* a retry uses acquire */
    assert_string_equal(snapshot(K), before);
    assert_string_equal(snapshot(F), fence);
    for (size_t i = 0; i < COUNT(foreign); i++) {
        TELL("DEL " K);
        TELL(foreign[i]);
        before = snapshot(K);
        assert_int_equal(take(id(2), "ben"), -1);
        assert_string_equal(snapshot(K), before);
        assert_string_equal(snapshot(F), fence);
    }
}

static void test_a_take_leaves_to_acquire_what_is_to_be_looked_after(void **state) {
    (void)state;
    int64_t ahead = server_us() + 3600000000;
    const char *const fences[] = {
        text("%s" NOBODY NO_DEAD, fence16(1000)),
        text("%s" ANN NO_DEAD, fence16(1000)),
        text("%s" NOBODY "%013" PRId64, fence16(1000), ahead / 1000),
        fence16(ahead), /* the clock has been set back */
        text("%s" ANN NO_DEAD, fence16(ahead)),
    };
    for (size_t i = 0; i < COUNT(fences); i++) {
        print_message("%s\n", fences[i]);
        TELL("SET " F " %s PX 5000", fences[i]);
        assert_int_equal(take(id(1), "ann"), 0);
        assert_int_equal(exists(K), 0);
        assert_string_equal(STRING("GET " F), fences[i]);
        int64_t until = strtoll(text("%.16s", fences[i]), NULL, 10);
        int64_t now = server_us();
        assert_expires(F, (until > now ? until : now) / 1000 + DAY);
        assert_int_equal(try_once(id(1), "ann").state, HELD);
        TELL("FLUSHALL");
    }
}

static void test_a_take_below_the_floor_writes_nothing(void **state) { /* C10 */
    (void)state;
    int64_t ahead = server_us() + 3600000000;
    assert_int_equal(integer(take_reply(id(1), "ann", "10000", ahead)), 0);
    assert_int_equal(NUMBER("DBSIZE"), 0);
    assert_string_not_equal(STRING("TYPE " K), "hash");
    assert_int_equal(good(take_reply(id(1), "ann", "10000", ahead - 3700000000))->type,
                     REDIS_REPLY_STRING);
}

/* PEXPIRE with a time in the past deletes the key: there would be no hold. */
static void test_a_take_out_of_bounds_writes_nothing(void **state) {
    static const char *const leases[] = {
        "0",   "9", "-1", "0.5",          "10000.5", "1e300", "1e400",       "nan",
        "inf", "",  "x",  "315360000001", "0x100",   "1e4",   "1e3000000000"};
    static char long_owner[4098];
    (void)state;
    memset(long_owner, 'o', 4097);
    for (size_t i = 0; i < COUNT(leases); i++) {
        print_message("lease %s\n", leases[i]);
        redisReply *reply = take_reply(id(1), "ann", leases[i], 0);
        assert_true(reply->type == REDIS_REPLY_ERROR ||
                    (reply->type == REDIS_REPLY_INTEGER && reply->integer == 0));
        assert_int_equal(NUMBER("DBSIZE"), 0);
    }
    assert_int_equal(take(id(1), ""), 0);
    assert_int_equal(take(id(1), long_owner), 0);
    assert_int_equal(take("123", "ann"), 0);
    assert_int_equal(NUMBER("DBSIZE"), 0);
    long_owner[4096] = '\0';
    assert_true(take(id(1), long_owner) > 0);
}

/* ---------------------------------------------------------------- Acquire */

static void test_acquire_writes_what_take_writes(void **state) {
    (void)state;
    int64_t before = server_us();
    answer a = acquire((asking){id(1), "ann", .lease = 5000});
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.left, 5000);
    assert_int_equal(a.again, 5000);
    assert_in_range(a.now, before, server_us());
    assert_int_equal(a.fence, a.now); /* the clock, in microseconds */
    assert_taken(id(1), a.fence, "ann");
    assert_ends(K, a.now / 1000 + 5000);
    assert_plain(a.fence);
    assert_expires(F, a.now / 1000 + DAY);
    assert_int_equal(NUMBER("DBSIZE"), 2);
}

static void test_a_lease_of_zero_never_ends(void **state) {
    (void)state;
    answer a = acquire((asking){id(1), "ann", .lease = NEVER});
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.left, -1);
    assert_int_equal(a.again, -1);
    assert_taken(id(1), a.fence, "ann");
    assert_int_equal(NUMBER("PTTL " K), -1);
}

static void test_a_busy_answer_tells_when_to_come_back(void **state) {
    (void)state;
    hold_by(id(1), "ann", 5000);
    char *before = snapshot(K), *fence = snapshot(F);
    answer a = try_once(id(2), "ben");
    assert_int_equal(a.state, BUSY);
    assert_in_range(a.again, 4000, 5000);
    assert_string_equal(snapshot(K), before);
    assert_string_equal(snapshot(F), fence);
    assert_int_equal(exists(Q), 0); /* it did not ask to wait */
    /* If there are several holds: the first to end. */
    hold_by(id(3), "ann", 2000);
    assert_in_range(try_once(id(2), "ben").again, 1000, 2000);
}

static void test_a_retry_of_acquire_is_told_what_is_left_and_adds_nothing(void **state) { /* C4a */
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 60000);
    for (int form = 0; form < 3; form++) { /* taken, one, many */
        if (form == 1)
            assert_int_equal(join(id(8), GONE, "gone").state, QUEUED);
        if (form == 2)
            hold_by(id(2), "ann", 60000);
        assert_int_equal(columns(id(1)).form, "tom"[form]);
        char *before = snapshot(K);
        pass_ms(30);
        answer a = acquire((asking){id(1), "ann", .lease = 60000});
        assert_int_equal(a.state, HELD);
        assert_int_equal(a.fence, fence);
        assert_in_range(a.left, 50000, 60000 - 29);
        assert_string_equal(snapshot(K), before);
    }
}

/* Otherwise a pushed grant that is asked for in its first millisecond is never claimed. */
static void test_a_retry_is_told_less_than_the_whole_lease(void **state) {
    (void)state;
    hold_by(id(1), "ann", 60000);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(release(id(1)), 1);
        hold_by(id(1), "ann", 60000);
        assert_in_range(acquire((asking){id(1), "ann", .lease = 60000}).left, 50000, 59999);
    }
}

static void test_two_acquires_and_a_retry_are_two_holds(void **state) { /* C2b */
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 10000);
    assert_int_equal(hold_by(id(2), "ann", 10000), fence);
    assert_int_equal(hold_by(id(1), "ann", 10000), fence);
    assert_many(fence, 2, "ann", 2);
    assert_hold(id(1), 'x', fence, NOBODY, "ann");
    assert_hold(id(2), 'x', fence, NOBODY, "ann");
    assert_int_equal(release(id(1)), 1);
    assert_many(fence, 1, "ann", 1);
    assert_int_equal(release(id(2)), 1);
    assert_int_equal(exists(K), 0);
    assert_int_equal(exists(S), 0);
    assert_true(take(id(3), "ben") > fence);
}

static void test_who_may_not_nest_is_busy_for_himself(void **state) {
    (void)state;
    hold_by(id(1), "ann", 10000);
    assert_int_equal(acquire((asking){id(2), "ann", .nests = "0"}).state, BUSY);
    /* But his retry is still known. */
    assert_int_equal(acquire((asking){id(1), "ann", .nests = "0"}).state, HELD);
}

/* ---------------------------------------------------------------- Release */

static void test_a_late_copy_of_a_release_touches_nobody(void **state) { /* C2a */
    (void)state;
    hold_by(id(1), "ann", 10000);
    const char *fence = held_fence(id(1));
    hold_by(id(2), "ann", 10000);
    assert_int_equal(release_of(id(1), fence), 1);
    assert_int_equal(release_of(id(1), fence), 0);
    assert_holder(id(2), "ann");
    assert_int_equal(release_of(id(2), fence), 1);
    for (int form = 0; form < 3; form++) { /* the same owner again, later */
        hold_by(id(3), "ann", 10000);
        if (form == 1)
            assert_int_equal(join(id(8), GONE, "gone").state, QUEUED);
        if (form == 2)
            hold_by(id(4), "ann", 10000);
        char *before = snapshot(K);
        assert_int_equal(release_of(id(1), fence), 0);
        assert_int_equal(release_of(id(2), fence), 0);
        assert_int_equal(release_of(id(3), fence), 0); /* another use of that id */
        assert_string_equal(snapshot(K), before);
        TELL("DEL " K " " S " " Q);
    }
}

static void test_a_retry_of_the_last_release_says_not_held(void **state) { /* C2c */
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 10000);
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(exists(K), 0);
    assert_int_equal(release_of(id(1), fence16(fence)), 0);
    assert_plain(fence);
    assert_int_equal(NUMBER("DBSIZE"), 1);
}

static void test_a_release_need_not_know_the_fence(void **state) {
    (void)state;
    for (int form = 0; form < 3; form++) {
        hold_by(id(1), "ann", 10000);
        if (form == 1)
            assert_int_equal(join(id(8), GONE, "gone").state, QUEUED);
        if (form == 2)
            hold_by(id(2), "ann", 10000);
        print_message("form %c\n", columns(id(1)).form);
        assert_int_equal(release_of(id(1), ""), 1);
        assert_not_held(id(1));
        assert_int_equal(release_of(id(1), ""), 0);
        TELL("FLUSHALL");
    }
}

static void test_with_nobody_in_the_queue_the_fence_is_plain_again(void **state) {
    (void)state;
    int64_t fence = hold_one(id(1), "ann");
    assert_int_equal(release(id(1)), 1);
    assert_plain(fence);
    assert_int_equal(exists(K), 0);
    assert_int_equal(exists(Q), 0);
    /* Also if the queue is lost. */
    fence = hold_one(id(1), "ann");
    TELL("DEL " Q);
    assert_int_equal(release(id(1)), 1);
    assert_plain(fence);
    assert_true(take(id(2), "ben") > fence);
    assert_expires(F, server_us() / 1000 + DAY);
}

static void test_a_dead_hold_id_neither_acquires_nor_queues(void **state) { /* C3 */
    (void)state;
    hold_by(id(1), "ann", 10000);
    assert_int_equal(release_with(id(1), "1", ""), 1);
    assert_in_range(NUMBER("PTTL %s", dead(id(1))), 590000, 600000);
    int64_t until = server_us() / 1000 + 600000;
    assert_in_range(strtoll(STRING("GETRANGE " F " 48 60"), NULL, 10), until - 1000, until);
    /* Late copies of the acquire, on a free lock and on a held one. */
    assert_int_equal(take(id(1), "ann"), 0);
    assert_int_equal(try_once(id(1), "ann").state, DEAD);
    assert_int_equal(join(id(1), ANN, "ann").state, DEAD);
    assert_int_equal(exists(K), 0);
    assert_int_equal(exists(Q), 0);
    hold_by(id(2), "ann", 10000);
    assert_int_equal(try_once(id(1), "ann").state, DEAD); /* nor does it nest */
    assert_int_equal(join(id(1), ANN, "ann").state, DEAD);
    assert_holder(id(2), "ann");
    assert_int_equal(NUMBER("HLEN " K), 1);
    assert_int_equal(exists(Q), 0);
    /* The next hold leaves F as it is: the id stays dead. */
    assert_int_equal(release(id(2)), 1);
    assert_int_equal(take(id(1), "ann"), 0);
    assert_int_equal(try_once(id(1), "ann").state, DEAD);
}

static void test_a_dead_id_stays_dead_through_a_queue(void **state) { /* C3 */
    redisContext *ben = subscribe(BEN);
    (void)state;
    hold_by(id(1), "ann", 10000);
    assert_int_equal(join(id(2), BEN, "ben").state, QUEUED);
    assert_int_equal(release_with(id(1), "1", ""), 1);
    assert_string_equal(heard_grant(ben).hold, id(2));
    assert_int_equal(claim(id(2), BEN, 10000), 10000);
    const char *until = STRING("GETRANGE " F " 48 60");
    assert_string_not_equal(until, NO_DEAD);
    assert_int_equal(release(id(2)), 1);
    assert_string_equal(STRING("GETRANGE " F " 16 60"), text(NOBODY "%s", until));
    assert_int_equal(take(id(1), "ann"), 0);
    assert_int_equal(try_once(id(1), "ann").state, DEAD);
    /* Until all dead ids are forgotten: then the next request that looks at F finds it plain. */
    TELL("SETRANGE " F " 48 %s", text("%013d", 1000));
    TELL("DEL %s", dead(id(1)));
    int64_t fence = hold_by(id(3), "ann", 10000);
    assert_plain(fence);
    redisFree(ben);
}

/* A copy of the `wait` arrives late: `wait` does not look for dead ids, but sees from K that there
 * may be some. */
static void test_a_dead_id_is_not_queued_by_a_late_wait(void **state) { /* C3 */
    redisContext *ben = subscribe(BEN), *cat = subscribe(CAT);
    asking late = {id(3), "cat", .client = CAT}, other = {id(5), "ben", .client = BEN};
    (void)state;
    hold_one(id(1), "ann");
    assert_int_equal(columns(id(1)).form, 'o');
    assert_int_equal(join(id(2), BEN, "ben").state, QUEUED);
    assert_int_equal(cancel(id(3), "1", member(id(3), CAT, "cat")).state, BUSY);
    assert_int_equal(columns(id(1)).form, 'b');
    assert_null(wait_for(late));
    assert_int_equal(join(id(3), CAT, "cat").state, DEAD);
    /* Handed on by the short release, */
    assert_int_equal(release(id(1)), 1);
    assert_string_equal(heard_grant(ben).hold, id(2));
    assert_int_equal(columns(id(2)).form, 'b');
    assert_null(wait_for(late));
    /* by the general release, from a lock that was taken, */
    assert_int_equal(release(id(2)), 1);
    assert_int_equal(try_once(id(4), "ann").state, HELD);
    assert_int_equal(columns(id(4)).form, 't');
    assert_int_equal(join(id(5), BEN, "ben").state, QUEUED);
    assert_int_equal(columns(id(4)).form, 'b');
    assert_null(wait_for(late));
    assert_int_equal(release_with(id(4), "1", ""), 1);
    assert_string_equal(heard_grant(ben).hold, id(5));
    assert_int_equal(columns(id(5)).form, 'b');
    assert_null(wait_for(late));
    /* and until no id can be dead any more. */
    assert_int_equal(join(id(6), CAT, "cat").state, QUEUED);
    TELL("SETRANGE " F " 48 %s", text("%013d", 1000));
    assert_int_equal(release(id(5)), 1);
    assert_string_equal(heard_grant(cat).hold, id(6));
    assert_int_equal(columns(id(6)).form, 'o');
    assert_non_null(wait_for(other));
    redisFree(ben);
    redisFree(cat);
}

static void test_a_cancelled_hold_id_is_dead_and_out_of_the_queue(void **state) { /* C3 */
    (void)state;
    hold_by(id(1), "ann", 10000);
    assert_int_equal(join(id(2), BEN, "ben").state, QUEUED);
    assert_int_equal(cancel(id(2), "1", member(id(2), BEN, "ben")).state, BUSY);
    assert_int_equal(queue_length(), 0);
    assert_in_range(NUMBER("PTTL %s", dead(id(2))), 590000, 600000);
    assert_int_equal(join(id(2), BEN, "ben").state, DEAD);
    assert_int_equal(queue_length(), 0);
    /* Before its enqueue has arrived at all. */
    assert_int_equal(cancel(id(3), "1", member(id(3), BEN, "ben")).state, BUSY);
    assert_int_equal(join(id(3), BEN, "ben").state, DEAD);
    /* Released before its acquire has arrived, and its member with it. */
    assert_int_equal(join(id(4), BEN, "ben").state, QUEUED);
    assert_int_equal(release_with(id(4), "1", member(id(4), BEN, "ben")), 0);
    assert_int_equal(queue_length(), 0);
    assert_int_equal(try_once(id(4), "ben").state, DEAD);
}

static void test_a_dead_hold_id_is_written_only_to_bury(void **state) {
    (void)state;
    hold_by(id(1), "ann", 10000);
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(cancel(id(2), "0", member(id(2), BEN, "ben")).state, BUSY);
    assert_int_equal(NUMBER("DBSIZE"), 1);
}

static void test_a_release_takes_the_member_out_too(void **state) {
    redisContext *all = all_live();
    (void)state;
    hold_by(id(1), "ann", 10000);
    assert_int_equal(join(id(2), BEN, "ben").state, QUEUED);
    assert_int_equal(join(id(3), CAT, "cat").state, QUEUED);
    assert_int_equal(release_with(id(2), "0", member(id(2), BEN, "ben")), 0);
    assert_int_equal(queue_length(), 1);
    assert_int_equal(place(member(id(2), BEN, "ben")), -1);
    assert_holder(id(1), "ann");
    redisFree(all);
}

static void test_cancel_answers_a_grant_that_has_happened(void **state) {
    (void)state;
    redisContext *ben = subscribe(BEN);
    hold_by(id(1), "ann", 10000);
    assert_int_equal(join(id(2), BEN, "ben").state, QUEUED);
    assert_int_equal(release(id(1)), 1);
    char *before = snapshot(K);
    answer a = cancel(id(2), "0", member(id(2), BEN, "ben"));
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.fence, heard_grant(ben).fence);
    assert_in_range(a.left, 2000, 3000);
    assert_string_equal(snapshot(K), before);
    assert_int_equal(exists(dead(id(2))), 0);
    redisFree(ben);
}

/* A kept hold may end before a copy of its acquire arrives. */
static void test_cancel_buries_what_is_held_and_leaves_it_there(void **state) {
    (void)state;
    hold_by(id(1), "ann", 100);
    assert_int_equal(cancel(id(1), "1", "").state, HELD);
    assert_holder(id(1), "ann");
    assert_int_equal(exists(dead(id(1))), 1);
    assert_int_equal(acquire((asking){id(1), "ann", .lease = 100}).state, HELD);
    pass_ms(101);
    assert_int_equal(exists(K), 0);
    assert_int_equal(acquire((asking){id(1), "ann", .lease = 100}).state, DEAD);
    assert_int_equal(exists(K), 0);
}

static void test_a_cancel_lets_those_behind_it_in(void **state) {
    (void)state;
    redisContext *cat = subscribe(CAT), *ben = subscribe(BEN);
    int64_t fence = hold_as((asking){id(1), "ann", .mode = "s0"});
    assert_int_equal(join(id(2), BEN, "ben").state, QUEUED);
    assert_int_equal(acquire((asking){id(3), "cat", .client = CAT, .mode = "s0"}).state, QUEUED);
    assert_null(heard(cat));
    answer a = cancel(id(2), "0", member(id(2), BEN, "ben"));
    assert_int_equal(a.state, BUSY);
    assert_in_range(a.again, 9000, 10000); /* of ann's hold */
    message grant = heard_grant(cat);
    assert_string_equal(grant.hold, id(3));
    assert_true(grant.fence > fence);
    assert_hold(id(3), 's', grant.fence, CAT, "cat");
    assert_hold(id(1), 's', fence, NOBODY, "ann");
    assert_null(heard(ben));
    redisFree(ben);
    redisFree(cat);
}

static void test_leave_ends_a_hold_with_the_locks_key_alone(void **state) {
    static const char *const foreign[] = {"SET " K " x", "HSET " K " a b", "RPUSH " K " x"};
    (void)state;
    for (int form = 0; form < 3; form++) {
        hold_by(id(1), "ann", 10000);
        if (form == 1)
            assert_int_equal(join(id(8), GONE, "gone").state, QUEUED);
        if (form == 2)
            hold_by(id(2), "ann", 10000);
        char *before = snapshot(K);
        const char *fence = held_fence(id(1));
        if (form < 2) {
            assert_int_equal(leave(id(1), fence16(1)), 0);
            assert_int_equal(leave(id(3), fence), 0);
        }
        assert_string_equal(snapshot(K), before);
        assert_int_equal(leave(id(1), fence), form == 2 ? 3 : 1);
        assert_int_equal(exists(K), form == 2);
        if (form == 2)
            assert_string_equal(snapshot(K), before);
        TELL("FLUSHALL");
        assert_int_equal(leave(id(1), fence), 0);
    }
    for (size_t i = 0; i < COUNT(foreign); i++) {
        TELL("DEL " K);
        TELL(foreign[i]);
        assert_int_equal(leave(id(1), fence16(1)), 0);
        assert_int_equal(exists(K), 1);
    }
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
    assert_near(K, longest);
    assert_near(S, longest);
    assert_in_range(renew(id(2), 5000, LOOK), 4000, 5000);
}

static void test_many_renewals_of_one_lock_in_one_call_agree(void **state) { /* C7 */
    enum { COPIES = 50 };
    const char *words[5 + COPIES + 4 * COPIES] = {"EVAL", hf_script_renew.text, number(COPIES + 1)};
    (void)state;
    for (int i = 0; i < COPIES; i++)
        hold_by(id(i), "ann", i == 0 ? 60000 : 5000);
    for (int i = 0; i < COPIES; i++) {
        const char **arguments = words + 4 + COPIES + 4 * i;
        words[3 + i] = K;
        arguments[0] = text("%s%s", id(i), held_fence(id(i)));
        arguments[1] = i % 2 == 0 ? "30000" : "40000";
        arguments[2] = i % 3 == 0 ? EXACTLY : LONGER;
        arguments[3] = number(COPIES + 1);
    }
    words[3 + COPIES] = S;
    redisReply *reply = good(kept(redisCommandArgv(user, 4 + COPIES + 4 * COPIES, words, NULL)));
    assert_int_equal(reply->elements, 1 + COPIES);
    int64_t latest = 0;
    for (int i = 0; i < COPIES; i++) {
        assert_int_equal(integer(reply->element[1 + i]), i % 2 == 0 ? 30000 : 40000);
        latest = expiry(id(i)) > latest ? expiry(id(i)) : latest;
    }
    assert_near(K, latest); /* the longest was shortened in the middle of the call */
    assert_near(S, latest);
}

static void test_the_keys_expiry_is_the_latest_of_its_holds(void **state) { /* C7 */
    (void)state;
    hold_by(id(2), "ann", 5000);
    hold_by(id(1), "ann", 60000); /* a longer one begins */
    assert_near(K, expiry(id(1)));
    hold_by(id(3), "ann", 20000); /* a shorter one begins */
    assert_near(K, expiry(id(1)));
    assert_int_equal(release(id(1)), 1); /* the longest ends */
    assert_near(K, expiry(id(3)));
    assert_in_range(renew(id(2), 30000, LONGER), 29000, 30000);
    assert_near(K, expiry(id(2)));
    assert_int_equal(release(id(3)), 1); /* a shorter one ends */
    assert_near(K, expiry(id(2)));
    hold_by(id(4), "ann", NEVER);
    assert_int_equal(NUMBER("PTTL " K), -1);
    assert_int_equal(NUMBER("PTTL " S), -1);
    assert_in_range(renew(id(2), 40000, LONGER), 39000, 40000);
    assert_int_equal(NUMBER("PTTL " K), -1);
    hold_by(id(5), "ann", 5000);
    assert_int_equal(NUMBER("PTTL " K), -1);
    assert_int_equal(release(id(4)), 1); /* the endless one ends */
    assert_near(K, expiry(id(2)));
    assert_near(S, expiry(id(2)));
}

static void test_a_renewal_gives_the_lease_from_now(void **state) {
    (void)state;
    for (int form = 0; form < 3; form++) {
        TELL("FLUSHALL");
        hold_by(id(1), "ann", 5000);
        if (form == 1)
            assert_int_equal(join(id(8), GONE, "gone").state, QUEUED);
        if (form == 2)
            hold_by(id(2), "ann", 10);
        int64_t before = expires_at(K);
        pass_ms(30);
        assert_int_equal(renew(id(1), 5000, LONGER), 5000);
        assert_in_range(expires_at(K), before + 29, before + 4000);
        assert_int_equal(renew(id(1), NEVER, LONGER), -1);
        assert_int_equal(NUMBER("PTTL " K), -1);
        if (form == 2)
            assert_int_equal(expiry(id(1)), -1);
    }
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
    assert_in_range(NUMBER("PTTL " K), 4000, 5000);
    /* A hold without an end is shortened as well; another hold keeps its end. */
    assert_int_equal(renew(id(1), NEVER, EXACTLY), -1);
    hold_by(id(2), "ann", 30000);
    assert_int_equal(renew(id(1), 5000, EXACTLY), 5000);
    assert_near(K, expiry(id(2)));
    assert_near(S, expiry(id(2)));
}

/* Another program may have given the key an earlier end than the holds have. */
static void test_a_renewal_sees_the_keys_own_end(void **state) {
    (void)state;
    hold_by(id(1), "ann", 60000);
    hold_by(id(2), "ann", 50000);
    TELL("PEXPIRE " K " 5000");
    assert_in_range(renew(id(1), 60000, LOOK), 4000, 5000);
    pass_ms(5);
    assert_int_equal(renew(id(1), 60000, LONGER), 60000);
    assert_near(K, expiry(id(1)));
}

static void test_an_expired_hold_counts_for_nothing_although_the_key_lives(void **state) {
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 60000);
    hold_by(id(2), "ann", 10);
    const char *its_fence = held_fence(id(2));
    pass_ms(11);
    assert_int_equal(renew_of(id(2), its_fence, 10000, LOOK), -2);
    char *before = snapshot(K);
    assert_int_equal(renew_of(id(2), its_fence, 10000, LONGER), -2);
    assert_int_equal(renew_of(id(2), its_fence, 10000, EXACTLY), -2);
    assert_int_equal(claim(id(2), ANN, 10000), -2);
    assert_string_equal(snapshot(K), before);
    redisReply *look = inspect(0, 10);
    assert_int_equal(integer(look->element[HOLDS]), 1);
    assert_int_equal(look->element[HOLDERS]->elements, 6);
    assert_int_equal(cancel(id(2), "0", "").state, BUSY);
    assert_int_equal(release_of(id(2), its_fence), 0);
    assert_many(fence, 1, "ann", 1);
    /* When the last hold that counts ends, the lock is free. */
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(exists(K), 0);
    assert_int_equal(exists(S), 0);
}

/* A server deletes a key at once that is to end now. What another hold has added to it must
 * survive. */
static void test_a_shared_hold_in_its_last_millisecond_takes_no_other_with_it(void **state) {
    (void)state;
    for (int ends = 0; ends < 3; ends++) { /* the last one: a waiter that returns to its place */
        TELL("DEL " K " " S);
        int64_t fence = hold_as((asking){id(1), "ann", .mode = "x"});
        assert_int_equal(release(id(1)), 1);
        TELL(text("HSET " K " s%s%s ann", id(2), fence16(fence)));
        TELL("PEXPIRE " K " 10");
        pass_ms(10);
        asking next = {id(3), "ben", .mode = "s0", .lease = ends == 1 ? 10000 : NEVER};
        if (ends == 2)
            next.client = BEN, next.score = 1;
        int64_t its = hold_as(next);
        pass_ms(1);
        assert_int_equal(renew_of(id(3), fence16(its), next.lease, LOOK), ends == 1 ? 9999 : -1);
        assert_int_equal(release_of(id(3), fence16(its)), 1);
        assert_int_equal(acquire((asking){id(4), "cat", .mode = "x"}).state, HELD);
        assert_int_equal(release(id(4)), 1);
    }
}

static void test_expired_holds_leave_with_the_next_that_looks(void **state) {
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 60000);
    for (int i = 2; i < 6; i++)
        hold_by(id(i), "ann", 10);
    assert_int_equal(hold_as((asking){id(6), "ann", .mode = "s0", .nests = "1"}), fence);
    assert_many(fence, 5, "ann", 6);
    pass_ms(30);
    assert_int_equal(try_once(id(7), "ben").state, BUSY);
    assert_many(fence, 1, "ann", 2);
    /* The exclusive holds have ended, and a nested shared one has not: the lock is shared now. */
    assert_int_equal(renew(id(1), 10, EXACTLY), 10);
    pass_ms(30);
    assert_int_equal(try_once(id(7), "ben").state, BUSY);
    assert_many(0, 0, "", 1);
    assert_int_equal(acquire((asking){id(7), "ben", .mode = "s0"}).state, HELD);
    assert_many(0, 0, "", 2);
}

static void test_a_field_that_is_no_hold_fails_no_script(void **state) {
    (void)state;
    hold_by(id(1), "ann", 60000);
    hold_by(id(2), "ann", 10000);
    TELL("HSET " K " hello x h y");
    TELL("ZADD " S " 1 hello inf stranger");
    assert_int_equal(renew(id(2), 5000, EXACTLY), 5000);
    redisReply *look = inspect(0, 10);
    assert_int_equal(look->element[HOLDERS]->elements, 2 * 6);
    assert_int_equal(try_once(id(3), "ben").state, BUSY);
    assert_int_equal(release_with(id(2), "1", ""), 1);
    assert_int_equal(release(id(1)), 1);
    assert_not_held(id(1));
}

static void test_renewals_of_many_locks_do_not_fail_each_other(void **state) { /* M10 */
    (void)state;
    hold_by(id(1), "ann", 5000);
    TELL("SET foreign x");
    TELL("HSET hash field x");
    const char *mine = text("%s%s", id(1), held_fence(id(1)));
    const char *other = text("%s%s", id(2), held_fence(id(1)));
    const char *later = text("%s%s", id(1), fence16(1));
#define RENEWAL(hold) hold, "60000", LONGER, "0"
    redisReply *reply = good(run(&hf_script_renew, 6, "foreign", "missing", K, "hash", K, K,
                                 RENEWAL(mine), RENEWAL(mine), RENEWAL(mine), RENEWAL(mine),
                                 RENEWAL(other), RENEWAL(later), NULL));
    assert_int_equal(reply->elements, 7);
    assert_int_equal(integer(reply->element[1]), -2);
    assert_int_equal(integer(reply->element[2]), -2);
    assert_int_equal(integer(reply->element[3]), 60000);
    assert_int_equal(integer(reply->element[4]), -2);
    assert_int_equal(integer(reply->element[5]), -2);
    assert_int_equal(integer(reply->element[6]), -2);
    assert_int_equal(exists("missing"), 0);
}

static void test_a_renewal_of_one_of_many_asks_for_the_key_of_their_ends(void **state) {
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 20000);
    hold_by(id(2), "ann", 20000);
    char *before = snapshot(K);
    const char *one = text("%s%s", id(1), fence16(fence));
    const char *two = text("%s%s", id(2), fence16(fence));
    redisReply *reply = good(run(&hf_script_renew, 2, K, K, RENEWAL(one), RENEWAL(two), NULL));
    assert_int_equal(integer(reply->element[1]), -4);
    assert_int_equal(integer(reply->element[2]), -4);
    assert_string_equal(snapshot(K), before);
    /* One call with the hold, and one without. */
    reply = good(run(&hf_script_renew, 3, K, K, S, RENEWAL(one), two, "60000", LONGER, "3", NULL));
    assert_int_equal(integer(reply->element[1]), -4);
    assert_int_equal(integer(reply->element[2]), 60000);
    assert_near(K, expiry(id(2)));
}

/* ------------------------------------------------------------------- Queue */

static void test_a_waiter_is_queued_in_the_order_of_arrival(void **state) {
    redisContext *all = all_live();
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 10000);
    answer second = join(id(2), BEN, "alice");
    assert_int_equal(second.state, QUEUED);
    assert_int_equal(second.score, second.now);
    assert_int_equal(second.rank, 0);
    assert_in_range(second.again, 9000, 10000);
    /* A take does not get the lock past the waiter, nor does its holder's release. */
    assert_one(id(1), fence, "x000000000000ann");
    assert_flagged(fence, NOBODY);
    answer third = join(id(3), BEN, "alice");
    assert_true(third.score > second.score);
    assert_int_equal(third.rank, 1);
    redisReply *members = TELL("ZRANGE " Q " 0 -1 WITHSCORES");
    assert_int_equal(members->elements, 6);
    assert_string_equal(members->element[0]->str,
                        text("%s" BEN "p0000000000x000000010000alice", id(2)));
    assert_string_equal(members->element[1]->str, number(second.score));
    assert_string_equal(members->element[4]->str, "~");
    assert_string_equal(members->element[5]->str, "inf");
    assert_in_range(NUMBER("PTTL " Q), 20000, 30000); /* lest a dead queue stay for ever */
    redisFree(all);
}

static void test_a_retry_of_an_enqueue_keeps_one_member_and_its_first_score(void **state) { /* C8 */
    redisContext *all = all_live();
    (void)state;
    hold_by(id(1), "ann", 10000);
    int64_t score = join(id(2), BEN, "ben").score;
    assert_int_equal(join(id(3), CAT, "cat").rank, 1);
    TELL("PEXPIRE " Q " 5000");
    pass_ms(5);
    answer again = join(id(2), BEN, "ben");
    assert_int_equal(again.state, QUEUED);
    assert_int_equal(again.score, score);
    assert_int_equal(again.rank, 0);
    again = acquire((asking){id(2), "ben", .client = BEN, .score = score + 5});
    assert_int_equal(again.state, QUEUED);
    assert_int_equal(again.score, score);
    assert_int_equal(queue_length(), 2);
    assert_in_range(NUMBER("PTTL " Q), 20000, 30000);
    redisFree(all);
}

static void test_a_waiter_that_comes_back_is_queued_at_its_first_score(void **state) { /* H12 */
    redisContext *all = all_live();
    (void)state;
    hold_by(id(1), "ann", 10000);
    answer a = join(id(2), BEN, "ben");
    assert_int_equal(NUMBER("ZREM " Q " %s", member(id(2), BEN, "ben")), 1);
    assert_int_equal(join(id(3), CAT, "cat").rank, 0);
    a = acquire((asking){id(2), "ben", .client = BEN, .score = a.score});
    assert_int_equal(a.state, QUEUED_AGAIN); /* it had been thrown out */
    assert_int_equal(a.rank, 0);
    /* A waiter that has lost its id also returns, under a new one. */
    a = acquire((asking){id(4), "ben", .client = BEN, .score = a.score - 1});
    assert_int_equal(a.state, QUEUED_AGAIN);
    assert_int_equal(a.rank, 0);
    /* The second time it is in the queue. */
    assert_int_equal(acquire((asking){id(4), "ben", .client = BEN, .score = a.score}).state,
                     QUEUED);
    redisFree(all);
}

static void test_a_score_is_above_all_others_although_they_are_ahead(void **state) { /* C8 */
    redisContext *all = all_live();
    (void)state;
    hold_one(id(1), "ann");
    int64_t ahead = server_us() + 3600000000;
    queue(member(id(2), BEN, "ben"), ahead);
    assert_int_equal(join(id(3), CAT, "cat").score, ahead + 1);
    assert_int_equal(join(id(4), DAN, "dan").score, ahead + 2);
    redisFree(all);
}

static void test_a_head_start_passes_those_alone_who_came_within_it(void **state) {
    redisContext *all = all_live();
    (void)state;
    hold_by(id(1), "ann", 10000);
    int64_t early = server_us() - 6000000;
    queue(member(id(2), BEN, "ben"), early);
    queue(member(id(3), CAT, "cat"), early + 2000000);
    asking urgent = {id(4), "dan", .client = DAN, .score = -5000000};
    answer a = acquire(urgent);
    assert_int_equal(a.state, QUEUED);
    assert_int_equal(a.score, a.now - 5000000);
    assert_int_equal(a.rank, 1);
    answer again = acquire(urgent);
    assert_int_equal(again.state, QUEUED);
    assert_int_equal(again.score, a.score);
    /* The lock is free, and the first waiter is served. */
    TELL("DEL " K);
    assert_int_equal(acquire((asking){id(5), "eve", .client = DAN, .score = -7000000}).state, HELD);
    assert_int_equal(queue_length(), 3);
    redisFree(all);
}

static void test_success_takes_the_waiter_out_of_the_queue(void **state) { /* C8 */
    redisContext *all = all_live();
    (void)state;
    /* The lock is free, and the waiter is the first. */
    queue(member(id(1), ANN, "ann"), 1000);
    assert_int_equal(join(id(1), ANN, "ann").state, HELD);
    assert_int_equal(queue_length(), 0);
    /* The lock is already granted to it, and the message is lost. */
    queue(member(id(1), ANN, "ann"), 1000);
    assert_int_equal(join(id(1), ANN, "ann").state, HELD);
    assert_int_equal(queue_length(), 0);
    /* Its owner already holds the lock. */
    queue(member(id(2), ANN, "ann"), 1000);
    assert_int_equal(join(id(2), ANN, "ann").state, HELD);
    assert_int_equal(queue_length(), 0);
    /* The id is dead. */
    assert_int_equal(cancel(id(3), "1", "").state, BUSY);
    queue(member(id(3), BEN, "ben"), 1000);
    assert_int_equal(join(id(3), BEN, "ben").state, DEAD);
    assert_int_equal(queue_length(), 0);
    redisFree(all);
}

static void test_who_asks_without_a_member_leaves_its_place_alone(void **state) {
    redisContext *all = all_live();
    (void)state;
    hold_by(id(1), "ann", 10000);
    int64_t score = join(id(2), BEN, "ben").score;
    assert_int_equal(try_once(id(2), "ben").state, BUSY);
    assert_int_equal(place(member(id(2), BEN, "ben")), score);
    assert_int_equal(cancel(id(2), "1", "").state, BUSY);
    assert_int_equal(try_once(id(2), "ben").state, DEAD);
    assert_int_equal(place(member(id(2), BEN, "ben")), score);
    redisFree(all);
}

static void test_who_comes_to_wait_for_a_free_lock_has_it(void **state) {
    redisContext *cat = subscribe(CAT);
    (void)state;
    answer a = join(id(1), ANN, "ann");
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.left, 10000);
    assert_int_equal(exists(Q), 0);
    assert_taken(id(1), a.fence, "ann");
    assert_plain(a.fence);
    /* But not before earlier waiters. */
    TELL("DEL " K " " F);
    queue(member(id(2), GONE, "gone"), 1000);
    queue(member(id(3), CAT, "cat"), 2000);
    assert_int_equal(join(id(4), ANN, "ann").state, QUEUED);
    assert_string_equal(heard_grant(cat).hold, id(3));
    assert_int_equal(queue_length(), 1);
    redisFree(cat);
}

static void test_other_acquires_of_the_granted_owner_join_when_they_ask(void **state) {
    redisContext *all = all_live();
    (void)state;
    redisContext *ben = subscribe(BEN);
    hold_by(id(1), "ann", 10000);
    assert_int_equal(join(id(2), BEN, "ben").state, QUEUED);
    assert_int_equal(join(id(3), CAT, "cat").state, QUEUED);
    assert_int_equal(join(id(4), BEN, "ben").state, QUEUED);
    assert_int_equal(release(id(1)), 1);
    message grant = heard_grant(ben);
    assert_string_equal(grant.hold, id(2));
    answer a = join(id(4), BEN, "ben");
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.fence, grant.fence);
    assert_int_equal(queue_length(), 1);
    assert_many(grant.fence, 2, "ben", 2);
    /* The unclaimed grant is still visible. */
    assert_hold(id(2), 'x', grant.fence, BEN, "ben");
    assert_hold(id(4), 'x', grant.fence, NOBODY, "ben");
    assert_int_equal(claim(id(2), BEN, 10000), 10000);
    assert_hold(id(2), 'x', grant.fence, NOBODY, "ben");
    assert_flagged(grant.fence, NOBODY);
    redisFree(ben);
    redisFree(all);
}

static void test_one_call_asks_for_many_waiters_and_tells_the_state_of_each(void **state) {
    redisContext *all = all_live();
    (void)state;
    hold_by(id(1), "ann", 20000);
    int64_t fence = hold_by(id(2), "ann", 20000);
    assert_int_equal(cancel(id(3), "1", "").state, BUSY);
    int64_t score = join(id(4), ANN, "ben").score;
    const asking asks[] = {{id(1), "ann", .client = ANN}, {id(3), "cat", .client = ANN},
                           {id(4), "ben", .client = ANN}, {id(5), "ann", .client = ANN},
                           {id(6), "dan", .client = ANN}, {id(7), .owner = "eve"}};
    redisReply *reply = acquire_all("0", asks, COUNT(asks));
    assert_int_equal(good(reply)->elements, 2 + COUNT(asks) * 3);
    answer held = read_answer(reply, 0), buried = read_answer(reply, 1);
    answer queued = read_answer(reply, 2), nested = read_answer(reply, 3);
    answer joined = read_answer(reply, 4), tried = read_answer(reply, 5);
    assert_int_equal(held.state, HELD);
    assert_int_equal(held.fence, fence);
    assert_in_range(held.left, 19000, 20000);
    assert_int_equal(buried.state, DEAD);
    assert_int_equal(queued.state, QUEUED);
    assert_int_equal(queued.score, score);
    assert_int_equal(queued.rank, 0);
    assert_int_equal(nested.state, HELD);
    assert_int_equal(nested.fence, fence);
    assert_int_equal(nested.left, 10000);
    assert_int_equal(nested.again, 10000); /* until the first hold ends */
    assert_int_equal(joined.state, QUEUED);
    assert_true(joined.score > score);
    assert_int_equal(joined.rank, 1);
    assert_int_equal(tried.state, BUSY);
    assert_int_equal(queue_length(), 2);
    assert_many(fence, 3, "ann", 3);
    redisFree(all);
}

static void test_of_many_waiters_of_one_call_the_head_is_granted(void **state) {
    redisContext *all = all_live();
    (void)state;
    queue(member(id(1), ANN, "ann"), 1000);
    queue(member(id(2), ANN, "ben"), 2000);
    const asking both[] = {{id(2), "ben", .client = ANN}, {id(1), "ann", .client = ANN}};
    redisReply *reply = acquire_all("0", both, 2);
    answer a = read_answer(reply, 0), b = read_answer(reply, 1);
    assert_int_equal(a.state, QUEUED);
    assert_int_equal(a.rank, 0);
    assert_int_equal(a.score, 2000);
    assert_int_equal(b.state, HELD);
    assert_int_equal(b.left, 10000); /* a grant in an answer needs no claim */
    assert_in_range(b.again, 9000, 10000);
    assert_one(id(1), b.fence, "x000000010000ann");
    assert_flagged(b.fence, NOBODY); /* and leaves no mark */
    redisFree(all);
}

/* ------------------------------------------------------------------ wait */

static void test_a_wait_joins_the_queue_and_tells_of_the_holder(void **state) {
    (void)state;
    int64_t fence = hold_one(id(1), "ann");
    int64_t before = server_us();
    char *lock = snapshot(K), *last = snapshot(F);
    const char *said = wait_for((asking){id(2), "ben", .client = BEN});
    assert_non_null(said);
    int64_t now = place(member(id(2), BEN, "ben"));
    assert_in_range(now, before, server_us());
    assert_string_equal(said, text("%s1%sx000000000000", fence16(now), fence16(fence)));
    assert_int_equal(queue_length(), 1);
    assert_string_equal(snapshot(K), lock);
    assert_string_equal(snapshot(F), last);
    /* A pushed grant reports its lease. */
    redisContext *ben = subscribe(BEN);
    assert_int_equal(release(id(1)), 1);
    message grant = heard_grant(ben);
    said = wait_for((asking){id(3), "cat", .client = CAT});
    now = place(member(id(3), CAT, "cat"));
    assert_string_equal(said, text("%s1%sx000000010000", fence16(now), fence16(grant.fence)));
    redisFree(ben);
}

static void test_a_wait_leaves_to_acquire_all_else(void **state) {
    enum { FREE, TAKEN, MANY, SHARED, OWN, OTHERS, LATER, AHEAD, AGAIN, CASES };
    (void)state;
    for (int i = 0; i < CASES; i++) {
        print_message("case %d\n", i);
        TELL("FLUSHALL");
        if (i == TAKEN)
            hold_by(id(1), "ann", 10000);
        if (i == MANY || i == OWN || i == AGAIN)
            hold_one(id(1), i == OWN ? "ben" : "ann");
        if (i == MANY)
            hold_by(id(3), "ann", 10000);
        if (i == SHARED)
            hold_as((asking){id(1), "ann", .mode = "s0"});
        if (i == OTHERS)
            TELL("SET " K " x");
        if (i == LATER)
            TELL("HSET " K " hf1 %s",
                 text("%s3%sx000000000000ann", id(1), fence16(server_us() + 3600000000)));
        if (i == AHEAD) {
            TELL("SET " F " %s", fence16(server_us() + 3600000000));
            hold_one(id(1), "ann");
        }
        if (i == AGAIN)
            assert_non_null(wait_for((asking){id(2), "ben", .client = BEN}));
        const char *lock = exists(K) ? snapshot(K) : "", *line = exists(Q) ? snapshot(Q) : "";
        assert_null(wait_for((asking){id(2), "ben", .client = BEN}));
        assert_string_equal(exists(K) ? snapshot(K) : "", lock);
        assert_string_equal(exists(Q) ? snapshot(Q) : "", line);
    }
    assert_int_equal(queue_length(), 1);
}

static void test_a_wait_gives_a_lost_queue_its_end(void **state) {
    (void)state;
    hold_one(id(1), "ann");
    TELL("DEL " Q);
    assert_non_null(wait_for((asking){id(2), "ben", .client = BEN}));
    assert_in_range(NUMBER("PTTL " Q), 20000, 30000);
    assert_int_equal(NUMBER("ZCARD " Q), 2); /* ~ keeps the queue while waiters join and leave */
}

static void test_the_queues_end_moves_in_a_crowd(void **state) {
    redisContext *ben = subscribe(BEN);
    redisContext *all = all_live();
    (void)state;
    hold_one(id(1), "ann");
    pass_ms(1100); /* requests move its end once a second */
    TELL("PEXPIRE " Q " 5000");
    assert_non_null(wait_for((asking){id(2), "ben", .client = BEN}));
    assert_in_range(NUMBER("PTTL " Q), 20000, 30000);
    assert_non_null(wait_for((asking){id(3), "cat", .client = CAT}));
    TELL("PEXPIRE " Q " 5000");
    TELL("PEXPIRE " F " 5000");
    assert_int_equal(release(id(1)), 1);
    assert_in_range(NUMBER("PTTL " Q), 20000, 30000);
    assert_true(NUMBER("PTTL " F) > DAY - 1000);
    redisFree(ben);
    redisFree(all);
}

/* ------------------------------------------------------------------- Grant */

static void test_a_release_grants_to_the_head_and_tells_it(void **state) {
    (void)state;
    redisContext *ben = subscribe(BEN), *cat = subscribe(CAT);
    int64_t fence = hold_by(id(1), "ann", 10000);
    join(id(2), BEN, "ben");
    join(id(3), CAT, "cat");
    int64_t before = server_us();
    assert_int_equal(release(id(1)), 1);
    message grant = heard_grant(ben);
    assert_string_equal(grant.hold, id(2));
    assert_true(grant.fence > fence);
    assert_in_range(grant.server_us, before, server_us());
    assert_null(heard(cat));
    assert_one(id(2), grant.fence, "x000000010000ben");
    assert_flagged(grant.fence, BEN);
    assert_ends(K, grant.server_us / 1000 + 3000);
    assert_expires(F, grant.server_us / 1000 + DAY);
    assert_int_equal(queue_length(), 1);
    /* In order of arrival. */
    assert_int_equal(release(id(2)), 1);
    grant = heard_grant(cat);
    assert_string_equal(grant.hold, id(3));
    assert_int_equal(release(id(3)), 1);
    assert_int_equal(exists(K), 0);
    assert_int_equal(exists(Q), 0);
    assert_plain(grant.fence);
    assert_null(heard(ben));
    redisFree(ben);
    redisFree(cat);
}

static void test_who_does_not_listen_is_skipped_and_not_told(void **state) { /* C1 */
    (void)state;
    /* A listener on all channels is no sign that a waiter lives. */
    redisContext *all = listen_to("PSUBSCRIBE", "*"), *cat = subscribe(CAT);
    hold_by(id(1), "ann", 10000);
    join(id(2), BEN, "ben");
    join(id(3), CAT, "cat");
    assert_int_equal(release(id(1)), 1);
    assert_holder(id(3), "cat");
    assert_string_equal(heard_grant(all).hold, id(3)); /* the first message at all */
    assert_string_equal(heard_grant(cat).hold, id(3));
    assert_null(heard(all));
    assert_int_equal(queue_length(), 0);
    redisFree(all);
    redisFree(cat);
}

static void test_if_nobody_listens_the_lock_is_free(void **state) {
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 10000);
    join(id(2), BEN, "ben");
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(exists(K), 0);
    assert_int_equal(exists(Q), 0);
    assert_plain(fence);
}

static void test_a_waiter_whose_time_is_up_is_skipped(void **state) {
    (void)state;
    redisContext *ben = subscribe(BEN), *cat = subscribe(CAT);
    hold_one(id(1), "ann");
    int64_t now = server_us();
    queue(member_of((asking){id(2), "ben", .client = BEN, .timeout = 50}), now - 60000);
    queue(member_of((asking){id(3), "cat", .client = CAT, .timeout = 60000}), now - 50000);
    assert_int_equal(release(id(1)), 1);
    assert_holder(id(3), "cat");
    assert_null(heard(ben));
    assert_string_equal(heard_grant(cat).hold, id(3));
    redisFree(ben);
    redisFree(cat);
}

static const int64_t some_leases[] = {10000, 3001, 3000, 500, 60000, NEVER};

static void test_a_pushed_grant_lasts_until_its_claim_and_is_marked(void **state) {
    redisContext *ben = subscribe(BEN);
    (void)state;
    for (size_t i = 0; i < COUNT(some_leases); i++) {
        asking him = {id(2), "ben", .client = BEN, .lease = some_leases[i]};
        hold_by(id(1), "ann", 10000);
        assert_int_equal(acquire(him).state, QUEUED);
        assert_int_equal(release(id(1)), 1);
        message grant = heard_grant(ben);
        int64_t granted = some_leases[i] == NEVER || some_leases[i] > 3000 ? 3000 : some_leases[i];
        assert_near(K, grant.server_us / 1000 + granted);
        assert_one(id(2), grant.fence, text("x%012" PRId64 "ben", lease_of(&him)));
        assert_flagged(grant.fence, BEN);
        assert_int_equal(release_with(id(2), "0", ""), 1);
        assert_plain(grant.fence);
    }
    redisFree(ben);
}

static void test_a_claim_gives_the_whole_lease_and_takes_the_mark_away(void **state) {
    redisContext *ben = subscribe(BEN);
    (void)state;
    for (size_t i = 0; i < COUNT(some_leases); i++) {
        hold_by(id(1), "ann", 10000);
        assert_int_equal(
            acquire((asking){id(2), "ben", .client = BEN, .lease = some_leases[i]}).state, QUEUED);
        assert_int_equal(release(id(1)), 1);
        message grant = heard_grant(ben);
        int64_t left = claim(id(2), BEN, some_leases[i]);
        if (some_leases[i] > 0)
            assert_in_range(left, some_leases[i] / 2, some_leases[i]);
        else
            assert_int_equal(left, -1);
        assert_flagged(grant.fence, NOBODY);
        assert_int_equal(NUMBER("PTTL " K) == -1, some_leases[i] == NEVER);
        left = claim(id(2), BEN, some_leases[i]); /* its retry changes nothing */
        if (some_leases[i] > 0)
            assert_in_range(left, some_leases[i] / 2, some_leases[i]);
        assert_flagged(grant.fence, NOBODY);
        assert_int_equal(release(id(2)), 1);
    }
    redisFree(ben);
}

/* After a DEL a late copy of the acquire has the lock again; in between another client had it. */
static void test_a_claim_of_another_fence_is_of_nothing_held(void **state) {
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 10000);
    char named[49];
    snprintf(named, sizeof named, "%s%016" PRId64, id(1), fence);
    assert_int_equal(claim(named, ANN, 10000), 10000);
    NUMBER("DEL " K);
    hold_by(id(1), "ann", 10000);
    assert_int_equal(claim(named, ANN, 10000), -2);
    assert_in_range(claim(id(1), ANN, 10000), 9000, 10000);
}

static void test_a_claim_of_what_is_not_held_leaves_the_mark(void **state) {
    redisContext *ben = subscribe(BEN);
    (void)state;
    hold_by(id(1), "ann", 10000);
    join(id(2), BEN, "ben");
    assert_int_equal(release(id(1)), 1);
    char *lock = snapshot(K), *fence = snapshot(F);
    assert_int_equal(claim(id(1), BEN, 10000), -2);
    assert_int_equal(claim(id(3), BEN, 10000), -2);
    assert_string_equal(snapshot(K), lock);
    assert_string_equal(snapshot(F), fence);
    TELL("DEL " K);
    assert_int_equal(claim(id(2), BEN, 10000), -2);
    assert_int_equal(exists(K), 0);
    assert_string_equal(snapshot(F), fence);
    redisFree(ben);
}

static void test_a_claim_writes_if_it_is_told_to(void **state) {
    (void)state;
    hold_by(id(1), "ann", 60000);
    for (int form = 0; form < 3; form++) {
        if (form == 1)
            assert_int_equal(join(id(8), GONE, "gone").state, QUEUED);
        if (form == 2)
            hold_by(id(2), "ann", 60000);
        char *lock = snapshot(K), *value = text("%s", STRING("GET " F));
        TELL("PEXPIRE " F " 5000");
        assert_in_range(claim_with(id(1), ANN, 10000, "0"), 50000, 60000);
        assert_true(NUMBER("PTTL " F) <= 5000);
        assert_in_range(claim_with(id(1), ANN, 10000, "1"), 50000, 60000);
        assert_true(NUMBER("PTTL " F) > DAY - 1000);
        assert_string_equal(STRING("GET " F), value);
        assert_string_equal(snapshot(K), lock);
    }
}

/* Leave a ghost: ann's grant ended without a claim, and she has more waiters in the queue. */
static redisContext *leave_a_ghost(void) {
    redisContext *ann = subscribe(ANN);
    hold_by(id(1), "dan", 10000);
    assert_int_equal(acquire((asking){id(2), "ann", .client = ANN, .lease = 20}).state, QUEUED);
    assert_int_equal(join(id(3), ANN, "ann2").state, QUEUED);
    assert_int_equal(join(id(4), BEN, "ben").state, QUEUED);
    assert_int_equal(join(id(5), ANN, "ann3").state, QUEUED);
    assert_int_equal(release(id(1)), 1);
    assert_string_equal(heard_grant(ann).hold, id(2));
    pass_ms(21);
    assert_int_equal(exists(K), 0);
    return ann;
}

static void test_who_lets_a_grant_run_out_is_taken_out_of_the_queue(void **state) { /* H2 */
    enum { TRY, ENQUEUE, KICK, BREAK, CANCEL, RELEASE, WAYS };
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        print_message("way %d\n", way);
        redisContext *ben = subscribe(BEN), *ann = leave_a_ghost();
        switch (way) {
        case TRY:
            assert_int_equal(try_once(id(9), "cat").state, BUSY);
            break;
        case ENQUEUE:
            assert_int_equal(join(id(9), CAT, "cat").state, QUEUED);
            break;
        case KICK:
            assert_in_range(kick(), 1, 3000);
            break;
        case BREAK:
            assert_int_equal(break_lock(1, "0"), 1);
            break;
        case CANCEL:
            assert_int_equal(cancel(id(9), "0", member(id(9), CAT, "cat")).state, BUSY);
            break;
        case RELEASE:
            assert_int_equal(release_with(id(9), "1", ""), 0);
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
    redisContext *all = all_live();
    (void)state;
    redisContext *ann = leave_a_ghost();
    assert_int_equal(join(id(5), ANN, "ann3").state, QUEUED);
    /* Her first waiter is served: she lives. */
    assert_string_equal(heard_grant(ann).hold, id(3));
    assert_holder(id(3), "ann2");
    assert_int_equal(queue_length(), 2);
    redisFree(ann);
    redisFree(all);
}

static void test_a_reader_that_lets_a_grant_run_out_is_a_ghost_too(void **state) { /* H2 */
    redisContext *ann = subscribe(ANN), *ben = subscribe(BEN);
    (void)state;
    hold_by(id(1), "dan", 10000);
    assert_int_equal(
        acquire((asking){id(2), "ann", .client = ANN, .mode = "s0", .lease = 20}).state, QUEUED);
    assert_int_equal(acquire((asking){id(3), "ben", .client = BEN, .mode = "s0"}).state, QUEUED);
    assert_int_equal(join(id(4), ANN, "ann2").state, QUEUED);
    assert_int_equal(join(id(5), BEN, "ben2").state, QUEUED);
    assert_int_equal(release(id(1)), 1);
    assert_string_equal(heard_grant(ann).hold, id(2));
    assert_string_equal(heard_grant(ben).hold, id(3));
    assert_int_equal(claim(id(3), BEN, 10000), 10000);
    pass_ms(30);
    assert_in_range(kick(), 9000, 10000);
    assert_many(0, 0, "", 1);
    assert_int_equal(place(member(id(4), ANN, "ann2")), -1);
    assert_int_equal(release(id(3)), 1);
    assert_string_equal(heard_grant(ben).hold, id(5));
    assert_null(heard(ann));
    redisFree(ann);
    redisFree(ben);
}

static void test_a_try_on_a_free_lock_serves_the_queue_first(void **state) { /* M1 */
    redisContext *ben = subscribe(BEN);
    (void)state;
    queue(member(id(2), BEN, "ben"), server_us());
    answer a = try_once(id(1), "ann");
    assert_int_equal(a.state, BUSY);
    assert_in_range(a.again, 2000, 3000);
    assert_string_equal(heard_grant(ben).hold, id(2));
    assert_holder(id(2), "ben");
    redisFree(ben);
}

static void test_a_try_gets_the_lock_if_all_who_queue_are_dead(void **state) { /* M1 */
    (void)state;
    queue(member(id(2), BEN, "ben"), server_us());
    queue(member(id(3), CAT, "cat"), server_us());
    answer a = try_once(id(1), "ann");
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.left, 10000);
    assert_in_range(a.again, 9000, 10000);
    assert_holder(id(1), "ann");
    assert_ends(K, a.now / 1000 + 10000);
    assert_int_equal(queue_length(), 0);
}

static void test_a_dead_crowd_is_skipped_in_bounded_steps(void **state) { /* M2 */
    redisContext *ben = subscribe(BEN);
    (void)state;
    hold_one(id(1), "ann");
    for (int i = 0; i < 125; i++)
        queue(member(id(1000 + i), GONE, "gone"), server_us());
    queue(member(id(2), BEN, "ben"), server_us());
    assert_int_equal(release(id(1)), 2); /* released, with more to skip */
    assert_int_equal(exists(K), 0);
    assert_int_equal(queue_length(), 76);
    assert_int_equal(take(id(3), "cat"), 0); /* no remaining waiter is passed */
    assert_int_equal(kick(), -2);
    assert_int_equal(queue_length(), 26);
    assert_in_range(kick(), 1, 3000);
    assert_string_equal(heard_grant(ben).hold, id(2));
    assert_holder(id(2), "ben");
    redisFree(ben);
}

static void test_a_try_in_a_dead_crowd_comes_back_at_once(void **state) { /* M2 */
    (void)state;
    hold_one(id(1), "ann");
    for (int i = 0; i < 75; i++)
        queue(member(id(1000 + i), GONE, "gone"), server_us());
    TELL("DEL " K);
    answer a = try_once(id(2), "ben");
    assert_int_equal(a.state, BUSY);
    assert_int_equal(a.again, -2);
    assert_int_equal(try_once(id(2), "ben").state, HELD);
}

static void test_kicks_come_to_an_end(void **state) { /* M2 */
    (void)state;
    assert_int_equal(kick(), 0);
    assert_int_equal(NUMBER("DBSIZE"), 0);
    for (int i = 0; i < 75; i++)
        queue(member(id(1000 + i), GONE, "gone"), server_us());
    assert_int_equal(break_lock(1, "0"), 2);
    assert_int_equal(queue_length(), 25);
    /* No waiter is left: another kick finds nothing. */
    assert_int_equal(kick(), 0);
    assert_int_equal(queue_length(), 0);
    assert_int_equal(exists(K), 0);
}

static void test_a_kick_does_nothing_to_a_lock_that_is_held(void **state) {
    redisContext *ben = subscribe(BEN);
    (void)state;
    hold_by(id(1), "ann", 10000);
    join(id(2), BEN, "ben");
    char *before = snapshot(K);
    assert_in_range(kick(), 9000, 10000);
    assert_string_equal(snapshot(K), before);
    assert_int_equal(queue_length(), 1);
    assert_null(heard(ben));
    redisFree(ben);
}

static void test_the_dead_leave_the_queue_of_a_lock_that_is_held_for_long(void **state) {
    (void)state;
    hold_one(id(1), "ann");
    for (int i = 0; i < 20; i++)
        queue(member(id(1000 + i), GONE, "gone"), server_us());
    redisContext *ben = subscribe(BEN);
    int asked_again = 0;
    for (join(id(2), BEN, "ben"); queue_length() > 1 && asked_again < 100; asked_again++)
        assert_int_equal(join(id(2), BEN, "ben").state, QUEUED);
    assert_int_equal(queue_length(), 1);
    assert_true(place(member(id(2), BEN, "ben")) > 0);
    redisFree(ben);
}

static void test_a_break_grants_to_the_next(void **state) {
    redisContext *ben = subscribe(BEN), *cat = subscribe(CAT);
    (void)state;
    int64_t fence = hold_by(id(1), "ann", NEVER);
    join(id(2), BEN, "ben");
    join(id(3), CAT, "cat");
    assert_int_equal(break_lock(fence - 1, "1"), 0);
    assert_holder(id(1), "ann");
    assert_int_equal(break_lock(fence, "0"), 1);
    assert_string_equal(heard_grant(ben).hold, id(2));
    assert_holder(id(2), "ben");
    /* A retry of the break does not break the next holder. */
    assert_int_equal(break_lock(fence, "0"), 0);
    assert_holder(id(2), "ben");
    assert_int_equal(claim(id(2), BEN, 10000), 10000);
    TELL("DEL " K);
    assert_int_equal(break_lock(fence, "0"), 1); /* free: it goes on to the next waiter */
    assert_holder(id(3), "cat");
    redisFree(ben);
    redisFree(cat);
}

static void test_a_break_takes_all_that_nests_in_a_hold(void **state) {
    redisContext *ben = subscribe(BEN);
    (void)state;
    int64_t fence = hold_by(id(1), "ann", NEVER);
    hold_by(id(2), "ann", 10000);
    hold_as((asking){id(3), "ann", .mode = "s0", .nests = "1"});
    join(id(4), BEN, "ben");
    assert_int_equal(break_lock(fence, "0"), 1);
    assert_string_equal(heard_grant(ben).hold, id(4));
    assert_holder(id(4), "ben");
    assert_int_equal(exists(S), 0);
    assert_not_held(id(3));
    redisFree(ben);
}

static void test_a_break_of_one_reader_leaves_the_others(void **state) {
    redisContext *cat = subscribe(CAT);
    (void)state;
    int64_t fence = hold_as((asking){id(1), "ann", .mode = "s2"});
    int64_t second = hold_as((asking){id(2), "ben", .mode = "s2"});
    assert_int_equal(acquire((asking){id(3), "cat", .client = CAT, .mode = "s2"}).state, QUEUED);
    assert_int_equal(hold_as((asking){id(4), "ann", .mode = "s2", .nests = text("1%s", id(1))}),
                     fence); /* it nests, so it ends too */
    assert_int_equal(break_lock(fence - 1, "0"), 0);
    assert_int_equal(break_lock(0, "1"), 0);
    assert_null(heard(cat));
    assert_int_equal(break_lock(fence, "0"), 1);
    assert_string_equal(heard_grant(cat).hold, id(3));
    assert_not_held(id(1));
    assert_not_held(id(4));
    assert_hold(id(2), 's', second, NOBODY, "ben");
    /* A retry finds nothing. */
    assert_int_equal(break_lock(fence, "0"), 0);
    redisFree(cat);
}

static void test_garbage_in_the_queue_is_dropped(void **state) {
    redisContext *ben = subscribe(BEN);
    (void)state;
    const char *const good_one = member(id(7), BEN, "ben");
    const char *const garbage[] = {
        "",
        "x",
        id(7),
        text("%s" BEN, id(7)),
        text("%.75s", good_one),
        text("%.88s", good_one), /* no owner */
        text("%.89s", member_of((asking){id(7), "", .client = BEN, .mode = "s0"})),
        text("%s" BEN "q%s", id(7), good_one + 65),
        text("%s" BEN "p0000000000y%s", id(7), good_one + 76),
        text("%s" BEN "p          x%s", id(7), good_one + 76),
        text("%s" BEN "pxxxxxxxxxxx%s", id(7), good_one + 76),
        text("%s" BEN "p0000000000x            ben", id(7)),
        text("%s" BEN "p0000000000xxxxxxxxxxxxxben", id(7)),
        text("%s" BEN "p0000000000x-00000000001ben", id(7)),
        text("%s" BEN "p0000000000x000000000009ben", id(7)),
        text("%s" BEN "p0000000000x315360000001ben", id(7)),
        text("%s" BEN "p0000000000s000000010000          ben", id(7)),
        text("%s" BEN "p0000000000s000000010000xxxxxxxxxxben", id(7)),
    };
    for (size_t i = 0; i < COUNT(garbage); i++) {
        print_message("%s\n", garbage[i]);
        hold_one(id(1), "ann");
        queue(garbage[i], server_us());
        queue(member(id(2), BEN, "ben"), server_us() + 1000);
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
        print_message("%s\n", types[i]);
        TELL("FLUSHALL");
        TELL(types[i]);
        char *queue_before = snapshot(Q);
        redisReply *reply = acquire_reply((asking){id(1), .owner = "ann"});
        assert_int_equal(reply->type, REDIS_REPLY_ERROR);
        assert_int_equal(NUMBER("DBSIZE"), 1);
        TELL("DEL " Q);
        hold_one(id(1), "ann");
        TELL("DEL " Q);
        TELL(types[i]);
        char *lock = snapshot(K), *fence = snapshot(F);
        reply = acquire_reply((asking){id(2), "ben", .client = BEN});
        assert_int_equal(reply->type, REDIS_REPLY_ERROR);
        reply = run(&hf_script_cancel, 6, KEYS, dead(id(2)), id(2), "1", member(id(2), BEN, "ben"),
                    NULL);
        assert_int_equal(reply->type, REDIS_REPLY_ERROR);
        reply = run(&hf_script_wait, 2, K, Q, member(id(2), BEN, "ben"), "ben", NULL);
        assert_int_equal(reply->type, REDIS_REPLY_ERROR);
        assert_string_equal(snapshot(K), lock);
        assert_string_equal(snapshot(F), fence);
        assert_int_equal(NUMBER("DBSIZE"), 3);
        /* The holder can still renew, and release, though only by `leave`. */
        assert_int_equal(renew(id(1), 20000, LONGER), 20000);
        assert_int_equal(leave(id(1), held_fence(id(1))), 1);
        assert_int_equal(exists(K), 0);
        assert_string_equal(snapshot(Q), queue_before);
    }
}

/* ----------------------------------------------------------- Shared holds */

static asking reader(const char *hold, const char *client, const char *owner) {
    return (asking){hold, owner, .client = client, .mode = "s0"};
}

static void test_readers_hold_it_together(void **state) {
    (void)state;
    answer a = acquire((asking){id(1), "ann", .mode = "s0"});
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.left, 10000);
    assert_int_equal(a.again, 10000);
    assert_many(0, 0, "", 1);
    assert_hold(id(1), 's', a.fence, NOBODY, "ann");
    assert_plain(a.fence);
    assert_near(K, expiry(id(1)));
    assert_int_equal(NUMBER("DBSIZE"), 3);
    answer b = acquire((asking){id(2), "ben", .mode = "s0", .lease = 20000});
    assert_int_equal(b.state, HELD);
    assert_true(b.fence > a.fence); /* each hold has its own */
    assert_many(0, 0, "", 2);
    assert_near(K, expiry(id(2)));
    /* A writer neither joins nor takes the lock; it asks again when the first of them ends. */
    answer c = try_once(id(3), "cat");
    assert_int_equal(c.state, BUSY);
    assert_in_range(c.again, 9000, 10000);
    assert_int_equal(take(id(3), "cat"), -1);
    assert_null(wait_for((asking){id(3), "cat", .client = CAT}));
    assert_int_equal(release(id(2)), 1);
    assert_many(0, 0, "", 1);
    assert_near(K, expiry(id(1)));
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(NUMBER("DBSIZE"), 1);
    assert_true(take(id(3), "cat") > b.fence);
}

static void test_a_reader_comes_after_a_writer_and_a_writer_after_readers(void **state) {
    redisContext *ben = subscribe(BEN), *cat = subscribe(CAT);
    (void)state;
    hold_by(id(1), "ann", 10000);
    answer a = acquire(reader(id(2), BEN, "ben"));
    assert_int_equal(a.state, QUEUED);
    assert_string_equal(STRING("EVAL %s 1 " Q, "return redis.call('ZRANGE', KEYS[1], 0, 0)[1]"),
                        text("%s" BEN "p0000000000s0000000100000000000000ben", id(2)));
    assert_int_equal(join(id(3), CAT, "cat").state, QUEUED);
    assert_int_equal(release(id(1)), 1);
    message grant = heard_grant(ben);
    assert_string_equal(grant.hold, id(2));
    assert_many(0, 0, "", 1);
    assert_hold(id(2), 's', grant.fence, BEN, "ben");
    assert_flagged(grant.fence, BEN);
    assert_ends(K, grant.server_us / 1000 + 3000);
    assert_int_equal(claim(id(2), BEN, 10000), 10000);
    assert_hold(id(2), 's', grant.fence, NOBODY, "ben");
    assert_flagged(grant.fence, NOBODY);
    assert_near(K, expiry(id(2)));
    assert_null(heard(cat));
    assert_int_equal(release(id(2)), 1);
    assert_string_equal(heard_grant(cat).hold, id(3));
    assert_holder(id(3), "cat");
    assert_int_equal(exists(S), 0);
    redisFree(ben);
    redisFree(cat);
}

static void test_nobody_passes_a_writer_in_the_queue(void **state) {
    redisContext *ben = subscribe(BEN), *cat = subscribe(CAT);
    (void)state;
    hold_as((asking){id(1), "ann", .mode = "s0"});
    assert_int_equal(join(id(2), BEN, "ben").state, QUEUED);
    assert_int_equal(acquire((asking){id(3), "cat", .mode = "s0"}).state, BUSY);
    answer a = acquire(reader(id(3), CAT, "cat"));
    assert_int_equal(a.state, QUEUED);
    assert_int_equal(a.rank, 1);
    /* Not even when it looks after its place. */
    assert_int_equal(acquire(reader(id(3), CAT, "cat")).state, QUEUED);
    assert_int_equal(release(id(1)), 1);
    assert_string_equal(heard_grant(ben).hold, id(2));
    assert_null(heard(cat));
    assert_int_equal(release(id(2)), 1);
    assert_string_equal(heard_grant(cat).hold, id(3));
    redisFree(ben);
    redisFree(cat);
}

static void test_adjacent_readers_are_granted_together(void **state) {
    redisContext *ben = subscribe(BEN), *cat = subscribe(CAT), *dan = subscribe(DAN);
    (void)state;
    hold_by(id(1), "ann", 10000);
    assert_int_equal(acquire(reader(id(2), BEN, "ben")).state, QUEUED);
    assert_int_equal(acquire(reader(id(3), GONE, "gone")).state, QUEUED);
    assert_int_equal(acquire(reader(id(4), CAT, "cat")).state, QUEUED);
    assert_int_equal(join(id(5), DAN, "dan").state, QUEUED);
    assert_int_equal(acquire(reader(id(6), BEN, "ben2")).state, QUEUED);
    assert_int_equal(release(id(1)), 1);
    message b = heard_grant(ben), c = heard_grant(cat);
    assert_string_equal(b.hold, id(2));
    assert_string_equal(c.hold, id(4));
    assert_true(c.fence > b.fence);
    assert_null(heard(dan));
    assert_many(0, 0, "", 2);
    assert_int_equal(queue_length(), 2);
    assert_int_equal(release(id(2)), 1);
    assert_null(heard(dan));
    assert_int_equal(release(id(4)), 1);
    assert_string_equal(heard_grant(dan).hold, id(5));
    assert_null(heard(ben));
    assert_int_equal(release(id(5)), 1);
    assert_string_equal(heard_grant(ben).hold, id(6));
    redisFree(ben);
    redisFree(cat);
    redisFree(dan);
}

static void test_permits_bound_how_many_hold_it(void **state) {
    redisContext *cat = subscribe(CAT);
    (void)state;
    hold_as((asking){id(1), "ann", .mode = "s2"});
    hold_as((asking){id(2), "ben", .mode = "s2"});
    assert_int_equal(acquire((asking){id(3), "cat", .mode = "s2"}).state, BUSY);
    assert_int_equal(acquire((asking){id(3), "cat", .client = CAT, .mode = "s2"}).state, QUEUED);
    assert_int_equal(acquire((asking){id(4), "dan", .mode = "s3"}).state, BUSY); /* cat's turn */
    assert_null(heard(cat));
    assert_int_equal(release(id(1)), 1);
    assert_string_equal(heard_grant(cat).hold, id(3));
    assert_many(0, 0, "", 2);
    /* An acquire for more permits finds one, and so does one without a limit. */
    assert_int_equal(acquire((asking){id(4), "dan", .mode = "s2"}).state, BUSY);
    assert_int_equal(acquire((asking){id(4), "dan", .mode = "s3"}).state, HELD);
    assert_int_equal(acquire((asking){id(5), "eve", .mode = "s0"}).state, HELD);
    assert_many(0, 0, "", 4);
    redisFree(cat);
}

static void test_one_release_grants_as_many_as_there_are_permits(void **state) {
    redisContext *all = subscribe(ANN);
    (void)state;
    hold_by(id(1), "dan", 10000);
    for (int i = 2; i < 7; i++)
        assert_int_equal(acquire((asking){id(i), "ann", .client = ANN, .mode = "s3"}).state,
                         QUEUED);
    assert_int_equal(release(id(1)), 1);
    assert_many(0, 0, "", 3);
    assert_int_equal(queue_length(), 2);
    for (int i = 2; i < 5; i++)
        assert_holder(id(i), "ann");
    redisFree(all);
}

static void test_a_crashed_reader_frees_only_its_permit(void **state) {
    redisContext *cat = subscribe(CAT), *dan = subscribe(DAN);
    (void)state;
    hold_as((asking){id(1), "ann", .mode = "s2", .lease = 300});
    int64_t fence = hold_as((asking){id(2), "ben", .mode = "s2", .lease = 60000});
    answer a = acquire((asking){id(3), "cat", .client = CAT, .mode = "s2"});
    assert_int_equal(a.state, QUEUED);
    assert_in_range(a.again, 1, 300); /* so it asks again when that hold ends */
    assert_int_equal(join(id(4), DAN, "dan").state, QUEUED);
    pass_ms((int)a.again + 5);
    a = acquire((asking){id(3), "cat", .client = CAT, .mode = "s2"});
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.left, 10000);
    assert_many(0, 0, "", 2);
    assert_hold(id(2), 's', fence, NOBODY, "ben");
    assert_hold(id(3), 's', a.fence, NOBODY, "cat");
    assert_int_equal(acquire((asking){id(1), "ann", .mode = "s2"}).state, BUSY);
    assert_null(heard(dan));
    redisFree(cat);
    redisFree(dan);
}

static void test_a_reader_nests_in_an_exclusive_hold_and_stays_when_that_ends(void **state) {
    redisContext *ben = subscribe(BEN), *cat = subscribe(CAT);
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 10000);
    assert_int_equal(acquire(reader(id(3), BEN, "ben")).state, QUEUED);
    assert_int_equal(join(id(4), CAT, "cat").state, QUEUED);
    assert_int_equal(hold_as((asking){id(2), "ann", .mode = "s0", .nests = "1"}), fence);
    assert_many(fence, 1, "ann", 2);
    assert_hold(id(2), 's', fence, NOBODY, "ann");
    assert_int_equal(NUMBER("ZCARD " S), 2);
    assert_null(heard(ben));
    /* The downgrade: readers enter. */
    assert_int_equal(release(id(1)), 1);
    message grant = heard_grant(ben);
    assert_string_equal(grant.hold, id(3));
    assert_true(grant.fence > fence);
    assert_many(0, 0, "", 2);
    assert_null(heard(cat));
    /* Its owner no longer has an exclusive section in which to nest. */
    assert_int_equal(acquire((asking){id(5), "ann", .mode = "x"}).state, BUSY);
    assert_int_equal(release(id(2)), 1);
    assert_int_equal(release(id(3)), 1);
    assert_string_equal(heard_grant(cat).hold, id(4));
    redisFree(ben);
    redisFree(cat);
}

static void test_an_upgrade_is_refused(void **state) {
    (void)state;
    int64_t fence = hold_as((asking){id(1), "ann", .mode = "s0"});
    const char *within = text("1%s", id(1));
    answer a = acquire((asking){id(2), "ann", .nests = within});
    assert_int_equal(a.state, REFUSED);
    a = acquire((asking){id(2), "ann", .client = ANN, .nests = within});
    assert_int_equal(a.state, REFUSED); /* it would wait for itself */
    assert_int_equal(queue_length(), 0);
    assert_int_equal(acquire((asking){id(2), "ann", .mode = "o", .nests = within}).state, REFUSED);
    assert_many(0, 0, "", 1);
    /* The named hold is another owner's, has ended, or is not named: the acquire is busy as others
     * are. */
    assert_int_equal(acquire((asking){id(2), "ben", .nests = within}).state, BUSY);
    assert_int_equal(acquire((asking){id(2), "ann", .nests = text("1%s", id(9))}).state, BUSY);
    assert_int_equal(acquire((asking){id(2), .owner = "ann"}).state, BUSY);
    assert_int_equal(release(id(1)), 1);
    a = acquire((asking){id(2), "ann", .nests = within});
    assert_int_equal(a.state, HELD);
    assert_true(a.fence > fence);
}

static void test_a_reader_nests_in_its_own_hold_past_the_queue(void **state) {
    redisContext *ben = subscribe(BEN);
    (void)state;
    int64_t fence = hold_as((asking){id(1), "ann", .mode = "s0"});
    assert_int_equal(join(id(2), BEN, "ben").state, QUEUED);
    const char *within = text("1%s", id(1));
    assert_int_equal(acquire((asking){id(3), "ann", .mode = "s0"}).state, BUSY);
    assert_int_equal(acquire((asking){id(3), "dan", .mode = "s0", .nests = within}).state, BUSY);
    answer a = acquire((asking){id(3), "ann", .mode = "s0", .nests = within});
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.fence, fence);
    assert_many(0, 0, "", 2);
    assert_null(heard(ben));
    assert_int_equal(release(id(1)), 1);
    assert_null(heard(ben));
    assert_int_equal(release(id(3)), 1);
    assert_string_equal(heard_grant(ben).hold, id(2));
    redisFree(ben);
}

static void test_many_holds_without_their_ends_are_as_busy_as_anothers(void **state) {
    redisContext *cat = subscribe(CAT);
    (void)state;
    hold_as((asking){id(1), "ann", .mode = "s0"});
    hold_as((asking){id(2), "ben", .mode = "s0"});
    TELL("DEL " S);
    char *before = snapshot(K);
    answer a = try_once(id(3), "cat");
    assert_int_equal(a.state, BUSY);
    assert_in_range(a.again, 9000, 10000);
    assert_int_equal(acquire((asking){id(3), "cat", .mode = "s0"}).state, BUSY);
    assert_int_equal(join(id(3), CAT, "cat").state, FOREIGN);
    assert_int_equal(release(id(1)), 0);
    assert_int_equal(renew(id(1), 20000, LONGER), -2);
    assert_int_equal(renew(id(1), 20000, LOOK), -2);
    assert_int_equal(claim(id(1), ANN, 20000), -2);
    assert_int_equal(seen(STATE), 3);
    assert_int_equal(break_lock(0, "0"), 0);
    assert_string_equal(snapshot(K), before);
    /* S ends with K. */
    TELL("PEXPIRE " K " 20");
    pass_ms(21);
    assert_int_equal(exists(K), 0);
    assert_true(kick() > 0);
    assert_string_equal(heard_grant(cat).hold, id(3));
    redisFree(cat);
}

/* The section ended with its last exclusive hold, although a nested hold still stands. */
static void test_nothing_nests_in_a_section_that_has_ended(void **state) {
    (void)state;
    hold_by(id(1), "ann", 30);
    hold_as((asking){id(2), "ann", .mode = "s0", .nests = "1"});
    pass_ms(50);
    assert_int_equal(try_once(id(3), "ann").state, BUSY);
    assert_many(0, 0, "", 1);
    /* The same if many ids ask in one call. */
    assert_int_equal(release(id(2)), 1);
    hold_by(id(1), "ann", 30);
    hold_as((asking){id(2), "ann", .mode = "s0", .nests = "1"});
    pass_ms(50);
    const asking both[] = {{id(3), .owner = "ann"}, {id(4), "ben", .mode = "s0"}};
    redisReply *reply = acquire_all("0", both, 2);
    assert_int_equal(read_answer(reply, 0).state, BUSY);
    assert_int_equal(read_answer(reply, 1).state, HELD);
    assert_many(0, 0, "", 2);
}

/* The reverse: the ends that a lost K has left belong to no hold. */
static void test_ends_without_a_lock_count_for_nothing(void **state) {
    (void)state;
    hold_as((asking){id(1), "ann", .mode = "s0", .lease = NEVER});
    TELL("DEL " K);
    hold_as((asking){id(2), "ben", .mode = "s2"});
    assert_many(0, 0, "", 1);
    assert_int_equal(renew_of(id(1), fence16(1), 10000, LOOK), -2);
    TELL("DEL " K);
    hold_by(id(3), "cat", 10000);
    hold_by(id(4), "cat", 10000);
    assert_int_equal(NUMBER("ZCARD " S), 2);
}

/* ---------------------------------------------------------- Computed once */

static void test_who_computes_once_leaves_the_result_for_all_others(void **state) {
    redisContext *ben = subscribe(BEN), *cat = subscribe(CAT), *dan = subscribe(DAN);
    (void)state;
    answer a = acquire((asking){id(1), "ann", .mode = "o"});
    assert_int_equal(a.state, HELD);
    assert_taken(id(1), a.fence, "ann");
    assert_int_equal(acquire((asking){id(2), "ben", .client = BEN, .mode = "o"}).state, QUEUED);
    assert_int_equal(join(id(3), DAN, "dan").state, QUEUED);
    assert_int_equal(acquire((asking){id(4), "ben2", .client = BEN, .mode = "o"}).state, QUEUED);
    assert_int_equal(acquire((asking){id(5), "cat", .client = CAT, .mode = "o"}).state, QUEUED);
    int64_t before = server_us();
    assert_int_equal(release_result(id(1), "20000", "forty-two"), 1);
    assert_record(id(1), "d", a.fence, "forty-two");
    assert_in_range(NUMBER("PTTL " R), 19000, 20000);
    /* One message for all waiters of a client; the lock goes to a waiter that needs it. */
    const char *said = heard(ben);
    assert_non_null(said);
    assert_memory_equal(said, text("r%s", id(2)), 33);
    assert_int_equal(strlen(said), 1 + 32 + 16);
    assert_in_range(strtoll(said + 33, NULL, 10), before, server_us());
    assert_memory_equal(heard(cat), text("r%s", id(5)), 33);
    assert_string_equal(heard_grant(dan).hold, id(3));
    assert_holder(id(3), "dan");
    assert_int_equal(queue_length(), 0);
    /* The answer has the result's bytes once. */
    const asking both[] = {{id(2), "ben", .client = BEN, .mode = "o"},
                           {id(4), "ben2", .client = BEN, .mode = "o"}};
    redisReply *reply = acquire_all("0", both, 2);
    answer first = read_answer(reply, 0), second = read_answer(reply, 1);
    assert_int_equal(first.state, RESULT);
    assert_string_equal(first.result, "forty-two");
    assert_in_range(first.left, 19000, 20000);
    assert_int_equal(second.state, RESULT);
    assert_string_equal(second.result, "");
    assert_in_range(second.left, 19000, 20000);
    assert_int_equal(queue_length(), 0);
    /* An exclusive acquire is not affected. */
    assert_int_equal(try_once(id(6), "eve").state, BUSY);
    assert_int_equal(acquire((asking){id(7), "eve", .mode = "o"}).state, RESULT);
    redisFree(ben);
    redisFree(cat);
    redisFree(dan);
}

static void test_a_result_is_left_to_who_waits_in_the_queue_when_it_is_seen(void **state) {
    redisContext *ben = subscribe(BEN);
    (void)state;
    hold_by(id(1), "ann", 10000);
    assert_int_equal(acquire((asking){id(2), "ben", .client = BEN, .mode = "o"}).state, QUEUED);
    leave_record(id(9), "d", 5, "x"); /* its message is lost */
    answer a = acquire((asking){id(2), "ben", .client = BEN, .mode = "o"});
    assert_int_equal(a.state, RESULT);
    assert_string_equal(a.result, "x");
    assert_int_equal(queue_length(), 0);
    /* A waiter at the head is told the result when the lock is released, and not granted it. */
    hold_by(id(1), "ann", 10000);
    TELL("DEL " R);
    assert_int_equal(acquire((asking){id(3), "ben", .client = BEN, .mode = "o"}).state, QUEUED);
    leave_record(id(9), "d", 5, "x");
    assert_int_equal(release(id(1)), 1);
    assert_memory_equal(heard(ben), text("r%s", id(3)), 33);
    assert_int_equal(exists(K), 0);
    redisFree(ben);
}

static void test_a_result_may_be_any_bytes_or_none(void **state) {
    static const char bytes[] = "a\0b\r\n\xff";
    (void)state;
    int64_t fence = hold_as((asking){id(1), "ann", .mode = "o"});
    redisReply *reply =
        asked(redisCommand(user, "EVAL %s 5 %s %s %s %s %s %s %s 0 %s 10000 %b d " TERMS,
                           hf_script_release.text, K, F, Q, S, R, id(1), fence16(fence), "", bytes,
                           sizeof bytes - 1),
              "release");
    assert_int_equal(integer(reply), 1);
    reply = acquire_reply((asking){id(2), "ben", .mode = "o"});
    assert_int_equal(integer(good(reply)->element[2]), RESULT);
    const redisReply *record = reply->element[3];
    assert_int_equal(record->elements, 3);
    assert_int_equal(record->element[2]->len, sizeof bytes - 1);
    assert_memory_equal(record->element[2]->str, bytes, sizeof bytes - 1);
    TELL("DEL " R);
    fence = hold_as((asking){id(1), "ann", .mode = "o"});
    assert_int_equal(release_result(id(1), "10000", ""), 1);
    assert_record(id(1), "d", fence, "");
    /* When the result has ended, the next caller computes. */
    TELL("PEXPIRE " R " 10");
    pass_ms(11);
    assert_int_equal(exists(R), 0);
    assert_int_equal(acquire((asking){id(2), "ben", .mode = "o"}).state, HELD);
}

static void test_a_result_of_a_hold_that_has_ended_is_not_left(void **state) {
    (void)state;
    int64_t fence = hold_as((asking){id(1), "ann", .mode = "o"});
    const char *mine = fence16(fence);
    TELL("DEL " K);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(finish(id(1), mine, "20000", "late", "d"), 0);
        assert_int_equal(exists(R), 0);
        hold_as((asking){id(2), "ben", .mode = "o"}); /* another caller computes it now */
    }
    assert_holder(id(2), "ben");
    /* The same id in a later use. */
    TELL("DEL " K);
    hold_as((asking){id(1), "ann", .mode = "o"});
    assert_int_equal(finish(id(1), mine, "20000", "late", "d"), 0);
    assert_int_equal(exists(R), 0);
}

static void test_a_result_out_of_bounds_is_refused_and_the_lock_released(void **state) {
    static const char *const ttls[] = {"9999", "0", "-1", "nan", "inf", "", "x", "315360000001"};
    static char most[1048576 + 2];
    redisContext *ben = subscribe(BEN);
    (void)state;
    for (size_t i = 0; i < COUNT(ttls); i++) {
        print_message("%s ms\n", ttls[i]);
        hold_as((asking){id(1), "ann", .mode = "o"});
        assert_int_equal(release_result(id(1), ttls[i], "x"), 5);
        assert_int_equal(exists(K), 0);
        assert_int_equal(exists(R), 0);
    }
    memset(most, 'x', sizeof most - 1);
    hold_as((asking){id(1), "ann", .mode = "o"});
    assert_int_equal(acquire((asking){id(2), "ben", .client = BEN, .mode = "o"}).state, QUEUED);
    assert_int_equal(release_result(id(1), "9999", most), 5);
    assert_int_equal(exists(R), 0);
    assert_string_equal(heard_grant(ben).hold, id(2)); /* the next caller computes */
    most[sizeof most - 2] = '\0';
    assert_int_equal(release_result(id(2), "10000", most), 1);
    assert_int_equal(strlen(STRING("HGET " R " b")), 1048576);
    TELL("DEL " R);
    hold_as((asking){id(3), "cat", .mode = "s0"});
    assert_int_equal(release_result(id(3), "10000", "x"), 5); /* it is not exclusive */
    assert_int_equal(exists(R), 0);
    assert_int_equal(exists(K), 0);
    redisFree(ben);
}

/* --------------------------------------------------------------- Channels */

static void test_a_member_says_on_which_channel_its_client_listens(void **state) {
    static const char *const names[] = {"stock", "x{b}y", "{my lock}", "x{", "a{b}c{d}"};
    static const char *const tags[] = {"stock", "b", "my lock", "x{", "b"};
    (void)state;
    if (!tells_expiry())
        return; /* Redis 6.2 has no sharded channels */
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *name = names[i], *other = text("hf:{%s}:" BEN, tags[i]);
        for (int sharded = 0; sharded < 2; sharded++) {
            print_message("%s %d\n", name, sharded);
            TELL("FLUSHALL");
            const char *keys[5] = {name};
            for (int k = 1; k < 5; k++)
                keys[k] = text("{%s}%s:hf1:%c", tags[i], name, "fqsr"[k - 1]);
            redisContext *ben = connect_raw();
            good(kept(sharded ? redisCommand(ben, "SSUBSCRIBE %s", other)
                              : redisCommand(ben, "SUBSCRIBE %s", channel(BEN))));
            const char *fence = string(run(&hf_script_take, 2, keys[0], keys[1], field(id(1)),
                                           "ann", "10000", fence16(0), NULL));
            const char *its = member_of((asking){id(2), "ben", .client = BEN, .sharded = sharded});
            redisReply *reply = run(&hf_script_acquire, 6, keys[0], keys[1], keys[2], keys[3],
                                    keys[4], text("{%s}%s:%s:hf1:d", tags[i], name, id(2)), "0",
                                    id(2), "ben", "10000", "x", "1", its, "0", NULL);
            assert_int_equal(read_answer(reply, 0).state, QUEUED);
            if (whole)
                reply = run(&hf_script_release, 5, keys[0], keys[1], keys[2], keys[3], keys[4],
                            id(1), fence, "0", "", NULL);
            else
                reply = run(&hf_script_release, 5, keys[0], keys[1], keys[2], keys[3], keys[4],
                            id(1), fence, NULL);
            assert_int_equal(integer(reply), 1);
            void *got;
            assert_int_equal(redisGetReply(ben, &got), REDIS_OK);
            assert_string_equal(read_grant(kept(got)->element[2]->str).hold, id(2));
            redisFree(ben);
        }
    }
}

static void test_the_self_test_tells_who_listens_and_is_heard(void **state) { /* C1, H5 */
    (void)state;
    assert_int_equal(integer(run(&hf_script_selftest, 1, K, channel(ANN), NULL)), 0);
    redisContext *ann = subscribe(ANN), *all = listen_to("PSUBSCRIBE", "*");
    assert_int_equal(integer(run(&hf_script_selftest, 1, K, channel(ANN), NULL)), 1);
    assert_string_equal(heard(ann), "t");
    assert_string_equal(heard(all), "t");
    become("resetchannels");
    assert_int_equal(run(&hf_script_selftest, 1, K, channel(ANN), NULL)->type, REDIS_REPLY_ERROR);
    become_oneself();
    if (tells_expiry()) {
        redisContext *sharded = connect_raw();
        good(kept(redisCommand(sharded, "SSUBSCRIBE hf:{stock}:" ANN)));
        assert_int_equal(integer(run(&hf_script_selftest, 1, K, "hf:{stock}:" ANN, NULL)), 1);
        void *got;
        assert_int_equal(redisGetReply(sharded, &got), REDIS_OK);
        assert_string_equal(kept(got)->element[2]->str, "t");
        redisFree(sharded);
    }
    redisFree(ann);
    redisFree(all);
}

/* ------------------------------------------------------------------ Fences */

static void test_fifty_grants_at_once_have_fifty_fences_with_all_digits(void **state) { /* C13 */
    redisContext *all = subscribe(ANN);
    (void)state;
    /* Far ahead of the clock only the last fence counts: each must differ by one. */
    int64_t ahead = server_us() + 3600000000;
    TELL("SET " F " %s", fence16(ahead));
    assert_int_equal(hold_by(id(0), "dan", 10000), ahead + 1);
    for (int i = 1; i <= 50; i++)
        assert_int_equal(join(id(i), ANN, "ann").state, QUEUED);
    for (int i = 0; i < 50; i++) {
        const char *words[] = {"EVAL", hf_script_release.text, "5", KEYS,
                               id(i),  fence16(ahead + 1 + i), "0", ""};
        assert_int_equal(
            redisAppendCommandArgv(user, (int)COUNT(words) - (whole ? 0 : 2), words, NULL),
            REDIS_OK);
    }
    for (int i = 0; i < 50; i++) {
        void *reply;
        assert_int_equal(redisGetReply(user, &reply), REDIS_OK);
        assert_int_equal(integer(kept(reply)), 1);
    }
    for (int i = 1; i <= 50; i++) {
        void *reply;
        assert_int_equal(redisGetReply(all, &reply), REDIS_OK);
        message grant = read_grant(kept(reply)->element[2]->str);
        assert_string_equal(grant.hold, id(i));
        assert_int_equal(grant.fence, ahead + 1 + i);
    }
    assert_one(id(50), ahead + 51, "x000000010000ann");
    assert_flagged(ahead + 51, ANN);
    assert_expires(F, (ahead + 51) / 1000 + DAY);
    redisFree(all);
}

static void test_fences_at_one_time_differ_in_their_last_digit(void **state) { /* C13 */
    (void)state;
    int64_t ahead = server_us() + 3600000000;
    TELL("SET " F " %s", fence16(ahead));
    for (int i = 1; i <= 200; i++) {
        assert_int_equal(hold_by(id(i), "ann", 10000), ahead + i);
        assert_plain(ahead + i);
        assert_taken(id(i), ahead + i, "ann");
        assert_int_equal(release(id(i)), 1);
    }
}

static void
test_the_last_fence_is_kept_for_a_day_after_itself_and_the_clock(void **state) { /* C10 */
    (void)state;
    answer a = try_once(id(1), "ann");
    assert_expires(F, a.now / 1000 + DAY);
    assert_int_equal(release(id(1)), 1);
    /* As an absolute time, also if the fence is ahead of the clock. */
    int64_t ahead = server_us() + 10 * DAY * 1000;
    a = acquire_above(ahead, (asking){id(2), .owner = "ann"});
    assert_int_equal(a.fence, ahead + 1);
    assert_expires(F, (ahead + 1) / 1000 + DAY);
    /* The same end whichever script looks at it. */
    int64_t end = expires_at(F);
    assert_int_equal(join(id(3), GONE, "gone").state, QUEUED);
    assert_expires(F, end);
    assert_int_equal(claim_with(id(2), ANN, 20000, "1"), 20000);
    assert_expires(F, end);
    assert_int_equal(release(id(2)), 1);
    assert_expires(F, end);
    assert_int_equal(take(id(3), "ann"), 0);
    assert_expires(F, end);
    assert_plain(ahead + 1);
}

static void test_fences_grow_although_the_last_one_is_lost(void **state) { /* C10 */
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 10000);
    assert_int_equal(release(id(1)), 1);
    TELL("DEL " F); /* the clock is ahead of it */
    assert_true(hold_by(id(2), "ann", 10000) > fence);
    assert_int_equal(release(id(2)), 1);
    int64_t ahead = server_us() + 3600000000;
    TELL("DEL " F); /* only the client knows a higher one */
    answer a = acquire_above(ahead, (asking){id(3), .owner = "ann"});
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.fence, ahead + 1);
    assert_int_equal(release(id(3)), 1);
    a = acquire_above(ahead - 5, (asking){id(4), .owner = "ann"});
    assert_int_equal(a.fence, ahead + 2); /* a lower floor changes nothing */
    /* Or the lock itself knows it. */
    TELL("DEL " F);
    assert_int_equal(join(id(5), GONE, "gone").state, QUEUED);
    assert_flagged(ahead + 2, NOBODY);
    assert_int_equal(release(id(4)), 1);
    assert_int_equal(try_once(id(6), "ann").fence, ahead + 3);
}

/* F is lost, and with it the sign of a queue: takes pass the waiters until one of them asks. */
static void test_a_lost_fence_is_healed_by_who_waits(void **state) {
    redisContext *all = all_live();
    (void)state;
    hold_by(id(1), "ann", 10000);
    answer first = join(id(2), BEN, "ben");
    assert_int_equal(first.state, QUEUED);
    TELL("DEL " K " " F);
    int64_t fence = take(id(3), "cat");
    assert_true(fence > 0);
    assert_plain(fence);
    answer a = join(id(4), DAN, "dan");
    assert_int_equal(a.state, QUEUED);
    assert_true(a.score > first.score);
    assert_int_equal(a.rank, 1);
    assert_int_equal(join(id(2), BEN, "ben").rank, 0);
    assert_one(id(3), fence, "x000000000000cat");
    assert_flagged(fence, NOBODY);
    assert_int_equal(release(id(3)), 1);
    assert_string_equal(heard_grant(all).hold, id(2));
    assert_int_equal(queue_length(), 1);
    redisFree(all);
}

static void test_a_floor_counts_for_the_next_grant_too(void **state) { /* C10 */
    redisContext *ben = subscribe(BEN);
    (void)state;
    int64_t ahead = server_us() + 3600000000;
    hold_by(id(1), "ann", 10000);
    join(id(2), BEN, "ben");
    /* A busy answer stores it, and so does a free lock with a queue. */
    assert_int_equal(acquire_above(ahead, (asking){id(3), .owner = "cat"}).state, BUSY);
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(heard_grant(ben).fence, ahead + 1);
    TELL("DEL " K " " F);
    queue(member(id(4), BEN, "ben"), server_us());
    assert_int_equal(acquire_above(ahead + 9, (asking){id(5), .owner = "cat"}).state, BUSY);
    assert_int_equal(heard_grant(ben).fence, ahead + 10);
    redisFree(ben);
}

static void test_a_nested_hold_has_the_outer_fence_whatever_the_floor(void **state) {
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 10000);
    answer a = acquire_above(fence + 1000000, (asking){id(2), .owner = "ann"});
    assert_int_equal(a.state, HELD);
    assert_int_equal(a.fence, fence);
}

static void test_fences_that_are_used_up_are_an_error_before_any_write(void **state) { /* C13 */
    static const char *const fences[] = {"9007199254740989", "9007199254740991", "9007199254740992",
                                         "9999999999999999"};
    redisContext *ben = subscribe(BEN);
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(fences); i++) {
        const char *fence = fences[i / 2];
        if (i % 2 == 1)
            fence = text("%s" BEN NO_DEAD, fence);
        print_message("%s\n", fence);
        TELL("FLUSHALL");
        TELL("SET " F " %s", fence);
        assert_int_equal(take(id(1), "ann"), 0);
        assert_int_equal(exists(K), 0);
        assert_int_equal(acquire_reply((asking){id(1), .owner = "ann"})->type, REDIS_REPLY_ERROR);
        assert_int_equal(NUMBER("DBSIZE"), 1);
        assert_string_equal(STRING("GET " F), fence);
        TELL("DEL " F);
        hold_by(id(1), "ann", 10000);
        join(id(2), BEN, "ben");
        TELL("SET " F " %s", text("%.16s" NOBODY NO_DEAD, fence));
        char *one = text("%s", STRING("HGET " K " hf1"));
        one[32] = '2'; /* F is ahead */
        TELL("HSET " K " hf1 %s", one);
        assert_int_equal(release(id(1)), 1); /* released, and handed to no waiter */
        assert_int_equal(exists(K), 0);
        assert_int_equal(queue_length(), 1);
        assert_true(NUMBER("PTTL " Q) > 0);
        assert_null(heard(ben));
    }
    redisFree(ben);
}

static void assert_bad(redisReply *reply, const char *what) {
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(reply->str, text("HOLDFAST %s out of bounds", what)));
}

/* Send an acquire with every argument of a hold id as text. */
static redisReply *raw_acquire(const char *floor, const char *owner, const char *lease,
                               const char *mode, const char *its_member, const char *score) {
    return run(&hf_script_acquire, 6, KEYS, dead(id(2)), floor, id(2), owner, lease, mode, "1",
               its_member, score, NULL);
}

static void test_absurd_numbers_are_refused_before_any_write(void **state) {
    static const char *const leases[] = {"0.5",          "9",   "-1",  "10000.5", "1e300",
                                         "315360000001", "nan", "inf", "",        "x"};
    static const char *const floors[] = {
        "9007199254740990", "9007199254740992", "1e300", "-1", "1.5", "nan", "inf", "", "x", "0x1"};
    static const char *const scores[] = {
        "9007199254740990", "1e300", "-3600000001", "nan", "inf", "", "x"};
    static const char *const modes[] = {"",       "y",    "xx",          "x1",   "o2",
                                        "s",      "s-1",  "sx",          "s1.5", "snan",
                                        "s1e300", "sinf", "s10000000000"};
    (void)state;
    for (int held = 0; held < 2; held++) {
        if (held)
            hold_by(id(1), "ann", 60000);
        char *before = snapshot(K);
        const char *mine = text("%s%s", id(1), held_fence(id(1)));
        for (size_t i = 0; i < COUNT(leases); i++) {
            print_message("lease %s\n", leases[i]);
            assert_bad(raw_acquire("0", "ann", leases[i], "x", "", "0"), "lease");
            assert_bad(raw_acquire("0", "ann", leases[i], "s1", "", "0"), "lease");
            assert_bad(run(&hf_script_claim, 3, K, F, S, ANN, id(1), leases[i], "1", NULL),
                       "lease");
            assert_bad(run(&hf_script_renew, 2, K, K, mine, "90000", EXACTLY, "0", mine, leases[i],
                           EXACTLY, "0", NULL),
                       "lease");
        }
        for (size_t i = 0; i < COUNT(floors); i++) {
            print_message("floor %s\n", floors[i]);
            assert_bad(raw_acquire(floors[i], "ann", "10000", "x", "", "0"), "fence floor");
        }
        for (size_t i = 0; i < COUNT(scores); i++) {
            print_message("score %s\n", scores[i]);
            assert_bad(raw_acquire("0", "ben", "10000", "x", member(id(2), BEN, "ben"), scores[i]),
                       "score");
        }
        for (size_t i = 0; i < COUNT(modes); i++) {
            print_message("mode %s\n", modes[i]);
            assert_bad(raw_acquire("0", "ben", "10000", modes[i], "", "0"), "mode");
        }
        assert_string_equal(snapshot(K), before);
        assert_int_equal(NUMBER("DBSIZE"), held ? 2 : 0);
    }
    /* The last good values. */
    TELL("FLUSHALL");
    assert_int_equal(
        read_answer(raw_acquire("0", "ben", "315360000000", "s9999999999", "", "0"), 0).state,
        HELD);
    assert_int_equal(release(id(2)), 1);
    assert_int_equal(read_answer(raw_acquire("0", "ben", "10", "x", "", "0"), 0).state, HELD);
}

static void test_an_owner_out_of_bounds_is_refused_before_any_write(void **state) {
    static char owner[4098];
    (void)state;
    memset(owner, 'o', 4097);
    assert_bad(raw_acquire("0", "", "10000", "x", "", "0"), "owner");
    assert_bad(raw_acquire("0", owner, "10000", "x", "", "0"), "owner");
    assert_int_equal(NUMBER("DBSIZE"), 0);
    owner[4096] = '\0';
    assert_int_equal(read_answer(raw_acquire("0", owner, "10000", "x", "", "0"), 0).state, HELD);
}

static void test_a_member_says_what_its_arguments_say_or_is_refused(void **state) {
    (void)state;
    const char *const members[] = {
        "x",
        member(id(3), BEN, "ben"),
        member(id(2), BEN, "bob"),
        member(id(2), BEN, ""),
        member_of((asking){id(2), "ben", .client = BEN, .lease = 20000}),
        member_of((asking){id(2), "ben", .client = BEN, .mode = "o"}),
        member_of((asking){id(2), "ben", .client = BEN, .mode = "s1"}),
        text("%s" BEN "p00000000000x000000010000ben", id(2)), /* eleven digits */
        text("%s" BEN "p999999999x000000010000ben", id(2)),   /* nine */
        text("%s" BEN "p          x000000010000ben", id(2)),
        text("%s" BEN "q0000000000x000000010000ben", id(2)),
    };
    for (int held = 0; held < 2; held++) {
        if (held)
            hold_by(id(1), "ann", 60000);
        for (size_t i = 0; i < COUNT(members); i++) {
            print_message("%s\n", members[i]);
            assert_bad(raw_acquire("0", "ben", "10000", "x", members[i], "0"), "member");
        }
        assert_bad(raw_acquire("0", "ben", "10000", "s2",
                               member_of((asking){id(2), "ben", .client = BEN, .mode = "s1"}), "0"),
                   "member");
        assert_int_equal(NUMBER("DBSIZE"), held ? 2 : 0);
    }
}

/* ------------------------------------------------------------ Foreign locks */

static const char *const foreign_locks[] = {
    "SET " K " token PX 60000",
    "HSET " K " 8743c9c0-0795-4907-87fd-6c719a6b4586:1 1",
    "HSET " K " mode read 8743c9c0-0795-4907-87fd-6c719a6b4586:1 1",
    "HSET " K " mode read a b",
    "HSET " K " hf2 ann f 7",
    "HSET " K " hf1 ann",
    "HSET " K " hf1 00000000000000000000000000000001300000000000000000x000000000000ann",
    "HSET " K " h00000000000000000000000000000001 x",
    "RPUSH " K " a",
    "ZADD " K " 1 a",
    "SADD " K " a",
    "XADD " K " * a b",
};

static void test_a_foreign_lock_is_busy_and_never_overwritten(void **state) { /* C14 */
    redisContext *ben = subscribe(BEN);
    (void)state;
    for (size_t i = 0; i < COUNT(foreign_locks); i++) {
        print_message("%s\n", foreign_locks[i]);
        TELL(foreign_locks[i]);
        char *before = snapshot(K);
        answer a = try_once(id(1), "ann");
        assert_int_equal(a.state, BUSY);
        if (i == 0)
            assert_in_range(a.again, 59000, 60000);
        else
            assert_int_equal(a.again, -1);
        assert_int_equal(take(id(1), "ann"), -1);
        assert_null(wait_for((asking){id(2), "ben", .client = BEN}));
        assert_int_equal(acquire((asking){id(1), "ann", .mode = "s0"}).state, BUSY);
        a = join(id(2), BEN, "ben");
        assert_int_equal(a.state, FOREIGN);
        assert_int_equal(a.rank, 0);
        assert_int_equal(NUMBER("ZREM " Q " %s", member(id(2), BEN, "ben")), 1);
        a = acquire((asking){id(2), "ben", .client = BEN, .score = a.score});
        assert_int_equal(a.state, FOREIGN_AGAIN);
        assert_int_equal(release_of(id(1), ""), 0);
        assert_int_equal(release_of(id(1), fence16(7)), 0);
        assert_int_equal(release_with(id(8), "1", ""), 0);
        assert_int_equal(renew(id(1), 10000, LONGER), -2);
        assert_int_equal(renew(id(1), 10000, EXACTLY), -2);
        assert_int_equal(claim(id(1), ANN, 10000), -2);
        assert_int_equal(cancel(id(1), "0", "").state, BUSY);
        kick();
        assert_int_equal(break_lock(0, "0"), 0);
        assert_int_equal(break_lock(7, "0"), 0);
        redisReply *look = inspect(0, 10);
        /* Redisson's locks, and damaged ones of Holdfast, look like locks. */
        bool tells = strstr(foreign_locks[i], "8743c9c0-") || strstr(foreign_locks[i], " hf1 ");
        assert_int_equal(integer(look->element[STATE]), tells ? 3 : 4);
        assert_int_equal(integer(look->element[HOLDS]), 0);
        assert_int_equal(integer(look->element[WAITERS]), 1);
        assert_int_equal(integer(look->element[TTL]) == -1, i != 0);
        assert_int_equal(look->element[HOLDERS]->elements, 0);
        assert_string_equal(snapshot(K), before);
        assert_null(heard(ben));
        /* Only when asked to; then the next waiter has the lock. */
        assert_int_equal(break_lock(0, "1"), 1);
        assert_string_equal(heard_grant(ben).hold, id(2));
        assert_int_equal(release(id(2)), 1);
    }
    redisFree(ben);
}

static void test_dead_heads_before_a_foreign_lock_leave(void **state) {
    redisContext *ben = subscribe(BEN);
    (void)state;
    TELL("SET " K " token");
    assert_int_equal(join(id(2), GONE, "gone").state, FOREIGN);
    assert_int_equal(acquire(reader(id(3), GONE, "gone")).state, FOREIGN);
    answer a = join(id(4), BEN, "ben");
    assert_int_equal(a.state, FOREIGN);
    assert_int_equal(a.rank, 0); /* so this one asks again soon */
    assert_int_equal(queue_length(), 1);
    redisFree(ben);
}

static void test_only_a_foreign_lock_without_end_is_healed(void **state) {
    (void)state;
#define HEAL(ms) run(&hf_script_heal, 1, K, ms, NULL)
    assert_int_equal(integer(HEAL("60000")), 0);
    assert_int_equal(exists(K), 0);
    TELL("SET " K " token");
    assert_int_equal(HEAL("0")->type, REDIS_REPLY_ERROR);
    assert_int_equal(HEAL("nan")->type, REDIS_REPLY_ERROR);
    assert_int_equal(NUMBER("PTTL " K), -1);
    assert_int_equal(integer(HEAL("60000")), 1);
    assert_in_range(NUMBER("PTTL " K), 59000, 60000);
    assert_int_equal(integer(HEAL("90000")), 0);
    assert_in_range(NUMBER("PTTL " K), 59000, 60000);
    assert_string_equal(STRING("GET " K), "token");
    for (size_t i = 1; i < COUNT(foreign_locks); i++) {
        TELL("DEL " K);
        TELL(foreign_locks[i]);
        assert_int_equal(integer(HEAL("60000")), 1);
    }
    for (int form = 0; form < 3; form++) { /* a lock of Holdfast may have no end */
        TELL("FLUSHALL");
        hold_by(id(1), "ann", NEVER);
        if (form == 1)
            assert_int_equal(join(id(8), GONE, "gone").state, QUEUED);
        if (form == 2)
            hold_by(id(2), "ann", NEVER);
        assert_int_equal(integer(HEAL("60000")), 0);
        assert_int_equal(integer(run(&hf_script_heal, 2, K, S, "60000", NULL)), 0);
        assert_int_equal(NUMBER("PTTL " K), -1);
    }
    /* Except for a lock that has lost its ends: no request can end it. */
    TELL("DEL " S);
    assert_int_equal(integer(HEAL("60000")), 0);
    assert_int_equal(integer(run(&hf_script_heal, 2, K, S, "60000", NULL)), 1);
    assert_in_range(NUMBER("PTTL " K), 59000, 60000);
}

/* ---------------------------------------------------------------- Inspect */

static void assert_words(const redisReply *reply, size_t at, const char *const *words,
                         size_t count) {
    for (size_t i = 0; i < count; i++) {
        const redisReply *word = reply->element[at + i];
        if (words[i] == NULL) /* unknown */
            continue;
        if (word->type == REDIS_REPLY_INTEGER)
            assert_string_equal(number(word->integer), words[i]);
        else
            assert_string_equal(word->str, words[i]);
    }
}
#define ASSERT_WORDS(reply, at, ...)                                                               \
    assert_words(reply, at, (const char *const[]){__VA_ARGS__},                                    \
                 COUNT(((const char *const[]){__VA_ARGS__})))

static void test_inspect_changes_nothing_and_tells_all(void **state) {
    redisContext *all = all_live();
    (void)state;
    assert_int_equal(seen(STATE), 0);
    assert_int_equal(seen(TTL), -2);
    assert_int_equal(seen(RESULT_TTL), -2);
    assert_int_equal(NUMBER("DBSIZE"), 0);
    int64_t before = server_us();
    int64_t fence = hold_by(id(1), "ann", 20000);
    for (int form = 0; form < 2; form++) {
        if (form == 1) {
            asking ben = {id(3), "ben", .client = BEN, .timeout = 5000};
            int64_t score = acquire(ben).score;
            redisReply *waiters = inspect(0, 10)->element[QUEUERS];
            assert_int_equal(waiters->elements, 7);
            ASSERT_WORDS(waiters, 0, id(3), "x", number(score), "5000", "0", "ben", "1");
        }
        char *lock = snapshot(K);
        redisReply *look = inspect(0, 10);
        assert_int_equal(integer(look->element[STATE]), 1);
        assert_int_equal(integer(look->element[HOLDS]), 1);
        assert_int_equal(integer(look->element[WAITERS]), form);
        assert_in_range(integer(look->element[TTL]), 19000, 20000);
        assert_in_range(integer(look->element[NOW]), before, server_us());
        assert_int_equal(look->element[HOLDERS]->elements, 6);
        ASSERT_WORDS(look->element[HOLDERS], 0, id(1), "x", number(fence), NULL, "ann", "1");
        assert_string_equal(snapshot(K), lock);
    }
    hold_as((asking){id(2), "ann", .mode = "s0", .nests = "1", .lease = NEVER});
    leave_record(id(9), "d", 5, "x");
    acquire((asking){id(4), "cat", .client = CAT, .mode = "s7"});
    char *lock = snapshot(K), *line = snapshot(Q), *ends = snapshot(S), *last = snapshot(F);
    redisReply *look = inspect(0, 10);
    assert_int_equal(integer(look->element[STATE]), 1);
    assert_int_equal(integer(look->element[HOLDS]), 2);
    assert_int_equal(integer(look->element[WAITERS]), 2);
    assert_int_equal(integer(look->element[TTL]), -1);
    assert_in_range(integer(look->element[RESULT_TTL]), 19000, 20000);
    assert_int_equal(look->element[HOLDERS]->elements, 12);
    ASSERT_WORDS(look->element[HOLDERS], 0, id(1), "x", number(fence), NULL, "ann", "1", id(2), "s",
                 number(fence), "-1", "ann", "1");
    assert_int_equal(look->element[QUEUERS]->elements, 14);
    ASSERT_WORDS(look->element[QUEUERS], 0, id(3), "x", NULL, "5000", "0", "ben", "1", id(4), "s",
                 NULL, "0", "7", "cat", "1");
    /* While the slot moves, only K is read: its form, without the ends and the queue. */
    look = good(run(&hf_script_inspect, 1, K, "0", "10", NULL));
    assert_int_equal(integer(look->element[STATE]), 8 + 1);
    assert_int_equal(integer(look->element[HOLDS]), 2);
    assert_int_equal(integer(look->element[WAITERS]), 0);
    assert_int_equal(integer(look->element[RESULT_TTL]), -2);
    assert_int_equal(look->element[HOLDERS]->elements, 12);
    assert_int_equal(look->element[QUEUERS]->elements, 0);
    look = good(run(&hf_script_inspect, 1, K, "1", "1", NULL));
    assert_int_equal(look->element[HOLDERS]->elements, 6);
    /* Only some of them. */
    look = inspect(1, 1);
    assert_int_equal(integer(look->element[HOLDS]), 2);
    assert_int_equal(look->element[HOLDERS]->elements, 6);
    assert_string_equal(look->element[HOLDERS]->element[0]->str, id(2));
    assert_int_equal(look->element[QUEUERS]->elements, 7);
    assert_string_equal(look->element[QUEUERS]->element[0]->str, id(4));
    look = inspect(2, 10);
    assert_int_equal(look->element[HOLDERS]->elements, 0);
    assert_int_equal(look->element[QUEUERS]->elements, 0);
    look = inspect(0, 0);
    assert_int_equal(integer(look->element[WAITERS]), 2);
    assert_int_equal(look->element[HOLDERS]->elements, 0);
    assert_int_equal(look->element[QUEUERS]->elements, 0);
    assert_string_equal(snapshot(K), lock);
    assert_string_equal(snapshot(Q), line);
    assert_string_equal(snapshot(S), ends);
    assert_string_equal(snapshot(F), last);
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(seen(STATE), 2);
    redisFree(all);
}

/* ------------------------------------------- No memory, missing permissions */

/* Let the server refuse commands that need memory from now on. */
static void fill_the_server(void) { TELL("CONFIG SET maxmemory 1"); }

static void assert_out_of_memory(redisReply *reply) {
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(reply->str, "OOM ")); /* before 7.0 inside another error */
}

static void test_without_memory_an_acquire_fails_clean(void **state) { /* H6 */
    (void)state;
    fill_the_server();
    assert_out_of_memory(take_reply(id(1), "ann", "10000", 0));
    assert_out_of_memory(acquire_reply((asking){id(1), .owner = "ann"}));
    assert_out_of_memory(acquire_reply((asking){id(1), "ann", .mode = "s0"}));
    assert_out_of_memory(acquire_reply((asking){id(1), "ann", .client = ANN, .lease = NEVER}));
    assert_int_equal(NUMBER("DBSIZE"), 0);
    for (int form = 0; form < 3; form++) {
        TELL("CONFIG SET maxmemory 0");
        hold_by(id(1), "ann", 60000);
        if (form == 1)
            hold_one(id(1), "ann");
        if (form == 2)
            hold_by(id(9), "ann", 60000);
        fill_the_server();
        int64_t keys = NUMBER("DBSIZE");
        char *lock = snapshot(K), *fence = text("%s", STRING("GET " F));
        assert_int_equal(try_once(id(2), "ben").state, BUSY);
        assert_out_of_memory(acquire_reply((asking){id(2), .owner = "ann"}));
        assert_out_of_memory(acquire_reply((asking){id(2), "ann", .mode = "s0", .nests = "1"}));
        assert_out_of_memory(acquire_reply((asking){id(2), "ben", .client = BEN}));
        assert_out_of_memory(acquire_reply((asking){id(2), "ben", .client = BEN, .score = 1000}));
        if (form == 1)
            assert_out_of_memory(
                run(&hf_script_wait, 2, K, Q, member(id(2), BEN, "ben"), "ben", NULL));
        assert_string_equal(snapshot(K), lock);
        assert_string_equal(STRING("GET " F), fence);
        assert_int_equal(queue_length(), 0);
        assert_int_equal(NUMBER("DBSIZE"), keys);
        assert_int_equal(try_once(id(1), "ann").state, HELD); /* a retry is still known */
    }
}

static void test_without_memory_what_is_held_can_be_renewed_and_released(void **state) { /* H6 */
    (void)state;
    hold_by(id(1), "ann", 10000);
    hold_by(id(2), "ann", 20000);
    fill_the_server();
    assert_int_equal(renew(id(1), 30000, LONGER), 30000);
    assert_near(K, expiry(id(1)));
    assert_int_equal(renew(id(2), 25000, LONGER), 25000); /* this does not move the key's end */
    assert_int_equal(renew(id(1), 5000, EXACTLY), 5000);
    assert_int_equal(renew(id(1), NEVER, EXACTLY), -1);
    assert_int_equal(NUMBER("PTTL " K), -1);
    assert_int_equal(renew(id(1), 7000, EXACTLY), 7000);
    assert_near(K, expiry(id(2)));
    assert_int_equal(release(id(1)), 1);
    assert_int_equal(release_with(id(2), "1", ""), 1);
    assert_int_equal(exists(K), 0);
    assert_int_equal(exists(dead(id(2))), 1);
}

static void test_without_memory_the_queue_moves_on(void **state) { /* H6 */
    redisContext *ben = subscribe(BEN);
    (void)state;
    int64_t fence = hold_by(id(1), "ann", 10000);
    join(id(2), GONE, "gone");
    join(id(3), BEN, "ben");
    join(id(4), BEN, "ben");
    join(id(5), BEN, "dan");
    fill_the_server();
    assert_int_equal(release(id(1)), 1);
    message grant = heard_grant(ben);
    assert_string_equal(grant.hold, id(3));
    assert_true(grant.fence > fence);
    assert_flagged(grant.fence, BEN);
    assert_in_range(NUMBER("PTTL " K), 2000, 3000);
    assert_int_equal(claim(id(3), BEN, 10000), 10000);
    assert_flagged(grant.fence, NOBODY);
    assert_int_equal(cancel(id(4), "1", member(id(4), BEN, "ben")).state, BUSY);
    assert_int_equal(exists(dead(id(4))), 1);
    assert_int_equal(queue_length(), 1);
    assert_int_equal(join(id(5), BEN, "dan").state, QUEUED); /* it is there already */
    assert_int_equal(break_lock(grant.fence, "0"), 1);
    assert_string_equal(heard_grant(ben).hold, id(5));
    redisFree(ben);
}

static void test_without_memory_a_free_lock_goes_to_the_next(void **state) { /* H6 */
    redisContext *ben = subscribe(BEN);
    (void)state;
    for (int way = 0; way < 4; way++) { /* the holder has died: nothing was deleted before */
        print_message("way %d\n", way);
        asking him = {id(2), "ben", .client = BEN, .mode = way < 2 ? "x" : "s0"};
        hold_one(id(1), "ann");
        queue(member_of(him), server_us());
        TELL("DEL " K);
        fill_the_server();
        if (way % 2 == 1)
            assert_int_equal(acquire(him).state, HELD);
        else
            assert_in_range(kick(), 1, 3000);
        assert_holder(id(2), "ben");
        assert_int_equal(heard(ben) == NULL, way % 2 == 1);
        assert_int_equal(release(id(2)), 1);
        TELL("CONFIG SET maxmemory 0");
    }
    redisFree(ben);
}

static void test_a_result_without_memory_is_refused_or_left(void **state) { /* H6 */
    (void)state;
    hold_as((asking){id(1), "ann", .mode = "o"});
    fill_the_server();
    int64_t done = release_result(id(1), "20000", "x");
    assert_int_equal(done, exists(R) ? 1 : 5);
    assert_int_equal(exists(K), 0);
}

static void test_a_releaser_who_may_not_publish_leaves_no_half_grant(void **state) { /* H5 */
    static const char *const rules[] = {"resetchannels", "-publish"};
    redisContext *ben = subscribe(BEN);
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(rules); i++) {
        asking him = {id(2), "ben", .client = BEN, .mode = i % 2 == 0 ? "x" : "s0"};
        print_message("%s %s\n", rules[i / 2], him.mode);
        hold_by(id(1), "ann", 10000);
        answer queued = acquire(him);
        become(rules[i / 2]);
        assert_int_equal(release(id(1)), 1);
        become_oneself();
        assert_int_equal(exists(K), 0);
        assert_int_equal(exists(S), 0);
        assert_null(heard(ben));
        /* The waiter keeps its place, and gets the lock when it asks. */
        assert_int_equal(place(member_of(him)), queued.score);
        assert_memory_equal(STRING("GET " F) + 16, NOBODY, 32);
        assert_int_equal(take(id(3), "cat"), 0);
        answer a = acquire(him);
        assert_int_equal(a.state, HELD);
        assert_int_equal(a.left, 10000);
        assert_int_equal(release(id(2)), 1);
    }
    redisFree(ben);
}

static void test_a_releaser_who_may_not_ask_who_listens_sets_it_free(void **state) { /* H5 */
    redisContext *ben = subscribe(BEN);
    (void)state;
    hold_by(id(1), "ann", 10000);
    join(id(2), BEN, "ben");
    become("-pubsub");
    assert_int_equal(release(id(1)), 1);
    become_oneself();
    assert_int_equal(exists(K), 0);
    assert_null(heard(ben));
    assert_int_equal(join(id(2), BEN, "ben").state, HELD);
    redisFree(ben);
}

static void test_without_a_permission_to_write_nothing_is_changed(void **state) {
    (void)state;
    hold_by(id(1), "ann", 10000);
    char *before = snapshot(K), *fence = snapshot(F);
    become("-pexpireat");
    assert_int_equal(renew(id(1), 60000, LONGER), -3);
    assert_int_equal(claim(id(1), ANN, 60000), -3);
    become_oneself();
    become("-hget");
    assert_int_equal(renew(id(1), 60000, LONGER), -3);
    redisReply *reply = run(&hf_script_cancel, 6, KEYS, dead(id(1)), id(1), "1", "", NULL);
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    become_oneself();
    become("resetkeys");
    assert_int_equal(acquire_reply((asking){id(2), .owner = "ben"})->type, REDIS_REPLY_ERROR);
    assert_int_equal(take_reply(id(2), "ben", "10000", 0)->type, REDIS_REPLY_ERROR);
    become_oneself();
    assert_string_equal(snapshot(K), before);
    assert_string_equal(snapshot(F), fence);
}

/* Check for an error or the requested result, and nothing in between. */
static void test_an_acquire_without_a_permission_is_done_or_not(void **state) {
    static const char *const commands[] = {
        "exists", "del",   "get",     "set",       "hset",    "hget", "hgetall",
        "hlen",   "hdel",  "pexpire", "pexpireat", "persist", "pttl", "zadd",
        "zrem",   "zcard", "zrange",  "zscore",    "time",
    };
    const asking asks[] = {
        {id(2), .owner = "ann"},       {id(2), "ann", .mode = "s0"}, {id(2), "ann", .lease = NEVER},
        {id(2), "ben", .client = BEN}, {id(2), "ben", .mode = "s0"},
    };
    (void)state;
    for (size_t c = 0; c < COUNT(commands); c++) {
        for (size_t i = 0; i < 3 * COUNT(asks); i++) {
            asking a = asks[i % COUNT(asks)];
            a.hold = id(2); /* texts do not stay valid for ever */
            TELL("FLUSHALL");
            if (i / COUNT(asks) == 1)
                hold_by(id(1), "ann", 10000);
            if (i / COUNT(asks) == 2)
                hold_as((asking){id(1), "eve", .mode = "s0"});
            column before = columns(id(1));
            become(text("-%s", commands[c]));
            redisReply *reply = acquire_reply(a);
            become_oneself();
            print_message("%s %zu: %s\n", commands[c], i,
                          reply->type == REDIS_REPLY_ERROR ? reply->str : "done");
            if (reply->type == REDIS_REPLY_ERROR) {
                assert_not_held(id(2));
                if (strcmp(commands[c], "pttl") != 0 && strcmp(commands[c], "zcard") != 0)
                    assert_int_equal(queue_length(), 0); /* these are read for the answer */
                if (before.owner == NULL)
                    assert_int_equal(exists(K), 0);
                else {
                    assert_string_equal(held_fence(id(1)), before.fence);
                    assert_in_range(renew(id(1), 10000, LOOK), 1, 10000);
                }
                continue;
            }
            int64_t now = read_answer(reply, 0).state;
            if (now == HELD) {
                assert_holder(id(2), a.owner);
                assert_true(exists(F));
            } else if (now == QUEUED)
                assert_int_equal(queue_length(), 1);
            else
                assert_int_equal(now, BUSY);
        }
    }
}

static void test_permissions_says_what_is_missing(void **state) {
    (void)state;
    if (!tells_expiry())
        return; /* Redis 6.2 does not report it */
#define MISSING() string(run(&hf_script_permissions, 1, KEYS, dead(id(1)), NULL))
    assert_string_equal(MISSING(), "");
    become("-zadd -hset");
    assert_string_equal(MISSING(), "+hset +zadd");
    become_oneself();
    become("resetkeys ~stock ~{stock}stock:hf1:*");
    assert_string_equal(MISSING(), "~{stock}stock:*:hf1:d");
    become_oneself();
    become("resetkeys ~{stock}*"); /* not even K: the script itself is refused */
    redisReply *reply = run(&hf_script_permissions, 1, KEYS, dead(id(1)), NULL);
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_true(hf_error_key(reply->str));
    become_oneself();
}

/* The replica's error is passed on, so that the client looks for the master. */
static void test_a_replica_refuses_a_renewal_and_a_claim_with_its_own_error(void **state) {
    (void)state;
    enum { FREE, TAKEN, ONE, MANY, QUEUED_AND_FREE, FORMS };
    for (int form = 0; form < FORMS; form++) {
        TELL("REPLICAOF NO ONE");
        TELL("FLUSHALL");
        if (form != FREE)
            hold_by(id(1), "ann", 60000);
        if (form == ONE || form == QUEUED_AND_FREE)
            assert_int_equal(join(id(2), BEN, "ben").state, QUEUED);
        if (form == MANY)
            hold_by(id(3), "ann", 60000);
        const char *fence = held_fence(id(1));
        if (form == QUEUED_AND_FREE)
            TELL("DEL " K);
        const char *renewal = text("%s%s", id(1), fence);
        TELL("REPLICAOF 127.0.0.1 1");
        redisReply *replies[] = {
            run(&hf_script_renew, 2, K, S, renewal, "90000", LONGER, "2", NULL),
            run(&hf_script_renew, 2, K, S, renewal, "10000", LONGER, "2", NULL),
            run(&hf_script_claim, 3, K, F, S, ANN, id(1), "90000", "0", NULL),
            run(&hf_script_release, 5, KEYS, id(1), fence, NULL),
            run(&hf_script_release, 5, KEYS, id(1), fence, "0", "", NULL),
            run(&hf_script_release, 6, KEYS, dead(id(1)), id(1), fence, "1", "", NULL),
            run(&hf_script_release, 5, KEYS, id(9), fence, NULL),
            run(&hf_script_cancel, 6, KEYS, dead(id(2)), id(2), "0", member(id(2), BEN, "ben"),
                NULL),
            acquire_reply((asking){id(2), "ben", .client = BEN}),
            acquire_reply((asking){id(4), .owner = "ben"}),
            acquire_reply((asking){id(4), .owner = "ann"}),
            acquire_reply((asking){id(4), "ann", .mode = "s0"}),
        };
        TELL("REPLICAOF NO ONE");
        for (size_t i = 0; i < COUNT(replies); i++) {
            hf_status status;
            print_message("form %d, call %zu: %s\n", form, i,
                          replies[i]->str != NULL ? replies[i]->str : number(replies[i]->integer));
            assert_int_equal(replies[i]->type, REDIS_REPLY_ERROR);
            assert_int_equal(hf_error_class(replies[i]->str, &status), HF_AFTER_RECONNECT);
        }
    }
    hold_by(id(1), "ann", 60000);
    assert_int_equal(renew(id(1), 90000, LONGER), 90000);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)
/* Run a test both ways: the short way does what the general one does. */
#define BOTH(name)                                                                                 \
    TEST(name), { #name " (whole)", name, set_up_whole, NULL, NULL }

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_take_writes_one_field_and_a_plain_fence),
        TEST(test_a_take_of_a_lock_that_is_not_free_does_nothing),
        TEST(test_a_take_leaves_to_acquire_what_is_to_be_looked_after),
        TEST(test_a_take_below_the_floor_writes_nothing),
        TEST(test_a_take_out_of_bounds_writes_nothing),
        BOTH(test_acquire_writes_what_take_writes),
        BOTH(test_a_lease_of_zero_never_ends),
        TEST(test_a_busy_answer_tells_when_to_come_back),
        BOTH(test_a_retry_of_acquire_is_told_what_is_left_and_adds_nothing),
        BOTH(test_a_retry_is_told_less_than_the_whole_lease),
        BOTH(test_two_acquires_and_a_retry_are_two_holds),
        BOTH(test_who_may_not_nest_is_busy_for_himself),
        BOTH(test_a_late_copy_of_a_release_touches_nobody),
        BOTH(test_a_retry_of_the_last_release_says_not_held),
        BOTH(test_a_release_need_not_know_the_fence),
        BOTH(test_with_nobody_in_the_queue_the_fence_is_plain_again),
        BOTH(test_a_dead_hold_id_neither_acquires_nor_queues),
        BOTH(test_a_dead_id_stays_dead_through_a_queue),
        BOTH(test_a_dead_id_is_not_queued_by_a_late_wait),
        BOTH(test_a_cancelled_hold_id_is_dead_and_out_of_the_queue),
        BOTH(test_a_dead_hold_id_is_written_only_to_bury),
        BOTH(test_a_release_takes_the_member_out_too),
        BOTH(test_cancel_answers_a_grant_that_has_happened),
        BOTH(test_cancel_buries_what_is_held_and_leaves_it_there),
        BOTH(test_a_cancel_lets_those_behind_it_in),
        BOTH(test_leave_ends_a_hold_with_the_locks_key_alone),
        BOTH(test_a_renewal_never_shortens_another_hold),
        TEST(test_many_renewals_of_one_lock_in_one_call_agree),
        BOTH(test_the_keys_expiry_is_the_latest_of_its_holds),
        BOTH(test_a_renewal_gives_the_lease_from_now),
        BOTH(test_a_renewal_shortens_nothing_unless_told_to),
        BOTH(test_a_renewal_sees_the_keys_own_end),
        BOTH(test_an_expired_hold_counts_for_nothing_although_the_key_lives),
        BOTH(test_a_shared_hold_in_its_last_millisecond_takes_no_other_with_it),
        BOTH(test_expired_holds_leave_with_the_next_that_looks),
        BOTH(test_a_field_that_is_no_hold_fails_no_script),
        TEST(test_renewals_of_many_locks_do_not_fail_each_other),
        BOTH(test_a_renewal_of_one_of_many_asks_for_the_key_of_their_ends),
        BOTH(test_a_waiter_is_queued_in_the_order_of_arrival),
        BOTH(test_a_retry_of_an_enqueue_keeps_one_member_and_its_first_score),
        BOTH(test_a_waiter_that_comes_back_is_queued_at_its_first_score),
        BOTH(test_a_score_is_above_all_others_although_they_are_ahead),
        BOTH(test_a_head_start_passes_those_alone_who_came_within_it),
        BOTH(test_success_takes_the_waiter_out_of_the_queue),
        BOTH(test_who_asks_without_a_member_leaves_its_place_alone),
        BOTH(test_who_comes_to_wait_for_a_free_lock_has_it),
        BOTH(test_other_acquires_of_the_granted_owner_join_when_they_ask),
        BOTH(test_one_call_asks_for_many_waiters_and_tells_the_state_of_each),
        TEST(test_of_many_waiters_of_one_call_the_head_is_granted),
        BOTH(test_a_wait_joins_the_queue_and_tells_of_the_holder),
        BOTH(test_a_wait_leaves_to_acquire_all_else),
        BOTH(test_a_wait_gives_a_lost_queue_its_end),
        BOTH(test_the_queues_end_moves_in_a_crowd),
        BOTH(test_a_release_grants_to_the_head_and_tells_it),
        BOTH(test_who_does_not_listen_is_skipped_and_not_told),
        BOTH(test_if_nobody_listens_the_lock_is_free),
        BOTH(test_a_waiter_whose_time_is_up_is_skipped),
        BOTH(test_a_pushed_grant_lasts_until_its_claim_and_is_marked),
        BOTH(test_a_claim_gives_the_whole_lease_and_takes_the_mark_away),
        BOTH(test_a_claim_of_another_fence_is_of_nothing_held),
        BOTH(test_a_claim_of_what_is_not_held_leaves_the_mark),
        BOTH(test_a_claim_writes_if_it_is_told_to),
        BOTH(test_who_lets_a_grant_run_out_is_taken_out_of_the_queue),
        BOTH(test_a_ghost_that_asks_is_none),
        BOTH(test_a_reader_that_lets_a_grant_run_out_is_a_ghost_too),
        TEST(test_a_try_on_a_free_lock_serves_the_queue_first),
        TEST(test_a_try_gets_the_lock_if_all_who_queue_are_dead),
        BOTH(test_a_dead_crowd_is_skipped_in_bounded_steps),
        BOTH(test_a_try_in_a_dead_crowd_comes_back_at_once),
        TEST(test_kicks_come_to_an_end),
        BOTH(test_a_kick_does_nothing_to_a_lock_that_is_held),
        BOTH(test_the_dead_leave_the_queue_of_a_lock_that_is_held_for_long),
        BOTH(test_a_break_grants_to_the_next),
        BOTH(test_a_break_takes_all_that_nests_in_a_hold),
        BOTH(test_a_break_of_one_reader_leaves_the_others),
        BOTH(test_garbage_in_the_queue_is_dropped),
        BOTH(test_a_queue_of_another_type_is_an_error_and_nothing_is_changed),
        BOTH(test_readers_hold_it_together),
        BOTH(test_a_reader_comes_after_a_writer_and_a_writer_after_readers),
        BOTH(test_nobody_passes_a_writer_in_the_queue),
        BOTH(test_adjacent_readers_are_granted_together),
        BOTH(test_permits_bound_how_many_hold_it),
        BOTH(test_one_release_grants_as_many_as_there_are_permits),
        BOTH(test_a_crashed_reader_frees_only_its_permit),
        BOTH(test_a_reader_nests_in_an_exclusive_hold_and_stays_when_that_ends),
        BOTH(test_an_upgrade_is_refused),
        BOTH(test_a_reader_nests_in_its_own_hold_past_the_queue),
        BOTH(test_many_holds_without_their_ends_are_as_busy_as_anothers),
        BOTH(test_nothing_nests_in_a_section_that_has_ended),
        BOTH(test_ends_without_a_lock_count_for_nothing),
        BOTH(test_who_computes_once_leaves_the_result_for_all_others),
        BOTH(test_a_result_is_left_to_who_waits_in_the_queue_when_it_is_seen),
        BOTH(test_a_result_may_be_any_bytes_or_none),
        TEST(test_a_result_of_a_hold_that_has_ended_is_not_left),
        BOTH(test_a_result_out_of_bounds_is_refused_and_the_lock_released),
        BOTH(test_a_member_says_on_which_channel_its_client_listens),
        TEST(test_the_self_test_tells_who_listens_and_is_heard),
        BOTH(test_fifty_grants_at_once_have_fifty_fences_with_all_digits),
        BOTH(test_fences_at_one_time_differ_in_their_last_digit),
        BOTH(test_the_last_fence_is_kept_for_a_day_after_itself_and_the_clock),
        BOTH(test_fences_grow_although_the_last_one_is_lost),
        BOTH(test_a_lost_fence_is_healed_by_who_waits),
        BOTH(test_a_floor_counts_for_the_next_grant_too),
        TEST(test_a_nested_hold_has_the_outer_fence_whatever_the_floor),
        BOTH(test_fences_that_are_used_up_are_an_error_before_any_write),
        BOTH(test_absurd_numbers_are_refused_before_any_write),
        BOTH(test_an_owner_out_of_bounds_is_refused_before_any_write),
        BOTH(test_a_member_says_what_its_arguments_say_or_is_refused),
        BOTH(test_a_foreign_lock_is_busy_and_never_overwritten),
        BOTH(test_dead_heads_before_a_foreign_lock_leave),
        BOTH(test_only_a_foreign_lock_without_end_is_healed),
        BOTH(test_inspect_changes_nothing_and_tells_all),
        BOTH(test_without_memory_an_acquire_fails_clean),
        BOTH(test_without_memory_what_is_held_can_be_renewed_and_released),
        BOTH(test_without_memory_the_queue_moves_on),
        BOTH(test_without_memory_a_free_lock_goes_to_the_next),
        TEST(test_a_result_without_memory_is_refused_or_left),
        BOTH(test_a_releaser_who_may_not_publish_leaves_no_half_grant),
        BOTH(test_a_releaser_who_may_not_ask_who_listens_sets_it_free),
        TEST(test_without_a_permission_to_write_nothing_is_changed),
        BOTH(test_an_acquire_without_a_permission_is_done_or_not),
        TEST(test_permissions_says_what_is_missing),
        BOTH(test_a_replica_refuses_a_renewal_and_a_claim_with_its_own_error),
    };
    return cmocka_run_group_tests(tests, stop_clock, NULL);
}
