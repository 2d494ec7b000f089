#include "net/connection.h"

#include <errno.h>
#include <hiredis/alloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/simulated.h"
#include "protocol/encoding.h"

/* No answer to our requests is longer or nested deeper, except a result. Without limits a server
 * could make hiredis take any amount of memory. */
#define REPLY_BYTES_MAX (1024 * 1024 + 64 * 1024)
#define REPLY_DEPTH_MAX 8
/* The first byte of a TLS alert; no answer of Redis begins with it. */
#define TLS_ALERT 0x15
/* A longer output goes in parts, because one send(2) may wait for the socket's timeout more than
 * once; and no larger buffer is kept between two requests. */
#define OUTPUT_PART 16384
/* The most bytes that precede a request's keys, with PING and ASKING, without the script's text. */
#define HEAD_MAX 144
#define RECEIVED_PART 16384

static void set_error(hf_connection *connection, int type, const char *text) {
    connection->error = type;
    snprintf(connection->why, sizeof connection->why, "%s", text);
}

/* Set the socket's timeout to a little less than the time left: when it ends, the caller checks the
 * deadline again. Most calls have the same limit, so that the old setting usually serves. */
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

/* Give the next wait the time left. False: no time is left. */
static bool has_time(void *of) {
    hf_connection *connection = of;
    int64_t now = hf_now();
    if (now >= connection->deadline)
        return false;
    set_timeout(connection, now);
    return true;
}

/* Return whether there is time left; if not, set the error. */
static bool in_time(hf_connection *connection) {
    if (has_time(connection))
        return true;
    HF_MARK("M11");
    set_error(connection, REDIS_ERR_TIMEOUT, "no answer in time");
    return false;
}

const char *hf_connection_error(const hf_connection *connection, int error) {
    return error == EPROTO && connection->tls != NULL ? hf_tls_error(connection->tls)
                                                      : strerror(error);
}

/* Return whether a call has only waited, without data and without a failure. */
static bool has_waited(void) { return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK; }

static int flags(const hf_connection *connection) { return connection->driven ? MSG_DONTWAIT : 0; }

/* Return whether the server may expect TLS: it may answer the first plain bytes with an alert. */
static bool is_tls_alert(const hf_connection *connection, const char *buffer) {
    return !connection->heard && connection->tls == NULL && *buffer == TLS_ALERT;
}

/* Decide what follows a read or a write that moved nothing; return 1: again at once; 0: later; -1:
 * it failed. Our reads and writes replace those of hiredis, to raise no SIGPIPE, which would end an
 * unprepared program, and to keep a deadline that signals do not extend. */
