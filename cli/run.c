/*
 * holdfast run: a command under a lock.
 *
 * One loop waits for signals, for completions of the library, and for the time of the next
 * action. All signals that end, stop or resume this process are blocked and read there.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli.h"
#include "job.h"

static const char help[] =
    "Usage: holdfast run [options] NAME [--] COMMAND [ARGUMENT...]\n"
    "       holdfast run [options] NAME -c STRING\n"
    "\n"
    "Wait for the lock NAME, hold it while COMMAND runs, and exit with its status.\n"
    "A DURATION is in seconds, or has a unit: 500ms, 10s, 5m, 2h, 1d.\n"
    "\n"
    "  -w, --timeout DURATION   how long to wait for the lock; default: no limit\n"
    "  -n, --nonblock           do not wait\n"
    "  -E, --conflict-exit-code NUMBER\n"
    "                           exit status if others hold the lock; default: 1 with -n, 75\n"
    "                           after a timeout\n"
    "  -c, --command STRING     run STRING in a shell\n"
    "      --shell[=SHELL]      the shell for -c, /bin/sh if SHELL is omitted; default: the\n"
    "                           environment variable SHELL, or /bin/sh\n"
    "      --lease DURATION     how long the lock may outlive a crash; it is renewed while\n"
    "                           COMMAND runs; default: 10s\n"
    "      --on-lost kill|term|ignore\n"
    "                           if the lock is lost, kill: send TERM, and KILL before others can\n"
    "                           acquire it; term: only TERM; ignore: only print a message;\n"
    "                           default: kill\n"
    "      --max-hold DURATION  send TERM to COMMAND after DURATION, then KILL\n"
    "  -k, --kill-after DURATION\n"
    "                           the time from TERM to KILL, at most half of the lease; default:\n"
    "                           a third of the lease, at most 10s\n"
    "      --once-per DURATION  if COMMAND exits with 0, hold the lock until DURATION after its\n"
    "                           acquire; if others hold the lock, exit with 0\n"
    "  -s, --shared             hold the lock shared: only exclusive holders are excluded\n"
    "  -x, --exclusive          hold the lock exclusively (the default); also -e\n"
    "      --permits NUMBER     hold the lock shared, with at most NUMBER holders\n"
    "      --weight NUMBER      take NUMBER of the permits instead of one\n"
    "      --ahead DURATION     queue as if the command had arrived DURATION earlier, at most 1h\n"
    "      --rate NUMBER/DURATION\n"
    "                           hold nothing, but run at most NUMBER commands in any DURATION\n"
    "      --gate               the same, with the rate that is stored with NAME\n"
    "      --owner OWNER        hold the lock as OWNER, which may already hold it; default: a\n"
    "                           new owner\n"
    "      --note TEXT          what the lock is held for, shown beside the owner\n"
    "  -q, --quiet              do not report that others hold the lock\n"
    "  -v, --verbose            report when the lock is acquired, and with -n when it is not\n"
    "\n"
    "COMMAND has HOLDFAST_NAME, HOLDFAST_OWNER and HOLDFAST_FENCE in its environment.\n"
    "\n"
    "Exit with the status of COMMAND, 128 + N if signal N ended COMMAND or the wait, or\n"
    "   1  others hold the lock (-n)         76  the server returned an error\n"
    "  64  bad usage                         77  the server rejected the user or password\n"
    "  69  the server cannot be reached      79  the lock was lost\n"
    "  71  system error                      80  COMMAND ran longer than --max-hold\n"
    "  75  timeout (-w)                     126, 127  COMMAND cannot run, or is not found\n";

/* Options without a letter. */
enum {
    SHELL = CLI_OPTION_OWN,
    LEASE,
    MAX_HOLD,
    ON_LOST,
    OWNER,
    ONCE_PER,
    PERMITS,
    RATE,
    NOTE,
    WEIGHT,
    AHEAD,
    GATE
};

/* The number of the acquire's operation. */
enum { OP = 1 };

typedef enum { KILL, TERM, IGNORE } run_on_lost;
typedef enum { GOES_ON, LOST, OVERDUE } run_ending;

