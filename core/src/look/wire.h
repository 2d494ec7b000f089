/* The requests and answers of a look; protocol/answers.h has those of a lock. Pure functions. */
#ifndef HF_WIRE_H
#define HF_WIRE_H

#include "protocol/answers.h"

#define HF_CURSOR_SIZE 21 /* 64 bits in decimal, and a NUL */

/* Request one page of the keys of a server: those of that type that match the pattern. */
void hf_request_scan(hf_request *request, const char *cursor, int64_t count, const char *type,
                     const void *pattern, size_t length);
/* Request the number of keys of a server; and the nodes of a cluster, as this node sees them. */
void hf_request_dbsize(hf_request *request);
void hf_request_nodes(hf_request *request);

/* One holder in the reply. */
typedef struct hf_holding {
    char id[HF_ID_LENGTH + 1];
    const char *owner, *note;
    size_t owner_length, note_length;
    bool shared, kept;
    int64_t fence, remaining_ms, weight;
} hf_holding;

typedef struct hf_found {
    bool held, foreign, shared;
    hf_holding first; /* the first holder; empty if no holder is known */
    bool plain;       /* foreign, and the key does not show that it is a lock */
    bool moving;      /* its slot is being moved: only the lock's own key could be read */
    int64_t count, waiters;
    int64_t ttl_ms;          /* below HF_TTL_NONE: there is no key */
    int64_t result_ms;       /* for how long its record stays; below HF_TTL_NONE: there is no
                              * record */
    int64_t server_us;       /* the time of the look */
    int64_t permits, per_ms; /* of the stored limit; 0: no limit; 0: not of a gate */
} hf_found;
bool hf_reply_inspect(const redisReply *reply, hf_found *found);
/* Read the record in a reply that hf_reply_inspect() has read. False: there is none. */
bool hf_reply_found_record(const redisReply *reply, hf_call_record *record);
/* Read the holds that such a reply lists: their number, and each from 0. False: it is malformed. */
size_t hf_reply_holdings(const redisReply *reply);
bool hf_reply_holding(const redisReply *reply, size_t which, hf_holding *holding);

/* One member of the queue in the answer of inspect, from 0. */
typedef struct hf_queued {
    const char *owner, *note; /* in the reply */
    size_t owner_length, note_length;
    bool shared;
    int64_t permits, weight;
    int64_t timeout_ms; /* or HF_FOREVER */
    int64_t score;
} hf_queued;
size_t hf_reply_queued_count(const redisReply *reply);
/* Read a member. False: no client of ours has written it. */
bool hf_reply_queued(const redisReply *reply, size_t which, hf_queued *queued);

/* Read a page of SCAN: the cursor of the next page, "0" at the end, and keys, which belong to the
 * reply. */
bool hf_reply_scan(const redisReply *reply, char cursor[HF_CURSOR_SIZE], size_t *count);
const char *hf_reply_key(const redisReply *reply, size_t which, size_t *length);
/* Read the slots of that node in an answer to CLUSTER NODES, as a hash, which shows whether slots
 * moved. *moving: a slot is being moved now. False: the answer does not have the slots. */
bool hf_reply_slots(const redisReply *reply, uint64_t *slots, bool *moving);

#endif
