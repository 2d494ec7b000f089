/* Names and their companion keys, the bytes of requests, replies, errors. */
#include "../format.h"

#include "look/wire.h"
#include "protocol/answers.h"
#include "protocol/errors.h"
#include "protocol/requests.h"

/* ------------------------------------------------------------------ Names */

static hf_names *names_of(const char *name) {
    hf_names *names;
    assert_status(hf_names_new(name, strlen(name), 0, &names), HF_OK);
    assert_int_equal(names->length, strlen(name));
    assert_memory_equal(names->data, name, names->length);
    return names;
}

/* Return "{tag}name:", the part before the suffix of a companion. */
static char *companion_of(const char *name) {
    hf_names *names = names_of(name);
    char *companion = text("%.*s", (int)names->tagged, names->companion);
    hf_names_drop(names);
    return companion;
}

static void test_companions_carry_the_tag_and_the_whole_name(void **state) {
    (void)state;
    assert_string_equal(companion_of("stock"), "{stock}stock:");
    assert_string_equal(companion_of("x{b}"), "{b}x{b}:");
    assert_string_equal(companion_of("x{b}y{c}"), "{b}x{b}y{c}:");
    assert_string_equal(companion_of("{a}:queue"), "{a}{a}:queue:");
    assert_string_equal(companion_of("{{a}}"), "{{a}{{a}}:");
    /* Without a tag the whole name is hashed. */
    assert_string_equal(companion_of("x{"), "{x{}x{:");
}

static void test_companions_are_in_the_slot_of_the_name(void **state) {
    static const char *const names[] = {"stock", "x{b}", "y{b}", "{a}:queue", "x{b}y{c}", "x{"};
    (void)state;
    assert_int_equal(slot_of("123456789"), 0x31c3);
    for (size_t i = 0; i < COUNT(names); i++) {
        hf_names *known = names_of(names[i]);
        assert_int_equal(slot_of(companion_of(names[i])), slot_of(names[i]));
        assert_int_equal(known->slot, slot_of(names[i]));
        hf_names_drop(known);
    }
}

static void test_names_of_one_tag_share_no_companion(void **state) {
    (void)state;
    assert_int_equal(slot_of("x{b}"), slot_of("y{b}"));
    assert_string_not_equal(companion_of("x{b}"), companion_of("y{b}"));
    assert_string_not_equal(companion_of("b"), companion_of("{b}"));
}

static void test_names_may_be_any_bytes(void **state) {
    static const char bytes[] = {'a', '\0', ' ', '\xff', '\n', '{', '\0', '}'};
    hf_names *names;
    (void)state;
    assert_status(hf_names_new(bytes, sizeof bytes, 0, &names), HF_OK);
    assert_int_equal(names->length, sizeof bytes);
    assert_memory_equal(names->data, bytes, sizeof bytes);
    assert_int_equal(names->tagged, 3 + sizeof bytes + 1);
    assert_memory_equal(names->companion, "{\0}a\0 \xff\n{\0}:", names->tagged);
    hf_names_drop(names);
}

static void test_names_have_one_to_4096_bytes(void **state) {
    static char bytes[HF_NAME_MAX + 1];
    hf_names *names;
    (void)state;
    memset(bytes, 'x', sizeof bytes);
    assert_status(hf_names_new(bytes, HF_NAME_MAX, 0, &names), HF_OK);
    hf_names_drop(names);
    assert_status(hf_names_new(bytes, HF_NAME_MAX + 1, 0, &names), HF_EINVAL);
    assert_message("4097 bytes: at most 4096");
    assert_null(names);
    assert_status(hf_names_new("", 0, 0, &names), HF_EINVAL);
    assert_message("empty");
    assert_status(hf_names_new(NULL, 5, 0, &names), HF_EINVAL);
}

static void test_names_that_end_like_companions_are_refused(void **state) {
    static const char *const reserved[] = {
        "stock:hf1:q", "stock:hf1:f", ":hf1:q", "{stock}stock:hf1:d", "a:hf2:x", "a:hf123:Z",
    };
    static const char *const free_names[] = {
        "hf1:q",    "a:hf:q",  "a:hf1:",   "a:hf1:qq", "a:hf1:1", "a:hf1q",
        "a:hf1:q ", "a:hfx:q", "a:hf1x:q", "a:HF1:q",  ":q",      "a:1:q",
    };
    hf_names *names;
    (void)state;
    for (size_t i = 0; i < COUNT(reserved); i++) {
        assert_status(hf_names_new(reserved[i], strlen(reserved[i]), 0, &names), HF_EINVAL);
        assert_message("ends like one of a lock's own keys");
    }
    for (size_t i = 0; i < COUNT(free_names); i++)
        hf_names_drop(names_of(free_names[i]));
}

static void test_names_whose_companions_could_be_another_s_are_refused(void **state) { /* C15 */
    static const char *const ambiguous[] = {"a}x{a", "{}x", "x}{", "a}", "}"};
    hf_names *names;
    (void)state;
    for (size_t i = 0; i < COUNT(ambiguous); i++) {
        assert_status(hf_names_new(ambiguous[i], strlen(ambiguous[i]), 0, &names), HF_EINVAL);
        assert_message("has a } but no {tag}");
    }
}

static void test_equal_names_have_equal_hashes(void **state) {
    (void)state;
    hf_names *one = names_of("stock"), *same = names_of("stock"), *other = names_of("stocks");
    assert_true(one->hash == same->hash);
    assert_true(one->hash != other->hash);
    hf_names_drop(one);
    hf_names_drop(same);
    hf_names_drop(other);
}

static void test_names_live_until_the_last_reference(void **state) {
    (void)state;
    hf_names *names = names_of("stock");
    assert_ptr_equal(hf_names_keep(names), names);
    hf_names_drop(names);
    assert_memory_equal(names->data, "stock", 5);
    hf_names_drop(names);
    hf_names_drop(NULL);
}

/* --------------------------------------------------------------- Requests */

#define ID "0123456789abcdef0123456789abcdef"

#define OTHER "fedcba9876543210fedcba9876543210"
#define CLIENT "00112233445566778899aabbccddeeff"

static hf_ask ask_of(const char *owner, size_t length) {
    return (hf_ask){.id = ID, .owner = owner, .owner_length = length, .lease_ms = 1000};
}

/* Return the arguments of an acquire that waits. */
static hf_ask waiter_of(const char *owner, const char *channel) {
    hf_ask ask = ask_of(owner, strlen(owner));
    ask.channel = channel;
    ask.channel_length = strlen(channel);
    ask.timeout_ms = HF_FOREVER;
    return ask;
}

/* Check the bytes of a request: the head, with the digest or the text, and then the body. */
static void assert_sent(const hf_request *request, bool whole, const char *head, const char *body,
                        size_t length) {
    hf_bytes sent;
    hf_bytes_init(&sent);
    hf_request_head(request, whole, &sent);
    hf_bytes_add(&sent, request->encoded.data, request->encoded.length);
    assert_false(sent.failed);
    assert_int_equal(sent.length, strlen(head) + length);
    assert_memory_equal(sent.data, head, strlen(head));
    assert_memory_equal(sent.data + strlen(head), body, length);
    hf_bytes_free(&sent);
}

/* Check the script and its words: keys, then arguments. Frees the request. */
static void assert_words(hf_request *request, const hf_script *script, int keys,
                         const char *const *words, size_t count) {
    char *body = text("%s", ""), *head = NULL;
    for (size_t i = 0; i < count; i++)
        body = text("%s$%zu\r\n%s\r\n", body, strlen(words[i]), words[i]);
    assert_int_equal(request->keys, keys);
    assert_int_equal(request->arguments, (int)count - keys);
    if (script == NULL)
        head = text("*%zu\r\n$4\r\nHDEL\r\n", 1 + count);
    else
        head = text("*%zu\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$%zu\r\n%d\r\n", 3 + count, script->sha1,
                    strlen(text("%d", keys)), keys);
    assert_sent(request, false, head, body, strlen(body));
    hf_request_free(request);
}
#define ASSERT_WORDS(request, script, keys, ...)                                                   \
    assert_words(request, script, keys, (const char *const[]){__VA_ARGS__},                        \
                 COUNT(((const char *const[]){__VA_ARGS__})))

/* The keys of the lock "a". */
#define ALL "a", "{a}a:hf1:f", "{a}a:hf1:q", "{a}a:hf1:s", "{a}a:hf1:r"
#define DEAD(id) "{a}a:" id ":hf1:d"

