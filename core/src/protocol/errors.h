/* What the error replies of a server mean. Pure functions. */
#ifndef HF_ERRORS_H
#define HF_ERRORS_H

#include "base/util.h"

/* What a client does after an error, or without an answer. In all cases but the first and the last
 * the request was not carried out, and may be sent again; course.h decides when and where. */
typedef enum {
    HF_AFTER_FAIL,      /* report the error to the caller: a refusal, or an unknown error */
    HF_AFTER_LOAD,      /* send it with its script's text */
    HF_AFTER_WAIT,      /* the server is not ready */
    HF_AFTER_RECONNECT, /* the server is no master: find the master */
    HF_AFTER_MOVED,     /* another node serves its slot */
    HF_AFTER_ASK,       /* another node has its keys already: send it there, after ASKING */
    HF_AFTER_SPLIT,     /* its keys are on two nodes, because their slot is moving */
    HF_AFTER_NOBODY,    /* no error: there was no connection to send it */
    HF_AFTER_SILENCE    /* no error: it was sent, and the connection is dead or a former master's */
} hf_after_error;
/* Return the class of an error. *status: for the caller, if the request is not sent again. */
hf_after_error hf_error_class(const char *text, hf_status *status);

/* Return whether the error reports a missing permission. It does not name every missing one. */
bool hf_error_permission(const char *text);
/* Return whether the missing permission is for a key. */
bool hf_error_key(const char *text);
/* Return whether the server lacks the command. */
bool hf_error_command(const char *text);
/* Return whether the server has the most connections that it may have: it then hangs up, whatever
 * was sent. */
bool hf_error_full(const char *text);
/* Return whether the server is no node of a cluster. */
bool hf_error_single(const char *text);

/* Return how many bytes of the text may be shown: arguments follow ", with args". */
int hf_error_shown(const char *text);

#endif
