/* What the commands of `holdfast` share. Each command is one file over the public header. */
#ifndef HOLDFAST_CLI_H
#define HOLDFAST_CLI_H

#include <getopt.h>
#include <holdfast/holdfast.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The exit statuses, which are for scripts: a number keeps its meaning. They are those of
 * flock(1) and sysexits.h where these have one; those above 78 are ours.
 */
enum cli_status {
    CLI_OK = 0,
    /* The answer is no: others hold the lock, or it was not as the caller said. */
    CLI_NO = 1,
    CLI_USAGE = 64,
    /* The server cannot be reached, or its answer was lost. */
    CLI_UNREACHABLE = 69,
    /* The system refused: no memory, no process, no descriptor. */
    CLI_SYSTEM = 71,
    /* Others kept the lock for the whole timeout. */
    CLI_TIMEOUT = 75,
    /* The server answers with an error, is too old, or is no Redis. */
    CLI_SERVER = 76,
    /* The server refused the user or the password. */
    CLI_DENIED = 77,
    /* The lock was lost while the command ran. */
    CLI_LOST = 79,
    /* The command ran longer than --max-hold. */
    CLI_OVERDUE = 80,
    /* As a shell says it: the command cannot be executed, or does not exist. */
    CLI_CANNOT_EXECUTE = 126,
    CLI_NOT_FOUND = 127,
    /* A signal: 128 and its number. */
    CLI_SIGNAL = 128
};

/* ------------------------------------------------------------- Commands */

typedef struct cli_command {
    const char *name;
    /* One line for `holdfast --help`. */
    const char *summary;
    /* What `holdfast NAME --help` prints: the usage and the command's own options. */
    const char *help;
    /* Gets its own name as argv[0]; returns the exit status. */
    int (*run)(int argc, char **argv);
} cli_command;

/* One for each file; main.c has the table, and names the command that runs. */
void cli_begin(const cli_command *command);
extern const cli_command cli_bench, cli_break, cli_deadlocks, cli_inspect, cli_ls, cli_run, cli_top;

/* ------------------------------------------------------------ Arguments */

/* The long options that each command has; they end its table for cli_option(). */
enum { CLI_OPTION_URL = 0x1000, CLI_OPTION_HELP, CLI_OPTION_OWN };
#define CLI_COMMON_OPTIONS                                                                         \
    {"url", required_argument, NULL, CLI_OPTION_URL},                                              \
        {"help", no_argument, NULL, CLI_OPTION_HELP}, {                                            \
        NULL, 0, NULL, 0                                                                           \
    }

/*
 * getopt_long(), which deals with the common options itself (--help prints and exits) and
 * with mistakes (tells them and exits). A command's own options without a letter begin at
 * CLI_OPTION_OWN. Put a + before the letters if options must come before the arguments.
 */
int cli_option(int argc, char **argv, const char *letters, const struct option *options);

/*
 * A duration: a number, with a fraction or not, and ms, s, m, h or d; without a unit it is
 * seconds. Exits with CLI_USAGE if it is none, or longer than HF_LEASE_MAX. What is above 0
 * is at least 1 ms. `option` is for the message: "--timeout".
 */
int64_t cli_duration(const char *option, const char *text);
/* A whole number within bounds, or exits likewise. */
int64_t cli_number(const char *option, const char *text, int64_t least, int64_t most);

/* ------------------------------------------------------------- Messages */

#if defined(__GNUC__)
#define CLI_FORMAT __attribute__((format(printf, 1, 2)))
#define CLI_NORETURN __attribute__((noreturn))
#else
#define CLI_FORMAT
#define CLI_NORETURN
#endif

/* "holdfast: ..." and a line end on stderr. */
CLI_FORMAT void cli_error(const char *format, ...);
/* The same, a hint at --help, and the end: CLI_USAGE. */
CLI_FORMAT CLI_NORETURN void cli_usage(const char *format, ...);

/* Flush stdout. Returns CLI_OK, or CLI_SYSTEM with a message: output that was not written must not
 * look like success. */
int cli_printed(void);

/* ----------------------------------------------------------------- Time */

/* Milliseconds on a clock that goes on while the machine is suspended, as the library's. */
int64_t cli_now(void);
#define CLI_NEVER INT64_MAX
/* A descriptor that is readable from a time on; -1 with errno. Set it anew after that. */
int cli_clock(void);
void cli_clock_set(int clock, int64_t at);

/* --------------------------------------------------------------- Server */

/* The URL of --url, else of HOLDFAST_URL, else redis://localhost:6379. */
const char *cli_url(void);
/* Opens a client with that URL, or tells why not. Returns CLI_OK, or the exit status. */
int cli_open(const hf_client_options *options, hf_client **client_out);
/* Tells this thread's last error of the library; returns the exit status for it. */
int cli_failed(hf_status status);
/* The exit status alone. */
int cli_status_of(hf_status status);

#endif