typedef struct run_wish {
    const char *name, *owner, *note; /* note: or "" */
    char **command;
    const char *shell, *string; /* -c: run the string in the shell, instead of the command */
    int64_t timeout_ms, lease_ms, max_hold_ms, kill_after_ms, once_ms;
    int64_t permits;   /* 0: no limit */
    int64_t weight;    /* of the permits; 0: not given */
    int64_t ahead_ms;  /* 0: not given */
    int64_t per_ms;    /* --rate: the permits pass in this time; HF_STORED: --gate; 0: not given */
    bool rate, gate;   /* they were given */
    const char *holds; /* an option that does nothing with --rate and --gate; or NULL */
    int conflict;      /* exit status of -E; -1: not given */
    run_on_lost on_lost;
    bool waits, shared, quiet, verbose;
} run_wish;

typedef struct run_state {
    const run_wish *wish;
    hf_client *client;
    hf_lock *lock;
    hf_hold *hold;
    char own[HF_DEFAULT_OWNER_MAX];
    const char *owner;
    sigset_t mask; /* inherited from the parent */
    sigset_t ends; /* the signals that end this process while no command runs */
    int signals, clock;
    cli_guard guard;
    guard_order order, told;
    cli_job job;
    int64_t taken_at;
    int64_t gone_at; /* when the lock was found to be taken away; or CLI_NEVER */
    run_ending ending;
    int64_t term_at; /* when TERM was sent; or CLI_NEVER */
    bool killed, told_lost, passed;
    int typed; /* the signal of a typed Ctrl-C or Ctrl-\; or 0 */
} run_state;

/* --------------------------------------------------------------- Arguments */

static run_on_lost read_on_lost(const char *text) {
    static const char *const names[] = {"kill", "term", "ignore"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0)
            return (run_on_lost)i;
    cli_usage("--on-lost takes kill, term or ignore, not '%s'", text);
}

/* Return the option's name if it concerns a lock that is held; or NULL. */
static const char *about_hold(int option) {
    switch (option) {
    case 'k':
        return "--kill-after";
    case 's':
        return "--shared";
    case 'e':
    case 'x':
        return "--exclusive";
    case LEASE:
        return "--lease";
    case MAX_HOLD:
        return "--max-hold";
    case ON_LOST:
        return "--on-lost";
    case OWNER:
        return "--owner";
    case NOTE:
        return "--note";
    case ONCE_PER:
        return "--once-per";
    case PERMITS:
        return "--permits";
    default:
        return NULL;
    }
}

static void read_option(run_wish *wish, int option) {
    const char *holds = about_hold(option);
    wish->holds = holds != NULL ? holds : wish->holds;
    switch (option) {
    case 'w':
        wish->timeout_ms = cli_duration("--timeout", optarg);
        wish->waits = true;
        break;
    case 'n':
        wish->timeout_ms = 0;
        break;
    case 'E':
        wish->conflict = (int)cli_number("--conflict-exit-code", optarg, 0, 255);
        break;
    case 'c':
        wish->string = optarg;
        break;
    case 'k':
        wish->kill_after_ms = cli_duration("--kill-after", optarg);
        break;
    case 's':
        wish->shared = true;
        break;
    case 'e':
    case 'x':
        wish->shared = false;
        break;
    case 'F':
        cli_usage("--no-fork is not possible: a separate process holds and renews the lock while "
                  "COMMAND runs");
    case 'q':
        wish->quiet = true;
        break;
    case 'v':
        wish->verbose = true;
        break;
    case SHELL:
        wish->shell = optarg != NULL ? optarg : "/bin/sh";
        break;
    case LEASE:
        wish->lease_ms = cli_duration("--lease", optarg);
        if (wish->lease_ms < HF_LEASE_MIN)
            cli_usage("--lease %s is too short: at least 10ms", optarg);
        break;
    case MAX_HOLD:
        wish->max_hold_ms = cli_duration("--max-hold", optarg);
        if (wish->max_hold_ms == 0)
            cli_usage("--max-hold must be longer than 0");
        break;
    case ON_LOST:
        wish->on_lost = read_on_lost(optarg);
        break;
    case PERMITS:
        wish->permits = cli_number("--permits", optarg, 1, HF_PERMITS_MAX);
        wish->shared = true;
        break;
    case WEIGHT:
        wish->weight = cli_number("--weight", optarg, 1, HF_PERMITS_MAX);
        break;
    case AHEAD:
        wish->ahead_ms = cli_duration("--ahead", optarg);
        if (wish->ahead_ms == 0 || wish->ahead_ms > HF_AHEAD_MAX)
            cli_usage("--ahead %s: it takes more than 0, and at most 1h", optarg);
        break;
    case RATE:
        cli_rate(optarg, &wish->permits, &wish->per_ms);
        wish->rate = wish->shared = true;
        break;
    case GATE:
        wish->per_ms = HF_STORED;
        wish->gate = wish->shared = true;
        break;
    case OWNER:
        wish->owner = optarg;
        break;
    case NOTE:
        wish->note = optarg;
        break;
    case ONCE_PER:
        wish->once_ms = cli_duration("--once-per", optarg);
        if (wish->once_ms == 0)
            cli_usage("--once-per must be longer than 0");
        break;
    }
}

