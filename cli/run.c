/* holdfast run: a command under a lock. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char help[] =
    "Usage: holdfast run [options] NAME [--] COMMAND [ARGUMENT...]\n"
    "\n"
    "Wait for the lock NAME, hold it while COMMAND runs, and exit as COMMAND did.\n"
    "\n"
    "  -w, --timeout DURATION   wait so long at most; default: without limit\n"
    "  -n, --nonblock           do not wait\n";

static int run_child(char **command) {
    pid_t child = fork();
    if (child < 0) {
        cli_error("cannot start a process: %s", strerror(errno));
        return CLI_SYSTEM;
    }
    if (child == 0) {
        execvp(command[0], command);
        cli_error("cannot run %s: %s", command[0], strerror(errno));
        _exit(errno == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXECUTE);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        ;
    return WIFSIGNALED(status) ? CLI_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static int run(int argc, char **argv) {
    static const struct option options[] = {
        {"timeout", required_argument, NULL, 'w'},
        {"nonblock", no_argument, NULL, 'n'},
        CLI_COMMON_OPTIONS,
    };
    int64_t timeout_ms = HF_FOREVER;
    for (int option; (option = cli_option(argc, argv, "+w:n", options)) >= 0;)
        timeout_ms = option == 'w' ? cli_duration("--timeout", optarg) : 0;
    const char *name = optind < argc ? argv[optind++] : NULL;
    if (optind < argc && strcmp(argv[optind], "--") == 0)
        optind++;
    if (!name || optind == argc)
        cli_usage("run needs a lock's name and a command");

    hf_client *client;
    hf_lock *lock = NULL;
    hf_hold *hold = NULL;
    int result = cli_open(NULL, &client);
    if (result != CLI_OK)
        return result;
    hf_status status = hf_lock_open(client, name, strlen(name), NULL, 0, NULL, &lock);
    if (status == HF_OK)
        status = hf_lock_acquire(lock, timeout_ms, &hold);
    if (status == HF_OK) {
        result = run_child(argv + optind);
        if (hf_hold_release(hold) == HF_ELOST) {
            cli_error("%s", hf_error_message());
            result = CLI_LOST;
        }
    } else {
        result = cli_failed(status);
    }
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
    return result;
}

const cli_command cli_run = {"run", "run a command under a lock", help, run};
