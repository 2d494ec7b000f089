#include "breaking.h"

#include <string.h>

#include "cli.h"

static void add_name(show_text *text, const hf_view *view) {
    size_t length;
    const void *name = hf_view_name(view, &length);
    show_add(text, "the lock ");
    show_bytes(text, name, length);
}

static void add_holder(show_text *text, const hf_lock_holder *holder) {
    show_owner(text, holder->owner, holder->owner_len);
    show_add(text, holder->mode == HF_SHARED ? ", which has shared it" : ", which has held it");
    show_add(text, " for ");
    show_duration(text, holder->held_ms);
    show_add(text, " with the fence ");
    show_number(text, holder->fence);
    if (holder->count > 1) {
        show_add(text, ", ");
        show_number(text, holder->count);
        show_add(text, " holds");
    }
}

void breaking_add(show_text *text, const hf_view *view, const hf_lock_info *info,
                  const hf_lock_holder *holder) {
    add_name(text, view);
    show_add(text, " away from ");
    if (holder->owner != NULL)
        add_holder(text, holder);
    else
        show_add(text, "another library");
    if (info->waiters > 0) {
        show_add(text, "; ");
        show_number(text, info->waiters);
        show_add(text, info->waiters == 1 ? " waiter" : " waiters");
    }
}

void breaking_refuse(show_text *text, const hf_view *view, const char *why) {
    hf_lock_holder holder = {.size = sizeof holder};
    add_name(text, view);
    show_add(text, why);
    for (size_t i = 0; hf_view_holder(view, i, &holder) == HF_OK; i++) {
        show_add(text, "\n  ");
        add_holder(text, &holder);
    }
}

int breaking_take(hf_lock *lock, int64_t fence, show_text *why) {
    hf_view *view;
    hf_status status = hf_lock_break(lock, fence, fence == 0 ? HF_BREAK_FOREIGN : 0),
              broken = status;
    if (status == HF_ENOTHELD)
        status = hf_lock_inspect(lock, 0, NULL, &view);
    if (broken == HF_ENOTHELD && status == HF_OK) {
        breaking_refuse(why, view, " has another holder now:");
        hf_view_close(view);
        return CLI_NO;
    }
    if (status != HF_OK)
        show_bytes(why, hf_error_message(), strlen(hf_error_message()));
    return cli_status_of(status);
}
