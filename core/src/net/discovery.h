/*
 * Where the servers are: the address, the sentinels, the nodes of a cluster and which of them
 * serves which slot. A node is a number; a single server is node 0. Any thread may call these
 * functions; unless a function waits, its caller may hold any other mutex.
 */
#ifndef HF_DISCOVERY_H
#define HF_DISCOVERY_H

#include "net/address.h"
#include "net/connection.h"

typedef struct hf_discovery hf_discovery;

/* Takes the address over, even if it fails; its options must be complete. Waits for a cluster's
 * slots. The caller owns the reference. *deadline_out: when connect_timeout ends, which begins when
 * the files of TLS have been read. */
hf_status hf_discovery_open(hf_address *address, int64_t *deadline_out,
                            hf_discovery **discovery_out);
void hf_discovery_drop(hf_discovery *discovery);
/* The client is closed: let the threads end, and start no other. */
void hf_discovery_shut(hf_discovery *discovery);

/* Connect to the node, wherever it is now, and log in; waits, connect_timeout at most. The
 * connection knows its node and that node's version. Behind sentinels a thread follows the
 * master from then on. *connection_out is written, atomically, with HF_OK alone, and before the
 * wake of a caller whose connection has found another server in the node's place. */
hf_status hf_discovery_connect(hf_discovery *discovery, int node, int64_t deadline,
                               hf_connection **connection_out);
/* Count a connection that has broken, or that is closed as useless: the next one is opened in its
 * place. */
void hf_discovery_broke(hf_discovery *discovery);
/* How many connections were opened, and how many of them in place of others. */
void hf_discovery_connections(hf_discovery *discovery, int64_t *opened, int64_t *again);
/* A connection to the node has failed: ask other nodes for the slots first. */
void hf_discovery_doubt(hf_discovery *discovery, int node);

/* The node that serves the slot now. */
int hf_discovery_node(const hf_discovery *discovery, unsigned slot);
/* Does the node serve any slot? */
bool hf_discovery_serves(hf_discovery *discovery, int node);
/* Is it a cluster, where all keys of a script must be in one slot? */
bool hf_discovery_clustered(const hf_discovery *discovery);
/* May other servers take the place of these? Then a thread of the client must learn of it. */
bool hf_discovery_follows(const hf_discovery *discovery);
/* One more than the highest number of a node. */
size_t hf_discovery_nodes(hf_discovery *discovery);
/* Goes up whenever the node turns out to be another server. */
unsigned hf_discovery_version(const hf_discovery *discovery, int node);
/* Goes up whenever a slot gets another node, or a node becomes another server. */
unsigned hf_discovery_change(const hf_discovery *discovery);
/* A number that changes whenever another server serves the slot. */
unsigned hf_discovery_place(const hf_discovery *discovery, unsigned slot);
/* Is the connection's server still its node's server? */
bool hf_discovery_current(const hf_discovery *discovery, const hf_connection *connection);
/* Have the sentinels replaced the connection's server as the master? Its answers do not count. */
bool hf_discovery_replaced(const hf_discovery *discovery, const hf_connection *connection);
/* The node to which this node's MOVED or ASK leads; -1: not known, and all nodes are asked
 * again. */
int hf_discovery_redirect(hf_discovery *discovery, int node, const char *text);

/* Run the function on a detached thread, with a reference that it drops at its end. Not in a
 * forked child. */
bool hf_discovery_detach(hf_discovery *discovery, void *(*run)(void *), void *argument);
/* In a cluster: let a thread ask the nodes which of them serves which slot. */
void hf_discovery_look(hf_discovery *discovery);
/* Ask the nodes on this thread, and wait for the answer. */
hf_status hf_discovery_refresh(hf_discovery *discovery, int64_t deadline);
/* Where the node is, for messages. */
void hf_discovery_show(hf_discovery *discovery, int node, char *text, size_t capacity);
/* Write the address of the server that the last connection reached, for messages. */
void hf_discovery_serving(hf_discovery *discovery, char *text, size_t capacity);
/* Set the `to` of the hf_event to which each change of the slots and hf_discovery_wake() write;
 * -1: no event. */
void hf_discovery_set_wake(hf_discovery *discovery, int fd);
void hf_discovery_wake(hf_discovery *discovery);

#endif
