/* One sentinel: ask for the master, and wait for a change of the master. The calls block. */
#ifndef HF_SENTINEL_H
#define HF_SENTINEL_H

#include "net/connection.h"

typedef struct hf_sentinel {
    const hf_address *all; /* of all sentinels, with the name of their service */
    const hf_tls *tls;
    hf_address address; /* of this one */
    hf_connection *questions, *events;
} hf_sentinel;

/* Connect to one of the address's sentinels. The address must outlive it. */
hf_status hf_sentinel_open(const hf_address *all, const hf_tls *tls, size_t which, int64_t deadline,
                           hf_sentinel *sentinel);
void hf_sentinel_close(hf_sentinel *sentinel);

/* Ask, in one round trip, for the master's address, which hf_address_unmake() frees, and for the
 * epoch of that configuration: each failover has a greater one. 0: unknown. */
hf_status hf_sentinel_master(const hf_sentinel *sentinel, int64_t deadline, hf_address *master,
                             int64_t *epoch);

/* Subscribe to its events. A sentinel that refuses can still be asked. */
hf_status hf_sentinel_subscribe(hf_sentinel *sentinel, int64_t deadline);
/* Wait ms at most for an event, and read all that have arrived. */
hf_status hf_sentinel_wait(const hf_sentinel *sentinel, int64_t ms);
/* The socket on which it waits: shutdown(2) ends the wait. */
int hf_sentinel_fd(const hf_sentinel *sentinel);

#endif
