#include "swarm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "rules.h"
#include "servers.h"
#include "store.h"

enum { PROCESSES = 8, SPAWNED_MAX = 200 };

static const char *const fault_names[FAULTS] = {
    "cut",    "deaden",  "one-way",  "apart",   "stall",   "refuse", "restart", "empty",
    "forget", "pause",   "kill",     "power",   "signal",  "step",   "delete",  "full",
    "deaf",   "unheard", "nameless", "promote", "foreign", "scarce",
};

static const char *const deployment_names[DEPLOYMENTS] = {"one", "sentinels", "cluster", "three",
                                                          "five"};

static swarm now_drawn;
static sim_process *processes[PROCESSES];
static bool over; /* no more faults */
static int spawned;
static int64_t stepped_back; /* leases end later by this */

workload work;

/* ---------------------------------------------------------------- Drawing */

static uint64_t drawing;
static uint64_t draw(uint64_t below) {
    /* A generator apart from the world's: another draw here does not change the history. */
    drawing += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = drawing;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}
static bool maybe(int percent) { return draw(100) < (uint64_t)percent; }
static int64_t span(int64_t low, int64_t high) {
    int doublings = 0;
    for (int64_t at = low; at < high; at *= 2)
        doublings++;
    int64_t top = low << draw((uint64_t)doublings + 1);
    top = top < high ? top : high;
    return low + (int64_t)draw((uint64_t)(top - low) + 1);
}
/* Return 0 in half of the seeds, a small or large share in the others. */
static double share(double most) {
    return maybe(50) ? 0 : most * (double)(1 + draw(100)) / 100 * (maybe(50) ? 1 : 0.1);
}

static void draw_world(swarm *s) {
    s->settings = (sim_settings){
        .seed = s->seed,
        .overtaken = share(0.5),
        .overtaken_ns = span(SIM_US, 200 * SIM_US),
        .stunned = maybe(30) ? 0.001 * (double)draw(10) : 0,
        .stunned_ns = span(SIM_MS, 500 * SIM_MS),
        .wake_ns = span(SIM_US, 200 * SIM_US),
        .spurious = share(0.1),
        .latency_ns = span(50 * SIM_US, 50 * SIM_MS),
        .jitter_ns = span(SIM_US, 5 * SIM_MS),
        .slow = share(0.05),
        .slow_ns = span(SIM_MS, 3 * SIM_S),
        .pieces = share(0.5),
        .unusual = maybe(50),
    };
    if (s->memory)
        s->settings.no_memory = 0.002 * (double)draw(20);
}

static void draw_work(swarm *s) {
    workload *w = &s->work;
    *w = (workload){.url = servers_url(s->deployment),
                    .keys = 1 + (int)draw(KEYS_MAX),
                    .threads = 1 + (int)draw(6),
                    .connect_ms = maybe(60) ? 2000 : span(100, 5000),
                    .command_ms = maybe(60) ? 2000 : span(100, 5000),
                    .shortest_ms = maybe(70) ? span(100, 3000) : 10,
                    .longest_ms = span(3000, 30000),
                    .think_ms = (int)span(1, 300),
                    .endless = maybe(15),
                    .starts = maybe(60),
                    .cancels = maybe(40),
                    .interrupts = maybe(30),
                    .lazy = maybe(20),
                    .counts = maybe(20),
                    .heals = maybe(30),
                    .shared = share(0.7),
                    .permits = maybe(50) ? 0 : 1 + (int)draw(3),
                    .owned = share(0.2),
                    .nested = maybe(50) ? 0 : 0.5,
                    .tries = share(0.6),
                    .forever = share(0.5),
                    .renewed = (double)draw(101) / 100,
                    .max_hold = share(0.1),
                    .closes = share(0.5),
                    .abandons = maybe(20) ? 0.5 : 0,
                    .replicated = s->deployment == SENTINELS ? share(0.3) : 0,
                    .until = span(2 * SIM_S, 60 * SIM_S)};
    /* A lease shorter than a round trip to the server is never held. */
    int64_t trip_ms = 2 * (s->settings.latency_ns + s->settings.jitter_ns) / SIM_MS + 1;
    if (w->shortest_ms < 4 * trip_ms)
        w->shortest_ms = 4 * trip_ms;
    /* A shorter lease ends while a connection is opened again: when it is renewed, two thirds of it
     * are left for the look-up of a name, and three round trips. */
    w->renewable_ms = 3 * (SIM_NAME_MS + 3 * trip_ms) / 2 + 10;
    /* To connect and log in takes two round trips. */
    if (w->connect_ms < 4 * trip_ms)
        w->connect_ms = 4 * trip_ms;
    int *weights = &w->weights.acquire;
    for (int *each = weights; each < &w->weights.limit; each++)
        *each = maybe(50) ? (int)draw(10) : 0;
    w->weights.acquire = 20;
    w->weights.release = 10 + (int)draw(20);
    for (int *rare = &w->weights.walk; rare < &w->weights.split; rare++)
        *rare = maybe(50) ? 1 : 0; /* they take much time */
    w->weights.break_ = maybe(10) ? 1 : 0;
    w->weights.split = maybe(10) ? 1 : 0;
}

