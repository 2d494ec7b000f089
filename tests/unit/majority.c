/* The verdict of a majority: the choice of a fence for all answers of 3 and 5 masters, deadlines,
 * and what a log-in finds at a master. */
#include "../check.h"

#include "lock/majority.h"
#include "net/member.h"

#define GREATEST 4

/* Each master is silent, refuses, or gave a fence of 1 to 4; it confirms the chosen fence or not.
 */
enum { OPEN, REFUSES, GIVES, ANSWERS = GIVES + 3 * GREATEST };

static hf_said answer(int which) {
    if (which == OPEN)
        return (hf_said){.said = HF_SAID_NOTHING};
    if (which == REFUSES)
        return (hf_said){.said = HF_SAID_NO};
    int how = (which - GIVES) / GREATEST;
    return (hf_said){.said = HF_SAID_YES,
                     .fence = (which - GIVES) % GREATEST + 1,
                     .confirms = how == 1,
                     .asked = how == 2};
}

/* Check the rule, stated anew: a master confirms F if its own fence is F, or is less and it has
 * stored F. */
static void check(const hf_said *said, size_t masters, int64_t before) {
    int64_t fence = before, greatest = 0;
    size_t votes = 0, open = 0, may = 0, confirmed = 0, majority = masters / 2 + 1;
    hf_choice choice = hf_choose(said, masters, &fence);
    for (size_t i = 0; i < masters; i++) {
        bool yes = said[i].said == HF_SAID_YES;
        votes += yes;
        open += said[i].said == HF_SAID_NOTHING;
        if (yes && said[i].fence > greatest)
            greatest = said[i].fence;
        confirmed += yes && (said[i].fence == fence || (fence == before && said[i].confirms));
        may += yes && before > 0 && !said[i].confirms && said[i].fence != before && said[i].asked;
    }
    switch (choice) {
    case HF_CHOICE_HELD:
        assert_true(fence > 0 && confirmed >= majority);
        break;
    case HF_CHOICE_NONE:
        assert_true(votes + open < majority);
        assert_int_equal(fence, before);
        break;
    case HF_CHOICE_CONFIRM:
        assert_true(votes >= majority);
        assert_int_equal(fence, greatest);
        break;
    default:
        assert_int_equal(fence, before);
        assert_true(votes < majority || (before > 0 && confirmed + may + open >= majority));
        assert_true(votes + open >= majority);
    }
    /* If the choice is not HELD, no majority has confirmed the chosen fence. */
    if (choice != HF_CHOICE_HELD && before > 0)
        assert_true(confirmed < majority || fence != before);
}

static void over_all(size_t masters) {
    size_t count = 1;
    for (size_t i = 0; i < masters; i++)
        count *= ANSWERS;
    for (size_t n = 0; n < count; n++)
        for (int64_t before = 0; before <= GREATEST; before++) {
            hf_said said[HF_MASTERS_MAX];
            size_t rest = n;
            bool sound = true;
            for (size_t i = 0; i < masters; i++, rest /= ANSWERS) {
                said[i] = answer((int)(rest % ANSWERS));
                /* A master does not confirm a fence below its own, or before one is chosen. */
                sound = sound && !(said[i].confirms && (before == 0 || said[i].fence > before));
                sound = sound && !(said[i].asked && before == 0);
            }
            if (sound)
                check(said, masters, before);
        }
}

static void test_the_choice_of_3_masters_is_the_rule(void **state) {
    (void)state;
    over_all(3);
}

static void test_the_choice_of_5_masters_is_the_rule(void **state) {
    (void)state;
    over_all(5);
}

static hf_said gives(int64_t fence) { return (hf_said){.said = HF_SAID_YES, .fence = fence}; }

static void test_one_round_is_enough_where_a_majority_gives_the_same(void **state) {
    hf_said said[] = {gives(7), gives(9), gives(7)};
    int64_t fence = 0;
    (void)state;
    assert_int_equal(hf_choose(said, 3, &fence), HF_CHOICE_HELD);
    assert_int_equal(fence, 7);
}

static void test_confirmations_of_two_fences_do_not_add_up(void **state) {
    hf_said said[] = {gives(7), gives(9), {.said = HF_SAID_NOTHING}};
    int64_t fence = 0;
    (void)state;
    assert_int_equal(hf_choose(said, 3, &fence), HF_CHOICE_CONFIRM);
    assert_int_equal(fence, 9);
    said[0].asked = true;
    assert_int_equal(hf_choose(said, 3, &fence), HF_CHOICE_WAIT);
    said[0] = (hf_said){.said = HF_SAID_NO}; /* its hold has ended there */
    said[2] = gives(12);                     /* this answer arrives late */
    assert_int_equal(hf_choose(said, 3, &fence), HF_CHOICE_CONFIRM);
    assert_int_equal(fence, 12);
    assert_int_equal(hf_choose(said, 3, &fence),
                     HF_CHOICE_CONFIRM); /* 9 was confirmed, 12 is not */
    said[1].confirms = true;
    assert_int_equal(hf_choose(said, 3, &fence), HF_CHOICE_HELD);
}

