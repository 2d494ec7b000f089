/* holdfast deadlocks: owners that wait for each other. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "look.h"
#include "show.h"
#include "waits.h"

static const char help[] =
    "Usage: holdfast deadlocks [options] [PATTERN]\n"
    "\n"
    "Find cycles of owners that hold locks and wait for each other, so that none can proceed.\n"
    "This reads all locks, or those whose names match PATTERN, and those of a cycle twice: a\n"
    "reported cycle existed at one moment. For each cycle it prints the commands that end it;\n"
    "one of them is enough. An acquire with a timeout ends by itself.\n"
    "\n"
    "An owner is a thread or a task, unless its program chose another. An asynchronous acquire\n"
    "without an owner is an owner of its own, which is in no cycle.\n"
    "\n" LOOK_FILTERS_HELP "      --json               print each cycle as one object on one line\n"
    "      --watch[=DURATION]   search again every DURATION; default: 10s. Each cycle is\n"
    "                           reported once\n" LOOK_RATE_HELP "\n"
    "Exit status: 0 no deadlock; 1 a deadlock; 69 and others as in the manual if not all locks\n"
    "could be read.\n";

enum { WATCH = LOOK_OWN };

typedef struct search {
    hf_client *client;
    const char *pattern;
    look_filter filter;
    int64_t rate;
    bool json;
    waits_graph graph;
    char **told; /* the keys of the printed cycles: each is printed once */
    size_t told_count;
} search;

/* -------------------------------------------------------------- Looking */

static hf_status add_pages(search *it, waits_graph *graph, const void *name, size_t length,
                           int64_t first, int64_t count) {
    hf_lock *lock;
    hf_status status = hf_lock_open(it->client, name, length, NULL, 0, NULL, &lock);
    for (bool more = first > 0; status == HF_OK && first < count; first += HF_VIEW_MAX) {
        hf_lock_info info = {.size = sizeof info};
        hf_view *view;
        int64_t before = cli_now();
        status = hf_lock_inspect(lock, first, &info, &view);
        if (status != HF_OK)
            break;
        waits_add(graph, view, more, before);
        more = true;
        count = info.count > info.waiters ? info.count : info.waiters;
        hf_view_close(view);
    }
    hf_lock_close(lock);
    return status;
}

/* Add a lock to the graph if it has waiters. */
static void add(void *context, const hf_lock_info *info, const hf_view *view) {
    search *it = context;
    int64_t count = info->count > info->waiters ? info->count : info->waiters;
    size_t length;
    const void *name = hf_view_name(view, &length);
    if (info->waiters == 0)
        return;
    waits_add(&it->graph, view, false, cli_now());
    if (count > HF_VIEW_MAX && add_pages(it, &it->graph, name, length, HF_VIEW_MAX, count) != HF_OK)
        cli_error("%s", hf_error_message());
}

static const waits_lock *same_lock(const waits_graph *graph, const waits_bytes *name) {
    for (size_t i = 0; i < graph->lock_count; i++)
        if (graph->locks[i].name.length == name->length &&
            memcmp(graph->locks[i].name.data, name->data, name->length) == 0)
            return &graph->locks[i];
    return NULL;
}

static bool had_holder(const waits_lock *before, int64_t fence) {
    for (size_t i = 0; i < before->holder_count; i++)
        if (before->holders[i].fence == fence)
            return true;
    return false;
}

/* Drop the holds and acquires that began after the first look. The rest existed during the whole
 * time between both looks, and so at one moment. */
static void keep_old(waits_graph *now, const waits_graph *before) {
    for (size_t i = 0; i < now->lock_count; i++) {
        waits_lock *lock = &now->locks[i];
        const waits_lock *then = same_lock(before, &lock->name);
        size_t holders = 0, waiters = 0;
        for (size_t j = 0; j < lock->holder_count; j++)
            if (had_holder(then, lock->holders[j].fence))
                lock->holders[holders++] = lock->holders[j];
        for (size_t j = 0; j < lock->waiter_count; j++)
            if (lock->waiters[j].waited_ms + 2 >= lock->seen_ms - then->seen_ms)
                lock->waiters[waiters++] = lock->waiters[j];
        lock->holder_count = holders;
        lock->waiter_count = waiters;
    }
}

/* Read the locks of these cycles a second time. */
static hf_status look_again(search *it, const waits_cycle *cycles, size_t count,
                            waits_graph *again) {
    hf_status status = HF_OK;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < cycles[i].count && status == HF_OK; j++) {
            const waits_bytes *name = &it->graph.locks[cycles[i].edges[j].lock].name;
            if (same_lock(again, name) == NULL)
                status = add_pages(it, again, name->data, name->length, 0, 1);
        }
    keep_old(again, &it->graph);
    waits_solve(again);
    return status;
}

/* ------------------------------------------------------------- Printing */

