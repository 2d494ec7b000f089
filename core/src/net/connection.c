#include "net/connection.h"

#include <errno.h>
#include <hiredis/alloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/simulated.h"
#include "protocol/encoding.h"
#include "protocol/errors.h"

/* No answer to our requests is longer or nested deeper. Without limits a server could make hiredis
 * take any amount of memory. */
#define REPLY_BYTES_MAX (HF_RESULT_MAX + 64 * 1024)
#define REPLY_DEPTH_MAX 8
/* The first byte of a TLS alert, and of no answer of Redis. */
#define TLS_ALERT 0x15
/* More goes in parts, because one send(2) may wait for the socket's timeout more than once; and no
 * larger buffer is kept between two requests. */
#define OUTPUT_PART 16384

static void set_error(redisContext *redis, int type, const char *text) {
    redis->err = type;
    snprintf(redis->errstr, sizeof redis->errstr, "%s", text);
}

/* Set the socket's timeout to a little less than the time left: when it ends, the caller checks
 * the deadline again. Most calls have the same limit, so that the old setting mostly serves. */
static void set_timeout(hf_connection *connection, int64_t now) {
    int64_t ms = hf_until(connection->deadline, now);
    if (connection->timeout_ms <= ms && connection->timeout_ms > ms / 2)
        return;
    ms -= ms / 16;
    struct timeval timeout = {.tv_sec = ms / 1000, .tv_usec = ms > 0 ? ms % 1000 * 1000 : 1};
    setsockopt(connection->socket.fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(connection->socket.fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    connection->timeout_ms = ms;
}

/* Otherwise set the error. What waits next has the time that is left. */
static bool in_time(hf_connection *connection) {
    int64_t now = hf_now();
    if (now >= connection->deadline) {
        HF_MARK("M11");
        set_error(connection->redis, REDIS_ERR_TIMEOUT, "no answer in time");
        return false;
    }
    set_timeout(connection, now);
    return true;
}

const char *hf_connection_error(const hf_connection *connection, int error) {
    return error == EPROTO && connection->tls != NULL ? hf_tls_error(connection->tls)
                                                      : strerror(error);
}

/* Our functions replace hiredis's read and write. They raise no SIGPIPE, which would end a program
 * that does not expect it, and keep a deadline that signals do not move. */
static bool again(redisContext *redis) {
    hf_connection *connection = redis->privdata;
    if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
        set_error(redis, REDIS_ERR_IO, hf_connection_error(connection, errno));
        return false;
    }
    return in_time(connection);
}

static bool later(const hf_connection *connection) {
    return connection->driven && (errno == EAGAIN || errno == EWOULDBLOCK);
}

static int flags(const hf_connection *connection) { return connection->driven ? MSG_DONTWAIT : 0; }

/* A server that expects TLS may answer the first plain bytes so. */
static bool is_tls_alert(const hf_connection *connection, const char *buffer) {
    return !connection->heard && connection->tls == NULL && *buffer == TLS_ALERT;
}

/* Nothing came or went: 0 for later, -1 for a failure; or 1: at once again. */
static int moved_nothing(redisContext *redis, ssize_t count) {
    if (count == 0) {
        set_error(redis, REDIS_ERR_EOF, "the server closed the connection");
        return -1;
    }
    if (later(redis->privdata))
        return 0;
    return again(redis) ? 1 : -1;
}

static ssize_t receive(redisContext *redis, char *buffer, size_t size) {
    hf_connection *connection = redis->privdata;
    /* A server that sends drop by drop must not put the deadline off. */
    if (connection->received > 0 && !connection->driven && !in_time(connection))
        return -1;
    if (HF_UNUSUAL("receives a part") && size > 3)
        size = 3;
    for (;;) {
        ssize_t count = connection->tls != NULL
                            ? hf_tls_receive(connection->tls, buffer, size, flags(connection))
                            : recv(connection->socket.fd, buffer, size, flags(connection));
        if (count > 0 && is_tls_alert(connection, buffer)) {
            set_error(redis, REDIS_ERR_PROTOCOL,
                      "it speaks TLS, so the URL must begin with rediss");
            return -1;
        }
        if (count > 0) {
            connection->heard = true;
            connection->received += (size_t)count;
            if (connection->received <= REPLY_BYTES_MAX)
                return count;
            set_error(redis, REDIS_ERR_PROTOCOL, "the answer is too long");
            return -1;
        }
        int next = moved_nothing(redis, count);
        if (next <= 0)
            return next;
    }
}

/* Replaces hiredis's function, to refuse answers that are nested too deep. */
static void *create_array(const redisReadTask *task, size_t elements) {
    hf_connection *connection = task->privdata;
    int depth = 0;
    for (const redisReadTask *outer = task->parent; outer != NULL; outer = outer->parent)
        depth++;
    connection->too_deep = depth >= REPLY_DEPTH_MAX;
    return connection->too_deep ? NULL : connection->create_array(task, elements);
}

/* hiredis makes its objects with calloc(), which does not take what free() has just put back. */
static redisReply *new_reply(const redisReadTask *task) {
    redisReply *reply = hi_malloc(sizeof *reply);
    if (reply == NULL)
        return NULL;
    memset(reply, 0, sizeof *reply);
    reply->type = task->type;
    if (task->parent != NULL)
        ((redisReply *)task->parent->obj)->element[task->idx] = reply;
    return reply;
}

static void *create_integer(const redisReadTask *task, long long value) {
    redisReply *reply = new_reply(task);
    if (reply != NULL)
        reply->integer = value;
    return reply;
}

/* Of a type that RESP2 has. */
static void *create_string(const redisReadTask *task, char *bytes, size_t length) {
    char *copy = hi_malloc(length + 1);
    redisReply *reply = copy != NULL ? new_reply(task) : NULL;
    if (reply == NULL) {
        hi_free(copy);
        return NULL;
    }
    memcpy(copy, bytes, length);
    copy[length] = '\0';
    reply->str = copy;
    reply->len = length;
    return reply;
}

ssize_t hf_connection_send(const hf_connection *connection, const char *bytes, size_t count) {
    int how = MSG_NOSIGNAL | flags(connection);
    return connection->tls != NULL ? hf_tls_send(connection->tls, bytes, count, how)
                                   : send(connection->socket.fd, bytes, count, how);
}

/* Send what is queued, or as much as goes at once. False: the connection is of no use any more. */
static bool transmit(hf_connection *connection) {
    redisContext *redis = connection->redis;
    hf_bytes *output = &connection->output;
    bool slow = !connection->driven && output->length > OUTPUT_PART;
    while (connection->sent < output->length) {
        const char *from = output->data + connection->sent;
        size_t part = output->length - connection->sent;
        if (slow && part > OUTPUT_PART)
            part = OUTPUT_PART;
        if (HF_UNUSUAL("sends a part") && part > 1)
            part /= 2;
        ssize_t count = hf_connection_send(connection, from, part);
        if (count > 0) {
            connection->sent += (size_t)count;
            if (slow && !in_time(connection))
                return false;
            continue;
        }
        int next = moved_nothing(redis, count);
        if (next < 0)
            return false;
        if (next == 0)
            break;
    }
    output->length -= connection->sent;
    memmove(output->data, output->data + connection->sent, output->length);
    connection->sent = 0;
    if (output->length == 0 && output->capacity > OUTPUT_PART)
        hf_bytes_free(output);
    return true;
}

/* It does not close the socket, which is ours. */
static void free_redis(redisContext *redis) {
    if (redis != NULL)
        redis->fd = REDIS_INVALID_FD;
    redisFree(redis);
}

void hf_connection_close(hf_connection *connection) {
    if (connection == NULL)
        return;
    hf_tls_end(connection->tls);
    hf_socket_close(&connection->socket);
    free_redis(connection->redis);
    hf_bytes_free(&connection->output);
    free(connection);
}

bool hf_connection_stale(const hf_connection *connection) {
    char byte;
    return recv(connection->socket.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
           (errno != EAGAIN && errno != EWOULDBLOCK);
}

bool hf_connection_unasked(const hf_connection *connection) {
    return connection->redis->reader->pos < connection->redis->reader->len;
}

bool hf_connection_append(hf_connection *connection, const hf_request *request, int how) {
    static const char ask[] = "*1\r\n$6\r\nASKING\r\n", ping[] = "*1\r\n$4\r\nPING\r\n";
    hf_bytes *output = &connection->output;
    if ((how & HF_NUDGES) != 0)
        hf_bytes_add(output, ping, sizeof ping - 1);
    if ((how & HF_ASKING) != 0)
        hf_bytes_add(output, ask, sizeof ask - 1);
    hf_request_head(request, (how & HF_WHOLE) != 0, output);
    hf_bytes_add(output, request->encoded.data, request->encoded.length);
    return !output->failed && !request->encoded.failed;
}

int hf_connection_fd(const hf_connection *connection) { return connection->socket.fd; }

bool hf_connection_append_words(hf_connection *connection, int count, const char **words,
                                const size_t *lengths) {
    hf_encode_words(&connection->output, count, words, lengths);
    return !connection->output.failed;
}

/* A guess for a server that has sent nothing at all: one that expects TLS hangs up at the first
 * plain bytes; one that does not speak TLS waits for the end of a line. */
static const char *advice(const hf_connection *connection, int error) {
    if (connection->heard || connection->local)
        return "";
    if (connection->tls == NULL && (error == REDIS_ERR_EOF || error == REDIS_ERR_IO))
        return ": if the server expects TLS, the URL must begin with rediss";
    if (connection->tls != NULL && error == REDIS_ERR_TIMEOUT &&
        !hf_tls_established(connection->tls))
        return ": if the server does not speak TLS, the URL must begin with redis, not rediss";
    return "";
}

/* hiredis's error as a status. */
static hf_status trouble(const hf_connection *connection, int error, const char *text) {
    if (connection->too_deep) /* hiredis takes it for a lack of memory */
        error = REDIS_ERR_PROTOCOL, text = "the answer is nested too deep";
    switch (error) {
    case REDIS_ERR_PROTOCOL:
        return hf_fail(HF_EPROTOCOL, "what answered does not speak the Redis protocol: %s", text);
    case REDIS_ERR_OOM:
        return hf_fail(HF_ENOMEM, "no memory");
    default:
        return hf_fail(HF_ECONNECT, "%s%s", text, advice(connection, error));
    }
}

/* A number or a short string that came whole, and nothing after it. NULL: something else. */
static redisReply *read_small(const char *from, const char *end) {
    const redisReadTask number = {.type = REDIS_REPLY_INTEGER},
                        string = {.type = REDIS_REPLY_STRING};
    char kind = *from++;
    long long value = 0;
    if ((kind != ':' && kind != '$') || end - from < 3 || *from < '0' || *from > '9')
        return NULL;
    for (int digits = 0; from < end && *from >= '0' && *from <= '9' && digits < 9; digits++)
        value = 10 * value + (*from++ - '0');
    if (end - from < 2 || memcmp(from, "\r\n", 2) != 0)
        return NULL;
    from += 2;
    if (kind == ':')
        return from == end ? create_integer(&number, value) : NULL;
    if (end - from != value + 2 || memcmp(end - 2, "\r\n", 2) != 0)
        return NULL;
    return create_string(&string, (char *)from, (size_t)value);
}

/* hiredis reads each answer. But most are read here, in a tenth of the instructions
 * (docs/performance.md), and what is no small one goes to hiredis. False: it failed. */
static bool read_first(hf_connection *connection, void **reply_out) {
    redisContext *redis = connection->redis;
    char bytes[128];
    if (connection->unheeded > 0 || hf_connection_unasked(connection))
        return true;
    ssize_t count = receive(redis, bytes, sizeof bytes);
    if (count <= 0)
        return false;
    *reply_out = read_small(bytes, bytes + count);
    if (*reply_out != NULL || redisReaderFeed(redis->reader, bytes, (size_t)count) == REDIS_OK)
        return true;
    set_error(redis, REDIS_ERR_OOM, "no memory");
    return false;
}

hf_status hf_connection_exchange(hf_connection *connection, int64_t now, int64_t deadline,
                                 redisReply **reply_out) {
    void *reply = NULL;
    connection->received = 0;
    connection->used_at = now;
    connection->deadline = deadline;
    set_timeout(connection, now);
    /* A server that is full says so and hangs up, before it could be sent anything. */
    bool told = connection->tls == NULL && !connection->heard;
    bool good = (transmit(connection) || told) && read_first(connection, &reply);
    if (good && reply != NULL) {
        *reply_out = reply;
        return HF_OK;
    }
    while (good && redisGetReply(connection->redis, &reply) == REDIS_OK && reply != NULL) {
        if (connection->unheeded == 0) {
            *reply_out = reply;
            return HF_OK;
        }
        connection->unheeded--;
        connection->received = 0;
        freeReplyObject(reply);
    }
    *reply_out = NULL;
    return trouble(connection, connection->redis->err, connection->redis->errstr);
}

/* --------------------------------------------------------------- Opening */

hf_status hf_connection_ask(hf_connection *connection, int64_t deadline, redisReply **reply_out,
                            int count, const char **words) {
    *reply_out = NULL;
    if (!hf_connection_append_words(connection, count, words, NULL))
        return hf_fail(HF_ENOMEM, "no memory");
    return hf_connection_exchange(connection, hf_now(), deadline, reply_out);
}

/* The server's error as a status. A server that does not know AUTH quotes the password: the
 * message shows only the text before the first quote. */
static hf_status refused(const hf_address *address, const char *what, const redisReply *reply) {
    hf_status status = HF_EPROTOCOL;
    if (reply->type != REDIS_REPLY_ERROR)
        return hf_fail(status, "%s gave an unexpected reply to %s", address->shown, what);
    hf_error_class(reply->str, &status);
    if (strcmp(what, "AUTH") != 0)
        return hf_fail(status, "%s refused %s: %.200s", address->shown, what, reply->str);
    char *secret = NULL;
    hf_address_secret(address, &secret);
    bool told = secret == NULL || (*secret != '\0' && strstr(reply->str, secret) != NULL);
    hf_secret_free(secret);
    int length = told ? 0 : (int)strcspn(reply->str, "'`\"");
    return hf_fail(HF_EAUTH, "%s refused the user or the password: %.*s", address->shown,
                   length < 200 ? length : 200, reply->str);
}

static hf_status expect_ok(hf_connection *connection, const hf_address *address, int64_t deadline,
                           int count, const char **words) {
    redisReply *reply;
    hf_status status = hf_connection_ask(connection, deadline, &reply, count, words);
    if (status != HF_OK)
        return status;
    if (reply->type != REDIS_REPLY_STATUS || strcmp(reply->str, "OK") != 0)
        status = refused(address, words[0], reply);
    freeReplyObject(reply);
    return status;
}

static hf_status too_old(const hf_address *address, const char *version) {
    HF_MARK("M8");
    int length = (int)strcspn(version, "\r\n"); /* in INFO another line follows */
    return hf_fail(HF_EUNSUPPORTED, "%s runs Redis %.*s: 6.2 or newer is needed", address->shown,
                   length < 20 ? length : 20, version);
}

/* Queue the library's name and version for the next write. If the user lacks the permission, the
 * server refuses only these. */
static bool introduce(hf_connection *connection) {
    const char *name[] = {"CLIENT", "SETINFO", "LIB-NAME", "holdfast"};
    const char *version[] = {"CLIENT", "SETINFO", "LIB-VER", hf_version()};
    connection->unheeded += 2;
    return hf_connection_append_words(connection, 4, name, NULL) &&
           hf_connection_append_words(connection, 4, version, NULL);
}

static hf_status check_version(hf_connection *connection, const hf_address *address,
                               const char *version) {
    int major, minor;
    if (sscanf(version, "%d.%d", &major, &minor) != 2)
        return hf_fail(HF_EPROTOCOL, "%s does not tell its version", address->shown);
    if (major < 6 || (major == 6 && minor < 2))
        return too_old(address, version);
    if ((major > 7 || (major == 7 && minor >= 2)) && !introduce(connection))
        return hf_fail(HF_ENOMEM, "no memory");
    return HF_OK;
}

static hf_status check_info(hf_connection *connection, const hf_address *address,
                            int64_t deadline) {
    redisReply *reply;
    hf_status status =
        hf_connection_ask(connection, deadline, &reply, 2, (const char *[]){"INFO", "server"});
    if (status != HF_OK)
        return status;
    bool text = reply->type == REDIS_REPLY_STRING; /* NOLINT: with HF_OK there is a reply */
    const char *version = text ? strstr(reply->str, "redis_version:") : NULL;
    status = version != NULL
                 ? check_version(connection, address, version + strlen("redis_version:"))
                 : refused(address, "INFO", reply);
    freeReplyObject(reply);
    return status;
}

/* HELLO tells any user the version, and names the connection. Before Redis 6 only INFO does. */
static hf_status check_hello(hf_connection *connection, const hf_address *address,
                             const redisReply *reply, int64_t deadline) {
    if (reply->type == REDIS_REPLY_ERROR && hf_error_permission(reply->str))
        return HF_OK; /* it has ACLs, so it is new enough to try */
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "ERR", 3) == 0)
        return check_info(connection, address, deadline);
    if (reply->type != REDIS_REPLY_ARRAY)
        return refused(address, "HELLO", reply);
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *name = reply->element[i], *value = reply->element[i + 1];
        if (name->type == REDIS_REPLY_STRING && value->type == REDIS_REPLY_STRING &&
            strcmp(name->str, "version") == 0)
            return check_version(connection, address, value->str);
    }
    return hf_fail(HF_EPROTOCOL, "%s does not tell its version", address->shown);
}