static int moved_nothing(hf_connection *connection, ssize_t count) {
    if (count == 0)
        set_error(connection, REDIS_ERR_EOF, "the server closed the connection");
    else if (connection->driven && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    else if (!has_waited())
        set_error(connection, REDIS_ERR_IO, hf_connection_error(connection, errno));
    else if (in_time(connection))
        return 1;
    return -1;
}

static ssize_t receive(hf_connection *connection, char *buffer, size_t size) {
    /* A server that sends single bytes must not extend the deadline, but the rest may have
     * arrived. */
    bool late = connection->received > 0 && !connection->driven && !has_time(connection);
    if (HF_UNUSUAL("receives a part") && size > 3)
        size = 3;
    for (int how = late ? MSG_DONTWAIT : flags(connection);;) {
        ssize_t count = connection->tls != NULL ? hf_tls_receive(connection->tls, buffer, size, how)
                                                : recv(connection->socket.fd, buffer, size, how);
        if (count > 0 && is_tls_alert(connection, buffer)) {
            set_error(connection, REDIS_ERR_PROTOCOL,
                      "it speaks TLS, so the URL must begin with rediss");
            return -1;
        }
        if (count > 0) {
            connection->heard = true;
            connection->received += (size_t)count;
            if (connection->received <= REPLY_BYTES_MAX + (connection->fetches ? HF_RESULT_MAX : 0))
                return count;
            set_error(connection, REDIS_ERR_PROTOCOL, "the answer is too long");
            return -1;
        }
        /* The thread may have stood still until its time was up, while the answer arrived. */
        if (count < 0 && how == 0 && has_waited() && !has_time(connection)) {
            HF_MARK("H179");
            how = MSG_DONTWAIT;
            continue;
        }
        int next = moved_nothing(connection, count);
        if (next <= 0)
            return next;
    }
}

/* Make an array. Replaces hiredis's function, to refuse answers that are nested too deep. */
static void *create_array(const redisReadTask *task, size_t elements) {
    hf_connection *connection = task->privdata;
    int depth = 0;
    for (const redisReadTask *outer = task->parent; outer != NULL; outer = outer->parent)
        depth++;
    connection->too_deep = depth >= REPLY_DEPTH_MAX;
    return connection->too_deep ? NULL : connection->create_array(task, elements);
}

/* Make a reply without calloc(), which hiredis uses, and which does not reuse memory that free()
 * has just returned. */
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

/* Make a string of any type that RESP2 has. */
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

/* Send the queued bytes; on a driven connection as many as the socket takes. False: the connection
 * has failed. */
static bool transmit(hf_connection *connection) {
    hf_bytes *output = &connection->output;
    bool slow = !connection->driven && output->length > OUTPUT_PART;
    size_t sent = 0;
    while (sent < output->length) {
        const char *from = output->data + sent;
        size_t part = output->length - sent;
        if (slow && part > OUTPUT_PART)
            part = OUTPUT_PART;
        if (HF_UNUSUAL("sends a part") && part > 1)
            part /= 2;
        ssize_t count = hf_connection_send(connection, from, part);
        if (count > 0) {
            sent += (size_t)count;
            if (slow && !in_time(connection))
                return false;
            continue;
        }
        int next = moved_nothing(connection, count);
        if (next < 0)
            return false;
        if (next == 0)
            break;
    }
    output->length -= sent;
    memmove(output->data, output->data + sent, output->length);
    if (output->length == 0 && output->capacity > OUTPUT_PART)
        hf_bytes_free(output);
    return true;
}

void hf_connection_close(hf_connection *connection) {
    if (connection == NULL)
        return;
    hf_tls_end(connection->tls);
    hf_socket_close(&connection->socket);
    redisReaderFree(connection->reader);
    hf_bytes_free(&connection->output);
    free(connection);
}

bool hf_connection_stale(const hf_connection *connection) {
    char byte;
    return recv(connection->socket.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
           (errno != EAGAIN && errno != EWOULDBLOCK);
}

bool hf_connection_unasked(const hf_connection *connection) {
    return connection->reader->pos < connection->reader->len;
}

bool hf_texts_miss(hf_texts *texts, const hf_script *script) {
    size_t most = sizeof texts->told / sizeof *texts->told;
    for (size_t i = 0; i < most; i++)
        if (texts->told[i] == script)
            return false;
    texts->told[texts->count++ % most] = script;
    return true;
}

bool hf_connection_append(hf_connection *connection, const hf_request *request, int how) {
    static const char ask[] = "*1\r\n$6\r\nASKING\r\n", ping[] = "*1\r\n$4\r\nPING\r\n";
    hf_bytes *output = &connection->output;
    bool whole = (how & HF_WHOLE) != 0;
    size_t text = whole && request->script != NULL ? request->script->length : 0;
    if (!hf_bytes_reserve(output, HEAD_MAX + text + request->encoded.length))
        return false; /* the requests before this one are still whole */
    if ((how & HF_NUDGES) != 0)
        hf_bytes_add(output, ping, sizeof ping - 1);
    if ((how & HF_ASKING) != 0)
        hf_bytes_add(output, ask, sizeof ask - 1);
    if (request->fetches) /* otherwise another thread may read it */
        connection->fetches = true;
    hf_request_head(request, whole, output);
    hf_bytes_add(output, request->encoded.data, request->encoded.length);
    return !output->failed && !request->encoded.failed;
}

bool hf_connection_append_words(hf_connection *connection, int count, const char *const *words,
                                const size_t *lengths) {
    hf_encode_words(&connection->output, count, words, lengths);
    return !connection->output.failed;
}

/* Return a guess about a server that has sent nothing: a server that expects TLS hangs up at the
 * first plain bytes; a server without TLS waits for the end of a line. */
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

/* Return the error as a status. */
static hf_status trouble(const hf_connection *connection) {
    const char *text = connection->why;
    int error = connection->error;
    if (connection->too_deep) /* hiredis reports it as a lack of memory */
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

/* Read a number or a short string that arrived whole, with nothing after it. NULL: anything
 * else. */
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

/* Pass the bytes on to hiredis. False: it failed. */
static bool feed(hf_connection *connection, const char *bytes, size_t count) {
    redisReader *reader = connection->reader;
    if (redisReaderFeed(reader, bytes, count) == REDIS_OK)
        return true;
    set_error(connection, reader->err, reader->errstr);
    return false;
}

/* Receive, and read a small answer here, in a tenth of the instructions of hiredis
 * (docs/performance.md); any other answer goes to hiredis. False: it failed. */
static bool read_first(hf_connection *connection, void **reply_out) {
    char bytes[128];
    if (connection->unheeded > 0 || hf_connection_unasked(connection))
        return true;
    ssize_t count = receive(connection, bytes, sizeof bytes);
    if (count <= 0)
        return false;
    *reply_out = read_small(bytes, bytes + count);
    return *reply_out != NULL || feed(connection, bytes, (size_t)count);
}

hf_status hf_connection_exchange(hf_connection *connection, int64_t now, int64_t deadline,
                                 redisReply **reply_out) {
    void *reply = NULL;
    connection->received = 0;
    connection->used_at = now;
    connection->deadline = deadline;
    set_timeout(connection, now);
    /* A server with too many clients sends an error and hangs up before it has read a request. */
    bool told = connection->tls == NULL && !connection->heard;
    hf_status status = HF_OK;
    if ((!transmit(connection) && !told) || !read_first(connection, &reply))
        status = trouble(connection);
    *reply_out = reply;
    while (status == HF_OK && *reply_out == NULL) {
        status = hf_connection_next(connection, reply_out);
        if (status == HF_OK && *reply_out == NULL)
            status = hf_connection_receive(connection);
    }
    return status;
}

/* --------------------------------------------------------------- Opening */

hf_status hf_connection_ask(hf_connection *connection, int64_t deadline, size_t count,
                            const hf_words *commands, redisReply **replies) {
    hf_status status = HF_OK;
    memset(replies, 0, count * sizeof *replies);
    for (size_t i = 0; i < count; i++)
        if (commands[i].count > 0 &&
            !hf_connection_append_words(connection, commands[i].count, commands[i].words, NULL))
            return hf_fail(HF_ENOMEM, "no memory");
    for (size_t i = 0; i < count && status == HF_OK; i++)
        if (commands[i].count > 0)
            status = hf_connection_exchange(connection, hf_now(), deadline, &replies[i]);
    return status;
}

void hf_replies_free(redisReply **replies, size_t count) {
    for (size_t i = 0; i < count; i++) {
        freeReplyObject(replies[i]);
        replies[i] = NULL;
    }
}

/* Have hiredis make its objects with our functions. False: no memory. */
static bool hook(hf_connection *connection) {
    redisReader *reader = redisReaderCreate();
    if (reader == NULL)
        return false;
    connection->objects = *reader->fn;
    connection->create_array = connection->objects.createArray;
    connection->objects.createArray = create_array;
    connection->objects.createString = create_string;
    connection->objects.createInteger = create_integer;
    reader->fn = &connection->objects;
    reader->privdata = connection;
    reader->maxelements = HF_REPLY_PARTS_MAX;
    connection->reader = reader;
    return true;
}

hf_status hf_connection_new(const hf_address *address, const hf_tls *tls, int64_t deadline,
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
        status = hf_tls_begin(tls, address, connection->socket.fd, has_time, connection,
                              &connection->tls);
    if (status == HF_OK)
        *connection_out = connection;
    else
        hf_connection_close(connection);
    return status;
}

/* ---------------------------------------------------- Driven connections */

void hf_connection_set_driven(hf_connection *connection) {
    connection->driven = true;
    connection->deadline = HF_NO_DEADLINE;
    connection->received = 0;
}

short hf_connection_events(const hf_connection *connection) {
    bool more = connection->output.length > 0 &&
                (connection->tls == NULL || !hf_tls_starved(connection->tls));
    return more ? POLLIN | POLLOUT : POLLIN;
}

hf_status hf_connection_receive(hf_connection *connection) {
    char bytes[RECEIVED_PART];
    do { /* a connection that has failed stays failed */
        ssize_t count = connection->error == 0 ? receive(connection, bytes, sizeof bytes) : -1;
        if (count < 0 || !feed(connection, bytes, (size_t)count))
            return trouble(connection);
    } while (connection->tls != NULL && hf_tls_pending(connection->tls));
    return HF_OK;
}

hf_status hf_connection_drive(hf_connection *connection) {
    return transmit(connection) ? hf_connection_receive(connection) : trouble(connection);
}

hf_status hf_connection_next(hf_connection *connection, redisReply **reply_out) {
    redisReader *reader = connection->reader;
    for (;;) {
        void *reply = NULL;
        *reply_out = NULL;
        if (redisReaderGetReply(reader, &reply) != REDIS_OK) {
            set_error(connection, reader->err, reader->errstr);
            return trouble(connection);
        }
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
