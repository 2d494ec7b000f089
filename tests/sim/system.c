/* The system calls as the simulated programs see them: sim_NAME for NAME. */
#include "files.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SELF (sim_running->process)

static int fails(int error) {
    errno = error;
    return -1;
}

/* ----------------------------------------------------------------- Memory */

void *sim_malloc(size_t size) { return sim_allocate(size, false); }
void sim_free(void *memory) { sim_release(memory); }
void *sim_calloc(size_t count, size_t size) {
    if (size > 0 && count > SIZE_MAX / size)
        return NULL;
    return sim_allocate(count * size, true);
}
void *sim_realloc(void *memory, size_t size) {
    if (memory == NULL)
        return sim_allocate(size, false);
    size_t had = sim_size_of(memory);
    void *moved = sim_allocate(size, false);
    if (moved == NULL)
        return NULL;
    memcpy(moved, memory, had < size ? had : size);
    sim_release(memory);
    return moved;
}
char *sim_strndup(const char *text, size_t most) {
    size_t length = strnlen(text, most);
    char *copy = sim_allocate(length + 1, false);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}
char *sim_strdup(const char *text) { return sim_strndup(text, strlen(text)); }
int sim___vasprintf_chk(char **to, int flag, const char *format, va_list args) {
    (void)flag;
    char *made;
    int length = vasprintf(&made, format, args);
    *to = length >= 0 ? sim_strdup(made) : NULL;
    free(made);
    return *to != NULL ? length : -1;
}
int sim_vasprintf(char **to, const char *format, va_list args) {
    return sim___vasprintf_chk(to, 0, format, args);
}
int sim___asprintf_chk(char **to, int flag, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = sim___vasprintf_chk(to, flag, format, args);
    va_end(args);
    return length;
}

/* ------------------------------------------------------------------- Time */

int sim_clock_gettime(clockid_t clock, struct timespec *now) {
    sim_pass();
    int64_t at = sim_local(SELF);
    if (clock == CLOCK_REALTIME)
        at += SELF->step + INT64_C(1700000000) * SIM_S;
    *now = (struct timespec){.tv_sec = at / SIM_S, .tv_nsec = at % SIM_S};
    return 0;
}
time_t sim_time(time_t *to) {
    struct timespec now;
    sim_clock_gettime(CLOCK_REALTIME, &now);
    if (to != NULL)
        *to = now.tv_sec;
    return now.tv_sec;
}
static int64_t in_ns(const struct timespec *time) {
    return (int64_t)time->tv_sec * SIM_S + time->tv_nsec;
}
/* Return the time ns from now, or never. */
static int64_t after(int64_t ns) {
    return ns < 0 || ns > SIM_NEVER / 4 ? SIM_NEVER : sim_global(SELF, sim_local(SELF) + ns);
}

/* Run the handlers of pending signals. */
static void take_signals(void) {
    sim_thread *self = sim_running;
    for (int i = 1; i < 32 && self->signals != 0; i++)
        if (self->signals & 1u << i) {
            self->signals &= ~(1u << i);
            if (SELF->handlers[i] != NULL)
                SELF->handlers[i](i);
        }
}
static void take_cancel(void) {
    if (sim_running->cancelled && !sim_running->uncancelable) {
        sim_trace("is cancelled");
        sim_thread_end(PTHREAD_CANCELED);
    }
}
/* Wait. False with EINTR: a signal has ended the wait. */
static bool wait_for(int64_t until, bool interruptible) {
    take_cancel();
    if (sim_running->signals != 0 && interruptible) {
        take_signals();
        errno = EINTR;
        return false;
    }
    sim_block(until, interruptible);
    take_cancel();
    if (!sim_running->interrupted)
        return true;
    take_signals();
    errno = EINTR;
    return false;
}
int sim_nanosleep(const struct timespec *time, struct timespec *left) {
    sim_pass();
    if (left != NULL)
        *left = (struct timespec){0};
    return wait_for(after(in_ns(time)), true) ? 0 : -1;
}
int sim_usleep(unsigned us) {
    return sim_nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}
unsigned sim_sleep_s(unsigned s) {
    int64_t until = sim_local(SELF) + s * SIM_S;
    sim_nanosleep(&(struct timespec){s, 0}, NULL);
    int64_t left = until - sim_local(SELF);
    return left > 0 ? (unsigned)((left + SIM_S - 1) / SIM_S) : 0;
}
int sim_pause_thread(void) { return wait_for(SIM_NEVER, true) ? 0 : -1; }

