/* holdfast break: take a lock away from one holder. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "look.h"
#include "show.h"

static const char help[] =
    "Usage: holdfast break [options] NAME\n"
    "\n"
    "Take the lock NAME away from its holder, after asking, so that the next that waits gets\n"
    "it. The holder finds out when it renews its lease or releases the lock: until then it\n"
    "works on, and only the fence protects. Other shared holds stay.\n"
    "\n"
    "      --fence NUMBER       from the holder with this fence, and from nobody else\n"
    "      --foreign            delete another library's lock\n"
    "  -y, --yes                do not ask\n"
    "      --json               one object on one line: from whom it was taken\n"
    "      --hex                NAME is its bytes as hex digits\n"
    "\n"
    "Exit status: 0 it was taken away; 1 nobody holds it, or somebody else by now; 69 and\n"
    "others as in the manual.\n";

enum { FENCE = LOOK_OWN, FOREIGN };

typedef struct breaking {
    hf_lock *lock;
    const void *name;
    size_t length;
    int64_t fence; /* -1: of the only holder */
    bool foreign, yes, json;
} breaking;

static void add_name(show_text *text, const breaking *it) {
    show_add(text, "the lock ");
    show_bytes(text, it->name, it->length);
}

static void add_holder(show_text *text, const hf_lock_holder *holder) {
    show_owner(text, holder->owner, holder->owner_len);
    show_add(text, holder->mode == HF_SHARED ? ", who shares it" : ", who holds it");
    show_add(text, " with the fence ");
    show_number(text, holder->fence);
    show_add(text, " for ");
    show_duration(text, holder->held_ms);
    if (holder->count > 1) {
        show_add(text, ", ");
        show_number(text, holder->count);
        show_add(text, " times");
    }
}

/* Tell why not, in what the text says after the name. */
static int refuse(const breaking *it, const char *why, const hf_view *view) {
    hf_lock_holder holder = {.size = sizeof holder};
    show_text text = {0};
    add_name(&text, it);
    show_add(&text, why);
    for (size_t i = 0; hf_view_holder(view, i, &holder) == HF_OK; i++) {
        show_add(&text, "\n  ");
        add_holder(&text, &holder);
    }
    cli_error("%s", text.bytes);
    show_free(&text);
    return CLI_NO;
}

/* The end of the input is a no. */
static bool confirm(const char *question) {
    char answer[16] = "";
    fprintf(stderr, "%s? [y/N] ", question);
    fflush(stderr);
    if (fgets(answer, sizeof answer, stdin) == NULL)
        fputc('\n', stderr);
    return strcmp(answer, "y\n") == 0 || strcmp(answer, "Y\n") == 0 || strcmp(answer, "yes\n") == 0;
}

/* The one to break; false: none, or not clear which. Pages on, so that each is looked at. */
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
                           ? refuse(it,
                                    " has several holders: say by --fence from which:", *view_out)
                           : CLI_OK;
        if (first + HF_VIEW_MAX < count) {
            hf_view_close(*view_out);
            *view_out = NULL;
        }
    }
    holder->owner = NULL;
    if (!info->held)
        return refuse(it, " is free", *view_out);
    if (!info->foreign)
        return refuse(it, " is held by somebody else by now:", *view_out);
    if (it->fence >= 0)
        return refuse(it, " is held by another library's lock, which has no fence", *view_out);
    if (!it->foreign)
        return refuse(it, " is held by another library's lock: --foreign deletes it", *view_out);
    return CLI_OK;
}

static void print_broken(const breaking *it, const hf_lock_holder *holder) {
    json_t *object = show_json_object();
    show_json_bytes(object, "name", it->name, it->length);
    show_json_bool(object, "foreign", holder->owner == NULL);
    if (holder->owner != NULL) {
        show_json_owner(object, holder->owner, holder->owner_len);
        show_json_number(object, "fence", holder->fence);
    }
    show_json_line(object);
}

static int break_lock(const breaking *it, const hf_lock_info *info, const hf_lock_holder *holder) {
    show_text text = {0};
    add_name(&text, it);
    show_add(&text, " away from ");
    if (holder->owner != NULL)
        add_holder(&text, holder);
    else
        show_add(&text, "another library");
    if (info->waiters > 0) {
        show_add(&text, "; ");
        show_number(&text, info->waiters);
        show_add(&text, info->waiters == 1 ? " waits for it" : " wait for it");
    }
    show_text question = {0};
    show_add(&question, "Take ");
    show_add(&question, text.bytes);
    bool sure = it->yes || confirm(question.bytes);
    show_free(&question);
    hf_status status = sure ? hf_lock_break(it->lock, holder->owner != NULL ? holder->fence : 0,
                                            holder->owner != NULL ? 0 : HF_BREAK_FOREIGN)
                            : HF_ECANCELED;
    if (status == HF_OK && it->json)
        print_broken(it, holder);
    else if (status == HF_OK)
        printf("Took %s\n", text.bytes);
    show_free(&text);
    if (!sure) {
        cli_error("nothing was done");
        return CLI_NO;
    }
    if (status == HF_ENOTHELD) {
        hf_view *view;
        if (hf_lock_inspect(it->lock, 0, NULL, &view) != HF_OK)
            return cli_failed(status);
        refuse(it, " is held by somebody else by now:", view);
        hf_view_close(view);
        return CLI_NO;
    }
    return status == HF_OK ? CLI_OK : cli_failed(status);
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
        cli_usage("break asks before it takes a lock away, and nobody is at a terminal to answer: "
                  "--yes does not ask");
    it.name = look_name(argv[optind], hex, &it.length);
    hf_client *client;
    hf_view *view = NULL;
    hf_lock_info info = {.size = sizeof info};
    hf_lock_holder holder = {.size = sizeof holder};
    int result = cli_open(NULL, &client);
    if (result != CLI_OK)
        return result;
    show_begin();
    hf_status status = hf_lock_open(client, it.name, it.length, NULL, 0, NULL, &it.lock);
    result = status == HF_OK ? choose(&it, &view, &holder, &info) : cli_failed(status);
    if (result == CLI_OK)
        result = break_lock(&it, &info, &holder);
    hf_view_close(view);
    hf_lock_close(it.lock);
    hf_client_close(client);
    return result;
}

const cli_command cli_break = {"break", "take a lock away from one holder", help, run};
