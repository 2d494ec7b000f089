/* holdfast bench: check the server's settings for locks, and measure their speed. */
#include "cli.h"
#include "plan.h"
#include "show.h"
#include "times.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char help[] =
    "Usage: holdfast bench [options]\n"
    "\n"
    "Check the server's settings, and measure locks and, for comparison, plain round trips.\n"
    "This loads the server; the names of the locks begin with PREFIX.\n"
    "\n"
    "  -s, --seconds DURATION   how long each of the four measurements takes; default: 2s\n"
    "  -t, --threads NUMBER     how many threads measure at once; default: 1, which shows the\n"
    "                           latency of one call; more show the throughput of the server\n"
    "      --name PREFIX        the prefix of the names of its locks; default: holdfast-bench\n"
    "  -c, --check              check the settings only, without measurements\n"
    "      --plan WISH          also print what servers, memory and options a fleet needs, like\n"
    "                           locks=1000,hosts=20,rate=50 (also waiters, names and lease); with\n"
    "                           8 threads, unless --threads gives another number\n"
    "      --json               one JSON object on each line\n"
    "\n"
    "Exit status: 0 all is well, 1 a problem was found; others: man holdfast.\n";

enum { OPTION_NAME = CLI_OPTION_OWN, OPTION_JSON, OPTION_PLAN };
enum {
    SERVERS_MAX = 1000,
    THREADS_MAX = 256,
    CLIENTS = 2, /* a handoff between two clients passes through the server, as between two hosts */
    LEASE_MS = 10000,
    PATIENCE_MS = 2000, /* each waiter is granted the lock much earlier */
    WORK_NS = 200000,   /* the most for the server and for waking two threads */
    PLAN_THREADS = 8,   /* a plan is made from the throughput of the server */
    QUEUED_MS = 5000    /* a client that receives its grants queues within this time */
};

static int64_t seconds_ms = 2000;
static int threads;
static const char *prefix = "holdfast-bench";
static bool check_only, json, plans;
static plan_wish wish;
static hf_client *clients[CLIENTS];
static bool bad; /* a problem was found */

/* The signal that interrupts the measurements; the threads read it, too. */
static atomic_int interrupted;

static void interrupt(int number) { atomic_store(&interrupted, number); }