/* AUTH [user] password; *count is 0 if there is no password. The caller frees the secret. */
static hf_status auth(const hf_address *address, const char *words[3], int *count, char **secret) {
    hf_status status = hf_address_secret(address, secret);
    *count = 0;
    if (status != HF_OK || *secret == NULL)
        return status;
    words[(*count)++] = "AUTH";
    if (address->user != NULL)
        words[(*count)++] = address->user;
    words[(*count)++] = *secret;
    return HF_OK;
}

/* A replica, or a master that is being demoted, must not be taken for the master. */
static hf_status check_role(const hf_address *address, const redisReply *reply) {
    if (reply->type == REDIS_REPLY_ERROR)
        return refused(address, "ROLE", reply);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        strcmp(reply->element[0]->str, "master") != 0)
        return hf_fail(HF_ECONNECT, "%s is not a master now", address->shown);
    return HF_OK;
}

/* A password that was sent does not stay in a buffer that lives on. */
static void wipe(hf_connection *connection) {
    memset(connection->output.data, 0, connection->output.capacity);
}

hf_status hf_connection_authenticate(hf_connection *connection, const hf_address *address,
                                     int64_t deadline) {
    const char *words[3];
    char *secret = NULL;
    int count;
    hf_status status = auth(address, words, &count, &secret);
    if (status == HF_OK && count > 0)
        status = expect_ok(connection, address, deadline, count, words);
    hf_secret_free(secret);
    wipe(connection);
    return status;
}

