/* Until when a hold counts, for every order in which requests cross. */
#include "../check.h"

#include "lock/validity.h"

#define STEP (10 * HF_MS)
#define FIRST_LEASE 2000

/* A request: sent, carried out, answered, in this order. */
typedef struct request {
    int64_t lease_ms;
    bool replaces; /* sets exactly its lease; otherwise a renewal, which never shortens */
    bool looks;    /* only looks, and changes nothing */
    int64_t sent_at, left_ms;
    int done; /* number of steps done, of three */
} request_t;

/* The state of the server, and that of the client. */
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
    if (request->looks)
        ends_at = world->ends_at;
    if (request->replaces || ends_at > world->ends_at)
        world->ends_at = ends_at;
    request->left_ms = (world->ends_at - world->now) / HF_MS;
}

static void answer(world_t *world, const request_t *request) {
    if (request->replaces)
        hf_validity_replaced(&world->validity, world->now, request->sent_at, request->left_ms);
    else if (request->looks)
        hf_validity_looked(&world->validity, world->now, request->sent_at, request->left_ms);
    else
        hf_validity_renewed(&world->validity, world->now, request->sent_at, request->left_ms);
}

/* Try every order from here on; return their number. */
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

/* Return a request; kind 0: a renewal; 1: a replacement; 2: a look. */
static request_t request_of(int64_t lease_ms, int kind) {
    return (request_t){.lease_ms = lease_ms, .replaces = kind == 1, .looks = kind == 2};
}

static void test_no_order_of_two_makes_a_hold_count_for_longer_than_the_server_keeps(void **state) {
    static const int64_t leases[] = {4000, 300, 1000};
    (void)state;
    for (size_t first = 0; first < COUNT(leases); first++)
        for (size_t second = 0; second < COUNT(leases); second++)
            for (int kinds = 0; kinds < 9; kinds++) {
                world_t world = world_of(2);
                world.requests[0] = request_of(leases[first], kinds % 3);
                world.requests[1] = request_of(leases[second], kinds / 3);
                assert_int_equal(try_orders(&world), 10); /* 6! / 3!² / 2 */
            }
}

static void test_nor_does_any_order_of_three(void **state) {
    static const int64_t leases[] = {4000, 300, 1000};
    (void)state;
    for (size_t order = 0; order < 27; order++)
        for (int kinds = 0; kinds < 27; kinds++) {
            world_t world = world_of(3);
            int kind = kinds;
            for (size_t i = 0, left = order; i < 3; i++, left /= 3, kind /= 3)
                world.requests[i] = request_of(leases[left % 3], kind % 3);
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
        assert_false(hf_validity_is_doubtful(&world.validity, HF_NEVER));
    }
}

static void test_a_replacement_without_an_answer_caps_what_counts_from_then_on(void **state) {
    world_t world = world_of(0);
    (void)state;
    hf_validity_replaces(&world.validity, world.now, 300);
    hf_validity_doubts(&world.validity, 300);
    hf_validity_replaced(&world.validity, world.now, world.now, HF_NEVER - 1);
    assert_true(hf_validity_is_doubtful(&world.validity, HF_NEVER));
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
    int64_t until = hf_deadline(world.now, 5000);
    hf_validity_extends(&world.validity, world.now, 5000);
    for (int n = 0; n < 2; n++) { /* an extension does not count again later */
        assert_true(hf_validity_renewed(&world.validity, world.now, world.now, 7200000));
        assert_int_equal(world.validity.deadline, until);
        world.now += 1000 * HF_MS;
    }
    world.now += 5000 * HF_MS;
    assert_true(hf_validity_renewed(&world.validity, world.now, world.now, 7200000));
    assert_int_equal(world.validity.deadline, hf_deadline(world.now, FIRST_LEASE));
}

