/* Time, threads, processes and their memory. */
#include "world.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#if !defined MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { ENDLESS_S = 5 };

sim_settings sim_set;
sim_process *sim_processes;
sim_thread *sim_running;
int sim_interruptions;
const char sim_children;

static int64_t now;
static bool stopping;
static int pids, thread_numbers;
static char verdict[1000];
static uint64_t hash, events_run;

/* ---------------------------------------------------------------- Chance */

/* splitmix64. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", 2014. */
uint64_t sim_draw(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t chance;

uint64_t sim_random(uint64_t below) { return below > 0 ? sim_draw(&chance) % below : 0; }

bool sim_chance(double probability) {
    return probability > 0 && (double)(sim_draw(&chance) >> 11) * 0x1p-53 < probability;
}

int64_t sim_span(int64_t low, int64_t high) {
    if (low < 1)
        low = 1;
    int64_t top = low;
    int doublings = 0;
    for (int64_t at = low; at < high; at *= 2)
        doublings++;
    top = low << sim_random((uint64_t)doublings + 1);
    top = top < high ? top : high;
    return low + (int64_t)sim_random((uint64_t)(top - low) + 1);
}

/* ----------------------------------------------------------- Trace, verdict */

static void mix(uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15) ^ hash >> 29;
}

uint64_t sim_history(void) { return hash; }
uint64_t sim_events(void) { return events_run; }

