#include "base/util.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pauses between tries: the first; the limit of doubling; the longest; and between the last two,
 * the part of the time since the first failure. */
#define TRY_MIN_MS 5
#define TRY_SOON_MS 200
#define TRY_MAX_MS 3000
#define TRY_PART 16

#define STRING_(x) #x
#define STRING(x) STRING_(x)

static _Thread_local hf_error last;

const char *hf_error_message(void) { return last.message; }

const hf_error *hf_error_last(void) { return &last; }

void hf_error_set(const hf_error *error) { last = *error; }

void hf_explain_replicas(int64_t replicas) { last.replicas = replicas; }
void hf_explain_cause(int32_t cause) { last.cause = cause; }
void hf_explain_lock(size_t lock) { last.lock = (int32_t)lock; }

const char *hf_version(void) {
    return STRING(HF_VERSION_MAJOR) "." STRING(HF_VERSION_MINOR) "." STRING(HF_VERSION_PATCH);
}

const char *hf_status_name(hf_status status) {
    static const char *const names[] = {
        "HF_OK",       "HF_EINVAL",   "HF_ENOMEM",    "HF_EBUSY",     "HF_ETIMEOUT",
        "HF_ENOTHELD", "HF_ELOST",    "HF_EUNKNOWN",  "HF_ECANCELED", "HF_EINTR",
        "HF_ECONNECT", "HF_EAUTH",    "HF_ESERVER",   "HF_EPROTOCOL", "HF_EUNSUPPORTED",
        "HF_ECLOSED",  "HF_EFORKED",  "HF_EREPLICAS", "HF_EDONE",     "HF_EDEADLOCK",
        "HF_EFAILED",  "HF_EOUTCOME", "HF_EMISMATCH", "HF_ESETTLED",  "HF_ELIMIT",
    };
    bool known = status >= 0 && (size_t)status < sizeof names / sizeof *names;
    return known ? names[status] : "HF_E?";
}

void hf_explain(const char *format, ...) {
    char text[sizeof last.message]; /* the replaced message may be an argument */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    strcpy(last.message, text);
    last.replicas = 0;
    last.cause = HF_CAUSE_NONE;
    last.lock = 0;
    /* The text may quote the server: its control characters must not break the lines of a log, or
     * reach a terminal. */
    for (char *c = last.message; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

const char *hf_quote(const void *bytes, size_t length) {
    static _Thread_local char text[4 * 40 + 8];
    const unsigned char *from = bytes;
    char *to = text;
    *to++ = '\'';
    for (size_t i = 0; i < length && i < 40; i++) {
        if (from[i] >= 0x20 && from[i] < 0x7f && from[i] != '\\' && from[i] != '\'')
            *to++ = (char)from[i];
        else
            to += sprintf(to, "\\x%02x", from[i]);
    }
    strcpy(to, length > 40 ? "...'" : "'");
    return text;
}

hf_status hf_options_copy(void *to, size_t size, const void *from, const char *what) {
    memset(to, 0, size);
    if (from == NULL)
        return HF_OK;
    uint32_t given;
    memcpy(&given, from, sizeof given);
    if (given < sizeof given)
        return hf_fail(HF_EINVAL, "%s.size is %u: set it to sizeof(%s)", what, given, what);
    for (size_t i = size; i < given; i++)
        if (((const char *)from)[i] != 0)
            return hf_fail(HF_EINVAL, "%s sets an option that holdfast %s does not have", what,
                           hf_version());
    memcpy(to, from, given < size ? given : size);
    return HF_OK;
}

hf_status hf_check_switch(int32_t value, const char *what) {
    if (value != HF_DEFAULT && value != HF_ON && value != HF_OFF)
        return hf_fail(HF_EINVAL, "%s is %d: it takes HF_DEFAULT, HF_ON or HF_OFF", what,
                       (int)value);
    return HF_OK;
}

void hf_struct_tell(void *to, const void *from, size_t size) {
    uint32_t room;
    memcpy(&room, to, sizeof room);
    memset(to, 0, room);
    memcpy(to, from, room < size ? room : size);
    memcpy(to, &room, sizeof room);
}

int64_t hf_after(int64_t now, int64_t ms) {
    /* now may be before this machine's start, and negative. */
    if (ms < 0 || ms > HF_NO_DEADLINE / HF_MS || now > HF_NO_DEADLINE - ms * HF_MS)
        return HF_NO_DEADLINE;
    return now + ms * HF_MS;
}

int64_t hf_until(int64_t deadline, int64_t now) {
    if (deadline <= now)
        return 0;
    int64_t left = deadline - now;
    return left / HF_MS + (left % HF_MS != 0);
}

void hf_wipe(void *bytes, size_t count) {
    memset(bytes, 0, count);
    __asm__ __volatile__("" : : "r"(bytes) : "memory"); /* as if other code read it */
}

void hf_hex(char *to, const unsigned char *bytes, size_t count) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
    }
    *to = '\0';
}

/* Return a number of xorshift64*, with a state for each thread. Source: Vigna, "An experimental
 * exploration of Marsaglia's xorshift generators, scrambled", 2016. */
