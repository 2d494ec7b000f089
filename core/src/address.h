/* Where a server is and how to log in, read from a URL. */
#ifndef HF_ADDRESS_H
#define HF_ADDRESS_H

#include "util.h"

typedef struct hf_address {
    char *host;   /* or NULL: a unix socket */
    char *path;   /* or NULL: TCP */
    char *user;   /* or NULL */
    char *secret; /* the password, or NULL; in no message */
    char *shown;  /* the address for messages: no user, no password */
    int port;
    int database;
} hf_address;

/* HF_EINVAL or HF_EUNSUPPORTED with a message, and nothing to free, if it fails. */
hf_status hf_address_parse(const char *url, hf_address *address);
void hf_address_free(hf_address *address);

#endif
