#include "look.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "show.h"

bool look_filters(look_filter *filter, int option) {
    if (option == LOOK_HELD)
        filter->held_ms = cli_duration("--held-longer", optarg);
    if (option == LOOK_WAITING)
        filter->waiting_ms = cli_duration("--waiting-longer", optarg);
    return option == LOOK_HELD || option == LOOK_WAITING;
}

bool look_passes(const look_filter *filter, const hf_lock_info *info, const hf_view *view) {
    hf_lock_holder holder = {.size = sizeof holder};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    bool held = filter->held_ms == 0, waits = filter->waiting_ms == 0;
    for (size_t i = 0; !held && hf_view_holder(view, i, &holder) == HF_OK; i++)
        held = holder.held_ms > filter->held_ms;
    /* The first waiter has waited for the longest time. */
    if (!waits && info->waiters > 0 && hf_view_waiter(view, 0, &waiter) == HF_OK)
        waits = waiter.waited_ms > filter->waiting_ms;
    return held && waits;
}

/* -------------------------------------------------------------- The walk */

typedef struct progress_line {
    bool terminal, shown;
    int64_t next; /* ms: when to show it again */
} progress_line;

static void clear(progress_line *line) {
    if (line->shown)
        fputs("\r\033[K", stderr);
    line->shown = false;
}

static void show_progress(progress_line *line, hf_locks *locks) {
    hf_progress progress = {.size = sizeof progress};
    int64_t now = cli_now();
    if (!line->terminal || now < line->next || hf_locks_progress(locks, &progress) != HF_OK)
        return;
    clear(line);
    if (progress.keys > 0)
        fprintf(stderr, "%3" PRId64 "%% of %" PRId64 " keys, ",
                100 * (progress.keys_seen < progress.keys ? progress.keys_seen : progress.keys) /
                    progress.keys,
                progress.keys);
    fprintf(stderr, "%" PRId64 " locks", progress.locks);
    line->shown = true;
    line->next = now + 100;
}

static void tell_refused(hf_locks *locks) {
    hf_progress progress = {.size = sizeof progress};
    if (hf_locks_progress(locks, &progress) == HF_OK && progress.refused > 0)
        cli_error("%" PRId64 " keys were skipped: this user has no permission for them",
                  progress.refused);
}

bool look_goes_on(hf_status status) {
    return status == HF_ECONNECT || status == HF_ESERVER || status == HF_EAUTH ||
           status == HF_EPROTOCOL || status == HF_EUNSUPPORTED;
}

int look_walk(hf_client *client, const char *pattern, int64_t rate, uint32_t flags,
              void (*tell)(void *context, const hf_lock_info *info, const hf_view *view),
              void *context) {
    hf_locks_options options = {
        .size = sizeof options, .flags = flags, .rate = rate == 0 ? HF_NEVER : rate};
    hf_lock_info info = {.size = sizeof info};
    progress_line line = {.terminal = isatty(STDERR_FILENO) == 1, .next = cli_now() + 300};
    hf_locks *locks;
    int result = CLI_OK;
    hf_status status = hf_locks_open(client, pattern, strlen(pattern), &options, &locks);
    if (status != HF_OK)
        return cli_failed(status);
    for (hf_view *view;; hf_view_close(view)) {
        status = hf_locks_next(locks, &info, &view);
        if (status != HF_OK || view == NULL)
            clear(&line);
        if (status == HF_OK && view == NULL)
            break;
        if (status == HF_OK) {
            if (line.shown && isatty(STDOUT_FILENO) == 1)
                clear(&line);
            tell(context, &info, view);
            show_progress(&line, locks);
            continue;
        }
        result = cli_failed(status); /* the other nodes are still listed */
        if (!look_goes_on(status))
            break;
    }
    tell_refused(locks);
    hf_locks_close(locks);
    return result;
}

/* ------------------------------------------------------------------ Name */

const void *look_name(const char *given, bool hex, size_t *length) {
    *length = strlen(given);
    if (!hex)
        return given;
    char *bytes = malloc(*length / 2 + 1);
    bool good = bytes != NULL && *length % 2 == 0 && *length > 0 &&
                strspn(given, "0123456789abcdefABCDEF") == *length;
    for (size_t i = 0; good && i < *length / 2; i++)
        bytes[i] = (char)strtol((char[]){given[2 * i], given[2 * i + 1], '\0'}, NULL, 16);
    if (!good)
        cli_usage("--hex takes the name's bytes as pairs of hex digits, not '%s'", given);
    *length /= 2;
    return bytes;
}

int look_open(look_lock *of, const char *given, bool hex) {
    *of = (look_lock){0};
    of->name = look_name(given, hex, &of->length);
    int result = cli_open(NULL, &of->client);
    if (result != CLI_OK)
        return result;
    show_begin();
    hf_status status = hf_lock_open(of->client, of->name, of->length, NULL, 0, NULL, &of->lock);
    return status == HF_OK ? CLI_OK : cli_failed(status);
}

void look_close(look_lock *of) {
    hf_lock_close(of->lock);
    hf_client_close(of->client);
}