static void read_options(run_wish *wish, int argc, char **argv) {
    static const struct option options[] = {
        {"timeout", required_argument, NULL, 'w'},
        {"wait", required_argument, NULL, 'w'}, /* the name in flock(1) */
        {"nonblock", no_argument, NULL, 'n'},
        {"conflict-exit-code", required_argument, NULL, 'E'},
        {"command", required_argument, NULL, 'c'},
        {"kill-after", required_argument, NULL, 'k'},
        {"shared", no_argument, NULL, 's'},
        {"exclusive", no_argument, NULL, 'x'},
        {"no-fork", no_argument, NULL, 'F'}, /* of flock(1); refused */
        {"quiet", no_argument, NULL, 'q'},
        {"verbose", no_argument, NULL, 'v'},
        {"shell", optional_argument, NULL, SHELL},
        {"lease", required_argument, NULL, LEASE},
        {"max-hold", required_argument, NULL, MAX_HOLD},
        {"on-lost", required_argument, NULL, ON_LOST},
        {"owner", required_argument, NULL, OWNER},
        {"note", required_argument, NULL, NOTE},
        {"once-per", required_argument, NULL, ONCE_PER},
        {"permits", required_argument, NULL, PERMITS},
        {"weight", required_argument, NULL, WEIGHT},
        {"ahead", required_argument, NULL, AHEAD},
        {"rate", required_argument, NULL, RATE},
        {"gate", no_argument, NULL, GATE},
        CLI_COMMON_OPTIONS,
    };
    for (int option; (option = cli_option(argc, argv, "+w:nE:c:k:sxeFqv", options)) >= 0;)
        read_option(wish, option);
}

/* Read options before and after the name, as flock(1) accepts its -c. */
static void read_arguments(run_wish *wish, int argc, char **argv) {
    read_options(wish, argc, argv);
    if (optind < argc)
        wish->name = argv[optind++];
    bool dashes = optind < argc && strcmp(argv[optind], "--") == 0;
    if (dashes)
        optind++;
    else if (optind < argc)
        read_options(wish, argc, argv);
    wish->command = argv + optind;
    if (wish->name == NULL)
        cli_usage("run needs the name of a lock and a command");
    if (wish->string != NULL && wish->command[0] != NULL)
        cli_usage("-c takes a single string: quote '%s' as part of it", wish->command[0]);
    if (wish->string == NULL && wish->command[0] == NULL)
        cli_usage("run needs a command");
    if (wish->string == NULL && wish->shell != NULL)
        cli_usage("--shell needs -c");
    if (wish->per_ms != 0 && wish->holds != NULL)
        cli_usage("%s does nothing with --rate and --gate, which hold no lock", wish->holds);
    if (wish->gate && wish->rate)
        cli_usage("--gate follows the stored rate, and --rate gives another: give one of them");
    if (wish->weight > 0 && !wish->shared)
        cli_usage("--weight needs --permits; or --shared, for the number that is stored");
    if (wish->permits > 0 && wish->weight > wish->permits)
        cli_usage("--weight %lld is more than the %lld permits: it would wait for ever",
                  (long long)wish->weight, (long long)wish->permits);
    if (wish->kill_after_ms < 0) {
        wish->kill_after_ms = wish->lease_ms / 3;
        if (wish->kill_after_ms > 10000)
            wish->kill_after_ms = 10000;
    }
    if (wish->kill_after_ms > wish->lease_ms / 2)
        cli_usage("--kill-after can be at most half of the lease: %lld ms",
                  (long long)wish->lease_ms / 2);
    if (wish->once_ms > 0 && !wish->waits)
        wish->timeout_ms = 0;
    if (wish->ahead_ms > 0 && wish->timeout_ms == 0)
        cli_usage("--ahead does nothing for a command that does not wait for the lock");
}

