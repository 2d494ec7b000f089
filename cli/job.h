/*
 * The command: a child in its own process group, which gets the terminal when it needs it, as
 * under a shell.
 */
#ifndef HOLDFAST_JOB_H
#define HOLDFAST_JOB_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

#include "guard.h"

typedef struct cli_job {
    pid_t group;  /* the command's own process leads it */
    bool ended;   /* that process has */
    int status;   /* then: as waitpid() tells it */
    int terminal; /* the one that controls us, or -1 */
    bool lent;    /* the group had the terminal's foreground */
    struct termios modes;
} cli_job;

/*
 * Start the command with that environment and signal mask. The guard knows of it before it
 * runs: order.group is set. -1 with errno.
 */
int job_start(cli_job *job, char **command, char **environment, const sigset_t *mask,
              const cli_guard *guard, guard_order *order);
/* After SIGCHLD: find out what became of it. This may stop our own process, as Ctrl-Z should. */
void job_look(cli_job *job);
/* Pass a signal on to the whole group, and SIGCONT in the foreground. */
void job_signal(const cli_job *job, int signal);
void job_resume(cli_job *job);
/* Is there anything left of the group? */
bool job_alive(const cli_job *job);
/* Its exit status, as a shell says it. */
int job_status(const cli_job *job);
/* After its end. */
void job_close(cli_job *job);

#endif
