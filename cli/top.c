/* holdfast top: all locks, live. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "live.h"
#include "terminal.h"

static const char help[] =
    "Usage: holdfast top [options] [PATTERN]\n"
    "\n"
    "Show the locks that are held or waited for, live, on every node of a cluster: all of\n"
    "them, or those whose names match PATTERN, as for ls. Press h for the keys; b takes a lock\n"
    "away from its holder, after a confirmation. top also shows its own cost for the server.\n"
    "\n"
    "  -d, --delay DURATION     refresh every DURATION, at least 100ms; default: 2s. If reading\n"
    "                           all keys takes longer, only the locks on the screen are\n"
    "                           refreshed in between\n"
    "  -o, --sort KEY           waiters, held, waited, remaining, name, fence or call; default:\n"
    "                           waiters\n"
    "  -r, --reverse            reverse the order\n"
    "  -b, --batch              print snapshots, without a terminal\n"
    "  -n, --iterations NUMBER  exit after NUMBER snapshots; without -b, after all keys have been\n"
    "                           read NUMBER times\n" LOOK_FILTERS_HELP LOOK_ONCE_HELP
    "      --json               with -b: print each snapshot as one object on one line\n"
    "      --rate NUMBER        as for ls, but always with a limit; default: 500\n"
    "\n"
    "Exit status: 0; with -b, the last snapshot's: 69 and others as in the manual.\n";

typedef struct command {
    watch watch;
    picture picture;
    row_key key;
    bool reverse, batch;
    int64_t iterations; /* 0: no limit */
} command;

/* ------------------------------------------------------------------ Batch */

static void print_json(const command *it) {
    const watch *of = &it->watch;
    json_t *object = show_json_object(), *locks = show_json_array();
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    show_json_number(object, "time_ms", (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    show_json_bool(object, "complete", of->trouble.length == 0);
    if (of->trouble.length > 0)
        show_json_text(object, "error", of->trouble.bytes);
    show_json_number(object, "walk_ms", of->walk_ms);
    show_json_number(object, "commands", of->progress.commands);
    show_json_set(object, "commands_per_second", json_real(it->picture.per_second));
    show_json_set(object, "server_share", json_real(it->picture.share));
    for (size_t i = 0; i < it->picture.count; i++)
        show_json_append(locks, json_incref(it->picture.entries[i]->json));
    show_json_set(object, "locks", locks);
    show_json_line(object);
}

static void print_line(show_text *line) {
    puts(line->bytes);
    show_clear(line);
}

static void print_text(const command *it) {
    const watch *of = &it->watch;
    row_layout layout = row_fit(show_columns(), it->key == ROW_FENCE);
    show_text line = {0};
    picture_add_counts(&line, &it->picture);
    print_line(&line);
    picture_add_cost(&line, &it->picture, of);
    print_line(&line);
    row_add_head(&line, &layout);
    print_line(&line);
    for (size_t i = 0; i < it->picture.count; i++) {
        row_add(&line, &layout, it->picture.entries[i]->row, cli_now());
        print_line(&line);
    }
    putchar('\n');
    show_free(&line);
}

static int print_pictures(command *it) {
    watch *of = &it->watch;
    for (int64_t i = 0; it->iterations == 0 || i < it->iterations; i++) {
        if (i > 0) {
            int64_t ms = of->began_at + of->delay_ms - cli_now();
            poll(NULL, 0, ms > 0 ? (int)ms : 0);
        }
        watch_walk(of);
        picture_measure(&it->picture, of, 1);
        picture_take(&it->picture, of);
        if (of->trouble.length > 0)
            cli_error("%s", of->trouble.bytes);
        if (of->json)
            print_json(it);
        else
            print_text(it);
        if (fflush(stdout) != 0)
            return CLI_OK; /* main() reports the error */
    }
    return of->trouble_result;
}

static int run_batch(command *it) {
    picture_open(&it->picture, it->key, it->reverse);
    int result = print_pictures(it);
    picture_close(&it->picture);
    return result;
}

/* ------------------------------------------------------------------- Live */

static int run_live(command *it) {
    show_text why = {0};
    if (!term_open(&why)) {
        cli_error("%s", why.bytes);
        show_free(&why);
        return CLI_USAGE;
    }
    int result = CLI_SYSTEM;
    if (watch_start(&it->watch))
        result = live_run(&it->watch, it->key, it->reverse, it->iterations);
    term_close();
    if (!it->watch.started)
        cli_error("cannot start a thread: %s", strerror(errno));
    if (!watch_end(&it->watch))
        _exit(result); /* its thread still waits for a server */
    return result;
}

/* ------------------------------------------------------------ The command */

static row_key key_named(const char *name) {
    for (int i = 0; i < ROW_KEYS; i++)
        if (strcmp(name, row_key_names[i]) == 0)
            return (row_key)i;
    cli_usage("--sort takes waiters, held, waited, remaining, name, fence or call, not '%s'", name);
}

static void read_options(command *it, int argc, char **argv) {
    static const struct option options[] = {
        LOOK_FILTERS,
        {"rate", required_argument, NULL, LOOK_RATE},
        {"once", no_argument, NULL, LOOK_ONCE},
        {"delay", required_argument, NULL, 'd'},
        {"sort", required_argument, NULL, 'o'},
        {"reverse", no_argument, NULL, 'r'},
        {"batch", no_argument, NULL, 'b'},
        {"iterations", required_argument, NULL, 'n'},
        CLI_COMMON_OPTIONS,
    };
    watch *of = &it->watch;
    for (int option; (option = cli_option(argc, argv, "d:o:rbn:", options)) >= 0;) {
        look_filters(&of->filter, option);
        if (option == LOOK_RATE)
            of->rate = cli_number("--rate", optarg, 1, 1000000);
        if (option == LOOK_ONCE)
            of->flags = HF_LOCKS_RECORDS;
        if (option == 'd')
            of->delay_ms = cli_duration("--delay", optarg);
        if (option == 'o')
            it->key = key_named(optarg);
        if (option == 'n')
            it->iterations = cli_number("--iterations", optarg, 1, INT32_MAX);
        of->json = of->json || option == LOOK_JSON;
        it->reverse = it->reverse || option == 'r';
        it->batch = it->batch || option == 'b';
    }
    if (optind < argc)
        of->pattern = argv[optind++];
    if (optind < argc)
        cli_usage("top takes one pattern: quote it, so that the shell does not expand it");
    if (of->delay_ms < 100 || of->delay_ms > 86400000)
        cli_usage("--delay takes 100ms to 1d");
    if (of->json && !it->batch)
        cli_usage("--json needs -b");
    if (!it->batch && (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1))
        cli_usage("top needs a terminal: use -b to print without one");
}

static int run(int argc, char **argv) {
    command it = {
        .watch = {.pattern = "*", .rate = HF_RATE_DEFAULT, .delay_ms = 2000},
        .key = ROW_WAITERS,
    };
    read_options(&it, argc, argv);
    int result = cli_open(NULL, &it.watch.client);
    if (result != CLI_OK)
        return result;
    if (!it.batch)
        term_hold_signals(); /* not before: Ctrl-C ends a connect */
    show_begin();
    watch_open(&it.watch);
    result = it.batch ? run_batch(&it) : run_live(&it);
    watch_close(&it.watch);
    hf_client_close(it.watch.client);
    return result;
}

const cli_command cli_top = {"top", "show all locks, live", help, run};
