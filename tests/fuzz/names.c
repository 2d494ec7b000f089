/* Names and their companion keys; option structs of other sizes than this version's. */
#include "fuzz.h"

#include "protocol/requests.h"

/* Redis Cluster hashes the text between the first { and the next }, or the whole name. */
static const uint8_t *tag_of(const void *key, size_t length, size_t *tag_length) {
    const uint8_t *open = memchr(key, '{', length);
    const uint8_t *end = (const uint8_t *)key + length;
    const uint8_t *close = open != NULL ? memchr(open + 1, '}', (size_t)(end - open - 1)) : NULL;
    if (close == NULL || close == open + 1) {
        *tag_length = length;
        return key;
    }
    *tag_length = (size_t)(close - open - 1);
    return open + 1;
}

static void check_names(const uint8_t *data, size_t size) {
    hf_names *names;
    hf_request request;
    hf_status status = hf_names_new(data, size, 0, &names);
    if (status != HF_OK) {
        promise(status == HF_EINVAL && names == NULL && *hf_error_message() != '\0');
        return;
    }
    promise(names->length == size && memcmp(names->data, data, size) == 0);
    size_t length, companion_length;
    const uint8_t *tag = tag_of(data, size, &length);
    const uint8_t *companion = tag_of(names->companion, names->tagged, &companion_length);
    promise(length == companion_length && memcmp(tag, companion, length) == 0);
    hf_ask ask = {.id = "0123456789abcdef0123456789abcdef",
                  .owner = (const char *)data,
                  .owner_length = size,
                  .lease_ms = 1000};
    hf_request_acquire(&request, names, &ask, 1, 0);
    promise(!request.encoded.failed && request.keys == 6 && request.arguments == 8);
    hf_request_free(&request);
    hf_names_drop(names);
}

static void check_options(const uint8_t *data, size_t size) {
    hf_lock_options options;
    uint32_t given;
    if (size < sizeof given)
        return;
    /* Exactly as large as it claims, so that a read beyond its end is noticed. */
    memcpy(&given, data, sizeof given);
    if (given > size)
        given = (uint32_t)size;
    void *copy = malloc(size);
    memcpy(copy, data, size);
    memcpy(copy, &given, sizeof given);
    void *exact = malloc(given > sizeof given ? given : sizeof given);
    memcpy(exact, copy, given > sizeof given ? given : sizeof given);
    hf_status status = hf_options_copy(&options, sizeof options, exact, "hf_lock_options");
    promise(status == HF_OK || status == HF_EINVAL);
    promise(status != HF_OK || given >= sizeof given);
    free(exact);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_names(data, size);
    check_options(data, size);
    return 0;
}
