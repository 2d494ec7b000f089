/*
 * Answers: each script's reply as plain data within bounds, so that arithmetic on it cannot
 * overflow. Pure functions. docs/protocol.md has the forms.
 */
#ifndef HF_ANSWERS_H
#define HF_ANSWERS_H

#include <hiredis/hiredis.h>

#include "protocol/requests.h"

/* Fences and the server's time, in us, are within these bounds, so that a double holds them
 * exactly. */
#define HF_NUMBER_MAX (INT64_C(1) << 53)

/* A TTL, or the rest of a hold, in ms, or one of these values. */
#define HF_TTL_NONE INT64_C(-1) /* it never ends */
#define HF_TTL_MORE INT64_C(-2) /* the lock is free, with more waiters to skip in its queue */

/* The state of a hold id. */
typedef enum {
    HF_STANDS_BUSY = 0, /* another owner holds the lock, and the id is not queued */
    HF_STANDS_HELD = 1,
    HF_STANDS_QUEUED = 2,
    HF_STANDS_DEAD = 3,    /* released, cancelled, or its lease ran out */
    HF_STANDS_FOREIGN = 4, /* queued, behind another library's lock */
    HF_STANDS_OUTCOME = 5, /* its call has an outcome */
    HF_STANDS_REFUSED = 9, /* its owner holds the lock shared, and requests it exclusively */
    HF_STANDS_LIMITED = 10 /* it gives a number of permits other than the stored one */
} hf_stands;

/* Whether a shared hold had others beside it when it began. */
typedef enum { HF_COMPANY_UNKNOWN = 0, HF_COMPANY_NONE, HF_COMPANY_OTHERS } hf_company;

typedef struct hf_standing {
    hf_stands state;
    bool was_out;                /* it had a place, and was out of the queue */
    int64_t fence, remaining_ms; /* if held */
    int64_t score, rank;         /* if queued */
    int64_t permits, per_ms;     /* if limited: the stored limit; 0: no limit, no gate */
    hf_company company;          /* if it is shared, and a short answer has it */
    const redisReply *record;    /* if it has an outcome: hf_reply_record() */
    int64_t record_ms;
} hf_standing;

/* The record of a call that is made once. The bytes belong to the reply. */
typedef struct hf_call_record {
    hf_record_kind kind;
    bool runs;             /* begun, and its hold stands */
    const char *terms;     /* HF_TERMS_LENGTH bytes */
    int64_t fence;         /* of the hold that made the call */
    int64_t since_us;      /* when the record was written, by the server's clock */
    int64_t left_ms;       /* or HF_TTL_NONE */
    int64_t result_length; /* of its bytes, which the reply may lack */
    const char *owner, *note, *bytes;
    size_t owner_length, note_length, length;
} hf_call_record;
/* Read a record. False: it is malformed. */
bool hf_reply_record(const redisReply *reply, int64_t left_ms, hf_call_record *record);

/* Return an integer; -1: the reply is no integer. */
int64_t hf_reply_number(const redisReply *reply);
/* Return a string, which belongs to the reply. False: the reply is no string. */
bool hf_reply_text(const redisReply *reply, const char **text, size_t *length);

/* Return the string after that name, in a reply of names and values; NULL: it has no such name. */
const char *hf_reply_field(const redisReply *reply, const char *name);

/* Return HF_EPROTOCOL, for a reply that this script or command never gives. */
hf_status hf_unexpected(const char *what);

/* The part of an answer to acquire or cancel that is about the lock. */
typedef struct hf_look {
    int64_t server_us;
    int64_t ttl_ms; /* of the lock's first hold to end */
} hf_look;

/* The result of reading an answer: HF_ANSWER_NONSENSE if the script gives no such reply. */
typedef enum {
    HF_ANSWER_NONSENSE,
    HF_ANSWER_GOOD,
    HF_ANSWER_HELD, /* the server did nothing: another owner holds the lock */
    HF_ANSWER_ASK,  /* the server did nothing: send acquire */
    HF_ANSWER_LIMIT /* the server did nothing: send acquire, later too, because a limit may be
                     * stored */
} hf_answer_kind;