/* ---------------------------------------------------------------- Threads */

/* The first bytes of pthread's types; all zeros is the initial state of each. */
typedef struct {
    int owner;
} mutex;

int sim_pthread_mutex_init(pthread_mutex_t *at, const pthread_mutexattr_t *attributes) {
    (void)attributes;
    memset(at, 0, sizeof *at);
    return 0;
}
int sim_pthread_mutex_destroy(pthread_mutex_t *at) {
    if (((mutex *)at)->owner != 0)
        sim_wrong("%s destroys a mutex that is locked", SELF->name);
    ((mutex *)at)->owner = -1;
    return 0;
}
static void lock(pthread_mutex_t *at) {
    mutex *m = (mutex *)at;
    if (m->owner == sim_running->number || m->owner < 0)
        sim_wrong("%s locks a mutex that %s", SELF->name, m->owner < 0 ? "is gone" : "it has");
    while (m->owner != 0) {
        sim_running->waits_on = at;
        sim_block(SIM_NEVER, false);
    }
    m->owner = sim_running->number;
}
int sim_pthread_mutex_lock(pthread_mutex_t *at) {
    sim_pass();
    lock(at);
    return 0;
}
static void unlock(pthread_mutex_t *at) {
    mutex *m = (mutex *)at;
    if (m->owner != sim_running->number)
        sim_wrong("%s unlocks a mutex that it does not have", SELF->name);
    m->owner = 0;
    sim_wake_waiters(SELF, at, 1);
}
int sim_pthread_mutex_unlock(pthread_mutex_t *at) {
    unlock(at);
    sim_pass();
    return 0;
}

int sim_pthread_cond_init(pthread_cond_t *at, const pthread_condattr_t *attributes) {
    (void)attributes;
    memset(at, 0, sizeof *at);
    return 0;
}
int sim_pthread_cond_destroy(pthread_cond_t *at) {
    for (sim_thread *t = SELF->threads; t != NULL; t = t->next)
        if (t->state == SIM_BLOCKED && t->waits_on == at)
            sim_wrong("%s destroys a condition on which a thread waits", SELF->name);
    return 0;
}
int sim_pthread_condattr_init(pthread_condattr_t *at) { return memset(at, 0, sizeof *at), 0; }
int sim_pthread_condattr_destroy(pthread_condattr_t *at) { return (void)at, 0; }
int sim_pthread_condattr_setclock(pthread_condattr_t *at, clockid_t clock) {
    return (void)at, (void)clock, 0;
}
int sim_pthread_cond_timedwait(pthread_cond_t *at, pthread_mutex_t *with,
                               const struct timespec *until) {
    sim_pass();
    int64_t due = until != NULL ? sim_global(SELF, in_ns(until)) : SIM_NEVER;
    bool spurious = sim_chance(sim_set.spurious);
    take_cancel();
    unlock(with);
    sim_running->waits_on = at;
    bool woken = sim_block(spurious ? sim_now() : due, false);
    lock(with);
    take_cancel();
    return woken || spurious ? 0 : ETIMEDOUT;
}
int sim_pthread_cond_wait(pthread_cond_t *at, pthread_mutex_t *with) {
    return sim_pthread_cond_timedwait(at, with, NULL);
}
int sim_pthread_cond_signal(pthread_cond_t *at) {
    sim_pass();
    sim_wake_waiters(SELF, at, 1);
    return 0;
}
int sim_pthread_cond_broadcast(pthread_cond_t *at) {
    sim_pass();
    sim_wake_waiters(SELF, at, 100000);
    return 0;
}

typedef struct {
    int count, arrived, round;
} barrier;
int sim_pthread_barrier_init(pthread_barrier_t *at, const void *attributes, unsigned count) {
    (void)attributes;
    *(barrier *)at = (barrier){.count = (int)count};
    return 0;
}
int sim_pthread_barrier_destroy(pthread_barrier_t *at) { return (void)at, 0; }
int sim_pthread_barrier_wait(pthread_barrier_t *at) {
    barrier *b = (barrier *)at;
    int round = b->round;
    if (++b->arrived == b->count) {
        b->arrived = 0;
        b->round++;
        sim_wake_waiters(SELF, at, 100000);
        return PTHREAD_BARRIER_SERIAL_THREAD;
    }
    while (b->round == round) {
        sim_running->waits_on = at;
        sim_block(SIM_NEVER, false);
    }
    return 0;
}

