/* The C waiters of mixed.py, which starts this program and describes them. */
#include <err.h>
#include <hiredis/hiredis.h>
#include <holdfast/holdfast.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_WAITERS 1000

static const char *host;
static int port;
static int rounds;
static hf_lock *lock;

static void check(hf_status status) {
    if (status != HF_OK)
        errx(1, "%s: %s", hf_status_name(status), hf_error_message());
}

/** Send a command that returns a number, "OK", or a number as text. */
static int64_t ask(redisContext *redis, const char *format, ...) {
    va_list arguments;
    redisReply *reply;
    int64_t number;

    va_start(arguments, format);
    reply = redisvCommand(redis, format, arguments);
    va_end(arguments);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        errx(1, "redis: %s", reply ? reply->str : redis->errstr);
    number = reply->type == REDIS_REPLY_INTEGER ? reply->integer
             : reply->str                       ? strtoll(reply->str, NULL, 10)
                                                : 0;
    freeReplyObject(reply);
    return number;
}

static void *take_turns(void *argument) {
    int number = *(int *)argument;
    unsigned seed = (unsigned)number;
    redisContext *redis = redisConnect(host, port);
    hf_hold *hold;

    free(argument);
    if (!redis || redis->err)
        errx(1, "redis: %s", redis ? redis->errstr : "out of memory");
    for (int i = 0; i < rounds; i++) {
        check(hf_lock_acquire(lock, 60000, &hold));
        int64_t count = ask(redis, "GET counter");
        ask(redis, "SET counter %" PRId64, count + 1);
        ask(redis, "RPUSH log c:%d:%" PRId64, number, hf_hold_fence(hold));
        check(hf_hold_release(hold));
        hf_hold_close(hold);
        nanosleep(&(struct timespec){.tv_nsec = rand_r(&seed) % 3000000}, NULL);
    }
    redisFree(redis);
    return NULL;
}

static void check_limit(hf_client *client, const char *name) {
    char pool[300];
    hf_lock *many;
    hf_hold *hold;
    snprintf(pool, sizeof pool, "%s:pool", name);
    hf_lock_options options = {.size = sizeof options, .mode = HF_SHARED, .permits = 9};
    check(hf_lock_open(client, pool, strlen(pool), NULL, 0, &options, &many));
    hf_status status = hf_lock_acquire(many, 0, &hold);
    if (status != HF_ELIMIT ||
        strstr(hf_error_message(), "has 2 permits, and this acquire gives 9") == NULL)
        errx(1, "9 permits passed a limit of 2: %s", hf_status_name(status));
    hf_lock_close(many);
}

int main(int argc, char **argv) {
    static pthread_t threads[MAX_WAITERS];
    size_t count = 0;
    char url[300];
    hf_client *client;
    int number;

    if (argc != 5)
        errx(2, "usage: waiters HOST PORT LOCK ROUNDS");
    host = argv[1];
    port = atoi(argv[2]);
    rounds = atoi(argv[4]);
    snprintf(url, sizeof url, "redis://%s:%d?connect_timeout=20", host, port);
    check(hf_client_open(url, NULL, &client));
    check(hf_lock_open(client, argv[3], strlen(argv[3]), NULL, 0, NULL, &lock));
    check_limit(client, argv[3]);
    puts("ready c");
    fflush(stdout);

    while (count < MAX_WAITERS && scanf(" c %d", &number) == 1) {
        int *own = malloc(sizeof *own);

        if (!own)
            errx(1, "out of memory");
        *own = number;
        if (pthread_create(&threads[count++], NULL, take_turns, own) != 0)
            errx(1, "no thread for waiter %d", number);
    }

    while (count > 0)
        pthread_join(threads[--count], NULL);
    hf_lock_close(lock);
    hf_client_close(client);
    return 0;
}
