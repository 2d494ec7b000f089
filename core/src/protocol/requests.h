/*
 * Requests: each is one command, which runs a script or is a plain one. All their arguments are
 * written here, and so is the member of the queue that stands for a waiter. Pure functions, no I/O.
 * docs/protocol.md describes the whole format.
 */
#ifndef HF_REQUESTS_H
#define HF_REQUESTS_H

#include "protocol/names.h"
#include "protocol/scripts.h"

/* A request. Keys and arguments are encoded as they are added. */
typedef struct hf_request {
    const hf_script *script; /* NULL: a plain command */
    const char *command;     /* of a plain command: its beginning */
    int keys, arguments;
    size_t lock_end, keys_end; /* offsets in encoded: the end of the lock's key, and of all keys */
    unsigned slot;             /* of the keys */
    int32_t replicas;          /* how many should have its writes, within replica_ms; or 0 */
    int64_t replica_ms;
    bool hands_on; /* a release that probably grants: a blocking call sends a PING before it */
    bool fetches;  /* its answer may have a result, which may be long */
    const hf_script *alone; /* the script that does it with the lock's key alone:
                             * hf_request_alone(); or NULL */
    hf_bytes encoded;
} hf_request;

/* The mode of a hold. Once: exclusive, or the result of an earlier call. */
typedef enum { HF_MODE_EXCLUSIVE = 0, HF_MODE_SHARED = 1, HF_MODE_ONCE = 2 } hf_mode;

/* The arguments of one hold id that requests a lock, or gives it up. The bytes are the caller's. */
typedef struct hf_ask {
    const char *id;
    const char *owner;
    size_t owner_length;
    int64_t lease_ms; /* or HF_NEVER */
    hf_mode mode;
    int64_t permits; /* of a shared hold: how many permits there are; 0: no limit */
    int64_t weight;  /* how many permits it takes; 0: 1 */
    bool reentrant;
    const char *inside; /* a live hold id of the same owner, in which it may nest; or NULL */
    /* For a current or former waiter: */
    const char *channel; /* where its grant arrives; NULL: it does not wait */
    size_t channel_length;
    int64_t timeout_ms; /* or HF_FOREVER */
    int64_t score;      /* its first place; 0: it has no place yet */
    int64_t ahead_ms;   /* the head start of its first place, from which the timeout counts */
} hf_ask;

/* Begin a plain command: the number of its words and the first of them, encoded; and add each other
 * word. */
void hf_request_command(hf_request *request, const char *command);
void hf_request_word(hf_request *request, const void *word, size_t length);

/* Make the first try of an acquire, which takes a free lock that has no waiters. The floor is the
 * highest fence of that lock that the client has seen. */
void hf_request_take(hf_request *request, const hf_names *names, const hf_ask *ask, int64_t floor);
/* Make the first try of a shared acquire, which joins other shared holds, or takes a free lock. */
void hf_request_share(hf_request *request, const hf_names *names, const hf_ask *ask, int64_t floor);
/* Make the first try of a waiter that joins others. */
void hf_request_wait(hf_request *request, const hf_names *names, const hf_ask *ask);
/* Make the full acquire, for one or several waiters of one lock; with count 0 it only hands on a
 * lock that was left free with more waiters to skip in its queue. */
void hf_request_acquire(hf_request *request, const hf_names *names, const hf_ask *asks,
                        size_t count, int64_t floor);
/* Make the first try of a release, when no waiter has arrived and there is no other shared hold. */
void hf_request_drop(hf_request *request, const hf_names *names, const char *id, int64_t fence,
                     bool shared);
/* Make the first try of the release of one of several shared holds, when no waiter has arrived. */
void hf_request_drop_one(hf_request *request, const hf_names *names, const char *id, int64_t fence);
/* Make the full release. fence: 0: not known. bury: a copy of its acquire may still be under way,
 * and must no longer count. If the ask has a channel, its place in the queue goes, too. */
void hf_request_release(hf_request *request, const hf_names *names, const hf_ask *ask,
                        int64_t fence, bool bury);

/* The states of a call that is made once, in its record. */
typedef enum {
    HF_RECORD_BEGUN = 'b',
    HF_RECORD_RETRY = 'r', /* it may be made again */
    HF_RECORD_DONE = 'd',
    HF_RECORD_FAILED = 'e' /* with an error that is kept */
} hf_record_kind;

/* In a record, and in a request: `m` (at most once) or `-`, and the fingerprint of the arguments in
 * hex, or dashes. */
