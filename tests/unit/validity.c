/* Until when a hold counts: every order in which requests cross. */
#include "../check.h"

#include "lock/validity.h"

#define STEP (10 * HF_MS)
#define FIRST_LEASE 2000

/* One request: sent, carried out, answered, in that order. */
typedef struct request {
    int64_t lease_ms;
    bool replaces; /* exactly so long; or a renewal, which never shortens */
    int64_t sent_at, left_ms;
    int done; /* so many of the three */
} request_t;

/* The server's side, and the client's. */
typedef struct world {
    int64_t now, ends_at;
    hf_validity validity;
    request_t requests[3];
    size_t count;
} world_t;

static void send_request(world_t *world, request_t *request) {
    request->sent_at = world->now;
    if (request->replaces)
        hf_validity_replaces(&world->validity, world->now, request->lease_ms);
    else
        request->lease_ms = world->validity.lease_ms;
}

static void carry_out(world_t *world, request_t *request) {
    int64_t ends_at = world->now + request->lease_ms * HF_MS;
    if (request->replaces || ends_at > world->ends_at)
        world->ends_at = ends_at;
    request->left_ms = (world->ends_at - world->now) / HF_MS;
}

static void answer(world_t *world, const request_t *request) {
    if (request->replaces)
        hf_validity_replaced(&world->validity, world->now, request->sent_at, request->left_ms);
    else
        hf_validity_renewed(&world->validity, world->now, request->sent_at, request->left_ms);
}

/* Every order from here on; answers how many there are. */
static size_t try_orders(const world_t *before) {
    size_t orders = 0;
    for (size_t i = 0; i < before->count; i++) {
        world_t world = *before;
        request_t *request = &world.requests[i];
        if (request->done == 3 || (i > 0 && request->done == 0 && world.requests[i - 1].done == 0))
            continue; /* they are sent in their order */
        world.now += STEP;
        switch (request->done++) {
        case 0:
            send_request(&world, request);
            break;
        case 1:
            carry_out(&world, request);
            break;
        default:
            answer(&world, request);
        }
        assert_true(world.validity.deadline <= world.ends_at);
        orders += try_orders(&world);
    }
    return orders > 0 ? orders : 1;
}

static world_t world_of(size_t count) {
    world_t world = {.now = INT64_C(1000) * STEP, .count = count};
    world.ends_at = world.now + FIRST_LEASE * HF_MS;
    hf_validity_begin(&world.validity, FIRST_LEASE);
    world.validity.deadline = hf_deadline(world.now, FIRST_LEASE);
    return world;
}

static void test_no_order_of_two_makes_a_hold_count_for_longer_than_the_server_keeps(void **state) {
    static const int64_t leases[] = {4000, 300, 1000};
    (void)state;
    for (size_t first = 0; first < COUNT(leases); first++)
        for (size_t second = 0; second < COUNT(leases); second++)
            for (int kinds = 0; kinds < 4; kinds++) {
                world_t world = world_of(2);
                world.requests[0] = (request_t){.lease_ms = leases[first], .replaces = kinds & 1};
                world.requests[1] = (request_t){.lease_ms = leases[second], .replaces = kinds & 2};
                assert_int_equal(try_orders(&world), 10); /* 6! / 3!² / 2 */
            }
}

static void test_nor_does_any_order_of_three(void **state) {
    static const int64_t leases[] = {4000, 300, 1000};
    (void)state;
    for (size_t order = 0; order < 27; order++)
        for (int kinds = 0; kinds < 8; kinds++) {
            world_t world = world_of(3);
            for (size_t i = 0, left = order; i < 3; i++, left /= 3)
                world.requests[i] =
                    (request_t){.lease_ms = leases[left % 3], .replaces = (kinds >> i & 1) != 0};
            assert_int_equal(try_orders(&world), 280); /* 9! / 3!³ / 3! */
        }
}