static void say(const char *format, va_list args) {
    fprintf(stderr, "%13.6f ", (double)now / 1e9);
    if (sim_running != NULL)
        fprintf(stderr, "%s/%d: ", sim_running->process->name, sim_running->number);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void sim_trace(const char *format, ...) {
    if (!sim_set.traces)
        return;
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

void sim_wrong(const char *format, ...) {
    va_list args;
    if (verdict[0] == '\0') {
        va_start(args, format);
        int length = snprintf(verdict, sizeof verdict, "at %.6f s: ", (double)now / 1e9);
        vsnprintf(verdict + length, sizeof verdict - (size_t)length, format, args);
        va_end(args);
        sim_trace("WRONG: %s", verdict);
    }
    stopping = true;
}

const char *sim_verdict(void) { return verdict[0] != '\0' ? verdict : NULL; }

/* ---------------------------------------------------------------- Events */

typedef struct event {
    int64_t at;
    uint64_t number; /* older events first */
    void (*call)(void *);
    void *argument;
    uint64_t serial; /* a thread's; only if call is NULL */
} event;

static event *heap;
static size_t events, event_room;
static uint64_t event_number;

static bool before(const event *a, const event *b) {
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

static void put_event(int64_t at, void (*call)(void *), void *argument, uint64_t serial) {
    if (at == SIM_NEVER)
        return;
    if (events == event_room) {
        event_room = event_room ? 2 * event_room : 1024;
        heap = realloc(heap, event_room * sizeof *heap);
        if (heap == NULL)
            abort();
    }
    event new = {at < now ? now : at, event_number++, call, argument, serial};
    size_t i = events++;
    for (; i > 0 && before(&new, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = new;
}

static event take_event(void) {
    event first = heap[0], last = heap[--events];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < events; i = child) {
        if (child + 1 < events && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &last))
            break;
        heap[i] = heap[child];
    }
    if (events > 0)
        heap[i] = last;
    return first;
}

void sim_at(int64_t at, void (*call)(void *), void *argument) { put_event(at, call, argument, 0); }

int64_t sim_now(void) { return now; }

/* ------------------------------------------------- Static data and stacks */

/* The static data of the renamed objects, which objcopy gathers. */
extern char __start_hf_data[], __stop_hf_data[];
static char *data_image; /* the data when the program began */
static sim_process *data_resident;
#define DATA_SIZE ((size_t)(__stop_hf_data - __start_hf_data))

/* The program's own thread-local variables: those of the running simulated thread are copied to the
 * place that the real thread has for them. libc's are elsewhere. */
static size_t tls_size;
static char *tls_at, *tls_image;

static int find_tls(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS) {
            tls_size = info->dlpi_phdr[i].p_memsz;
            tls_at = info->dlpi_tls_data;
        }
    return 1; /* the first object is the program */
}

static void keep_images(void) {
    dl_iterate_phdr(find_tls, NULL);
    data_image = malloc(DATA_SIZE + 1);
    memcpy(data_image, __start_hf_data, DATA_SIZE);
    tls_image = malloc(tls_size + 1);
    memcpy(tls_image, tls_at, tls_size);
}

/* Arenas have the same addresses in each world, so that its history is the same. */
static sim_arena *arenas[256];
static int arena_count;

static sim_arena *new_arena(void) {
    if (arena_count == (int)(sizeof arenas / sizeof *arenas))
        abort();
    if (arenas[arena_count] == NULL) {
        char *at = (char *)UINT64_C(0x100000000000) + (size_t)arena_count * 2 * SIM_ARENA;
        sim_arena *arena = calloc(1, sizeof *arena);
        arena->base =
            mmap(at, SIM_ARENA, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (arena->base != at)
            abort();
        arenas[arena_count] = arena;
    }
    return arenas[arena_count++];
}

static char *stack_base(const sim_thread *thread) {
    return thread->process->arena->base + SIM_ARENA - (size_t)(thread->stack + 1) * SIM_STACK;
}

/* Return where a process that was forked, or that has forked, keeps its memory while another one
 * runs at the same addresses: its pages are moved, not copied. */
static char *parking_of(const sim_process *process) {
    return (char *)UINT64_C(0x200000000000) + (size_t)process->pid * 2 * SIM_ARENA;
}

static void move_memory(char *from, char *to) {
    if (mremap(from, SIM_ARENA, SIM_ARENA, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
        abort();
}

/* Put this process's memory at its addresses. */
static void make_resident(sim_process *process) {
    sim_arena *arena = process->arena;
    if (arena->resident != process) {
        if (arena->resident != NULL) {
            move_memory(arena->base, parking_of(arena->resident));
            arena->resident->parked = true;
        }
        move_memory(parking_of(process), arena->base);
        process->parked = false;
        arena->resident = process;
    }
    if (data_resident != process) {
        if (data_resident != NULL)
            memcpy(data_resident->data, __start_hf_data, DATA_SIZE);
        memcpy(__start_hf_data, process->data, DATA_SIZE);
        data_resident = process;
    }
}

/* Copy the used memory of the running thread's process for its child, which has only this thread.
 */
static void copy_memory(sim_process *child, const sim_thread *thread) {
    char *base = child->arena->base, *to = parking_of(child);
    if (mmap(to, SIM_ARENA, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != to)
        abort();
    memcpy(to, base, child->brk);
    memcpy(to + (thread->sp - base), thread->sp,
           (size_t)(stack_base(thread) + SIM_STACK - thread->sp));
    child->parked = true;
}

static void forget_memory(sim_process *process) {
    if (process->arena != NULL && process->arena->resident == process)
        process->arena->resident = NULL;
    if (process->parked)
        munmap(parking_of(process), SIM_ARENA);
    process->parked = false;
}

/* ---------------------------------------------------------------- Threads */

static jmp_buf scheduler;
static sim_thread *tls_resident;
static ucontext_t beginning, first_context;

static void swap_tls(sim_thread *thread) {
    if (tls_resident == thread)
        return;
    if (tls_resident != NULL)
        memcpy(tls_resident->tls, tls_at, tls_size);
    memcpy(tls_at, thread->tls, tls_size);
    tls_resident = thread;
}

static void thread_main(void) {
    sim_thread *self = sim_running;
    sim_thread_end(self->main(self->argument));
}

/* Run a thread until it gives up the processor. */
static void run_thread(sim_thread *thread) {
    make_resident(thread->process);
    swap_tls(thread);
    sim_running = thread;
    thread->state = SIM_RUNNING;
    mix((uint64_t)now ^ (uint64_t)thread->number << 48);
    if (_setjmp(scheduler) == 0) {
        if (thread->sp != NULL) {
            errno = thread->saved_errno;
            _longjmp(thread->context, 1);
        }
        thread->sp = stack_base(thread) + SIM_STACK;
        getcontext(&first_context);
        first_context.uc_stack.ss_sp = stack_base(thread);
        first_context.uc_stack.ss_size = SIM_STACK;
        first_context.uc_link = NULL;
        makecontext(&first_context, thread_main, 0);
        swapcontext(&beginning, &first_context);
    }
    sim_running = NULL;
}

static __attribute__((noinline)) void switch_away(sim_thread *self) {
    self->saved_errno = errno;
    self->sp = (char *)__builtin_frame_address(0) - 512;
    if (_setjmp(self->context) == 0)
        _longjmp(scheduler, 1);
}

static void wake_later(sim_thread *thread, int64_t at) {
    thread->state = SIM_RUNNABLE;
    thread->serial++;
    put_event(at, NULL, thread, thread->serial);
}

bool sim_block(int64_t until, bool interruptible) {
    sim_thread *self = sim_running;
    self->state = SIM_BLOCKED;
    self->timed_out = self->interrupted = false;
    self->interruptible = interruptible;
    self->serial++;
    put_event(until, NULL, self, self->serial);
    switch_away(self);
    self->waits_on = NULL;
    sim_unwatch_all(self);
    return !self->timed_out;
}

void sim_wake(sim_thread *thread) {
    if (thread->state == SIM_BLOCKED)
        wake_later(thread, now + 1000 + (int64_t)sim_random((uint64_t)sim_set.wake_ns + 1));
}

int sim_wake_waiters(sim_process *process, const void *on, int most) {
    int woken = 0;
    while (woken < most) {
        sim_thread *chosen = NULL;
        uint64_t waiting = 0;
        for (sim_thread *t = process->threads; t != NULL; t = t->next)
            if (t->state == SIM_BLOCKED && t->waits_on == on && sim_random(++waiting) == 0)
                chosen = t;
        if (chosen == NULL)
            break;
        sim_wake(chosen);
        woken++;
    }
    return woken;
}

/* Handle an event of a thread: it goes on, unless the event belongs to an earlier block. */
static void go_on(sim_thread *thread, uint64_t serial) {
    if (thread->serial != serial || thread->state == SIM_OVER)
        return;
    if (thread->state == SIM_BLOCKED)
        thread->timed_out = true;
    if (thread->process->stopped) {
        thread->state = SIM_RUNNABLE;
        thread->deferred = true;
        return;
    }
    run_thread(thread);
}

static void yield_until(int64_t at) {
    sim_thread *self = sim_running;
    wake_later(self, at);
    switch_away(self);
}

void sim_pass(void) {
    if (sim_running == NULL)
        return;
    now += 40 + (int64_t)sim_random(64);
    if (stopping) {
        yield_until(now);
    } else if (sim_running->stands_ns > 0) {
        int64_t until = now + sim_running->stands_ns;
        sim_running->stands_ns = 0;
        yield_until(until);
    } else if (sim_chance(sim_set.stunned)) {
        int64_t ns = sim_span(SIM_US, sim_set.stunned_ns);
        sim_running->process->stood += ns;
        yield_until(now + ns);
    } else if (sim_chance(sim_set.overtaken)) {
        yield_until(now + (int64_t)sim_random((uint64_t)sim_set.overtaken_ns + 1));
    } else if (events > 0 && heap[0].at + 20 * SIM_US < now) {
        yield_until(now);
    }
}

void sim_sleep(int64_t ns) { sim_block(now + ns, false); }

sim_thread *sim_new_thread(sim_process *process, void *(*main)(void *), void *argument) {
    sim_thread *thread = calloc(1, sizeof *thread);
    int slot = 0;
    while (slot < SIM_STACKS && process->stacks[slot])
        slot++;
    if (slot == SIM_STACKS)
        abort();
    process->stacks[slot] = true;
    *thread = (sim_thread){.next = process->threads,
                           .process = process,
                           .number = ++thread_numbers,
                           .stack = slot,
                           .main = main,
                           .argument = argument,
                           .tls = malloc(tls_size + 1)};
    memcpy(thread->tls, tls_image, tls_size);
    process->threads = thread;
    wake_later(thread, now + 1000 + (int64_t)sim_random((uint64_t)sim_set.wake_ns + 1));
    return thread;
}

/* Ended threads of all processes: they are freed with the world, so that events may still refer to
 * them. */
static sim_thread *ended_threads;

static void forget_thread(sim_thread *thread) {
    sim_unwatch_all(thread);
    thread->state = SIM_OVER;
    thread->serial++;
    if (tls_resident == thread)
        tls_resident = NULL;
}

_Noreturn void sim_thread_end(void *result) {
    sim_thread *self = sim_running;
    self->result = result;
    forget_thread(self);
    self->process->stacks[self->stack] = false;
    sim_wake_waiters(self->process, self, 1000);
    if (self->next == NULL) /* main returns */
        sim_process_end(0);
    sim_thread **at = &self->process->threads;
    while (*at != self)
        at = &(*at)->next;
    *at = self->next;
    self->next = ended_threads;
    ended_threads = self;
    _longjmp(scheduler, 1);
}

/* -------------------------------------------------------------- Processes */

int64_t sim_local(const sim_process *process) {
    int64_t passed = now - process->since;
    return process->began + passed + passed / 1000000 * process->ppm;
}

int64_t sim_global(const sim_process *process, int64_t local) {
    int64_t passed = local - process->began;
    if (local == SIM_NEVER || passed > SIM_NEVER / 4)
        return SIM_NEVER;
    int64_t drift = passed / 1000000 * process->ppm, of_drift = drift / 1000000 * process->ppm;
    return process->since + passed - drift + of_drift + 2000; /* never early: it is rounded */
}

void sim_drift(sim_process *process, int ppm) {
    process->began = sim_local(process);
    process->since = now;
    process->ppm = ppm;
}

void sim_step(sim_process *process, int64_t ns) { process->step += ns; }

sim_process *sim_new_process(const char *name, int host) {
    sim_process *process = calloc(1, sizeof *process);
    snprintf(process->name, sizeof process->name, "%s", name);
    process->pid = ++pids;
    process->host = host;
    process->since = now;
    process->began = SIM_S * (1000 + (int64_t)sim_random(1000)) + now;
    process->step = now - process->began; /* its wall clock is right */
    process->random = sim_random(UINT64_MAX);
    process->next = sim_processes;
    sim_processes = process;
    return process;
}

sim_process *sim_spawn(const char *name, int host, void *(*main)(void *), void *argument) {
    sim_process *process = sim_new_process(name, host);
    process->arena = new_arena();
    process->arena->resident = process;
    process->heap = process->arena->base;
    process->data = malloc(DATA_SIZE + 1);
    memcpy(process->data, data_image, DATA_SIZE);
    sim_new_thread(process, main, argument);
    sim_trace("process %s begins", name);
    return process;
}

int64_t sim_stood(const sim_process *process) {
    return process->stood + (process->stopped ? now - process->stopped_at : 0);
}

sim_process *sim_self(void) { return sim_running != NULL ? sim_running->process : NULL; }
int sim_pid(const sim_process *process) { return process->pid; }
const char *sim_name(const sim_process *process) { return process->name; }

int64_t sim_promised(int64_t then, int64_t ms) {
    const sim_process *process = sim_running->process;
    int64_t passed = now - then;
    return sim_global(process, sim_local(process) - passed + (ms - 1) * SIM_MS) - 2 * SIM_US -
           passed / 1000;
}

bool sim_alive(const sim_process *process) { return !process->dead; }

sim_process *sim_find(int pid) {
    for (sim_process *p = sim_processes; p != NULL; p = p->next)
        if (p->pid == pid)
            return p;
    return NULL;
}

/* Give its children another parent, and end those that asked for SIGKILL. */
static void leave_children(const sim_process *process) {
    const sim_process *heir = sim_find(process->parent);
    while (heir != NULL && (heir->dead || !heir->adopts))
        heir = sim_find(heir->parent);
    for (sim_process *p = sim_processes; p != NULL; p = p->next)
        if (p->parent == process->pid) {
            p->parent = heir != NULL ? heir->pid : 1;
            if (p->death_signal == SIGKILL)
                sim_end_process(p, SIGKILL, false);
        }
}

void sim_end_process(sim_process *process, int status, bool cut) {
    if (process->dead)
        return;
    sim_trace("process %s ends with %x", process->name, status);
    process->dead = true;
    process->cut = cut;
    process->status = status;
    for (sim_thread *t = process->threads; t != NULL; t = t->next)
        forget_thread(t);
    for (int fd = 0; fd < SIM_FDS; fd++)
        if (process->fds[fd] != NULL) {
            if (cut)
                sim_file_cut(process->fds[fd]);
            sim_file_close(process->fds[fd]);
            process->fds[fd] = NULL;
        }
    if (data_resident == process)
        data_resident = NULL;
    forget_memory(process);
    leave_children(process);
    for (sim_process *p = sim_processes; p != NULL; p = p->next)
        if (!p->dead)
            sim_wake_waiters(p, &sim_children, 1000);
}

_Noreturn void sim_process_end(int status) {
    sim_end_process(sim_running->process, status, false);
    _longjmp(scheduler, 1);
}

void sim_stop_process(sim_process *process, bool stopped) {
    if (process->stopped == stopped || process->dead)
        return;
    sim_trace("process %s is %s", process->name, stopped ? "stopped" : "continued");
    process->stopped = process->told_stopped = stopped;
    if (stopped) {
        process->stopped_at = now;
        for (sim_process *p = sim_processes; p != NULL; p = p->next)
            sim_wake_waiters(p, &sim_children, 1000);
        return;
    }
    process->stood += now - process->stopped_at;
    for (sim_thread *t = process->threads; t != NULL; t = t->next)
        if (t->deferred) {
            t->deferred = false;
            wake_later(t, now + (int64_t)sim_random(SIM_MS));
        }
}

void sim_pause(sim_process *process) { sim_stop_process(process, true); }
void sim_resume(sim_process *process) { sim_stop_process(process, false); }

void sim_kill(sim_process *process, bool cut) {
    sim_end_process(process, SIGKILL, cut);
    if (sim_running != NULL && sim_running->process == process)
        _longjmp(scheduler, 1);
}

void sim_interrupt(sim_process *process) {
    for (sim_thread *t = process->threads; t != NULL; t = t->next)
        if (t->state == SIM_BLOCKED && t->interruptible) {
            t->interrupted = true;
            wake_later(t, now);
            sim_interruptions++;
        }
}

void sim_may_lack_memory(sim_process *process, bool may) { process->may_lack_memory = may; }
void sim_may_grow(sim_process *process, bool may) { process->full = !may; }
size_t sim_allocated(const sim_process *process) { return process->allocated; }

size_t sim_descriptors(const sim_process *process) {
    size_t count = 0;
    for (int fd = 0; fd < SIM_FDS; fd++)
        count += process->fds[fd] != NULL;
    return count;
}

size_t sim_threads(const sim_process *process) {
    size_t count = 0;
    for (const sim_thread *t = process->threads; t != NULL; t = t->next)
        count++;
    return count;
}

bool sim_stun(sim_process *process, size_t which, int64_t ns) {
    sim_thread *thread = process->threads;
    while (thread != NULL && which-- > 0)
        thread = thread->next;
    if (thread != NULL)
        thread->stands_ns = ns;
    return thread != NULL;
}

/* Fork: the child's thread goes on in a copy of this stack. */
int sim_fork(void);
int sim_fork(void) {
    sim_process *parent = sim_running->process;
    sim_pass();
    for (int i = parent->atforks; i-- > 0;)
        if (parent->atfork[i].prepare != NULL)
            parent->atfork[i].prepare();
    sim_process *child = sim_new_process(parent->name, parent->host);
    sim_process as = *child;
    *child = *parent;
    child->next = as.next;
    child->pid = as.pid;
    child->parent = parent->pid;
    child->random = as.random;
    child->threads = NULL;
    child->parked = false;
    child->adopts = false;
    child->death_signal = 0;
    memset(child->stacks, 0, sizeof child->stacks);
    child->stacks[sim_running->stack] = true;
    snprintf(child->name, sizeof child->name, "%.10s'%d", parent->name, child->pid);
    child->data = malloc(DATA_SIZE + 1);
    memcpy(child->data, __start_hf_data, DATA_SIZE);
    for (int fd = 0; fd < SIM_FDS; fd++)
        if (child->fds[fd] != NULL)
            sim_file_share(child->fds[fd]);
    sim_thread *self = sim_running, *thread = calloc(1, sizeof *thread);
    *thread = *self;
    thread->next = NULL;
    thread->process = child;
    thread->watched = NULL;
    thread->watching = thread->watch_room = 0;
    /* The child's thread has the same number, and so still owns its mutexes. */
    thread->tls = malloc(tls_size + 1);
    memcpy(thread->tls, tls_at, tls_size);
    child->threads = thread;
    /* In the child _setjmp() returns a second time, with this state of the stack. */
    thread->sp = (char *)__builtin_frame_address(0) - 1024;
    if (_setjmp(thread->context) == 0) {
        copy_memory(child, thread);
        wake_later(thread, now + 1000 + (int64_t)sim_random((uint64_t)sim_set.wake_ns + 1));
        sim_trace("forks %s", child->name);
        for (int i = 0; i < parent->atforks; i++)
            if (parent->atfork[i].parent != NULL)
                parent->atfork[i].parent();
        return child->pid;
    }
    sim_process *mine = sim_running->process;
    for (int i = 0; i < mine->atforks; i++)
        if (mine->atfork[i].child != NULL)
            mine->atfork[i].child();
    return 0;
}

/* ----------------------------------------------------------------- Memory */

/* Each block knows its size; freed blocks are filled, so that a later use is noticed. */
typedef struct block {
    uint32_t class, magic;
    size_t size;
} block;

enum { LIVE = 0x5afe5afe, FREED = 0x2eaddead };

/* Four classes for each doubling. */
static size_t class_size(unsigned class) { return (size_t)(64 + 16 * (class % 4)) << (class / 4); }

void *sim_allocate(size_t size, bool zero) {
    sim_process *process = sim_running->process;
    unsigned class = 0;
    if (size > SIM_ARENA / 4 || (process->may_lack_memory && sim_chance(sim_set.no_memory))) {
        errno = ENOMEM;
        return NULL;
    }
    while (class_size(class) < size)
        class ++;
    block *at = process->free_lists[class];
    if (at != NULL) {
        if (at->magic != FREED)
            sim_wrong("%s wrote over memory that it had freed", process->name);
        memcpy(&process->free_lists[class], at + 1, sizeof(void *));
    } else {
        at = (void *)(process->heap + process->brk);
        process->brk += sizeof *at + class_size(class);
        if (process->brk > SIM_ARENA - (size_t)SIM_STACKS * SIM_STACK)
            abort();
    }
    *at = (block){class, LIVE, size};
    memset(at + 1, zero ? 0 : 0xa5, size);
    process->allocated += 1;
    return at + 1;
}

void sim_release(void *memory) {
    if (memory == NULL)
        return;
    sim_process *process = sim_running->process;
    block *at = (block *)memory - 1;
    if (at->magic != LIVE) {
        sim_wrong("%s frees memory that is not its own, or twice", process->name);
        return;
    }
    memset(at + 1, 0xdd, at->size);
    at->magic = FREED;
    memcpy(at + 1, &process->free_lists[at->class], sizeof(void *));
    process->free_lists[at->class] = at;
    process->allocated -= 1;
}

size_t sim_size_of(const void *memory) { return ((const block *)memory - 1)->size; }

/* ------------------------------------------------------------------ World */

void sim_begin(const sim_settings *settings) {
    if (data_image == NULL)
        keep_images();
    sim_set = *settings;
    chance = settings->seed;
    now = 0;
    hash = events_run = 0;
    stopping = false;
    verdict[0] = '\0';
    event_number = 0;
    pids = 100;
    thread_numbers = 0;
    sim_interruptions = 0;
    sim_files_begin();
}

void sim_play(int64_t until) {
    while (!stopping && events > 0 && heap[0].at <= until) {
        event next = take_event();
        if (next.at > now)
            now = next.at;
        events_run++;
        if (next.call != NULL)
            next.call(next.argument);
        else
            go_on(next.argument, next.serial);
    }
    if (!stopping && now < until && until != SIM_NEVER)
        now = until;
}

void sim_stop(void) { stopping = true; }

static void (*endless)(int number);
static int64_t looked_at = -1;

static void look(int number) {
    if (now == looked_at)
        endless(number);
    looked_at = now;
}

void sim_when_endless(void (*call)(int number)) {
    static const struct itimerval often = {{ENDLESS_S, 0}, {ENDLESS_S, 0}};
    endless = call;
    sigaction(SIGPROF, &(struct sigaction){.sa_handler = look, .sa_flags = SA_ONSTACK | SA_RESTART},
              NULL);
    setitimer(ITIMER_PROF, &often, NULL);
}

static void free_threads(sim_thread *first) {
    for (sim_thread *t = first, *next; t != NULL; t = next) {
        next = t->next;
        free(t->watched);
        free(t->tls);
        free(t);
    }
}

void sim_end(void) {
    for (sim_process *p = sim_processes; p != NULL; p = p->next)
        sim_end_process(p, SIGKILL, true);
    while (sim_processes != NULL) {
        sim_process *process = sim_processes;
        sim_processes = process->next;
        free_threads(process->threads);
        free(process->data);
        free(process);
    }
    free_threads(ended_threads);
    ended_threads = NULL;
    sim_files_end();
    /* Drop the arenas' pages; the mappings stay for the next world. */
    for (int i = 0; i < arena_count; i++)
        madvise(arenas[i]->base, SIM_ARENA, MADV_DONTNEED);
    for (int i = 0; i < arena_count; i++)
        arenas[i]->resident = NULL;
    arena_count = 0;
    events = 0;
    data_resident = NULL;
    tls_resident = NULL;
    memcpy(__start_hf_data, data_image, DATA_SIZE);
    memcpy(tls_at, tls_image, tls_size);
}

void sim_tell_threads(const sim_process *process) {
    for (const sim_thread *t = process->threads; t != NULL; t = t->next)
        fprintf(stderr, "%s/%d: state %d, %s, waits on %p, watches %d files, serial %llu\n",
                process->name, t->number, t->state, t->deferred ? "deferred" : "", t->waits_on,
                t->watching, (unsigned long long)t->serial);
}