static void test_a_request_is_evalsha_or_eval_of_keys_and_arguments(void **state) {
    static const char body[] = "$1\r\na\r\n"
                               "$10\r\n{a}a:hf1:f\r\n"
                               "$10\r\n{a}a:hf1:q\r\n"
                               "$10\r\n{a}a:hf1:s\r\n"
                               "$10\r\n{a}a:hf1:r\r\n"
                               "$43\r\n{a}a:" ID ":hf1:d\r\n"
                               "$1\r\n7\r\n"
                               "$32\r\n" ID "\r\n"
                               "$4\r\nx\0\r\n\r\n"
                               "$4\r\n1000\r\n"
                               "$1\r\nx\r\n"
                               "$1\r\n0\r\n"
                               "$0\r\n\r\n"
                               "$1\r\n0\r\n";
    hf_names *names = names_of("a");
    hf_ask ask = ask_of("x\0\r\n", 4);
    hf_request request;
    (void)state;
    hf_request_acquire(&request, names, &ask, 1, 7);
    assert_int_equal(request.keys, 6);
    assert_int_equal(request.arguments, 8);
    assert_int_equal(request.slot, names->slot);
    assert_sent(&request, false,
                text("*17\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n6\r\n", hf_script_acquire.sha1),
                body, sizeof body - 1);
    assert_sent(&request, true,
                text("*17\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n6\r\n", hf_script_acquire.length,
                     hf_script_acquire.text),
                body, sizeof body - 1);
    hf_request_free(&request);
    hf_names_drop(names);
}

static void test_an_acquire_is_sent_for_many_or_for_none(void **state) {
    hf_names *names = names_of("a");
    hf_request request;
    (void)state;
    hf_request_acquire(&request, names, NULL, 0, 1795197364705600);
    ASSERT_WORDS(&request, &hf_script_acquire, 5, ALL, "1795197364705600");
    hf_ask asks[] = {ask_of("me", 2), waiter_of("you", "hf:" CLIENT)};
    asks[0].mode = HF_MODE_SHARED;
    asks[0].permits = 9999999999;
    asks[0].lease_ms = HF_NEVER;
    asks[0].reentrant = true;
    asks[0].score = 5; /* not a waiter: it has no place */
    asks[1].id = OTHER;
    asks[1].reentrant = true;
    asks[1].inside = ID;
    asks[1].score = 1795197364705600;
    hf_request_acquire(&request, names, asks, 2, 0);
    ASSERT_WORDS(&request, &hf_script_acquire, 7, ALL, DEAD(ID), DEAD(OTHER), "0", /* */
                 ID, "me", "0", "s9999999999", "1", "", "0",                       /* */
                 OTHER, "you", "1000", "x", "1" ID, OTHER CLIENT "p0000000000x000000001000you",
                 "1795197364705600");
    asks[1].ahead_ms = 5000; /* it already has its place */
    hf_request_acquire(&request, names, &asks[1], 1, 0);
    ASSERT_WORDS(&request, &hf_script_acquire, 6, ALL, DEAD(OTHER), "0", OTHER, "you", "1000", "x",
                 "1" ID, OTHER CLIENT "p0000000000x000000001000you", "1795197364705600");
    asks[1].score = 0;
    asks[1].timeout_ms = 25; /* counts from its place */
    hf_request_acquire(&request, names, &asks[1], 1, 0);
    ASSERT_WORDS(&request, &hf_script_acquire, 6, ALL, DEAD(OTHER), "0", OTHER, "you", "1000", "x",
                 "1" ID, OTHER CLIENT "p0000005025x000000001000you", "-5000000");
    asks[1].channel = NULL; /* a try has no channel */
    hf_request_acquire(&request, names, &asks[1], 1, 0);
    ASSERT_WORDS(&request, &hf_script_acquire, 6, ALL, DEAD(OTHER), "0", OTHER, "you", "1000", "x",
                 "1" ID, "", "0");
    hf_names_drop(names);
}

static void test_the_short_requests_have_few_keys(void **state) {
    hf_names *names = names_of("a");
    hf_ask ask = ask_of("me", 2), waiter = waiter_of("me", "hf:" CLIENT);
    hf_request request;
    (void)state;
    hf_request_take(&request, names, &ask, 1795197364705600);
    ASSERT_WORDS(&request, &hf_script_take, 2, "a", "{a}a:hf1:f", "h" ID, "me", "1000",
                 "1795197364705600");
    hf_request_take(&request, names, &ask, 0);
    ASSERT_WORDS(&request, &hf_script_take, 2, "a", "{a}a:hf1:f", "h" ID, "me", "1000",
                 "0000000000000000"); /* compared as a text */
    ask.mode = HF_MODE_SHARED;
    ask.permits = 9999999999;
    hf_request_share(&request, names, &ask, 1795197364705600);
    ASSERT_WORDS(&request, &hf_script_share, 3, "a", "{a}a:hf1:f", "{a}a:hf1:s", ID, "me", "1000",
                 "9999999999", "1795197364705600");
    hf_request_wait(&request, names, &waiter);
    ASSERT_WORDS(&request, &hf_script_wait, 2, "a", "{a}a:hf1:q",
                 ID CLIENT "p0000000000x000000001000me", "me");
    hf_request_drop(&request, names, ID, 7, false);
    assert_int_equal(request.slot, names->slot);
    ASSERT_WORDS(&request, NULL, 1, "a", "h" ID "0000000000000007");
    hf_request_drop(&request, names, ID, 7, true);
    ASSERT_WORDS(&request, NULL, 1, "a", "s" ID "0000000000000007");
    hf_request_drop_one(&request, names, ID, 7);
    ASSERT_WORDS(&request, &hf_script_leave, 2, "a", "{a}a:hf1:s", ID, "0000000000000007");
    hf_names_drop(names);
}

static void test_a_release_says_no_more_than_it_must(void **state) {
    hf_names *names = names_of("a");
    hf_ask ask = ask_of("me", 2), waiter = waiter_of("me", "hf:" CLIENT);
    hf_request request;
    (void)state;
    hf_request_release(&request, names, &ask, 1795197364705600, false);
    ASSERT_WORDS(&request, &hf_script_release, 5, ALL, ID, "1795197364705600");
    hf_request_release(&request, names, &ask, 0, false);
    ASSERT_WORDS(&request, &hf_script_release, 5, ALL, ID, "");
    hf_request_release(&request, names, &ask, 7, true);
    ASSERT_WORDS(&request, &hf_script_release, 6, ALL, DEAD(ID), ID, "0000000000000007", "1", "");
    hf_request_release(&request, names, &waiter, 0, false);
    ASSERT_WORDS(&request, &hf_script_release, 5, ALL, ID, "", "0",
                 ID CLIENT "p0000000000x000000001000me");
    hf_request_cancel(&request, names, &waiter, true);
    ASSERT_WORDS(&request, &hf_script_cancel, 6, ALL, DEAD(ID), ID, "1",
                 ID CLIENT "p0000000000x000000001000me");
    hf_request_cancel(&request, names, &ask, false);
    ASSERT_WORDS(&request, &hf_script_cancel, 6, ALL, DEAD(ID), ID, "0", "");
    hf_names_drop(names);
}

/* The life of the last fence is sent if it is not a day. */
static void test_each_request_that_writes_the_fence_says_how_long_it_lives(void **state) {
    hf_names *names;
    hf_ask ask = ask_of("me", 2);
    hf_request request;
    (void)state;
    assert_status(hf_names_new("a", 1, 60000, &names), HF_OK);
    hf_request_take(&request, names, &ask, 0);
    ASSERT_WORDS(&request, &hf_script_take, 2, "a", "{a}a:hf1:f", "h" ID, "me", "1000",
                 "0000000000000000", "60000");
    hf_request_share(&request, names, &ask, 0);
    ASSERT_WORDS(&request, &hf_script_share, 3, "a", "{a}a:hf1:f", "{a}a:hf1:s", ID, "me", "1000",
                 "0", "0000000000000000", "60000");
    hf_request_acquire(&request, names, &ask, 1, 0);
    ASSERT_WORDS(&request, &hf_script_acquire, 6, ALL, DEAD(ID), "0", ID, "me", "1000", "x", "0",
                 "", "0", "60000");
    hf_request_acquire(&request, names, NULL, 0, 7);
    ASSERT_WORDS(&request, &hf_script_acquire, 5, ALL, "7", "60000");
    hf_request_release(&request, names, &ask, 7, false);
    ASSERT_WORDS(&request, &hf_script_release, 5, ALL, ID, "0000000000000007", "60000");
    hf_request_release(&request, names, &ask, 7, true);
    ASSERT_WORDS(&request, &hf_script_release, 6, ALL, DEAD(ID), ID, "0000000000000007", "1", "",
                 "60000");
    hf_request_cancel(&request, names, &ask, false);
    ASSERT_WORDS(&request, &hf_script_cancel, 6, ALL, DEAD(ID), ID, "0", "", "60000");
    hf_renewal renewal = {names, ID, 7, 1000, HF_RENEW_LONGER, true};
    hf_request_claim(&request, &renewal, CLIENT, false);
    ASSERT_WORDS(&request, &hf_script_claim, 3, "a", "{a}a:hf1:f", "{a}a:hf1:s", CLIENT,
                 ID "0000000000000007", "1000", "0", "60000");
    hf_request_break(&request, names, 7, false);
    ASSERT_WORDS(&request, &hf_script_break, 5, ALL, "7", "0", "60000");
    hf_names_drop(names);
}

