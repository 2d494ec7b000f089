/* All links of a client: driven together, and sorted anew when slots move. */
#ifndef HF_LINKS_H
#define HF_LINKS_H

#include "net/channel.h"

/* HF_ENOMEM, with hf_links_end() to follow. What it is given must outlive it. */
hf_status hf_links_begin(hf_links *links, hf_transport *transport, const hf_listener *listener,
                         hf_timers *timers, const char *client_id);
/* After hf_links_close() or when nothing was ever sent. */
void hf_links_end(hf_links *links);

/* Send, receive and reconnect as far as that needs no waiting. */
void hf_links_drive(hf_links *links, int64_t now);
/* When they must be driven next. */
int64_t hf_links_due(const hf_links *links);

/* Close all connections. No task is ended by it: hf_links_take() has them. */
void hf_links_close(hf_links *links);
/* Take all tasks that are neither answered nor given up, for the caller to end, and accept no
 * other. */
void hf_links_take(hf_links *links, hf_list *tasks);

#endif