#define HF_TERMS_LENGTH 65

/* The end of such a call, reported by a release. */
typedef struct hf_leaving {
    char how; /* HF_RECORD_DONE, HF_RECORD_FAILED, u: unknown, n: not made */
    const char *terms;
    const void *bytes; /* the result, the error, or the reason */
    size_t length;
    int64_t ttl_ms;
} hf_leaving;

/* Make a release that records the end of the call; NULL: only a release. */
void hf_request_finish(hf_request *request, const hf_names *names, const hf_ask *ask, int64_t fence,
                       bool bury, const hf_leaving *left);
/* Record the beginning of a call that is made at most once. unknown_ms: for how long an unknown
 * outcome is kept; HF_NEVER: until it is settled. */
void hf_request_begin(hf_request *request, const hf_names *names, const char *id, int64_t fence,
                      const char *terms, int64_t unknown_ms, const void *note, size_t length);

/* The decision of a person about a record. */
typedef struct hf_settlement {
    char verb; /* HF_RECORD_DONE, HF_RECORD_FAILED, HF_RECORD_RETRY, or f: forget it */
    int64_t fence;
    const char *id; /* of this request */
    bool force;
    int64_t ttl_ms;
    const void *bytes;
    size_t length;
    const char *owner;
    size_t owner_length;
    const void *note;
    size_t note_length;
} hf_settlement;
void hf_request_settle(hf_request *request, const hf_names *names, const hf_settlement *settlement);
/* Leave the queue. A grant that arrived first stands, and the answer reports it. */
void hf_request_cancel(hf_request *request, const hf_names *names, const hf_ask *ask, bool bury);
/* How a renewal moves the end of a hold. */
typedef enum {
    HF_RENEW_LONGER = 0,  /* never earlier */
    HF_RENEW_EXACTLY = 1, /* earlier or later */
    HF_RENEW_LOOK = 2,    /* not at all */
    HF_RENEW_KEEP = 3     /* earlier or later, and then never again */
} hf_renew_mode;

typedef struct hf_renewal {
    const hf_names *names;
    const char *id;
    int64_t fence;
    int64_t lease_ms; /* or HF_NEVER */
    hf_renew_mode mode;
    bool one_of_many; /* the lock may have several holds */
} hf_renewal;

void hf_request_renew(hf_request *request, const hf_renewal *renewals, size_t count);
/* Claim a grant by message: renew it, and remove its mark. write: write in any case, so that a WAIT
 * has something to count. */
void hf_request_claim(hf_request *request, const hf_renewal *renewal, const char *client_id,
                      bool write);

/* Look at a lock: at `most` holders and waiters after the first `skip`. whole: with the bytes of
 * the record. */
void hf_request_inspect(hf_request *request, const hf_names *names, int64_t skip, int64_t most,
                        bool whole);
void hf_request_break(hf_request *request, const hf_names *names, int64_t fence, bool foreign);
/* Store how many permits the lock has, and for a gate how long each pass counts; 0: no limit, no
 * gate. id: of this request, of which the server carries out one copy. */
void hf_request_limit(hf_request *request, const hf_names *names, const char *id, int64_t permits,
                      int64_t per_ms);
/* Give a foreign lock that would never end a TTL. */
void hf_request_heal(hf_request *request, const hf_names *names, int64_t ttl_ms);
/* Publish a message on the client's own channel, and count its listeners. The lock supplies the key
 * that every script needs. */
void hf_request_selftest(hf_request *request, const hf_names *names, const char *channel,
                         size_t length);
/* Ask which permissions the user lacks for a refused request. */
void hf_request_permissions(hf_request *request, const hf_request *refused);
/* Return the request's first key. The bytes belong to the request. NULL: there was no memory. */
const char *hf_request_key(const hf_request *request, size_t *length);
/* Replace the request with one that needs the lock's key alone, while its slot is being moved and
 * its keys are on two servers: a release that the waiters notice later, or a look at the holders.
 * False: there is no such request. */
bool hf_request_alone(hf_request *request);

void hf_request_free(hf_request *request);
/* Move a request: it may point into itself, so that a plain copy would not do. */
void hf_request_move(hf_request *to, hf_request *from);
/* Write the bytes before `encoded`: the command, or EVALSHA with the digest, or EVAL with the
 * text. */
void hf_request_head(const hf_request *request, bool whole, hf_bytes *head);

/* Write the member of the queue that stands for a waiter. */
void hf_ask_member(const hf_ask *ask, hf_bytes *member);

#endif
