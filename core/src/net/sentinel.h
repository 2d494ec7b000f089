/* One sentinel: it is asked where the master is, and tells when that changes. It waits. */
#ifndef HF_SENTINEL_H
#define HF_SENTINEL_H

#include "net/connection.h"

typedef struct hf_sentinel {
    const hf_address *all; /* of all sentinels, with the name of their service */
    const hf_tls *tls;
    hf_address address; /* of this one */
    hf_connection *questions, *events;
} hf_sentinel;

/* Connect to that one of the address's, which must outlive it. */
hf_status hf_sentinel_open(const hf_address *all, const hf_tls *tls, size_t which, int64_t deadline,
                           hf_sentinel *sentinel);
void hf_sentinel_close(hf_sentinel *sentinel);

/* Where the master is; hf_address_unmake(). */
hf_status hf_sentinel_master(const hf_sentinel *sentinel, int64_t deadline, hf_address *master);

/* Listen to its events. A sentinel that does not allow that can be asked only. */
hf_status hf_sentinel_subscribe(hf_sentinel *sentinel, int64_t deadline);
/* Wait for an event, so long at most, and read it away. */
hf_status hf_sentinel_wait(const hf_sentinel *sentinel, int64_t ms);
/* What that waits on: shutdown(2) ends it. */
int hf_sentinel_fd(const hf_sentinel *sentinel);

#endif