static void test_what_is_held_is_claimed_and_renewed_with_its_fence(void **state) {
    hf_names *names = names_of("a"), *other = names_of("x{a}");
    hf_request request;
    (void)state;
    hf_renewal renewal = {names, ID, 7, HF_NEVER, HF_RENEW_LONGER, false};
    hf_request_claim(&request, &renewal, CLIENT, true);
    ASSERT_WORDS(&request, &hf_script_claim, 2, "a", "{a}a:hf1:f", CLIENT, ID "0000000000000007",
                 "0", "1");
    const hf_renewal renewals[] = {
        {names, ID, 7, 1000, HF_RENEW_LONGER, true},
        {other, OTHER, 1795197364705600, HF_NEVER, HF_RENEW_EXACTLY, false},
        {other, ID, 8, 500, HF_RENEW_LOOK, true},
    };
    hf_request_renew(&request, renewals, 3);
    ASSERT_WORDS(&request, &hf_script_renew, 5, "a", "x{a}", "x{a}", "{a}a:hf1:s",
                 "{a}x{a}:hf1:s",                         /* */
                 ID "0000000000000007", "1000", "0", "4", /* the number of its last key */
                 OTHER "1795197364705600", "0", "1", "0", /* it has no last key */
                 ID "0000000000000008", "500", "2", "5");
    hf_names_drop(names);
    hf_names_drop(other);
}

static void test_what_looks_at_a_lock_is_sent_whole(void **state) {
    hf_names *names = names_of("a");
    hf_request request, refused;
    (void)state;
    hf_request_inspect(&request, names, 100, 50, false);
    ASSERT_WORDS(&request, &hf_script_inspect, 5, "a", "{a}a:hf1:q", "{a}a:hf1:s", "{a}a:hf1:r",
                 "{a}a:hf1:f", "100", "50");
    hf_request_inspect(&request, names, 0, 1, true);
    assert_true(request.fetches);
    ASSERT_WORDS(&request, &hf_script_inspect, 5, "a", "{a}a:hf1:q", "{a}a:hf1:s", "{a}a:hf1:r",
                 "{a}a:hf1:f", "0", "1", "1");
    hf_request_limit(&request, names, ID, 5, 60000);
    ASSERT_WORDS(&request, &hf_script_limit, 3, "a", "{a}a:hf1:f", DEAD(ID), "5", "60000");
    hf_request_break(&request, names, 1795197364705600, true);
    ASSERT_WORDS(&request, &hf_script_break, 5, ALL, "1795197364705600", "1");
    hf_request_selftest(&request, names, "hf:" CLIENT, strlen("hf:" CLIENT));
    ASSERT_WORDS(&request, &hf_script_selftest, 1, "a", "hf:" CLIENT);
    hf_request_drop(&refused, names, ID, 7, false);
    hf_request_permissions(&request, &refused);
    size_t length;
    assert_memory_equal(hf_request_key(&refused, &length), "a\r", 2);
    assert_int_equal(length, 1);
    ASSERT_WORDS(&request, &hf_script_permissions, 1, "a");
    hf_request_free(&refused);
    hf_request_inspect(&refused, names, 0, 0, false);
    hf_bytes_free(&refused.encoded); /* H267: no memory for a longer name */
    refused.encoded.failed = true;
    hf_request_permissions(&request, &refused);
    assert_true(request.encoded.failed);
    hf_request_inspect(&refused, names, 0, 0, false);
    hf_request_permissions(&request, &refused);
    hf_request again;
    hf_request_permissions(&again, &request); /* the request that is refused may be any */
    ASSERT_WORDS(&again, &hf_script_permissions, 1, "a");
    ASSERT_WORDS(&request, &hf_script_permissions, 1, "a", "{a}a:hf1:q", "{a}a:hf1:s", "{a}a:hf1:r",
                 "{a}a:hf1:f");
    hf_request_free(&refused);
    hf_names_drop(names);
}

static void assert_member(const hf_ask *ask, const char *expected) {
    hf_bytes member;
    hf_bytes_init(&member);
    hf_ask_member(ask, &member);
    assert_false(member.failed);
    assert_int_equal(member.length, strlen(expected));
    assert_memory_equal(member.data, expected, member.length);
    hf_bytes_free(&member);
}

static void test_a_waiter_is_a_member_of_fixed_columns(void **state) {
    hf_ask ask = waiter_of("me", "hf:" CLIENT);
    (void)state;
    assert_member(&ask, ID CLIENT "p0000000000x000000001000me");
    ask.timeout_ms = 25;
    ask.lease_ms = HF_NEVER;
    ask.permits = 3; /* counts for a shared hold only */
    assert_member(&ask, ID CLIENT "p0000000025x000000000000me");
    ask.mode = HF_MODE_SHARED;
    assert_member(&ask, ID CLIENT "p0000000025s0000000000000000000003me");
    ask.weight = 1;
    assert_member(&ask, ID CLIENT "p0000000025s0000000000000000000003me");
    ask.weight = 2;
    assert_member(&ask, ID CLIENT "p0000000025w00000000000000000000030000000002me");
    ask.weight = 0;
    /* The greatest values. */
    ask.timeout_ms = 9999999999;
    ask.lease_ms = HF_LEASE_MAX;
    ask.permits = 9999999999;
    assert_member(&ask, ID CLIENT "p9999999999s3153600000009999999999me");
    /* The client itself takes care of a time that is too long for its column. */
    ask.timeout_ms = 10000000000;
    assert_member(&ask, ID CLIENT "p0000000000s3153600000009999999999me");
    ask.timeout_ms = 9999999999 - 5000;
    ask.ahead_ms = 5001;
    assert_member(&ask, ID CLIENT "p0000000000s3153600000009999999999me");
    ask.timeout_ms = INT64_MAX;
    assert_member(&ask, ID CLIENT "p0000000000s3153600000009999999999me");
    /* In a cluster the client listens on the channel of the lock's tag. */
    hf_ask sharded = waiter_of("1", "hf:{stock}:" CLIENT);
    assert_member(&sharded, ID CLIENT "s0000000000x0000000010001");
    sharded = waiter_of("1", "hf:{p}:" CLIENT);
    assert_member(&sharded, ID CLIENT "s0000000000x0000000010001");
    hf_names *names = names_of("x{b}y{");
    for (int clustered = 0; clustered < 2; clustered++) {
        hf_bytes channel;
        hf_bytes_init(&channel);
        hf_names_channel(names, clustered, CLIENT, &channel);
        sharded.channel = channel.data;
        sharded.channel_length = channel.length;
        assert_member(&sharded, text(ID CLIENT "%c0000000000x0000000010001", "ps"[clustered]));
        hf_bytes_free(&channel);
    }
    hf_names_drop(names);
}

static void test_numbers_are_sent_with_all_their_digits(void **state) {
    static const struct {
        int64_t number;
        const char *sent;
    } numbers[] = {
        {0, "$1\r\n0\r\n"},
        {7, "$1\r\n7\r\n"},
        {-1, "$2\r\n-1\r\n"},
        {1795197364705600, "$16\r\n1795197364705600\r\n"},
        {INT64_MAX, "$19\r\n9223372036854775807\r\n"},
        {INT64_MIN, "$20\r\n-9223372036854775808\r\n"},
    };
    hf_names *names = names_of("a");
    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        hf_request request;
        hf_request_heal(&request, names, numbers[i].number);
        const char *sent = request.encoded.data + request.keys_end;
        assert_int_equal(request.encoded.length - request.keys_end, strlen(numbers[i].sent));
        assert_memory_equal(sent, numbers[i].sent, strlen(numbers[i].sent));
        hf_request_free(&request);
    }
    hf_names_drop(names);
}

static void test_long_arguments_are_sent_whole(void **state) {
    static char owner[HF_OWNER_MAX];
    hf_names *names = names_of("a");
    hf_request request;
    (void)state;
    memset(owner, 'o', sizeof owner);
    hf_ask ask = ask_of(owner, sizeof owner);
    hf_request_acquire(&request, names, &ask, 1, 0);
    const char *sent =
        request.encoded.data + request.keys_end + strlen("$1\r\n0\r\n$32\r\n" ID "\r\n");
    assert_memory_equal(sent, "$4096\r\no", 8);
    assert_memory_equal(sent + 7 + sizeof owner - 1, "o\r\n$", 4);
    hf_request_free(&request);
    hf_names_drop(names);
}

static void test_scripts_are_known_by_their_digest_and_are_no_comment(void **state) {
    const hf_script *const all[] = {
        &hf_script_acquire, &hf_script_break,   &hf_script_cancel,   &hf_script_claim,
        &hf_script_heal,    &hf_script_inspect, &hf_script_leave,    &hf_script_permissions,
        &hf_script_release, &hf_script_renew,   &hf_script_selftest, &hf_script_share,
        &hf_script_take,    &hf_script_wait,
    };
    (void)state;
    for (size_t i = 0; i < COUNT(all); i++) {
        assert_int_equal(strlen(all[i]->sha1), 40);
        assert_int_equal(strlen(all[i]->text), all[i]->length);
        assert_null(strstr(all[i]->text, "@include"));
        assert_null(strstr(all[i]->text, "\n--"));
        /* A shebang would let Redis refuse the whole script without memory (H6). */
        assert_true(all[i]->text[0] != '#');
        /* A number that is concatenated loses its last digits (C13). */
        assert_null(strstr(all[i]->text, "cjson"));
        assert_null(strstr(all[i]->text, "tostring"));
    }
}