int sim_pthread_once(pthread_once_t *at, void (*call)(void)) {
    sim_pass();
    while (*at == 1) {
        sim_running->waits_on = at;
        sim_block(SIM_NEVER, false);
    }
    if (*at == 0) {
        *at = 1;
        call();
        *at = 2;
        sim_wake_waiters(SELF, (const void *)at, 100000);
    }
    return 0;
}

int sim_pthread_create(pthread_t *to, const pthread_attr_t *attributes, void *(*main)(void *),
                       void *argument) {
    sim_pass();
    if (SELF->full || (SELF->may_lack_memory && sim_chance(sim_set.no_memory)))
        return EAGAIN;
    sim_thread *thread = sim_new_thread(SELF, main, argument);
    thread->detached = attributes != NULL && *(const int *)attributes;
    *to = (pthread_t)thread;
    return 0;
}
int sim_pthread_attr_init(pthread_attr_t *at) { return memset(at, 0, sizeof *at), 0; }
int sim_pthread_attr_destroy(pthread_attr_t *at) { return (void)at, 0; }
int sim_pthread_attr_setdetachstate(pthread_attr_t *at, int state) {
    *(int *)at = state == PTHREAD_CREATE_DETACHED;
    return 0;
}
int sim_pthread_attr_setstacksize(pthread_attr_t *at, size_t size) {
    return (void)at, (void)size, 0;
}
int sim_pthread_join(pthread_t which, void **result) {
    sim_thread *thread = (sim_thread *)which;
    sim_pass();
    take_cancel();
    while (thread->state != SIM_OVER) {
        sim_running->waits_on = thread;
        sim_block(SIM_NEVER, false);
        take_cancel();
    }
    if (thread->joined)
        sim_wrong("%s joins a thread twice", SELF->name);
    thread->joined = true;
    if (result != NULL)
        *result = thread->result;
    return 0;
}
int sim_pthread_detach(pthread_t which) {
    ((sim_thread *)which)->detached = true;
    return 0;
}
pthread_t sim_pthread_self(void) { return (pthread_t)sim_running; }
_Noreturn void sim_pthread_exit(void *result) { sim_thread_end(result); }
int sim_pthread_setname_np(pthread_t which, const char *name) {
    sim_thread *thread = (sim_thread *)which;
    snprintf(thread->name, sizeof thread->name, "%s", name);
    return 0;
}
int sim_pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
    (void)how, (void)set;
    if (before != NULL)
        sigemptyset(before);
    return 0;
}
int sim_pthread_setcancelstate(int state, int *before) {
    if (before != NULL)
        *before = sim_running->uncancelable ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE;
    sim_running->uncancelable = state == PTHREAD_CANCEL_DISABLE;
    return 0;
}
void sim_pthread_testcancel(void) { take_cancel(); }
static void interrupt(sim_thread *thread) {
    if (thread->state == SIM_BLOCKED && thread->interruptible) {
        thread->interrupted = true;
        sim_wake(thread);
    }
}
int sim_pthread_cancel(pthread_t which) {
    sim_thread *thread = (sim_thread *)which;
    thread->cancelled = true;
    if (!thread->uncancelable)
        sim_wake(thread);
    return 0;
}
static int signal_thread(sim_thread *thread, int number) {
    if (number != 0 && thread->process->handlers[number] != NULL && thread->state != SIM_OVER) {
        thread->signals |= 1u << number;
        interrupt(thread);
    }
    return 0;
}
static sim_thread *first_thread(const sim_process *process) {
    sim_thread *first = process->threads;
    while (first->next != NULL)
        first = first->next;
    return first;
}
int sim_pthread_kill(pthread_t which, int number) {
    return signal_thread((sim_thread *)which, number);
}
int sim_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
    SELF->atfork[SELF->atforks].prepare = prepare;
    SELF->atfork[SELF->atforks].parent = parent;
    SELF->atfork[SELF->atforks++].child = child;
    return 0;
}

