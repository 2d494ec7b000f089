/* The simulated servers of a world, and what faults do to them. */
#ifndef SIM_SERVERS_H
#define SIM_SERVERS_H

#include "kernel.h"
#include "redis.h"

/* Hosts of servers; programs run on the hosts below. */
enum { MASTER_HOST = 1, OTHER_HOSTS = 8, SENTINEL_HOSTS = 12 };

/* One server; a master behind sentinels, with its replicas; the nodes of a cluster; or three or
 * five independent masters. */
typedef enum { ONE_SERVER, SENTINELS, CLUSTER, MASTERS, FIVE_MASTERS, DEPLOYMENTS } deployment;
void servers_begin(deployment what, uint64_t seed);
void servers_end(void);
const char *servers_url(deployment what);

int servers_count(void); /* without sentinels */
sim_server *servers_at(int which);
sim_redis *servers_redis(int which);
sim_redis *servers_sentinel(int which); /* on the hosts from SENTINEL_HOSTS on */
int servers_host(int which);
bool servers_is_master(int which); /* and no other server has taken its place */
/* Return the node that has the key's slot. */
int servers_owner(const char *key);
/* Return whether the server answers for the key now. Another node of a cluster may have an old
 * copy. */
bool servers_serves(int which, const char *key);
int servers_any(void); /* a random server */

void servers_refuse(int which, sim_refusal what, const char *error, int64_t times); /* 0: stop */
void servers_restart(int which, bool keeps_data, int64_t down_ns);
/* Restart the server later_ns from now with the data that it has now. */
void servers_restore(int which, int64_t later_ns, int64_t down_ns);
void servers_command(int which, const char *words); /* without a connection */
void servers_limit(int which, int connections);     /* 0: no limit */

/* Let a replica take the master's place; the sentinels learn of it one after the other. planned:
 * the master is stopped first, and has sent the replica all its changes. */
void servers_fail_over(bool planned);
/* Move the slot of the key to another node, key by key. */
void servers_move_slot(const char *key);
/* Called, if not NULL, after each command of a server, with the command's words. */
extern void (*servers_watch)(int which, const sim_bytes *words, size_t count);
int64_t servers_number(const sim_bytes *word); /* 0 if it is not a number */
/* Return whether the masters are independent, so that a majority of them decides. */
bool servers_independent(void);
extern int servers_quarantine_s; /* in the URL of the clients */
/* Return whether the server has lost data less than a quarantine ago. */
bool servers_is_young(int which);
/* Set the server's clock to true time plus ns. */
void servers_set_clock(int which, int64_t ns);
/* Return the largest difference of clocks so far. */
int64_t servers_spread(void);

/* Let sentinels, replicas and nodes agree from now on. */
void servers_heal(void);

#endif