static void draw_faults(swarm *s) {
    s->fault_every_ns = maybe(20) ? 0 : span(20 * SIM_MS, 10 * SIM_S);
    s->longest_ns = span(10 * SIM_MS, 30 * SIM_S);
    for (int i = 0; i < SCARCE; i++)
        s->weights[i] = maybe(35) ? 1 + (int)draw(10) : 0;
    /* Faults and features that leave locks for ever are only for locks whose holds end. */
    if (s->work.endless)
        s->weights[KILL] = s->weights[POWER] = s->weights[PAUSE] = s->work.abandons = 0;
    s->drift_ppm = maybe(50) ? 0 : (int)draw(400);
}

/* Draw programs that store limits with the locks, and change them while they are in use. */
static void store_limits(workload *w) {
    w->weights.limit = 1 + (int)draw(5);
    w->shared = w->shared > 0 ? w->shared : 0.6;
}

/* Draw three or five independent masters, and programs that use only what they support. */
static void make_independent(swarm *s, deployment what) {
    workload *w = &s->work;
    s->deployment = what;
    w->endless = w->heals = false;
    w->shared = w->replicated = 0;
    w->permits = w->weights.once = w->weights.hand = w->weights.limit = 0;
    w->until += 30 * SIM_S;
    /* Leases must not be longer than the quarantine, which is 10 s by default. */
    servers_quarantine_s = w->longest_ms > 10000 ? (int)(w->longest_ms + 999) / 1000 : 10;
    w->url = servers_url(what);
}

swarm swarm_draw(uint64_t seed, const char *only) {
    swarm s = {.seed = seed};
    drawing = seed * 2 + 1;
    s.hosts = 1 + (int)draw(3);
    s.processes = 1 + (int)draw(PROCESSES - 2);
    s.memory = maybe(10);
    deployment first = s.deployment = maybe(60) ? ONE_SERVER : maybe(50) ? SENTINELS : CLUSTER;
    draw_world(&s);
    draw_work(&s);
    draw_faults(&s);
    s.work.ahead = share(0.5);
    if (maybe(25) || (only != NULL && strcmp(only, "limits") == 0))
        store_limits(&s.work);
    s.weights[SCARCE] = maybe(20) ? 1 + (int)draw(10) : 0;
    if (only == NULL && seed % 6 == 0)
        make_independent(&s, seed % 12 == 0 ? MASTERS : FIVE_MASTERS);
    for (int i = 0; only != NULL && i < DEPLOYMENTS; i++)
        if (strcmp(only, deployment_names[i]) == 0) {
            s.deployment = (deployment)i;
            s.work.url = servers_url(s.deployment);
            if (i >= MASTERS)
                make_independent(&s, (deployment)i);
        }
    if (only != NULL && strcmp(only, "calm") == 0)
        s.fault_every_ns = 0;
    if (s.deployment != SENTINELS)
        s.work.replicated = 0;
    else if (first != SENTINELS)
        s.work.replicated = share(0.3);
    if (s.work.endless && s.deployment <= SENTINELS)
        s.weights[PROMOTE] = 0; /* it may lose a release */
    return s;
}

