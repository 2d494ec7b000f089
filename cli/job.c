#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* ------------------------------------------------------------- Terminal */

/*
 * Give the group the foreground. This is done only when the terminal has stopped it: until then
 * Ctrl-C reaches this process, which passes it on, and the rest of its script or pipe. SIGTTOU is
 * always blocked; otherwise tcsetpgrp() would stop this process.
 */
static bool lend_terminal(cli_job *job) {
    if (job->terminal < 0 || tcgetpgrp(job->terminal) != getpgrp() ||
        tcgetattr(job->terminal, &job->modes) != 0)
        return false;
    job->lent = tcsetpgrp(job->terminal, job->group) == 0;
    sigemptyset(&job->sent);
    return job->lent;
}

/* Take the foreground back. Return whether the command received the signal, of which it has died or
 * stopped, from the terminal alone: then the rest of this process' script or pipe must get it. */
static bool take_terminal(cli_job *job, int signal) {
    if (!job->lent || tcgetpgrp(job->terminal) != job->group)
        return false;
    tcsetpgrp(job->terminal, getpgrp());
    /* A killed command could not restore the modes. */
    if (job->ended && signal != 0)
        tcsetattr(job->terminal, TCSADRAIN, &job->modes);
    bool typed = signal == SIGINT || signal == SIGQUIT || signal == SIGTSTP;
    return typed && !sigismember(&job->sent, signal);
}

/* Stop as the command did, so that the shell returns to its prompt. False: the kernel did not stop
 * this process, because no shell could continue it. */
static bool stop_self(int signal, bool all) {
    sigset_t only, pending;
    sigemptyset(&only);
    sigaddset(&only, signal);
    if (all)
        kill(0, signal);
    else
        raise(signal);
    sigprocmask(SIG_UNBLOCK, &only, NULL); /* stops here until SIGCONT */
    sigprocmask(SIG_BLOCK, &only, NULL);
    return sigpending(&pending) == 0 && sigismember(&pending, SIGCONT);
}

static void stopped(cli_job *job, int signal) {
    if (job->terminal < 0)
        return; /* there is no terminal, so no shell; the lock stays held */
    bool wants = signal == SIGTTIN || signal == SIGTTOU;
    if (wants && lend_terminal(job)) {
        job_signal(job, SIGCONT);
        return;
    }
    bool all = take_terminal(job, signal);
    if (stop_self(wants ? signal : SIGTSTP, all) || signal == SIGSTOP)
        return; /* job_resume() follows at SIGCONT */
    if (wants)  /* as the kernel does for orphaned groups */
        job_signal(job, SIGHUP);
    job_signal(job, SIGCONT);
}

void job_resume(cli_job *job) {
    if (job->lent)
        lend_terminal(job);
    job_signal(job, SIGCONT);
}

/* ------------------------------------------------------------- Processes */

void job_become(char **command, char **environment, const sigset_t *mask) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE); /* of a message of this process: it must not end the command */
    sigtimedwait(&pipe, NULL, &(struct timespec){0, 0});
    sigprocmask(SIG_SETMASK, mask, NULL);
    environ = environment;
    execvp(command[0], command);
    int error = errno;
    cli_error("cannot run %s: %s", command[0], strerror(error));
    _exit(error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXECUTE);
}

int job_start(cli_job *job, char **command, char **environment, const sigset_t *mask,
              const cli_guard *guard, guard_order *order) {
    *job = (cli_job){.terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)};
    pid_t pid = fork();
    if (pid == 0) {
        order->group = getpid();
        prctl(PR_SET_PDEATHSIG, order->signal); /* if the guard is killed, too */
        setpgid(0, 0);
        guard_tell(guard, order);
        job_become(command, environment, mask);
    }
    if (pid < 0) {
        int error = errno;
        job_close(job);
        errno = error;
        return -1;
    }
    setpgid(pid, pid); /* both processes do; after the exec this fails, harmlessly */
    job->group = order->group = pid;
    return 0;
}

static void ended(cli_job *job, int status) {
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    job->ended = true;
    job->status = status;
    if (take_terminal(job, signal)) {
        job->typed = signal;
        kill(0, signal);
    }
}

/* The first process of a container, for example, is also the parent of the command's orphans. */
void job_look(cli_job *job) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;)
        if (pid == job->group && WIFSTOPPED(status))
            stopped(job, WSTOPSIG(status));
        else if (pid == job->group)
            ended(job, status);
}

bool job_signal(cli_job *job, int signal) {
    sigaddset(&job->sent, signal);
    return kill(-job->group, signal) == 0 || errno != EPERM;
}

bool job_alive(const cli_job *job) { return kill(-job->group, 0) == 0 || errno == EPERM; }

int job_status(const cli_job *job) {
    return WIFSIGNALED(job->status) ? CLI_SIGNAL + WTERMSIG(job->status) : WEXITSTATUS(job->status);
}

void job_close(cli_job *job) {
    if (job->terminal >= 0)
        close(job->terminal);
}
