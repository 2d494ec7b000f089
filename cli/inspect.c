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
            fwrite(text.bytes, 1, text.length, stdout);
            show_free(&text);
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
    int result = look_open(name, length, &client, &lock);
    if (result == CLI_OK)
        result = inspect(lock, &filter, json);
    hf_lock_close(lock);
    hf_client_close(client);
    return result;
}

const cli_command cli_inspect = {"inspect", "show everything about one lock", help, run};
