/* holdfast break: take a lock away from one holder. */
#include <stdio.h>
#include <unistd.h>

#include "breaking.h"
#include "cli.h"
#include "confirm.h"
#include "look.h"
#include "show.h"

static const char help[] =
    "Usage: holdfast break [options] NAME\n"
    "\n"
    "Take the lock NAME away from its holder, after a confirmation, and grant it to the next\n"
    "waiter. The holder notices at its next renewal or at its release: until then it continues,\n"
    "and only the fence protects the resource. Other shared holds stay.\n"
    "\n"
    "      --fence NUMBER       only from the holder with this fence\n"
    "      --foreign            delete another library's lock\n"
    "  -y, --yes                do not ask for confirmation\n"
    "      --json               print the former holder as one object on one line\n"
    "      --hex                NAME is given in hex digits\n"
    "\n"
    "Exit status: 0 the lock was taken away; 1 it is free, or has another holder now; 69 and\n"
    "others as in the manual.\n";

enum { FENCE = LOOK_OWN, FOREIGN };

typedef struct breaking {
    hf_lock *lock;
    int64_t fence; /* of the holder; -1: of the only holder */
    bool foreign, yes, json;
} breaking;

/* Print why the lock is not broken: its name, and `why`. */
static int refuse(const char *why, const hf_view *view) {
    show_text text = {0};
    breaking_refuse(&text, view, why);
    cli_error("%s", text.bytes);
    show_free(&text);
    return CLI_NO;
}

/* Find the holder to break, on all pages. Return CLI_OK, or the exit status if it is not unique. */
static int choose(const breaking *it, hf_view **view_out, hf_lock_holder *holder,
                  hf_lock_info *info) {
    int64_t count = 1;
    for (int64_t first = 0; first < count; first += HF_VIEW_MAX) {
        hf_status status = hf_lock_inspect(it->lock, first, info, view_out);
        if (status != HF_OK)
            return cli_failed(status);
        count = it->fence >= 0 ? info->count : 1;
        for (size_t i = 0; hf_view_holder(*view_out, i, holder) == HF_OK; i++)
            if (it->fence < 0 || holder->fence == it->fence)
                return it->fence < 0 && hf_view_holders(*view_out) > 1
                           ? refuse(" has several holders: choose one by --fence:", *view_out)
                           : CLI_OK;
        if (first + HF_VIEW_MAX < count) {
            hf_view_close(*view_out);
            *view_out = NULL;
        }
    }
    holder->owner = NULL;
    if (!info->held)
        return refuse(" is free", *view_out);
    if (!info->foreign)
        return refuse(" has another holder now:", *view_out);
    if (it->fence >= 0)
        return refuse(" is another library's lock, which has no fence", *view_out);
    if (!it->foreign)
        return refuse(" is another library's lock: --foreign deletes it", *view_out);
    return CLI_OK;
}

static void print_broken(const hf_view *view, const hf_lock_holder *holder) {
    json_t *object = show_json_object();
    size_t length;
    const void *name = hf_view_name(view, &length);
    show_json_bytes(object, "name", name, length);
    show_json_bool(object, "foreign", holder->owner == NULL);
    if (holder->owner != NULL) {
        show_json_owner(object, holder->owner, holder->owner_len);
        show_json_number(object, "fence", holder->fence);
    }
    show_json_line(object);
}

static int break_lock(const breaking *it, const hf_view *view, const hf_lock_info *info,
                      const hf_lock_holder *holder) {
    show_text text = {0}, question = {0}, why = {0};
    breaking_add(&text, view, info, holder);
    show_add(&question, "Take ");
    show_add(&question, text.bytes);
    int result = CLI_NO;
    if (it->yes || confirm(question.bytes))
        result = breaking_take(it->lock, holder->owner != NULL ? holder->fence : 0, &why);
    else
        show_add(&why, "nothing was done");
    if (result != CLI_OK)
        cli_error("%s", why.bytes);
    else if (it->json)
        print_broken(view, holder);
    else
        printf("Took %s\n", text.bytes);
    show_free(&text);
    show_free(&question);
    show_free(&why);
    return result;
}

static int run(int argc, char **argv) {
    static const struct option options[] = {
        {"fence", required_argument, NULL, FENCE}, {"foreign", no_argument, NULL, FOREIGN},
        {"yes", no_argument, NULL, 'y'},           {"json", no_argument, NULL, LOOK_JSON},
        {"hex", no_argument, NULL, LOOK_HEX},      CLI_COMMON_OPTIONS,
    };
    breaking it = {.fence = -1};
    bool hex = false;
    for (int option; (option = cli_option(argc, argv, "y", options)) >= 0;) {
        if (option == FENCE)
            it.fence = cli_number("--fence", optarg, 1, INT64_C(1) << 53);
        it.foreign = it.foreign || option == FOREIGN;
        it.yes = it.yes || option == 'y';
        it.json = it.json || option == LOOK_JSON;
        hex = hex || option == LOOK_HEX;
    }
    if (argc - optind != 1)
        cli_usage("break takes the name of one lock");
    if (!it.yes && isatty(STDIN_FILENO) != 1)
        cli_usage("break asks for confirmation, and stdin is not a terminal: use --yes");
    look_lock of;
    hf_view *view = NULL;
    hf_lock_info info = {.size = sizeof info};
    hf_lock_holder holder = {.size = sizeof holder};
    int result = look_open(&of, argv[optind], hex);
    it.lock = of.lock;
    if (result == CLI_OK)
        result = choose(&it, &view, &holder, &info);
    if (result == CLI_OK)
        result = break_lock(&it, view, &info, &holder);
    hf_view_close(view);
    look_close(&of);
    return result;
}

const cli_command cli_break = {"break", "take a lock away from one holder", help, run};
