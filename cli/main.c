/* The table of commands. */
#include "cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const cli_command *const commands[] = {&cli_run,     &cli_ls,   &cli_inspect,   &cli_top,
                                              &cli_break,   &cli_once, &cli_deadlocks, &cli_bench,
                                              &cli_members, &cli_set};

static int help(void) {
    puts("Usage: holdfast COMMAND [options] ...\n"
         "\n"
         "Distributed locks on Redis.\n"
         "\n"
         "Commands:");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    puts("\n"
         "      --help       print this help\n"
         "      --version    print the version\n"
         "\n"
         "'holdfast COMMAND --help' lists the options of a command; see also: man holdfast.");
    return cli_printed();
}

/* Open the standard descriptors that the caller closed, so that no connection becomes stdout. */
static void open_standard(void) {
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= STDIN_FILENO && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

/* Move a --url from before the command to behind it; `once` has a second word. */
static void put_command_first(int argc, char **argv) {
    int words = argc > 1 && strncmp(argv[1], "--url=", 6) == 0 ? 1 : 2;
    if (argc < words + 2 || (words == 2 && strcmp(argv[1], "--url") != 0))
        return;
    char *command[] = {argv[words + 1], argv[words + 2]};
    int count = argc > words + 2 && strcmp(command[0], cli_once.name) == 0 ? 2 : 1;
    memmove(argv + 1 + count, argv + 1, (size_t)words * sizeof *argv);
    memcpy(argv + 1, command, (size_t)count * sizeof *argv);
}

static void end_by(int signal) { _exit(CLI_SIGNAL + signal); }

/* End by the signals that end other processes: the kernel gives the first process of a container
 * none that it does not handle. */
static void be_ended(void) {
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    for (size_t i = 0; getpid() == 1 && i < sizeof signals / sizeof *signals; i++)
        if (!cli_ignores(signals[i]))
            signal(signals[i], end_by);
}

int main(int argc, char **argv) {
    open_standard();
    be_ended();
    put_command_first(argc, argv);
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name)
        cli_usage("no command given");
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help();
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("holdfast %s\n", hf_version());
        return cli_printed();
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(name, commands[i]->name) == 0) {
            cli_begin(commands[i]);
            argv[1] = (char[]){"holdfast"}; /* getopt prints this in its messages */
            int status = commands[i]->run(argc - 1, argv + 1);
            return status == CLI_OK ? cli_printed() : status;
        }
    cli_usage("unknown %s '%s'", name[0] == '-' ? "option" : "command", name);
}
