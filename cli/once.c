/* holdfast once: the records of calls that are made once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "call.h"
#include "cli.h"
#include "confirm.h"
#include "look.h"
#include "show.h"

static const char help[] =
    "Usage: holdfast once ls [options] [PATTERN]\n"
    "       holdfast once show [options] NAME\n"
    "       holdfast once resolve [options] NAME\n"
    "       holdfast once retry [options] NAME\n"
    "       holdfast once forget [options] NAME\n"
    "\n"
    "Look at the records of calls that are made once, and settle a call whose outcome is\n"
    "unknown: first find out at the vendor what became of it. No result is printed without\n"
    "--result.\n"
    "\n"
    "  ls        list the records, unknown outcomes first; PATTERN is as for holdfast ls\n"
    "  show      show the record of NAME\n"
    "  resolve   keep a result or an error, which all callers then get\n"
    "  retry     allow the next caller to make the call again. Until then, a late result of the\n"
    "            first call is still kept\n"
    "  forget    drop the record, even a result: the next caller makes the call\n"
    "\n"
    "ls:\n"
    "      --state STATE        only unknown, running, retry, failed or done\n" LOOK_RATE_HELP
    "show:\n"
    "      --result             print only the bytes of the result, or of the error; with --json,\n"
    "                           print them as a field\n"
    "resolve, retry, forget:\n"
    "      --fence NUMBER       only the record with this fence, without a question; the default\n"
    "                           shows the record, and asks for confirmation\n"
    "      --force              settle a call in progress, too, whose hold ends; and replace\n"
    "                           a result or an error\n"
    "      --note TEXT          the reason, shown with the record; at most 1024 bytes\n"
    "resolve:\n"
    "      --result FILE        the bytes of the result, as the callers' codec writes them;\n"
    "                           -: stdin\n"
    "      --error FILE         the bytes of an error; -: stdin\n"
    "      --ttl DURATION       how long it is kept, 10s to ten years; default: 1d\n"
    "\n"
    "      --json               print one object per line\n"
    "      --hex                NAME is given in hex digits\n"
    "\n"
    "Exit status: 0; 1 there is no record, or no result, or the answer was no; 65 the record has\n"
    "another fence, or the call is done or settled already; 75 the call is in progress; 69 and\n"
    "others as in the manual.\n";

enum { STATE = LOOK_OWN, RESULT, FAILURE, TTL, FENCE, FORCE, NOTE };

typedef enum { LS, SHOW, RESOLVE, RETRY, FORGET, VERBS } verb;
static const char *const verbs[VERBS] = {"ls", "show", "resolve", "retry", "forget"};

typedef struct command {
    verb verb;
    bool json, hex, result, force; /* result: show it */
    const char *file;              /* of resolve */
    int32_t state;                 /* of ls: 0 for all; of the others: the new state */
    int64_t rate, ttl_ms, fence;   /* fence 0: of the record that is shown */
    const char *note, *argument;
} command;

/* ---------------------------------------------------------------------- ls */

typedef struct record {
    char *name, *owner, *note;
    size_t name_length;
    bool moving; /* it could not be read */
    hf_once_info call;
} record;

typedef struct listing {
    int32_t state; /* 0: all */
    record *records;
    size_t count, capacity;
} listing;

static void add_record(void *context, const hf_lock_info *info, const hf_view *view) {
    listing *list = context;
    hf_once_info call = {.size = sizeof call};
    if (hf_view_once(view, &call) != HF_OK || (call.state == HF_ONCE_NONE && !info->moving) ||
        (list->state != HF_ONCE_NONE && call.state != list->state && !info->moving))
        return;
    list->records = show_room(list->records, list->count, &list->capacity, sizeof *list->records);
    record *one = &list->records[list->count++];
    *one = (record){.call = call, .moving = info->moving};
    const void *name = hf_view_name(view, &one->name_length);
    one->name = show_copy(name, one->name_length);
    one->call.owner = one->owner = show_copy(call.owner, call.owner_len);
    one->call.note = one->note = show_copy(call.note, call.note_len);
}

/* Unknown outcomes come first, and within each state the oldest record. */
static int compare(const void *left, const void *right) {
    const record *one = left, *other = right;
    int by_state = call_rank(one->call.state) - call_rank(other->call.state);
    if (by_state != 0)
        return by_state;
    if (one->call.since_ms != other->call.since_ms)
        return one->call.since_ms < other->call.since_ms ? -1 : 1;
    return show_compare(one->name, one->name_length, other->name, other->name_length);
}

