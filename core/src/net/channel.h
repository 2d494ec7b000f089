/* Channels: grants arrive on them. A single server has one channel for all locks of a client; a
 * cluster has one for all locks of a tag, which moves with their slot. As for links, the caller
 * holds the mutex of their owner. */
#ifndef HF_CHANNEL_H
#define HF_CHANNEL_H

#include "net/link.h"

typedef struct hf_channel {
    hf_item item;    /* in link->asked or link->unasked */
    hf_link *link;   /* to the server that has it */
    hf_list users;   /* the listener's: the local queues of its locks */
    hf_names *names; /* of the last lock that used it: its slot, and the key of the test */
    bool wanted;     /* it has waiters, or had some a short time ago */
    bool subscribed;
    unsigned epoch;     /* one more with each time that it was */
    int64_t deaf_since; /* since then it is wanted, and has no subscription yet */
    hf_tries tries;     /* to subscribe to it */
    int64_t left_at;    /* by the last that waited */
    hf_entry by_name;   /* in links->channels */
    size_t length;
    char name[];
} hf_channel;

void hf_channels_end(hf_links *links);

/* The channel for grants of that lock, made if it does not exist; NULL: no memory. */
hf_channel *hf_channel_get(hf_links *links, hf_names *names);
/* Note that the last waiter has left. */
void hf_channel_leave(hf_links *links, hf_channel *channel);
/* See that it is subscribed to, where that is of use. */
void hf_channel_want(hf_links *links, hf_channel *channel);
/* Do grants arrive on the channel? */
bool hf_channel_works(const hf_channel *channel);
/* Until when waiters wait for the subscription. Later they ask the server, which may be well even
 * if the subscription fails. */
int64_t hf_channel_patience(const hf_channel *channel);
/* Do grants arrive on the lock's channel? False: it has no channel yet. */
bool hf_grants_come(hf_links *links, const hf_names *names);

/* Read what has arrived, and call the listener. After any other status than HF_OK the caller must
 * call hf_link_deaf(). */
hf_status hf_link_listen(hf_links *links, hf_link *link);
/* Close a lost or useless subscription, call the listener, and subscribe again after a pause. */
void hf_link_deaf(hf_links *links, hf_link *link);
void hf_link_close_subscription(hf_links *links, hf_link *link);

void hf_link_drive_channels(hf_links *links, hf_link *link, int64_t now);
int64_t hf_link_channels_due(const hf_links *links, const hf_link *link);
/* Other nodes may serve the slots now: take its channels there. */
void hf_link_move_channels(hf_links *links, hf_link *link);

#endif