void swarm_tell(const swarm *s) {
    fprintf(stderr,
            "seed %llu (%s): %d processes on %d hosts, %d threads, %d keys, %.1f s; leases %lld to "
            "%lld "
            "ms; timeouts %lld, %lld ms\n",
            (unsigned long long)s->seed, deployment_names[s->deployment], s->processes, s->hosts,
            s->work.threads, s->work.keys, (double)s->work.until / 1e9,
            (long long)s->work.shortest_ms, (long long)s->work.longest_ms,
            (long long)s->work.connect_ms, (long long)s->work.command_ms);
    fprintf(stderr, "faults every %.3f s:", (double)s->fault_every_ns / 1e9);
    for (int i = 0; i < FAULTS && s->fault_every_ns > 0; i++)
        if (s->weights[i] > 0)
            fprintf(stderr, " %s %d", fault_names[i], s->weights[i]);
    fprintf(stderr, "\n");
}

/* ----------------------------------------------------------------- Faults */

static int client_host(void) { return 2 + (int)sim_random((uint64_t)now_drawn.hosts); }
static int64_t duration(void) { return sim_span(SIM_MS, now_drawn.longest_ns); }

static void way_opens(void *way) {
    sim_way((int)(intptr_t)way / 64, (int)(intptr_t)way % 64, true);
}
static void shut_way(int from, int to, int64_t ns) {
    sim_way(from, to, false);
    sim_at(sim_now() + ns, way_opens, (void *)(intptr_t)(from * 64 + to));
}
static void server_goes_on(void *which) {
    sim_server_pause(servers_at((int)(intptr_t)which), false);
}
static void refuses_no_more(void *which) {
    servers_refuse((int)(intptr_t)which, SIM_EVERYTHING, NULL, 0);
}
static void has_room(void *which) { servers_limit((int)(intptr_t)which, 0); }
static void may_listen(void *which) {
    servers_command((int)(intptr_t)which, "ACL SETUSER default &*");
}
static void finds_names(void *unused) {
    (void)unused;
    sim_names(true);
}

static const char *const keys[KEYS_MAX] = {"a", "b", "{t}c", "d", "e", "{t}f"};

static const char *work_key(void) { return keys[sim_random((uint64_t)work.keys)]; }

static int any_process(void) { return (int)sim_random((uint64_t)now_drawn.processes); }

static void goes_on(void *process) { sim_resume(process); }

static void may_grow(void *process) { sim_may_grow(process, true); }

static void spawn(int which) {
    char name[16];
    snprintf(name, sizeof name, "p%d.%d", which, spawned++);
    processes[which] = sim_spawn(name, client_host(), workload_process, NULL);
    if (now_drawn.drift_ppm > 0)
        sim_drift(processes[which],
                  (int)sim_random(2 * (uint64_t)now_drawn.drift_ppm) - now_drawn.drift_ppm);
    sim_may_lack_memory(processes[which], now_drawn.memory);
}

static void refuse(int server) {
    static const struct {
        sim_refusal what;
        const char *error;
    } refusals[] = {
        {SIM_LOADING, NULL},
        {SIM_BUSY, NULL},
        {SIM_WRITES, NULL},
        {SIM_WRITES, "READONLY You can't write against a read only replica."},
        {SIM_GROWTH, NULL},
        {SIM_SCRIPTS, "NOPERM this user has no permissions to run the 'evalsha' command"},
        {SIM_EVERYTHING, "ERR something is wrong"},
        {SIM_LOADING, "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set "
                      "to 'no'."},
    };
    size_t chosen = sim_random(sizeof refusals / sizeof *refusals);
    servers_refuse(server, refusals[chosen].what, refusals[chosen].error,
                   sim_chance(0.5) ? -1 : 1 + (int64_t)sim_random(3));
    int64_t ns = duration();
    if (refusals[chosen].what == SIM_SCRIPTS)
        rules_forbid(ns);
    sim_at(sim_now() + ns, refuses_no_more, (void *)(intptr_t)server);
}

