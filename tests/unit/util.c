/* Statuses and messages, option structs, deadlines, bytes that grow. */
#include "../check.h"

#include <pthread.h>

#include "base/util.h"
#include "lock/validity.h"

/* A huge allocation must fail under the sanitizers, too, not end the program. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

enum { GENUINE = -1, NONE = -2 };
static int randomness = GENUINE;
int __real_getentropy(void *bytes, size_t count);
int __wrap_getentropy(void *bytes, size_t count);
int __wrap_getentropy(void *bytes, size_t count) {
    if (randomness == GENUINE)
        return __real_getentropy(bytes, count);
    if (randomness >= 0)
        memset(bytes, randomness, count);
    return randomness == NONE ? -1 : 0;
}

/* ---------------------------------------------------- Statuses, messages */

static void test_every_status_has_its_number_and_name_for_ever(void **state) {
    static const char *const names[] = {
        "HF_OK",       "HF_EINVAL",   "HF_ENOMEM",    "HF_EBUSY",     "HF_ETIMEOUT",
        "HF_ENOTHELD", "HF_ELOST",    "HF_EUNKNOWN",  "HF_ECANCELED", "HF_EINTR",
        "HF_ECONNECT", "HF_EAUTH",    "HF_ESERVER",   "HF_EPROTOCOL", "HF_EUNSUPPORTED",
        "HF_ECLOSED",  "HF_EFORKED",  "HF_EREPLICAS", "HF_EDONE",     "HF_EDEADLOCK",
        "HF_EFAILED",  "HF_EOUTCOME", "HF_EMISMATCH", "HF_ESETTLED",  "HF_ELIMIT",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++)
        assert_string_equal(hf_status_name((hf_status)i), names[i]);
    assert_int_equal(HF_ELIMIT, COUNT(names) - 1);
    assert_string_equal(hf_status_name(COUNT(names)), "HF_E?");
    assert_string_equal(hf_status_name(-1), "HF_E?");
    assert_string_equal(hf_status_name(INT32_MAX), "HF_E?");
    assert_string_equal(hf_status_name(INT32_MIN), "HF_E?");
}

static void test_version_is_that_of_the_header(void **state) {
    (void)state;
    assert_string_equal(hf_version(),
                        text("%d.%d.%d", HF_VERSION_MAJOR, HF_VERSION_MINOR, HF_VERSION_PATCH));
}

static void *fail_elsewhere(void *before) {
    *(bool *)before = hf_error_message()[0] == '\0';
    hf_fail(HF_EINVAL, "another thread's");
    return NULL;
}

static void test_a_message_is_its_threads_own(void **state) {
    pthread_t thread;
    bool empty = false;
    (void)state;
    assert_status(hf_fail(HF_EBUSY, "this thread's %d", 7), HF_EBUSY);
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &empty), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(empty);
    assert_string_equal(hf_error_message(), "this thread's 7");
}

static void test_a_message_that_is_too_long_is_cut_off(void **state) {
    (void)state;
    char *endless = text("%4000d", 1);
    hf_fail(HF_EINVAL, "%s", endless);
    assert_in_range(strlen(hf_error_message()), 100, 4000);
}

static void test_bytes_are_quoted_as_one_short_printable_word(void **state) {
    char bytes[200];
    (void)state;
    assert_string_equal(hf_quote("a b", 3), "'a b'");
    assert_string_equal(hf_quote("a\0b\n'\\\xff", 7), "'a\\x00b\\x0a\\x27\\x5c\\xff'");
    assert_string_equal(hf_quote("", 0), "''");
    memset(bytes, 0xfe, sizeof bytes);
    const char *quoted = hf_quote(bytes, sizeof bytes);
    assert_int_equal(strlen(quoted), 1 + 4 * 40 + strlen("...'"));
    assert_string_equal(quoted + strlen(quoted) - 4, "...'");
}

/* --------------------------------------------------------------- Options */

typedef struct {
    uint32_t size;
    uint32_t first;
    int64_t second;
} options_t;

typedef struct {
    options_t known;
    int64_t later;
} newer_t;