/* Return the command, or, for -c, the shell with the string, as flock(1) does. */
static char **command_of(const run_wish *wish, char *words[4]) {
    if (wish->string == NULL)
        return wish->command;
    const char *shell = wish->shell != NULL ? wish->shell : getenv("SHELL");
    words[0] = (char *)(shell != NULL && *shell ? shell : "/bin/sh");
    words[1] = (char *)"-c";
    words[2] = (char *)wish->string;
    words[3] = NULL;
    return words;
}

/* ------------------------------------------------------------------ Signals */

static const int endings[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/* Block the signals, and open a descriptor for them. Linux queues a blocked signal even if it is
 * ignored, as under nohup(1): the command may handle that signal, but it must not end a wait. */
static int block_signals(run_state *run) {
    sigset_t blocked, read;
    sigemptyset(&blocked);
    sigemptyset(&run->ends);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        sigaddset(&blocked, endings[i]);
        if (!cli_ignores(endings[i]))
            sigaddset(&run->ends, endings[i]);
    }
    sigaddset(&blocked, SIGCHLD);
    sigaddset(&blocked, SIGCONT);
    sigaddset(&blocked, SIGWINCH);
    read = blocked;
    sigaddset(&read, SIGTSTP);    /* not blocked yet: Ctrl-Z stops the wait */
    sigaddset(&blocked, SIGPIPE); /* a closed stderr must not end this process */
    sigaddset(&blocked, SIGTTOU); /* job.c */
    signal(SIGCHLD, SIG_DFL);     /* if ignored, there would be no exit status */
    sigprocmask(SIG_BLOCK, &blocked, &run->mask);
    return signalfd(-1, &read, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void block_stop(void) {
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    sigprocmask(SIG_BLOCK, &stop, NULL);
}

/* Return the next pending signal, or 0. */
static int next_signal(run_state *run) {
    struct signalfd_siginfo info;
    if (read(run->signals, &info, sizeof info) != sizeof info)
        return 0;
    if (info.ssi_code == SI_KERNEL && (info.ssi_signo == SIGINT || info.ssi_signo == SIGQUIT))
        run->typed = (int)info.ssi_signo;
    return (int)info.ssi_signo;
}

/* Die of a typed signal as the command did: a shell ends its script after Ctrl-C only if the signal
 * killed its command. The exit status is the same. */
static void die_as_typed(const run_state *run) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(run->typed, SIG_DFL);
    raise(run->typed);
    sigprocmask(SIG_SETMASK, &run->mask, NULL);
}

static bool is_end(int signal) {
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (endings[i] == signal)
            return true;
    return false;
}

/* Sleep until a signal, a completion of the library, or the time of the clock. */
static void sleep_on(const run_state *run) {
    struct pollfd fds[] = {{.fd = run->signals, .events = POLLIN},
                           {.fd = hf_client_fd(run->client), .events = POLLIN},
                           {.fd = run->clock, .events = POLLIN}};
    poll(fds, 3, -1);
}

/* ------------------------------------------------------------------ Acquire */

/* Report that others hold the lock, and return the exit status. */
static int refused(const run_state *run, const hf_completion *completion) {
    const run_wish *wish = run->wish;
    bool busy = completion->status == HF_EBUSY && wish->timeout_ms == 0;
    int status = busy ? CLI_NO : CLI_TIMEOUT;
    if (wish->per_ms != 0) {
        if (wish->verbose || (!busy && !wish->quiet))
            cli_error("the rate of '%s' is used up: no pass is free", wish->name);
    } else if (wish->once_ms > 0) {
        if (!wish->quiet)
            cli_error("'%s' already ran in this period or is running: nothing to do", wish->name);
        status = CLI_OK;
    } else if (wish->verbose || (!busy && !wish->quiet)) { /* flock -n is silent */
        cli_error("%s", completion->error.message);
    }
    return wish->conflict >= 0 ? wish->conflict : status;
}

/* Return true if the lock is held, or set *result to the exit status. */
static bool acquired(run_state *run, const hf_completion *completion, int signal, int *result) {
    run->hold = completion->hold;
    if (signal != 0) {
        *result = CLI_SIGNAL + signal;
    } else if (completion->status == HF_EBUSY || completion->status == HF_ETIMEOUT) {
        *result = refused(run, completion);
    } else if (completion->status != HF_OK) {
        cli_error("%s", completion->error.message);
        *result = cli_status_of(completion->status);
    } else {
        /* Several masters may refuse the period. Set it back: a release keeps the lock only after
         * success. */
        hf_status status = hf_hold_keep_at_least(run->hold, run->wish->once_ms);
        hf_hold_keep_at_least(run->hold, 0);
        if (status == HF_OK)
            return true;
        *result = cli_failed(status);
    }
    return false;
}

/* Acquire the lock; return the same as acquired(). */
static bool acquire(run_state *run, int *result) {
    int came = 0;
    hf_completion completion;
    /* Without this flag, less of the lease may be left than ending a command takes. */
    hf_acquire_options options = {.size = sizeof options, .flags = HF_ACQUIRE_WHOLE};
    /* hf_client_fd() also enables completions for losses. */
    int64_t since = cli_now(), left_ms = run->wish->timeout_ms;
    hf_status status = hf_client_fd(run->client) >= 0 ? HF_OK : HF_ENOMEM;
    do { /* again if it is lost before the command begins */
        if (status == HF_OK)
            status = hf_lock_acquire_start(run->lock, run->owner, strlen(run->owner), left_ms,
                                           &options, OP);
        if (status != HF_OK) {
            *result = cli_failed(status);
            return false;
        }
        completion = (hf_completion){.size = sizeof completion};
        while (completion.kind != HF_KIND_ACQUIRE) {
            sleep_on(run);
            for (int signal; (signal = next_signal(run)) != 0;)
                if (sigismember(&run->ends, signal)) {
                    came = signal;
                    hf_op_cancel(run->client, OP);
                }
            hf_client_next(run->client, &completion); /* or none: wait again */
        }
        run->taken_at = cli_now();
        int64_t spent_ms = run->taken_at - since;
        if (left_ms > 0)
            left_ms = spent_ms < run->wish->timeout_ms ? run->wish->timeout_ms - spent_ms : 0;
    } while (completion.status == HF_ELOST && came == 0);
    if (!acquired(run, &completion, came, result))
        return false;
    if (run->wish->verbose)
        cli_error("lock '%s' was acquired after %lld ms, fence %lld", run->wish->name,
                  (long long)(run->taken_at - since), (long long)hf_hold_fence(run->hold));
    return true;
}

/* --------------------------------------------------------------- Environment */

static char *variable(const char *name, const char *value, const char *note) {
    const char *mark = *note != '\0' ? HF_NOTE_MARK : "";
    char *text = malloc(strlen(name) + strlen(value) + strlen(mark) + strlen(note) + 2);
    if (text != NULL)
        sprintf(text, "%s=%s%s%s", name, value, mark, note);
    return text;
}

/* Return the environment with three more variables; NULL: out of memory. */
static char **make_environment(const run_state *run, char *ours[3]) {
    char fence[24];
    size_t count = 0, kept = 3;
    snprintf(fence, sizeof fence, "%lld", (long long)hf_hold_fence(run->hold));
    ours[0] = variable("HOLDFAST_NAME", run->wish->name, "");
    ours[1] = variable("HOLDFAST_OWNER", run->owner, run->wish->note);
    ours[2] = variable("HOLDFAST_FENCE", fence, "");
    while (environ[count] != NULL)
        count++;
    char **all = calloc(count + 4, sizeof *all);
    if (all == NULL || ours[0] == NULL || ours[1] == NULL || ours[2] == NULL) {
        free(all);
        return NULL;
    }
    memcpy(all, ours, 3 * sizeof *all);
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "HOLDFAST_NAME=", 14) != 0 &&
            strncmp(environ[i], "HOLDFAST_OWNER=", 15) != 0 &&
            strncmp(environ[i], "HOLDFAST_FENCE=", 15) != 0)
            all[kept++] = environ[i];
    return all;
}

