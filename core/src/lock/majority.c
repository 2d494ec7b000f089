#include "lock/majority.h"

/* Return the fence that a majority has given; 0: there is none. */
static int64_t given_by_majority(const hf_said *said, size_t masters) {
    for (size_t i = 0; i < masters; i++) {
        size_t same = 0;
        for (size_t j = 0; j < masters; j++)
            same += said[i].said == HF_SAID_YES && said[j].said == HF_SAID_YES &&
                    said[j].fence == said[i].fence;
        if (same >= hf_majority(masters))
            return said[i].fence;
    }
    return 0;
}

hf_choice hf_choose(const hf_said *said, size_t masters, int64_t *fence) {
    size_t majority = hf_majority(masters), votes = 0, open = 0, confirmed = 0, asked = 0;
    int64_t greatest = 0;
    for (size_t i = 0; i < masters; i++) {
        bool yes = said[i].said == HF_SAID_YES;
        bool confirms = yes && *fence > 0 && (said[i].confirms || said[i].fence == *fence);
        votes += yes;
        open += said[i].said == HF_SAID_NOTHING;
        confirmed += confirms;
        asked += yes && !confirms && said[i].asked;
        if (yes && said[i].fence > greatest)
            greatest = said[i].fence;
    }
    if (votes + open < majority)
        return HF_CHOICE_NONE;
    if (confirmed >= majority)
        return HF_CHOICE_HELD;
    if (votes < majority || (*fence > 0 && confirmed + asked + open >= majority))
        return HF_CHOICE_WAIT;
    int64_t given = *fence == 0 ? given_by_majority(said, masters) : 0;
    *fence = given > 0 ? given : greatest;
    return given > 0 ? HF_CHOICE_HELD : HF_CHOICE_CONFIRM;
}

int64_t hf_majority_deadline(const int64_t *deadlines, size_t masters) {
    int64_t latest = INT64_MIN;
    for (size_t i = 0; i < masters; i++) {
        size_t as_late = 0;
        for (size_t j = 0; j < masters; j++)
            as_late += deadlines[j] >= deadlines[i];
        if (as_late >= hf_majority(masters) && deadlines[i] > latest)
            latest = deadlines[i];
    }
    return latest;
}