/* Of syscall(2) only futex exists. */
long sim_syscall(long number, ...) {
    va_list args;
    va_start(args, number);
    int *word = va_arg(args, int *);
    int what = va_arg(args, int), value = va_arg(args, int);
    const long *most = va_arg(args, const long *);
    va_end(args);
    sim_pass();
    if (number != SYS_futex)
        return fails(ENOSYS);
    if ((what & FUTEX_CMD_MASK) == FUTEX_WAKE)
        return sim_wake_waiters(SELF, word, value);
    if (*word != value)
        return fails(EAGAIN);
    sim_running->waits_on = word;
    int64_t until = most != NULL ? after(most[0] * SIM_S + most[1]) : SIM_NEVER;
    bool woken = sim_block(sim_chance(sim_set.spurious) ? sim_now() : until, true);
    if (sim_running->interrupted) {
        take_signals();
        return fails(EINTR);
    }
    return woken ? 0 : fails(ETIMEDOUT);
}

/* -------------------------------------------------------------- Processes */

int sim_getpid(void) { return SELF->pid; }
int sim_getppid(void) { return SELF->parent; }
_Noreturn void sim__exit(int status) { sim_process_end((status & 0xff) << 8); }
_Noreturn void sim_exit(int status) { sim_process_end((status & 0xff) << 8); }
_Noreturn void sim_abort(void) {
    sim_wrong("%s aborts", SELF->name);
    sim_process_end(SIGABRT);
}
/* Return its child with this number, until the child is reaped. */
static sim_process *child_of(int pid) {
    sim_process *child = sim_find(pid);
    return child != NULL && child->parent == SELF->pid && !child->reaped ? child : NULL;
}
/* Return whether the child has news of the kind that is asked for. */
static int news_of(const sim_process *child, int flags) {
    if (child->dead)
        return child->status;
    if (child->stopped && child->told_stopped && (flags & WUNTRACED))
        return 0x137f;
    return -1;
}
int sim_waitpid(int pid, int *status, int flags) {
    sim_pass();
    for (;;) {
        sim_process *child = child_of(pid);
        if (child == NULL)
            return fails(ECHILD);
        int news = news_of(child, flags);
        if (news >= 0) {
            child->reaped = child->dead;
            child->told_stopped = false;
            if (status != NULL)
                *status = news;
            return pid;
        }
        if (flags & WNOHANG)
            return 0;
        sim_running->waits_on = &sim_children;
        if (!wait_for(SIM_NEVER, true))
            return -1;
    }
}
int sim_waitid(idtype_t type, id_t pid, siginfo_t *how, int flags) {
    (void)type;
    sim_pass();
    const sim_process *child = child_of((int)pid);
    memset(how, 0, sizeof *how);
    if (child == NULL)
        return fails(ECHILD);
    if (!child->dead)
        return (flags & WNOHANG) ? 0 : fails(ENOSYS);
    how->si_pid = (int)pid;
    how->si_code = WIFEXITED(child->status) ? CLD_EXITED : CLD_KILLED;
    how->si_status =
        WIFEXITED(child->status) ? WEXITSTATUS(child->status) : WTERMSIG(child->status);
    return 0;
}
int sim_kill_pid(int pid, int number) {
    sim_process *process = sim_find(pid);
    sim_pass();
    if (process == NULL || process->reaped)
        return fails(ESRCH);
    if (process->dead)
        return 0;
    if (process->server != NULL)
        sim_server_signal(process->server, number);
    else if (number == SIGSTOP || number == SIGCONT)
        sim_stop_process(process, number == SIGSTOP);
    else if (number < 32 && process->handlers[number] != NULL)
        return signal_thread(first_thread(process), number);
    else if (number != 0)
        sim_kill(process, false);
    if (process->stopped && process == SELF)
        sim_sleep(0); /* until it is continued */
    return 0;
}
int sim_raise(int number) {
    if (SELF->handlers[number] != NULL)
        SELF->handlers[number](number);
    else
        sim_kill_pid(SELF->pid, number);
    return 0;
}
int sim_sigaction(int number, const struct sigaction *action, struct sigaction *before) {
    if (before != NULL) {
        memset(before, 0, sizeof *before);
        before->sa_handler = SELF->handlers[number];
    }
    if (action != NULL)
        SELF->handlers[number] = action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN
                                     ? NULL
                                     : action->sa_handler;
    return 0;
}
int sim_prctl(int what, ...) {
    va_list args;
    va_start(args, what);
    unsigned long value = va_arg(args, unsigned long);
    va_end(args);
    if (what == PR_SET_CHILD_SUBREAPER)
        SELF->adopts = value != 0;
    else if (what == PR_SET_PDEATHSIG)
        SELF->death_signal = (int)value;
    else if (what == PR_GET_NAME)
        memcpy((char *)value, sim_running->name, sizeof sim_running->name);
    return 0;
}
typedef struct alarm_of {
    int pid;
    uint64_t serial;
} alarm_of;
static void ring(void *argument) {
    alarm_of *mine = argument;
    sim_process *process = sim_find(mine->pid);
    if (process != NULL && !process->dead && process->alarm == mine->serial) {
        sim_wrong("%s has taken longer than it may", process->name);
        sim_end_process(process, SIGALRM, false);
    }
    free(mine);
}
unsigned sim_alarm(unsigned seconds) {
    SELF->alarm++;
    if (seconds > 0) {
        alarm_of *mine = malloc(sizeof *mine);
        *mine = (alarm_of){SELF->pid, SELF->alarm};
        sim_at(sim_now() + (int64_t)seconds * SIM_S, ring, mine);
    }
    return 0;
}
int sim_getentropy(void *to, size_t count) {
    for (size_t i = 0; i < count; i++)
        ((unsigned char *)to)[i] = (unsigned char)(sim_draw(&SELF->random) >> 32);
    return 0;
}
int sim_gethostname(char *to, size_t room) {
    snprintf(to, room, "host%d", SELF->host);
    return 0;
}

