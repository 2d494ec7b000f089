/* A transport as the core sees it; it reports changes by `wake`. */
#ifndef TEST_TRANSPORT_H
#define TEST_TRANSPORT_H

#include "check.h"

#include "net/transport.h"

#include <sys/eventfd.h>
#include <unistd.h>

static hf_transport *transport;
static int wake;

static inline void read_address(const char *url, hf_address *address) {
    hf_client_options none = {0};
    assert_status(hf_address_parse(url, address), HF_OK);
    assert_status(hf_address_options(address, &none), HF_OK);
}

static inline void open_transport(const char *url) {
    hf_address address;
    read_address(url, &address);
    assert_status(hf_transport_open(&address, &transport), HF_OK);
    wake = eventfd(0, EFD_CLOEXEC);
    assert_true(wake >= 0);
    hf_discovery_set_wake(transport->discovery, wake);
}

static inline void close_transport(void) {
    hf_discovery_set_wake(transport->discovery, -1);
    hf_transport_free(transport);
    close(wake);
}

#endif