enum { STATE_WIDTH = 7, TIME = 6, FENCE_WIDTH = 17, SIZE = 8 };

typedef struct layout {
    int name, owner; /* columns */
    bool cut;
} layout;

static layout fit(int columns) {
    int rest = (columns > 0 ? columns : 130) - (STATE_WIDTH + 2 * TIME + FENCE_WIDTH + SIZE + 7);
    rest = rest > 45 ? rest : 45;
    return (layout){.name = rest / 3, .owner = rest / 3, .cut = columns > 0};
}

static void column(show_text *line, show_text *field, const layout *fits, int columns) {
    show_add_column(line, field, columns, fits->cut);
    show_add(line, " ");
    show_clear(field);
}

static void print_head(const layout *fits) {
    const struct {
        const char *title;
        int columns;
    } heads[] = {{"NAME", fits->name},   {"STATE", STATE_WIDTH}, {"AGE", TIME},
                 {"FENCE", FENCE_WIDTH}, {"OWNER", fits->owner}, {"SIZE", SIZE},
                 {"TTL", TIME}};
    show_text line = {0}, field = {0};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        show_add(&field, heads[i].title);
        column(&line, &field, fits, heads[i].columns);
    }
    printf("%sNOTE\n", line.bytes);
    show_free(&line);
    show_free(&field);
}

static void print_row(const layout *fits, const record *one) {
    const hf_once_info *call = &one->call;
    show_text line = {0}, field = {0};
    show_bytes(&field, one->name, one->name_length);
    column(&line, &field, fits, fits->name);
    show_add(&field, one->moving ? "moving" : call_state(call->state));
    column(&line, &field, fits, STATE_WIDTH);
    if (!one->moving) {
        show_duration(&field, call_age(call));
        column(&line, &field, fits, TIME);
        show_number(&field, call->fence);
        column(&line, &field, fits, FENCE_WIDTH);
        show_owner(&field, call->owner, call->owner_len);
        column(&line, &field, fits, fits->owner);
        show_number(&field, call->result_len);
        column(&line, &field, fits, SIZE);
        show_duration(&field, call->ttl_ms);
        column(&line, &field, fits, TIME);
        show_bytes(&line, call->note, call->note_len);
    }
    size_t length = line.length;
    while (length > 0 && line.bytes[length - 1] == ' ')
        length--;
    printf("%.*s\n", (int)length, line.bytes);
    show_free(&line);
    show_free(&field);
}

static int list_records(const command *it, hf_client *client) {
    listing list = {.state = it->state};
    int result = look_walk(client, it->argument != NULL ? it->argument : "*", it->rate,
                           HF_LOCKS_RECORDS, add_record, &list);
    layout fits = fit(show_columns());
    if (list.count > 0)
        qsort(list.records, list.count, sizeof *list.records, compare);
    if (list.count > 0 && !it->json)
        print_head(&fits);
    for (size_t i = 0; i < list.count; i++) {
        record *one = &list.records[i];
        if (it->json) {
            json_t *object = show_json_object();
            show_json_bytes(object, "name", one->name, one->name_length);
            call_json(object, &one->call);
            show_json_bool(object, "moving", one->moving);
            show_json_line(object);
        } else {
            print_row(&fits, one);
        }
        free(one->name);
        free(one->owner);
        free(one->note);
    }
    free(list.records);
    return result;
}

/* -------------------------------------------------------------------- show */

static void add_name(show_text *text, const void *name, size_t length) {
    show_bytes(text, name, length);
    show_add(text, ": ");
}

/* Print why nothing was done, with the lock's name. */
static int refuse(const void *name, size_t length, const char *why, int result) {
    show_text text = {0};
    add_name(&text, name, length);
    show_add(&text, why);
    cli_error("%s", text.bytes);
    show_free(&text);
    return result;
}

/* Print the bytes unchanged; on a terminal, which no byte may control, as text. */
static void print_bytes(const void *bytes, size_t length) {
    if (isatty(STDOUT_FILENO) != 1) {
        fwrite(bytes, 1, length, stdout);
        return;
    }
    show_text text = {0};
    show_bytes(&text, bytes, length);
    printf("%s\n", length > 0 ? text.bytes : "");
    show_free(&text);
}

