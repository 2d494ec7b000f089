#include "net/dial.h"

#include <stdatomic.h>
#include <stdlib.h>

/* The thread and the owner share the dial: the last to leave frees it. */
enum { UNDER_WAY, OVER, DROPPED };

struct hf_dial {
    hf_discovery *discovery; /* the thread's reference */
    int node;
    atomic_int state;
    hf_connection *connection; /* atomic; NULL: the next two members have the reason */
    hf_status status;
    hf_error why;
};

static void free_dial(hf_dial *dial) {
    hf_connection_close(dial->connection);
    free(dial);
}

static void *run_dial(void *argument) {
    hf_dial *dial = argument;
    hf_discovery *discovery = dial->discovery;
    dial->status = hf_discovery_connect(discovery, dial->node, HF_NO_DEADLINE, &dial->connection);
    if (dial->status == HF_OK)
        hf_connection_set_driven(dial->connection);
    else
        dial->why = *hf_error_last();
    if (atomic_exchange(&dial->state, OVER) == DROPPED)
        free_dial(dial);
    hf_discovery_wake(discovery);
    hf_discovery_drop(discovery);
    return NULL;
}

hf_dial *hf_dial_start(hf_transport *transport, int node) {
    hf_discovery *discovery = transport->discovery;
    hf_dial *dial = calloc(1, sizeof *dial);
    if (dial == NULL)
        return NULL;
    dial->discovery = discovery;
    dial->node = node;
    if (hf_discovery_detach(discovery, run_dial, dial))
        return dial;
    free(dial);
    return NULL;
}

bool hf_dial_take(hf_dial *dial, hf_connection **connection_out, hf_status *status_out) {
    *connection_out = NULL;
    if (atomic_load(&dial->state) != OVER)
        return false;
    *connection_out = dial->connection;
    *status_out = dial->status;
    dial->connection = NULL;
    if (dial->status != HF_OK)
        hf_error_set(&dial->why);
    free_dial(dial);
    return true;
}

bool hf_dial_reached(hf_dial *dial, unsigned version) {
    const hf_connection *connection =
        dial != NULL ? __atomic_load_n(&dial->connection, __ATOMIC_ACQUIRE) : NULL;
    return connection != NULL && connection->version == version;
}

void hf_dial_drop(hf_dial *dial) {
    if (dial != NULL && atomic_exchange(&dial->state, DROPPED) == OVER)
        free_dial(dial);
}