static void listen_to_signals(void) {
    static const int numbers[] = {SIGHUP, SIGINT, SIGPIPE, SIGTERM};
    struct sigaction action = {.sa_handler = interrupt};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        /* A signal that the caller ignores stays so; but systemd ignores SIGPIPE for all units. */
        if (numbers[i] == SIGPIPE || !cli_ignores(numbers[i]))
            sigaction(numbers[i], &action, NULL);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---------------------------------------------------------------- Output */

/* Print a title, once, before its first line. */
static void title(const char *text) {
    static const char *last;
    if (!json && last != text)
        printf("\n%s\n", text);
    last = text;
}

static void tell_finding(const hf_finding *one, bool several) {
    bad = bad || one->level == HF_FINDING_WARNING;
    title("Settings");
    bool names = one->level == HF_FINDING_WARNING && strcmp(one->subject, "permissions") == 0 &&
                 strchr(one->text, '~') != NULL;
    if (!json) {
        printf("  %-8s %-12s %s%s%s\n", cli_level(one->level), one->subject,
               several ? one->server : "", several ? ": " : "", one->text);
        if (names)
            printf("%24sFor a user with another key prefix, give that prefix: --name PREFIX\n", "");
        return;
    }
    printf("{\"kind\":\"setting\",\"level\":\"%s\",\"subject\":", cli_level(one->level));
    show_json_string(one->subject);
    printf(",\"server\":");
    show_json_string(one->server);
    printf(",\"text\":");
    show_json_string(one->text);
    printf("}\n");
}

/* Format a time as "63 us" or "12 ms", in at most nine columns. */
static const char *shown(int64_t ns, char to[24]) {
    if (ns < 10000000)
        snprintf(to, 24, "%.0f us", (double)ns / 1e3);
    else
        snprintf(to, 24, "%.0f ms", (double)ns / 1e6);
    return to;
}

/* ---------------------------------------------------------- A measurement */

/* One thread of a measurement, which calls measurement.once() again and again. */
typedef struct worker {
    int number;
    hf_client *client;
    hf_lock *lock;
    hf_hold *hold; /* if the measurement keeps one */
    bench_times times;
    int64_t done;
    char failure[HF_MESSAGE_MAX]; /* the first failure; empty: none */
} worker;

typedef struct measurement {
    const char *name, *what; /* what: the description */
    double expected;         /* in round trips; 0: this is the reference, PING */
    bool one_lock;           /* all threads share a lock */
    bool keeps;              /* each thread holds its lock throughout */
    bool (*once)(worker *, int64_t *ns);
} measurement;

static bool ping(worker *w, int64_t *ns) {
    size_t servers;
    int64_t since = now_ns();
    if (hf_client_ping(w->client, &servers) != HF_OK)
        return false;
    *ns = (now_ns() - since) / (int64_t)(servers > 0 ? servers : 1);
    return true;
}

/* Acquire and release. One try is enough: no other client uses these locks. */
static bool pair(worker *w, int64_t *ns) {
    hf_hold *hold;
    int64_t since = now_ns();
    if (hf_lock_acquire(w->lock, 0, &hold) != HF_OK)
        return false;
    hf_status status = hf_hold_release(hold);
    *ns = now_ns() - since;
    hf_hold_close(hold);
    return status == HF_OK;
}

static _Atomic int64_t released_at; /* written only by the holder */
static _Atomic int released_by;

static bool handoff(worker *w, int64_t *ns) {
    hf_hold *hold;
    hf_status status = hf_lock_acquire(w->lock, PATIENCE_MS, &hold);
    int64_t now = now_ns();
    *ns = 0; /* nothing measured */
    if (status == HF_ETIMEOUT)
        return true;
    if (status != HF_OK)
        return false;
    if (atomic_load(&released_by) != w->number && atomic_load(&released_at) != 0)
        *ns = now - atomic_load(&released_at);
    atomic_store(&released_by, w->number);
    atomic_store(&released_at, now_ns());
    status = hf_hold_release(hold);
    hf_hold_close(hold);
    return status == HF_OK;
}

static bool renewal(worker *w, int64_t *ns) {
    int64_t since = now_ns();
    bool well = hf_hold_renew(w->hold) == HF_OK;
    *ns = now_ns() - since;
    return well;
}

static const measurement measurements[] = {
    {"round-trip", "a PING, for comparison", 0, false, false, ping},
    {"pair", "acquire and release a free lock", 2, false, false, pair},
    {"handoff", "from a holder's release to the next holder's acquire", 1.5, true, false, handoff},
    {"renewal", "renew a lock that is held", 1, false, true, renewal},
};
enum { PAIR = 1, HANDOFF, RENEWAL, MEASUREMENTS }; /* in this order */
_Static_assert(MEASUREMENTS == sizeof measurements / sizeof *measurements, "one for each");

static struct {
    const measurement *of;
    int64_t begins, ends;
} run;

static void *work(void *argument) {
    worker *w = argument;
    int64_t ns, now = now_ns();
    while (now < run.ends && !interrupted) {
        bool well = run.of->once(w, &ns);
        now = now_ns();
        if (!well) {
            snprintf(w->failure, sizeof w->failure, "%s", hf_error_message());
            break;
        }
        if (now < run.begins || ns == 0)
            continue; /* warming up, or nothing measured */
        bench_time(&w->times, ns);
        w->done++;
    }
    return NULL;
}

static bool begin_worker(worker *w, int number) {
    char name[HF_NAME_MAX + 1];
    hf_lock_options options = {
        .size = sizeof options, .lease_ms = LEASE_MS, .reentrant = HF_OFF, .renew = HF_OFF};
    *w = (worker){.number = number + 1, .client = clients[number % CLIENTS]};
    int length = run.of->one_lock
                     ? snprintf(name, sizeof name, "%s:%s", prefix, run.of->name)
                     : snprintf(name, sizeof name, "%s:%s:%d", prefix, run.of->name, number);
    if (run.of->expected > 0 &&
        hf_lock_open(w->client, name, (size_t)length, NULL, 0, &options, &w->lock) != HF_OK)
        return false;
    return !run.of->keeps || hf_lock_acquire(w->lock, 0, &w->hold) == HF_OK;
}

static void end_worker(worker *w) {
    if (w->hold != NULL)
        hf_hold_release(w->hold);
    hf_hold_close(w->hold);
    hf_lock_close(w->lock);
}

/* Print one measurement, as a line or as an object. */
static void tell(const measurement *of, const bench_times *times, double a_second, int64_t trip_ns,
                 const char *failure) {
    char p50[24], p95[24], p99[24], most[24], text[HF_MESSAGE_MAX + 200];
    int64_t half = bench_percentile(times, 50);
    double trips = trip_ns > 0 ? (double)half / (double)trip_ns : 0;
    /* Near the server its work outweighs the network, and it serves one command at a time. */
    bool slow = of->expected > 0 && half > 1.5 * of->expected * (double)trip_ns + threads * WORK_NS;
    if (failure != NULL)
        snprintf(text, sizeof text, "failed: %s", failure);
    else if (of->expected == 0)
        snprintf(text, sizeof text, "%s", of->what);
    else
        snprintf(text, sizeof text, "%s: %.1f round trips; expected: %g and the server's work%s",
                 of->what, trips, of->expected,
                 slow ? ". This is slow: is the server, or this machine, short of CPU?" : "");
    int level = failure != NULL ? HF_FINDING_WARNING : slow ? HF_FINDING_NOTE : HF_FINDING_GOOD;
    bad = bad || failure != NULL;
    if (!json) {
        title("Measurements               p50       p95       p99       max    a second");
        printf("  %-8s %-10s %9s %9s %9s %9s %11.0f\n           %s\n", cli_level(level), of->name,
               shown(half, p50), shown(bench_percentile(times, 95), p95),
               shown(bench_percentile(times, 99), p99), shown(times->most, most), a_second, text);
        return;
    }
    printf("{\"kind\":\"measurement\",\"level\":\"%s\",\"name\":\"%s\",\"threads\":%d,\"count\":"
           "%" PRId64
           ",\"per_second\":%.1f,\"p50_us\":%.1f,\"p95_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,",
           cli_level(level), of->name, threads, times->count, a_second, (double)half / 1e3,
           (double)bench_percentile(times, 95) / 1e3, (double)bench_percentile(times, 99) / 1e3,
           (double)times->most / 1e3);
    if (of->expected > 0)
        printf("\"round_trips\":%.2f,\"expected_round_trips\":%g,", trips, of->expected);
    printf("\"text\":");
    show_json_string(text);
    printf("}\n");
}

/* Run a measurement, print it, and return the median of its times; 0: it failed. *trip_ns: the
 * median of PING, set by its measurement. */
static int64_t measure(const measurement *of, int64_t *trip_ns) {
    static worker workers[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    static bench_times all;
    const char *failure = NULL;
    int64_t done = 0;
    int began = 0, count = of->one_lock && threads < 2 ? 2 : threads, running = 0;
    all = (bench_times){0};
    atomic_store(&released_at, 0);
    run.of = of;
    for (; began < count && failure == NULL; began++) /* a failed worker is ended, too */
        if (!begin_worker(&workers[began], began))
            failure = hf_error_message();
    run.begins = now_ns() + seconds_ms * 100000; /* a tenth to warm up */
    run.ends = run.begins + seconds_ms * 1000000;
    while (failure == NULL && running < count)
        if (pthread_create(&ids[running], NULL, work, &workers[running]) == 0)
            running++;
        else
            failure = "cannot start a thread";
    for (int i = 0; i < running; i++)
        pthread_join(ids[i], NULL);
    double seconds = (double)(now_ns() - run.begins) / 1e9;
    int64_t half = 0;
    for (int i = 0; i < running; i++) {
        bench_times_add(&all, &workers[i].times);
        done += workers[i].done;
        if (failure == NULL && *workers[i].failure != '\0')
            failure = workers[i].failure;
    }
    if (!interrupted) {
        if (of->expected == 0)
            *trip_ns = bench_percentile(&all, 50);
        if (failure == NULL && all.count == 0)
            failure = "no call finished in time: increase --seconds";
        tell(of, &all, seconds > 0 ? (double)done / seconds : 0, *trip_ns, failure);
        half = failure == NULL ? bench_percentile(&all, 50) : 0;
    }
    for (int i = 0; i < began; i++)
        end_worker(&workers[i]);
    return half;
}

/* --------------------------------------------------------------- Settings */

static hf_status look_at_settings(void) {
    static hf_finding found[HF_FINDINGS_MAX], next[HF_FINDINGS_MAX];
    size_t count, following;
    char name[HF_NAME_MAX + 1];
    int length = snprintf(name, sizeof name, "%s:pair:0", prefix);
    hf_status status =
        hf_client_survey(clients[0], 0, name, (size_t)length, found, HF_FINDINGS_MAX, &count);
    for (size_t server = 1; status == HF_OK && count > 0 && server < SERVERS_MAX; server++) {
        status = hf_client_survey(clients[0], server, name, (size_t)length, next, HF_FINDINGS_MAX,
                                  &following);
        for (size_t i = 0; i < count; i++)
            tell_finding(&found[i], server > 1 || following > 0);
        memcpy(found, next, sizeof found);
        count = following;
    }
    return status;
}

/* Hold the lock by one client until the other client is in its queue, for at most QUEUED_MS; then
 * release it. */
static hf_status watch_queue(hf_lock *const locks[2], bool *queued) {
    hf_hold *hold;
    hf_completion next = {.size = sizeof next};
    hf_lock_info info = {.size = sizeof info};
    hf_status status = hf_lock_acquire(locks[0], 0, &hold);
    if (status != HF_OK)
        return status;
    status = hf_lock_acquire_start(locks[1], NULL, 0, QUEUED_MS + LEASE_MS, NULL, 1);
    bool waits = status == HF_OK;
    int64_t until = now_ns() + (int64_t)QUEUED_MS * 1000000;
    while (status == HF_OK && info.waiters == 0 && now_ns() < until && !interrupted) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        status = hf_lock_inspect(locks[0], 0, &info, NULL);
    }
    *queued = info.waiters > 0;
    hf_status released = hf_hold_release(hold);
    hf_hold_close(hold);
    struct pollfd told = {.fd = hf_client_fd(clients[1]), .events = POLLIN};
    while (waits && hf_client_next(clients[1], &next) == HF_OK && next.kind != HF_KIND_ACQUIRE)
        poll(&told, 1, 100);
    if (next.hold != NULL)
        hf_hold_release(next.hold);
    hf_hold_close(next.hold);
    return status == HF_OK ? released : status;
}

/* Check whether a waiter receives its grants or polls: only a waiter that receives them is in the
 * queue. */
static void look_at_queue(void) {
    char name[HF_NAME_MAX + 1];
    hf_lock *locks[CLIENTS] = {NULL};
    hf_lock_options options = {
        .size = sizeof options, .lease_ms = LEASE_MS, .renew = HF_ON, .reentrant = HF_OFF};
    hf_finding finding = {.level = HF_FINDING_WARNING, .subject = "queue"};
    int length = snprintf(name, sizeof name, "%s:queue", prefix);
    hf_status status = HF_OK;
    bool queued = false;
    for (int i = 0; i < CLIENTS && status == HF_OK; i++)
        status = hf_lock_open(clients[i], name, (size_t)length, NULL, 0, &options, &locks[i]);
    if (status == HF_OK)
        status = watch_queue(locks, &queued);
    if (status == HF_EBUSY)
        snprintf(finding.text, sizeof finding.text,
                 "another client holds the lock %.200s: is a bench running? Use a different --name",
                 name);
    else if (status != HF_OK)
        snprintf(finding.text, sizeof finding.text, "%s", hf_error_message());
    else if (!queued)
        snprintf(finding.text, sizeof finding.text,
                 "pub/sub does not reach this client: waiters poll, and acquire the lock in no "
                 "order; see docs/connecting.md for the permissions, or connect without a proxy");
    else {
        finding.level = HF_FINDING_GOOD;
        snprintf(finding.text, sizeof finding.text, "waiters are notified of their grants");
    }
    if (!interrupted)
        tell_finding(&finding, false);
    for (int i = 0; i < CLIENTS; i++)
        hf_lock_close(locks[i]);
}

/* ------------------------------------------------------------ The command */

static void read_options(int argc, char **argv) {
    static const struct option options[] = {{"seconds", required_argument, NULL, 's'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"name", required_argument, NULL, OPTION_NAME},
                                            {"plan", required_argument, NULL, OPTION_PLAN},
                                            {"check", no_argument, NULL, 'c'},
                                            {"json", no_argument, NULL, OPTION_JSON},
                                            CLI_COMMON_OPTIONS};
    for (int option; (option = cli_option(argc, argv, "s:t:c", options)) != -1;) {
        if (option == 's')
            seconds_ms = cli_duration("--seconds", optarg);
        if (option == 't')
            threads = (int)cli_number("--threads", optarg, 1, THREADS_MAX);
        if (option == OPTION_NAME)
            prefix = optarg;
        if (option == OPTION_PLAN) {
            wish = plan_read(optarg);
            plans = true;
        }
        check_only = check_only || option == 'c';
        json = json || option == OPTION_JSON;
    }
    if (optind < argc)
        cli_usage("bench takes no arguments: '%s'", argv[optind]);
    if (plans && check_only)
        cli_usage("--plan needs the measurements, which --check leaves out");
    if (threads == 0)
        threads = plans ? PLAN_THREADS : 1;
    if (seconds_ms < 100 || seconds_ms > 3600000)
        cli_usage("--seconds takes 100ms to 1h");
    if (*prefix == '\0' || strlen(prefix) > HF_NAME_MAX - 32)
        cli_usage("--name takes 1 to %d bytes", HF_NAME_MAX - 32);
}

/* Announce the load before it begins, on stderr: stdout may be JSON. */
static void announce(void) {
    if (check_only)
        return;
    double seconds = (double)seconds_ms * 1.1 / 1e3 * MEASUREMENTS + 1;
    fprintf(
        stderr,
        "holdfast: measuring for about %.0f s with %d thread%s at full speed, which loads the "
        "server.\n"
        "holdfast: This uses only the locks %s:..., and releases them, even after Ctrl-C.\n"
        "holdfast: Their keys expire within a second, except for a few small keys of %s:handoff,\n"
        "holdfast: which may stay for ten minutes, and one of them for a day.\n",
        seconds, threads, threads == 1 ? "" : "s", prefix, prefix);
}

static int bench(int argc, char **argv) {
    read_options(argc, argv);
    hf_client_options options = {.size = sizeof options, .client_name = "holdfast-bench"};
    if (!cli_is_quorum())             /* whose fences outlive its quarantine */
        options.fence_life_ms = 1000; /* the minimum: the keys expire soon */
    int status = CLI_OK;
    for (int i = 0; i < CLIENTS && status == CLI_OK; i++)
        status = cli_open(&options, &clients[i]);
    if (status == CLI_OK) {
        listen_to_signals();
        announce();
        hf_status looked = look_at_settings();
        if (looked != HF_OK)
            status = cli_failed(looked);
    }
    int64_t trip_ns = 0;
    if (status == CLI_OK && !check_only && !interrupted)
        look_at_queue();
    int64_t half[MEASUREMENTS] = {0};
    for (int i = 0; status == CLI_OK && !check_only && i < MEASUREMENTS && !interrupted; i++) {
        half[i] = measure(&measurements[i], &trip_ns);
        fflush(stdout);
    }
    if (plans && half[PAIR] > 0 && half[HANDOFF] > 0 && half[RENEWAL] > 0) {
        /* Use the medians: a moment in which the machine was suspended does not count. Handoffs are
         * made one after the other. */
        plan_costs costs = {(double)half[PAIR] / threads / 1e9, (double)half[HANDOFF] / 1e9,
                            (double)half[RENEWAL] / threads / 1e9};
        plan_print(&wish, &costs, json);
    }
    for (int i = 0; i < CLIENTS; i++)
        hf_client_close(clients[i]);
    if (interrupted)
        return CLI_SIGNAL + interrupted;
    return status != CLI_OK ? status : bad ? CLI_NO : CLI_OK;
}

const cli_command cli_bench = {
    "bench", "check the server's settings for locks, and measure their speed", help, bench};