static void test_a_hold_lasts_as_long_as_a_majority_of_its_votes(void **state) {
    static const struct {
        size_t masters;
        int64_t deadlines[5], expected;
    } rows[] = {
        {3, {10, 20, 30}, 20},
        {3, {30, 30, 30}, 30},
        {3, {INT64_MIN, 20, 30}, 20},
        {3, {INT64_MIN, INT64_MIN, 30}, INT64_MIN},
        {4, {10, 20, 30, 40}, 20},
        {5, {50, 10, 40, 20, 30}, 30},
        {5, {INT64_MIN, 10, INT64_MIN, 20, 30}, 10},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(hf_majority_deadline(rows[i].deadlines, rows[i].masters),
                         rows[i].expected);
}

static void test_lists_of_masters_may_differ_by_one(void **state) {
    static const struct {
        const char *one, *other;
        bool agree;
    } rows[] = {
        {"1 30000 a:1,b:1,c:1", "1 30000 a:1,b:1,c:1", true},
        {"1 30000 a:1,b:1,c:1", "1 30000 a:1,b:1,c:1,d:1", true},
        {"1 30000 a:1,b:1,c:1,d:1", "1 30000 b:1,c:1,d:1", true},
        {"1 30000 a:1,b:1,c:1", "1 30000 a:1,b:1,d:1", false},
        {"1 30000 a:1,b:1,c:1", "1 30000 a:1,b:1,c:1,d:1,e:1", false},
        {"1 30000 a:1,b:1,c:1", "1 60000 a:1,b:1,c:1", false},
        {"1 30000 a:1,b:1,c:1", "2 30000 a:1,b:1,c:1", false},
        {"1 30000 a:1,b:1,c:1", "1 30000 aa:1,b:1,c:1", false},
        {"1 30000 a:1,b:1,c:1", "", false},
        {"1 30000 a:1,b:1,c:1", "a:1,b:1,c:1", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(hf_members_agree(rows[i].one, rows[i].other), rows[i].agree);
}

static void test_a_run_is_read_from_info(void **state) {
    hf_run run;
    (void)state;
    assert_true(hf_run_read("# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n"
                            "server_time_usec:1700000000000001\r\nuptime_in_seconds:42\r\n",
                            &run));
    assert_string_equal(run.id, "abc");
    assert_int_equal(run.uptime_s, 42);
    assert_int_equal(run.server_us, 1700000000000001);
    assert_true(hf_run_read("run_id:abc\nuptime_in_seconds:0\n", &run));
    assert_true(hf_run_read("run_id:abc\nuptime_in_seconds:-42\n", &run));
    assert_int_equal(run.uptime_s, 0);
    assert_int_equal(run.server_us, 0);
    assert_true(hf_run_read("run_id:abc\nuptime_in_seconds:0\n"
                            "server_time_usec:9223372036854775807\n",
                            &run));
    assert_int_equal(run.server_us, 0);
    assert_true(
        hf_run_read("run_id:abc\nuptime_in_seconds:0\nserver_time_usec:9007199254740993\n", &run));
    assert_int_equal(run.server_us, 0);
    assert_true(hf_run_read("run_id:abc\nuptime_in_seconds:0\nserver_time_usec:-1\n", &run));
    assert_int_equal(run.server_us, 0);
    assert_false(hf_run_read("run_id:abc\r\n", &run));
    assert_false(hf_run_read("uptime_in_seconds:42\r\n", &run));
    assert_false(hf_run_read("", &run));
}

static hf_members *three(int64_t quarantine_ms) {
    return hf_members_new((const char *const[]){"B:1", "a:1", "c:1"}, 3, quarantine_ms);
}

static hf_run run_of(const char *id, int64_t uptime_s) {
    hf_run run = {.uptime_s = uptime_s};
    snprintf(run.id, sizeof run.id, "%s", id);
    return run;
}

static void test_a_master_is_in_quarantine_after_a_restart(void **state) {
    hf_members *members = three(30000);
    int64_t now = hf_now();
    (void)state;
    assert_string_equal(members->list, "1 30000 a:1,b:1,c:1");
    assert_int_equal(hf_member_young_ms(members, 0, now), 0); /* the client has not asked it yet */
    hf_run old = run_of("old", now / 1000000000 + 3600);      /* it began before this machine did */
    hf_run young = run_of("young", 5), stepped = run_of("third", 3600);
    assert_status(hf_member_met(members, 0, &old, now), HF_OK);
    assert_int_equal(hf_member_young_ms(members, 0, hf_now()), 0);
    assert_status(hf_member_met(members, 0, &young, hf_now()), HF_OK);
    assert_true(hf_member_young_ms(members, 0, hf_now()) > 25000);
    /* The master's clock stepped at its boot: it cannot be older than the last answer of the run
     * before. */
    assert_status(hf_member_met(members, 0, &stepped, hf_now()), HF_OK);
    assert_true(hf_member_young_ms(members, 0, hf_now()) > 29000);
    hf_members_drop(members);
    members = three(0);
    assert_status(hf_member_met(members, 0, &young, hf_now()), HF_OK);
    assert_int_equal(hf_member_young_ms(members, 0, hf_now()), 0);
    hf_members_drop(members);
}

static void test_only_a_client_that_all_let_in_writes_its_list(void **state) {
    hf_members *members = three(30000);
    hf_run runs[] = {run_of("one", 3600), run_of("two", 3600), run_of("three", 3600)};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_false(hf_members_let_in(members));
        assert_status(hf_member_met(members, i, &runs[i], 1), HF_OK);
        assert_status(hf_member_lists(members, i, members->list), HF_OK);
    }
    assert_true(hf_members_let_in(members));
    assert_status(hf_member_lists(members, 1, "1 30000 a:1,d:1,e:1"), HF_EINVAL);
    assert_false(hf_members_let_in(members));
    assert_status(hf_member_lists(members, 1, "1 30000 a:1,b:1,c:1,d:1"), HF_OK);
    assert_true(hf_members_let_in(members));
    assert_status(hf_member_met(members, 1, &runs[0], hf_now()), HF_EINVAL);
    assert_false(hf_members_let_in(members));
    hf_members_drop(members);
}

static void test_one_server_is_one_master(void **state) {
    hf_members *members = three(30000);
    hf_run one = run_of("one", 3600), two = run_of("two", 3600);
    (void)state;
    assert_status(hf_member_met(members, 0, &one, 1), HF_OK);
    assert_status(hf_member_met(members, 1, &one, 1), HF_EINVAL);
    assert_message("B:1 and a:1 are one server");
    assert_status(hf_member_met(members, 2, &two, 1), HF_OK);
    hf_run next = run_of("next", 0);
    assert_status(hf_member_met(members, 0, &next, hf_now()), HF_OK);
    assert_status(hf_member_met(members, 0, &one, hf_now()),
                  HF_EINVAL); /* the former master also answers */
    assert_message("several servers answer at B:1");
    hf_members_drop(members);
}

/* H90: the log-in was sent before the server was restarted, once or twice. */
static void test_a_log_in_that_is_read_late_changes_nothing(void **state) {
    (void)state;
    for (int restarts = 1; restarts <= 2; restarts++) {
        hf_members *members = three(30000);
        hf_run runs[] = {run_of("one", 3600), run_of("two", 0), run_of("three", 0)};
        int64_t sent_at = hf_now();
        assert_status(hf_member_met(members, 0, &runs[0], hf_now()), HF_OK);
        for (int i = 1; i <= restarts; i++)
            assert_status(hf_member_met(members, 0, &runs[i], hf_now()), HF_OK);
        assert_status(hf_member_lists(members, 0, members->list), HF_OK);
        assert_status(hf_member_met(members, 0, &runs[0], sent_at), HF_ECONNECT);
        assert_true(members->of[0].lets_in);
        assert_status(hf_member_met(members, 0, &runs[restarts], hf_now()), HF_OK);
        hf_members_drop(members);
    }
}

static void test_the_newest_clock_counts(void **state) {
    hf_members *members = three(0);
    int64_t now = hf_now();
    (void)state;
    assert_int_equal(hf_members_clock(members, now), 0);
    hf_member_answered(members, 0, now - 2000000, 1000000);
    hf_member_answered(members, 1, now - 1000000, 5000000);
    assert_int_equal(hf_members_clock(members, now), 5001000);
    hf_member_answered(members, 1, now - 3000000, 9000000); /* an older answer is no news */
    assert_int_equal(hf_members_clock(members, now), 5001000);
    hf_members_drop(members);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_choice_of_3_masters_is_the_rule),
        cmocka_unit_test(test_the_choice_of_5_masters_is_the_rule),
        cmocka_unit_test(test_one_round_is_enough_where_a_majority_gives_the_same),
        cmocka_unit_test(test_confirmations_of_two_fences_do_not_add_up),
        cmocka_unit_test(test_a_hold_lasts_as_long_as_a_majority_of_its_votes),
        cmocka_unit_test(test_lists_of_masters_may_differ_by_one),
        cmocka_unit_test(test_a_run_is_read_from_info),
        cmocka_unit_test(test_a_master_is_in_quarantine_after_a_restart),
        cmocka_unit_test(test_only_a_client_that_all_let_in_writes_its_list),
        cmocka_unit_test(test_one_server_is_one_master),
        cmocka_unit_test(test_a_log_in_that_is_read_late_changes_nothing),
        cmocka_unit_test(test_the_newest_clock_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