static int print_record(const command *it, const void *name, size_t length,
                        const hf_once_info *call, const hf_hold *handle) {
    size_t result_length = 0;
    const void *result = handle != NULL ? hf_hold_result(handle, &result_length) : NULL;
    if (call->state == HF_ONCE_NONE)
        return refuse(name, length, "there is no record of a call", CLI_NO);
    if (it->result && result == NULL)
        return refuse(name, length, "the call has no result and no kept error", CLI_NO);
    if (it->json) {
        json_t *object = show_json_object();
        show_json_bytes(object, "name", name, length);
        call_json(object, call);
        if (it->result)
            show_json_bytes(object, call->state == HF_ONCE_DONE ? "result" : "error", result,
                            result_length);
        show_json_line(object);
    } else if (it->result) {
        print_bytes(result, result_length);
    } else {
        show_text text = {0};
        add_name(&text, name, length);
        call_describe(&text, call);
        show_print(&text, stdout);
    }
    return CLI_OK;
}

/* Read the record, without its result. The view has its bytes. */
static hf_status look(hf_lock *lock, hf_once_info *call, hf_view **view_out) {
    hf_lock_info info = {.size = sizeof info};
    hf_status status = hf_lock_inspect(lock, 0, &info, view_out);
    if (status == HF_OK)
        status = hf_view_once(*view_out, call);
    if (status == HF_OK && info.moving) {
        hf_hold *handle; /* reports the same, as an error */
        status = hf_once_look(lock, &handle);
        hf_hold_close(handle);
    }
    return status;
}

static int show_record(const command *it, hf_lock *lock, const void *name, size_t length) {
    hf_once_info call = {.size = sizeof call};
    hf_hold *handle = NULL;
    hf_view *view = NULL;
    hf_status status = it->result ? hf_once_look(lock, &handle) : look(lock, &call, &view);
    if (status == HF_OK && it->result)
        status = hf_once_outcome(handle, &call);
    int result =
        status == HF_OK ? print_record(it, name, length, &call, handle) : cli_failed(status);
    hf_view_close(view);
    hf_hold_close(handle);
    return result;
}

/* ------------------------------------------------------------------ Settle */

/* Read the file, at most HF_RESULT_MAX bytes. Return CLI_OK, or the exit status. */
static int read_file(const char *path, char **bytes_out, size_t *length_out) {
    bool piped = strcmp(path, "-") == 0;
    FILE *file = piped ? stdin : fopen(path, "rb");
    size_t length = 0, capacity = 4096;
    char *bytes = show_memory(capacity);
    *bytes_out = bytes;
    if (file == NULL) {
        cli_error("cannot read %s: %s", path, strerror(errno));
        return CLI_SYSTEM;
    }
    for (size_t got; (got = fread(bytes + length, 1, capacity - length, file)) > 0;) {
        length += got;
        if (length > HF_RESULT_MAX)
            break;
        if (length == capacity)
            *bytes_out = bytes = show_more(bytes, capacity *= 2);
    }
    int error = ferror(file) ? errno : 0;
    if (!piped)
        fclose(file);
    *length_out = length;
    if (error != 0)
        cli_error("cannot read %s: %s", path, strerror(error));
    else if (length > HF_RESULT_MAX)
        cli_error("%s is too long: a result has at most %d bytes", path, HF_RESULT_MAX);
    return error != 0 ? CLI_SYSTEM : length > HF_RESULT_MAX ? CLI_USAGE : CLI_OK;
}

static void add_action(show_text *text, const command *it, size_t length, bool done) {
    if (it->verb == RESOLVE) {
        show_add(text, done ? "kept " : "Keep ");
        show_number(text, (int64_t)length);
        show_add(text, it->state == HF_ONCE_DONE ? " bytes as its result for "
                                                 : " bytes as its error for ");
        show_duration(text, it->ttl_ms);
    } else if (it->verb == RETRY) {
        show_add(text, done ? "the next caller makes the call again"
                            : "Allow the next caller to make the call again");
    } else {
        show_add(text, done ? "forgotten: the next caller makes the call"
                            : "Forget it, so that the next caller makes the call");
    }
}

