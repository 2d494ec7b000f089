/* Intrusive lists: an element contains its own links. Adding an element needs no memory, and
 * removing it takes one step. */
#ifndef HF_LIST_H
#define HF_LIST_H

#include <stddef.h>

/* A place in a list. All zeros: in no list. */
typedef struct hf_item {
    struct hf_item *previous, *next;
    struct hf_list *list; /* or NULL */
} hf_item;

/* A list. All zeros: empty. */
typedef struct hf_list {
    hf_item *first, *last;
    size_t count;
} hf_list;

/* The struct of that type that has this item as its field `member`. */
#define HF_OF(type, member, item) ((type *)(void *)((char *)(item)-offsetof(type, member)))

/* Visit each item; the body may remove the current one. */
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

/* Remove the item from its list; does nothing if it is in no list. */
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

/* Remove the first item and return it; NULL: the list is empty. */
static inline hf_item *hf_list_take_first(hf_list *list) {
    hf_item *item = list->first;
    if (item != NULL)
        hf_list_remove(item);
    return item;
}

/* Move all items, in their order, to the end of another list. */
static inline void hf_list_move(hf_list *from, hf_list *to) {
    for (hf_item *item; (item = hf_list_take_first(from)) != NULL;)
        hf_list_add_last(to, item);
}

#endif
