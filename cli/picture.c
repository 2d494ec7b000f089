#include "picture.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"

void picture_open(picture *it, row_key key, bool reverse) {
    *it = (picture){
        .key = key, .reverse = reverse, .filter = "", .cost_at = cli_now(), .per_second = -1};
}

void picture_close(picture *it) { free(it->entries); }

/* ------------------------------------------------------------------ Locks */

static int compare(const void *one, const void *other, void *context) {
    const picture *it = context;
    int order = row_compare((*(table_entry *const *)one)->row, (*(table_entry *const *)other)->row,
                            it->key);
    return it->reverse ? -order : order;
}

void picture_take(picture *it, const watch *of) {
    const table *all = &of->table;
    free(it->entries);
    it->entries = show_memory((all->count + 1) * sizeof(table_entry *));
    it->count = it->held = it->shared = it->foreign = it->waiting = 0;
    it->all = all->count;
    memset(it->calls, 0, sizeof it->calls);
    for (size_t i = 0; i < all->count; i++) {
        const row *one = all->entries[i]->row;
        it->held += one->held;
        it->shared += one->shared;
        it->foreign += one->foreign;
        it->waiting += (size_t)one->waiters;
        it->calls[one->call]++;
        if (*it->filter == '\0' || row_matches(one, it->filter))
            it->entries[it->count++] = all->entries[i];
    }
    qsort_r(it->entries, it->count, sizeof(table_entry *), compare, it);
}

static void add_count(show_text *line, const char *before, size_t count, const char *what) {
    if (count == 0)
        return;
    show_add(line, before);
    show_number(line, (int64_t)count);
    show_add(line, what);
}

void picture_add_counts(show_text *line, const picture *it) {
    show_number(line, (int64_t)it->all);
    show_add(line, it->all == 1 ? " lock" : " locks");
    add_count(line, ", ", it->held, " held");
    add_count(line, ", ", it->shared, " shared");
    add_count(line, ", ", it->foreign, " foreign");
    add_count(line, ", ", it->waiting, it->waiting == 1 ? " waiter" : " waiters");
    for (int32_t i = HF_ONCE_RUNNING; i <= HF_ONCE_FAILED; i++) {
        char what[16];
        snprintf(what, sizeof what, " %s", call_state(i));
        add_count(line, ", ", it->calls[i], what);
    }
    show_add(line, "; sorted by ");
    show_add(line, row_key_names[it->key]);
    show_add(line, it->reverse ? ", reversed" : "");
    if (*it->filter != '\0') {
        show_add(line, "; ");
        show_number(line, (int64_t)it->count);
        show_add(line, it->count == 1 ? " matches " : " match ");
        show_bytes(line, it->filter, strlen(it->filter));
    }
}

/* ------------------------------------------------------------------- Cost */

void picture_measure(picture *it, const watch *of, int64_t ms) {
    int64_t now = cli_now(), gone = now - it->cost_at;
    if (gone < ms || gone <= 0)
        return;
    it->per_second = (double)(of->commands - it->commands) * 1000 / (double)gone;
    it->share = (double)(of->busy_us - it->busy_us) / 1000 / (double)gone;
    it->cost_at = now;
    it->commands = of->commands;
    it->busy_us = of->busy_us;
}

void picture_add_cost(show_text *line, const picture *it, const watch *of) {
    char rates[80];
    snprintf(rates, sizeof rates, "%.0f commands a second, %.1f %% of a server's time",
             it->per_second, 100 * it->share);
    show_add(line, it->per_second < 0 ? "Cost: not known yet" : "Cost: ");
    show_add(line, it->per_second < 0 ? "" : rates);
    if (of->walking && of->progress.keys > 0) {
        int64_t seen = of->progress.keys_seen, keys = of->progress.keys;
        show_add(line, "; read ");
        show_number(line, 100 * (seen < keys ? seen : keys) / keys);
        show_add(line, " % of ");
        show_number(line, keys);
        show_add(line, keys == 1 ? " key" : " keys");
    } else if (of->walk_ms > 0) {
        show_add(line, "; all keys in ");
        show_duration(line, of->walk_ms);
    }
    if (of->progress.refused > 0) {
        show_add(line, "; ");
        show_number(line, of->progress.refused);
        show_add(line, " keys refused");
    }
}
