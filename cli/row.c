#include "row.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "cli.h"

/* ------------------------------------------------------------------- Row */

/* Return whether it is only a call's record: then owner, fence and times are the record's. */
static bool is_record(const row *one) { return !one->held && one->call != HF_ONCE_NONE; }

static void add_person(row *one, const void *owner, size_t length, const void *note,
                       size_t note_length) {
    show_owner_noted(&one->people, owner, length, note, note_length);
    show_add(&one->people, "\n");
}

row *row_new(const hf_lock_info *info, const hf_view *view) {
    hf_once_info call = {.size = sizeof call};
    hf_lock_holder holder = {.size = sizeof holder};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    row *one = show_memory(sizeof *one);
    *one = (row){.held = info->held,
                 .foreign = info->foreign,
                 .shared = info->shared,
                 .moving = info->moving,
                 .kept = info->kept,
                 .holders = (int64_t)hf_view_holders(view),
                 .count = info->count,
                 .permits = info->permits,
                 .fence = info->fence,
                 .oldest = info->fence,
                 .waiters = info->waiters,
                 .held_ms = info->held_ms,
                 .remaining_ms = info->remaining_ms,
                 .seen_at = cli_now()};
    const void *name = hf_view_name(view, &one->name_length);
    one->name = show_copy(name, one->name_length);
    for (size_t i = 0; hf_view_holder(view, i, &holder) == HF_OK; i++) {
        add_person(one, holder.owner, holder.owner_len, holder.note, holder.note_len);
        if (i == 0) {
            one->owner = show_copy(holder.owner, holder.owner_len);
            one->owner_length = holder.owner_len;
            one->note = show_copy(holder.note, holder.note_len);
            one->note_length = holder.note_len;
        }
        one->weight += holder.weight;
        one->oldest = holder.fence < one->oldest ? holder.fence : one->oldest;
        one->held_ms = holder.held_ms > one->held_ms ? holder.held_ms : one->held_ms;
    }
    for (size_t i = 0; hf_view_waiter(view, i, &waiter) == HF_OK; i++) {
        add_person(one, waiter.owner, waiter.owner_len, waiter.note, waiter.note_len);
        if (i == 0) /* the longest wait */
            one->waited_ms = waiter.waited_ms;
        one->permits = one->permits > 0 ? one->permits : waiter.permits;
    }
    if (hf_view_once(view, &call) == HF_OK)
        one->call = call.state;
    if (is_record(one) && one->owner == NULL) {
        one->owner = show_copy(call.owner, call.owner_len);
        one->owner_length = call.owner_len;
        add_person(one, call.owner, call.owner_len, "", 0);
        one->fence = one->oldest = call.fence;
        one->held_ms = call_age(&call);
        one->remaining_ms = call.ttl_ms;
    }
    return one;
}

void row_free(row *one) {
    if (one == NULL)
        return;
    free(one->name);
    free(one->owner);
    free(one->note);
    show_free(&one->people);
    free(one);
}

static bool matches(const char *filter, const char *text) {
    return strpbrk(filter, "*?[") != NULL ? fnmatch(filter, text, 0) == 0
                                          : strstr(text, filter) != NULL;
}

bool row_matches(const row *one, const char *filter) {
    show_text text = {0};
    show_bytes(&text, one->name, one->name_length);
    bool wanted = matches(filter, text.bytes);
    show_free(&text);
    return wanted || row_belongs(one, filter);
}

bool row_belongs(const row *one, const char *filter) {
    show_text text = {0};
    bool wanted = false;
    for (size_t at = 0, end; !wanted && at < one->people.length; at = end + 1) {
        end = at + strcspn(one->people.bytes + at, "\n");
        show_clear(&text);
        show_part(&text, &one->people, at, end - at);
        wanted = matches(filter, text.bytes);
    }
    show_free(&text);
    return wanted;
}

/* --------------------------------------------------------------- Columns */

enum { STATE = 10, TIME = 6, WAITING = 5, FENCE = 17, FIXED = STATE + 3 * TIME + WAITING + 6 };

row_layout row_fit(int columns, bool fence) {
    row_layout layout = {.fence = fence, .cut = columns > 0};
    int least = FIXED + (fence ? FENCE + 1 : 0);
    int rest = columns > 0 ? columns - least : 100 - least;
    rest = rest > 20 ? rest : 20;
    layout.name = rest / 2;
    layout.holder = layout.cut ? rest - rest / 2 : 0;
    return layout;
}

/* Add the field as a column, and a space. */
static void column(show_text *line, show_text *field, const row_layout *layout, int columns) {
    show_add_column(line, field, columns, layout->cut);
    show_add(line, " ");
    show_clear(field);
}