/* ------------------------------------------------------------ Descriptors */

static sim_file *file_of(int fd) { return fd >= 0 && fd < SIM_FDS ? SELF->fds[fd] : NULL; }

static int open_fd(sim_file *file) {
    for (int fd = 3; fd < SIM_FDS && !SELF->full; fd++)
        if (SELF->fds[fd] == NULL) {
            SELF->fds[fd] = sim_file_share(file);
            SELF->fd_flags[fd] = 0;
            return fd;
        }
    sim_file_close(sim_file_share(file));
    return fails(EMFILE);
}
int sim_close(int fd) {
    sim_pass();
    sim_file *file = file_of(fd);
    if (file == NULL) {
        sim_wrong("%s closes descriptor %d, which is not open", SELF->name, fd);
        return fails(EBADF);
    }
    SELF->fds[fd] = NULL;
    sim_file_close(file);
    return 0;
}
int sim_eventfd(unsigned count, int flags) {
    sim_file *file = sim_file_new(SIM_EVENT);
    file->count = count;
    file->nonblock = flags & EFD_NONBLOCK;
    return open_fd(file);
}
int sim_timerfd_create(int clock, int flags) {
    (void)clock, (void)flags;
    sim_file *file = sim_file_new(SIM_TIMER);
    file->due = SIM_NEVER;
    file->nonblock = true;
    return open_fd(file);
}
int sim_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old) {
    (void)old;
    sim_pass();
    int64_t ns = in_ns(&new->it_value);
    sim_timer_arm(file_of(fd), ns == 0                     ? SIM_NEVER
                               : flags & TFD_TIMER_ABSTIME ? sim_global(SELF, ns)
                                                           : after(ns));
    return 0;
}
int sim_pipe(int ends[2]) {
    sim_file *a = sim_file_new(SIM_SOCKET), *b = sim_file_new(SIM_SOCKET);
    sim_pair(a, b);
    bool room = !SELF->full;
    ends[0] = open_fd(a);
    ends[1] = open_fd(b);
    return room ? 0 : fails(EMFILE);
}
int sim_socketpair(int domain, int type, int protocol, int ends[2]) {
    return (void)domain, (void)type, (void)protocol, sim_pipe(ends);
}
int sim_fcntl(int fd, int what, ...) {
    va_list args;
    va_start(args, what);
    int value = va_arg(args, int);
    va_end(args);
    sim_file *file = file_of(fd);
    sim_pass();
    if (file == NULL)
        return fails(EBADF);
    if (what == F_GETFL)
        return file->nonblock ? O_NONBLOCK : 0;
    if (what == F_SETFL)
        file->nonblock = value & O_NONBLOCK;
    else if (what == F_GETFD)
        return SELF->fd_flags[fd];
    else if (what == F_SETFD)
        SELF->fd_flags[fd] = (unsigned char)value;
    return 0;
}
int sim_fcntl64(int fd, int what, long value) { return sim_fcntl(fd, what, (int)value); }

