/* holdfast bench --plan: docs/scale.md has the measurements behind the figures here. */
#include "plan.h"
#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOCK_BYTES = 420,          /* a held lock with its last fence */
    NAME_BYTES = 180,          /* a last fence */
    WAITER_BYTES = 290,        /* in a queue */
    CONNECTION_BYTES = 20000,  /* with the buffers of a connection in use */
    CLIENT_CONNECTIONS = 3,    /* at most, to one server */
    CALL_BYTES = 300,          /* of a request and its answer, both ways */
    BATCH = 100,               /* holds that one request renews */
    RENEWALS = 3,              /* per lease; 3.2 with each client's share */
    ASK_MS = 3000,             /* after this time a waiter asks again */
    ASK_PAIRS = 2,             /* its cost, with the PING of its subscription, in pairs */
    CONNECT_PAIRS = 1,         /* the cost of a connect and a log-in, in pairs */
    SPREAD_MS = 1000,          /* clients connect over this time after an outage */
    DEFAULT_MAXCLIENTS = 10000 /* Redis's own default */
};
/* The part of one core that a master may use: the rest is for bursts and for a failover. */
#define MOST_LOAD 0.5

static double read_number(const char *key, const char *text) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number >= 0 && number <= 1e12) ||
        strspn(text, "0123456789.") != strlen(text))
        cli_usage("--plan takes a number for %s, 0 to 1000000000000, not '%s'", key, text);
    return number;
}

static void read_pair(plan_wish *wish, const char *key, const char *text) {
    if (strcmp(key, "locks") == 0)
        wish->locks = (int64_t)read_number(key, text);
    else if (strcmp(key, "hosts") == 0)
        wish->hosts = (int64_t)read_number(key, text);
    else if (strcmp(key, "rate") == 0)
        wish->rate = read_number(key, text);
    else if (strcmp(key, "waiters") == 0)
        wish->waiters = (int64_t)read_number(key, text);
    else if (strcmp(key, "names") == 0)
        wish->names = (int64_t)read_number(key, text);
    else if (strcmp(key, "lease") == 0)
        wish->lease_ms = cli_duration("--plan lease", text);
    else
        cli_usage("--plan knows locks, hosts, rate, waiters, names and lease, not '%s'", key);
}

plan_wish plan_read(const char *text) {
    plan_wish wish = {.rate = -1, .waiters = 0, .names = -1, .lease_ms = 10000};
    char *copy = strdup(text), *rest = copy;
    for (char *part; copy != NULL && (part = strsep(&rest, ",")) != NULL;) {
        char *value = strchr(part, '=');
        if (value == NULL)
            cli_usage("--plan takes locks=1000,hosts=20,rate=50, not '%s'", text);
        *value++ = '\0';
        read_pair(&wish, part, value);
    }
    free(copy);
    if (wish.locks < 1 || wish.hosts < 1 || wish.rate < 0)
        cli_usage("--plan needs locks, hosts and rate, like locks=1000,hosts=20,rate=50");
    if (wish.lease_ms < 1000)
        cli_usage("--plan takes a lease of 1s or more");
    if (wish.names < wish.locks)
        wish.names = wish.locks;
    return wish;
}

/* The results of a wish. Loads are parts of one core. */
typedef struct plan {
    double acquire, renew, wait, load;
    int64_t masters, memory, connections, bytes_a_second, restart_ms;
} plan;

static int64_t round_up(double number) {
    int64_t whole = (int64_t)number;
    return (double)whole < number ? whole + 1 : whole;
}

static plan make_plan(const plan_wish *wish, const plan_costs *costs) {
    plan made;
    double pair = costs->pair;
    double each = (double)wish->locks / (double)wish->hosts; /* per host */
    double batch = each < 1 ? 1 : each < BATCH ? each : BATCH;
    double renewed = (double)wish->locks * RENEWALS * 1000 / (double)wish->lease_ms; /* a second */
    double waiting = (double)(wish->waiters < wish->hosts ? wish->waiters : wish->hosts);
    made.acquire = wish->rate * (wish->waiters > 0 ? costs->handoff : pair);
    /* In a batch of a hundred, a hold costs two fifths of a hold alone. */
    made.renew = renewed * costs->renewal * (0.4 + 0.6 / batch);
    made.wait = waiting * ASK_PAIRS * pair * 1000 / ASK_MS;
    made.load = made.acquire + made.renew + made.wait;
    made.masters = round_up(made.load / MOST_LOAD);
    made.masters = made.masters < 1 ? 1 : made.masters;
    made.connections = wish->hosts * CLIENT_CONNECTIONS;
    made.memory = wish->locks * (LOCK_BYTES - NAME_BYTES) + wish->names * NAME_BYTES +
                  wish->waiters * WAITER_BYTES + made.connections * CONNECTION_BYTES * made.masters;
    made.bytes_a_second =
        (int64_t)((2 * wish->rate + renewed / (batch > 2 ? 2 : 1) + waiting * 1000 / ASK_MS) *
                  CALL_BYTES);
    made.restart_ms = SPREAD_MS + (int64_t)((double)made.connections * CONNECT_PAIRS * pair * 1000 +
                                            waiting * ASK_PAIRS * pair * 1000);
    return made;
}