static void test_no_options_are_the_defaults(void **state) {
    options_t copy = {1, 2, 3};
    (void)state;
    assert_status(hf_options_copy(&copy, sizeof copy, NULL, "options_t"), HF_OK);
    assert_int_equal(copy.first, 0);
    assert_int_equal(copy.second, 0);
}

static void test_options_of_an_older_header_leave_the_rest_at_the_default(void **state) {
    options_t copy = {1, 2, 3}, given = {offsetof(options_t, second), 7, 8};
    (void)state;
    assert_status(hf_options_copy(&copy, sizeof copy, &given, "options_t"), HF_OK);
    assert_int_equal(copy.first, 7);
    assert_int_equal(copy.second, 0);
}

static void test_options_of_a_newer_header_are_taken_if_they_set_nothing_new(void **state) {
    options_t copy;
    newer_t given = {{sizeof given, 7, 8}, 0};
    (void)state;
    assert_status(hf_options_copy(&copy, sizeof copy, &given, "options_t"), HF_OK);
    assert_int_equal(copy.first, 7);
    assert_int_equal(copy.second, 8);
}

static void test_options_of_a_newer_header_are_refused_if_they_set_what_is_lacking(void **state) {
    options_t copy;
    newer_t given = {{sizeof given, 7, 8}, INT64_MIN};
    (void)state;
    assert_status(hf_options_copy(&copy, sizeof copy, &given, "options_t"), HF_EINVAL);
    assert_message("options_t sets an option that holdfast");
    assert_message(hf_version());
}

static void test_options_without_a_size_are_refused(void **state) {
    options_t copy, given = {0, 7, 8};
    (void)state;
    for (given.size = 0; given.size < sizeof given.size; given.size++) {
        assert_status(hf_options_copy(&copy, sizeof copy, &given, "options_t"), HF_EINVAL);
        assert_message("set it to sizeof(options_t)");
    }
}

/* -------------------------------------------------------------- Deadlines */

static void test_a_deadline_is_ms_from_now(void **state) {
    (void)state;
    assert_int_equal(hf_after(5, 0), 5);
    assert_int_equal(hf_after(5, 3), 5 + 3 * HF_MS);
    assert_int_equal(hf_until(5 + 3 * HF_MS, 5), 3);
    assert_int_equal(hf_until(5 + 3 * HF_MS + 1, 5), 4); /* rounded up: never too soon */
    assert_int_equal(hf_until(5, 5), 0);
    assert_int_equal(hf_until(4, 5), 0);
}

static void test_no_deadline_is_never_reached_and_never_overflows(void **state) {
    int64_t now = hf_now();
    (void)state;
    assert_int_equal(hf_after(now, HF_FOREVER), HF_NO_DEADLINE);
    assert_int_equal(hf_after(now, INT64_MAX), HF_NO_DEADLINE);
    assert_int_equal(hf_after(now, INT64_MIN), HF_NO_DEADLINE);
    assert_int_equal(hf_after(now, INT64_MAX / HF_MS), HF_NO_DEADLINE);
    assert_int_equal(hf_after(0, INT64_MAX / HF_MS), INT64_MAX / HF_MS * HF_MS);
    assert_int_equal(hf_after(HF_NO_DEADLINE, 1), HF_NO_DEADLINE);
    assert_true(hf_until(HF_NO_DEADLINE, 0) > INT64_C(9000000000000));
    /* Even the longest lease has a deadline. */
    assert_true(hf_after(now, HF_LEASE_MAX) < HF_NO_DEADLINE);
}

static void test_a_hold_ends_a_margin_before_its_lease(void **state) {
    int64_t now = hf_now();
    (void)state;
    assert_int_equal(hf_deadline(now, 10000), now + (10000 - 2 - 10) * HF_MS);
    assert_true(hf_deadline(now, 1) < now); /* shorter than the margin: no hold */
    assert_int_equal(hf_deadline(now, HF_NEVER), HF_NO_DEADLINE);
    assert_true(hf_deadline(now, HF_LEASE_MAX) > now);
}

static void test_the_clock_goes_forward(void **state) {
    int64_t before = hf_now();
    (void)state;
    assert_true(before > 0);
    assert_true(hf_now() >= before);
}

/* ---------------------------------------------------------------- Digits */

