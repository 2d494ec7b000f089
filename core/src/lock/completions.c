#include "lock/completions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lock/thread.h"

struct hf_completions {
    hf_list news;
    hf_index numbers; /* of operations under way, by number */
    hf_event event;   /* -1 until the program asks for it */
    bool closed;      /* the client is closed, and the last completion is in the list */
};

struct hf_completions *hf_completions_begin(void) {
    struct hf_completions *completions = calloc(1, sizeof *completions);
    if (completions != NULL)
        completions->event = HF_NO_EVENT;
    return completions;
}

void hf_completions_end(struct hf_completions *completions) {
    if (completions == NULL)
        return;
    /* Their holds were taken care of when the client was closed. */
    for (hf_item *at; (at = hf_list_take_first(&completions->news)) != NULL;)
        hf_news_free(HF_OF(hf_news, item, at));
    hf_event_free(completions->event);
    hf_index_end(&completions->numbers);
    free(completions);
}

bool hf_completions_wanted_locked(const hf_client *client) {
    return client->completions->event.fd >= 0;
}

int hf_completions_fd(const hf_client *client) { return client->completions->event.fd; }

hf_status hf_completions_want_locked(hf_client *client) {
    struct hf_completions *completions = client->completions;
    hf_status status = hf_thread_start_locked(client);
    if (status != HF_OK)
        return status;
    completions->event = hf_event_new();
    return completions->event.fd >= 0
               ? HF_OK
               : hf_fail(HF_ENOMEM, "no file descriptor for completions: %s", strerror(errno));
}

hf_news *hf_news_new(const hf_completion *completion) {
    hf_news *news = calloc(1, sizeof *news);
    if (news != NULL)
        news->completion = *completion;
    return news;
}

/* ---------------------------------------------------------------- Numbers */

hf_news *hf_news_find_locked(const hf_client *client, int64_t number) {
    hf_entry *found = hf_index_find(&client->completions->numbers, (uint64_t)number);
    return found != NULL ? HF_OF(hf_news, by_number, found) : NULL;
}

hf_status hf_news_number_locked(hf_client *client, hf_news *news, int64_t number) {
    if (hf_news_find_locked(client, number) != NULL)
        return hf_fail(HF_EINVAL,
                       "another operation of this client that is under way has the number "
                       "%lld",
                       (long long)number);
    news->completion.op = number;
    news->numbered = client->completions;
    hf_index_add(&client->completions->numbers, &news->by_number, (uint64_t)number);
    return HF_OK;
}

static void end_number(hf_news *news) {
    if (news->numbered == NULL)
        return;
    hf_index_remove(&news->numbered->numbers, &news->by_number);
    news->numbered = NULL;
}

void hf_news_free(hf_news *news) {
    if (news == NULL)
        return;
    end_number(news);
    hf_names_drop(news->names);
    free(news);
}

/* -------------------------------------------------------------- Reporting */

void hf_tell_locked(hf_client *client, hf_news **kept, const hf_completion *completion) {
    struct hf_completions *completions = client->completions;
    if (completions->event.fd < 0)
        return;
    /* Only a hold that is older than the descriptor has no news. */
    hf_news *news = *kept != NULL ? *kept : hf_news_new(completion);
    *kept = NULL;
    if (news == NULL)
        return;
    end_number(news);
    news->completion = *completion;
    if (completion->status != HF_OK)
        news->completion.error = *hf_error_last();
    hf_list_add_last(&completions->news, &news->item);
    hf_event_set(completions->event.to);
}

void hf_announce_locked(hf_client *client, const hf_completion *completion, hf_names *names) {
    struct hf_completions *completions = client->completions;
    hf_news *news = completions->event.fd >= 0 ? hf_news_new(completion) : NULL;
    if (news == NULL)
        return;
    news->names = names != NULL ? hf_names_keep(names) : NULL;
    hf_list_add_last(&completions->news, &news->item);
    hf_event_set(completions->event.to);
}

void hf_completions_cancel_locked(hf_client *client, void (*drop)(hf_hold *hold)) {
    HF_EACH(at, &client->completions->news) {
        hf_completion *completion = &HF_OF(hf_news, item, at)->completion;
        if (completion->hold == NULL)
            continue;
        drop(completion->hold);
        completion->hold = NULL;
        completion->hold_number = 0;
        completion->status = hf_client_explain_closed();
        completion->error = *hf_error_last();
    }
}

void hf_completions_close_locked(hf_client *client) {
    struct hf_completions *completions = client->completions;
    completions->closed = true;
    if (completions->event.fd >= 0) /* forever: every thread that polls it sees the end */
        hf_event_set(completions->event.to);
}

/* Return the first completion, or NULL. The descriptor is readable while there is another. */
static hf_news *take_news(struct hf_completions *completions) {
    hf_item *at = hf_list_take_first(&completions->news);
    if (completions->news.first == NULL && completions->event.fd >= 0 && !completions->closed)
        hf_event_clear(completions->event.fd);
    return at != NULL ? HF_OF(hf_news, item, at) : NULL;
}

/* Copy the name into the caller's buffer, which stays the caller's. */
static void tell_name(hf_completion *found, const hf_completion *given, const hf_names *names) {
    found->name = given->name;
    found->name_capacity = given->name_capacity;
    if (names == NULL)
        return;
    found->name_len = names->length;
    if (given->name != NULL)
        memcpy(given->name, names->data,
               names->length < given->name_capacity ? names->length : given->name_capacity);
}

hf_status hf_client_next(hf_client *client, hf_completion *completion) {
    if (client == NULL || completion == NULL || completion->size < sizeof completion->size)
        return hf_fail(HF_EINVAL, "the handle is NULL, or hf_completion.size is not set");
    if (hf_client_inherited(client))
        return hf_client_check(client);
    hf_completion found = {0};
    hf_client_lock(client);
    hf_news *news = take_news(client->completions);
    bool closed = client->completions->closed;
    hf_client_unlock(client);
    if (news != NULL)
        found = news->completion;
    if (completion->size >= sizeof found)
        tell_name(&found, completion, news != NULL ? news->names : NULL);
    hf_news_free(news);
    hf_struct_tell(completion, &found, sizeof found);
    return news == NULL && closed ? hf_fail(HF_ECLOSED, "the client is closed") : HF_OK;
}