int sim_poll(struct pollfd *fds, nfds_t count, int ms) {
    sim_pass();
    take_cancel();
    int64_t until = after(ms < 0 ? -1 : (int64_t)ms * SIM_MS);
    sim_file *files[SIM_FDS];
    if (count > SIM_FDS)
        return fails(EINVAL);
    for (nfds_t i = 0; i < count; i++)
        files[i] = file_of(fds[i].fd); /* the file stays, even if the descriptor is closed */
    for (;;) {
        int ready = 0;
        for (nfds_t i = 0; i < count; i++) {
            fds[i].revents = 0;
            if (fds[i].fd >= 0)
                fds[i].revents =
                    files[i] == NULL ? POLLNVAL : sim_file_ready(files[i], fds[i].events);
            ready += fds[i].revents != 0;
        }
        if (ready > 0 || ms == 0 || sim_now() >= until)
            return ready;
        for (nfds_t i = 0; i < count; i++)
            if (files[i] != NULL)
                sim_watch_file(files[i]);
        if (!wait_for(until, true))
            return -1;
    }
}
int sim___poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t room) {
    return (void)room, sim_poll(fds, count, ms);
}

/* Wait until the file is ready; -1 with errno if it is not. */
static int wait_ready(sim_file *file, short events, int64_t until, bool restarts) {
    while (sim_file_ready(file, events) == 0) {
        if (sim_now() >= until)
            return fails(EAGAIN);
        sim_watch_file(file);
        if (!wait_for(until, !restarts))
            return -1;
    }
    return 0;
}

ssize_t sim_read(int fd, void *bytes, size_t length) {
    sim_file *file = file_of(fd);
    sim_pass();
    if (file == NULL)
        return fails(EBADF);
    if (file->kind == SIM_SOCKET) {
        extern ssize_t sim_recv(int, void *, size_t, int);
        return sim_recv(fd, bytes, length, 0);
    }
    if (file->count == 0 && (file->nonblock || wait_ready(file, POLLIN, SIM_NEVER, false) != 0))
        return file->nonblock ? fails(EAGAIN) : -1;
    memcpy(bytes, &file->count, sizeof file->count);
    file->count = 0;
    return sizeof file->count;
}
ssize_t sim_send_to(int fd, const void *bytes, size_t length, int flags);
ssize_t sim_write(int fd, const void *bytes, size_t length) {
    sim_file *file = file_of(fd);
    if (file == NULL)
        return fails(EBADF);
    if (file->kind == SIM_SOCKET)
        return sim_send_to(fd, bytes, length, 0);
    sim_pass();
    uint64_t more;
    memcpy(&more, bytes, sizeof more);
    file->count += more;
    sim_file_notify(file);
    return sizeof more;
}

/* ---------------------------------------------------------------- Sockets */