/* Delete a lock's key, as an operator does. */
static void delete (const char *key) {
    char words[80];
    bool independent = servers_independent();
    if (independent)
        judge_jumps(key);
    else
        judge_excuse(key);
    store_delete(key);
    snprintf(words, sizeof words, "DEL %s", key);
    for (int i = 0; i < servers_count(); i++)
        if (!independent || over || sim_chance(0.4))
            servers_command(i, words);
    if (independent)
        judge_jumped(key);
}

/* Take a lock, as another library does. Locks with `heal` give a lock without an end one. */
static void take(const char *key) {
    char words[80];
    int length = snprintf(words, sizeof words, "SET %s other NX", key);
    if (!work.heals || sim_chance(0.5))
        snprintf(words + length, sizeof words - (size_t)length, " PX %d", (int)sim_span(10, 3000));
    rules_take(key);
    for (int i = 0; i < servers_count(); i++)
        if (!servers_independent() || sim_chance(0.5))
            servers_command(i, words);
}

/* Separate some of the masters from some of the programs' hosts. */
static void part(int64_t ns) {
    for (int i = 0; i < servers_count(); i++)
        for (int host = 2; host < 2 + now_drawn.hosts; host++)
            if (sim_chance(0.5)) {
                shut_way(servers_host(i), host, ns);
                shut_way(host, servers_host(i), ns);
            }
}

/* Step one master's clock. In a quarter of the seeds clocks differ by more than a quarantine. */
static void step_one(int server) {
    int64_t most = now_drawn.seed / 12 % 4 == 0 ? 300 * SIM_S : servers_quarantine_s * SIM_S / 3;
    int64_t clock = (sim_chance(0.5) ? -1 : 1) * sim_span(SIM_MS, most);
    if (servers_is_young(server)) /* a client that has not met it may take it for old */
        return;
    judge_jumps(NULL);
    judge_steps(server);
    servers_set_clock(server, clock);
    stepped_back = servers_spread();
    rules_step(true);
    judge_jumped(NULL);
    sim_trace("the clock of server %d is %.3f s off", servers_host(server), (double)clock / 1e9);
}

/* Excuse what a server loses that returns with older data; no such fault happens in a kind world.
 */
static void loses_some(void *unused) {
    (void)unused;
    if (over)
        return;
    judge_excuse(NULL);
    rules_lose(NULL, work.longest_ms * SIM_MS); /* holds that come back end with their leases */
}

