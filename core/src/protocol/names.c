#include "protocol/names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/encoding.h"

/* Return whether the name ends as our companion keys do: ":hf", digits, ":", one letter. */
static bool reserved(const char *name, size_t length) {
    size_t at = length;
    if (at < 6 || !isalpha((unsigned char)name[at - 1]) || name[at - 2] != ':')
        return false;
    at -= 2;
    size_t digits_end = at;
    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    return at < digits_end && at >= 3 && memcmp(name + at - 3, ":hf", 3) == 0;
}

/* Return the cluster slot of a key with that tag: CRC16-XMODEM. */
static unsigned slot(const char *tag, size_t length) {
    unsigned crc = 0;
    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned)(unsigned char)tag[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc << 1 ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
    }
    return crc % HF_SLOTS;
}

static char *put(char *to, const void *bytes, size_t length) {
    return (char *)memcpy(to, bytes, length) + length;
}

hf_status hf_names_new(const void *name, size_t length, int64_t fence_life_ms,
                       hf_names **names_out) {
    *names_out = NULL;
    if (length == 0)
        return hf_fail(HF_EINVAL, "the name is empty");
    if (name == NULL || length > PTRDIFF_MAX)
        return hf_fail(HF_EINVAL, "the name %s",
                       name == NULL ? "is NULL" : "has a negative length");
    if (length > HF_NAME_MAX)
        return hf_fail(HF_EINVAL, "the name has %zu bytes: at most %d", length, HF_NAME_MAX);
    if (reserved(name, length))
        return hf_fail(HF_EINVAL, "the name %s ends like one of a lock's own keys: choose another",
                       hf_quote(name, length));
    /* The rule of Redis Cluster for the hash tag: between the first { and the next }. */
    const char *tag = name, *open = memchr(name, '{', length);
    size_t tag_length = length;
    if (open != NULL) {
        const char *from = open + 1;
        const char *close = memchr(from, '}', length - (size_t)(from - (const char *)name));
        if (close != NULL && close > from) {
            tag = from;
            tag_length = (size_t)(close - from);
        }
    }
    /* Its companions could be the companions of a lock with that tag. */
    if (tag == name && memchr(name, '}', length) != NULL)
        return hf_fail(HF_EINVAL,
                       "the name %s has a } but no {tag}: leave it out, or put a tag in front",
                       hf_quote(name, length));
    size_t tagged = tag_length + length + 3;
    hf_names *names =
        malloc(sizeof *names + length + tagged + sizeof HF_LAST_FENCE + 2 * (HF_HEADER_MAX + 2));
    if (names == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    names->references = 1;
    names->fence_life_ms = fence_life_ms;
    names->hash = hf_hash(0, name, length);
    names->slot = slot(tag, tag_length);
    names->length = length;
    names->tagged = tagged;
    char *to = hf_header(names->encoded, '$', length);
    names->data = to;
    to = put(put(to, name, length), "\r\n", 2);
    names->lock_end = (size_t)(to - names->encoded);
    to = hf_header(to, '$', tagged + sizeof HF_LAST_FENCE - 1);
    names->companion = to;
    to = put(put(put(to, "{", 1), tag, tag_length), "}", 1);
    to = put(put(to, name, length), ":" HF_LAST_FENCE "\r\n", sizeof HF_LAST_FENCE + 2);
    names->fence_end = (size_t)(to - names->encoded);
    *names_out = names;
    return HF_OK;
}

hf_names *hf_names_keep(hf_names *names) {
    __atomic_add_fetch(&names->references, 1, __ATOMIC_RELAXED);
    return names;
}

void hf_names_drop(hf_names *names) {
    if (names != NULL && __atomic_sub_fetch(&names->references, 1, __ATOMIC_ACQ_REL) == 0)
        free(names);
}

const char *hf_names_quoted(const hf_names *names) { return hf_quote(names->data, names->length); }

bool hf_names_equal(const hf_names *one, const hf_names *other) {
    return one == other ||
           (one->length == other->length && memcmp(one->data, other->data, one->length) == 0);
}

void hf_names_channel(const hf_names *names, bool sharded, const char *client_id, hf_bytes *name) {
    hf_bytes_add(name, "hf:", 3);
    if (sharded) {
        hf_bytes_add(name, names->companion, names->tagged - names->length - 1);
        hf_bytes_add(name, ":", 1);
    }
    hf_bytes_add(name, client_id, HF_ID_LENGTH);
}

size_t hf_owner_split(const char *text, size_t length, const char **note, size_t *note_length) {
    const char *mark = memmem(text, length, HF_NOTE_MARK, HF_NOTE_MARK_LENGTH);
    *note = mark != NULL ? mark + HF_NOTE_MARK_LENGTH : "";
    *note_length = mark != NULL ? (size_t)(text + length - *note) : 0;
    return mark != NULL ? (size_t)(mark - text) : length;
}
