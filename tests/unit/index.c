/* The hash table, which grows. */
#include "../check.h"

#include "base/index.h"
#include "base/list.h"
#include "base/util.h"

enum { COUNT_OF = 20000 };

typedef struct thing {
    int number;
    hf_entry entry;
} thing;

static thing things[COUNT_OF];

/* Return the same hash for two numbers, so that a hash and a bucket have several. */
static uint64_t hash_of(int number) {
    int half = number / 2;
    return hf_hash(0, &half, sizeof half);
}

static void fill(hf_index *index) {
    for (int i = 0; i < COUNT_OF; i++) {
        things[i].number = i;
        hf_index_add(index, &things[i].entry, hash_of(i));
    }
}

static int number_of(const hf_entry *entry) { return HF_OF(const thing, entry, entry)->number; }

static void test_each_is_found_the_newest_first(void **state) {
    (void)state;
    hf_index index = {0};
    assert_null(hf_index_find(&index, 7));
    assert_null(hf_index_after(&index, NULL));
    fill(&index);
    for (int i = 0; i < COUNT_OF; i += 2) {
        const hf_entry *newest = hf_index_find(&index, hash_of(i));
        assert_int_equal(number_of(newest), i + 1);
        assert_int_equal(number_of(hf_entry_older(newest)), i);
        assert_null(hf_entry_older(hf_entry_older(newest)));
    }
    hf_index_end(&index);
}

static void test_each_is_visited_once_and_may_be_removed(void **state) {
    (void)state;
    hf_index index = {0};
    bool seen[COUNT_OF] = {false};
    fill(&index);
    for (hf_entry *at = hf_index_after(&index, NULL), *next; at != NULL; at = next) {
        next = hf_index_after(&index, at);
        assert_false(seen[number_of(at)]);
        seen[number_of(at)] = true;
        hf_index_remove(&index, at);
    }
    for (int i = 0; i < COUNT_OF; i++)
        assert_true(seen[i]);
    assert_int_equal(index.count, 0);
    assert_null(hf_index_after(&index, NULL));
    hf_index_end(&index);
}

/* A client may hold a million locks. */
static void test_no_bucket_has_many(void **state) {
    (void)state;
    hf_index index = {0};
    fill(&index);
    for (int i = 0; i < COUNT_OF; i++) {
        int length = 0;
        for (const hf_entry *at = *hf_index_bucket(&index, hash_of(i)); at != NULL; at = at->next)
            length++;
        assert_in_range(length, 2, 24);
    }
    hf_index_end(&index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_is_found_the_newest_first),
        cmocka_unit_test(test_each_is_visited_once_and_may_be_removed),
        cmocka_unit_test(test_no_bucket_has_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
