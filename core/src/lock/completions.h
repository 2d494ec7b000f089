/* Completions: news of started operations, and of losses. */
#ifndef HF_COMPLETIONS_H
#define HF_COMPLETIONS_H

#include "base/index.h"
#include "lock/client.h"
#include "protocol/names.h"

/* A completion to be read. It is allocated with the operation that it reports, so
 * that reporting needs no memory: no caller waits for it for ever. */
typedef struct hf_news {
    hf_item item;
    hf_completion completion;
    /* While the operation that it will report is under way: */
    struct hf_completions *numbered; /* the caller's number finds it; NULL: it has no number */
    hf_entry by_number;
    struct hf_op *op; /* of an acquire */
    hf_names *names;  /* of an alarm; otherwise NULL */
} hf_news;

/* NULL: no memory. */
struct hf_completions *hf_completions_begin(void);
void hf_completions_end(struct hf_completions *completions);

/* Does the program listen? */
bool hf_completions_wanted_locked(const hf_client *client);
/* It did not, and from now on it does; with the thread and a descriptor. */
hf_status hf_completions_want_locked(hf_client *client);
/* Readable while there are any. */
int hf_completions_fd(const hf_client *client);

hf_news *hf_news_new(const hf_completion *completion);
/* With the mutex, if it has a number and was not reported. NULL is allowed. */
void hf_news_free(hf_news *news);
/* From now on, until it is reported, the number finds it. HF_EINVAL: another operation that is
 * under way has that number. */
hf_status hf_news_number_locked(hf_client *client, hf_news *news, int64_t number);
/* The operation under way with that number, or NULL. */
hf_news *hf_news_find_locked(const hf_client *client, int64_t number);
/* Put it where it is read, if the program listens, in the news kept for it; with this thread's
 * message, if it is about something that failed. */
void hf_tell_locked(hf_client *client, hf_news **kept, const hf_completion *completion);

/* Tell of something, perhaps of a lock, for which no news was kept: if the program listens, and
 * there is memory. The completion has its message. */
void hf_announce_locked(hf_client *client, const hf_completion *completion, hf_names *names);

/* The client is being closed: acquires whose completion was never read are reported
 * as cancelled, and each of their holds is given to `drop`: no caller knows that it
 * holds them. */
void hf_completions_cancel_locked(hf_client *client, void (*drop)(hf_hold *hold));
/* No more completions will follow. */
void hf_completions_close_locked(hf_client *client);

#endif