/* -------------------------------------------------------------------- Watch */

static int64_t earlier(int64_t one, int64_t other) { return one < other ? one : other; }

static int64_t after(int64_t time, int64_t ms) { return time == CLI_NEVER ? time : time + ms; }

/* A killed process may still run for a moment. */
static int64_t margin(const run_wish *wish) { return earlier(100, wish->lease_ms / 20); }

/* Return the time until which the lock is certainly held; CLI_NEVER if the command may ignore it.
 * After the lock was taken away, return the end of --kill-after, and the margin. */
static int64_t lock_ends(run_state *run, int64_t now) {
    if (run->wish->on_lost == IGNORE)
        return CLI_NEVER;
    if (run->gone_at == CLI_NEVER && hf_hold_cause(run->hold) == HF_CAUSE_GONE)
        run->gone_at = now;
    if (run->gone_at != CLI_NEVER)
        return run->gone_at + run->wish->kill_after_ms + margin(run->wish);
    int64_t left = hf_hold_remaining_ms(run->hold);
    return left == HF_NEVER ? CLI_NEVER : now + left;
}

static void end_command(run_state *run, run_ending why, int64_t now) {
    static const char *const fates[] = {"killing its command", "sending TERM to its command"};
    bool sent = job_signal(&run->job, SIGTERM);
    job_signal(&run->job, SIGCONT); /* a stopped command handles SIGTERM only after SIGCONT */
    run->ending = why;
    run->term_at = now;
    if (why == OVERDUE)
        cli_say("the command under lock '%s' has run longer than --max-hold", run->wish->name);
    else if (run->gone_at != CLI_NEVER)
        cli_say("lock '%s' was taken away: %s", run->wish->name, fates[1]);
    else
        cli_say("lock '%s' could not be renewed: %s", run->wish->name,
                fates[run->wish->on_lost != KILL || hf_hold_state(run->hold) == HF_STATE_HELD]);
    if (!sent)
        cli_say("cannot end the command: it is another user's");
}

