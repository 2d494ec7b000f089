/* The result of a look at a lock: the answer of inspect, for the caller to read. */
#ifndef HF_VIEW_H
#define HF_VIEW_H

#include "look/wire.h"

/* Make a view. Takes the reply over, even if it fails. HF_EPROTOCOL: it is no answer of inspect. */
hf_status hf_view_new(hf_names *names, redisReply *reply, hf_view **view_out);
const hf_found *hf_view_found(const hf_view *view);
/* Return whether there is a record of a call. */
bool hf_view_recorded(const hf_view *view);
/* Fill in info, whose size the caller has set. */
void hf_view_tell(const hf_view *view, hf_lock_info *info);

#endif
