/* All links of a client: driven together, and sorted anew when slots move. */
#ifndef HF_LINKS_H
#define HF_LINKS_H

#include "net/channel.h"

/* Begin. The arguments must outlive the links. HF_ENOMEM: hf_links_end() must follow. */
hf_status hf_links_begin(hf_links *links, hf_transport *transport, const hf_listener *listener,
                         hf_timers *timers, const char *client_id);
/* Free the links, after hf_links_close() or if nothing was ever sent. */
void hf_links_end(hf_links *links);

/* Send, receive and reconnect as far as possible without waiting. */
void hf_links_drive(hf_links *links, int64_t now);
/* Return when the links must be driven next. */
int64_t hf_links_due(const hf_links *links);

/* Close all connections. This ends no task: hf_links_take() takes them. */
void hf_links_close(hf_links *links);
/* Take all tasks that are neither answered nor given up, for the caller to end, and accept no
 * more. */
void hf_links_take(hf_links *links, hf_list *tasks);

#endif
