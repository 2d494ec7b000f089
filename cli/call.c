#include "call.h"

#include <string.h>
#include <time.h>

static const struct {
    const char *word, *text;
    int rank;
} states[] = {
    [HF_ONCE_NONE] = {"none", "there is no record of a call", 5},
    [HF_ONCE_RUNNING] = {"running", "the call is in progress", 1},
    [HF_ONCE_UNKNOWN] = {"unknown", "the call began, and its outcome is unknown", 0},
    [HF_ONCE_RETRY] = {"retry", "the call may be made again", 2},
    [HF_ONCE_DONE] = {"done", "the call is done", 4},
    [HF_ONCE_FAILED] = {"failed", "the call failed, and its error is kept", 3},
};
enum { STATES = sizeof states / sizeof *states };

const char *call_state(int32_t state) {
    return state >= 0 && state < STATES ? states[state].word : "?";
}

int32_t call_state_named(const char *word) {
    for (int32_t i = HF_ONCE_RUNNING; i < STATES; i++)
        if (strcmp(word, states[i].word) == 0)
            return i;
    return -1;
}

int call_rank(int32_t state) { return state >= 0 && state < STATES ? states[state].rank : STATES; }

int64_t call_age(const hf_once_info *call) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - call->since_ms;
    return age > 0 ? age : 0;
}

static void add_bytes(show_text *text, const hf_once_info *call) {
    if (call->state != HF_ONCE_DONE && call->state != HF_ONCE_FAILED)
        return;
    show_add(text, call->state == HF_ONCE_DONE ? "\n  result: " : "\n  error: ");
    show_number(text, call->result_len);
    show_add(text, call->result_len == 1 ? " byte" : " bytes");
}

void call_describe(show_text *text, const hf_once_info *call) {
    show_add(text, call->state >= 0 && call->state < STATES ? states[call->state].text : "?");
    if (call->state != HF_ONCE_NONE) {
        show_add(text, "\n  since: ");
        show_duration(text, call_age(call));
        show_add(text, " ago\n  by: ");
        show_owner(text, call->owner, call->owner_len);
        show_add(text, "\n  fence: ");
        show_number(text, call->fence);
        add_bytes(text, call);
        show_add(text, "\n  kept: ");
        if (call->ttl_ms == HF_NEVER) {
            show_add(text, "until it is settled");
        } else {
            show_add(text, "for ");
            show_duration(text, call->ttl_ms);
        }
        show_add(text, "\n  mode: ");
        show_add(text, call->at_most_once ? "at most once" : "again after a lost hold");
        show_add(text, call->printed ? ", with a fingerprint" : "");
    }
    if (call->note_len > 0) {
        show_add(text, "\n  note: ");
        show_bytes(text, call->note, call->note_len);
    }
    show_add(text, "\n");
}

void call_json(json_t *object, const hf_once_info *call) {
    show_json_text(object, "state", call_state(call->state));
    if (call->state == HF_ONCE_NONE)
        return;
    show_json_owner(object, call->owner, call->owner_len);
    show_json_number(object, "fence", call->fence);
    show_json_number(object, "since_ms", call->since_ms);
    show_json_ms(object, "ttl_ms", call->ttl_ms);
    show_json_number(object, "size", call->result_len);
    show_json_bytes(object, "note", call->note, call->note_len);
    show_json_bool(object, "at_most_once", call->at_most_once);
    show_json_bool(object, "fingerprint", call->printed);
}