/* ---------------------------------------------------------------- Replies */

/* Return an array of these integers; it and its parts are stored in the caller's variables. */
static redisReply array_of(redisReply *parts, redisReply **elements, const int64_t *numbers,
                           size_t count) {
    for (size_t i = 0; i < count; i++) {
        parts[i] = (redisReply){.type = REDIS_REPLY_INTEGER, .integer = numbers[i]};
        elements[i] = &parts[i];
    }
    return (redisReply){.type = REDIS_REPLY_ARRAY, .elements = count, .element = elements};
}

static redisReply number_of(int64_t number) {
    return (redisReply){.type = REDIS_REPLY_INTEGER, .integer = number};
}

static redisReply text_of(const char *bytes) {
    return (redisReply){.type = REDIS_REPLY_STRING, .str = text("%s", bytes), .len = strlen(bytes)};
}

static void test_numbers_are_read_from_an_array_of_integers_only(void **state) {
    static const int64_t numbers[] = {5, -2};
    redisReply parts[2], *elements[2], reply = array_of(parts, elements, numbers, 2);
    redisReply word = text_of("5");
    hf_look look;
    int64_t left_ms;
    (void)state;
    assert_true(hf_reply_renewal(&reply, &left_ms));
    assert_int_equal(left_ms, HF_RENEWAL_GONE);
    assert_true(hf_reply_acquire(&reply, &look, NULL, 0));
    assert_int_equal(look.ttl_ms, HF_TTL_MORE);
    elements[1] = &word;
    assert_false(hf_reply_renewal(&reply, &left_ms));
    assert_int_equal(left_ms, HF_RENEWAL_REFUSED);
    assert_false(hf_reply_acquire(&reply, &look, NULL, 0));
    assert_false(hf_reply_renewal(&parts[0], &left_ms));
    assert_false(hf_reply_renewal(&word, &left_ms));
    assert_int_equal(hf_reply_release(&word), HF_RELEASE_NONSENSE);
    assert_int_equal(hf_reply_number(&word), -1);
}

static void test_a_release_answers_what_it_did(void **state) {
    static const struct {
        int64_t number;
        hf_release_outcome outcome;
    } answers[] = {
        {0, HF_RELEASE_NOT_HELD},
        {1, HF_RELEASE_DONE},
        {2, HF_RELEASE_MORE},
        {3, HF_RELEASE_SPLIT},
        {-1, HF_RELEASE_NONSENSE},
        {4, HF_RELEASE_NONSENSE},
        {5, HF_RELEASE_REFUSED},
        {6, HF_RELEASE_KEPT},
        {7, HF_RELEASE_SETTLED},
        {8, HF_RELEASE_NONSENSE},
        {INT64_MIN, HF_RELEASE_NONSENSE},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        redisReply reply = number_of(answers[i].number);
        assert_int_equal(hf_reply_release(&reply), answers[i].outcome);
    }
}

static void test_what_cannot_be_read_of_many_renewals_is_a_refusal(void **state) {
    static const int64_t numbers[] = {1700000000000000, 250, -1, -2, -3, -4, -5};
    redisReply parts[7], *elements[7], reply = array_of(parts, elements, numbers, 7);
    redisReply word = text_of("5");
    int64_t left_ms[6];
    (void)state;
    hf_reply_renewals(&reply, left_ms, 6);
    assert_int_equal(left_ms[1], HF_TTL_NONE);
    elements[2] = &word;
    hf_reply_renewals(&reply, left_ms, 6);
    assert_int_equal(left_ms[0], 250);
    assert_int_equal(left_ms[1], HF_RENEWAL_REFUSED);
    assert_int_equal(left_ms[2], HF_RENEWAL_GONE);
    assert_int_equal(left_ms[3], HF_RENEWAL_REFUSED);
    assert_int_equal(left_ms[4], HF_RENEWAL_MANY);
    assert_int_equal(left_ms[5], HF_RENEWAL_REFUSED);
    hf_reply_renewals(&reply, left_ms, 5); /* more than were asked for */
    assert_int_equal(left_ms[0], HF_RENEWAL_REFUSED);
    hf_reply_renewals(NULL, left_ms, 1);
    assert_int_equal(left_ms[0], HF_RENEWAL_REFUSED);
}

#define NOW 1700000000000000

static void test_what_no_server_answers_is_not_reckoned_with(void **state) {
    static const struct {
        int64_t numbers[5];
        bool good;
    } answers[] = {
        {{NOW, 1000, HF_STANDS_HELD, 7, 1000}, true},
        {{NOW, -1, HF_STANDS_HELD, 7, -1}, true},
        {{NOW, INT64_MAX, HF_STANDS_QUEUED, NOW, 3}, true},
        {{NOW, 1000, HF_STANDS_FOREIGN, NOW, 0}, true},
        {{NOW, 1000, 6, NOW, 0}, true},
        {{NOW, 1000, 8, NOW, 0}, true},
        {{NOW, -2, HF_STANDS_BUSY, 0, 0}, true},
        {{NOW, 0, HF_STANDS_DEAD, 0, 0}, true},
        {{NOW, 1000, HF_STANDS_REFUSED, 0, 0}, true},
        {{NOW, 1000, HF_STANDS_HELD, 7, HF_LEASE_MAX}, true},
        {{NOW, 1000, HF_STANDS_HELD, INT64_C(1) << 53, 1000}, true},
        {{0, 1000, HF_STANDS_HELD, 7, 1000}, false},
        {{INT64_MAX, 1000, HF_STANDS_HELD, 7, 1000}, false},
        {{NOW, 1000, HF_STANDS_HELD, 0, 1000}, false},
        {{NOW, 1000, HF_STANDS_HELD, (INT64_C(1) << 53) + 1, 1000}, false},
        {{NOW, 1000, HF_STANDS_HELD, 7, HF_LEASE_MAX + 1}, false},
        {{NOW, 1000, HF_STANDS_HELD, 7, -2}, false},
        {{NOW, 1000, HF_STANDS_QUEUED, -1, 0}, false},
        {{NOW, 1000, HF_STANDS_QUEUED, INT64_MAX, 0}, false},
        {{NOW, 1000, HF_STANDS_QUEUED, NOW, INT64_MAX}, false},
        {{NOW, 1000, HF_STANDS_QUEUED, NOW, INT64_MIN}, false},
        {{NOW, 1000, -1, 0, 0}, false},
        {{NOW, 1000, 7, 0, 0}, false},
        {{NOW, 1000, HF_STANDS_LIMITED, 0, 0}, true},
        {{NOW, 1000, HF_STANDS_LIMITED, HF_PERMITS_MAX, HF_LEASE_MAX}, true},
        {{NOW, 1000, HF_STANDS_LIMITED, HF_PERMITS_MAX + 1, 0}, false},
        {{NOW, 1000, HF_STANDS_LIMITED, 5, -1}, false},
        {{NOW, 1000, 13, 0, 0}, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        redisReply parts[5], *elements[5];
        redisReply reply = array_of(parts, elements, answers[i].numbers, 5);
        hf_standing standings[2];
        hf_look look;
        print_message("%zu\n", i);
        assert_int_equal(hf_reply_acquire(&reply, &look, standings, 1), answers[i].good);
        assert_false(hf_reply_acquire(&reply, &look, standings, 2));
        if (answers[i].good) {
            assert_int_equal(look.server_us, NOW);
            assert_int_equal(look.ttl_ms, answers[i].numbers[1]);
        }
    }
}

static void test_the_state_of_each_hold_id_is_read(void **state) {
    static const int64_t numbers[] = {NOW,     1000, 1, 7, 500, 2, NOW + 1, 3, 6,
                                      NOW - 1, 0,    8, 5, 1,   9, 0,       0};
    redisReply parts[17], *elements[17], reply = array_of(parts, elements, numbers, 17);
    redisReply word = text_of("7");
    hf_standing standings[5];
    hf_look look;
    (void)state;
    assert_true(hf_reply_acquire(&reply, &look, standings, 5));
    assert_int_equal(standings[0].state, HF_STANDS_HELD);
    assert_int_equal(standings[0].fence, 7);
    assert_int_equal(standings[0].remaining_ms, 500);
    assert_int_equal(standings[1].state, HF_STANDS_QUEUED);
    assert_false(standings[1].was_out);
    assert_int_equal(standings[1].score, NOW + 1);
    assert_int_equal(standings[1].rank, 3);
    assert_int_equal(standings[2].state, HF_STANDS_QUEUED);
    assert_true(standings[2].was_out);
    assert_int_equal(standings[2].score, NOW - 1);
    assert_int_equal(standings[3].state, HF_STANDS_FOREIGN);
    assert_true(standings[3].was_out);
    assert_int_equal(standings[4].state, HF_STANDS_REFUSED);
    assert_true(hf_reply_acquire(&reply, &look, standings, 0)); /* the lock was handed on */
    elements[16] = &word;
    assert_false(hf_reply_acquire(&reply, &look, standings, 5));
}

#define HEAD                                                                                       \
    ID "d"                                                                                         \
       "1795197364705600"                                                                          \
       "1795197364705700"                                                                          \
       "00000003" TERMS "ann"
#define TERMS                                                                                      \
    "m"                                                                                            \
    "----------------------------------------------------------------"

/* Return the fields hf1, n and b of a record. */
static redisReply record_of(redisReply parts[3], redisReply *all[3], const char *head) {
    parts[0] = text_of(head);
    parts[1] = text_of("note");
    parts[2] = (redisReply){.type = REDIS_REPLY_STRING, .str = (char *)"a\0b", .len = 3};
    for (int i = 0; i < 3; i++)
        all[i] = &parts[i];
    return (redisReply){.type = REDIS_REPLY_ARRAY, .elements = 3, .element = all};
}

/* An answer has the record once. */
static void test_one_answer_has_the_record_for_all(void **state) {
    redisReply parts[11], *all[11], fields[3], *each[3];
    const int64_t numbers[11] = {NOW, 1000, HF_STANDS_BUSY,    0, 0,   HF_STANDS_OUTCOME,
                                 0,   5000, HF_STANDS_OUTCOME, 0, 5000};
    redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 11, .element = all};
    hf_standing standings[3];
    hf_call_record record;
    hf_look look;
    (void)state;
    for (int i = 0; i < 11; i++) {
        parts[i] = number_of(numbers[i]);
        all[i] = &parts[i];
    }
    parts[6] = record_of(fields, each, HEAD);
    parts[9] = text_of("");
    assert_true(hf_reply_acquire(&reply, &look, standings, 3));
    assert_int_equal(standings[0].state, HF_STANDS_BUSY);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(standings[i].state, HF_STANDS_OUTCOME);
        assert_true(hf_reply_record(standings[i].record, standings[i].record_ms, &record));
        assert_int_equal(record.kind, HF_RECORD_DONE);
        assert_int_equal(record.fence, 1795197364705600);
        assert_int_equal(record.since_us, 1795197364705700);
        assert_int_equal(record.left_ms, 5000);
        assert_int_equal(record.result_length, 3);
        assert_memory_equal(record.terms, TERMS, HF_TERMS_LENGTH);
        assert_int_equal(record.owner_length, 3);
        assert_memory_equal(record.owner, "ann", 3);
        assert_int_equal(record.note_length, 4);
        assert_int_equal(record.length, 3);
        assert_memory_equal(record.bytes, "a\0b", 3);
    }
    parts[6] = text_of(""); /* the first one must have it */
    assert_false(hf_reply_acquire(&reply, &look, standings, 3));
}

