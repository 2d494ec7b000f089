/* The locations of servers and how to log in, read from a URL. */
#ifndef HF_ADDRESS_H
#define HF_ADDRESS_H

#include "base/util.h"

typedef struct hf_place {
    char *host;
    int port;
} hf_place;

typedef struct hf_address {
    enum { HF_SERVER, HF_SENTINEL, HF_CLUSTER, HF_QUORUM } kind;
    hf_place place;   /* of a server over TCP; otherwise its host is NULL */
    char *path;       /* of a server's unix socket, or NULL */
    hf_place *places; /* of sentinels, of a cluster's nodes, or of a quorum's masters */
    size_t place_count;
    char *service; /* the sentinels' name for the master */
    int database;

    char *user;   /* or NULL */
    char *secret; /* the password, or NULL; no message shows it */
    /* Or its source: each log-in reads the password again, so that the password can change. */
    char *secret_file, *secret_variable;

    bool tls;
    int32_t verify;               /* HF_OFF: check neither the chain nor the host's name */
    char *ca, *certificate, *key; /* files, or NULL */

    hf_client_options options; /* from the URL; hf_address_options() completes them */
    char *client_name;         /* from the URL, or NULL */

    int32_t replicas;           /* of each lock whose options give no number */
    int64_t quarantine_ms;      /* of a quorum */
    struct hf_members *members; /* the quorum to which this server belongs, and its place there; or
                                 * NULL */
    size_t member;

    char *shown; /* the address for messages: no user, no password */
} hf_address;

/* Parse the URL. On failure: HF_EINVAL with a message, and nothing to free. */
hf_status hf_address_parse(const char *url, hf_address *address);
void hf_address_free(hf_address *address);

/* Check the caller's options, and let them override the URL's and the defaults. Afterwards every
 * field of address->options is set. HF_EINVAL with a message. */
hf_status hf_address_options(hf_address *address, const hf_client_options *chosen);

/* Turn the address of a quorum into the address of one of its masters. HF_ENOMEM. */
hf_status hf_address_pick(hf_address *address, size_t at);

/* Make an address with the same log-in and TLS at another place. It borrows from the original,
 * which must outlive it; hf_address_unmake() frees the rest. */
hf_status hf_address_make(const hf_address *original, const hf_place *place, hf_address *address);
void hf_address_unmake(hf_address *address);

/* Read the current password. *secret_out: free it with hf_secret_free(); NULL: there is no
 * password. HF_EAUTH: its file or variable cannot be read. */
hf_status hf_address_secret(const hf_address *address, char **secret_out);
void hf_secret_free(char *secret);

#endif
