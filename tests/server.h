/* The server that with-redis started, with and without the library. */
#ifndef SERVER_H
#define SERVER_H

#include "format.h"
#include "lock.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

static inline const char *tcp_url(void) { return getenv("HOLDFAST_TEST_URL"); }
static inline const char *unix_url(void) { return getenv("HOLDFAST_TEST_UNIX_URL"); }

/* ------------------------------------------------------------------- Time */

static inline int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* An upper bound in real time, in which the machine may stand still; exact in virtual time. */
#ifdef HOLDFAST_VIRTUAL_TIME
#define IN_TIME(ms) (ms)
#else
#define IN_TIME(ms) ((ms) + 20000)
#endif

/* Wait for a condition that must become true soon; a busy machine may pause for seconds. */
#define assert_soon(condition)                                                                     \
    do {                                                                                           \
        int64_t until_ = now_ms() + 25000;                                                         \
        while (!(condition)) {                                                                     \
            if (now_ms() > until_)                                                                 \
                fail_msg("never came true: %s", #condition);                                       \
            sleep_ms(1);                                                                           \
        }                                                                                          \
    } while (0)

/* ---------------------------------------- Without the library: raw Redis */

static inline redisContext *connect_raw(void) {
    redisContext *context = redisConnectUnix(unix_url() + strlen("unix://"));
    assert_non_null(context);
    assert_int_equal(context->err, 0);
    redisSetTimeout(context, (struct timeval){.tv_sec = 10});
    return context;
}

/* Return the one connection for all tests of the program. */
static inline redisContext *raw(void) {
    static redisContext *context;
    if (context == NULL)
        context = connect_raw();
    return context;
}

/* Keep a reply valid until many more have arrived. */
static inline redisReply *kept(redisReply *reply) {
    static _Thread_local redisReply *replies[256];
    static _Thread_local unsigned next;
    redisReply **at = &replies[next++ % COUNT(replies)];
    freeReplyObject(*at);
    return *at = reply;
}

static inline redisReply *asked(void *reply, const char *what) {
    if (reply == NULL)
        fail_msg("no answer to %s", what);
    return kept(reply);
}

/* Return any answer, also an error. Formats are hiredis's: %s, %b, %lld. */
static inline redisReply *ask(const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *reply = asked(redisvCommand(raw(), format, args), format);
    va_end(args);
    return reply;
}

static inline redisReply *good(redisReply *reply) {
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("the server answered %s", reply->str);
    return reply;
}

static inline long long integer(redisReply *reply) {
    assert_int_equal(good(reply)->type, REDIS_REPLY_INTEGER);
    return reply->integer;
}

/* Return NULL for nil. */
static inline const char *string(redisReply *reply) { return good(reply)->str; }

#define TELL(...) good(ask(__VA_ARGS__))
#define NUMBER(...) integer(ask(__VA_ARGS__))
#define STRING(...) string(ask(__VA_ARGS__))

/* Return when the key expires, in ms by the server's clock; -1: never; -2: it does not exist. Redis
 * 6.2 cannot report it: there it is computed, exact to one ms. */
enum { EXPIRY_SLACK = 2 };
static inline bool tells_expiry(void) {
    static int tells = -1;
    if (tells < 0)
        tells = strstr(STRING("INFO server"), "redis_version:6.") == NULL;
    return tells;
}

static inline long long expires_at(const char *key) {
    if (tells_expiry())
        return NUMBER("PEXPIRETIME %s", key);
    return NUMBER("EVAL %s 1 %s",
                  "local function ms() "
                  "  local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000) end "
                  "local now, ttl "
                  "repeat now = ms() ttl = redis.call('PTTL', KEYS[1]) until ms() == now "
                  "return ttl < 0 and ttl or now + ttl",
                  key);
}

/* Return all that is stored under the key, and when it expires, to check that nothing has changed.
 */
static inline char *snapshot(const char *key) {
    redisReply *dump = TELL("DUMP %s", key);
    char *hex = calloc(2 * dump->len + 1, 1);
    for (size_t i = 0; i < dump->len; i++)
        sprintf(hex + 2 * i, "%02x", (unsigned char)dump->str[i]);
    char *whole = text("%s %lld %s", key, expires_at(key), hex);
    free(hex);
    return whole;
}

/* Read a stored lock; empty if it is none of Holdfast's. */
#define STORED(key) read_stored(TELL("HGETALL %s", key))

/* ------------------------------------------------------------ The library */

/* Open a client that tolerates a machine that stands still for seconds. */
static inline hf_client *open_at(const char *url) {
    hf_client_options patient = {.size = sizeof patient, .connect_timeout_ms = 10000};
    hf_client *client;
    assert_status(hf_client_open(url, &patient, &client), HF_OK);
    return client;
}

static inline hf_client *open_client(void) { return open_at(unix_url()); }

/* Return how many renewals the client has made by itself. */
static inline int64_t renewals(hf_client *client) {
    hf_stats stats = {.size = sizeof stats};
    assert_status(hf_client_stats(client, &stats), HF_OK);
    return stats.renewed;
}

/* Return the next completion; HF_KIND_NONE if none arrives within within_ms. */
static inline hf_completion completion_within(hf_client *client, int64_t within_ms) {
    hf_completion completion = {.size = sizeof completion};
    int64_t until = now_ms() + within_ms;
    for (;;) {
        assert_status(hf_client_next(client, &completion), HF_OK);
        int64_t left = until - now_ms();
        if (completion.kind != HF_KIND_NONE || left <= 0)
            break;
        struct pollfd fd = {.fd = hf_client_fd(client), .events = POLLIN};
        poll(&fd, 1, (int)left);
    }
    assert_int_equal(completion.size, sizeof completion);
    return completion;
}

/* Return the next completion, which must arrive. */
static inline hf_completion next_of(hf_client *client) {
    hf_completion completion = completion_within(client, 25000);
    if (completion.kind == HF_KIND_NONE)
        fail_msg("no completion came");
    return completion;
}

/* ------------------------------------------------------------ Every test */

/* Begin with an empty server and a minute of time, whatever a failed test has left. */
static inline void start_afresh(void) {
    alarm(60);
    TELL("REPLICAOF NO ONE");
    TELL("CONFIG SET maxmemory 0");
    TELL("CONFIG SET min-replicas-to-write 0");
    TELL("CLIENT KILL TYPE pubsub");
    TELL("FLUSHALL");
}

#endif
