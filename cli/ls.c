/* holdfast ls: which locks there are. */
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "look.h"
#include "show.h"

static const char help[] =
    "Usage: holdfast ls [options] [PATTERN]\n"
    "\n"
    "List the locks that are held or waited for, on every node of a cluster; PATTERN is as in\n"
    "Redis's KEYS: * ? [a-z] [^a], and a backslash before a special character. It reads all\n"
    "keys by SCAN, and the server answers others in between.\n"
    "\n"
    "For each lock: its name; exclusive, shared, foreign (another library's) or free; how long\n"
    "it has been held; the time until it ends unless it is renewed; how many wait; how long\n"
    "the first of these has waited; and its holder as host/pid and thread, with the client's\n"
    "name before it if it has one, or as the owner that its program chose.\n"
    "\n" LOOK_FILTERS_HELP "      --json               one object a line\n" LOOK_RATE_HELP "\n"
    "Exit status: 0, or, if not all could be listed, 69 and others as in the manual.\n";

typedef struct listing {
    look_filter filter;
    bool json, headed;
    int name_columns, holder_columns; /* wide enough for most, or as the terminal allows */
    bool cut;
    show_text text;
} listing;

enum { STATE = 9, TIME = 6, WAITING = 5, FIXED = STATE + 3 * TIME + WAITING + 6 };

static void fit(listing *list) {
    int columns = show_columns();
    list->cut = columns > 0;
    if (columns == 0)
        columns = 100;
    int rest = columns > FIXED + 20 ? columns - FIXED : 20;
    list->name_columns = rest / 2;
    list->holder_columns = rest - rest / 2;
}

static void column(listing *list, int columns) {
    show_column(stdout, &list->text, columns, list->cut);
    putchar(' ');
    show_clear(&list->text);
}

static void head(listing *list) {
    static const char *const heads[] = {"STATE", "HELD", "ENDS", "WAIT", "FIRST"};
    static const int widths[] = {STATE, TIME, TIME, WAITING, TIME};
    list->headed = true;
    show_add(&list->text, "NAME");
    column(list, list->name_columns);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        show_add(&list->text, heads[i]);
        column(list, widths[i]);
    }
    puts("HOLDER");
}

static void add_holder(show_text *text, const hf_lock_info *info, const hf_view *view) {
    hf_lock_holder holder = {.size = sizeof holder};
    size_t others = hf_view_holders(view) - 1;
    if (hf_view_holder(view, 0, &holder) != HF_OK) {
        show_add(text, info->held ? "?" : "-");
        return;
    }
    if (others > 0) {
        show_add(text, "+");
        show_number(text, (int64_t)others);
        show_add(text, info->count > HF_VIEW_MAX ? " or more: " : ": ");
    }
    show_owner(text, holder.owner, holder.owner_len);
}

static void print(listing *list, const hf_lock_info *info, const hf_view *view) {
    hf_lock_waiter waiter = {.size = sizeof waiter};
    show_text *text = &list->text;
    size_t length;
    const void *name = hf_view_name(view, &length);
    if (!list->headed)
        head(list);
    show_bytes(text, name, length);
    column(list, list->name_columns);
    show_add(text, !info->held     ? "free"
                   : info->foreign ? "foreign"
                   : info->shared  ? "shared"
                                   : "exclusive");
    column(list, STATE);
    if (info->held && !info->foreign)
        show_duration(text, info->held_ms);
    else
        show_add(text, "-");
    column(list, TIME);
    if (info->held)
        show_duration(text, info->remaining_ms);
    else
        show_add(text, "-");
    column(list, TIME);
    if (info->moving)
        show_add(text, "?");
    else
        show_number(text, info->waiters);
    column(list, WAITING);
    if (hf_view_waiter(view, 0, &waiter) == HF_OK)
        show_duration(text, waiter.waited_ms);
    else
        show_add(text, "-");
    column(list, TIME);
    add_holder(text, info, view);
    show_column(stdout, text, list->cut ? list->holder_columns : 0, list->cut);
    show_clear(text);
    putchar('\n');
}

static void tell(void *context, const hf_lock_info *info, const hf_view *view) {
    listing *list = context;
    if (!look_passes(&list->filter, info, view))
        return;
    if (list->json)
        show_json_line(show_json_lock(info, view));
    else
        print(list, info, view);
}

static int run(int argc, char **argv) {
    static const struct option options[] = {
        LOOK_FILTERS,
        {"rate", required_argument, NULL, LOOK_RATE},
        CLI_COMMON_OPTIONS,
    };
    listing list = {0};
    int64_t rate = HF_RATE_DEFAULT;
    for (int option; (option = cli_option(argc, argv, "", options)) >= 0;) {
        if (option == LOOK_HELD)
            list.filter.held_ms = cli_duration("--held-longer", optarg);
        else if (option == LOOK_WAITING)
            list.filter.waiting_ms = cli_duration("--waiting-longer", optarg);
        else if (option == LOOK_RATE)
            rate = cli_number("--rate", optarg, 0, 1000000);
        else
            list.json = true;
    }
    const char *pattern = optind < argc ? argv[optind++] : "*";
    if (optind < argc)
        cli_usage("ls takes one pattern: quote it, so that the shell leaves it as it is");
    hf_client *client;
    int result = cli_open(NULL, &client);
    if (result != CLI_OK)
        return result;
    show_begin();
    fit(&list);
    result = look_walk(client, pattern, rate, tell, &list);
    show_free(&list.text);
    hf_client_close(client);
    return result;
}

const cli_command cli_ls = {"ls", "list all locks", help, run};
