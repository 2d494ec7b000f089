#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static const cli_command *current;
static const char *given_url;

void cli_begin(const cli_command *command) { current = command; }

/* -------------------------------------------------------------- Messages */

static void tell(const char *format, va_list arguments) {
    fputs("holdfast: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void cli_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tell(format, arguments);
    va_end(arguments);
}

bool cli_say(const char *format, ...) {
    va_list arguments;
    if (poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, 0) <= 0)
        return false;
    va_start(arguments, format);
    tell(format, arguments);
    va_end(arguments);
    return true;
}

CLI_NORETURN static void hint(void) {
    fprintf(stderr, "Try 'holdfast %s%s--help'.\n", current ? current->name : "",
            current ? " " : "");
    exit(CLI_USAGE);
}

void cli_usage(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tell(format, arguments);
    va_end(arguments);
    hint();
}

/* ------------------------------------------------------------- Arguments */

static const char common_help[] =
    "\nEvery command has these options:\n"
    "      --url URL            the server; default: the environment variable HOLDFAST_URL,\n"
    "                           or redis://localhost:6379\n"
    "      --help               print this help\n";

int cli_printed(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return CLI_OK;
    cli_error("cannot write: %s", strerror(errno));
    return CLI_SYSTEM;
}

int cli_option(int argc, char **argv, const char *letters, const struct option *options) {
    for (;;) {
        int option = getopt_long(argc, argv, letters, options, NULL);
        switch (option) {
        case CLI_OPTION_URL:
            given_url = optarg;
            break;
        case CLI_OPTION_HELP:
            printf("%s%s", current->help, common_help);
            exit(cli_printed());
        case '?':
            hint();
        default:
            return option;
        }
    }
}

int64_t cli_duration(const char *option, const char *text) {
    static const struct {
        const char *unit;
        double milliseconds;
    } units[] = {{"", 1e3}, {"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}};
    size_t digits = strspn(text, "0123456789.");
    char *end;
    double number = strtod(text, &end);
    /* strtod() also reads signs, exponents, hexadecimal numbers and names, which are refused. */
    if (digits > 0 && strpbrk(text, "0123456789") != NULL && end == text + digits)
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
            if (strcmp(end, units[i].unit) == 0) {
                double milliseconds = number * units[i].milliseconds;
                if (milliseconds > (double)HF_LEASE_MAX)
                    cli_usage("%s %s is too long: at most ten years", option, text);
                if (milliseconds > 0 && milliseconds < 1)
                    return 1;
                return (int64_t)(milliseconds + 0.5);
            }
    cli_usage("%s takes a duration like 500ms, 10s, 5m, 2h or 1d, not '%s'", option, text);
}

int64_t cli_number(const char *option, const char *text, int64_t least, int64_t most) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < least || number > most)
        cli_usage("%s takes a number from %lld to %lld, not '%s'", option, (long long)least,
                  (long long)most, text);
    return number;
}

void cli_rate(char *text, int64_t *number, int64_t *per_ms) {
    char *slash = strchr(text, '/');
    if (slash == NULL)
        cli_usage("--rate takes a number and a duration, such as 10/1m, not '%s'", text);
    *slash = '\0';
    *number = cli_number("--rate", text, 1, HF_PERMITS_MAX);
    *per_ms = cli_duration("--rate", slash + 1);
    if (*per_ms < HF_LEASE_MIN)
        cli_usage("--rate %s/%s is too short: at least 10ms", text, slash + 1);
}

/* ------------------------------------------------------------------ Time */

int64_t cli_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int cli_clock(void) { return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK); }

void cli_clock_set(int clock, int64_t at) {
    struct itimerspec time = {0}; /* off */
    if (at != CLI_NEVER) {
        at = at > 0 ? at : 1;
        time.it_value = (struct timespec){at / 1000, at % 1000 * 1000000};
    }
    timerfd_settime(clock, TFD_TIMER_ABSTIME, &time, NULL);
}

/* ---------------------------------------------------------------- Server */

const char *cli_url(void) {
    if (given_url)
        return given_url;
    const char *url = getenv("HOLDFAST_URL");
    return url && *url ? url : "redis://localhost:6379";
}

bool cli_is_quorum(void) { return strstr(cli_url(), "+quorum://") != NULL; }

void cli_use_url(const char *url) { given_url = url; }

int cli_open(const hf_client_options *options, hf_client **client_out) {
    static bool warned;
    hf_status status = hf_client_open(cli_url(), options, client_out);
    if (status != HF_OK)
        return cli_failed(status);
    const char *warning = hf_client_warning(*client_out);
    if (*warning != '\0' && !warned)
        cli_error("warning: %s", warning);
    warned = true;
    return CLI_OK;
}

const char *cli_level(int level) {
    return level == HF_FINDING_GOOD ? "good" : level == HF_FINDING_NOTE ? "note" : "warning";
}

bool cli_ignores(int signal) {
    struct sigaction inherited;
    return sigaction(signal, NULL, &inherited) == 0 && inherited.sa_handler == SIG_IGN;
}

int cli_status_of(hf_status status) {
    switch (status) {
    case HF_OK:
        return CLI_OK;
    case HF_EBUSY:
    case HF_ENOTHELD:
        return CLI_NO;
    case HF_EINVAL:
    case HF_ELIMIT:
        return CLI_USAGE;
    case HF_ETIMEOUT:
        return CLI_TIMEOUT;
    case HF_ELOST:
        return CLI_LOST;
    case HF_EAUTH:
        return CLI_DENIED;
    case HF_ECONNECT:
    case HF_EUNKNOWN:
    case HF_EREPLICAS:
        return CLI_UNREACHABLE;
    case HF_ESERVER:
    case HF_EPROTOCOL:
    case HF_EUNSUPPORTED:
        return CLI_SERVER;
    default:
        return CLI_SYSTEM;
    }
}

int cli_failed(hf_status status) {
    cli_error("%s", hf_error_message());
    return cli_status_of(status);
}
