/* Which owners wait for which others, and which can never go on; also with shared holds, permits
 * and queues. */
#include "../check.h"

#include "../../cli/waits.c" /* not a part of the library */

void cli_error(const char *format, ...) { fail_msg("%s", format); }

static waits_graph graph;

static int begin(void **state) {
    (void)state;
    waits_begin(&graph);
    return 0;
}

static int end(void **state) {
    (void)state;
    waits_end(&graph);
    return 0;
}

/*
 * Add a lock from its text: its holders and, after the bar, its queue. A capital letter is
 * exclusive, a small letter shared, and the same letter is the same owner. A digit after a small
 * letter is the number of its permits, or of a holder its weight; a `*` after that makes the weight
 * of a waiter 3.
 */
static void add_lock(const char *name, const char *text) {
    graph.locks = grown(graph.locks, graph.lock_count, &graph.lock_capacity, sizeof *graph.locks);
    waits_lock *lock = &graph.locks[graph.lock_count++];
    *lock = (waits_lock){.name = copy(name, strlen(name)),
                         .holders = calloc(16, sizeof *lock->holders),
                         .waiters = calloc(16, sizeof *lock->waiters)};
    bool queue = false;
    for (; *text != '\0'; text++) {
        char owner = (char)(*text & ~0x20);
        bool exclusive = *text == owner;
        if (*text == '|') {
            queue = true;
        } else if (*text == '*') {
            lock->waiters[lock->waiter_count - 1].weight = 3;
        } else if (*text >= '0' && *text <= '9' && !queue) {
            lock->holders[lock->holder_count - 1].weight = *text - '0';
        } else if (*text >= '0' && *text <= '9') {
            lock->waiters[lock->waiter_count - 1].permits = *text - '0';
        } else if (queue) {
            lock->waiters[lock->waiter_count++] =
                (waits_waiter){.owner = number_of(&graph, &owner, 1),
                               .exclusive = exclusive,
                               .weight = exclusive ? 0 : 1};
        } else {
            lock->holders[lock->holder_count] =
                (waits_holder){.owner = number_of(&graph, &owner, 1),
                               .exclusive = exclusive,
                               .weight = exclusive ? 0 : 1,
                               .fence = 1};
            lock->holder_count++;
        }
    }
}

/* Return the owners of each cycle, sorted, with a space after each cycle. */
static const char *cycles(void) {
    static char all[200];
    waits_cycle *found;
    char *to = all;
    waits_solve(&graph);
    size_t count = waits_cycles(&graph, &found);
    for (size_t i = 0; i < count; i++) {
        char *from = to;
        for (size_t j = 0; j < found[i].count; j++)
            *to++ = *graph.owners[found[i].owners[j]].name.data;
        for (char *a = from; a < to; a++)
            for (char *b = a + 1; b < to; b++)
                if (*b < *a) {
                    char swapped = *a;
                    *a = *b;
                    *b = swapped;
                }
        *to++ = ' ';
    }
    *to = '\0';
    waits_free_cycles(found, count);
    return all;
}

#define ASSERT_CYCLES(expected, ...)                                                               \
    do {                                                                                           \
        static const char *const locks_[] = {__VA_ARGS__};                                         \
        waits_end(&graph);                                                                         \
        for (size_t i_ = 0; i_ < COUNT(locks_); i_++)                                              \
            add_lock((const char[]){(char)('k' + i_), '\0'}, locks_[i_]);                          \
        assert_string_equal(cycles(), expected);                                                   \
    } while (0)

static void test_exclusive_holds(void **state) {
    (void)state;
    ASSERT_CYCLES("", "A|B");
    ASSERT_CYCLES("", "A|B", "B|C", "C|D");
    ASSERT_CYCLES("AB ", "A|B", "B|A");
    ASSERT_CYCLES("ABC ", "A|B", "B|C", "C|A");
    ASSERT_CYCLES("ABC ", "A|BD", "B|CE", "C|AF"); /* the others only wait for it */
    ASSERT_CYCLES("AB CD ", "A|B", "B|A", "C|D", "D|C");
    ASSERT_CYCLES("AB AC ", "A|BC", "B|A", "C|A"); /* an owner of two threads */
    ASSERT_CYCLES("A ", "A|A");
    ASSERT_CYCLES("", "|AB"); /* free: the first waiter will get it */
}

static void test_an_exclusive_acquire_waits_for_all_who_share(void **state) {
    (void)state;
    ASSERT_CYCLES("AC BD ", "abc|D", "D|B", "A|C", "c|A");
    ASSERT_CYCLES("AD ", "abc|D", "D|A"); /* one of three suffices */
    ASSERT_CYCLES("", "abc|D", "X|A");    /* a goes on when X ends */
    ASSERT_CYCLES("A ", "ab|A");          /* its own shared hold */
    ASSERT_CYCLES("A B ", "ab|AB");       /* two upgrades: each also waits for itself */
}

static void test_a_shared_acquire_waits_for_exclusive_holds_only(void **state) {
    (void)state;
    ASSERT_CYCLES("AB ", "A|b", "B|A");
    ASSERT_CYCLES("", "a|b", "B|A"); /* b will be granted the lock */
}

/* The queue serves both kinds in the order of arrival. */
static void test_a_reader_waits_for_the_writer_before_it(void **state) {
    (void)state;
    ASSERT_CYCLES("ABC ", "a|Bc", "C|A"); /* a holds, B waits for a, c for B, and a for c's C */
    ASSERT_CYCLES("", "a|cB", "C|A");     /* c arrived before B */
}

static void test_permits_are_freed_by_anybody(void **state) {
    (void)state;
    ASSERT_CYCLES("", "ab|c2", "C|A"); /* b ends, and c is granted the lock */
    ASSERT_CYCLES("AC BC ", "ab|c2", "C|AB");
    ASSERT_CYCLES("", "ab|c3", "C|AB"); /* a permit is left */
    ASSERT_CYCLES("AC ", "a|c1", "C|A");
}

static void test_a_long_queue_is_soon_solved(void **state) {
    enum { MANY = 20000 };
    (void)state;
    add_lock("l", "A|");
    add_lock("m", "B|A");
    waits_lock *lock = &graph.locks[0];
    lock->waiters = realloc(lock->waiters, (MANY + 1) * sizeof *lock->waiters);
    for (int i = 0; i < MANY; i++)
        lock->waiters[lock->waiter_count++] = (waits_waiter){
            .owner = number_of(&graph, text("%d", i), strlen(text("%d", i))), .exclusive = true};
    lock->waiters[lock->waiter_count++] =
        (waits_waiter){.owner = number_of(&graph, "B", 1), .exclusive = true};
    assert_string_equal(cycles(), "AB ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_exclusive_holds),
        TEST(test_an_exclusive_acquire_waits_for_all_who_share),
        TEST(test_a_shared_acquire_waits_for_exclusive_holds_only),
        TEST(test_a_reader_waits_for_the_writer_before_it),
        TEST(test_permits_are_freed_by_anybody),
        TEST(test_a_long_queue_is_soon_solved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
