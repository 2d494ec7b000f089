#include "lock/client.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/brake.h"
#include "base/simulated.h"

hf_status hf_client_check(const hf_client *client) {
    if (client == NULL)
        return hf_fail(HF_EINVAL, "the handle is NULL");
    if (hf_client_inherited(client)) {
        HF_MARK("C12");
        return hf_fail(HF_EFORKED, "this client belongs to the parent process: open a new one "
                                   "after fork");
    }
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

hf_client *hf_client_lock(hf_client *client) {
    pthread_mutex_lock(&client->mutex);
    return client;
}

void hf_client_unlock(hf_client *client) {
    int told[HF_TOLD_MAX];
    size_t count = client->told_count;
    if (count > 0)
        memcpy(told, client->told, count * sizeof *told);
    client->told_count = 0;
    pthread_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < count; i++)
        hf_event_set(told[i]);
}

void hf_client_tell_locked(hf_client *client, int to) {
    if (client->told_count < HF_TOLD_MAX)
        client->told[client->told_count++] = to;
    else
        hf_event_set(to);
}

hf_status hf_client_owner(const hf_client *client, char kind, int64_t serial, char *buffer,
                          size_t capacity) {
    if (client == NULL || buffer == NULL || (kind != 't' && kind != 'a' && kind != 'o') ||
        serial < (kind == 't' ? 0 : 1))
        return hf_fail(HF_EINVAL,
                       "an owner needs a client, a kind (t, a or o) and a serial above 0");
    if (serial == 0)
        serial = hf_thread_serial();
    char rest[24] = {kind}; /* without snprintf(): every acquire and release calls this */
    size_t length = 1 + hf_digits(rest + 1, serial);
    if (capacity <= client->prefix_length + length)
        return hf_fail(HF_EINVAL, "the buffer for the owner is too small");
    memcpy(buffer, client->prefix, client->prefix_length);
    memcpy(buffer + client->prefix_length, rest, length + 1);
    return HF_OK;
}

/* Cut the mark and the number after it off the end of the text. Return the number; -1: the text
 * does not end so. */
static int64_t cut_number(const char *text, size_t *length, char mark) {
    size_t at = *length;
    int64_t number = 0, unit = 1;
    for (;
         at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' && unit <= INT64_C(1000000000000000);
         unit *= 10)
        number += unit * (text[--at] - '0');
    if (at == *length || at == 0 || text[at - 1] != mark)
        return -1;
    *length = at - 1;
    return number;
}

/* Cut the last mark and the bytes after it off the text, and copy these bytes. False: too many, or
 * none. */
static bool cut_part(const char *text, size_t *length, char mark, char *to, size_t capacity) {
    size_t at = *length;
    while (at > 0 && text[at - 1] != mark)
        at--;
    if (at == *length || *length - at >= capacity)
        return false;
    memcpy(to, text + at, *length - at);
    *length = at > 0 ? at - 1 : 0;
    return true;
}

/* Read "<client name>@<host>/<pid>:<client id>:<kind><serial>" from its end, because a client's
 * name may contain these marks. */
int hf_owner_parse(const void *owner, size_t owner_len, hf_owner_parts *parts) {
    static const char kinds[] = "tao";
    const char *text = owner;
    hf_owner_parts found = {0};
    size_t length = owner_len;
    if (owner == NULL || parts == NULL || parts->size < sizeof parts->size ||
        memchr(owner, '\0', owner_len) != NULL)
        return 0;
    for (const char *kind = kinds; *kind != '\0' && found.kind == 0; kind++) {
        found.serial = cut_number(text, &length, *kind);
        found.kind = found.serial > 0 ? *kind : 0;
    }
    if (found.kind == 0 || length == 0 || text[--length] != ':' ||
        !cut_part(text, &length, ':', found.client_id, HF_ID_LENGTH + 1) ||
        strspn(found.client_id, "0123456789abcdef") != HF_ID_LENGTH)
        return 0;
    found.pid = cut_number(text, &length, '/');
    if (found.pid <= 0 || !cut_part(text, &length, '@', found.host, sizeof found.host) ||
        length == 0 || length >= sizeof found.client_name)
        return 0;
    memcpy(found.client_name, text, length);
    hf_struct_tell(parts, &found, sizeof found);
    return 1;
}

hf_status hf_client_new_id_locked(hf_client *client, char *id) {
    if (client->random_left < 16) {
        /* Kept in stock, because asking the system costs more than everything else here. */
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
    return hf_after(hf_now(), client->transport->connect_ms);
}

hf_status hf_client_call(const hf_client *client, hf_request *request, hf_answer *answer) {
    hf_status status =
        hf_transport_call(client->transport, request, hf_client_patience(client), answer);
    hf_request_free(request);
    return status;
}

hf_status hf_client_set_interrupt(hf_client *client, hf_interrupt check, void *context) {
    hf_status status = hf_client_check(client);
    if (status != HF_OK)
        return status;
    client->interrupt_context = context;
    client->interrupt = check;
    return HF_OK;
}

hf_status hf_client_listen(hf_client *client, bool *listens) {
    int answer = client->interrupt(client->interrupt_context);
    *listens = answer >= 0;
    if (hf_client_inherited(client)) { /* a handler forked while another thread may hold it */
        pthread_mutex_init(&client->mutex, NULL);
        return hf_client_check(client);
    }
    return answer > 0 ? hf_fail(HF_EINTR, "a signal ended the wait") : HF_OK;
}

hf_status hf_client_explain_closed(void) {
    return hf_fail(HF_ECANCELED, "the client was closed during the wait");
}

hf_status hf_client_sleep(hf_client *client, int64_t ms, bool interruptible) {
    struct pollfd fds[2] = {{.fd = client->closing.fd, .events = POLLIN},
                            {.fd = hf_brake_fd(), .events = POLLIN}};
    bool listens = client->interrupt != NULL;
    int ready = poll(fds, 2, ms > INT32_MAX ? INT32_MAX : (int)ms);
    if (ready > 0)
        return fds[0].revents != 0 ? hf_client_explain_closed()
                                   : hf_fail(HF_ECANCELED, "the wait was cancelled");
    if (ready < 0 && interruptible)
        return hf_fail(HF_EINTR, "a signal ended the wait");
    return listens ? hf_client_listen(client, &listens) : HF_OK;
}

void hf_owner_quote(const char *text, size_t length, char *to, size_t capacity) {
    hf_owner_parts parts = {.size = sizeof parts};
    const char *note;
    size_t note_length, owner_length = hf_owner_split(text, length, &note, &note_length);
    int used;
    if (hf_owner_parse(text, owner_length, &parts)) {
        const char *kind = parts.kind == 't' ? "thread" : parts.kind == 'a' ? "task" : "operation";
        used = snprintf(to, capacity, "'%.63s@%.63s/%lld %s %lld'", parts.client_name, parts.host,
                        (long long)parts.pid, kind, (long long)parts.serial);
    } else {
        used = snprintf(to, capacity, "%s", hf_quote(text, owner_length));
    }
    if (note_length > 0 && used > 0 && (size_t)used < capacity)
        snprintf(to + used, capacity - (size_t)used, ", noted %s", hf_quote(note, note_length));
}
