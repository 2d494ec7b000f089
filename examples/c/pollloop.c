#include <err.h>
#include <holdfast/holdfast.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

enum { ACQUIRE = 1, RELEASE = 2 }; /* this program's numbers for its operations */

int main(int argc, char **argv) {
    hf_client *client;
    hf_lock *lock;
    hf_hold *hold = NULL;

    if (hf_client_open(argc > 1 ? argv[1] : "redis://localhost", NULL, &client) != HF_OK ||
        hf_lock_open(client, "stock", 5, NULL, 0, NULL, &lock) != HF_OK)
        errx(1, "%s", hf_error_message());

    struct pollfd poll_for[] = {{.fd = hf_client_fd(client), .events = POLLIN}};
    if (hf_lock_acquire_start(lock, NULL, 0, 5000, NULL, ACQUIRE) != HF_OK)
        errx(1, "%s", hf_error_message());

    for (int running = 1; running;) {
        if (poll(poll_for, 1, -1) < 0) /* beside the program's other descriptors */
            err(1, "poll");
        for (;;) {
            hf_completion done = {.size = sizeof done};
            if (hf_client_next(client, &done) != HF_OK)
                errx(1, "%s", hf_error_message());
            if (done.kind == HF_KIND_NONE)
                break;
            if (done.status != HF_OK)
                errx(1, "%s", done.error.message); /* a timeout, an outage, a loss */
            if (done.op == ACQUIRE) {
                hold = done.hold;
                printf("the lock is ours; fence %" PRId64 "\n", hf_hold_fence(hold));
                if (hf_hold_release_start(hold, RELEASE) != HF_OK)
                    errx(1, "%s", hf_error_message());
            } else if (done.op == RELEASE) {
                running = 0;
            }
        }
    }

    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
    return 0;
}
