/* holdfast ls: list all locks. */
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "describe.h"
#include "look.h"
#include "row.h"
#include "show.h"

static const char help[] =
    "Usage: holdfast ls [options] [PATTERN]\n"
    "\n"
    "List the locks that are held or waited for, on every node of a cluster; PATTERN is as in\n"
    "Redis's KEYS: * ? [a-z] [^a], and a backslash before a special character. All keys are\n"
    "read by SCAN, between which the server serves other clients.\n"
    "\n"
    "The locks are listed by name; with --json in the order in which they are found. For each\n"
    "lock: its name; exclusive, shared, leader, kept, foreign (another library's) or free, or the\n"
    "state of a call that is made once, running for example; how long it has been held; the\n"
    "time until it ends unless it is renewed; the number of waiters; how long the first waiter\n"
    "has waited; and its holder as host/pid and thread, after the client's name if it has one,\n"
    "or as the owner that its program chose, and its note.\n"
    "\n" LOOK_FILTERS_HELP
    "      --owner TEXT              only if TEXT is a part of a holder or a waiter, with its\n"
    "                                note, as they are shown; with * ? [ a pattern for all of "
    "it\n" LOOK_ONCE_HELP "      --json               print one object per line\n" LOOK_RATE_HELP
    "\n"
    "Exit status: 0; 69 and others as in the manual if not all locks could be listed.\n";

typedef struct listing {
    look_filter filter;
    const char *owner; /* or NULL */
    bool json;
    row **rows;
    size_t count, capacity;
} listing;

static void print(show_text *line) {
    puts(line->bytes);
    show_clear(line);
}

static void tell(void *context, const hf_lock_info *info, const hf_view *view) {
    listing *list = context;
    if (!look_passes(&list->filter, info, view))
        return;
    row *one = row_new(info, view);
    if (list->owner != NULL && !row_belongs(one, list->owner)) {
        row_free(one);
    } else if (list->json) {
        show_json_line(describe_json(info, view));
        row_free(one);
    } else {
        list->rows = show_room(list->rows, list->count, &list->capacity, sizeof *list->rows);
        list->rows[list->count++] = one;
    }
}

static int compare(const void *one, const void *other) {
    return row_compare_names(*(row *const *)one, *(row *const *)other);
}

static void print_all(listing *list) {
    row_layout layout = row_fit(show_columns(), false);
    show_text line = {0};
    if (list->count > 0) {
        qsort(list->rows, list->count, sizeof *list->rows, compare);
        row_add_head(&line, &layout);
        print(&line);
    }
    for (size_t i = 0; i < list->count; i++) {
        row_add(&line, &layout, list->rows[i], list->rows[i]->seen_at);
        print(&line);
        row_free(list->rows[i]);
    }
    show_free(&line);
    free(list->rows);
}

static int run(int argc, char **argv) {
    static const struct option options[] = {
        LOOK_FILTERS,
        {"rate", required_argument, NULL, LOOK_RATE},
        {"once", no_argument, NULL, LOOK_ONCE},
        {"owner", required_argument, NULL, LOOK_OWNER},
        CLI_COMMON_OPTIONS,
    };
    listing list = {0};
    int64_t rate = HF_RATE_DEFAULT;
    uint32_t flags = 0;
    for (int option; (option = cli_option(argc, argv, "", options)) >= 0;) {
        if (look_filters(&list.filter, option))
            continue;
        if (option == LOOK_RATE)
            rate = cli_number("--rate", optarg, 0, 1000000);
        else if (option == LOOK_OWNER)
            list.owner = optarg;
        else if (option == LOOK_ONCE)
            flags = HF_LOCKS_RECORDS;
        else
            list.json = true;
    }
    const char *pattern = optind < argc ? argv[optind++] : "*";
    if (optind < argc)
        cli_usage("ls takes one pattern: quote it, so that the shell does not expand it");
    hf_client *client;
    int result = cli_open(NULL, &client);
    if (result != CLI_OK)
        return result;
    show_begin();
    result = look_walk(client, pattern, rate, flags, tell, &list);
    print_all(&list);
    hf_client_close(client);
    return result;
}

const cli_command cli_ls = {"ls", "list all locks", help, run};