/* Check the lock and the time: send signals that are due, set the clock for the next check, and
 * update the guard. */
static void look_after(run_state *run) {
    const run_wish *wish = run->wish;
    int64_t now = cli_now(), next, ends = lock_ends(run, now), kill_at = CLI_NEVER;
    int64_t over = wish->max_hold_ms > 0 ? run->taken_at + wish->max_hold_ms : CLI_NEVER;
    int64_t last = after(ends, -margin(wish)), soon = after(last, -wish->kill_after_ms);
    if (run->ending == GOES_ON && now >= earlier(soon, over))
        end_command(run, now >= over ? OVERDUE : LOST, now);
    if (wish->on_lost == KILL) /* also if the lock is renewed after TERM */
        kill_at = earlier(last, after(run->term_at, wish->kill_after_ms));
    kill_at = earlier(kill_at, after(over, wish->kill_after_ms));
    if (now >= kill_at && !run->killed) {
        job_signal(&run->job, SIGKILL);
        run->killed = true;
    }
    run->order.kill_at = after(kill_at, margin(wish));
    if (memcmp(&run->order, &run->told, sizeof run->order) != 0)
        guard_tell(&run->guard, &run->order);
    run->told = run->order;
    next = run->ending == GOES_ON ? earlier(soon, over) : run->killed ? CLI_NEVER : kill_at;
    if (run->job.ended && run->ending != GOES_ON)
        next = earlier(next, now + 20); /* check whether the group has ended, too */
    cli_clock_set(run->clock, next);
}

