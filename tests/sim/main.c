/*
 * sim [--seeds A-B] [--step N] [--seconds N] [--swarm NAME] [--keep-going] [--shrink] [--marks]
 * [SEED]: runs histories of the real core, each from one seed, and ends at the first red one unless
 * --keep-going is given. For a single SEED it prints a trace; with --shrink, without the faults and
 * features that the seed does not need to be red. With --marks it prints at the end which defences
 * were met, and how often.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "judge.h"
#include "marks.h"
#include "servers.h"
#include "store.h"
#include "swarm.h"
#include "workload.h"

static struct {
    uint64_t seeds, wrong, events;
    double virtual_s;
} sum;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static unsigned long long running;

static void ends(int number) {
    static char text[100];
    int length = snprintf(text, sizeof text, "seed %llu: WRONG %s\n", running,
                          number == SIGVTALRM || number == SIGPROF ? "a thread goes on without end"
                                                                   : "a crash");
    (void)!write(STDOUT_FILENO, text, (size_t)length);
    _exit(1);
}

/* Use a stack of its own: a simulated thread's stack may be the fault. */
static void catch_signals(void) {
    static char stack[65536];
    const int signals[] = {SIGVTALRM, SIGSEGV, SIGBUS, SIGABRT, SIGFPE};
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &(struct sigaction){.sa_handler = ends, .sa_flags = SA_ONSTACK},
                  NULL);
    sim_when_endless(ends);
}

/* Run one history; return its verdict, or NULL if nothing was wrong. */
static const char *run(const swarm *drawn, bool traces) {
    static char verdict[1000];
    swarm s = *drawn;
    s.settings.traces = traces;
    if (traces)
        swarm_tell(&s);
    running = s.seed;
    /* CPU time of this program: on a busy machine no history looks endless. */
    setitimer(ITIMER_VIRTUAL, &(struct itimerval){.it_value.tv_sec = 120}, NULL);
    sim_begin(&s.settings);
    work = s.work;
    servers_begin(s.deployment, s.seed);
    judge_begin();
    swarm_begin(&s);
    sim_play(SIM_NEVER);
    bool wrong = sim_verdict() != NULL;
    if (wrong)
        snprintf(verdict, sizeof verdict, "%s", sim_verdict());
    sum.events += sim_events();
    sum.virtual_s += (double)sim_now() / 1e9;
    judge_end();
    sim_end();
    servers_end();
    return wrong ? verdict : NULL;
}

/* Leave out all that the history does not need to be red. */
static void shrink(swarm *drawn) {
    for (int part = 0; part < swarm_parts(); part++) {
        swarm less = *drawn;
        if (swarm_leave_out(&less, part) && run(&less, false) != NULL)
            *drawn = less;
    }
}

static bool run_seed(uint64_t seed, const char *only, bool traces, bool shrinks) {
    swarm drawn = swarm_draw(seed, only);
    if (shrinks)
        shrink(&drawn);
    const char *verdict = run(&drawn, traces);
    sum.seeds++;
    sum.wrong += verdict != NULL;
    if (verdict != NULL)
        printf("seed %llu%s%s: WRONG %s\n", (unsigned long long)seed,
               only != NULL ? " of swarm " : "", only != NULL ? only : "", verdict);
    else if (traces)
        printf("seed %llu: good, hash %016llx\n", (unsigned long long)seed,
               (unsigned long long)sim_history());
    fflush(stdout);
    return verdict == NULL;
}

static void usage(void) {
    fputs("usage: sim [--seeds A-B] [--step N] [--seconds N] [--swarm NAME] [--keep-going] "
          "[--shrink] [--marks] [SEED]\n",
          stderr);
    exit(2);
}

int main(int count, char **words) {
    static const struct option options[] = {
        {"seeds", required_argument, NULL, 's'}, {"seconds", required_argument, NULL, 't'},
        {"step", required_argument, NULL, 'p'},  {"swarm", required_argument, NULL, 'w'},
        {"keep-going", no_argument, NULL, 'k'},  {"shrink", no_argument, NULL, 'h'},
        {"marks", no_argument, NULL, 'm'},       {NULL, 0, NULL, 0}};
    unsigned long long first = 1, last = UINT64_MAX, stride = 1;
    const char *only = NULL;
    double limit = 0;
    bool keep_going = false, traces = false, shrinks = false, marks = false;
    for (int option; (option = getopt_long(count, words, "", options, NULL)) != -1;)
        switch (option) {
        case 's':
            if (sscanf(optarg, "%llu-%llu", &first, &last) < 1)
                usage();
            break;
        case 't':
            limit = atof(optarg);
            break;
        case 'p':
            stride = strtoull(optarg, NULL, 10);
            break;
        case 'h':
            shrinks = true;
            break;
        case 'w':
            only = optarg;
            break;
        case 'm':
            marks = true;
            break;
        case 'k':
            keep_going = true;
            break;
        default:
            usage();
        }
    if (optind < count) {
        first = last = strtoull(words[optind], NULL, 10);
        traces = true;
    }
    catch_signals();
    double began = seconds();
    for (unsigned long long seed = first; seed <= last; seed += stride) {
        if (!run_seed(seed, only, traces, shrinks) && !keep_going)
            break;
        if (limit > 0 && seconds() - began > limit)
            break;
    }
    double took = seconds() - began;
    printf("%llu seeds in %.1f s (%.0f a minute), %.2f virtual hours (%.0f times real time), "
           "%llu acquisitions (%.0f a second), %llu promises checked, %llu wrong\n",
           (unsigned long long)sum.seeds, took, (double)sum.seeds * 60 / took, sum.virtual_s / 3600,
           sum.virtual_s / took, (unsigned long long)judge_acquired, (double)judge_acquired / took,
           (unsigned long long)judge_checked, (unsigned long long)sum.wrong);
    if (marks)
        marks_tell();
    return sum.wrong > 0 ? 1 : 0;
}
