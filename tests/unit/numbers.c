/* The bucket in which a time is counted. */
#include "../check.h"

#include "lock/holds.h"

static int bucket_of(int64_t ns) {
    hf_histogram counted = {0};
    int found = -1;
    hf_record(&counted, ns);
    for (int i = 0; i < HF_BUCKETS; i++)
        if (counted.counts[i] != 0) {
            assert_int_equal(found, -1);
            assert_int_equal(counted.counts[i], 1);
            found = i;
        }
    return found;
}

static void test_a_bucket_has_its_upper_bound_and_what_is_above_the_one_before(void **state) {
    (void)state;
    assert_int_equal(bucket_of(-5), 0); /* a clock went wrong */
    assert_int_equal(bucket_of(0), 0);
    for (int i = 0; i < HF_BUCKETS - 1; i++) {
        int64_t bound_us = (int64_t)HF_BUCKET_US << i;
        assert_int_equal(bucket_of(bound_us * 1000), i);
        assert_int_equal(bucket_of(bound_us * 1000 + 1000), i + 1);
    }
    assert_int_equal(bucket_of(INT64_MAX - 1000), HF_BUCKETS - 1);
}

static void test_sums_are_microseconds_to_the_nearest(void **state) {
    (void)state;
    hf_tally tally = {.names = NULL};
    hf_hold hold = {.terms.counting.tally = &tally, .waited = true};
    hf_hold_count_acquired_locked(&hold, 1, 1500);
    hold.waited = false;
    hf_hold_count_acquired_locked(&hold, 0, 1500);
    hf_hold_count_acquired_locked(&hold, 0, 7000000);
    assert_int_equal(tally.stats.wait.sum_us, 7003);
    assert_int_equal(tally.stats.acquired, 3);
    assert_int_equal(tally.stats.queued, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bucket_has_its_upper_bound_and_what_is_above_the_one_before),
        cmocka_unit_test(test_sums_are_microseconds_to_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