static void test_a_replacement_alone_counts_from_when_it_was_sent(void **state) {
    (void)state;
    for (int64_t lease_ms = 300; lease_ms <= 4800; lease_ms *= 4) {
        world_t world = world_of(0);
        request_t request = {.lease_ms = lease_ms, .replaces = true};
        send_request(&world, &request);
        world.now += STEP;
        carry_out(&world, &request);
        world.now += STEP;
        answer(&world, &request);
        assert_int_equal(world.validity.deadline, hf_deadline(request.sent_at, lease_ms));
        assert_false(hf_validity_is_doubtful(&world.validity));
    }
}

static void test_a_replacement_without_an_answer_caps_what_counts_from_then_on(void **state) {
    world_t world = world_of(0);
    (void)state;
    hf_validity_replaces(&world.validity, world.now, 300);
    hf_validity_doubts(&world.validity, 300);
    hf_validity_replaced(&world.validity, world.now, world.now, HF_NEVER - 1);
    assert_true(hf_validity_is_doubtful(&world.validity));
    assert_int_equal(world.validity.deadline, hf_deadline(world.now, 300));
    world.now += 10 * STEP;
    assert_true(hf_validity_renewed(&world.validity, world.now, world.now, 2000));
    assert_int_equal(world.validity.deadline, hf_deadline(world.now, 300));
    hf_validity_replaces(&world.validity, world.now, 4000);
    hf_validity_replaced(&world.validity, world.now + STEP, world.now, 4000);
    assert_int_equal(world.validity.deadline, hf_deadline(world.now, 300));
}

static void test_a_hold_counts_for_no_longer_than_was_asked_for(void **state) {
    world_t world = world_of(0);
    (void)state;
    assert_true(hf_validity_renewed(&world.validity, world.now, world.now, 7200000));
    assert_int_equal(world.validity.deadline, hf_deadline(world.now, FIRST_LEASE));
    hf_validity_extends(&world.validity, 5000);
    assert_true(hf_validity_renewed(&world.validity, world.now, world.now, 7200000));
    assert_int_equal(world.validity.deadline, hf_deadline(world.now, 5000));
}

static void test_a_look_that_finds_less_shortens_and_an_old_one_does_not(void **state) {
    world_t world = world_of(0);
    int64_t sent_at = world.now, until = hf_deadline(world.now, FIRST_LEASE);
    (void)state;
    hf_validity_looked(&world.validity, sent_at, HF_NEVER);
    hf_validity_looked(&world.validity, sent_at, 5000);
    assert_int_equal(world.validity.deadline, until);
    hf_validity_looked(&world.validity, sent_at, 300);
    assert_int_equal(world.validity.deadline, hf_deadline(sent_at, 300));
    /* One that was sent before a renewal was answered may have been carried out before it. */
    assert_true(hf_validity_renewed(&world.validity, world.now + STEP, sent_at, FIRST_LEASE));
    hf_validity_looked(&world.validity, sent_at, 300);
    assert_int_equal(world.validity.deadline, until);
    hf_validity_looked(&world.validity, sent_at + STEP, 300);
    assert_int_equal(world.validity.deadline, hf_deadline(sent_at + STEP, 300));
    hf_validity_replaces(&world.validity, sent_at + 2 * STEP, FIRST_LEASE);
    hf_validity_replaced(&world.validity, sent_at + 3 * STEP, sent_at + 2 * STEP, FIRST_LEASE);
    until = hf_deadline(sent_at + 2 * STEP, FIRST_LEASE);
    hf_validity_looked(&world.validity, sent_at + 2 * STEP, 300);
    assert_int_equal(world.validity.deadline, until);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_order_of_two_makes_a_hold_count_for_longer_than_the_server_keeps),
        cmocka_unit_test(test_nor_does_any_order_of_three),
        cmocka_unit_test(test_a_replacement_alone_counts_from_when_it_was_sent),
        cmocka_unit_test(test_a_replacement_without_an_answer_caps_what_counts_from_then_on),
        cmocka_unit_test(test_a_hold_counts_for_no_longer_than_was_asked_for),
        cmocka_unit_test(test_a_look_that_finds_less_shortens_and_an_old_one_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