void row_add_head(show_text *line, const row_layout *layout) {
    const struct {
        const char *title;
        int columns;
    } heads[] = {{"NAME", layout->name}, {"STATE", STATE},  {"HELD", TIME},
                 {"ENDS", TIME},         {"WAIT", WAITING}, {"FIRST", TIME}};
    show_text field = {0};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        show_add(&field, heads[i].title);
        column(line, &field, layout, heads[i].columns);
    }
    if (layout->fence) {
        show_add(&field, "FENCE");
        column(line, &field, layout, FENCE);
    }
    show_add(line, "HOLDER");
    show_free(&field);
}

/* The beginning of the note of a candidate of an election, in each language. */
#define LEADER "leader election"

/* Add the state: of a call that is made once, if it is in progress or the lock is free; "excl. x2"
 * is a nested hold, "shared 3/5" has three of at most five holders. */
static void add_state(show_text *text, const row *one) {
    if (is_record(one) || one->call == HF_ONCE_RUNNING) {
        show_add(text, call_state(one->call));
    } else if (!one->held || one->foreign) {
        show_add(text, one->held ? "foreign" : "free");
        if (!one->held && one->permits > 0) {
            show_add(text, " 0/");
            show_number(text, one->permits);
        }
    } else if (one->note_length >= strlen(LEADER) &&
               memcmp(one->note, LEADER, strlen(LEADER)) == 0) {
        show_add(text, "leader");
    } else if (one->kept && one->holders == 1) {
        show_add(text, "kept");
    } else if (one->shared) {
        show_add(text, "shared ");
        show_number(text, one->count > HF_VIEW_MAX ? one->count
                          : one->permits > 0       ? one->weight
                                                   : one->holders);
        if (one->permits > 0) {
            show_add(text, "/");
            show_number(text, one->permits);
        }
    } else {
        show_add(text, one->count > 1 ? "excl. x" : "exclusive");
        if (one->count > 1)
            show_number(text, one->count);
    }
}

void row_add_holder(show_text *text, const row *one) {
    if (one->owner == NULL) {
        show_add(text, one->held ? "?" : "-");
        return;
    }
    if (one->holders > 1) {
        show_add(text, "+");
        show_number(text, one->holders - 1);
        show_add(text, one->count > HF_VIEW_MAX ? " or more: " : ": ");
    }
    show_owner_noted(text, one->owner, one->owner_length, one->note, one->note_length);
}

static void add_time(show_text *text, bool known, int64_t ms) {
    if (known)
        show_duration(text, ms);
    else
        show_add(text, "-");
}

static int64_t left(const row *one, int64_t gone) {
    if (one->remaining_ms == HF_NEVER)
        return HF_NEVER;
    return one->remaining_ms > gone ? one->remaining_ms - gone : 0;
}

void row_add(show_text *line, const row_layout *layout, const row *one, int64_t now) {
    show_text field = {0};
    int64_t gone = now > one->seen_at ? now - one->seen_at : 0;
    show_bytes(&field, one->name, one->name_length);
    column(line, &field, layout, layout->name);
    add_state(&field, one);
    column(line, &field, layout, STATE);
    add_time(&field, is_record(one) || (one->held && !one->foreign), one->held_ms + gone);
    column(line, &field, layout, TIME);
    add_time(&field, is_record(one) || one->held, left(one, gone));
    column(line, &field, layout, TIME);
    if (one->moving)
        show_add(&field, "?");
    else
        show_number(&field, one->waiters);
    column(line, &field, layout, WAITING);
    add_time(&field, one->waiters > 0, one->waited_ms + gone);
    column(line, &field, layout, TIME);
    if (layout->fence) {
        if (one->fence > 0)
            show_number(&field, one->fence);
        else
            show_add(&field, "-");
        column(line, &field, layout, FENCE);
    }
    row_add_holder(&field, one);
    show_add_column(line, &field, layout->holder, layout->cut);
    show_free(&field);
}

/* ----------------------------------------------------------------- Order */

const char *const row_key_names[ROW_KEYS] = {"waiters", "held",  "waited", "remaining",
                                             "name",    "fence", "call"};

int row_compare_names(const row *one, const row *other) {
    return show_compare(one->name, one->name_length, other->name, other->name_length);
}

/* Return the sort value, smallest first; INT64_MAX: the lock has no such value. */
static int64_t rank(const row *one, row_key key) {
    bool ours = one->held && !one->foreign;
    switch (key) {
    case ROW_WAITERS:
        return -one->waiters;
    case ROW_HELD:
        return ours ? one->oldest : INT64_MAX;
    case ROW_WAITED:
        return one->waiters > 0 ? one->seen_at - one->waited_ms : INT64_MAX;
    case ROW_REMAINING:
        return !one->held                      ? INT64_MAX
               : one->remaining_ms == HF_NEVER ? INT64_MAX - 1
                                               : one->seen_at + one->remaining_ms;
    case ROW_FENCE:
        return ours ? one->fence : INT64_MAX;
    case ROW_CALL:
        return call_rank(one->call);
    default:
        return 0;
    }
}

int row_compare(const row *one, const row *other, row_key key) {
    int64_t a = rank(one, key), b = rank(other, key);
    return a != b ? (a > b) - (a < b) : row_compare_names(one, other);
}
