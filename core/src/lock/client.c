#include "lock/client.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

hf_status hf_client_check(const hf_client *client) {
    if (client == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    if (hf_client_inherited(client))
        return hf_fail(HF_EFORKED, "this client belongs to the parent process: open a new one "
                                   "after fork");
    if (__atomic_load_n(&client->closed, __ATOMIC_ACQUIRE))
        return hf_fail(HF_ECLOSED, "the client is closed");
    return HF_OK;
}

bool hf_client_inherited(const hf_client *client) { return client->generation != hf_generation(); }

hf_client *hf_client_keep(hf_client *client) {
    __atomic_add_fetch(&client->references, 1, __ATOMIC_RELAXED);
    return client;
}

void hf_client_drop(hf_client *client) {
    if (__atomic_sub_fetch(&client->references, 1, __ATOMIC_ACQ_REL) == 0)
        client->destroy(client);
}

void hf_client_lock(hf_client *client) { pthread_mutex_lock(&client->mutex); }

void hf_client_unlock(hf_client *client) {
    int told[HF_TOLD_MAX];
    size_t count = client->told_count;
    if (count > 0)
        memcpy(told, client->told, count * sizeof *told);
    client->told_count = 0;
    pthread_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < count; i++)
        eventfd_write(told[i], 1);
}

void hf_client_tell_locked(hf_client *client, int fd) {
    if (client->told_count < HF_TOLD_MAX)
        client->told[client->told_count++] = fd;
    else
        eventfd_write(fd, 1);
}

hf_status hf_client_owner(const hf_client *client, char kind, int64_t serial, char *buffer,
                          size_t capacity) {
    if (client == NULL || buffer == NULL || (kind != 't' && kind != 'a' && kind != 'o') ||
        serial < (kind == 't' ? 0 : 1))
        return hf_fail(HF_EINVAL,
                       "an owner needs a client, a kind (t, a or o) and a serial above 0");
    if (serial == 0)
        serial = hf_thread_serial();
    char rest[24] = {kind}; /* by hand: every acquire and release asks for it */
    size_t length = 1 + hf_digits(rest + 1, serial);
    if (capacity <= client->prefix_length + length)
        return hf_fail(HF_EINVAL, "the buffer for the owner is too small");
    memcpy(buffer, client->prefix, client->prefix_length);
    memcpy(buffer + client->prefix_length, rest, length + 1);
    return HF_OK;
}

hf_status hf_client_new_id_locked(hf_client *client, char *id) {
    if (client->random_left < 16) {
        /* In stock, because asking the system costs more than all else here. */
        if (!hf_random(client->random, sizeof client->random))
            return hf_fail(HF_ENOMEM, "the system gives no random bytes");
        client->random_left = sizeof client->random;
    }
    client->random_left -= 16;
    hf_hex(id, client->random + client->random_left, 16);
    memset(client->random + client->random_left, 0, 16);
    return HF_OK;
}

int64_t hf_client_patience(const hf_client *client) {
    return hf_after(hf_now(), hf_transport_patience_ms(client->transport));
}

hf_status hf_client_set_interrupt(hf_client *client, hf_interrupt check, void *context) {
    hf_status status = hf_client_check(client);
    if (status != HF_OK)
        return status;
    client->interrupt_context = context;
    client->interrupt = check;
    return HF_OK;
}

hf_status hf_client_listen(const hf_client *client, bool *listens) {
    int answer = client->interrupt(client->interrupt_context);
    *listens = answer >= 0;
    return answer > 0 ? hf_fail(HF_EINTR, "a signal ended the wait") : HF_OK;
}

hf_status hf_client_sleep(hf_client *client, int64_t ms, bool interruptible) {
    struct pollfd fd = {.fd = client->closed_fd, .events = POLLIN};
    bool listens = client->interrupt != NULL;
    int ready = poll(&fd, 1, ms > INT32_MAX ? INT32_MAX : (int)ms);
    if (ready > 0)
        return hf_fail(HF_ECANCELED, "the client was closed during the wait");
    if (ready < 0 && interruptible)
        return hf_fail(HF_EINTR, "a signal ended the wait");
    return listens ? hf_client_listen(client, &listens) : HF_OK;
}
