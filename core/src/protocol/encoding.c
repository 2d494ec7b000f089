#include "protocol/encoding.h"

#include <string.h>

char *hf_header(char *to, char kind, size_t number) {
    *to++ = kind;
    if (number < 10)
        *to++ = (char)('0' + number);
    else
        to += hf_digits(to, (int64_t)number);
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

void hf_encode_count(hf_bytes *bytes, size_t count) {
    char header[HF_HEADER_MAX];
    hf_bytes_add(bytes, header, (size_t)(hf_header(header, '*', count) - header));
}

void hf_encode(hf_bytes *bytes, const void *data, size_t length, const void *more,
               size_t more_length) {
    char *to = hf_bytes_room(bytes, HF_HEADER_MAX + length + more_length + 2);
    if (to == NULL)
        return;
    to = hf_header(to, '$', length + more_length);
    if (length > 0) /* NULL is allowed */
        memcpy(to, data, length);
    memcpy(to += length, more, more_length);
    memcpy(to += more_length, "\r\n", 2);
    bytes->length = (size_t)(to + 2 - bytes->data); /* the header was shorter */
}

void hf_encode_words(hf_bytes *bytes, int count, const char *const *words, const size_t *lengths) {
    hf_encode_count(bytes, (size_t)count);
    for (int i = 0; i < count; i++)
        hf_encode(bytes, words[i], lengths != NULL ? lengths[i] : strlen(words[i]), "", 0);
}