static int start(run_state *run) {
    char *words[4], *ours[3];
    char **environment = make_environment(run, ours);
    char **command = command_of(run->wish, words);
    int result = CLI_OK;
    /* The child's order may reach the guard after a newer order of this process. */
    if (run->wish->on_lost == KILL)
        run->order.kill_at = lock_ends(run, cli_now());
    if (environment == NULL ||
        job_start(&run->job, command, environment, &run->mask, &run->guard, &run->order) != 0) {
        cli_error("cannot start a process: %s", strerror(errno));
        result = CLI_SYSTEM;
    }
    for (int i = 0; i < 3; i++)
        free(ours[i]);
    free(environment);
    return result;
}

static void hear(run_state *run) {
    hf_completion completion = {.size = sizeof completion};
    while (hf_client_next(run->client, &completion) == HF_OK && completion.kind != HF_KIND_NONE)
        if (completion.kind == HF_KIND_LOSS && run->wish->on_lost == IGNORE) {
            run->told_lost = /* otherwise the release reports it */
                cli_say("lock '%s' was lost; its command continues", run->wish->name);
        } else if (completion.kind == HF_KIND_TROUBLE || completion.kind == HF_KIND_FAILOVER) {
            cli_say("%s", completion.error.message);
        }
}

static void pass_on(run_state *run, int signal) {
    if (signal == SIGCHLD) {
        look_after(run); /* first: job_look() may stop this process */
        job_look(&run->job);
    } else if (run->job.ended) {
        /* Not a stop: no shell would notice it. */
        if (is_end(signal) && !job_signal(&run->job, signal))
            run->killed = true; /* as far as it can be */
    } else if (signal == SIGCONT) {
        look_after(run); /* the command must not resume without the lock */
        job_resume(&run->job);
    } else {
        job_signal(&run->job, signal);
    }
}

/* The rest of the group received the same signals; KILL certainly ends it. */
static bool is_over(const run_state *run) {
    return run->job.ended && (run->ending == GOES_ON || run->killed || !job_alive(&run->job));
}

static void watch(run_state *run) {
    for (;;) {
        hear(run);
        look_after(run);
        if (is_over(run))
            return;
        sleep_on(run);
        for (int signal; !is_over(run) && (signal = next_signal(run)) != 0;)
            pass_on(run, signal);
    }
}

/* --------------------------------------------------------------------- End */

/* Keep the lock for the rest of the period. If the server does not respond, try again for as long
 * as the lock is still held and renewed. */
static hf_status keep(run_state *run) {
    struct pollfd signals = {.fd = run->signals, .events = POLLIN};
    hf_hold_keep_at_least(run->hold, run->wish->once_ms);
    for (;;) {
        hf_status status = hf_hold_release(run->hold);
        if (status == HF_OK || hf_hold_remaining_ms(run->hold) == 0)
            return status;
        poll(&signals, 1, 100);
        for (int signal; (signal = next_signal(run)) != 0;)
            if (sigismember(&run->ends, signal))
                return status;
    }
}

/* The guard may have killed the command because of an old order while this process was stopped,
 * although the lock was renewed after that order. */
static run_ending ending_by_guard(const run_state *run) {
    int64_t killed_at = guard_killed_at(&run->guard);
    if (killed_at == 0)
        return GOES_ON;
    int64_t most_ms = run->wish->max_hold_ms;
    return most_ms > 0 && killed_at >= run->taken_at + most_ms ? OVERDUE : LOST;
}

static int finish(run_state *run) {
    int result = job_status(&run->job);
    /* The command has ended, and the lease may end before the release is answered. */
    guard_dismiss(&run->guard);
    if (run->ending == GOES_ON)
        run->ending = ending_by_guard(run);
    if (run->ending == LOST)
        return CLI_LOST;
    bool done = result == 0 && run->ending == GOES_ON;
    hf_status status = done && run->wish->once_ms > 0 ? keep(run) : hf_hold_release(run->hold);
    if (status != HF_OK && !run->told_lost)
        cli_error("%s", hf_error_message());
    if (run->ending == OVERDUE)
        return CLI_OVERDUE;
    if (status == HF_ELOST && run->wish->on_lost != IGNORE)
        return CLI_LOST;
    return result; /* otherwise the result of the command counts */
}