/* Show the record, and ask for confirmation. */
static bool ask(const command *it, const void *name, size_t length, const hf_once_info *call,
                size_t result_length) {
    show_text text = {0};
    add_name(&text, name, length);
    call_describe(&text, call);
    show_print(&text, stderr);
    add_action(&text, it, result_length, false);
    bool yes = confirm(text.bytes);
    show_free(&text);
    if (!yes)
        cli_error("nothing was done");
    return yes;
}

/* Return the exit status for the answer of hf_once_settle(), and print why. */
static int settled(hf_status status, const void *name, size_t length) {
    switch (status) {
    case HF_OK:
        return CLI_OK;
    case HF_ENOTHELD:
        return refuse(name, length, "the record has another fence now, or is gone", CLI_OTHER);
    case HF_EBUSY:
        return refuse(name, length,
                      "the call is in progress, and nothing was done: wait for it, or use --force",
                      CLI_TIMEOUT);
    case HF_ESETTLED:
        return refuse(name, length,
                      "the call is done or settled already, and nothing was done: --force replaces "
                      "its result, and forget drops it",
                      CLI_OTHER);
    default:
        return cli_failed(status);
    }
}

static void print_settled(const command *it, const void *name, size_t length, int64_t fence,
                          size_t result_length) {
    if (it->json) {
        json_t *object = show_json_object();
        show_json_bytes(object, "name", name, length);
        show_json_text(object, "state", call_state(it->state));
        show_json_number(object, "fence", fence);
        show_json_line(object);
        return;
    }
    show_text text = {0};
    add_name(&text, name, length);
    add_action(&text, it, result_length, true);
    puts(text.bytes);
    show_free(&text);
}

static int settle_record(const command *it, hf_lock *lock, const void *name, size_t length) {
    hf_once_info call = {.size = sizeof call};
    hf_view *view = NULL;
    char *bytes = NULL;
    size_t result_length = 0, note_length = it->note != NULL ? strlen(it->note) : 0;
    uint32_t flags = it->force ? HF_SETTLE_FORCE : 0;
    int result = it->verb == RESOLVE ? read_file(it->file, &bytes, &result_length) : CLI_OK;
    hf_status status = result == CLI_OK ? look(lock, &call, &view) : HF_OK;
    if (status != HF_OK)
        result = cli_failed(status);
    else if (result == CLI_OK && call.state == HF_ONCE_NONE)
        result = refuse(name, length, "there is no record of a call", CLI_NO);
    else if (result == CLI_OK && it->fence == 0 && !ask(it, name, length, &call, result_length))
        result = CLI_NO;
    if (result == CLI_OK) {
        int64_t fence = it->fence != 0 ? it->fence : call.fence;
        status = hf_once_settle(lock, it->state, fence, flags, it->verb == RESOLVE ? bytes : NULL,
                                result_length, it->verb == RESOLVE ? it->ttl_ms : 0, it->note,
                                note_length);
        result = settled(status, name, length);
        if (result == CLI_OK)
            print_settled(it, name, length, fence, result_length);
    }
    hf_view_close(view);
    free(bytes);
    return result;
}

/* ------------------------------------------------------------- The command */

