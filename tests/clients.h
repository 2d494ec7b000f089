/* The clients of Ann and Ben, which each test has anew. */
#ifndef CLIENTS_H
#define CLIENTS_H

#include "server.h"

static hf_client *ann, *ben;

/* Locks that the tear-down closes. */
static hf_lock *lent[32];
static size_t lent_count;

static inline hf_lock *lend(hf_lock *lock) { return lent[lent_count++] = lock; }

static int tear_down(void **state) {
    (void)state;
    while (lent_count > 0)
        hf_lock_close(lent[--lent_count]);
    hf_client_close(ann);
    hf_client_close(ben);
    return 0;
}

#endif