/* Take a pass of a gate: a hold that ends with its lease, however long this process lives. */
static int pass(run_state *run) {
    char token[HF_TOKEN_MAX];
    size_t length;
    /* After a wait the hold does not have its whole lease yet. */
    hf_status status = run->wish->timeout_ms != 0 ? hf_hold_renew(run->hold) : HF_OK;
    if (status == HF_OK)
        status = hf_hold_hand_over(run->hold, token, sizeof token, &length);
    run->passed = status == HF_OK;
    return status == HF_OK ? CLI_OK : cli_failed(status);
}

/* Acquire the lock and run the command. A hold that is left is released with the client. */
static int run_command(run_state *run) {
    int result;
    if (!acquire(run, &result))
        return result;
    if (run->wish->per_ms != 0)
        return pass(run);
    block_stop();
    result = start(run);
    if (result != CLI_OK)
        return result;
    watch(run);
    result = finish(run);
    job_close(&run->job);
    return result;
}

static int with_lock(run_state *run) {
    const run_wish *wish = run->wish;
    hf_client_options client = {.size = sizeof client, .lazy = HF_ON, .trouble = HF_ON};
    hf_lock_options lock = {.size = sizeof lock,
                            .lease_ms = wish->lease_ms,
                            .ahead_ms = wish->ahead_ms,
                            .note = wish->note,
                            .note_len = strlen(wish->note)};
    if (wish->shared) {
        lock.mode = HF_SHARED;
        lock.permits = wish->permits;
        lock.weight = wish->weight;
    }
    if (wish->once_ms > 0 || wish->per_ms != 0)
        lock.reentrant = HF_OFF; /* a kept lock is busy for its owner, too */
    if (wish->per_ms != 0) {
        lock.lease_ms = wish->per_ms;
        lock.renew = HF_OFF;
    }
    int result = cli_open(&client, &run->client);
    if (result != CLI_OK)
        return result;
    run->owner = wish->owner;
    hf_status status = HF_OK;
    if (run->owner == NULL) {
        status = hf_client_owner(run->client, 't', 0, run->own, sizeof run->own);
        run->owner = run->own;
    }
    if (status == HF_OK)
        status = hf_lock_open(run->client, wish->name, strlen(wish->name), run->owner,
                              strlen(run->owner), &lock, &run->lock);
    result = status == HF_OK ? run_command(run) : cli_failed(status);
    hf_client_close(run->client); /* first: closing the hold would leave it unreleased */
    hf_hold_close(run->hold);
    hf_lock_close(run->lock);
    return result;
}

static int run(int argc, char **argv) {
    run_wish wish = {.timeout_ms = HF_FOREVER,
                     .lease_ms = HF_LEASE_DEFAULT,
                     .kill_after_ms = -1,
                     .conflict = -1,
                     .note = ""};
    run_state run = {
        .wish = &wish, .order = {.kill_at = CLI_NEVER}, .gone_at = CLI_NEVER, .term_at = CLI_NEVER};
    read_arguments(&wish, argc, argv);
    static const int orders[] = {[KILL] = SIGKILL, [TERM] = SIGTERM, [IGNORE] = 0};
    run.order.signal = orders[wish.on_lost];
    /* Start the guard first: it must not inherit connections. */
    if (guard_start(&run.guard) != 0 || (run.signals = block_signals(&run)) < 0 ||
        (run.clock = cli_clock()) < 0) {
        cli_error("cannot start: %s", strerror(errno));
        return CLI_SYSTEM;
    }
    int result = with_lock(&run);
    guard_end(&run.guard);
    if (run.passed) {
        char *words[4];
        job_become(command_of(&wish, words), environ, &run.mask);
    }
    if (run.job.typed != 0)
        run.typed = run.job.typed;
    if (run.typed != 0 && result == CLI_SIGNAL + run.typed)
        die_as_typed(&run);
    return result;
}

const cli_command cli_run = {"run", "run a command under a lock", help, run};
