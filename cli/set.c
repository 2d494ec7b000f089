/* holdfast set: store how many permits a lock has, or the rate of a gate. */
#include <stdio.h>

#include "cli.h"
#include "describe.h"
#include "look.h"
#include "show.h"

static const char help[] =
    "Usage: holdfast set NAME --permits NUMBER | --rate NUMBER/DURATION | --no-limit\n"
    "\n"
    "Store with the lock NAME the number of its permits, or the rate of its gate, for all\n"
    "hosts. From then on an acquire with another number is refused, and an acquire without a\n"
    "number follows the stored number. A change ends no hold; waiters follow it at once.\n"
    "\n"
    "      --permits NUMBER     the number of permits\n"
    "      --rate NUMBER/DURATION\n"
    "                           the passes of a gate in any such time: 10/1m\n"
    "      --no-limit           remove the limit\n"
    "      --hex                NAME is given in hex digits\n"
    "\n"
    "Exit status: 0; 69 and others as in the manual.\n";

enum { PERMITS = LOOK_OWN, RATE, NO_LIMIT };

static int set(const look_lock *of, int64_t permits, int64_t per_ms) {
    int64_t was = 0, per_was = 0;
    hf_status status = hf_lock_limit(of->lock, permits, per_ms, &was, &per_was);
    if (status != HF_OK)
        return cli_failed(status);
    show_text text = {0};
    show_bytes(&text, of->name, of->length);
    show_add(&text, ": ");
    describe_limit(&text, permits, per_ms);
    show_add(&text, "; before: ");
    describe_limit(&text, was, per_was);
    show_add(&text, "\n");
    show_print(&text, stdout);
    return CLI_OK;
}

static int run(int argc, char **argv) {
    static const struct option options[] = {
        {"permits", required_argument, NULL, PERMITS},
        {"rate", required_argument, NULL, RATE},
        {"no-limit", no_argument, NULL, NO_LIMIT},
        {"hex", no_argument, NULL, LOOK_HEX},
        CLI_COMMON_OPTIONS,
    };
    int64_t permits = 0, per_ms = 0;
    bool hex = false;
    int given = 0;
    for (int option; (option = cli_option(argc, argv, "", options)) >= 0;) {
        if (option == PERMITS)
            permits = cli_number("--permits", optarg, 1, HF_PERMITS_MAX);
        if (option == RATE)
            cli_rate(optarg, &permits, &per_ms);
        given += option == PERMITS || option == RATE || option == NO_LIMIT;
        hex = hex || option == LOOK_HEX;
    }
    if (argc - optind != 1)
        cli_usage("set takes the name of one lock");
    if (given != 1)
        cli_usage("set takes one of --permits, --rate and --no-limit");
    look_lock of;
    int result = look_open(&of, argv[optind], hex);
    if (result == CLI_OK)
        result = set(&of, permits, per_ms);
    look_close(&of);
    return result;
}

const cli_command cli_set = {"set", "store how many permits a lock has", help, run};
