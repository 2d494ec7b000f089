/* Ann's client and Ben's, which each test has for itself. */
#ifndef CLIENTS_H
#define CLIENTS_H

#include "server.h"

static hf_client *ann, *ben;

static int tear_down(void **state) {
    (void)state;
    hf_client_close(ann);
    hf_client_close(ben);
    return 0;
}

#endif