int sim_socket(int domain, int type, int protocol) {
    (void)domain, (void)protocol;
    sim_pass();
    sim_file *file = sim_file_new(SIM_SOCKET);
    file->nonblock = type & SOCK_NONBLOCK;
    int fd = open_fd(file);
    if (fd >= 0 && type & SOCK_CLOEXEC)
        SELF->fd_flags[fd] = FD_CLOEXEC;
    return fd;
}
/* Hosts have the addresses 10.0.0.HOST; 127.0.0.1 is the local host. */
static sim_address_of address_of(const struct sockaddr *from) {
    sim_address_of to = {0};
    if (from->sa_family == AF_UNIX) {
        snprintf(to.path, sizeof to.path, "%s", ((const struct sockaddr_un *)from)->sun_path);
        to.host = SELF->host;
        return to;
    }
    const struct sockaddr_in *in = (const void *)from;
    uint32_t ip = ntohl(in->sin_addr.s_addr);
    to.host = ip >> 24 == 127 || ip == 0 ? SELF->host : (int)(ip & 0xff) % 64;
    to.port = ntohs(in->sin_port);
    return to;
}
static int tell_address(const sim_address_of *from, struct sockaddr *to, socklen_t *size) {
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)from->port),
                             .sin_addr.s_addr = htonl(0x0a000000u + (uint32_t)from->host)};
    if (from->path[0] != '\0')
        in = (struct sockaddr_in){.sin_family = AF_UNIX};
    memcpy(to, &in, *size < sizeof in ? *size : sizeof in);
    *size = sizeof in;
    return 0;
}
int sim_bind(int fd, const struct sockaddr *address, socklen_t size) {
    sim_file *file = file_of(fd);
    (void)size;
    file->local = address_of(address);
    file->local.host = SELF->host;
    if (file->local.port == 0)
        file->local.port = sim_ephemeral++;
    return sim_listener_at(&file->local) != NULL ? fails(EADDRINUSE) : 0;
}
int sim_listen_fd(int fd, int most) {
    sim_file *file = file_of(fd);
    if (file->kind == SIM_SOCKET)
        sim_listen_here(file, most > 0 ? (size_t)most + 1 : 1);
    return 0;
}
int sim_accept(int fd, struct sockaddr *address, socklen_t *size) {
    sim_file *file = file_of(fd);
    sim_pass();
    while (file->waiting == 0) {
        if (file->shut_in)
            return fails(EINVAL);
        if (file->nonblock)
            return fails(EAGAIN);
        sim_watch_file(file);
        if (!wait_for(SIM_NEVER, true))
            return -1;
    }
    sim_file *here = file->backlog[0];
    memmove(file->backlog, file->backlog + 1, --file->waiting * sizeof *file->backlog);
    if (address != NULL)
        tell_address(&here->remote, address, size);
    return open_fd(here);
}
int sim_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    (void)flags;
    return sim_accept(fd, address, size);
}
int sim_connect(int fd, const struct sockaddr *address, socklen_t size) {
    sim_file *file = file_of(fd);
    (void)size;
    sim_pass();
    if (file->open)
        return fails(EISCONN);
    if (!file->connecting) {
        sim_address_of to = address_of(address);
        int error = sim_connect_to(file, &to);
        if (error != EINPROGRESS)
            return error == 0 ? 0 : fails(error);
        if (file->nonblock)
            return fails(EINPROGRESS);
    } else if (file->nonblock) {
        return fails(EALREADY);
    }
    while (file->connecting) {
        sim_watch_file(file);
        if (!wait_for(SIM_NEVER, true))
            return -1;
    }
    if (file->open)
        return 0;
    int error = file->error;
    file->error = 0;
    return fails(error);
}
int sim_setsockopt(int fd, int level, int option, const void *value, socklen_t size) {
    sim_file *file = file_of(fd);
    (void)size;
    sim_pass();
    if (file == NULL)
        return fails(EBADF);
    if (level == SOL_SOCKET && (option == SO_RCVTIMEO || option == SO_SNDTIMEO)) {
        const struct timeval *time = value;
        int64_t ns = time->tv_sec * SIM_S + time->tv_usec * SIM_US;
        *(option == SO_RCVTIMEO ? &file->receive_ns : &file->send_ns) = ns;
    }
    return 0;
}
int sim_getsockopt(int fd, int level, int option, void *value, socklen_t *size) {
    sim_file *file = file_of(fd);
    (void)size;
    if (level == SOL_SOCKET && option == SO_ERROR) {
        *(int *)value = file->error;
        file->error = 0;
    }
    return 0;
}
int sim_getsockname(int fd, struct sockaddr *to, socklen_t *size) {
    return tell_address(&file_of(fd)->local, to, size);
}
int sim_getpeername(int fd, struct sockaddr *to, socklen_t *size) {
    const sim_file *file = file_of(fd);
    return file->open ? tell_address(&file->remote, to, size) : fails(ENOTCONN);
}
int sim_shutdown(int fd, int how) {
    sim_file *file = file_of(fd);
    sim_pass();
    if (file == NULL)
        return fails(EBADF);
    sim_shut_socket(file, how != SHUT_WR, how != SHUT_RD);
    return 0;
}
ssize_t sim_send_to(int fd, const void *bytes, size_t length, int flags) {
    sim_file *file = file_of(fd);
    size_t sent = 0;
    sim_pass();
    if (file == NULL)
        return fails(EBADF);
    int64_t until = file->send_ns > 0 ? after(file->send_ns) : SIM_NEVER;
    while (sent < length) {
        if (file->error != 0 || !file->open || file->shut_out) {
            int error = file->error != 0 ? file->error : EPIPE;
            file->error = 0;
            return sent > 0 ? (ssize_t)sent : fails(error);
        }
        size_t more = sim_send_bytes(file, (const char *)bytes + sent, length - sent);
        sent += more;
        if (sent == length)
            break;
        if (file->nonblock || flags & MSG_DONTWAIT)
            return sent > 0 ? (ssize_t)sent : fails(EAGAIN);
        if (more == 0 && wait_ready(file, POLLOUT, until, false) != 0)
            return sent > 0 ? (ssize_t)sent : -1;
    }
    sim_trace("sends %zu bytes on socket %d (%d)", sent, file->number, fd);
    return (ssize_t)sent;
}
ssize_t sim_recv(int fd, void *bytes, size_t length, int flags) {
    sim_file *file = file_of(fd);
    sim_pass();
    if (file == NULL)
        return fails(EBADF);
    int64_t until = file->receive_ns > 0 ? after(file->receive_ns) : SIM_NEVER;
    if (sim_file_ready(file, POLLIN) == 0) {
        if (file->nonblock || flags & MSG_DONTWAIT)
            return fails(EAGAIN);
        if (wait_ready(file, POLLIN, until, file->receive_ns == 0) != 0)
            return -1;
    }
    if (file->end > file->begin) {
        size_t most = length;
        if (most > 1 && sim_chance(sim_set.pieces / 4))
            most = 1 + sim_random(most);
        return (ssize_t)sim_take_bytes(file, bytes, most, flags & MSG_PEEK);
    }
    if (file->error != 0) {
        int error = file->error;
        file->error = 0;
        return fails(error);
    }
    return 0;
}
ssize_t sim___recv_chk(int fd, void *bytes, size_t length, size_t room, int flags) {
    return (void)room, sim_recv(fd, bytes, length, flags);
}
ssize_t sim___read_chk(int fd, void *bytes, size_t length, size_t room) {
    return (void)room, sim_read(fd, bytes, length);
}