static void test_digits_are_those_of_printf(void **state) {
    static const int64_t numbers[] = {
        0, 1, -1, 9, 10, 99, 100, -100, 1795235904676885, INT64_MAX, INT64_MIN,
    };
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char digits[24] = "", wanted[24];
        size_t length = hf_digits(digits, numbers[i]);
        snprintf(wanted, sizeof wanted, "%lld", (long long)numbers[i]);
        assert_string_equal(digits, wanted);
        assert_int_equal(length, strlen(wanted));
    }
}

/* ------------------------------------------------------------------ Bytes */

static void test_bytes_grow_and_keep_what_they_have(void **state) {
    hf_bytes bytes;
    (void)state;
    hf_bytes_init(&bytes);
    assert_ptr_equal(bytes.data, bytes.small);
    for (int i = 0; i < 100000; i++)
        hf_bytes_add(&bytes, (char[]){(char)(i * 31)}, 1);
    assert_false(bytes.failed);
    assert_int_equal(bytes.length, 100000);
    for (int i = 0; i < 100000; i++)
        if (bytes.data[i] != (char)(i * 31))
            fail_msg("byte %d was lost", i);
    hf_bytes_free(&bytes);
    assert_int_equal(bytes.length, 0);
    assert_ptr_equal(bytes.data, bytes.small);
}

static void test_bytes_fill_their_small_buffer_to_the_last(void **state) {
    char block[sizeof((hf_bytes *)0)->small];
    hf_bytes bytes;
    (void)state;
    memset(block, 'x', sizeof block);
    hf_bytes_init(&bytes);
    hf_bytes_add(&bytes, block, sizeof block);
    assert_ptr_equal(bytes.data, bytes.small);
    hf_bytes_add(&bytes, "", 0);
    assert_ptr_equal(bytes.data, bytes.small);
    hf_bytes_add(&bytes, "y", 1);
    assert_ptr_not_equal(bytes.data, bytes.small);
    assert_int_equal(bytes.length, sizeof block + 1);
    assert_memory_equal(bytes.data, block, sizeof block);
    assert_int_equal(bytes.data[sizeof block], 'y');
    hf_bytes_free(&bytes);
}

static void test_bytes_stay_failed_after_a_failed_allocation(void **state) {
    hf_bytes bytes;
    (void)state;
    hf_bytes_init(&bytes);
    hf_bytes_add(&bytes, "x", 1);
    hf_bytes_add(&bytes, "x", (size_t)1 << 62);
    assert_true(bytes.failed);
    assert_int_equal(bytes.length, 0);
    hf_bytes_add(&bytes, "x", 1); /* a part of a command must never be sent */
    assert_true(bytes.failed);
    assert_int_equal(bytes.length, 0);
    hf_bytes_free(&bytes);
}

/* ---------------------------------------------------- Random, hex, hashes */

static void test_hex_is_two_digits_a_byte(void **state) {
    char hex[9];
    (void)state;
    hf_hex(hex, (const unsigned char[]){0x00, 0x0f, 0xa5, 0xff}, 4);
    assert_string_equal(hex, "000fa5ff");
}

static void test_random_bytes_differ(void **state) {
    unsigned char one[16] = {0}, other[16] = {0};
    (void)state;
    assert_true(hf_random(one, sizeof one));
    assert_true(hf_random(other, sizeof other));
    assert_memory_not_equal(one, other, sizeof one);
}

static void test_jitter_stays_in_its_range(void **state) {
    bool low = false, high = false;
    (void)state;
    for (int i = 0; i < 1000; i++) {
        int64_t number = hf_jitter(3, 6);
        assert_in_range(number, 3, 5);
        low = low || number == 3;
        high = high || number == 5;
    }
    assert_true(low && high);
    assert_int_equal(hf_jitter(3, 3), 3);
    assert_int_equal(hf_jitter(3, 2), 3);
}

/* Return the first jitter of a thread when the system's randomness consists of this byte, or is
 * unavailable. */
static void *first_jitter(void *first) {
    *(int64_t *)first = hf_jitter(0, INT64_MAX);
    return NULL;
}