/* The commands of the log-in, sent in one write, in the order of their answers. */
enum { AUTH, HELLO, ROLE, SELECT, GREETINGS };

static bool append_greetings(hf_connection *connection, const hf_address *address, int needs,
                             bool sent[GREETINGS]) {
    char number[16];
    const char *hello[] = {"HELLO", "2", "SETNAME", address->options.client_name};
    const char *role[] = {"ROLE"}, *choose[] = {"SELECT", number};
    snprintf(number, sizeof number, "%d", address->database);
    sent[HELLO] = true;
    sent[ROLE] = needs == HF_NEEDS_MASTER;
    sent[SELECT] = address->database != 0;
    return hf_connection_append_words(connection, 4, hello, NULL) &&
           (!sent[ROLE] || hf_connection_append_words(connection, 1, role, NULL)) &&
           (!sent[SELECT] || hf_connection_append_words(connection, 2, choose, NULL));
}

static hf_status append_log_in(hf_connection *connection, const hf_address *address, int needs,
                               bool sent[GREETINGS]) {
    const char *words[3];
    char *secret = NULL;
    int count;
    hf_status status = auth(address, words, &count, &secret);
    if (status != HF_OK)
        return status;
    sent[AUTH] = count > 0;
    bool ok = (count == 0 || hf_connection_append_words(connection, count, words, NULL)) &&
              append_greetings(connection, address, needs, sent);
    hf_secret_free(secret);
    return ok ? HF_OK : hf_fail(HF_ENOMEM, "no memory");
}

