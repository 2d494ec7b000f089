/*
 * The verdict of a majority of masters. Plain data and pure functions: no function here waits,
 * sends or reads a clock.
 */
#ifndef HF_MAJORITY_H
#define HF_MAJORITY_H

#include "base/util.h"

static inline size_t hf_majority(size_t masters) { return masters / 2 + 1; }

/* What one master has answered to a ballot. */
typedef struct hf_said {
    enum {
        HF_SAID_NOTHING, /* asked, and may still give its vote in time */
        HF_SAID_YES,     /* the ballot has its vote */
        HF_SAID_NO       /* it refuses, cannot be asked, or is silent */
    } said;
    int64_t fence; /* the fence that it gave, with a yes */
    bool confirms; /* it then stored the chosen fence: its own is no greater */
    bool asked;    /* it is asked to confirm */
} hf_said;

typedef enum {
    HF_CHOICE_WAIT,
    HF_CHOICE_CONFIRM, /* another fence is chosen: earlier confirmations are void */
    HF_CHOICE_HELD,    /* a majority has confirmed the chosen fence */
    HF_CHOICE_NONE     /* no majority can give its votes any more */
} hf_choice;

/* Choose the fence of a ballot, *fence, which is 0 before. A master that gave exactly that fence
 * has confirmed it. */
hf_choice hf_choose(const hf_said *said, size_t masters, int64_t *fence);

/* Return the latest instant before which a majority of the votes certainly stands. deadlines:
 * INT64_MIN for a master without a vote. */
int64_t hf_majority_deadline(const int64_t *deadlines, size_t masters);

#endif
