/*
 * The simulated system: processes, threads, memory, descriptors, a network and time, all in one
 * real thread, and all chosen by one seed. The core, hiredis and the programs that use them run
 * unchanged: the system functions that their objects import are renamed to sim_… (imports).
 *
 * Time jumps from event to event. A thread is a coroutine: it runs until it calls the system, and
 * each call may let other threads go first, as the seed decides. One heap of events, ordered by
 * time and then by number, serves as scheduler, network and timers.
 *
 * A process has its own copy of all static data of the renamed objects (the section hf_data), its
 * own heap, descriptors and clock. fork() copies them.
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
#define SIM_NAME_MS 50 /* the longest look-up of a name */

typedef struct sim_process sim_process;
typedef struct sim_thread sim_thread;
typedef struct sim_file sim_file;

/* How the world treats its threads and its network. All zeros: fast and kind. */
typedef struct sim_settings {
    uint64_t seed;
    double overtaken;     /* probability that a call lets other threads go first, */
    int64_t overtaken_ns; /* for at most this time */
    double stunned;       /* probability that a thread stands still for longer */
    int64_t stunned_ns;
    int64_t wake_ns;    /* a woken thread runs within this time */
    double no_memory;   /* probability that an allocation fails, where it may */
    double spurious;    /* probability that a condition's wait ends for no reason */
    int64_t latency_ns; /* between hosts: drawn for each pair up to this, */
    int64_t jitter_ns;  /* and drawn in addition for each segment up to this */
    double slow;        /* probability that a segment is slow, */
    int64_t slow_ns;    /* by up to that */
    double pieces;      /* probability that a segment arrives in pieces */
    bool unusual;       /* rare branches of the core are taken more often */
    bool traces;        /* print all events on stderr */
} sim_settings;

extern sim_settings sim_set;

/* Begin a world; the one before is forgotten. */
void sim_begin(const sim_settings *settings);
/* Run until no event is left, sim_stop() is called, or the time is `until`. */
void sim_play(int64_t until);
void sim_stop(void);
/* Call this as a signal's handler when a thread never stops: the program computes for seconds, and
 * the world's time stands still. */
void sim_when_endless(void (*call)(int number));
/* End all processes and free all that is left of the world. */
void sim_end(void);

int64_t sim_now(void); /* ns since the beginning */
/* Return a number in [0, below), or true with this probability, as the seed decides. */
uint64_t sim_random(uint64_t below);
bool sim_chance(double probability);
/* Return a number between low and high, evenly distributed by its logarithm: small numbers are as
 * frequent as large ones. */
int64_t sim_span(int64_t low, int64_t high);
/* Return a number that differs between histories, and is the same for the same history. */
uint64_t sim_history(void);
uint64_t sim_events(void);

void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Report that the history is wrong: the first message is kept, and the run stops. */
void sim_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *sim_verdict(void); /* NULL: nothing was wrong */

/* Call the function at this time. */
void sim_at(int64_t at, void (*call)(void *), void *argument);

/* ------------------------------------------------------------- Processes */

/* Start a process on a host; its first thread runs main. */
sim_process *sim_spawn(const char *name, int host, void *(*main)(void *), void *argument);
sim_process *sim_self(void); /* the running thread's; NULL: no thread runs */
int sim_pid(const sim_process *process);
const char *sim_name(const sim_process *process);
/* Return the time at which the running process's own clock will be ms - 1 after what it was at
 * `then`. */
int64_t sim_promised(int64_t then, int64_t ms);
sim_process *sim_find(int pid);
bool sim_alive(const sim_process *process);
/* Kill a process as SIGKILL does: its connections end. cut: its host is gone, and they stay open.
 */
void sim_kill(sim_process *process, bool cut);
/* Stop a process as SIGSTOP does, and continue it as SIGCONT does. */
void sim_pause(sim_process *process);
void sim_resume(sim_process *process);
/* End each wait of one of its threads with EINTR. */
void sim_interrupt(sim_process *process);
/* Print on stderr where its threads are. */
void sim_tell_threads(const sim_process *process);
/* Let its clocks run ppm parts per million too fast, or step its wall clock by ns, from now on. */
void sim_drift(sim_process *process, int ppm);
void sim_step(sim_process *process, int64_t ns);
void sim_may_lack_memory(sim_process *process, bool may);
/* Allow or refuse new descriptors and threads. */
void sim_may_grow(sim_process *process, bool may);
/* Return the bytes that the process has not freed. */
size_t sim_allocated(const sim_process *process);
size_t sim_descriptors(const sim_process *process);
size_t sim_threads(const sim_process *process);
/* Let this thread of the process stand still for ns, from its next call on. False: the process has
 * fewer threads. */
bool sim_stun(sim_process *process, size_t which, int64_t ns);

/* Return for how long it has stood still so far, stopped or stunned. */
int64_t sim_stood(const sim_process *process);

/* Let the running thread wait; nothing interrupts the wait. */
void sim_sleep(int64_t ns);

/* --------------------------------------------------------------- Network */

/* A server that consists of functions, not of a process with coroutines. */
typedef struct sim_service {
    void *(*joined)(void *server, sim_file *connection); /* the peer; NULL: hung up at once */
    void (*heard)(void *peer, const void *bytes, size_t length);
    void (*left)(void *peer);
} sim_service;

typedef struct sim_server sim_server;
/* Listen on a port of all the host's addresses, and on a path if it is not NULL. */
sim_server *sim_listen(const char *name, int host, int port, const char *path,
                       const sim_service *service, void *server);
int sim_server_pid(const sim_server *server);
bool sim_server_up(const sim_server *server); /* neither ended nor stopped */
/* Stop listening: connections are refused, and open ones end. */
void sim_server_stop(sim_server *server);
void sim_server_start(sim_server *server);
/* Suspend the server, as SIGSTOP does, or resume it. Data that arrive meanwhile wait. */
void sim_server_pause(sim_server *server, bool paused);
/* Keep the server busy for ns before it reads again. */
void sim_server_spend(sim_server *server, int64_t ns);
/* Return its own wall clock, in us. */
int64_t sim_server_time(const sim_server *server);
void sim_server_drift(sim_server *server, int ppm);
void sim_server_step(sim_server *server, int64_t ns);
/* Set the function that is called when a signal arrives at the process that stands for the server.
 */
void sim_server_on_kill(sim_server *server, void (*killed)(void *server));

void sim_send(sim_file *connection, const void *bytes, size_t length);
/* End the connection soon, not in this call. */
void sim_disconnect_soon(sim_file *connection);

/* Shut or open the way from one host to the other. While it is shut, no segment arrives; when it
 * opens, the segments that waited arrive, because TCP sends them again. */
void sim_way(int from, int to, bool open);
bool sim_way_open(int from, int to);
/* Set the time that a segment takes between two hosts from now on, without jitter; 0: as drawn. */
void sim_distance(int a, int b, int64_t ns);
/* Reset connections between two hosts (-1: any), each with this probability, at a random byte of
 * the data under way. */
void sim_cut(int a, int b, double probability);
/* Let connections stay open while no more data arrive on them. */
void sim_deaden(int a, int b, double probability);
/* Let look-ups of names work, or fail. */
void sim_names(bool work);
/* Let the name of a host lead to another host from now on. */
void sim_move_name(int of, int to);
/* Return the address of a host; valid until the next call. */
const char *sim_address(int host);

#endif
