/* What the error replies of a server mean. Pure functions. */
#ifndef HF_ERRORS_H
#define HF_ERRORS_H

#include "base/util.h"

/* All but HF_AFTER_FAIL were not carried out and may be sent again. */
typedef enum {
    HF_AFTER_FAIL,
    HF_AFTER_LOAD,
    HF_AFTER_WAIT,
    HF_AFTER_RECONNECT,
    HF_AFTER_MOVED,
    HF_AFTER_ASK,
    HF_AFTER_SPLIT
} hf_after_error;
hf_after_error hf_error_class(const char *text, hf_status *status);

/* Does it say that the user may not do something, without saying what? */
bool hf_error_permission(const char *text);

/* As much of it as may be shown: what follows ", with args" are the arguments. */
int hf_error_shown(const char *text);

#endif
