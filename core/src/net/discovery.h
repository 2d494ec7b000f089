/*
 * The locations of the servers: the address, the sentinels, the nodes of a cluster and the slots
 * that each serves. A node is a number; a single server is node 0. Any thread may call these
 * functions; the caller of a function that does not wait may hold any other mutex.
 */
#ifndef HF_DISCOVERY_H
#define HF_DISCOVERY_H

#include "net/address.h"
#include "net/connection.h"

typedef struct hf_discovery hf_discovery;

/* Open the discovery. Takes the address over, even if it fails; its options must be complete. Waits
 * for a cluster's slots. The caller owns the reference. *deadline_out: the end of connect_timeout,
 * which begins when the files of TLS have been read. */
hf_status hf_discovery_open(hf_address *address, int64_t *deadline_out,
                            hf_discovery **discovery_out);
void hf_discovery_drop(hf_discovery *discovery);
/* Let the threads end, and start no other: the client is closed. */
void hf_discovery_shut(hf_discovery *discovery);

/* Connect to the node, wherever it is now, and log in; waits, at most connect_timeout. The
 * connection knows its node and that node's version. Behind sentinels a thread follows the master
 * from then on. *connection_out is written atomically, only with HF_OK, and before the wake of a
 * caller whose connection has found another server in the node's place. */
hf_status hf_discovery_connect(hf_discovery *discovery, int node, int64_t deadline,
                               hf_connection **connection_out);
/* Count a connection that has broken, or is closed as useless: the next connection replaces it. */
void hf_discovery_broke(hf_discovery *discovery);
/* Return how many connections were opened, and how many of these replaced others. */
void hf_discovery_connections(hf_discovery *discovery, int64_t *opened, int64_t *again);
/* Note that a connection to the node has failed: other nodes are asked for the slots first. */
void hf_discovery_doubt(hf_discovery *discovery, int node);

/* Return the node that serves the slot now. */
int hf_discovery_node(const hf_discovery *discovery, unsigned slot);
/* Return whether the node serves any slot. */
bool hf_discovery_serves(hf_discovery *discovery, int node);
/* Return whether it is a cluster, where all keys of a script must be in one slot. */
bool hf_discovery_clustered(const hf_discovery *discovery);
/* Return whether other servers may replace these: then a thread of the client must notice. */
bool hf_discovery_follows(const hf_discovery *discovery);
/* Return one more than the highest number of a node. */
size_t hf_discovery_nodes(hf_discovery *discovery);
/* Return a number that grows whenever the node turns out to be another server. */
unsigned hf_discovery_version(const hf_discovery *discovery, int node);
/* Return a number that grows whenever a slot gets another node, or a node becomes another
 * server. */
unsigned hf_discovery_change(const hf_discovery *discovery);
/* Return a number that changes whenever another server serves the slot. */
unsigned hf_discovery_place(const hf_discovery *discovery, unsigned slot);
/* Return whether the connection's server is still its node's server. */
bool hf_discovery_current(const hf_discovery *discovery, const hf_connection *connection);
/* Return whether the sentinels have replaced the connection's server as the master: its answers do
 * not count. */
bool hf_discovery_replaced(const hf_discovery *discovery, const hf_connection *connection);
/* Return the node to which this node's MOVED or ASK points; -1: not known, and all nodes are asked
 * again. */
int hf_discovery_redirect(hf_discovery *discovery, int node, const char *text);

/* Run the function on a detached thread, with a reference that it drops at its end. Not in a
 * forked child. */
bool hf_discovery_detach(hf_discovery *discovery, void *(*run)(void *), void *argument);
/* Start the thread that follows the master behind sentinels, if it could not be started at the
 * first connection. False: it cannot be started now, either. */
bool hf_discovery_watch(hf_discovery *discovery);
/* Have a thread ask the nodes of a cluster for their slots. */
void hf_discovery_look(hf_discovery *discovery);
/* Ask the nodes on this thread, and wait for the answer. */
hf_status hf_discovery_refresh(hf_discovery *discovery, int64_t deadline);
/* Write where the node is, for messages. */
void hf_discovery_show(hf_discovery *discovery, int node, char *text, size_t capacity);
/* Write the address of the server that the last connection reached, for messages. */
void hf_discovery_serving(hf_discovery *discovery, char *text, size_t capacity);
/* Set the `to` of the hf_event to which each change of the slots and hf_discovery_wake() write;
 * -1: no event. */
void hf_discovery_set_wake(hf_discovery *discovery, int fd);
void hf_discovery_wake(hf_discovery *discovery);

#endif
