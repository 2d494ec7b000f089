/*
 * What to do next with a request after an error, a dead connection, or the answer of a
 * server that is the master no more. Pure functions over plain data, for whoever sends
 * requests: the blocking call, the flush and the links.
 */
#ifndef HF_COURSE_H
#define HF_COURSE_H

#include "protocol/errors.h"

/* How a request stands. All zero: it was not sent yet. */
typedef struct hf_course {
    int node;         /* with asking: where it goes, and nowhere else */
    bool asking;      /* the next time after ASKING */
    bool whole;       /* with its script's text */
    bool split;       /* with one key, or it was tried */
    bool doubtful;    /* some copy of it was sent and has no answer that counts */
    int redirections; /* one after the other */
    int64_t pause_ms; /* the last one */
} hf_course;

/* What came of the last attempt. */
typedef struct hf_outcome {
    enum {
        HF_MET_ERROR,      /* the server answered an error: `after` and `to` say more */
        HF_MET_NOBODY,     /* it was not sent: no connection */
        HF_MET_SILENCE,    /* it was sent, and the connection is dead */
        HF_MET_PREDECESSOR /* an answer of a server that is the master no more */
    } met;
    hf_after_error after; /* of hf_error_class() */
    int to;               /* where MOVED or ASK leads; -1: it does not say */
    bool clustered;
    bool hurried; /* no more waiting: the client is closed */
    bool insists; /* it asks again also where the server refuses it, for now */
    bool pinned;  /* of no use at another node */
    int64_t now, deadline;
} hf_outcome;

typedef struct hf_step {
    enum {
        HF_STEP_AGAIN, /* the same, to course->node if it is asking, else where it is served */
        HF_STEP_ALONE, /* at once as hf_request_alone(); if there is no such, after the pause */
        HF_STEP_FAIL   /* tell the caller; what is doubtful may have been carried out */
    } what;
    int64_t pause_ms; /* before it, or any time down to half of it; 0: at once */
    bool look;        /* another node may serve it by now: ask */
    bool leave;       /* the connection's server is of no use: close those to it */
    bool circle;      /* it fails because of too many redirections */
} hf_step;

/* Redirections of one request, one after the other. */
#define HF_REDIRECTIONS_MAX 16

hf_step hf_course_next(hf_course *course, const hf_outcome *outcome);

#endif
