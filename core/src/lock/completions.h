/* Completions: reports of started operations, and of losses. */
#ifndef HF_COMPLETIONS_H
#define HF_COMPLETIONS_H

#include "base/index.h"
#include "lock/client.h"
#include "protocol/names.h"

/* A completion to be read. It is allocated with the operation that it reports, so that reporting
 * needs no memory, and no caller waits forever. */
typedef struct hf_news {
    hf_item item;
    hf_completion completion;
    /* While the operation that it will report is under way: */
    struct hf_completions *numbered; /* where the caller's number finds it; NULL: it has no
                                      * number */
    hf_entry by_number;
    struct hf_op *op; /* the op, for an acquire */
    hf_names *names;  /* for an alarm; otherwise NULL */
} hf_news;

/* NULL: no memory. */
struct hf_completions *hf_completions_begin(void);
void hf_completions_end(struct hf_completions *completions);

/* Return whether the program reads completions. */
bool hf_completions_wanted_locked(const hf_client *client);
/* Begin to report completions, with the client's thread and a descriptor. */
hf_status hf_completions_want_locked(hf_client *client);
/* Return the descriptor, which is readable while there are completions. */
int hf_completions_fd(const hf_client *client);

hf_news *hf_news_new(const hf_completion *completion);
/* Free the news. With the mutex, if it has a number and was not reported. NULL is allowed. */
void hf_news_free(hf_news *news);
/* Let the number find the news until it is reported. HF_EINVAL: another operation under way has
 * that number. */
hf_status hf_news_number_locked(hf_client *client, hf_news *news, int64_t number);
/* Return the operation under way with that number, or NULL. */
hf_news *hf_news_find_locked(const hf_client *client, int64_t number);
/* Queue the completion, if the program reads completions, in the news allocated for it; with this
 * thread's message, if it reports a failure. */
void hf_tell_locked(hf_client *client, hf_news **kept, const hf_completion *completion);

/* Report an event, perhaps of a lock, for which no news was allocated: if the program reads
 * completions, and there is memory. The completion has its message. */
void hf_announce_locked(hf_client *client, const hf_completion *completion, hf_names *names);

/* While the client closes: report acquires whose completion was never read as cancelled, and give
 * each of their holds to `drop`, because no caller knows of it. */
void hf_completions_cancel_locked(hf_client *client, void (*drop)(hf_hold *hold));
/* Note that no more completions will follow. */
void hf_completions_close_locked(hf_client *client);

#endif