int64_t hf_jitter(int64_t low, int64_t high) {
    static _Thread_local uint64_t state;
    if (state == 0 && (!hf_random(&state, sizeof state) || state == 0))
        state = (uint64_t)hf_now() | 1;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    uint64_t random = state * UINT64_C(2685821657736338717) >> 1;
    return high > low ? low + (int64_t)(random % (uint64_t)(high - low)) : low;
}

int64_t hf_spread(int64_t ms) { return hf_jitter(ms / 2, ms + 1); }

int64_t hf_backoff(int64_t ms, int64_t least_ms, int64_t most_ms) {
    return ms < least_ms ? least_ms : ms < most_ms / 2 ? 2 * ms : most_ms;
}

void hf_try_later(hf_tries *tries, int64_t now) {
    int64_t took_ms = tries->began != 0 ? (now - tries->began) / HF_MS : 0;
    int64_t idle = now - took_ms * HF_MS - tries->at; /* the time in which no try was needed */
    if (tries->since == 0 || idle > TRY_MAX_MS * HF_MS)
        *tries = (hf_tries){.since = now};
    int64_t most_ms = (now - tries->since) / HF_MS / TRY_PART;
    most_ms = most_ms < TRY_SOON_MS ? TRY_SOON_MS : most_ms < TRY_MAX_MS ? most_ms : TRY_MAX_MS;
    tries->pause_ms = hf_backoff(tries->pause_ms, TRY_MIN_MS, most_ms);
    int64_t rest_ms = hf_earlier(took_ms, TRY_MAX_MS); /* this process may have stood still */
    tries->at = hf_after(now, hf_spread(rest_ms > tries->pause_ms ? rest_ms : tries->pause_ms));
    tries->began = 0;
}

size_t hf_digits(char *to, int64_t number) {
    char digits[20];
    size_t count = 0, length = 0;
    if (0 <= number && number < 100) { /* most numbers are lengths */
        if (number >= 10)
            to[length++] = (char)('0' + number / 10);
        to[length++] = (char)('0' + number % 10);
        return length;
    }
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do
        digits[count++] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0)
        to[length++] = '-';
    while (count > 0)
        to[length++] = digits[--count];
    return length;
}

int64_t hf_read_digits(const char *text, size_t count) {
    int64_t number = 0;
    for (size_t i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        number = 10 * number + (text[i] - '0');
    }
    return number;
}

int64_t hf_next_serial(void) {
    static int64_t given;
    return __atomic_add_fetch(&given, 1, __ATOMIC_RELAXED);
}

int64_t hf_thread_serial(void) {
    static _Thread_local int64_t serial;
    if (serial == 0)
        serial = hf_next_serial();
    return serial;
}

/* Multiply and mix, eight bytes at a time. The hash is used only within this process. */
uint64_t hf_hash(uint64_t seed, const void *bytes, size_t length) {
    const unsigned char *from = bytes;
    uint64_t hash = seed ^ length ^ UINT64_C(14695981039346656037), part;
    for (; length >= sizeof part; from += sizeof part, length -= sizeof part) {
        memcpy(&part, from, sizeof part);
        hash = (hash ^ part) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ from[i]) * UINT64_C(1099511628211);
    /* Every bit affects every other: the finalizer of MurmurHash3. */
    hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ hash >> 33;
}

static atomic_uint generation;

static void forked(void) { atomic_fetch_add(&generation, 1); }
static void watch(void) { pthread_atfork(NULL, NULL, forked); }

void hf_generation_watch(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
}

unsigned hf_generation(void) { return atomic_load_explicit(&generation, memory_order_relaxed); }

void hf_bytes_init(hf_bytes *bytes) {
    bytes->data = bytes->small;
    bytes->length = 0;
    bytes->capacity = sizeof bytes->small;
    bytes->failed = false;
}

void hf_bytes_free(hf_bytes *bytes) {
    if (bytes->data != bytes->small)
        free(bytes->data);
    hf_bytes_init(bytes);
}

bool hf_bytes_reserve(hf_bytes *bytes, size_t length) {
    if (bytes->failed || length <= bytes->capacity - bytes->length)
        return !bytes->failed;
    size_t capacity = 2 * bytes->capacity + length;
    bool small = bytes->data == bytes->small;
    char *grown = realloc(small ? NULL : bytes->data, capacity);
    if (grown == NULL)
        return false;
    if (small)
        memcpy(grown, bytes->small, bytes->length);
    bytes->data = grown;
    bytes->capacity = capacity;
    return true;
}

char *hf_bytes_room(hf_bytes *bytes, size_t length) {
    if (!hf_bytes_reserve(bytes, length)) {
        hf_bytes_free(bytes);
        bytes->failed = true;
        return NULL;
    }
    bytes->length += length;
    return bytes->data + bytes->length - length;
}

void hf_bytes_add(hf_bytes *bytes, const void *data, size_t length) {
    char *to = hf_bytes_room(bytes, length);
    if (to != NULL && length > 0) /* NULL is allowed */
        memcpy(to, data, length);
}
