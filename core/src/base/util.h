/* The tools of every layer: errors, deadlines, jitter, growing bytes; and the system's (os.h). */
#ifndef HF_UTIL_H
#define HF_UTIL_H

#include "base/os.h"
#include "holdfast/holdfast.h"

/* Keep the message for hf_error_message(), which may be an argument, and return the status. A
 * macro, so that a reader or an analyser sees which status the caller returns. */
#define hf_fail(status, ...)                                                                       \
    __extension__({                                                                                \
        hf_status status_ = (status);                                                              \
        hf_explain(__VA_ARGS__);                                                                   \
        status_;                                                                                   \
    })
void hf_explain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The number of replicas that had it, after the message about that. */
void hf_explain_replicas(int64_t replicas);
/* The cause of a loss, after the message about it: an HF_CAUSE_. */
void hf_explain_cause(int32_t cause);
/* Which of several locks the message is about. */
void hf_explain_lock(size_t lock);
/* The message that was kept from hf_error_last(), which other calls have replaced. */
void hf_error_set(const hf_error *error);

/* The bytes in quotes for a message, printable and cut short. The thread's next call overwrites
 * them. */
const char *hf_quote(const void *bytes, size_t length);

/*
 * Copy an option struct that starts with its size: in a shorter one the rest has the default 0; a
 * longer one is refused only if it sets an option that this version lacks.
 */
hf_status hf_options_copy(void *to, size_t size, const void *from, const char *what);

/* HF_DEFAULT, HF_ON or HF_OFF? */
hf_status hf_check_switch(int32_t value, const char *what);

/* Fill in a struct of the caller's, which starts with its size: what it has no room for is left
 * out, and the rest of a longer one is cleared. */
void hf_struct_tell(void *to, const void *from, size_t size);

/* now + ms, without overflow; HF_FOREVER (-1) gives HF_NO_DEADLINE. */
int64_t hf_after(int64_t now, int64_t ms);
static inline int64_t hf_earlier(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t hf_later(int64_t a, int64_t b) { return a > b ? a : b; }
/* Whole milliseconds from now to the deadline, rounded up; 0: it is past. */
int64_t hf_until(int64_t deadline, int64_t now);

/* Overwrite a secret; no compiler leaves it out. */
void hf_wipe(void *bytes, size_t count);
void hf_hex(char *to, const unsigned char *bytes, size_t count);

/* A number in [low, high), for jitter only. */
int64_t hf_jitter(int64_t low, int64_t high);
/* The same for a pause: half of it up to all of it. */
int64_t hf_spread(int64_t ms);
/* The pause after one of that many ms: twice as long, from the least up to the most. */
int64_t hf_backoff(int64_t ms, int64_t least_ms, int64_t most_ms);
/* The tries to reach a server, since the first that failed. All zeros: no try has failed. */
typedef struct hf_tries {
    int64_t since, pause_ms, at; /* not to be tried again before `at` */
    int64_t began;               /* the try under way; 0: no try */
} hf_tries;
/* Plan the next try. Pauses grow to a sixteenth of the time since the first failure, so that a hold
 * that outlives an outage is renewed, and a fleet that waits for its server does not storm it. A
 * server that is slow to answer gets as long a rest, up to 3 s: it still works for clients that
 * gave up. */
void hf_try_later(hf_tries *tries, int64_t now);

/* Write the number in decimal: 20 bytes at most, no NUL. Returns how many. */
size_t hf_digits(char *to, int64_t number);
/* Read a number of that many decimal digits, 18 at most; -1: there are other characters. */
int64_t hf_read_digits(const char *text, size_t count);

/* A number that this process has not had before; and one for the calling thread. */
int64_t hf_next_serial(void);
int64_t hf_thread_serial(void);

uint64_t hf_hash(uint64_t seed, const void *bytes, size_t length);

/* Goes up by one in every forked child. */
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
/* Add that many bytes, and return where the caller writes them; NULL: no memory. */
char *hf_bytes_room(hf_bytes *bytes, size_t length);

#endif