static void test_what_is_no_record_is_not_read(void **state) {
    static const char *const heads[] = {
        "",
        ID "d1795197364705600",
        ID "x"
           "1795197364705600"
           "1795197364705700"
           "00000003" TERMS "ann",
        ID "d"
           "179519736470560x"
           "1795197364705700"
           "00000003" TERMS "ann",
        ID "d"
           "0000000000000000"
           "1795197364705700"
           "00000003" TERMS "ann",
        ID "d"
           "1795197364705600"
           "                "
           "00000003" TERMS "ann",
        ID "d"
           "1795197364705600"
           "1795197364705700"
           "-0000003" TERMS "ann",
    };
    redisReply fields[3], *each[3];
    hf_call_record record;
    (void)state;
    redisReply reply = record_of(fields, each, HEAD);
    assert_true(hf_reply_record(&reply, HF_TTL_NONE, &record));
    assert_false(hf_reply_record(&reply, -2, &record));
    for (size_t i = 0; i < COUNT(heads); i++) {
        reply = record_of(fields, each, heads[i]);
        assert_false(hf_reply_record(&reply, 5000, &record));
    }
    reply = record_of(fields, each, HEAD);
    reply.elements = 2;
    assert_false(hf_reply_record(&reply, 5000, &record));
    reply = record_of(fields, each, HEAD);
    fields[1] = number_of(1);
    assert_false(hf_reply_record(&reply, 5000, &record));
    reply = text_of(HEAD);
    assert_false(hf_reply_record(&reply, 5000, &record));
}

static void test_a_take_answers_with_the_fence_alone(void **state) {
    static const struct {
        const char *said;
        hf_answer_kind kind;
    } texts[] = {
        {"1795197364705600", HF_ANSWER_GOOD},     {"1000000000000000", HF_ANSWER_GOOD},
        {"9007199254740992", HF_ANSWER_GOOD},     {"9007199254740993", HF_ANSWER_NONSENSE},
        {"0999999999999999", HF_ANSWER_NONSENSE}, /* not the clock of a server */
        {"179519736470560", HF_ANSWER_NONSENSE},  {"17951973647056000", HF_ANSWER_NONSENSE},
        {"179519736470560x", HF_ANSWER_NONSENSE}, {"-795197364705600", HF_ANSWER_NONSENSE},
        {"1.95197364705600", HF_ANSWER_NONSENSE}, {"", HF_ANSWER_NONSENSE},
    };
    static const int64_t none[] = {1795197364705600};
    redisReply part[1], *elements[1], reply = number_of(0);
    hf_standing mine;
    hf_look look;
    (void)state;
    assert_int_equal(hf_reply_take(&reply, 500, &look, &mine), HF_ANSWER_ASK);
    reply.integer = -1;
    assert_int_equal(hf_reply_take(&reply, 500, &look, &mine), HF_ANSWER_HELD);
    for (int64_t number = 1; number > 0; number *= 7) {
        reply.integer = number;
        assert_int_equal(hf_reply_take(&reply, 500, &look, &mine), HF_ANSWER_NONSENSE);
        reply.integer = -1 - number;
        assert_int_equal(hf_reply_take(&reply, 500, &look, &mine), HF_ANSWER_NONSENSE);
        if (number > INT64_MAX / 7)
            break;
    }
    for (size_t i = 0; i < COUNT(texts); i++) {
        reply = text_of(texts[i].said);
        print_message("%s\n", texts[i].said);
        assert_int_equal(hf_reply_take(&reply, 500, &look, &mine), texts[i].kind);
        if (texts[i].kind != HF_ANSWER_GOOD)
            continue;
        assert_int_equal(mine.state, HF_STANDS_HELD);
        assert_int_equal(mine.fence, strtoll(texts[i].said, NULL, 10));
        assert_int_equal(mine.remaining_ms, 500);
        assert_int_equal(look.ttl_ms, 500);
        assert_int_equal(look.server_us, mine.fence);
    }
    reply = array_of(part, elements, none, 1);
    assert_int_equal(hf_reply_take(&reply, 500, &look, &mine), HF_ANSWER_NONSENSE);
}

static void test_a_share_tells_whether_there_are_others(void **state) {
    static const struct {
        const char *said;
        hf_answer_kind kind;
        hf_company company;
    } texts[] = {
        {"1795197364705600", HF_ANSWER_GOOD, HF_COMPANY_NONE},
        {"1795197364705600+", HF_ANSWER_GOOD, HF_COMPANY_OTHERS},
        {"1795197364705600-", HF_ANSWER_NONSENSE, 0},
        {"179519736470560+", HF_ANSWER_NONSENSE, 0},
        {"+", HF_ANSWER_NONSENSE, 0},
        {"", HF_ANSWER_NONSENSE, 0},
    };
    redisReply reply = number_of(0);
    hf_standing mine;
    hf_look look;
    (void)state;
    assert_int_equal(hf_reply_share(&reply, 500, &look, &mine), HF_ANSWER_ASK);
    reply.integer = -1;
    assert_int_equal(hf_reply_share(&reply, 500, &look, &mine), HF_ANSWER_HELD);
    for (size_t i = 0; i < COUNT(texts); i++) {
        reply = text_of(texts[i].said);
        print_message("%s\n", texts[i].said);
        assert_int_equal(hf_reply_share(&reply, 500, &look, &mine), texts[i].kind);
        if (texts[i].kind != HF_ANSWER_GOOD)
            continue;
        assert_int_equal(mine.state, HF_STANDS_HELD);
        assert_int_equal(mine.fence, INT64_C(1795197364705600));
        assert_int_equal(mine.company, texts[i].company);
        assert_int_equal(look.ttl_ms, 500);
    }
}