static void cause(fault what) {
    int host = client_host(), which = any_process(), server = servers_any();
    int server_host = servers_host(server);
    void *it = (void *)(intptr_t)server;
    sim_process *process = processes[which];
    sim_trace("fault: %s", fault_names[what]);
    /* Replicas receive nothing from other servers, or programs do not reach a sentinel. */
    if (now_drawn.deployment == SENTINELS && sim_chance(0.2))
        host = servers_host(servers_any());
    else if (now_drawn.deployment == SENTINELS && sim_chance(0.2))
        server_host = SENTINEL_HOSTS + (int)sim_random(3);
    switch (what) {
    case CUT:
        sim_cut(server_host, host, sim_chance(0.5) ? 1 : 0.3);
        break;
    case DEADEN:
        sim_deaden(server_host, host, sim_chance(0.3) ? 1 : 0.3);
        break;
    case ONE_WAY:
        if (sim_chance(0.5))
            shut_way(server_host, host, duration());
        else
            shut_way(host, server_host, duration());
        break;
    case APART: {
        int64_t ns = duration();
        if (servers_independent()) {
            part(ns);
            break;
        }
        shut_way(server_host, host, ns);
        shut_way(host, server_host, ns);
        break;
    }
    case STALL:
        sim_server_pause(servers_at(server), true);
        sim_at(sim_now() + duration(), server_goes_on, it);
        break;
    case REFUSE:
        refuse(server);
        break;
    case RESTART:
        servers_restart(server, true, duration());
        break;
    case EMPTY:
        if (servers_independent())
            rules_lose(NULL, 0);
        for (int i = 0; i < KEYS_MAX && !servers_independent(); i++)
            if (servers_serves(server, keys[i])) { /* neither a replica nor another node */
                judge_excuse(keys[i]);
                rules_lose(keys[i], 0);
            }
        if (!servers_is_master(server))
            rules_empty_replica();
        servers_restart(server, false, duration());
        break;
    case FORGET:
        servers_command(server, "SCRIPT FLUSH");
        break;
    case PAUSE:
        sim_pause(process);
        sim_at(sim_now() + 3 * duration(), goes_on, process);
        break;
    case KILL:
    case POWER:
        if (sim_alive(process) && spawned < SPAWNED_MAX) {
            judge_leave(process);
            sim_kill(process, what == POWER);
            spawn(which);
        }
        break;
    case SIGNAL:
        sim_interrupt(process);
        break;
    case STEP: {
        if (servers_independent()) {
            step_one(server);
            break;
        }
        int64_t step = (sim_chance(0.5) ? -1 : 1) * sim_span(SIM_MS, 60 * SIM_S);
        rules_step(step < 0);
        judge_excuse(NULL);
        stepped_back += step < 0 ? -step : 0;
        for (int i = 0; i < servers_count(); i++) /* servers agree, as real ones do */
            sim_server_step(servers_at(i), step);
        break;
    }
    case FOREIGN:
        take(work_key());
        break;
    case DELETE:
        delete (work_key());
        break;
    case FULL:
        servers_limit(server, 1 + (int)sim_random(5));
        sim_at(sim_now() + duration(), has_room, it);
        break;
    case DEAF:
        servers_command(server, "ACL SETUSER default resetchannels");
        sim_at(sim_now() + duration(), may_listen, it);
        break;
    case UNHEARD:
        servers_command(server, "CLIENT KILL TYPE pubsub");
        break;
    case SCARCE:
        sim_may_grow(process, false);
        sim_at(sim_now() + duration(), may_grow, process);
        break;
    case PROMOTE:
        if (servers_independent() || now_drawn.deployment == ONE_SERVER) {
            int64_t down_ns = duration(), later_ns = duration();
            if (servers_independent())
                rules_lose(NULL, 0);
            else
                sim_at(sim_now() + later_ns, loses_some, NULL); /* just before it returns */
            rules_return(later_ns + down_ns);
            servers_restore(server, later_ns, down_ns);
        } else if (now_drawn.deployment == SENTINELS) {
            judge_excuse_for(10 * SIM_S); /* the former master answers until it learns of it */
            rules_lose(NULL, work.longest_ms * SIM_MS); /* a late replica has what had ended */
            servers_fail_over(sim_chance(0.5));
        } else {
            servers_move_slot(work_key());
        }
        break;
    default:
        sim_names(false);
        sim_at(sim_now() + duration(), finds_names, NULL);
    }
}

static void next_fault(void *unused) {
    (void)unused;
    if (over)
        return;
    int total = 0, what = 0;
    for (int i = 0; i < FAULTS; i++)
        total += now_drawn.weights[i];
    if (total == 0)
        return;
    int chosen = (int)sim_random((uint64_t)total);
    for (; chosen >= now_drawn.weights[what]; what++)
        chosen -= now_drawn.weights[what];
    cause((fault)what);
    sim_at(sim_now() + sim_span(SIM_MS, 2 * now_drawn.fault_every_ns), next_fault, NULL);
}

/* ------------------------------------------------------------- Two phases */

static void quiet(void *unused) {
    (void)unused;
    judge_quiet();
    sim_stop();
}

/* Wait, after all programs have ended, until what may stay for a while is gone; then check that
 * nothing is left. */
