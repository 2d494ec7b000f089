/* For scenarios with two clients. */
#ifndef BOTH_H
#define BOTH_H

#include "scenario.h"

static proxy *way;
static hf_client *client, *other; /* client: through the proxy; other: past it */

static inline int begin_both(void **state, int64_t connect_ms) {
    int result = begin_scenario(state);
    way = proxy_start();
    client = open_with(url_of(way), connect_ms, 2000);
    other = open_client();
    warm_up(client);
    return result;
}

static inline int end_both(void **state) {
    close_both(way, client, other);
    return end_scenario(state);
}

#endif