/* Another program gave the key an earlier end. */
static void test_a_look_shortens_to_what_the_key_has(void **state) {
    world_t world = world_of(0);
    int64_t sent_at = world.now;
    (void)state;
    world.now += STEP;
    assert_true(hf_validity_looked(&world.validity, world.now, sent_at, 500));
    assert_int_equal(world.validity.deadline, hf_deadline(sent_at, 500));
    /* A renewal that was under way may have been carried out before that: it does not count. */
    assert_false(hf_validity_renewed(&world.validity, world.now, sent_at, FIRST_LEASE));
    assert_int_equal(world.validity.deadline, hf_deadline(sent_at, 500));
    sent_at = world.now;
    world.now += STEP;
    assert_true(hf_validity_renewed(&world.validity, world.now, sent_at, FIRST_LEASE));
    assert_int_equal(world.validity.deadline, hf_deadline(sent_at, FIRST_LEASE));
    /* A look that was sent before that answer shows the state before. */
    assert_false(hf_validity_looked(&world.validity, world.now, sent_at, 500));
    assert_int_equal(world.validity.deadline, hf_deadline(sent_at, FIRST_LEASE));
}

static void test_a_look_shortens_a_hold_without_an_end_and_a_renewal_mends_it(void **state) {
    hf_validity validity;
    int64_t now = 1000 * STEP;
    (void)state;
    hf_validity_begin(&validity, HF_NEVER);
    validity.deadline = HF_NO_DEADLINE;
    assert_true(hf_validity_looked(&validity, now + STEP, now, HF_NEVER));
    assert_int_equal(validity.deadline, HF_NO_DEADLINE);
    assert_true(hf_validity_looked(&validity, now + STEP, now, 700));
    assert_int_equal(validity.deadline, hf_deadline(now, 700));
    assert_true(hf_validity_renewed(&validity, now + 3 * STEP, now + 2 * STEP, HF_NEVER));
    assert_int_equal(validity.deadline, HF_NO_DEADLINE);
}

static void test_a_slow_look_takes_nothing_back(void **state) {
    world_t world = world_of(0);
    int64_t sent_at = world.now, slow_ms = 100 * STEP / HF_MS;
    (void)state;
    world.now += 100 * STEP; /* the time until it was carried out, or until its answer arrived */
    assert_true(hf_validity_looked(&world.validity, world.now, sent_at, FIRST_LEASE - slow_ms));
    assert_int_equal(world.validity.deadline, hf_deadline(sent_at, FIRST_LEASE));
    /* A difference that this cannot explain. */
    assert_true(hf_validity_looked(&world.validity, world.now, sent_at, FIRST_LEASE - slow_ms - 5));
    assert_int_equal(world.validity.deadline, hf_deadline(sent_at, FIRST_LEASE - slow_ms - 5));
    assert_false(hf_validity_renewed(&world.validity, world.now, sent_at, FIRST_LEASE));
}

static void test_a_look_counts_whatever_replacement_is_under_way(void **state) {
    world_t world = world_of(0);
    int64_t sent_at = world.now;
    (void)state;
    hf_validity_replaces(&world.validity, world.now, 4000);
    world.now += STEP;
    assert_true(hf_validity_looked(&world.validity, world.now, sent_at, 500));
    assert_int_equal(world.validity.deadline, hf_deadline(sent_at, 500));
    assert_false(hf_validity_looked(&world.validity, world.now, sent_at, 4000)); /* too long */
    assert_int_equal(world.validity.deadline, hf_deadline(sent_at, 500));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_order_of_two_makes_a_hold_count_for_longer_than_the_server_keeps),
        cmocka_unit_test(test_nor_does_any_order_of_three),
        cmocka_unit_test(test_a_replacement_alone_counts_from_when_it_was_sent),
        cmocka_unit_test(test_a_replacement_without_an_answer_caps_what_counts_from_then_on),
        cmocka_unit_test(test_a_hold_counts_for_no_longer_than_was_asked_for),
        cmocka_unit_test(test_a_look_shortens_to_what_the_key_has),
        cmocka_unit_test(test_a_look_shortens_a_hold_without_an_end_and_a_renewal_mends_it),
        cmocka_unit_test(test_a_slow_look_takes_nothing_back),
        cmocka_unit_test(test_a_look_counts_whatever_replacement_is_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
