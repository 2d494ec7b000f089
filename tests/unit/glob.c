/* Patterns, and the set of byte strings. */
#include "../check.h"

#include "look/glob.h"
#include "look/set.h"

static bool matches(const char *pattern, const char *text) {
    return hf_glob(pattern, strlen(pattern), text, strlen(text));
}

/* The patterns match as in KEYS of Redis; tests/redis/locks.c asks a server about the same. */
static void test_patterns_match_as_those_of_redis(void **state) {
    static const struct {
        const char *pattern, *yes, *no;
    } table[] = {
        {"*", "", NULL},
        {"*", "anything", NULL},
        {"", "", "a"},
        {"a", "a", "b"},
        {"a*", "abc", "ba"},
        {"*c", "abc", "abcd"},
        {"a*c", "abbc", "abcb"},
        {"*a*b*", "xaxbx", "xbxa"},
        {"a?c", "abc", "ac"},
        {"a**", "a", ""},
        {"[abc]", "b", "d"},
        {"[a-c]x", "bx", "dx"},
        {"[c-a]x", "bx", "dx"},
        {"[^a]", "b", "a"},
        {"[^a-c]d", "dd", "bd"},
        {"[\\]]", "]", "\\"},
        {"[a", "a", "b"},
        {"[]", NULL, "]"},
        {"\\*", "*", "a"},
        {"a\\?", "a?", "ab"},
        {"\\", "\\", "a"},
        {"[a-]", "_", "-"},
        {"*[0-9]", "lock7", "lock"},
        {"a[^", "ab", "a"},
        {"order:*", "order:1", "orders:1"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        print_message("%s\n", table[i].pattern);
        if (table[i].yes != NULL)
            assert_true(matches(table[i].pattern, table[i].yes));
        if (table[i].no != NULL)
            assert_false(matches(table[i].pattern, table[i].no));
    }
    assert_true(hf_glob("a\0*", 3, "a\0b", 3));
    assert_false(hf_glob("a\0*", 3, "ab", 2));
}

static void test_a_pattern_of_many_stars_is_soon_answered(void **state) {
    char pattern[4096], text[4096];
    (void)state;
    for (size_t i = 0; i < sizeof pattern; i++) {
        pattern[i] = i % 2 == 0 ? '*' : 'a';
        text[i] = 'a';
    }
    pattern[sizeof pattern - 1] = 'b';
    assert_false(hf_glob(pattern, sizeof pattern, text, sizeof text));
}

static void test_a_set_has_what_was_added_and_nothing_else(void **state) {
    enum { MANY = 20000 };
    char name[16];
    hf_set *set = hf_set_new();
    (void)state;
    assert_non_null(set);
    assert_false(hf_set_has(set, "a", 1));
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < MANY; i++) {
            int length = snprintf(name, sizeof name, "lock%d", i);
            assert_int_equal(hf_set_has(set, name, (size_t)length), round == 1);
            assert_true(hf_set_add(set, name, (size_t)length));
        }
    assert_true(hf_set_has(set, "lock0", 5));
    assert_false(hf_set_has(set, "lock", 4));
    assert_true(hf_set_add(set, "a\0b", 3));
    assert_false(hf_set_has(set, "a", 1));
    assert_false(hf_set_has(set, "a\0c", 3));
    assert_true(hf_set_has(set, "a\0b", 3));
    hf_set_free(set);
    hf_set_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns_match_as_those_of_redis),
        cmocka_unit_test(test_a_pattern_of_many_stars_is_soon_answered),
        cmocka_unit_test(test_a_set_has_what_was_added_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
