/*
 * The flash sale's C buyers; run.py describes the sale and starts them.
 *
 * Every line on standard input is a buyer, "locked 17" or "unlocked 17", which
 * gets a thread and prints its result as one line of JSON.
 */
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

#define MAX_BUYERS 10000

struct buyer {
    int number;
    int locked;
};

static hf_lock *sale_lock;
static const char *stock_key;
static const char *order_key;

static redisContext *connect_to_shop(void);
static int64_t ask(redisContext *shop, const char *format, ...);

static const char *setting(const char *name) {
    const char *value = getenv(name);

    if (!value)
        errx(2, "no %s in the environment: run.py starts this program", name);
    return value;
}

static void sleep_ms(long milliseconds) {
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

static void check(hf_status status) {
    if (status != HF_OK)
        errx(1, "%s: %s", hf_status_name(status), hf_error_message());
}

static void *buy(void *argument) {
    struct buyer buyer = *(struct buyer *)argument;
    redisContext *shop = connect_to_shop();
    hf_hold *hold = NULL;
    int64_t fence = 0;
    int64_t order;
    int64_t stock;

    free(argument);
    if (buyer.locked) {
        check(hf_lock_acquire(sale_lock, 60000, &hold));
        fence = hf_hold_fence(hold);
    }

    order = ask(shop, "INCR %s", order_key);
    stock = ask(shop, "GET %s", stock_key);
    if (stock > 0) {
        sleep_ms(3); /* the buyer thinks about the price */
        ask(shop, "SET %s %" PRId64, stock_key, stock - 1);
    }

    if (buyer.locked)
        check(hf_hold_release(hold));
    hf_hold_close(hold);

    printf("{\"buyer\":%d,\"language\":\"c\",\"order\":%" PRId64 ",\"stock\":%" PRId64
           ",\"bought\":%s,\"fence\":%" PRId64 "}\n",
           buyer.number, order, stock, stock > 0 ? "true" : "false", fence);
    redisFree(shop);
    return NULL;
}

int main(void) {
    static pthread_t threads[MAX_BUYERS];
    size_t count = 0;
    char mode[16];
    int number;
    const char *lock_name = setting("SHOP_LOCK");
    hf_client *client;

    stock_key = setting("SHOP_STOCK");
    order_key = setting("SHOP_ORDER");
    setvbuf(stdout, NULL, _IOLBF, 0);

    check(hf_client_open(setting("SHOP_URL"), NULL, &client));
    check(hf_lock_open(client, lock_name, strlen(lock_name), NULL, 0, NULL, &sale_lock));
    puts("{\"ready\":true}");

    while (count < MAX_BUYERS && scanf("%15s %d", mode, &number) == 2) {
        struct buyer *buyer = malloc(sizeof *buyer);

        if (!buyer)
            errx(1, "out of memory");
        *buyer = (struct buyer){.number = number, .locked = strcmp(mode, "locked") == 0};
        if (pthread_create(&threads[count++], NULL, buy, buyer) != 0)
            errx(1, "no thread for buyer %d", number);
    }

    while (count > 0)
        pthread_join(threads[--count], NULL);
    hf_lock_close(sale_lock);
    hf_client_close(client);
    return 0;
}

/* ------------------------------------------- The shop's stock, over hiredis */

/** Send a command that returns a number, "OK", or a number as text. */
static int64_t ask(redisContext *shop, const char *format, ...) {
    va_list arguments;
    redisReply *reply;
    int64_t number;

    va_start(arguments, format);
    reply = redisvCommand(shop, format, arguments);
    va_end(arguments);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        errx(1, "the shop: %s", reply ? reply->str : shop->errstr);
    number = reply->type == REDIS_REPLY_INTEGER ? reply->integer
             : reply->str                       ? strtoll(reply->str, NULL, 10)
                                                : 0;
    freeReplyObject(reply);
    return number;
}

static redisContext *connect_to_shop(void) {
    const char *path = getenv("SHOP_SOCKET");
    const char *password = getenv("SHOP_PASSWORD");
    redisContext *shop = path ? redisConnectUnix(path)
                              : redisConnect(setting("SHOP_HOST"), atoi(setting("SHOP_PORT")));

    if (!shop || shop->err)
        errx(1, "the shop: %s", shop ? shop->errstr : "out of memory");
    if (password)
        ask(shop, "AUTH %s %s", setting("SHOP_USER"), password);
    ask(shop, "SELECT %s", setting("SHOP_DATABASE"));
    return shop;
}
