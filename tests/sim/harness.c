/*
 * Runs a test program of tests/faults or tests/redis, or a scenario, in the simulation: its
 * threads, processes, proxies and sleeps are simulated, and so is its server. The program is on
 * host 2, the server on host 1. SIM_SEED chooses the history; SIM_SEEDS=N runs that many, one after
 * the other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "servers.h"

int sim_main(int count, char **words); /* the main function of the test program */

/* A scenario may define its own. */
deployment sim_deployment __attribute__((weak)) = ONE_SERVER;

static int words_count, result;
static char **the_words;

static void *run_tests(void *unused) {
    (void)unused;
    result = sim_main(words_count, the_words);
    sim_stop();
    return NULL;
}

static void ends(int number) {
    static const char text[] = "WRONG a thread goes on without end\n";
    (void)number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

static bool run(uint64_t seed) {
    sim_settings settings = {.seed = seed,
                             .overtaken = 0.02,
                             .overtaken_ns = 20 * SIM_US,
                             .wake_ns = 30 * SIM_US,
                             .latency_ns = 100 * SIM_US,
                             .traces = getenv("SIM_TRACE") != NULL};
    sim_begin(&settings);
    servers_begin(sim_deployment, seed);
    result = -1;
    sim_spawn("test", 2, run_tests, NULL);
    sim_play(SIM_NEVER);
    const char *verdict = sim_verdict();
    if (verdict != NULL)
        fprintf(stderr, "seed %llu: WRONG %s\n", (unsigned long long)seed, verdict);
    else if (result != 0)
        fprintf(stderr, "seed %llu: the tests answer %d\n", (unsigned long long)seed, result);
    bool good = verdict == NULL && result == 0;
    fprintf(stderr, "%.1f s of simulated time\n", (double)sim_now() / 1e9);
    sim_end();
    servers_end();
    return good;
}

int main(int count, char **words) {
    const char *seed = getenv("SIM_SEED"), *seeds = getenv("SIM_SEEDS");
    uint64_t first = seed != NULL ? strtoull(seed, NULL, 10) : 1;
    uint64_t last = first + (seeds != NULL ? strtoull(seeds, NULL, 10) : 1);
    bool good = true;
    words_count = count;
    the_words = words;
    sim_when_endless(ends);
    setenv("HOLDFAST_TEST_URL", "redis://10.0.0.1:6379", 1);
    setenv("HOLDFAST_TEST_UNIX_URL", "unix:///sim/redis.sock", 1);
    for (uint64_t at = first; at < last; at++)
        good = run(at) && good;
    return good ? 0 : 1;
}
