/* A lock's key as the server stores it: the three forms of docs/protocol.md. */
#ifndef FORMAT_H
#define FORMAT_H

#include "check.h"

#include <hiredis/hiredis.h>

typedef struct stored {
    int64_t holds; /* 0: Holdfast has no hold here */
    int64_t fence; /* of the exclusive section */
    const char *owner;
    size_t owner_length;
} stored;

/* Read the reply to HGETALL, in which the owner's bytes stay. */
static inline stored read_stored(const redisReply *all) {
    stored found = {.owner = ""};
    if (all == NULL || all->type != REDIS_REPLY_ARRAY)
        return found;
    for (size_t i = 0; i + 1 < all->elements; i += 2) {
        const redisReply *name = all->element[i], *value = all->element[i + 1];
        if (strcmp(name->str, "hf1") == 0 && value->len >= 62) {
            bool one = value->str[32] == '1';
            found.holds = one ? 1 : (int64_t)all->elements / 2 - 1;
            found.fence = atoll(text("%.16s", value->str + (one ? 33 : 0)));
            found.owner = value->str + 62;
            found.owner_length = (size_t)value->len - 62;
            return found;
        }
        if (name->len == 49 && all->elements == 2)
            return (stored){1, atoll(name->str + 33), value->str, (size_t)value->len};
    }
    return found;
}

/* Return whether a last fence, as GET returns it, has the client of an unclaimed grant. */
static inline bool has_mark(const char *last) { return strlen(last) == 61 && last[16] != '-'; }

/* Return Cluster's hash of a key, from its specification: CRC16-XMODEM of the tag. */
static inline int slot_of(const char *key) {
    size_t length = strlen(key);
    const char *open = strchr(key, '{'), *close = open != NULL ? strchr(open, '}') : NULL;
    if (close != NULL && close > open + 1) {
        key = open + 1;
        length = (size_t)(close - key);
    }
    unsigned crc = 0;
    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned)(unsigned char)key[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
    }
    return (int)(crc & 0x3fff);
}

#endif
