/* Connect to a server, log in, and identify the server. */
#ifndef HF_LOGIN_H
#define HF_LOGIN_H

#include "net/connection.h"

/* Connect. Unless HF_ASKS_ONLY: log in, choose the database, and check that the server is new
 * enough. */
enum { HF_NEEDS_SERVER, HF_NEEDS_MASTER, HF_ASKS_ONLY };
hf_status hf_login_open(const hf_address *address, const hf_tls *tls, int needs, int64_t deadline,
                        hf_connection **connection_out);
/* Send the address's password, if it has one; and, unless HF_ASKS_ONLY, the other requests of a
 * log-in. */
hf_status hf_login_greet(hf_connection *connection, const hf_address *address, int needs,
                         int64_t deadline);

#endif