static int64_t jitter_of(int byte) {
    pthread_t thread;
    int64_t first = -1;
    randomness = byte;
    assert_int_equal(pthread_create(&thread, NULL, first_jitter, &first), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    randomness = GENUINE;
    assert_in_range(first, 0, INT64_MAX - 1);
    return first;
}

static void test_jitter_begins_with_the_systems_randomness(void **state) {
    (void)state;
    assert_true(jitter_of(1) == jitter_of(1));
    assert_true(jitter_of(1) != jitter_of(2));
    assert_true(jitter_of(NONE) != jitter_of(NONE));
    assert_true(jitter_of(0) != jitter_of(0)); /* from bytes that are of no use */
}

static void test_a_hash_tells_bytes_apart_and_spreads_them(void **state) {
    enum { COUNT_OF = 4096, BUCKETS = 256 };
    char bytes[64], words[] = "the same bytes, the same hash";
    int found[BUCKETS] = {0};
    (void)state;
    assert_true(hf_hash(3, words, sizeof words) == hf_hash(3, words, sizeof words));
    assert_true(hf_hash(3, words, sizeof words) != hf_hash(4, words, sizeof words));
    for (size_t i = 0; i + 1 < sizeof words; i++) {
        uint64_t before = hf_hash(0, words, sizeof words);
        assert_true(hf_hash(0, words, i) != hf_hash(0, words, i + 1));
        words[i] ^= 1;
        assert_true(hf_hash(0, words, sizeof words) != before);
        words[i] ^= 1;
    }
    /* Realistic owners: they differ in a few digits. */
    for (int i = 0; i < COUNT_OF; i++) {
        int length = snprintf(bytes, sizeof bytes, "holdfast@host/12345:t%d", i);
        found[hf_hash(0, bytes, (size_t)length) % BUCKETS]++;
    }
    for (int i = 0; i < BUCKETS; i++)
        assert_in_range(found[i], 1, 4 * COUNT_OF / BUCKETS);
}

static void *sleep_a_little(void *word) {
    hf_sleep_while(word, 0, 50);
    return NULL;
}

/* A cancelled thread would leave its place, and the mutex of all such sleepers. */
static void test_a_thread_that_sleeps_on_a_word_is_not_cancelled(void **state) {
    int word = 0;
    void *result = &word;
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, sleep_a_little, &word), 0);
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
    hf_wake(&word);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_status_has_its_number_and_name_for_ever),
        cmocka_unit_test(test_version_is_that_of_the_header),
        cmocka_unit_test(test_a_message_is_its_threads_own),
        cmocka_unit_test(test_a_message_that_is_too_long_is_cut_off),
        cmocka_unit_test(test_bytes_are_quoted_as_one_short_printable_word),
        cmocka_unit_test(test_no_options_are_the_defaults),
        cmocka_unit_test(test_options_of_an_older_header_leave_the_rest_at_the_default),
        cmocka_unit_test(test_options_of_a_newer_header_are_taken_if_they_set_nothing_new),
        cmocka_unit_test(test_options_of_a_newer_header_are_refused_if_they_set_what_is_lacking),
        cmocka_unit_test(test_options_without_a_size_are_refused),
        cmocka_unit_test(test_a_deadline_is_ms_from_now),
        cmocka_unit_test(test_no_deadline_is_never_reached_and_never_overflows),
        cmocka_unit_test(test_a_hold_ends_a_margin_before_its_lease),
        cmocka_unit_test(test_the_clock_goes_forward),
        cmocka_unit_test(test_digits_are_those_of_printf),
        cmocka_unit_test(test_bytes_grow_and_keep_what_they_have),
        cmocka_unit_test(test_bytes_fill_their_small_buffer_to_the_last),
        cmocka_unit_test(test_bytes_stay_failed_after_a_failed_allocation),
        cmocka_unit_test(test_hex_is_two_digits_a_byte),
        cmocka_unit_test(test_random_bytes_differ),
        cmocka_unit_test(test_jitter_stays_in_its_range),
        cmocka_unit_test(test_jitter_begins_with_the_systems_randomness),
        cmocka_unit_test(test_a_hash_tells_bytes_apart_and_spreads_them),
        cmocka_unit_test(test_a_thread_that_sleeps_on_a_word_is_not_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
