/*
 * The next step of a request after an error, a dead connection, or the answer of a former master.
 * Pure functions over plain data: the blocking call, the flush and the links follow them.
 */
#ifndef HF_COURSE_H
#define HF_COURSE_H

#include "protocol/errors.h"

/* The state of a request. All zeros: not sent yet. */
typedef struct hf_course {
    int node;         /* while asking: the node that alone serves it */
    bool asking;      /* send ASKING before it */
    bool whole;       /* send it with the script's text */
    bool split;       /* its slot is moving, and it was tried with one key */
    bool doubtful;    /* a copy was sent and has no valid answer */
    int redirections; /* in a row */
    int64_t pause_ms; /* the length of the last pause */
} hf_course;

/* The outcome of the last attempt. */
typedef struct hf_outcome {
    hf_after_error after;
    int to; /* where MOVED or ASK points; -1: not known */
    bool clustered;
    bool hurried; /* the client is closed: do not pause any more */
    bool insists; /* try again even if the server refuses it */
    bool pinned;  /* it is useless at another node */
    int64_t now, deadline;
} hf_outcome;

typedef struct hf_step {
    enum {
        HF_STEP_AGAIN, /* send it again: to course->node while asking, else to the slot's node */
        HF_STEP_ALONE, /* send hf_request_alone() at once; without one, AGAIN after the pause */
        HF_STEP_FAIL   /* give up; a doubtful request may have been carried out */
    } what;
    int64_t pause_ms; /* pause for half of this to all of it; 0: no pause */
    bool look;        /* another node may serve it now: ask the nodes */
    bool leave;       /* the server is useless: close the connections to it */
    bool circle;      /* it fails because of too many redirections */
    bool late;        /* it fails because no time is left for what the server asks */
} hf_step;

/* The most redirections of one request in a row. */
#define HF_REDIRECTIONS_MAX 16

hf_step hf_course_next(hf_course *course, const hf_outcome *outcome);

#endif
