/*
 * Requests and replies: what is sent to run a script, and what its answer
 * means. Pure functions, no I/O. The scripts in protocol/ say what the
 * arguments and the answers are; docs/protocol.md describes the whole format.
 */
#ifndef HF_PROTOCOL_H
#define HF_PROTOCOL_H

#include <hiredis/hiredis.h>

#include "base/util.h"
#include "protocol/scripts.h"

#define HF_ID_LENGTH 32
#define HF_SLOTS 16384 /* of a Cluster */

/* A lock's name and its companion keys, shared by all that speaks of it. */
typedef struct hf_names {
    int references;
    uint64_t hash; /* of the name */
    unsigned slot; /* of it and its companions, in a Cluster */
    size_t length; /* of the name, which is data[0..length) */
    size_t tagged; /* of "{tag}name:", which follows it */
    char data[];
} hf_names;

/* HF_EINVAL if the name cannot be used. One reference, the caller's. */
hf_status hf_names_new(const void *name, size_t length, hf_names **names_out);
hf_names *hf_names_keep(hf_names *names);
void hf_names_drop(hf_names *names);

/* One command that runs a script; its arguments are encoded as they come. */
typedef struct hf_request {
    const hf_script *script;
    int keys, arguments;
    size_t keys_end;  /* in encoded */
    unsigned slot;    /* of the keys */
    int32_t replicas; /* so many are to have it, within replica_ms; 0: none */
    int64_t replica_ms;
    hf_bytes encoded;
} hf_request;

void hf_request_begin(hf_request *request, const hf_script *script);
void hf_request_free(hf_request *request);
/* It is there now, and no more where it was. */
void hf_request_move(hf_request *to, hf_request *from);
/* The bytes before `encoded`: EVALSHA with the digest, or EVAL with the text. */
void hf_request_head(const hf_request *request, bool whole, hf_bytes *head);

/* Keys first: the lock, a companion (its suffix is "hf1:q" or "hf1:f"), a dead hold id. */
void hf_request_lock(hf_request *request, const hf_names *names);
void hf_request_companion(hf_request *request, const hf_names *names, const char *suffix);
void hf_request_dead(hf_request *request, const hf_names *names, const char *id);
/* Then arguments. */
void hf_request_bytes(hf_request *request, const void *bytes, size_t length);
void hf_request_number(hf_request *request, int64_t number);

/* Ask which permissions the user lacks for that request. */
void hf_request_permissions(hf_request *request, const hf_request *refused);

/* The same release with the lock's key alone, for while its slot is being moved and its
 * keys are on two servers; who waits finds out later. False: there is no such request. */
bool hf_request_alone(hf_request *request, const hf_request *split);

/* What acquire and cancel answer for one hold id. */
enum {
    HF_REPLY_BUSY = 0,
    HF_REPLY_HELD = 1,
    HF_REPLY_QUEUED = 2,
    HF_REPLY_DEAD = 3,
    HF_REPLY_FOREIGN = 4
};

/* The numbers of a reply that is an array of `count` or more integers. */
bool hf_reply_numbers(const redisReply *reply, int64_t *numbers, size_t count);
/* Those of acquire, recheck and cancel: server us, TTL, and three for each hold id,
 * as no server gives them if it is not out of its mind: what is reckoned with them
 * cannot overflow. */
bool hf_reply_states(const redisReply *reply, int64_t *numbers, size_t count);

/* Fences and the server's time, in us, are in here, so that a double holds them. */
#define HF_NUMBER_MAX (INT64_C(1) << 53)

/* Does it say that a hold stands, as acquire and claim do? */
bool hf_reply_holds(const redisReply *reply);

/* What an error reply says. All but HF_AFTER_FAIL were not carried out and may be sent again. */
typedef enum {
    HF_AFTER_FAIL,
    HF_AFTER_LOAD,
    HF_AFTER_WAIT,
    HF_AFTER_RECONNECT,
    HF_AFTER_MOVED,
    HF_AFTER_ASK,
    HF_AFTER_SPLIT
} hf_after_error;
hf_after_error hf_error_class(const char *text, hf_status *status);

/* Does it say that the user may not do something, without saying what? */
bool hf_error_permission(const char *text);

/* As much of it as may be shown: what follows ", with args" are the arguments. */
int hf_error_shown(const char *text);

#endif
