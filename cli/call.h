/* The record of a call that is made once: its words, as text and as JSON. Never its result. */
#ifndef HOLDFAST_CALL_H
#define HOLDFAST_CALL_H

#include "show.h"

/* Return "none", "running", "unknown", "retry", "done" or "failed". */
const char *call_state(int32_t state);
/* Return the state that a word names; -1: there is no such state. */
int32_t call_state_named(const char *word);
/* Return how urgent the state is: smaller numbers come first, an unknown outcome before all. */
int call_rank(int32_t state);
/* Return how long ago the record reached its state, ms by this machine's clock; at least 0. */
int64_t call_age(const hf_once_info *call);

/* Add the state and the record in lines, the first without indentation. */
void call_describe(show_text *text, const hf_once_info *call);
/* Set the record's fields. */
void call_json(json_t *object, const hf_once_info *call);

#endif