static bool passes(const search *it, const waits_graph *graph, const waits_cycle *cycle) {
    for (size_t i = 0; i < cycle->count; i++) {
        const waits_edge *edge = &cycle->edges[i];
        const waits_lock *lock = &graph->locks[edge->lock];
        if (lock->waiters[edge->waiter].waited_ms < it->filter.waiting_ms)
            return false;
        if (edge->holder != SIZE_MAX && lock->holders[edge->holder].held_ms < it->filter.held_ms)
            return false;
    }
    return true;
}

/* Add the command that takes the lock away from the holder. */
static void add_command(show_text *text, const waits_lock *lock, const waits_holder *holder) {
    show_add(text, "holdfast break ");
    if (!show_word(text, lock->name.data, lock->name.length)) {
        char digits[3];
        show_add(text, "--hex ");
        for (size_t i = 0; i < lock->name.length; i++) {
            snprintf(digits, sizeof digits, "%02x", (unsigned char)lock->name.data[i]);
            show_add(text, digits);
        }
    } else if (lock->name.data[0] == '-') {
        show_clear(text);
        show_add(text, "holdfast break --fence ");
        show_number(text, holder->fence);
        show_add(text, " -- ");
        show_word(text, lock->name.data, lock->name.length);
        return;
    }
    show_add(text, " --fence ");
    show_number(text, holder->fence);
}

static void print_edge(show_text *text, const waits_graph *graph, const waits_cycle *cycle,
                       size_t which) {
    const waits_edge *edge = &cycle->edges[which];
    const waits_lock *lock = &graph->locks[edge->lock];
    const waits_waiter *waiter = &lock->waiters[edge->waiter];
    const waits_bytes *owner = &graph->owners[cycle->owners[which]].name;
    const char *next = cycle->count == 1          ? "it"
                       : which + 1 < cycle->count ? "the next owner"
                                                  : "the first owner";
    show_add(text, "  ");
    show_owner(text, owner->data, owner->length);
    show_add(text, "\n    has waited ");
    show_duration(text, waiter->waited_ms);
    if (waiter->timeout_ms != HF_FOREVER) {
        show_add(text, " of ");
        show_duration(text, waiter->timeout_ms);
    }
    show_add(text, " for the lock ");
    show_bytes(text, lock->name.data, lock->name.length);
    show_add(text, ", ");
    if (edge->holder == SIZE_MAX) {
        show_add(text, "for which ");
        show_add(text, next);
        show_add(text, " is ahead in the queue\n");
        return;
    }
    show_add(text, "which ");
    show_add(text, next);
    show_add(text, lock->holders[edge->holder].exclusive ? " has held for " : " has shared for ");
    show_duration(text, lock->holders[edge->holder].held_ms);
    show_add(text, "\n");
}

static void add_cycle(show_text *text, const waits_graph *graph, const waits_cycle *cycle) {
    show_text command = {0};
    if (cycle->count == 1) {
        show_add(text, "Deadlock: an owner waits for itself.\n");
    } else {
        show_add(text, "Deadlock: ");
        show_number(text, (int64_t)cycle->count);
        show_add(text, " owners wait for each other.\n");
    }
    for (size_t i = 0; i < cycle->count; i++)
        print_edge(text, graph, cycle, i);
    show_add(text, "  Each of these commands ends it:\n");
    for (size_t i = 0; i < cycle->count; i++) {
        const waits_edge *edge = &cycle->edges[i];
        const waits_lock *lock = &graph->locks[edge->lock];
        if (edge->holder == SIZE_MAX)
            continue;
        show_clear(&command);
        add_command(&command, lock, &lock->holders[edge->holder]);
        show_add(text, "    ");
        show_add(text, command.bytes);
        show_add(text, "\n");
    }
    show_free(&command);
}

static json_t *cycle_json(const waits_graph *graph, const waits_cycle *cycle) {
    json_t *object = show_json_object(), *owners = show_json_array(), *breaks = show_json_array();
    show_text command = {0};
    for (size_t i = 0; i < cycle->count; i++) {
        const waits_edge *edge = &cycle->edges[i];
        const waits_lock *lock = &graph->locks[edge->lock];
        const waits_waiter *waiter = &lock->waiters[edge->waiter];
        const waits_bytes *owner = &graph->owners[cycle->owners[i]].name;
        json_t *each = show_json_object();
        show_json_owner(each, owner->data, owner->length);
        show_json_bytes(each, "waits_for", lock->name.data, lock->name.length);
        show_json_text(each, "mode", waiter->exclusive ? "exclusive" : "shared");
        show_json_ms(each, "waited_ms", waiter->waited_ms);
        show_json_ms(each, "timeout_ms", waiter->timeout_ms);
        show_json_text(each, "behind", edge->holder == SIZE_MAX ? "waiter" : "holder");
        show_json_append(owners, each);
        if (edge->holder == SIZE_MAX)
            continue;
        const waits_holder *holder = &lock->holders[edge->holder];
        json_t *cut = show_json_object();
        show_clear(&command);
        add_command(&command, lock, holder);
        show_json_bytes(cut, "name", lock->name.data, lock->name.length);
        show_json_number(cut, "fence", holder->fence);
        show_json_ms(cut, "held_ms", holder->held_ms);
        show_json_text(cut, "command", command.bytes);
        show_json_append(breaks, cut);
    }
    show_free(&command);
    show_json_set(object, "owners", owners);
    show_json_set(object, "breaks", breaks);
    return object;
}

