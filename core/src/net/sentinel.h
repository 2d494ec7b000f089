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
 * epoch of that configuration, which grows with each failover. 0: unknown. */
hf_status hf_sentinel_master(const hf_sentinel *sentinel, int64_t deadline, hf_address *master,
                             int64_t *epoch);

/* Subscribe to the sentinel's events. A sentinel that refuses can still be asked. */
hf_status hf_sentinel_subscribe(hf_sentinel *sentinel, int64_t deadline);
/* Wait at most ms for an event, and read all events that have arrived. */
hf_status hf_sentinel_wait(const hf_sentinel *sentinel, int64_t ms);
/* Return the socket on which hf_sentinel_wait() waits: shutdown(2) ends the wait. */
int hf_sentinel_fd(const hf_sentinel *sentinel);

#endif
