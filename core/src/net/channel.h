/* Channels, on which grants arrive. A single server has one channel for all locks of a client; a
 * cluster has one for all locks of a tag, which moves with their slot. As for links, the caller
 * holds the mutex of their owner. */
#ifndef HF_CHANNEL_H
#define HF_CHANNEL_H

#include "net/link.h"

typedef struct hf_channel {
    hf_item item;    /* in link->asked or link->unasked */
    hf_link *link;   /* to the server that serves it */
    hf_list users;   /* the listener's: the local queues of its locks */
    hf_names *names; /* of a lock that used it last: its slot, and the key for the test */
    bool wanted;     /* it has waiters, or had some recently */
    bool subscribed;
    unsigned epoch;     /* grows by one with each subscription */
    int64_t deaf_since; /* when it became wanted without a subscription */
    hf_tries tries;     /* to subscribe to it */
    int64_t left_at;    /* when the last waiter left */
    hf_entry by_name;   /* in links->channels */
    size_t length;
    char name[];
} hf_channel;

void hf_channels_end(hf_links *links);

/* Return the channel for grants of that lock, made if it does not exist; NULL: no memory. */
hf_channel *hf_channel_get(hf_links *links, hf_names *names);
/* Note that the last waiter has left. */
void hf_channel_leave(hf_links *links, hf_channel *channel);
/* Have the channel subscribed to, where that is of use. */
void hf_channel_want(hf_links *links, hf_channel *channel);
/* Return whether grants arrive on the channel. */
bool hf_channel_works(const hf_channel *channel);
/* Return until when waiters wait for the subscription. Later they ask the server, which may be well
 * even if the subscription fails. */
int64_t hf_channel_patience(const hf_channel *channel);
/* Return whether grants arrive on the lock's channel. False: it has no channel yet. */
bool hf_grants_come(hf_links *links, const hf_names *names);

/* Read the messages that have arrived, and call the listener. After any status but HF_OK the caller
 * must call hf_link_deaf(). */
hf_status hf_link_listen(hf_links *links, hf_link *link);
/* Close a lost or useless subscription, call the listener, and subscribe again after a pause. */
void hf_link_deaf(hf_links *links, hf_link *link);
void hf_link_close_subscription(hf_links *links, hf_link *link);

void hf_link_drive_channels(hf_links *links, hf_link *link, int64_t now);
int64_t hf_link_channels_due(const hf_links *links, const hf_link *link);
/* Move the link's channels, whose slots other nodes may serve now. */
void hf_link_move_channels(hf_links *links, hf_link *link);

#endif
