/* Shared by the commands that look at locks: their filters, and the walk. */
#ifndef HOLDFAST_LOOK_H
#define HOLDFAST_LOOK_H

#include "cli.h"

/* Only locks with a hold, or a wait, longer than this; 0: any. */
typedef struct look_filter {
    int64_t held_ms, waiting_ms;
} look_filter;

/* Options of these commands, for their tables and help. */
enum {
    LOOK_HELD = CLI_OPTION_OWN,
    LOOK_WAITING,
    LOOK_JSON,
    LOOK_RATE,
    LOOK_HEX,
    LOOK_ONCE,
    LOOK_OWNER,
    LOOK_OWN
};
#define LOOK_FILTERS                                                                               \
    {"held-longer", required_argument, NULL, LOOK_HELD},                                           \
        {"waiting-longer", required_argument, NULL, LOOK_WAITING}, {                               \
        "json", no_argument, NULL, LOOK_JSON                                                       \
    }
#define LOOK_FILTERS_HELP                                                                          \
    "      --held-longer DURATION    only if a holder has held it for longer\n"                    \
    "      --waiting-longer DURATION only if a waiter has waited for longer\n"
#define LOOK_ONCE_HELP                                                                             \
    "      --once               also the records of calls that are made once, whose lock is "      \
    "free;\n"                                                                                      \
    "                           'holdfast once ls' says more about them\n"
#define LOOK_RATE_HELP                                                                             \
    "      --rate NUMBER        read at most NUMBER locks per second, each at about 30\n"          \
    "                           microseconds of server time; 100 other keys count as six locks;\n" \
    "                           default: 500; 0: no limit\n"

/* Return whether the lock meets the filter. */
bool look_passes(const look_filter *filter, const hf_lock_info *info, const hf_view *view);

/* Return whether a walk continues with other nodes after this status of hf_locks_next(). */
bool look_goes_on(hf_status status);

/* Call `tell` for each lock of the pattern, with a progress line if stderr is a terminal. rate: as
 * in --rate; flags: of hf_locks_options. Print errors, and return the exit status. */
int look_walk(hf_client *client, const char *pattern, int64_t rate, uint32_t flags,
              void (*tell)(void *context, const hf_lock_info *info, const hf_view *view),
              void *context);

/* Read an option of LOOK_FILTERS. False: it is not one of them. */
bool look_filters(look_filter *filter, int option);

/* Return the bytes of the NAME of a command, perhaps given in hex digits; they are never freed.
 * Exit with CLI_USAGE if the digits are wrong. */
const void *look_name(const char *given, bool hex, size_t *length);

/* The one lock that a command is about. */
typedef struct look_lock {
    const void *name;
    size_t length;
    hf_client *client;
    hf_lock *lock;
} look_lock;
/* Open a client and the lock of look_name(), or print the error. Return CLI_OK, or the exit status;
 * to be closed in both cases. */
int look_open(look_lock *of, const char *given, bool hex);
void look_close(look_lock *of);

#endif
