/* What a look at a lock found: the answer of inspect, for the caller to read. */
#ifndef HF_VIEW_H
#define HF_VIEW_H

#include "look/wire.h"

/* Takes the reply over, even if it fails. HF_EPROTOCOL: it is no answer of inspect. */
hf_status hf_view_new(hf_names *names, redisReply *reply, hf_view **view_out);
const hf_found *hf_view_found(const hf_view *view);
/* Is there a record of a call? */
bool hf_view_recorded(const hf_view *view);
/* The caller has set info->size. */
void hf_view_tell(const hf_view *view, hf_lock_info *info);

#endif
