/* What the files of the simulated system share: kernel.c, files.c, system.c. */
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
    sim_thread *next; /* of its process */
    sim_process *process;
    int number;
    enum { SIM_RUNNABLE, SIM_RUNNING, SIM_BLOCKED, SIM_OVER } state;
    bool deferred;  /* it would run, but its process is stopped */
    bool timed_out; /* what its block came to */
    bool interruptible, interrupted;
    int64_t stands_ns; /* at its next call, for that time */
    uint64_t serial;   /* of its block: events of earlier ones are stale */
    const void *waits_on;
    int stack; /* its slot in the arena */
    char *sp;  /* above it the stack is in use */
    jmp_buf context;
    int saved_errno;
    char *tls;
    void *(*main)(void *);
    void *argument, *result;
    char name[16];
    bool detached, joined, cancelled, uncancelable;
    uint32_t signals;   /* pending */
    sim_file **watched; /* while it is blocked */
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
    bool adopts;      /* orphans among those that come of it are its children */
    int death_signal; /* that it gets when its parent ends */
    int status;       /* of its end, as waitpid() tells */
    sim_thread *threads;
    sim_arena *arena;
    char *heap;
    bool parked; /* its memory is elsewhere, because another one's is there */
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
    int64_t since, began, step; /* its clocks: since then it has run at that rate */
    uint64_t random;
    void (*handlers[32])(int);
    uint64_t alarm;
    struct {
        void (*prepare)(void), (*parent)(void), (*child)(void);
    } atfork[16];
    int atforks;
    sim_server *server; /* that it stands for */
};

extern sim_process *sim_processes;
extern sim_thread *sim_running;
extern int sim_interruptions;

/* The beginning of each call of the system: time passes, and others may go first. */
void sim_pass(void);
/* Let the running thread wait until it is woken, or until then. True: it was woken. */
bool sim_block(int64_t until, bool interruptible);
void sim_wake(sim_thread *thread);
void sim_wake_now(sim_thread *thread);
/* Those of the process that wait on that; how many. */
int sim_wake_waiters(sim_process *process, const void *on, int most);
sim_thread *sim_new_thread(sim_process *process, void *(*main)(void *), void *argument);
sim_process *sim_new_process(const char *name, int host);
_Noreturn void sim_thread_end(void *result);
_Noreturn void sim_process_end(int status);
void sim_end_process(sim_process *process, int status, bool cut);
void sim_stop_process(sim_process *process, bool stopped);
/* Whoever waits for a child. */
extern const char sim_children;

/* Its time, and the time in the world for one of its. */
int64_t sim_local(const sim_process *process);
int64_t sim_global(const sim_process *process, int64_t local);
uint64_t sim_draw(uint64_t *state);

void *sim_allocate(size_t size, bool zero);
void sim_release(void *memory);
size_t sim_size_of(const void *memory);

/* Files. */
void sim_file_close(sim_file *file);
sim_file *sim_file_share(sim_file *file);
void sim_file_cut(sim_file *file); /* its host is gone */
void sim_watch_file(sim_file *file);
void sim_unwatch_all(sim_thread *thread);
void sim_files_begin(void);
void sim_files_end(void);
void sim_server_signal(sim_server *server, int number);

#endif
