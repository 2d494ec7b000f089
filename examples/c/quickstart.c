#include <err.h>
#include <holdfast/holdfast.h>
#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv) {
    hf_client *client;
    hf_lock *lock;
    hf_hold *hold;

    if (hf_client_open(argc > 1 ? argv[1] : "redis://localhost", NULL, &client) != HF_OK ||
        hf_lock_open(client, "stock", 5, NULL, 0, NULL, &lock) != HF_OK ||
        hf_lock_acquire(lock, 5000, &hold) != HF_OK)
        errx(1, "%s", hf_error_message());

    printf("the lock is ours; fence %" PRId64 "\n", hf_hold_fence(hold));

    if (hf_hold_release(hold) != HF_OK)
        warnx("%s", hf_error_message());
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
    return 0;
}