static void test_a_wait_answers_with_the_time_and_the_holder(void **state) {
    static const struct {
        const char *said;
        hf_answer_kind kind;
        int64_t ttl_ms;
    } texts[] = {
        /* A lease of 500 ms that began 200 ms ago. */
        {"1795197364705600"
         "1"
         "1795197364505600"
         "x"
         "000000000500",
         HF_ANSWER_GOOD, 300},
        /* Perhaps a grant that is not claimed yet. */
        {"1795197364705600"
         "1"
         "1795197364505600"
         "x"
         "000000060000",
         HF_ANSWER_GOOD, 2800},
        {"1795197364705600"
         "1"
         "1795197364505600"
         "x"
         "000000000000",
         HF_ANSWER_GOOD, 2800},
        {"1795197364705600"
         "1"
         "1795197364505600"
         "o"
         "000000060000",
         HF_ANSWER_GOOD, 2800},
        /* A longer lease: it was claimed, and is renewed. */
        {"1795197364705600"
         "1"
         "1795197360705600"
         "x"
         "000000060000",
         HF_ANSWER_GOOD, 3000},
        {"1795197364705600"
         "1"
         "1795197364705600"
         "x"
         "999999999999",
         HF_ANSWER_GOOD, 3000},
        {"1795197364705600"
         "1"
         "1795197364705601"
         "x"
         "000000000500",
         HF_ANSWER_NONSENSE, 0},
        {"1795197364705600"
         "1"
         "0000000000000000"
         "x"
         "000000000500",
         HF_ANSWER_NONSENSE, 0},
        {"9007199254740993"
         "1"
         "1795197364505600"
         "x"
         "000000000500",
         HF_ANSWER_NONSENSE, 0},
        {"0795197364705600"
         "1"
         "0795197364505600"
         "x"
         "000000000500",
         HF_ANSWER_NONSENSE, 0},
        {"1795197364705600"
         "1"
         "1795197364505600"
         "x"
         "00000000050x",
         HF_ANSWER_NONSENSE, 0},
        {"1795197364705600"
         "1"
         "179519736450560x"
         "x"
         "000000000500",
         HF_ANSWER_NONSENSE, 0},
        {"x795197364705600"
         "1"
         "1795197364505600"
         "x"
         "000000000500",
         HF_ANSWER_NONSENSE, 0},
        {"1795197364705600"
         "1"
         "1795197364505600"
         "x"
         "00000000050",
         HF_ANSWER_NONSENSE, 0},
        {"1795197364705600"
         "1"
         "1795197364505600"
         "x"
         "0000000005000",
         HF_ANSWER_NONSENSE, 0},
        {"1795197364705600", HF_ANSWER_NONSENSE, 0},
        {"", HF_ANSWER_NONSENSE, 0},
    };
    redisReply reply = number_of(0);
    hf_standing mine;
    hf_look look;
    (void)state;
    assert_int_equal(hf_reply_wait(&reply, &look, &mine), HF_ANSWER_ASK);
    reply.integer = 1;
    assert_int_equal(hf_reply_wait(&reply, &look, &mine), HF_ANSWER_NONSENSE);
    for (size_t i = 0; i < COUNT(texts); i++) {
        reply = text_of(texts[i].said);
        print_message("%s\n", texts[i].said);
        assert_int_equal(hf_reply_wait(&reply, &look, &mine), texts[i].kind);
        if (texts[i].kind != HF_ANSWER_GOOD)
            continue;
        assert_int_equal(mine.state, HF_STANDS_QUEUED);
        assert_int_equal(mine.score, 1795197364705600);
        assert_false(mine.was_out);
        assert_int_equal(look.server_us, 1795197364705600);
        assert_int_equal(look.ttl_ms, texts[i].ttl_ms);
    }
}

static void test_a_reply_that_may_have_written_something_is_known(void **state) {
    static const struct {
        int64_t numbers[5];
        size_t count;
        bool holds;
    } answers[] = {
        {{NOW, 1000, HF_STANDS_HELD, 7, 1000}, 5, true},
        {{NOW, 1000, HF_STANDS_QUEUED, NOW, 0}, 5, false},
        {{NOW, 1000, HF_STANDS_BUSY, 0, 0}, 5, false},
        {{NOW, 1000, HF_STANDS_REFUSED, 0, 0}, 5, false},
        {{NOW, 1000}, 2, true}, /* a claim */
        {{NOW, -1}, 2, true},
        {{NOW, -2}, 2, false},
        {{NOW, -3}, 2, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        redisReply parts[5], *elements[5];
        redisReply reply = array_of(parts, elements, answers[i].numbers, answers[i].count);
        assert_int_equal(hf_reply_holds(&reply), answers[i].holds);
    }
    redisReply taken = text_of("1795197364705600"), busy = number_of(0);
    assert_true(hf_reply_holds(&taken));
    assert_false(hf_reply_holds(&busy));
}

/* ----------------------------------------------------------------- Inspect */

/* The answer of inspect: numbers, then the words of the holders and of the waiters. */
typedef struct {
    redisReply parts[11], *elements[11], words[28], *holders[14], *waiters[14], whole;
} inspected;

static redisReply word_of(const char *word) {
    return *word == '#' ? number_of(strtoll(word + 1, NULL, 10)) : text_of(word);
}

static void inspected_of(inspected *to, const int64_t *numbers, const char *const *holders,
                         size_t holder_words, const char *const *waiters, size_t waiter_words) {
    to->whole = array_of(to->parts, to->elements, numbers, 6);
    for (size_t i = 0; i < holder_words; i++) {
        to->words[i] = word_of(holders[i]);
        to->holders[i] = &to->words[i];
    }
    for (size_t i = 0; i < waiter_words; i++) {
        to->words[14 + i] = word_of(waiters[i]);
        to->waiters[i] = &to->words[14 + i];
    }
    to->parts[6] =
        (redisReply){.type = REDIS_REPLY_ARRAY, .elements = holder_words, .element = to->holders};
    to->parts[7] =
        (redisReply){.type = REDIS_REPLY_ARRAY, .elements = waiter_words, .element = to->waiters};
    to->elements[6] = &to->parts[6];
    to->parts[8] = (redisReply){.type = REDIS_REPLY_ARRAY};
    to->elements[7] = &to->parts[7];
    to->elements[8] = &to->parts[8];
    to->parts[9] = number_of(5);
    to->elements[9] = &to->parts[9];
    to->parts[10] = number_of(60000);
    to->elements[10] = &to->parts[10];
    to->whole.elements = 11;
}

static void test_inspect_tells_of_holders_and_waiters(void **state) {
    static const int64_t free_lock[] = {0, 0, 0, -2, -2, NOW}, shared[] = {2, 2, 2, 900, 800, NOW};
    static const int64_t foreign[] = {3, 0, 1, -1, -2, NOW}, moving[] = {10, 2, 0, 900, -2, NOW};
    static const int64_t plain[] = {4, 0, 0, -1, -2, NOW};
    static const char *const holders[] = {ID,    "s", "#7", "#500", "me", "#1",
                                          OTHER, "s", "#8", "#-1",  "u",  "#2"};
    static const char *const waiters[] = {ID,    "x", "#1700000000000000", "#0", "#0", "me",  "#1",
                                          OTHER, "s", "#1700000000000001", "#9", "#3", "you", "#3"};
    inspected reply;
    hf_found found;
    hf_queued queued;
    (void)state;
    inspected_of(&reply, free_lock, NULL, 0, NULL, 0);
    assert_true(hf_reply_inspect(&reply.whole, &found));
    assert_false(found.held);
    assert_false(found.foreign);
    assert_int_equal(found.ttl_ms, -2);
    assert_int_equal(found.server_us, NOW);
    assert_int_equal(found.first.owner_length, 0);
    assert_int_equal(hf_reply_queued_count(&reply.whole), 0);
    inspected_of(&reply, foreign, NULL, 0, waiters, 7);
    assert_true(hf_reply_inspect(&reply.whole, &found));
    assert_true(found.held);
    assert_true(found.foreign);
    assert_int_equal(found.ttl_ms, HF_TTL_NONE);
    assert_int_equal(hf_reply_queued_count(&reply.whole), 1);
    assert_false(found.plain);
    inspected_of(&reply, plain, NULL, 0, NULL, 0);
    assert_true(hf_reply_inspect(&reply.whole, &found));
    assert_true(found.held && found.foreign && found.plain);
    inspected_of(&reply, moving, holders, 12, NULL, 0);
    assert_true(hf_reply_inspect(&reply.whole, &found));
    assert_true(found.held && found.shared && found.moving && !found.foreign);
    inspected_of(&reply, shared, holders, 12, waiters, 14);
    assert_true(hf_reply_inspect(&reply.whole, &found));
    assert_false(found.moving);
    assert_int_equal(found.result_ms, 800);
    assert_true(found.held);
    assert_false(found.foreign);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.waiters, 2);
    assert_int_equal(found.ttl_ms, 900);
    assert_true(found.first.shared);
    assert_int_equal(found.first.fence, 7);
    assert_int_equal(found.first.remaining_ms, 500);
    assert_int_equal(found.first.owner_length, 2);
    assert_memory_equal(found.first.owner, "me", 2);
    hf_holding second;
    assert_int_equal(hf_reply_holdings(&reply.whole), 2);
    assert_true(hf_reply_holding(&reply.whole, 1, &second));
    assert_int_equal(second.fence, 8);
    assert_int_equal(second.remaining_ms, HF_TTL_NONE);
    assert_int_equal(second.weight, 2);
    assert_int_equal(hf_reply_queued_count(&reply.whole), 2);
    assert_true(hf_reply_queued(&reply.whole, 0, &queued));
    assert_false(queued.shared);
    assert_int_equal(queued.timeout_ms, HF_FOREVER);
    assert_int_equal(queued.score, NOW);
    assert_true(hf_reply_queued(&reply.whole, 1, &queued));
    assert_true(queued.shared);
    assert_int_equal(queued.timeout_ms, 9);
    assert_int_equal(queued.permits, 3);
    assert_int_equal(queued.weight, 3);
    assert_int_equal(queued.score, NOW + 1);
    assert_int_equal(queued.owner_length, 3);
    assert_memory_equal(queued.owner, "you", 3);
}

