/*
 * One leader among all processes that run this program. A single thread learns of the election from
 * the completion queue:
 *
 *     leader redis://localhost scheduler
 *
 * Ctrl-C or SIGTERM resigns.
 */
#include <err.h>
#include <holdfast/holdfast.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

/* A leader that cannot renew its lease steps down MARGIN_MS before the lease ends. */
enum { LEASE_MS = 4000, MARGIN_MS = LEASE_MS / 4, AGAIN_MS = 500, CANDIDACY = 1, RELEASE = 2 };

/* The whole lease: at its election a leader has more time left than that margin. */
static const hf_acquire_options whole = {.size = sizeof whole, .flags = HF_ACQUIRE_WHOLE};

static hf_client *client;
static hf_lock *lock;
static hf_hold *hold; /* NULL: another process leads */
static bool waits;    /* an acquire is under way */

static void tell(const char *what) {
    printf("%s %" PRId64 "\n", what, hf_hold_fence(hold));
    fflush(stdout);
}

static void stand(void) {
    waits = hf_lock_acquire_start(lock, NULL, 0, HF_FOREVER, &whole, CANDIDACY) == HF_OK;
    if (!waits)
        warnx("%s", hf_error_message());
}

/* Stop the work first, and only then let another lead. */
static void step_down(const char *why) {
    tell(why);
    hf_hold_release_start(hold, RELEASE);
    hf_hold_close(hold);
    hold = NULL;
}

static void take(const hf_completion *next) {
    if (next->kind == HF_KIND_LOSS && hold != NULL && next->hold_number == hf_hold_number(hold))
        step_down("lost");
    if (next->kind != HF_KIND_ACQUIRE)
        return;
    waits = false;
    hold = next->hold;
    if (hold != NULL)
        tell("elected");
    else
        warnx("%s", next->error.message);
}

/* Return the ms until this program must act without a completion; -1: never. */
static int patience(void) {
    if (hold == NULL)
        return waits ? -1 : AGAIN_MS;
    int64_t left = hf_hold_remaining_ms(hold) - MARGIN_MS;
    return left > 0 ? (int)left : 0;
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "redis://localhost";
    const char *name = argc > 2 ? argv[2] : "scheduler";
    static const char note[] = "leader election"; /* `holdfast ls` shows it beside the leader */
    hf_lock_options options = {.size = sizeof options,
                               .lease_ms = LEASE_MS,
                               .renew = HF_ON,
                               .reentrant = HF_OFF,
                               .note = note,
                               .note_len = sizeof note - 1};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    if (hf_client_open(url, NULL, &client) != HF_OK ||
        hf_lock_open(client, name, strlen(name), NULL, 0, &options, &lock) != HF_OK)
        errx(1, "%s", hf_error_message());
    struct pollfd fds[] = {{.fd = hf_client_fd(client), .events = POLLIN},
                           {.fd = signalfd(-1, &ends, SFD_CLOEXEC), .events = POLLIN}};
    stand();
    for (;;) {
        poll(fds, 2, patience());
        if (hold != NULL && hf_hold_remaining_ms(hold) <= MARGIN_MS)
            step_down("lost");
        if (fds[1].revents != 0)
            break;
        hf_completion next = {.size = sizeof next};
        while (hf_client_next(client, &next) == HF_OK && next.kind != HF_KIND_NONE)
            take(&next);
        if (hold == NULL && !waits)
            stand();
    }
    if (hold != NULL) {
        tell("resigned");
        hf_hold_release(hold); /* a hold that is closed ends with its lease */
        hf_hold_close(hold);
    }
    hf_lock_close(lock);
    hf_client_close(client); /* ends the candidacy, too */
    return 0;
}
