/*
 * The command: a child in its own process group, which moves to the terminal's foreground when it
 * uses the terminal, as in a shell.
 */
#ifndef HOLDFAST_JOB_H
#define HOLDFAST_JOB_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

#include "cli.h"
#include "guard.h"

typedef struct cli_job {
    pid_t group;   /* the pid of the command, which leads the group */
    bool ended;    /* the command has ended */
    int status;    /* of waitpid(), once ended */
    int terminal;  /* the controlling terminal, or -1 */
    bool lent;     /* the group was moved to the foreground */
    sigset_t sent; /* the signals that it was sent since, by job_signal() */
    int typed;     /* the signal of a Ctrl-C or Ctrl-\ that it died of there; or 0 */
    struct termios modes;
} cli_job;

/*
 * Start the command with that environment and signal mask. The guard receives the order, with its
 * group, before the command runs. Return 0, or -1 with errno.
 */
int job_start(cli_job *job, char **command, char **environment, const sigset_t *mask,
              const cli_guard *guard, guard_order *order);
/* Become the command. It does not return; if the command cannot run, report it and exit. */
CLI_NORETURN void job_become(char **command, char **environment, const sigset_t *mask);
/* Check the command, after SIGCHLD. This may stop the calling process, after Ctrl-Z, and sends a
 * Ctrl-C of which the command died to the calling process' group. */
void job_look(cli_job *job);
/* Send a signal to the whole group. False: all its processes are another user's. */
bool job_signal(cli_job *job, int signal);
/* Send SIGCONT to the group, in the foreground if it was there. */
void job_resume(cli_job *job);
/* Return whether a process of the group is left, after job_look(). */
bool job_alive(const cli_job *job);
/* Return the exit status, as a shell reports it. */
int job_status(const cli_job *job);
/* Close the terminal, after the command has ended. */
void job_close(cli_job *job);

#endif
