/* The requests and answers of a look, as in protocol/answers.h for a lock. Pure
 * functions. */
#ifndef HF_WIRE_H
#define HF_WIRE_H

#include "protocol/answers.h"

#define HF_CURSOR_SIZE 21 /* 64 bits in decimal, and a NUL */

/* One page of the keys of a server: those of that type that match the pattern. */
void hf_request_scan(hf_request *request, const char *cursor, int64_t count, const char *type,
                     const void *pattern, size_t length);
/* The number of keys of a server; and the view that a node of a cluster has of the nodes. */
void hf_request_dbsize(hf_request *request);
void hf_request_nodes(hf_request *request);

/* One holder, in the reply. */
typedef struct hf_holding {
    char id[HF_ID_LENGTH + 1];
    const char *owner, *note;
    size_t owner_length, note_length;
    bool shared, kept;
    int64_t fence, remaining_ms, weight;
} hf_holding;

typedef struct hf_found {
    bool held, foreign, shared;
    hf_holding first; /* of the holders; empty if no holder is known */
    bool plain;       /* foreign, and the key does not show that it is a lock */
    bool moving;      /* its slot is: only the lock's own key could be looked at */
    int64_t count, waiters;
    int64_t ttl_ms;          /* below HF_TTL_NONE: there is no key */
    int64_t result_ms;       /* for how long its record stays; likewise */
    int64_t server_us;       /* when it was looked at */
    int64_t permits, per_ms; /* of the limit that is stored; 0: none; 0: it is of no gate */
} hf_found;
bool hf_reply_inspect(const redisReply *reply, hf_found *found);
/* The record in a reply that this has read. False: there is none. */
bool hf_reply_found_record(const redisReply *reply, hf_call_record *record);
/* Of a reply that this has read: the number of holds that it lists, and each from 0. False: it is
 * malformed. */
size_t hf_reply_holdings(const redisReply *reply);
bool hf_reply_holding(const redisReply *reply, size_t which, hf_holding *holding);

/* One member of the queue in inspect's answer, from 0. */
typedef struct hf_queued {
    const char *owner, *note; /* in the reply */
    size_t owner_length, note_length;
    bool shared;
    int64_t permits, weight;
    int64_t timeout_ms; /* or HF_FOREVER */
    int64_t score;
} hf_queued;
size_t hf_reply_queued_count(const redisReply *reply);
/* False: it is not a member that a client of ours wrote. */
bool hf_reply_queued(const redisReply *reply, size_t which, hf_queued *queued);

/* A page of SCAN: the cursor of the next one, "0" at the end, and keys. Bytes of the reply. */
bool hf_reply_scan(const redisReply *reply, char cursor[HF_CURSOR_SIZE], size_t *count);
const char *hf_reply_key(const redisReply *reply, size_t which, size_t *length);
/* The slots of that node in an answer to CLUSTER NODES, as a hash, which shows whether slots
 * moved. *moving: one is being moved now. False: the answer does not have them. */
bool hf_reply_slots(const redisReply *reply, uint64_t *slots, bool *moving);

#endif
