/* holdfast inspect: everything about one lock. */
#include <string.h>

#include "cli.h"
#include "look.h"
#include "show.h"

static const char help[] =
    "Usage: holdfast inspect [options] NAME\n"
    "\n"
    "Show all holders of the lock NAME, with their fences, and all that wait for it, in the\n"
    "order in which they will get it.\n"
    "\n" LOOK_FILTERS_HELP "      --json               one object on one line\n"
    "      --hex                NAME is its bytes as hex digits\n"
    "\n"
    "Exit status: 0; 1 if it is not as --held-longer and --waiting-longer say; 69 and others\n"
    "as in the manual.\n";

static const char *mode_of(int32_t mode) { return mode == HF_SHARED ? "shared" : "exclusive"; }

static void print_holder(show_text *text, const hf_lock_holder *holder) {
    show_add(text, "  ");
    show_owner(text, holder->owner, holder->owner_len);
    show_add(text, "\n    ");
    show_add(text, mode_of(holder->mode));
    show_add(text, ", fence ");
    show_number(text, holder->fence);
    show_add(text, ", held for ");
    show_duration(text, holder->held_ms);
    show_add(text, holder->remaining_ms == HF_NEVER ? ", ends " : ", ends in ");
    show_duration(text, holder->remaining_ms);
    if (holder->count > 1) {
        show_add(text, ", ");
        show_number(text, holder->count);
        show_add(text, " holds");
    }
    show_add(text, "\n");
}

static void print_waiter(show_text *text, const hf_lock_waiter *waiter, int64_t number) {
    show_add(text, "  ");
    show_number(text, number);
    show_add(text, ". ");
    show_owner(text, waiter->owner, waiter->owner_len);
    show_add(text, "\n    ");
    show_add(text, mode_of(waiter->mode));
    if (waiter->permits > 0) {
        show_add(text, ", if fewer than ");
        show_number(text, waiter->permits);
        show_add(text, " hold it");
    }
    show_add(text, ", has waited ");
    show_duration(text, waiter->waited_ms);
    if (waiter->timeout_ms != HF_FOREVER) {
        show_add(text, " of ");
        show_duration(text, waiter->timeout_ms);
    }
    show_add(text, "\n");
}

static void print_state(show_text *text, const hf_lock_info *info, const hf_view *view) {
    size_t length;
    const void *name = hf_view_name(view, &length);
    show_bytes(text, name, length);
    show_add(text, !info->held     ? ": free"
                   : info->foreign ? ": held by another library's lock"
                   : info->shared  ? ": held shared"
                                   : ": held exclusively");
    if (info->foreign) {
        show_add(text, info->remaining_ms == HF_NEVER ? ", ends " : ", ends in ");
        show_duration(text, info->remaining_ms);
    }
    if (info->result_ms > 0) {
        show_add(text, "; its last result stays for ");
        show_duration(text, info->result_ms);
    }
    show_add(text, info->moving ? "; its slot is being moved, so that more is not known\n" : "\n");
}

/* One page; `first` of each were on the pages before it. */
static void print(const hf_lock_info *info, const hf_view *view, int64_t first) {
    show_text text = {0};
    hf_lock_holder holder = {.size = sizeof holder};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    if (first == 0)
        print_state(&text, info, view);
    if (first == 0 && hf_view_holders(view) > 0)
        show_add(&text, "Holders:\n");
    for (size_t i = 0; hf_view_holder(view, i, &holder) == HF_OK; i++)
        print_holder(&text, &holder);
    if (first == 0 && info->waiters > 0) {
        show_add(&text, info->count > HF_VIEW_MAX ? "Waiters, and more holders: " : "Waiters: ");
        show_number(&text, info->waiters);
        show_add(&text, "\n");
    }
    for (size_t i = 0; hf_view_waiter(view, i, &waiter) == HF_OK; i++)
        print_waiter(&text, &waiter, first + (int64_t)i + 1);
    fwrite(text.bytes, 1, text.length, stdout);
    show_free(&text);
}

/* All pages. */
static int inspect(hf_lock *lock, const look_filter *filter, bool json) {
    hf_lock_info info = {.size = sizeof info};
    json_t *object = NULL;
    bool passes = true;
    int64_t more = 1;
    for (int64_t first = 0; first < more; first += HF_VIEW_MAX) {
        hf_view *view;
        hf_status status = hf_lock_inspect(lock, first, &info, &view);
        if (status != HF_OK) {
            json_decref(object);
            return cli_failed(status);
        }
        if (first == 0)
            passes = look_passes(filter, &info, view);
        if (!json)
            print(&info, view, first);
        else if (first == 0)
            object = show_json_lock(&info, view);
        else
            show_json_view(object, view);
        more = info.count > info.waiters ? info.count : info.waiters;
        hf_view_close(view);
    }
    if (json)
        show_json_line(object);
    return passes ? CLI_OK : CLI_NO;
}

static int run(int argc, char **argv) {
    static const struct option options[] = {
        LOOK_FILTERS,
        {"hex", no_argument, NULL, LOOK_HEX},
        CLI_COMMON_OPTIONS,
    };
    look_filter filter = {0};
    bool json = false, hex = false;
    for (int option; (option = cli_option(argc, argv, "", options)) >= 0;) {
        if (option == LOOK_HELD)
            filter.held_ms = cli_duration("--held-longer", optarg);
        else if (option == LOOK_WAITING)
            filter.waiting_ms = cli_duration("--waiting-longer", optarg);
        json = json || option == LOOK_JSON;
        hex = hex || option == LOOK_HEX;
    }
    if (argc - optind != 1)
        cli_usage("inspect takes the name of one lock");
    size_t length;
    const void *name = look_name(argv[optind], hex, &length);
    hf_client *client;
    hf_lock *lock;
    int result = cli_open(NULL, &client);
    if (result != CLI_OK)
        return result;
    show_begin();
    hf_status status = hf_lock_open(client, name, length, NULL, 0, NULL, &lock);
    result = status == HF_OK ? inspect(lock, &filter, json) : cli_failed(status);
    hf_lock_close(lock);
    hf_client_close(client);
    return result;
}

const cli_command cli_inspect = {"inspect", "show everything about one lock", help, run};