static hf_status check_greeting(hf_connection *connection, const hf_address *address, int which,
                                const redisReply *reply, int64_t deadline) {
    static const char *const names[] = {[AUTH] = "AUTH", [SELECT] = "SELECT"};
    /* In our words: the rest of a hostile server's text may be the password. */
    if (reply->type == REDIS_REPLY_ERROR && hf_error_full(reply->str))
        return hf_fail(HF_ECONNECT, "%s refused the connection: max number of clients reached",
                       address->shown);
    if (which == HELLO)
        return check_hello(connection, address, reply, deadline);
    if (which == ROLE)
        return check_role(address, reply);
    bool ok = reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0;
    return ok ? HF_OK : refused(address, names[which], reply);
}

/* Read all answers first, because a check may send another request. A server that hangs up has
 * mostly said why. */
static hf_status log_in(hf_connection *connection, const hf_address *address, int needs,
                        int64_t deadline) {
    bool sent[GREETINGS] = {false};
    redisReply *replies[GREETINGS] = {NULL};
    if (needs == HF_ASKS_ONLY)
        return HF_OK;
    hf_status status = append_log_in(connection, address, needs, sent), checked = HF_OK;
    for (int i = 0; i < GREETINGS && status == HF_OK; i++)
        if (sent[i])
            status = hf_connection_exchange(connection, hf_now(), deadline, &replies[i]);
    wipe(connection); /* before a check queues more */
    for (int i = 0; i < GREETINGS && checked == HF_OK; i++)
        if (replies[i] != NULL)
            checked = check_greeting(connection, address, i, replies[i], deadline);
    for (int i = 0; i < GREETINGS; i++)
        freeReplyObject(replies[i]);
    return checked != HF_OK ? checked : status;
}