/* ------------------------------------------------------------------ Names */

int sim_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                    struct addrinfo **out) {
    struct sockaddr_in in = {.sin_family = AF_INET};
    int host;
    (void)hints;
    sim_pass();
    if (inet_pton(AF_INET, name, &in.sin_addr) != 1) {
        wait_for(sim_now() + sim_span(SIM_MS, SIM_NAME_MS * SIM_MS), false);
        if (!sim_names_work())
            return EAI_AGAIN;
        if (strcmp(name, "localhost") == 0)
            in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        else if (sscanf(name, "host%d", &host) == 1)
            in.sin_addr.s_addr = htonl(0x0a000000u + (uint32_t)sim_named(host));
        else
            return EAI_NONAME;
    }
    in.sin_port = htons((uint16_t)(service != NULL ? atoi(service) : 0));
    struct {
        struct addrinfo info;
        struct sockaddr_in in;
    } *made = sim_allocate(sizeof *made, true);
    if (made == NULL)
        return EAI_MEMORY;
    made->in = in;
    made->info = (struct addrinfo){.ai_family = AF_INET,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_addrlen = sizeof in,
                                   .ai_addr = (struct sockaddr *)&made->in};
    *out = &made->info;
    return 0;
}
void sim_freeaddrinfo(struct addrinfo *info) { sim_release(info); }
int sim_getnameinfo(const struct sockaddr *from, socklen_t size, char *host, socklen_t host_room,
                    char *port, socklen_t port_room, int flags) {
    const struct sockaddr_in *in = (const void *)from;
    (void)size, (void)flags;
    if (from->sa_family != AF_INET)
        return EAI_FAMILY;
    if (host != NULL)
        inet_ntop(AF_INET, &in->sin_addr, host, host_room);
    if (port != NULL)
        snprintf(port, port_room, "%d", ntohs(in->sin_port));
    return 0;
}

/* No library can be loaded. */
void *sim_dlopen(const char *name, int flags) { return (void)name, (void)flags, NULL; }
void *sim_dlsym(void *library, const char *name) { return (void)library, (void)name, NULL; }
int sim_dlclose(void *library) { return (void)library, 0; }

/* Open the files of /proc that tests read. */
FILE *sim_fopen(const char *name, const char *how) {
    char text[100];
    if (strcmp(name, "/proc/self/status") != 0)
        return fopen(name, how);
    int length = snprintf(text, sizeof text, "Threads:\t%zu\n", sim_threads(SELF));
    FILE *file = fmemopen(NULL, sizeof text, "w+");
    fwrite(text, 1, (size_t)length, file);
    rewind(file);
    return file;
}
