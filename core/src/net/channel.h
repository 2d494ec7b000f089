/*
 * Channels: what grants come in on. A single server has one channel for all locks of a
 * client; a cluster has one for all locks of a tag, which moves with their slot. Called
 * as links are: under the mutex of their owner.
 */
#ifndef HF_CHANNEL_H
#define HF_CHANNEL_H

#include "net/link.h"

typedef struct hf_channel {
    hf_item item;  /* in link->asked or link->unasked */
    hf_link *link; /* to the server that has it */
    unsigned slot;
    hf_list users; /* items of the listener's: those that wait for grants on it */
    bool wanted;   /* somebody has come to wait */
    bool subscribed;
    unsigned epoch;             /* one more with each time that it was */
    int64_t retry_at, retry_ms; /* when it is asked for again that was refused */
    int64_t left_at;            /* by the last that waited */
    struct hf_channel *same_hash;
    size_t length;
    char name[];
} hf_channel;

/* That of a single server. False: no memory. */
bool hf_channels_begin(hf_links *links);
void hf_channels_end(hf_links *links);

/* The channel for grants of that lock, made if there is none; NULL: no memory. */
hf_channel *hf_channel_get(hf_links *links, const hf_names *names);
/* Nobody waits on it any more. */
void hf_channel_leave(hf_links *links, hf_channel *channel);
/* See that it is subscribed to, where that is of use. */
void hf_channel_want(hf_links *links, hf_channel *channel);
/* Do grants come in on it, or on that of the lock? */
bool hf_channel_works(const hf_channel *channel);
bool hf_grants_come(hf_links *links, const hf_names *names);

/* Read what came in. HF_OK, or that connection is lost. */
hf_status hf_link_listen(hf_links *links, hf_link *link);
/* It is lost, or of no use. */
void hf_link_deaf(hf_links *links, hf_link *link);
void hf_link_close_subscription(hf_link *link);

void hf_link_drive_channels(hf_links *links, hf_link *link, int64_t now);
int64_t hf_link_channels_due(const hf_links *links, const hf_link *link);
/* Slots may be served by others now: take its channels there. */
void hf_link_move_channels(hf_links *links, hf_link *link);

#endif
