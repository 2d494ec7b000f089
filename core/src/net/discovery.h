/*
 * Where the servers are: the address, the sentinels, the nodes of a Cluster and which of
 * them serves which slot. A node is a number; where one server has everything, it is 0.
 * What is here may be called on any thread, and with any other mutex held unless it says
 * that it waits.
 */
#ifndef HF_DISCOVERY_H
#define HF_DISCOVERY_H

#include "net/address.h"
#include "net/connection.h"

typedef struct hf_discovery hf_discovery;

/* Takes the address over, also if it fails; its options are complete. Waits for a Cluster's
 * slots. The reference is the caller's. */
hf_status hf_discovery_open(hf_address *address, hf_discovery **discovery_out);
hf_discovery *hf_discovery_keep(hf_discovery *discovery);
void hf_discovery_drop(hf_discovery *discovery);
/* The client is closed: its threads end, and no other is started. */
void hf_discovery_shut(hf_discovery *discovery);

/* Connect to the node, wherever it is now, and log in; waits, connect_timeout at most. The
 * connection knows its node and that node's version. Behind sentinels a thread follows the
 * master from then on. */
hf_status hf_discovery_connect(hf_discovery *discovery, int node, int64_t deadline,
                               hf_connection **connection_out);
/* A connection to the node has failed: others are asked for the slots first. */
void hf_discovery_doubt(hf_discovery *discovery, int node);

/* Who serves that slot now. */
int hf_discovery_node(const hf_discovery *discovery, unsigned slot);
/* Does it serve any slot? */
bool hf_discovery_serves(hf_discovery *discovery, int node);
/* Are there slots, that is, must one script's keys be of one slot? */
bool hf_discovery_clustered(const hf_discovery *discovery);
/* One more than the highest number of a node. */
size_t hf_discovery_nodes(hf_discovery *discovery);
/* Goes up whenever the node is found to be another server. */
unsigned hf_discovery_version(hf_discovery *discovery, int node);
/* Goes up whenever some slot is served by another node, or a node is another server. */
unsigned hf_discovery_change(const hf_discovery *discovery);
/* Does it lead to the server that its node still is? */
bool hf_discovery_current(hf_discovery *discovery, const hf_connection *connection);
/* Does it lead to a server that the sentinels have replaced as the master? What that answers
 * does not count. */
bool hf_discovery_replaced(hf_discovery *discovery, const hf_connection *connection);
/* Where a node's MOVED or ASK leads; -1: it does not know, and all are asked anew. */
int hf_discovery_redirect(hf_discovery *discovery, int node, const char *text);

/* Run it on a thread that nobody waits for, with a reference, which it drops at its end. Not
 * in a forked child. */
bool hf_discovery_detach(hf_discovery *discovery, void *(*run)(void *), void *argument);
/* In a Cluster: have a thread ask the nodes which of them serves what. */
void hf_discovery_look(hf_discovery *discovery);
/* An eventfd that each change is written to from now on, and hf_discovery_wake(); -1: none
 * any more. */
void hf_discovery_set_wake(hf_discovery *discovery, int fd);
void hf_discovery_wake(hf_discovery *discovery);

const hf_address *hf_discovery_address(const hf_discovery *discovery);

#endif