static void wait_for_end(void *unused) {
    (void)unused;
    for (int i = 0; i < now_drawn.processes; i++)
        if (sim_alive(processes[i])) {
            /* Holds of a dead process end by themselves, later if the clock has stepped back. */
            if (sim_now() > work.until + 600 * SIM_S + stepped_back) {
                sim_tell_threads(processes[i]);
                for (int k = 0; k < work.keys; k++)
                    sim_trace("%s: %s", keys[k], store_tell(keys[k]));
                sim_wrong("process %s does not end", sim_name(processes[i]));
            }
            sim_at(sim_now() + SIM_S, wait_for_end, NULL);
            return;
        }
    sim_at(sim_now() + 60 * SIM_S + work.longest_ms * SIM_MS + stepped_back, quiet, NULL);
}

/* End the faults: from now on the world is kind. */
static void heal(void *unused) {
    (void)unused;
    over = true;
    sim_trace("the world is kind from now on");
    for (int a = 1; a < 16; a++)
        for (int b = 1; b < 16; b++)
            sim_way(a, b, true);
    servers_heal();
    sim_names(true);
    sim_set.stunned = sim_set.no_memory = sim_set.slow = 0;
    for (int i = 0; i < now_drawn.processes; i++) {
        sim_resume(processes[i]);
        sim_may_grow(processes[i], true);
    }
    for (int i = 0; i < KEYS_MAX; i++)
        if (rules_left_for_ever(keys[i]) || store_foreign(keys[i]))
            delete (keys[i]);
    judge_kind(spawned > now_drawn.processes, stepped_back);
    wait_for_end(NULL);
}

void swarm_begin(const swarm *drawn) {
    now_drawn = *drawn;
    over = false;
    stepped_back = 0;
    spawned = 0;
    int64_t faults_until = work.until * 2 / 3;
    for (int i = 0; i < drawn->processes; i++)
        spawn(i);
    if (drawn->fault_every_ns > 0)
        sim_at(sim_span(SIM_MS, drawn->fault_every_ns), next_fault, NULL);
    sim_at(faults_until, heal, NULL);
}

/* ---------------------------------------------------------------- Shrinking */

static bool clear(double *share) {
    bool there = *share != 0;
    *share = 0;
    return there;
}

static bool leave_out_feature(swarm *s, int part) {
    double *shares[] = {&s->settings.overtaken, &s->settings.stunned, &s->settings.spurious,
                        &s->settings.slow,      &s->settings.pieces,  &s->settings.no_memory,
                        &s->work.shared,        &s->work.owned,       &s->work.nested,
                        &s->work.tries,         &s->work.forever,     &s->work.renewed,
                        &s->work.max_hold,      &s->work.closes,      &s->work.abandons,
                        &s->work.replicated,    &s->work.ahead};
    bool *flags[] = {&s->work.endless, &s->work.starts, &s->work.cancels,
                     &s->work.lazy,    &s->work.counts, &s->work.heals};
    int *weights = &s->work.weights.acquire;
    int count = sizeof shares / sizeof *shares, flag_count = sizeof flags / sizeof *flags;
    if (part < count)
        return clear(shares[part]);
    if ((part -= count) < flag_count) {
        bool there = *flags[part];
        *flags[part] = false;
        return there;
    }
    part -= flag_count;
    if (part < 1 || part >= (int)(sizeof s->work.weights / sizeof(int)) || weights[part] == 0)
        return false;
    weights[part] = 0;
    return true;
}

enum { LATER = 4 };

int swarm_parts(void) { return FAULTS + 1 + LATER * 3 + 50; }

bool swarm_leave_out(swarm *s, int part) {
    if (part < FAULTS) {
        bool there = s->weights[part] > 0 && s->fault_every_ns > 0;
        s->weights[part] = 0;
        return there;
    }
    part -= FAULTS;
    if (part == 0) {
        bool there = s->fault_every_ns > 0;
        s->fault_every_ns = 0;
        return there;
    }
    part--;
    if (part < LATER * 3) {
        int *number = part % 3 == 0   ? &s->processes
                      : part % 3 == 1 ? &s->work.threads
                                      : &s->work.keys;
        if (*number <= 1)
            return false;
        *number /= 2;
        return true;
    }
    return leave_out_feature(s, part - LATER * 3);
}