static void test_what_inspect_cannot_have_answered_is_not_read(void **state) {
    static const int64_t one[] = {1, 1, 1, 900, -2, NOW}, timeless[] = {1, 1, 1, 900, -2, 0};
    static const int64_t stateless[] = {16, 1, 1, 900, -2, NOW},
                         negative[] = {1, 1, -1, 900, -2, NOW};
    static const char *const holder[] = {ID, "x", "#7", "#500", "me", "#1"};
    static const char *const holders[][6] = {
        {ID, "#1", "#7", "#500", "me", "#1"},
        {ID, "x", "#-1", "#500", "me", "#1"},
        {ID, "x", "#9007199254740993", "#500", "me", "#1"},
        {ID, "x", "#7", "#500", "#1", "#1"},
        {ID, "x", "#7", "#500", "me", "#0"},
    };
    static const char *const waiter[] = {ID, "x", "#5", "#0", "#0", "me", "#1"};
    static const char *const waiters[][7] = {
        {ID, "y", "#5", "#0", "#0", "me", "#1"},
        {ID, "", "#5", "#0", "#0", "me", "#1"},
        {ID, "xx", "#5", "#0", "#0", "me", "#1"},
        {ID, "#1", "#5", "#0", "#0", "me", "#1"},
        {ID, "x", "#-1", "#0", "#0", "me", "#1"},
        {ID, "x", "#9223372036854775807", "#0", "#0", "me", "#1"},
        {ID, "x", "#5", "#-1", "#0", "me", "#1"},
        {ID, "x", "#5", "#0", "#0", "", "#1"},
        {ID, "x", "#5", "#0", "#0", "#1", "#1"},
        {ID, "s", "#5", "#0", "#3", "me", "#0"},
    };
    inspected reply;
    hf_found found;
    hf_queued queued;
    (void)state;
    inspected_of(&reply, one, holder, 6, waiter, 7);
    assert_true(hf_reply_inspect(&reply.whole, &found));
    assert_true(hf_reply_queued(&reply.whole, 0, &queued));
    assert_int_equal(found.permits, 5);
    assert_int_equal(found.per_ms, 60000);
    for (size_t i = 0; i < 11; i++) { /* each part has another type or is missing */
        redisReply other = i < 6 || i > 8 ? text_of("1") : number_of(1);
        reply.elements[i] = &other;
        assert_false(hf_reply_inspect(&reply.whole, &found));
        reply.elements[i] = &reply.parts[i];
        reply.whole.elements = i;
        assert_false(hf_reply_inspect(&reply.whole, &found));
        reply.whole.elements = 11;
    }
    redisReply number = number_of(1);
    assert_false(hf_reply_inspect(&number, &found));
    inspected_of(&reply, timeless, holder, 6, waiter, 7);
    assert_false(hf_reply_inspect(&reply.whole, &found));
    inspected_of(&reply, stateless, holder, 6, waiter, 7);
    assert_false(hf_reply_inspect(&reply.whole, &found));
    inspected_of(&reply, negative, holder, 6, waiter, 7);
    assert_false(hf_reply_inspect(&reply.whole, &found));
    for (size_t i = 0; i < COUNT(holders); i++) {
        inspected_of(&reply, one, holders[i], 6, waiter, 7);
        assert_false(hf_reply_inspect(&reply.whole, &found));
    }
    for (size_t i = 0; i < COUNT(waiters); i++) {
        inspected_of(&reply, one, holder, 6, waiters[i], 7);
        assert_true(hf_reply_inspect(&reply.whole, &found));
        print_message("waiter %zu\n", i);
        assert_false(hf_reply_queued(&reply.whole, 0, &queued));
    }
    inspected_of(&reply, one, holder, 6, waiter, 5); /* the words of a waiter are incomplete */
    assert_int_equal(hf_reply_queued_count(&reply.whole), 0);
}

/* ---------------------------------------------------------------- Messages */

static void test_a_grant_is_read_only_if_all_of_it_makes_sense(void **state) {
    static const char *const nonsense[] = {
        "g" ID "0000000000000000"
        "1700000000000000",
        "g" ID "0000000000000007"
        "0000000000000000",
        "g" ID "9007199254740993"
        "1700000000000000",
        "g" ID "0000000000000007"
        "9007199254740993",
        "g" ID "0000000000000007"
        "170000000000000",
        "g" ID "0000000000000007"
        "17000000000000000",
        "g" ID "000000000000000x"
        "1700000000000000",
        "g" ID "-000000000000007"
        "1700000000000000",
        "g" ID "0000000000000007"
        "               7",
        "x" ID "0000000000000007"
        "1700000000000000",
        "r" ID "1700000000000000",
        "g" ID,
        "g",
        "t",
        "",
    };
    static const char good[] = "g" ID "0000000000000007"
                               "1700000000000000";
    hf_grant grant;
    (void)state;
    assert_true(hf_message_grant(good, strlen(good), &grant));
    assert_string_equal(grant.id, ID);
    assert_int_equal(grant.fence, 7);
    assert_int_equal(grant.server_us, 1700000000000000);
    for (size_t length = 0; length < strlen(good); length++)
        assert_false(hf_message_grant(good, length, &grant));
    for (size_t i = 0; i < COUNT(nonsense); i++) {
        print_message("%s\n", nonsense[i]);
        assert_false(hf_message_grant(nonsense[i], strlen(nonsense[i]), &grant));
    }
    assert_true(hf_message_test("t"));
    assert_false(hf_message_test("tt"));
    assert_false(hf_message_test(""));
}

static void test_a_pushed_grant_lasts_until_its_claim(void **state) {
    (void)state;
    assert_int_equal(hf_granted_ms(500), 500);
    assert_int_equal(hf_granted_ms(3000), 3000);
    assert_int_equal(hf_granted_ms(3001), 3000);
    assert_int_equal(hf_granted_ms(HF_LEASE_MAX), 3000);
    assert_int_equal(hf_granted_ms(HF_NEVER), 3000);
}

