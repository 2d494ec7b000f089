/* A lock's name, its companion keys and the channels of its waiters. */
#ifndef HF_NAMES_H
#define HF_NAMES_H

#include <holdfast/holdfast.h>

#include "base/util.h"

#define HF_ID_LENGTH 32 /* the hex digits of a hold id, and of a client's id */
#define HF_SLOTS 16384  /* of a cluster */
#define HF_LAST_FENCE "hf1:f"

/* The names of a lock, shared by all that refer to it. */
typedef struct hf_names {
    int references;
    int64_t fence_life_ms; /* of the last fence of a lock without holds and waiters; 0: a day */
    uint64_t hash;         /* of the name */
    unsigned slot;         /* of the name and its companions, in a cluster */
    size_t length;         /* of the name */
    const char *data;
    size_t tagged; /* the length of "{tag}name:", with which companion keys begin */
    const char *companion;
    /* The lock's key and the key of its last fence, encoded: most requests have both. */
    size_t lock_end, fence_end;
    char encoded[];
} hf_names;

/* Make the names, with one reference, the caller's. HF_EINVAL if the name cannot be used. */
hf_status hf_names_new(const void *name, size_t length, int64_t fence_life_ms,
                       hf_names **names_out);
hf_names *hf_names_keep(hf_names *names);
/* Drop a reference. NULL is allowed. */
void hf_names_drop(hf_names *names);
/* Return the name in quotes, as hf_quote() does. */
const char *hf_names_quoted(const hf_names *names);
bool hf_names_equal(const hf_names *one, const hf_names *other);

/* Write the channel on which a client's grants arrive: "hf:<client id>", for all its locks; or, in
 * a cluster, "hf:{tag}:<client id>" for the locks of a tag. */
void hf_names_channel(const hf_names *names, bool sharded, const char *client_id, hf_bytes *name);

#define HF_NOTE_MARK_LENGTH (sizeof HF_NOTE_MARK - 1)
/* Return the length of the owner; and the note, which may be empty, in the same bytes. */
size_t hf_owner_split(const char *text, size_t length, const char **note, size_t *note_length);

#endif
