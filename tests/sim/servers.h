/* The simulated servers of a world, and what faults do to them. */
#ifndef SIM_SERVERS_H
#define SIM_SERVERS_H

#include "kernel.h"
#include "redis.h"

/* Servers' hosts; programs are on those before. */
enum { MASTER_HOST = 1, OTHER_HOSTS = 8, SENTINEL_HOSTS = 12 };

/* One server, or one behind sentinels with its replicas, or the nodes of a cluster, or three or
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
bool servers_is_master(int which); /* and no other one has taken its place */
/* Which has that key, or is to have it. */
int servers_owner(const char *key);
/* Does it answer for that key now? Of a cluster's other nodes one may have kept an old copy. */
bool servers_serves(int which, const char *key);
int servers_any(void); /* one of them, by chance */

void servers_refuse(int which, sim_refusal what, const char *error, int64_t times); /* 0: no more */
void servers_restart(int which, bool keeps_data, int64_t down_ns);
/* The server comes back with the data that it has now, that much later. */
void servers_restore(int which, int64_t later_ns, int64_t down_ns);
void servers_command(int which, const char *words); /* through no connection */
void servers_limit(int which, int connections);     /* 0: as many as there are */

/* A replica takes the master's place; the sentinels hear of it one after the other. planned: the
 * master is stopped first, and has told the replica everything. */
void servers_fail_over(bool planned);
/* The slot of that key goes to another node, key by key. */
void servers_move_slot(const char *key);
/* Called, if it is not NULL, after each command of a server, with its words. */
extern void (*servers_watch)(int which, const sim_bytes *words, size_t count);
int64_t servers_number(const sim_bytes *word); /* 0 if it is none */
/* Independent masters: each is a server for itself, of which a majority decides. */
bool servers_independent(void);
extern int servers_quarantine_s; /* of their clients' URL */
/* Has it lost data less than a quarantine ago? */
bool servers_is_young(int which);
/* Set its clock that much before or behind true time. */
void servers_set_clock(int which, int64_t ns);
/* By how much clocks have differed at most. */
int64_t servers_spread(void);

/* Sentinels, replicas and nodes agree from now on. */
void servers_heal(void);

#endif
