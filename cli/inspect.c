/* holdfast inspect: everything about one lock. */
#include <stdio.h>

#include "cli.h"
#include "describe.h"
#include "look.h"
#include "show.h"

static const char help[] =
    "Usage: holdfast inspect [options] NAME\n"
    "\n"
    "Show all holders of the lock NAME, with their fences, and all its waiters, in the order\n"
    "of the queue.\n"
    "\n" LOOK_FILTERS_HELP "      --json               one object on one line\n"
    "      --hex                NAME is given in hex digits\n"
    "\n"
    "Exit status: 0; 1 if --held-longer or --waiting-longer is not met; 69 and others as in\n"
    "the manual.\n";

/* Print all pages of a look. */
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
        if (!json) {
            show_text text = {0};
            describe(&text, &info, view, first);
            show_print(&text, stdout);
        } else if (first == 0) {
            object = describe_json(&info, view);
        } else {
            describe_json_page(object, view);
        }
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
        look_filters(&filter, option);
        json = json || option == LOOK_JSON;
        hex = hex || option == LOOK_HEX;
    }
    if (argc - optind != 1)
        cli_usage("inspect takes the name of one lock");
    look_lock of;
    int result = look_open(&of, argv[optind], hex);
    if (result == CLI_OK)
        result = inspect(of.lock, &filter, json);
    look_close(&of);
    return result;
}

const cli_command cli_inspect = {"inspect", "show everything about one lock", help, run};