/* Return whether a cycle with the same owners, locks and fences was printed, and remember it. */
static bool is_told(search *it, const waits_graph *graph, const waits_cycle *cycle) {
    show_text key = {0}, least = {0};
    for (size_t start = 0; start < cycle->count; start++) { /* the least rotation is the key */
        show_clear(&key);
        for (size_t i = 0; i < cycle->count; i++) {
            const waits_edge *edge = &cycle->edges[(start + i) % cycle->count];
            const waits_bytes *owner =
                &graph->owners[cycle->owners[(start + i) % cycle->count]].name;
            const waits_lock *lock = &graph->locks[edge->lock];
            show_bytes(&key, owner->data, owner->length);
            show_add(&key, "\n");
            show_bytes(&key, lock->name.data, lock->name.length);
            show_add(&key, "\n");
            show_number(&key, edge->holder == SIZE_MAX ? 0 : lock->holders[edge->holder].fence);
            show_add(&key, "\n");
        }
        if (least.length == 0 || strcmp(key.bytes, least.bytes) < 0) {
            show_clear(&least);
            show_add(&least, key.bytes);
        }
    }
    show_free(&key);
    for (size_t i = 0; i < it->told_count; i++)
        if (strcmp(it->told[i], least.bytes) == 0) {
            show_free(&least);
            return true;
        }
    char **more = realloc(it->told, (it->told_count + 1) * sizeof *more);
    if (more == NULL) {
        show_free(&least);
        return false;
    }
    it->told = more;
    it->told[it->told_count++] = least.bytes;
    return false;
}

static void tell(search *it, const waits_graph *graph, const waits_cycle *cycle) {
    show_text text = {0};
    if (is_told(it, graph, cycle))
        return;
    if (it->json) {
        show_json_line(cycle_json(graph, cycle));
    } else {
        add_cycle(&text, graph, cycle);
        show_print(&text, stdout);
    }
    fflush(stdout);
}

/* ------------------------------------------------------------------ Run */

static int look(search *it) {
    waits_cycle *cycles, *true_ones;
    waits_graph again;
    waits_begin(&it->graph);
    waits_begin(&again);
    int result = look_walk(it->client, it->pattern, it->rate, 0, add, it);
    waits_solve(&it->graph);
    size_t count = waits_cycles(&it->graph, &cycles), found = 0;
    hf_status status = look_again(it, cycles, count, &again);
    if (status != HF_OK)
        result = cli_failed(status);
    size_t true_count = waits_cycles(&again, &true_ones);
    for (size_t i = 0; i < true_count; i++)
        if (passes(it, &again, &true_ones[i])) {
            tell(it, &again, &true_ones[i]);
            found++;
        }
    waits_free_cycles(cycles, count);
    waits_free_cycles(true_ones, true_count);
    waits_end(&again);
    waits_end(&it->graph);
    return found > 0 ? CLI_NO : result;
}

static int run(int argc, char **argv) {
    static const struct option options[] = {
        LOOK_FILTERS,
        {"rate", required_argument, NULL, LOOK_RATE},
        {"watch", optional_argument, NULL, WATCH},
        CLI_COMMON_OPTIONS,
    };
    search it = {.rate = HF_RATE_DEFAULT, .pattern = "*"};
    int64_t watch_ms = 0;
    for (int option; (option = cli_option(argc, argv, "", options)) >= 0;) {
        if (look_filters(&it.filter, option))
            continue;
        if (option == LOOK_RATE)
            it.rate = cli_number("--rate", optarg, 0, 1000000);
        else if (option == WATCH)
            watch_ms = optarg != NULL ? cli_duration("--watch", optarg) : 10000;
        else
            it.json = true;
    }
    if (optind < argc)
        it.pattern = argv[optind++];
    if (optind < argc)
        cli_usage("deadlocks takes one pattern: quote it, so that the shell does not expand it");
    int result = cli_open(NULL, &it.client);
    if (result != CLI_OK)
        return result;
    show_begin();
    for (;;) {
        result = look(&it);
        if (watch_ms == 0)
            break;
        struct timespec pause = {watch_ms / 1000, watch_ms % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
    for (size_t i = 0; i < it.told_count; i++)
        free(it.told[i]);
    free(it.told);
    if (result == CLI_OK && !it.json)
        puts("No deadlock.");
    hf_client_close(it.client);
    return result;
}

const cli_command cli_deadlocks = {"deadlocks", "find owners that wait for each other", help, run};