static void test_every_server_error_says_what_happened_and_what_to_do(void **state) {
    static const struct {
        const char *text;
        hf_status status;
        hf_after_error after;
    } errors[] = {
        {"NOSCRIPT No matching script. Please use EVAL.", HF_ESERVER, HF_AFTER_LOAD},
        {"LOADING Redis is loading the dataset in memory", HF_ESERVER, HF_AFTER_WAIT},
        {"BUSY Redis is busy running a script.", HF_ESERVER, HF_AFTER_WAIT},
        {"TRYAGAIN Multiple keys request during rehashing of slot", HF_ESERVER, HF_AFTER_SPLIT},
        {"MOVED 3999 127.0.0.1:6381", HF_ESERVER, HF_AFTER_MOVED},
        {"ASK 3999 127.0.0.1:6381", HF_ESERVER, HF_AFTER_ASK},
        {"CLUSTERDOWN The cluster is down", HF_ESERVER, HF_AFTER_WAIT},
        {"MASTERDOWN Link with MASTER is down", HF_ESERVER, HF_AFTER_RECONNECT},
        {"READONLY You can't write against a read only replica.", HF_ESERVER, HF_AFTER_RECONNECT},
        {"UNBLOCKED force unblock from blocking operation", HF_ESERVER, HF_AFTER_RECONNECT},
        {"NOAUTH Authentication required.", HF_EAUTH, HF_AFTER_FAIL},
        {"WRONGPASS invalid username-password pair", HF_EAUTH, HF_AFTER_FAIL},
        {"NOPERM this user has no permissions", HF_ESERVER, HF_AFTER_FAIL},
        {"OOM command not allowed when used memory > 'maxmemory'.", HF_ESERVER, HF_AFTER_FAIL},
        {"MISCONF Redis is configured to save RDB snapshots", HF_ESERVER, HF_AFTER_FAIL},
        {"NOREPLICAS Not enough good replicas to write.", HF_ESERVER, HF_AFTER_FAIL},
        {"LOADING", HF_ESERVER, HF_AFTER_WAIT},
        /* From a script: as Redis 7 answers it, and 6.2 when the script catches it and when it does
         * not. */
        {"READONLY You can't write against a read only replica. script: caee, on @user_script:1.",
         HF_ESERVER, HF_AFTER_RECONNECT},
        {"@user_script: 12: -READONLY You can't write against a read only replica.", HF_ESERVER,
         HF_AFTER_RECONNECT},
        {"@user_script: 1: READONLY You can't write against a read only replica.", HF_ESERVER,
         HF_AFTER_RECONNECT},
        {"ERR Error running script (call to f_caee): @user_script:1: @user_script: 1: -READONLY "
         "You can't write against a read only replica.",
         HF_ESERVER, HF_AFTER_RECONNECT},
        {"ERR Error running script (call to f_caee): @user_script:1: user_script:1: "
         "@user_script: 1: -MASTERDOWN Link with MASTER is down",
         HF_ESERVER, HF_AFTER_RECONNECT},
        {"@user_script: 3: WRONGTYPE Operation against a key", HF_ESERVER, HF_AFTER_FAIL},
        {"@user_script: ", HF_ESERVER, HF_AFTER_FAIL},
        {"ERR Error running script", HF_ESERVER, HF_AFTER_FAIL},
        /* Only the whole first word counts. */
        {"BUSYGROUP Consumer Group name already exists", HF_ESERVER, HF_AFTER_FAIL},
        {"OOMPH", HF_ESERVER, HF_AFTER_FAIL},
        {"ERR NOSCRIPT", HF_ESERVER, HF_AFTER_FAIL},
        {"ERR syntax error", HF_ESERVER, HF_AFTER_FAIL},
        {"HOLDFAST lease out of bounds", HF_ESERVER, HF_AFTER_FAIL},
        {"WRONGTYPE Operation against a key", HF_ESERVER, HF_AFTER_FAIL},
        {"", HF_ESERVER, HF_AFTER_FAIL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(errors); i++) {
        hf_status status = HF_OK;
        print_message("%s\n", errors[i].text);
        assert_int_equal(hf_error_class(errors[i].text, &status), errors[i].after);
        assert_int_equal(status, errors[i].status);
    }
}

/* A release that does nothing but end the hold can use the lock's key alone. */
static void test_a_refused_key_is_told_from_a_refused_command(void **state) {
    (void)state;
    assert_true(hf_error_key("NOPERM No permissions to access a key"));
    assert_true(hf_error_key("localhost:6379: NOPERM this user has no permissions to access one of "
                             "the keys used as arguments"));
    assert_false(hf_error_key("NOPERM User app has no permissions to run the 'eval' command"));
    assert_false(hf_error_key("WRONGTYPE Operation against a key holding the wrong kind of value"));
}

static void test_a_release_has_a_form_with_one_key(void **state) {
    enum { PLAIN, UNKNOWN, BURY, LEAVE, CANCEL, FORMS };
    hf_names *names = names_of("x{b}");
    hf_request request;
    (void)state;
    for (int form = 0; form < FORMS; form++) {
        hf_ask ask = form == LEAVE ? waiter_of("me", "hf:" CLIENT) : ask_of("me", 2);
        if (form == CANCEL)
            hf_request_cancel(&request, names, &ask, false);
        else
            hf_request_release(&request, names, &ask, form == UNKNOWN ? 0 : 7, form == BURY);
        assert_int_equal(hf_request_alone(&request), form == PLAIN);
        assert_int_equal(request.slot, names->slot);
        if (form == PLAIN)
            ASSERT_WORDS(&request, &hf_script_leave, 1, "x{b}", ID, "0000000000000007");
        else
            hf_request_free(&request);
    }
    hf_names_drop(names);
}

static void test_a_call_that_is_made_once_is_told_of(void **state) {
    hf_names *names = names_of("a");
    hf_ask ask = ask_of("me", 2);
    hf_request request;
    (void)state;
    hf_request_begin(&request, names, ID, 7, TERMS, HF_NEVER, "why", 3);
    ASSERT_WORDS(&request, &hf_script_begin, 3, "a", "{a}a:hf1:s", "{a}a:hf1:r", ID,
                 "0000000000000007", TERMS, "0", "why");
    hf_request_begin(&request, names, ID, 7, TERMS, 10000, NULL, 0);
    ASSERT_WORDS(&request, &hf_script_begin, 3, "a", "{a}a:hf1:s", "{a}a:hf1:r", ID,
                 "0000000000000007", TERMS, "10000", "");
    hf_leaving left = {.how = 'd', .terms = TERMS, .bytes = "42", .length = 2, .ttl_ms = 60000};
    hf_request_finish(&request, names, &ask, 7, false, &left);
    ASSERT_WORDS(&request, &hf_script_release, 5, ALL, ID, "0000000000000007", "0", "", "60000",
                 "42", "d", TERMS);
    hf_settlement said = {.verb = 'e',
                          .fence = 7,
                          .id = OTHER,
                          .force = true,
                          .ttl_ms = 60000,
                          .bytes = "no",
                          .length = 2,
                          .owner = "ben",
                          .owner_length = 3,
                          .note = "seen",
                          .note_length = 4};
    hf_request_settle(&request, names, &said);
    ASSERT_WORDS(&request, &hf_script_settle, 6, ALL, DEAD(OTHER), "e", "0000000000000007", OTHER,
                 "1", "60000", "no", "ben", "seen");
    hf_names_drop(names);
}

static void test_a_look_at_the_holders_needs_one_key(void **state) {
    hf_names *names = names_of("x{b}");
    hf_request request;
    (void)state;
    hf_request_inspect(&request, names, 0, 100, false);
    assert_true(hf_request_alone(&request));
    assert_int_equal(request.slot, names->slot);
    ASSERT_WORDS(&request, &hf_script_inspect, 1, "x{b}", "0", "100");
    hf_names_drop(names);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_that_is_made_once_is_told_of),
        cmocka_unit_test(test_a_refused_key_is_told_from_a_refused_command),
        cmocka_unit_test(test_companions_carry_the_tag_and_the_whole_name),
        cmocka_unit_test(test_companions_are_in_the_slot_of_the_name),
        cmocka_unit_test(test_names_of_one_tag_share_no_companion),
        cmocka_unit_test(test_names_may_be_any_bytes),
        cmocka_unit_test(test_names_have_one_to_4096_bytes),
        cmocka_unit_test(test_names_that_end_like_companions_are_refused),
        cmocka_unit_test(test_names_whose_companions_could_be_another_s_are_refused),
        cmocka_unit_test(test_equal_names_have_equal_hashes),
        cmocka_unit_test(test_names_live_until_the_last_reference),
        cmocka_unit_test(test_a_request_is_evalsha_or_eval_of_keys_and_arguments),
        cmocka_unit_test(test_an_acquire_is_sent_for_many_or_for_none),
        cmocka_unit_test(test_the_short_requests_have_few_keys),
        cmocka_unit_test(test_one_answer_has_the_record_for_all),
        cmocka_unit_test(test_what_is_no_record_is_not_read),
        cmocka_unit_test(test_a_release_says_no_more_than_it_must),
        cmocka_unit_test(test_each_request_that_writes_the_fence_says_how_long_it_lives),
        cmocka_unit_test(test_what_is_held_is_claimed_and_renewed_with_its_fence),
        cmocka_unit_test(test_what_looks_at_a_lock_is_sent_whole),
        cmocka_unit_test(test_a_waiter_is_a_member_of_fixed_columns),
        cmocka_unit_test(test_numbers_are_sent_with_all_their_digits),
        cmocka_unit_test(test_long_arguments_are_sent_whole),
        cmocka_unit_test(test_scripts_are_known_by_their_digest_and_are_no_comment),
        cmocka_unit_test(test_numbers_are_read_from_an_array_of_integers_only),
        cmocka_unit_test(test_a_release_answers_what_it_did),
        cmocka_unit_test(test_what_cannot_be_read_of_many_renewals_is_a_refusal),
        cmocka_unit_test(test_what_no_server_answers_is_not_reckoned_with),
        cmocka_unit_test(test_the_state_of_each_hold_id_is_read),
        cmocka_unit_test(test_a_take_answers_with_the_fence_alone),
        cmocka_unit_test(test_a_share_tells_whether_there_are_others),
        cmocka_unit_test(test_a_wait_answers_with_the_time_and_the_holder),
        cmocka_unit_test(test_a_reply_that_may_have_written_something_is_known),
        cmocka_unit_test(test_inspect_tells_of_holders_and_waiters),
        cmocka_unit_test(test_what_inspect_cannot_have_answered_is_not_read),
        cmocka_unit_test(test_a_grant_is_read_only_if_all_of_it_makes_sense),
        cmocka_unit_test(test_a_pushed_grant_lasts_until_its_claim),
        cmocka_unit_test(test_every_server_error_says_what_happened_and_what_to_do),
        cmocka_unit_test(test_a_release_has_a_form_with_one_key),
        cmocka_unit_test(test_a_look_at_the_holders_needs_one_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