/* Read the answer. lease_ms: the lease requested, which a short answer does not repeat. */
hf_answer_kind hf_reply_take(const redisReply *reply, int64_t lease_ms, hf_look *look,
                             hf_standing *mine);
hf_answer_kind hf_reply_share(const redisReply *reply, int64_t lease_ms, hf_look *look,
                              hf_standing *mine);
hf_answer_kind hf_reply_wait(const redisReply *reply, hf_look *look, hf_standing *mine);

/* Read the answer to acquire or cancel: the state of each of `count` hold ids. False: the script
 * gives no such reply. */
bool hf_reply_acquire(const redisReply *reply, hf_look *look, hf_standing *mine, size_t count);
/* Return the holder of the lock from the answer to a cancel, in the reply; NULL: there is none.
 * *kept: the holder's work has ended. */
const char *hf_reply_holder(const redisReply *reply, size_t *length, bool *kept);

/* Read the limit that was replaced; 0, 0: none. False: the script gives no such reply. */
bool hf_reply_limit(const redisReply *reply, int64_t *permits, int64_t *per_ms);

/* The answers of release, leave and break. */
typedef enum {
    HF_RELEASE_NONSENSE = -1,
    HF_RELEASE_NOT_HELD = 0,
    HF_RELEASE_DONE = 1,
    HF_RELEASE_MORE = 2,    /* done, with more waiters to skip in the queue */
    HF_RELEASE_SPLIT = 3,   /* only `leave`: the lock's other keys are needed */
    HF_RELEASE_REFUSED = 5, /* done, except for the result, which is not kept */
    HF_RELEASE_KEPT = 6,    /* the result is kept, though the hold was over */
    HF_RELEASE_SETTLED = 7  /* the record is another caller's, and the result is not kept */
} hf_release_outcome;
hf_release_outcome hf_reply_release(const redisReply *reply);

/* The answers of settle. */
typedef enum {
    HF_SETTLE_NONSENSE = -1,
    HF_SETTLE_NONE = 0,
    HF_SETTLE_DONE = 1,
    HF_SETTLE_MORE = 2,
    HF_SETTLE_RUNS = 3, /* the call is in progress */
    HF_SETTLE_OVER = 4  /* the call is done already */
} hf_settle_outcome;
hf_settle_outcome hf_reply_settle(const redisReply *reply);

/* The answer to a renewal or a claim for a hold: its time left in ms, HF_TTL_NONE, or one of
 * these. */
#define HF_RENEWAL_GONE INT64_C(-2)
#define HF_RENEWAL_REFUSED INT64_C(-3) /* or the answer cannot be read */
#define HF_RENEWAL_MANY INT64_C(-4)    /* it is one of many: send the request again as such */
bool hf_reply_renewal(const redisReply *reply, int64_t *left_ms);
/* Read the answers for many holds; an unreadable answer, or no reply (NULL), is a refusal. */
void hf_reply_renewals(const redisReply *reply, int64_t *left_ms, size_t count);

/* Return whether the answer to an acquire or a claim shows that the hold stands, so that the
 * request may have written. */
bool hf_reply_holds(const redisReply *reply);

/* A message on a client's channel: "g<hold id><fence><server us>". */
typedef struct hf_grant {
    char id[HF_ID_LENGTH + 1];
    int64_t fence, server_us;
} hf_grant;
bool hf_message_grant(const char *text, size_t length, hf_grant *grant);
/* Read "r<hold id><server us>": a result is there for the waiters of that hold id's lock. */
bool hf_message_result(const char *text, size_t length, char id[HF_ID_LENGTH + 1]);
/* Return whether the text is the message of the self-test. */
bool hf_message_test(const char *text);

/* Return a field of an answer of INFO, truncated; empty: the server does not report it. */
const char *hf_info_field(const char *info, const char *name, char *to, size_t capacity);

/* Return how long an unclaimed grant lasts, if its lease is not shorter. */
#define HF_CLAIM_MS INT64_C(3000)
int64_t hf_granted_ms(int64_t lease_ms);

#endif
