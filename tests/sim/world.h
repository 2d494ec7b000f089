/* Shared by the files of the simulated system: kernel.c, files.c, system.c. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "kernel.h"

#include <setjmp.h>
#include <signal.h>

enum { SIM_FDS = 512, SIM_STACK = 256 * 1024, SIM_ARENA = 128 * 1024 * 1024, SIM_STACKS = 256 };

typedef struct sim_watch {
    struct sim_watch *next;
    sim_thread *thread;
} sim_watch;

struct sim_thread {
    sim_thread *next; /* in its process's list */
    sim_process *process;
    int number;
    enum { SIM_RUNNABLE, SIM_RUNNING, SIM_BLOCKED, SIM_OVER } state;
    bool deferred;  /* it is runnable, but its process is stopped */
    bool timed_out; /* how its last block ended */
    bool interruptible, interrupted;
    int64_t stands_ns; /* it stands still for this time at its next call */
    uint64_t serial;   /* of its current block: events of earlier blocks are stale */
    const void *waits_on;
    int stack; /* its slot in the arena */
    char *sp;  /* the stack is in use above this address */
    jmp_buf context;
    int saved_errno;
    char *tls;
    void *(*main)(void *);
    void *argument, *result;
    char name[16];
    bool detached, joined, cancelled, uncancelable;
    uint32_t signals;   /* pending */
    sim_file **watched; /* while the thread is blocked */
    int watching, watch_room;
};

typedef struct sim_arena {
    char *base;
    sim_process *resident;
} sim_arena;

struct sim_process {
    sim_process *next;
    int pid, parent, host;
    char name[24];
    bool stopped, dead, reaped, told_stopped;
    bool adopts;      /* it becomes the parent of orphans among its descendants */
    int death_signal; /* sent to it when its parent ends */
    int status;       /* exit status, as waitpid() returns it */
    sim_thread *threads;
    sim_arena *arena;
    char *heap;
    bool parked; /* its memory is parked, because another process's is at its addresses */
    char *data;  /* its static data */
    size_t brk;
    int64_t stood, stopped_at;
    bool stacks[SIM_STACKS];
    void *free_lists[96];
    size_t allocated;
    bool may_lack_memory, cut;
    bool full; /* it gets no more descriptors and threads */
    sim_file *fds[SIM_FDS];
    unsigned char fd_flags[SIM_FDS];
    int ppm;
    int64_t since, began, step; /* its clock was `began` at `since`; step: of its wall clock */
    uint64_t random;
    void (*handlers[32])(int);
    uint64_t alarm;
    struct {
        void (*prepare)(void), (*parent)(void), (*child)(void);
    } atfork[16];
    int atforks;
    sim_server *server; /* the server for which it stands */
};

extern sim_process *sim_processes;
extern sim_thread *sim_running;
extern int sim_interruptions;

/* Begin a call of the system: time passes, and other threads may go first. */
void sim_pass(void);
/* Block the running thread until it is woken, or until `until`. Return whether it was woken. */
bool sim_block(int64_t until, bool interruptible);
void sim_wake(sim_thread *thread);
void sim_wake_now(sim_thread *thread);
/* Wake at most `most` threads of the process that wait on `on`; return how many. */
int sim_wake_waiters(sim_process *process, const void *on, int most);
sim_thread *sim_new_thread(sim_process *process, void *(*main)(void *), void *argument);
sim_process *sim_new_process(const char *name, int host);
_Noreturn void sim_thread_end(void *result);
_Noreturn void sim_process_end(int status);
void sim_end_process(sim_process *process, int status, bool cut);
void sim_stop_process(sim_process *process, bool stopped);
/* Threads that wait for a child wait on this. */
extern const char sim_children;

/* Convert between the world's time and the process's clock. */
int64_t sim_local(const sim_process *process);
int64_t sim_global(const sim_process *process, int64_t local);
uint64_t sim_draw(uint64_t *state);

void *sim_allocate(size_t size, bool zero);
void sim_release(void *memory);
size_t sim_size_of(const void *memory);

void sim_file_close(sim_file *file);
sim_file *sim_file_share(sim_file *file);
void sim_file_cut(sim_file *file); /* its host is gone */
void sim_watch_file(sim_file *file);
void sim_unwatch_all(sim_thread *thread);
void sim_files_begin(void);
void sim_files_end(void);
void sim_server_signal(sim_server *server, int number);

#endif
