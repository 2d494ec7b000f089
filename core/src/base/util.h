/* The tools of every layer: errors, deadlines, jitter, growing bytes; and those of the system
 * (os.h). */
#ifndef HF_UTIL_H
#define HF_UTIL_H

#include "base/os.h"
#include "holdfast/holdfast.h"

/* Keep the message, which may be an argument, for hf_error_message(), and return the status. A
 * macro, so that a reader or an analyser sees which status the caller returns. */
#define hf_fail(status, ...)                                                                       \
    __extension__({                                                                                \
        hf_status status_ = (status);                                                              \
        hf_explain(__VA_ARGS__);                                                                   \
        status_;                                                                                   \
    })
void hf_explain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Set the number of replicas that had the lock, after the message about it. */
void hf_explain_replicas(int64_t replicas);
/* Set the cause of a loss, an HF_CAUSE_, after the message about it. */
void hf_explain_cause(int32_t cause);
/* Set which of several locks the message is about. */
void hf_explain_lock(size_t lock);
/* Restore an error that was copied from hf_error_last(), and that other calls have replaced. */
void hf_error_set(const hf_error *error);

/* Return the bytes in quotes for a message, printable and truncated. The thread's next call
 * overwrites them. */
const char *hf_quote(const void *bytes, size_t length);

/*
 * Copy an option struct that starts with its size: what a shorter one lacks gets the default 0; a
 * longer one is refused only if it sets an option that this version lacks.
 */
hf_status hf_options_copy(void *to, size_t size, const void *from, const char *what);

/* Check that the value is HF_DEFAULT, HF_ON or HF_OFF. */
hf_status hf_check_switch(int32_t value, const char *what);

/* Fill in a caller's struct, which starts with its size: members that it has no room for are left
 * out, and the rest of a longer one is cleared. */
void hf_struct_tell(void *to, const void *from, size_t size);

/* Return now + ms, without overflow; HF_FOREVER (-1) gives HF_NO_DEADLINE. */
int64_t hf_after(int64_t now, int64_t ms);
static inline int64_t hf_earlier(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t hf_later(int64_t a, int64_t b) { return a > b ? a : b; }
/* Return whole milliseconds from now to the deadline, rounded up; 0: it has passed. */
int64_t hf_until(int64_t deadline, int64_t now);

/* Overwrite a secret; no compiler may leave this out. */
void hf_wipe(void *bytes, size_t count);
void hf_hex(char *to, const unsigned char *bytes, size_t count);

/* Return a number in [low, high), for jitter only. */
int64_t hf_jitter(int64_t low, int64_t high);
/* Return a random pause: half of ms to all of it. */
int64_t hf_spread(int64_t ms);
/* Return the pause after a pause of ms: twice as long, from the least up to the most. */
int64_t hf_backoff(int64_t ms, int64_t least_ms, int64_t most_ms);
/* The tries to reach a server, since the first failure. All zeros: no try has failed. */
typedef struct hf_tries {
    int64_t since, pause_ms, at; /* `at`: the earliest time of the next try */
    int64_t began;               /* when the current try began; 0: there is none */
} hf_tries;
/* Plan the next try. Pauses grow to a sixteenth of the time since the first failure, so that a hold
 * that outlives an outage is renewed, and a fleet that waits for its server does not overload it. A
 * server that is slow to answer gets a rest of the same length, up to 3 s: it still works for
 * clients that gave up. */
void hf_try_later(hf_tries *tries, int64_t now);

/* Write the number in decimal: at most 20 bytes, no NUL. Returns their number. */
size_t hf_digits(char *to, int64_t number);
/* Read a number of `count` decimal digits, at most 18; -1: there are other characters. */
int64_t hf_read_digits(const char *text, size_t count);

/* Return a number that this process has not had before; and one for the calling thread. */
int64_t hf_next_serial(void);
int64_t hf_thread_serial(void);

uint64_t hf_hash(uint64_t seed, const void *bytes, size_t length);

/* Return a number that grows by one in every forked child. */
unsigned hf_generation(void);
void hf_generation_watch(void);

/* A buffer that grows. After a failed allocation it stays failed and empty. */
typedef struct hf_bytes {
    char *data;
    size_t length, capacity;
    bool failed;
    char small[512];
} hf_bytes;

void hf_bytes_init(hf_bytes *bytes);
void hf_bytes_free(hf_bytes *bytes);
void hf_bytes_add(hf_bytes *bytes, const void *data, size_t length);
/* Make room for `length` more bytes. False: no memory, and the bytes are as they were. */
bool hf_bytes_reserve(hf_bytes *bytes, size_t length);
/* Add `length` bytes, and return where the caller writes them; NULL: no memory. */
char *hf_bytes_room(hf_bytes *bytes, size_t length);

#endif
