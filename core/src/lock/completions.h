/* Completions: what is told of operations that were started, and of losses. */
#ifndef HF_COMPLETIONS_H
#define HF_COMPLETIONS_H

#include "lock/client.h"

/* A completion to be read. It is made with what it will tell of, so that telling needs
 * no memory: nobody waits for it for ever. */
typedef struct hf_news {
    hf_item item;
    hf_completion completion;
} hf_news;

/* NULL: no memory. */
struct hf_completions *hf_completions_begin(void);
void hf_completions_end(struct hf_completions *completions);

/* Does anybody listen? */
bool hf_completions_wanted_locked(const hf_client *client);
/* From now on somebody does; with the thread and a descriptor. */
hf_status hf_completions_want_locked(hf_client *client);
/* Readable while there are any. */
int hf_completions_fd(const hf_client *client);

hf_news *hf_news_new(const hf_completion *completion);
/* Put it where it is read, if anybody listens, in the news kept for it; with this thread's
 * message, if it is about something that failed. */
void hf_tell_locked(hf_client *client, hf_news **kept, const hf_completion *completion);

/* The client is being closed: acquires whose completion was never read are told to have
 * been cancelled, and each of their holds is given to `drop`: no caller knows that it
 * holds them. */
void hf_completions_cancel_locked(hf_client *client, void (*drop)(hf_hold *hold));
/* Nothing more will be told. */
void hf_completions_close_locked(hf_client *client);

#endif