static void read_options(command *it, int argc, char **argv) {
    static const struct option for_ls[] = {
        {"state", required_argument, NULL, STATE},
        {"rate", required_argument, NULL, LOOK_RATE},
        {"json", no_argument, NULL, LOOK_JSON},
        CLI_COMMON_OPTIONS,
    };
    static const struct option for_show[] = {
        {"result", no_argument, NULL, RESULT},
        {"json", no_argument, NULL, LOOK_JSON},
        {"hex", no_argument, NULL, LOOK_HEX},
        CLI_COMMON_OPTIONS,
    };
    static const struct option for_others[] = {
        {"result", required_argument, NULL, RESULT},
        {"error", required_argument, NULL, FAILURE},
        {"ttl", required_argument, NULL, TTL},
        {"fence", required_argument, NULL, FENCE},
        {"force", no_argument, NULL, FORCE},
        {"note", required_argument, NULL, NOTE},
        {"json", no_argument, NULL, LOOK_JSON},
        {"hex", no_argument, NULL, LOOK_HEX},
        CLI_COMMON_OPTIONS,
    };
    const struct option *options = it->verb == LS     ? for_ls
                                   : it->verb == SHOW ? for_show
                                                      : for_others;
    bool keeps = false;
    it->state = it->verb == RETRY ? HF_ONCE_RETRY : HF_ONCE_NONE;
    for (int option; (option = cli_option(argc, argv, "", options)) >= 0;) {
        it->json = it->json || option == LOOK_JSON;
        it->hex = it->hex || option == LOOK_HEX;
        it->force = it->force || option == FORCE;
        keeps = keeps || option == TTL || option == RESULT || option == FAILURE;
        if (option == STATE && (it->state = call_state_named(optarg)) < 0)
            cli_usage("--state takes unknown, running, retry, failed or done, not '%s'", optarg);
        if (option == LOOK_RATE)
            it->rate = cli_number("--rate", optarg, 0, 1000000);
        if (option == TTL)
            it->ttl_ms = cli_duration("--ttl", optarg);
        if (option == FENCE)
            it->fence = cli_number("--fence", optarg, 1, INT64_C(1) << 53);
        if (option == NOTE)
            it->note = optarg;
        if (option == RESULT && it->verb == SHOW)
            it->result = true;
        else if (option == RESULT || option == FAILURE) {
            if (it->file != NULL)
                cli_usage("resolve takes one of --result and --error");
            it->state = option == RESULT ? HF_ONCE_DONE : HF_ONCE_FAILED;
            it->file = optarg;
        }
    }
    if (keeps && it->verb != RESOLVE && it->verb != SHOW)
        cli_usage("%s takes no result: only resolve takes --result, --error and --ttl",
                  verbs[it->verb]);
    if (it->verb == RESOLVE && it->file == NULL)
        cli_usage("resolve takes --result FILE or --error FILE");
    if (it->ttl_ms < 10000)
        cli_usage("--ttl takes 10s or more, so that no waiter misses the result");
    if (it->note != NULL && strlen(it->note) > HF_NOTE_MAX)
        cli_usage("--note takes at most %d bytes", HF_NOTE_MAX);
}

static void read_arguments(command *it, int argc, char **argv) {
    if (argc < 2 || argv[1][0] == '-') {
        static const struct option options[] = {CLI_COMMON_OPTIONS};
        while (cli_option(argc, argv, "", options) >= 0)
            continue;
        cli_usage("once takes ls, show, resolve, retry or forget as its first argument");
    }
    while (it->verb < VERBS && strcmp(argv[1], verbs[it->verb]) != 0)
        it->verb++;
    if (it->verb == VERBS)
        cli_usage("once takes ls, show, resolve, retry or forget, not '%s'", argv[1]);
    argv[1] = argv[0]; /* getopt prints this in its messages */
    read_options(it, argc - 1, argv + 1);
    int left = argc - 1 - optind;
    it->argument = left > 0 ? argv[1 + optind] : NULL;
    if (it->verb == LS && left > 1)
        cli_usage("ls takes one pattern: quote it, so that the shell does not expand it");
    if (it->verb != LS && left != 1)
        cli_usage("%s takes the name of one call", verbs[it->verb]);
    bool asks = it->verb > SHOW && it->fence == 0;
    if (asks && (isatty(STDIN_FILENO) != 1 || (it->file != NULL && strcmp(it->file, "-") == 0)))
        cli_usage("%s asks for confirmation, and stdin is not a terminal: use --fence, with the "
                  "fence that show prints",
                  verbs[it->verb]);
}

static int run_on(const command *it, hf_client *client) {
    if (it->verb == LS)
        return list_records(it, client);
    size_t length;
    const void *name = look_name(it->argument, it->hex, &length);
    hf_lock *lock;
    hf_status status = hf_lock_open(client, name, length, NULL, 0, NULL, &lock);
    if (status != HF_OK)
        return cli_failed(status);
    int result = it->verb == SHOW ? show_record(it, lock, name, length)
                                  : settle_record(it, lock, name, length);
    hf_lock_close(lock);
    return result;
}

static int run(int argc, char **argv) {
    command it = {.rate = HF_RATE_DEFAULT, .ttl_ms = 86400000};
    hf_client *client;
    read_arguments(&it, argc, argv);
    int result = cli_open(NULL, &client);
    if (result != CLI_OK)
        return result;
    show_begin();
    result = run_on(&it, client);
    hf_client_close(client);
    return result;
}

const cli_command cli_once = {"once", "look at calls that are made once, and settle them", help,
                              run};
