/* Lists of things that hold their own place in them: no memory, and off in one step. */
#ifndef HF_LIST_H
#define HF_LIST_H

#include <stddef.h>

struct hf_list;

/* A place in a list. All zeros: in no list. */
typedef struct hf_item {
    struct hf_item *previous, *next;
    struct hf_list *list; /* or NULL */
} hf_item;

/* All zeros: empty. */
typedef struct hf_list {
    hf_item *first, *last;
    size_t count;
} hf_list;

/* The thing of that type whose field `member` is this item. */
#define HF_OF(type, member, item) ((type *)(void *)((char *)(item)-offsetof(type, member)))

/* Each item in turn; the body may take out the one that it is at. */
#define HF_EACH(at, in)                                                                            \
    for (hf_item *at = (in)->first, *at##_next = at != NULL ? at->next : NULL; at != NULL;         \
         at = at##_next, at##_next = at != NULL ? at->next : NULL)

static inline void hf_list_add_last(hf_list *list, hf_item *item) {
    *item = (hf_item){.previous = list->last, .list = list};
    if (list->last != NULL)
        list->last->next = item;
    else
        list->first = item;
    list->last = item;
    list->count++;
}

static inline void hf_list_add_first(hf_list *list, hf_item *item) {
    *item = (hf_item){.next = list->first, .list = list};
    if (list->first != NULL)
        list->first->previous = item;
    else
        list->last = item;
    list->first = item;
    list->count++;
}

/* Nothing happens if it is in no list. */
static inline void hf_list_remove(hf_item *item) {
    hf_list *list = item->list;
    if (list == NULL)
        return;
    if (item->previous != NULL)
        item->previous->next = item->next;
    else
        list->first = item->next;
    if (item->next != NULL)
        item->next->previous = item->previous;
    else
        list->last = item->previous;
    list->count--;
    *item = (hf_item){0};
}

/* The first, which is in no list any more; NULL: there is none. */
static inline hf_item *hf_list_take_first(hf_list *list) {
    hf_item *item = list->first;
    if (item != NULL)
        hf_list_remove(item);
    return item;
}

/* All of them, in their order, to the end of another list. */
static inline void hf_list_move(hf_list *from, hf_list *to) {
    for (hf_item *item; (item = hf_list_take_first(from)) != NULL;)
        hf_list_add_last(to, item);
}

#endif
