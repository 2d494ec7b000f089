/*
 * The simulated system: processes, threads, memory, descriptors, a network and time, all in
 * one real thread, and all chosen by one seed. The core, hiredis and the programs that use
 * them run unchanged: their objects' imports of the system are renamed to sim_… (imports).
 *
 * Time jumps from event to event. A thread is a coroutine: it runs until it calls the system,
 * and each call may let others go first, as the seed says. One heap of events, ordered by
 * time and then by number, is scheduler, network and timers at once.
 *
 * A process has its own copy of all static data of the renamed objects (the section hf_data),
 * its own heap, descriptors and clock. fork() copies them.
 */
#ifndef SIM_KERNEL_H
#define SIM_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_US INT64_C(1000)
#define SIM_MS INT64_C(1000000)
#define SIM_S INT64_C(1000000000)
#define SIM_NEVER INT64_MAX

typedef struct sim_process sim_process;
typedef struct sim_thread sim_thread;
typedef struct sim_file sim_file;

/* How the world treats its threads and its network. All zeros: fast and kind. */
typedef struct sim_settings {
    uint64_t seed;
    double overtaken;     /* probability that a thread's call lets others go first */
    int64_t overtaken_ns; /* for at most that time */
    double stunned;       /* probability that it stands still for longer */
    int64_t stunned_ns;
    int64_t wake_ns;    /* a woken thread runs after at most that time */
    double no_memory;   /* probability that an allocation fails, of the processes that may */
    double spurious;    /* probability that a condition's wait ends for no reason */
    int64_t latency_ns; /* between hosts: of each pair up to that, */
    int64_t jitter_ns;  /* and of each segment up to that in addition */
    double slow;        /* probability that a segment is slow, */
    int64_t slow_ns;    /* by up to that */
    double pieces;      /* probability that a segment comes in pieces */
    bool unusual;       /* rare branches of the core are taken more often */
    bool traces;        /* tell all that happens on stderr */
} sim_settings;

extern sim_settings sim_set;

/* Begin a world, which forgets the one before. */
void sim_begin(const sim_settings *settings);
/* Run until there is no event left, sim_stop(), or that time. */
void sim_play(int64_t until);
void sim_stop(void);
/* Call this, as a signal's handler, when a thread goes on without end: the program computes for
 * seconds, and its world's time stands still. */
void sim_when_endless(void (*call)(int number));
/* End all that is left in it. */
void sim_end(void);

int64_t sim_now(void); /* ns since the beginning */
/* A number in [0, below), of the seed; and true with a probability. */
uint64_t sim_random(uint64_t below);
bool sim_chance(double probability);
/* A number that is as often small as large: between low and high, evenly by its logarithm. */
int64_t sim_span(int64_t low, int64_t high);
/* Different for different histories, and the same for the same one. */
uint64_t sim_history(void);
uint64_t sim_events(void);

void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The history is wrong: the first message is kept, and the run stops. */
void sim_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *sim_verdict(void); /* NULL: nothing was wrong */

/* Call the function at that time. */
void sim_at(int64_t at, void (*call)(void *), void *argument);

/* ------------------------------------------------------------- Processes */

/* A process on a host, whose first thread runs main. */
sim_process *sim_spawn(const char *name, int host, void *(*main)(void *), void *argument);
sim_process *sim_self(void); /* of the running thread; NULL: none runs */
int sim_pid(const sim_process *process);
const char *sim_name(const sim_process *process);
/* When the running process's own clock will be that many ms, but one, after what it was then. */
int64_t sim_promised(int64_t then, int64_t ms);
sim_process *sim_find(int pid);
bool sim_alive(const sim_process *process);
/* As SIGKILL: its connections end. Cut: its host is gone, and they do not. */
void sim_kill(sim_process *process, bool cut);
/* As SIGSTOP and SIGCONT. */
void sim_pause(sim_process *process);
void sim_resume(sim_process *process);
/* Ends each wait of one of its threads with EINTR. */
void sim_interrupt(sim_process *process);
/* Its clocks from now on: parts per million too fast; ns to step the wall clock. */
/* Where its threads are, on stderr. */
void sim_tell_threads(const sim_process *process);
void sim_drift(sim_process *process, int ppm);
void sim_step(sim_process *process, int64_t ns);
void sim_may_lack_memory(sim_process *process, bool may);
/* It may have no new descriptors and threads, until it may. */
void sim_may_grow(sim_process *process, bool may);
/* What it has not given back. */
size_t sim_allocated(const sim_process *process);
size_t sim_descriptors(const sim_process *process);
size_t sim_threads(const sim_process *process);
/* That thread of the process stands still for that time, from its next call on. False: there are
 * fewer. */
bool sim_stun(sim_process *process, size_t which, int64_t ns);

/* For how long it has stood still so far: stopped, or stunned. */
int64_t sim_stood(const sim_process *process);

/* Wait in the running thread, which nothing interrupts. */
void sim_sleep(int64_t ns);

/* --------------------------------------------------------------- Network */

/* A server that is no process of coroutines, but functions. */
typedef struct sim_service {
    void *(*joined)(void *server, sim_file *connection); /* its peer; NULL: hung up at once */
    void (*heard)(void *peer, const void *bytes, size_t length);
    void (*left)(void *peer);
} sim_service;

typedef struct sim_server sim_server;
/* It listens on a port of all the host's addresses, and on a path, if that is not NULL. */
sim_server *sim_listen(const char *name, int host, int port, const char *path,
                       const sim_service *service, void *server);
int sim_server_pid(const sim_server *server);
bool sim_server_up(const sim_server *server); /* neither ended nor stopped */
/* No program listens: connections are refused, and those there are end. */
void sim_server_stop(sim_server *server);
void sim_server_start(sim_server *server);
/* It does nothing for a while: SIGSTOP. What arrives waits. */
void sim_server_pause(sim_server *server, bool paused);
/* It works for that time, before it hears what comes next. */
void sim_server_spend(sim_server *server, int64_t ns);
/* Its own wall clock, in us. */
int64_t sim_server_time(const sim_server *server);
void sim_server_drift(sim_server *server, int ppm);
void sim_server_step(sim_server *server, int64_t ns);
/* Called when the process that stands for it gets a signal; true: it is taken. */
void sim_server_on_kill(sim_server *server, void (*killed)(void *server));

void sim_send(sim_file *connection, const void *bytes, size_t length);
/* Soon, not in this call. */
void sim_disconnect_soon(sim_file *connection);

/* Nothing gets through from one host to the other, until it is open again: then what waited
 * arrives, as TCP sends it again. */
void sim_way(int from, int to, bool open);
bool sim_way_open(int from, int to);
/* How long a segment takes between two hosts from now on, without jitter; 0: as it is drawn. */
void sim_distance(int a, int b, int64_t ns);
/* End connections between two hosts (-1: any) by a reset, each with that probability; at a
 * random byte of what is under way. */
void sim_cut(int a, int b, double probability);
/* They stay open, and nothing comes through any more. */
void sim_deaden(int a, int b, double probability);
/* Each name look-up fails. */
void sim_names(bool work);
/* The name of a host leads to another one from now on. */
void sim_move_name(int of, int to);
/* The host of an address of sim_address(). */
const char *sim_address(int host);

#endif
