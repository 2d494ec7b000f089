/*
 * What a client keeps: its identity, its holds, the highest fences it has seen.
 * The structures behind the public handles are here, for the layer `lock`.
 */
#ifndef HF_CLIENT_H
#define HF_CLIENT_H

#include <pthread.h>

#include "protocol.h"
#include "transport.h"

#define BUCKETS 1024

struct hf_client {
    int references; /* the handle's, and one of each lock and hold */
    unsigned generation;
    hf_transport *transport;
    int closed_fd; /* readable when the client is closed: ends waits */
    char prefix[336]; /* "<host>/<pid>:<client id>:" */
    size_t prefix_length;

    pthread_mutex_t mutex; /* of all below, and of what is marked so in a hold */
    bool closed;
    struct hf_hold *holds;            /* all that may still be on the server */
    struct hf_hold *stacks[BUCKETS];  /* those kept for hf_lock_release(), newest first */
    struct {
        uint64_t hash;
        int64_t fence;
    } floors[BUCKETS]; /* the highest fences seen; a newer name takes an older one's place */
    unsigned char random[1024];
    size_t random_left;
};

struct hf_lock {
    hf_client *client;
    hf_names *names;
    int64_t serial; /* never reused */
    int64_t lease_ms;
    bool renew, reentrant;
    size_t owner_length; /* 0: the default owner */
    char owner[];
};

struct hf_hold {
    int references; /* the caller's handle, and the client's while it is listed */
    hf_client *client;
    hf_names *names;
    char id[HF_ID_LENGTH + 1];
    bool bury; /* a copy of its acquire may still be under way */
    int64_t fence;

    /* Under the client's mutex. */
    int state;
    int64_t deadline; /* it is valid before this, on hf_now()'s clock */
    int64_t lease_ms; /* HF_NEVER or what a renewal gives */
    bool renew;
    bool listed;
    struct hf_hold *previous, *next; /* in client->holds */
    bool kept;
    struct hf_hold *older; /* in its bucket of client->stacks */
    uint64_t stack;        /* the hash that chose the bucket */
    int64_t lock_serial;   /* not 0: only this lock finds it on the stack */

    size_t owner_length;
    char owner[];
};

/* Is the handle there, of this process, and not closed? */
hf_status hf_client_check(const hf_client *client);
/* The same for handles that must work on a closed client. */
bool hf_client_inherited(const hf_client *client);

hf_client *hf_client_keep(hf_client *client);
void hf_client_drop(hf_client *client);

/* A new hold id: random, 32 hex digits and a NUL. */
hf_status hf_client_new_id(hf_client *client, char *id);

int64_t hf_client_floor(hf_client *client, const hf_names *names);

/* Sleep; HF_ECANCELED when the client closes, HF_EINTR when a signal comes. */
hf_status hf_client_sleep(hf_client *client, int64_t ms);

/* Put a new hold on the list, and on the stack if keep. HF_ECANCELED if closed. */
hf_status hf_client_add(hf_client *client, hf_hold *hold, bool keep);
/* Take it off list and stack; with the mutex held. The caller gets the list's reference. */
void hf_client_remove(hf_client *client, hf_hold *hold);

uint64_t hf_stack_hash(const hf_names *names, int64_t lock_serial, const void *owner,
                       size_t length);

/* ------------------------------------------------------------------ Hold */

hf_hold *hf_hold_new(hf_client *client, hf_names *names, const void *owner, size_t owner_length);
void hf_hold_drop(hf_hold *hold);

/* When a hold ends that a request sent then was told remaining_ms of. */
int64_t hf_deadline(int64_t sent_at, int64_t remaining_ms);
/* The state as of now: a hold past its deadline is lost. With the mutex held. */
int hf_hold_state_now(const hf_hold *hold, int64_t now);

void hf_release_request(hf_request *request, const hf_hold *hold);
/* Hand on a lock that was left free with more of its queue to skip; best effort. */
void hf_kick(hf_client *client, const hf_names *names, int64_t deadline);

#endif
