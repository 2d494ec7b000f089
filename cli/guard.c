#include "guard.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

CLI_NORETURN static void obey(int socket, _Atomic int64_t *killed_at) {
    guard_order order = {0, 0, CLI_NEVER};
    int clock = cli_clock();
    struct pollfd fds[] = {{.fd = socket, .events = POLLIN}, {.fd = clock, .events = POLLIN}};
    for (;;) {
        poll(fds, 2, -1);
        if (fds[0].revents != 0) {
            ssize_t length = recv(socket, &order, sizeof order, 0);
            if (length == 0) { /* holdfast has ended */
                if (order.group > 0 && order.signal != 0 && kill(-order.group, order.signal) == 0) {
                    kill(-order.group, SIGCONT);
                    cli_say("ended before its command: sending signal %d to it", order.signal);
                }
                _exit(CLI_OK);
            }
            if (length == (ssize_t)sizeof order)
                cli_clock_set(clock, order.kill_at);
        } else if (cli_now() >= order.kill_at) {
            *killed_at = order.group > 0 ? order.kill_at : 0; /* before holdfast can see the end */
            order.kill_at = CLI_NEVER;
            cli_clock_set(clock, order.kill_at);
            if (order.group > 0 && kill(-order.group, SIGKILL) == 0)
                cli_say("stopped while the lease expired: killing its command");
            else
                *killed_at = 0;
        }
    }
}

int guard_start(cli_guard *guard) {
    int ends[2];
    _Atomic int64_t *killed_at =
        mmap(NULL, sizeof *killed_at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (killed_at == MAP_FAILED)
        return -1;
    /* A socket of whole messages; a write to a guard that has ended raises no signal. */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    /* The guard must outlive holdfast. It keeps all signals blocked, because a service manager
     * sends SIGTERM to each process of a unit. */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        /* Signals of the terminal, the group and killall(1) do not even reach the guard. */
        setsid();
        prctl(PR_SET_NAME, "hf-guard");
        close(ends[1]);
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        obey(ends[0], killed_at);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return -1;
    }
    *guard = (cli_guard){pid, ends[1], killed_at};
    return 0;
}

void guard_tell(const cli_guard *guard, const guard_order *order) {
    while (send(guard->socket, order, sizeof *order, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

int64_t guard_killed_at(const cli_guard *guard) { return *guard->killed_at; }

void guard_dismiss(const cli_guard *guard) { guard_tell(guard, &(guard_order){0, 0, CLI_NEVER}); }

void guard_end(cli_guard *guard) {
    guard_dismiss(guard);
    close(guard->socket);
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