/* Let hiredis read and parse with our functions; we write by ourselves. False: no memory. */
static bool hook(hf_connection *connection) {
    redisContext *redis = redisConnectFd(connection->socket.fd);
    if (redis == NULL || redis->err != 0) {
        free_redis(redis);
        return false;
    }
    connection->functions = *redis->funcs;
    connection->functions.read = receive;
    redis->funcs = &connection->functions;
    redis->privdata = connection;
    connection->objects = *redis->reader->fn;
    connection->create_array = connection->objects.createArray;
    connection->objects.createArray = create_array;
    connection->objects.createString = create_string;
    connection->objects.createInteger = create_integer;
    redis->reader->fn = &connection->objects;
    redis->reader->privdata = connection;
    redis->reader->maxelements = HF_REPLY_PARTS_MAX;
    connection->redis = redis;
    return true;
}

static hf_status connect_to(const hf_address *address, const hf_tls *tls, int64_t deadline,
                            hf_connection **connection_out) {
    hf_connection *connection = calloc(1, sizeof *connection);
    *connection_out = NULL;
    if (connection == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    hf_bytes_init(&connection->output);
    connection->deadline = HF_NO_DEADLINE;
    connection->local = address->path != NULL;
    snprintf(connection->shown, sizeof connection->shown, "%s", address->shown);
    hf_status status = hf_socket_connect(&connection->socket, address, deadline);
    if (status == HF_OK && !hook(connection))
        status = hf_fail(HF_ENOMEM, "cannot reach %s: no memory", address->shown);
    if (status == HF_OK && tls != NULL)
        status = hf_tls_begin(tls, address, connection->socket.fd, &connection->tls);
    if (status == HF_OK)
        *connection_out = connection;
    else
        hf_connection_close(connection);
    return status;
}

hf_status hf_connection_open(const hf_address *address, const hf_tls *tls, int needs,
                             int64_t deadline, hf_connection **connection_out) {
    hf_connection *connection;
    hf_status status = connect_to(address, tls, deadline, &connection);
    *connection_out = NULL;
    if (status != HF_OK)
        return status;
    status = log_in(connection, address, needs, deadline);
    if (status != HF_OK) {
        if (status == HF_ECONNECT || (status == HF_EPROTOCOL && connection->redis->err != 0)) {
            char text[300];
            snprintf(text, sizeof text, "%s", hf_error_message());
            hf_fail(status, "cannot log in to %s: %s", address->shown, text);
        }
        hf_connection_close(connection);
        return status;
    }
    *connection_out = connection;
    return HF_OK;
}

/* ---------------------------------------------------------------- Driven */

void hf_connection_set_driven(hf_connection *connection) {
    connection->driven = true;
    connection->deadline = HF_NO_DEADLINE;
    connection->received = 0;
}

short hf_connection_events(const hf_connection *connection) {
    bool more = connection->output.length > 0 &&
                (connection->tls == NULL || !hf_tls_wants_input(connection->tls));
    return more ? POLLIN | POLLOUT : POLLIN;
}

hf_status hf_connection_receive(hf_connection *connection) {
    redisContext *redis = connection->redis;
    do {
        if (redisBufferRead(redis) != REDIS_OK)
            return trouble(connection, redis->err, redis->errstr);
    } while (connection->tls != NULL && hf_tls_pending(connection->tls));
    return HF_OK;
}

hf_status hf_connection_drive(hf_connection *connection) {
    redisContext *redis = connection->redis;
    return transmit(connection) ? hf_connection_receive(connection)
                                : trouble(connection, redis->err, redis->errstr);
}

hf_status hf_connection_next(hf_connection *connection, redisReply **reply_out) {
    for (;;) {
        void *reply = NULL;
        *reply_out = NULL;
        if (redisReaderGetReply(connection->redis->reader, &reply) != REDIS_OK)
            return trouble(connection, connection->redis->reader->err,
                           connection->redis->reader->errstr);
        if (reply != NULL)
            connection->received = 0;
        if (reply == NULL || connection->unheeded == 0) {
            *reply_out = reply;
            return HF_OK;
        }
        connection->unheeded--;
        freeReplyObject(reply);
    }
}