static void print_json(const plan_wish *wish, const plan *made) {
    printf(
        "{\"kind\":\"plan\",\"locks\":%" PRId64 ",\"hosts\":%" PRId64
        ",\"rate\":%g,\"waiters\":%" PRId64 ",\"names\":%" PRId64 ",\"lease_ms\":%" PRId64
        ",\"load_percent\":%.2f,\"acquire_percent\":%.2f,\"renew_percent\":%.2f,\"wait_percent\":"
        "%.2f,\"masters\":%" PRId64 ",\"memory_bytes\":%" PRId64 ",\"connections\":%" PRId64
        ",\"bytes_per_second\":%" PRId64 ",\"restart_ms\":%" PRId64 "}\n",
        wish->locks, wish->hosts, wish->rate, wish->waiters, wish->names, wish->lease_ms,
        100 * made->load, 100 * made->acquire, 100 * made->renew, 100 * made->wait, made->masters,
        made->memory, made->connections, made->bytes_a_second, made->restart_ms);
}

static void print_servers(const plan *made) {
    if (made->masters == 1)
        printf("  servers      one master, with a replica that takes over (Sentinel)\n");
    else
        printf("  servers      a Cluster of %" PRId64 " masters at most half busy, each with a "
               "replica;\n               each client connects to every master that it needs\n",
               made->masters);
}

void plan_print(const plan_wish *wish, const plan_costs *costs, bool json) {
    plan made = make_plan(wish, costs);
    if (json) {
        print_json(wish, &made);
        return;
    }
    printf("\nPlan: %" PRId64 " locks held at once by %" PRId64 " hosts, %g acquisitions a second, "
           "%" PRId64 " waiters, lease %g s\n",
           wish->locks, wish->hosts, wish->rate, wish->waiters, (double)wish->lease_ms / 1e3);
    printf("  load         %.1f %% of a core: %.1f to acquire and release, %.1f to renew, %.1f for "
           "waiters\n",
           100 * made.load, 100 * made.acquire, 100 * made.renew, 100 * made.wait);
    print_servers(&made);
    printf("  memory       %" PRId64
           " MB, and as much again while the server saves: maxmemory %" PRId64 " MB, "
           "noeviction\n",
           round_up((double)made.memory / 1e6), round_up(2 * (double)made.memory / 1e6));
    printf("  connections  up to %" PRId64 " at each server: maxclients %" PRId64
           ", and as many descriptors (ulimit -n)\n",
           made.connections,
           made.connections * 3 / 2 > DEFAULT_MAXCLIENTS ? made.connections * 3 / 2
                                                         : DEFAULT_MAXCLIENTS);
    printf("  network      %.2f MB a second, both ways\n", (double)made.bytes_a_second / 1e6);
    printf("  restart      all clients hold and wait again about %.1f s after the server is back\n",
           (double)made.restart_ms / 1e3);
    printf("  options      lease=%g, command_timeout=%g", (double)wish->lease_ms / 1e3,
           wish->lease_ms < 6000 ? (double)wish->lease_ms / 3000 : 2.0);
    if (wish->names > 10 * wish->locks)
        printf(", fence_life=3600 (for names that are used once)");
    printf("\n");
    if (made.renew > MOST_LOAD / 2)
        printf("  note         renewals are most of the load: a lease of %.0f s needs a third of "
               "them\n",
               3 * (double)wish->lease_ms / 1e3);
    if (wish->rate > 0 && wish->waiters > wish->hosts * BATCH)
        printf(
            "  note         each host has more than %d waiters: a queue suits that better than a "
            "lock\n",
            BATCH);
}
