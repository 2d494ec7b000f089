/* Shared by the commands of `holdfast`. Each command is one file over the public header. */
#ifndef HOLDFAST_CLI_H
#define HOLDFAST_CLI_H

#include <getopt.h>
#include <holdfast/holdfast.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The exit statuses. Scripts depend on them: a number keeps its meaning. The numbers are from
 * flock(1) and sysexits.h where these define one; numbers above 78 are Holdfast's.
 */
enum cli_status {
    CLI_OK = 0,
    /* Others hold the lock, or a condition of the caller is not met. */
    CLI_NO = 1,
    CLI_USAGE = 64,
    /* The record to settle has changed meanwhile: another record, or settled already. */
    CLI_OTHER = 65,
    /* The server cannot be reached, or its reply was lost. */
    CLI_UNREACHABLE = 69,
    /* A system call failed, for lack of memory, processes or descriptors for example. */
    CLI_SYSTEM = 71,
    /* Others held the lock for the whole timeout. */
    CLI_TIMEOUT = 75,
    /* The server returned an error, is too old, or is not Redis. */
    CLI_SERVER = 76,
    /* The server rejected the user or the password. */
    CLI_DENIED = 77,
    /* The lock was lost while the command ran. */
    CLI_LOST = 79,
    /* The command ran longer than --max-hold. */
    CLI_OVERDUE = 80,
    /* As in a shell: the command cannot be executed, or was not found. */
    CLI_CANNOT_EXECUTE = 126,
    CLI_NOT_FOUND = 127,
    /* Add the number of the signal. */
    CLI_SIGNAL = 128
};

/* ------------------------------------------------------------- Commands */

typedef struct cli_command {
    const char *name;
    /* One line for `holdfast --help`. */
    const char *summary;
    /* The output of `holdfast NAME --help`: the usage and the command's own options. */
    const char *help;
    /* Run it with its own name as argv[0], and return the exit status. */
    int (*run)(int argc, char **argv);
} cli_command;

/* One command per file; main.c has the table, and names the command that runs. */
void cli_begin(const cli_command *command);
extern const cli_command cli_bench, cli_break, cli_deadlocks, cli_inspect, cli_ls, cli_members,
    cli_once, cli_run, cli_set, cli_top;

/* ------------------------------------------------------------ Arguments */

/* The long options of every command; they end its table for cli_option(). */
enum { CLI_OPTION_URL = 0x1000, CLI_OPTION_HELP, CLI_OPTION_OWN };
#define CLI_COMMON_OPTIONS                                                                         \
    {"url", required_argument, NULL, CLI_OPTION_URL},                                              \
        {"help", no_argument, NULL, CLI_OPTION_HELP}, {                                            \
        NULL, 0, NULL, 0                                                                           \
    }

/*
 * Call getopt_long(), handle the common options (--help prints and exits), and exit with a
 * message after a mistake. A command's own options without a letter begin at CLI_OPTION_OWN.
 * Put a + before the letters if options must precede the arguments.
 */
int cli_option(int argc, char **argv, const char *letters, const struct option *options);

/*
 * Parse a duration: a number, perhaps with a fraction, and ms, s, m, h or d; without a unit,
 * seconds. Exit with CLI_USAGE if the text is not a duration, or longer than HF_LEASE_MAX. A
 * duration above 0 is rounded up to 1 ms. `option` is for the message: "--timeout".
 */
int64_t cli_duration(const char *option, const char *text);
/* Parse the NUMBER/DURATION of --rate, which this divides in two, or exit with CLI_USAGE. */
void cli_rate(char *text, int64_t *number, int64_t *per_ms);
/* Parse a whole number within bounds, or exit with CLI_USAGE. */
int64_t cli_number(const char *option, const char *text, int64_t least, int64_t most);

/* ------------------------------------------------------------- Messages */

#if defined(__GNUC__)
#define CLI_FORMAT __attribute__((format(printf, 1, 2)))
#define CLI_NORETURN __attribute__((noreturn))
#else
#define CLI_FORMAT
#define CLI_NORETURN
#endif

/* Print "holdfast: ..." and a line end to stderr. */
CLI_FORMAT void cli_error(const char *format, ...);
/* Print an error as cli_error() does, unless stderr is full: while a command runs, a message may
 * delay no signal. Return whether it was printed. */
CLI_FORMAT bool cli_say(const char *format, ...);
/* Print an error as cli_error() does, with a hint at --help, and exit with CLI_USAGE. */
CLI_FORMAT CLI_NORETURN void cli_usage(const char *format, ...);

/* Flush stdout. Returns CLI_OK, or CLI_SYSTEM with a message: output that was not written must not
 * look like success. */
int cli_printed(void);

/* ----------------------------------------------------------------- Time */

/* Return milliseconds of a clock that continues during suspend, as the library's does. */
int64_t cli_now(void);
#define CLI_NEVER INT64_MAX
/* Open a descriptor that is readable from the set time on, until it is set again; -1 with errno. */
int cli_clock(void);
void cli_clock_set(int clock, int64_t at);

/* --------------------------------------------------------------- Server */

/* Return the URL of --url, else of HOLDFAST_URL, else redis://localhost:6379. */
const char *cli_url(void);
bool cli_is_quorum(void);
/* Use this URL, as if --url had given it. */
void cli_use_url(const char *url);
/* Open a client with that URL, and print the first one's warning, if it has one; or print the
 * error. Return CLI_OK, or the exit status. */
int cli_open(const hf_client_options *options, hf_client **client_out);
/* Return the word for the level of a finding. */
const char *cli_level(int level);
/* Return whether this process ignores the signal, as under nohup(1). */
bool cli_ignores(int signal);
/* Print this thread's last error of the library, and return the exit status for it. */
int cli_failed(hf_status status);
/* Return the exit status for a status of the library. */
int cli_status_of(hf_status status);

#endif
