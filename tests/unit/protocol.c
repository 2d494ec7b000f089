/* Names and their companion keys, requests as they are sent, replies, errors. */
#include "../check.h"

#include "protocol/answers.h"
#include "protocol/errors.h"
#include "protocol/requests.h"

/* ------------------------------------------------------------------ Names */

static hf_names *names_of(const char *name) {
    hf_names *names;
    assert_status(hf_names_new(name, strlen(name), &names), HF_OK);
    assert_int_equal(names->length, strlen(name));
    assert_memory_equal(names->data, name, names->length);
    return names;
}

/* "{tag}name:", before the suffix of a companion. */
static char *companion_of(const char *name) {
    hf_names *names = names_of(name);
    char *companion = text("%.*s", (int)names->tagged, names->data + names->length);
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
    /* Without a tag all of the name is hashed. */
    assert_string_equal(companion_of("x{"), "{x{}x{:");
}

/* Cluster's hash of a key, from its specification: CRC16-XMODEM of the tag. */
static unsigned slot(const char *key) {
    size_t length = strlen(key);
    const char *open = strchr(key, '{'), *close = open != NULL ? strchr(open, '}') : NULL;
    if (close != NULL && close > open + 1) {
        key = open + 1;
        length = (size_t)(close - key);
    }
    unsigned crc = 0;
    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned)(unsigned char)key[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
    }
    return crc & 0x3fff;
}

static void test_companions_are_in_the_slot_of_the_name(void **state) {
    static const char *const names[] = {"stock", "x{b}", "y{b}", "{a}:queue", "x{b}y{c}", "x{"};
    (void)state;
    assert_int_equal(slot("123456789"), 0x31c3);
    for (size_t i = 0; i < COUNT(names); i++) {
        hf_names *known = names_of(names[i]);
        assert_int_equal(slot(companion_of(names[i])), slot(names[i]));
        assert_int_equal(known->slot, slot(names[i]));
        hf_names_drop(known);
    }
}

static void test_names_of_one_tag_share_no_companion(void **state) {
    (void)state;
    assert_int_equal(slot("x{b}"), slot("y{b}"));
    assert_string_not_equal(companion_of("x{b}"), companion_of("y{b}"));
    assert_string_not_equal(companion_of("b"), companion_of("{b}"));
}

static void test_names_may_be_any_bytes(void **state) {
    static const char bytes[] = {'a', '\0', ' ', '\xff', '\n', '{', '\0', '}'};
    hf_names *names;
    (void)state;
    assert_status(hf_names_new(bytes, sizeof bytes, &names), HF_OK);
    assert_int_equal(names->length, sizeof bytes);
    assert_memory_equal(names->data, bytes, sizeof bytes);
    assert_int_equal(names->tagged, 3 + sizeof bytes + 1);
    assert_memory_equal(names->data + sizeof bytes, "{\0}a\0 \xff\n{\0}:", names->tagged);
    hf_names_drop(names);
}

static void test_names_have_one_to_4096_bytes(void **state) {
    static char bytes[HF_NAME_MAX + 1];
    hf_names *names;
    (void)state;
    memset(bytes, 'x', sizeof bytes);
    assert_status(hf_names_new(bytes, HF_NAME_MAX, &names), HF_OK);
    hf_names_drop(names);
    assert_status(hf_names_new(bytes, HF_NAME_MAX + 1, &names), HF_EINVAL);
    assert_message("4097 bytes: at most 4096");
    assert_null(names);
    assert_status(hf_names_new("", 0, &names), HF_EINVAL);
    assert_message("empty");
    assert_status(hf_names_new(NULL, 5, &names), HF_EINVAL);
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
        assert_status(hf_names_new(reserved[i], strlen(reserved[i]), &names), HF_EINVAL);
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
        assert_status(hf_names_new(ambiguous[i], strlen(ambiguous[i]), &names), HF_EINVAL);
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

static hf_ask ask_of(const char *owner, size_t length) {
    return (hf_ask){.id = ID, .owner = owner, .owner_length = length, .lease_ms = 1000};
}

/* What is sent: the head, with the digest or the text, and then this. */
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

static void test_a_request_is_evalsha_or_eval_of_keys_and_arguments(void **state) {
    static const char body[] = "$1\r\na\r\n"
                               "$10\r\n{a}a:hf1:f\r\n"
                               "$10\r\n{a}a:hf1:q\r\n"
                               "$43\r\n{a}a:" ID ":hf1:d\r\n"
                               "$32\r\n" ID "\r\n"
                               "$4\r\nx\0\r\n\r\n"
                               "$4\r\n1000\r\n"
                               "$1\r\n0\r\n"
                               "$1\r\n7\r\n";
    hf_names *names = names_of("a");
    hf_ask ask = ask_of("x\0\r\n", 4);
    hf_request request;
    (void)state;
    hf_request_acquire(&request, names, &ask, 7);
    assert_int_equal(request.keys, 4);
    assert_int_equal(request.arguments, 5);
    assert_int_equal(request.slot, names->slot);
    assert_sent(&request, false,
                text("*12\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n4\r\n", hf_script_acquire.sha1),
                body, sizeof body - 1);
    assert_sent(&request, true,
                text("*12\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n4\r\n", hf_script_acquire.length,
                     hf_script_acquire.text),
                body, sizeof body - 1);
    hf_request_free(&request);
    hf_names_drop(names);
}

static void test_a_waiter_is_a_member_of_netstrings(void **state) {
    hf_ask ask = ask_of("me", 2);
    hf_bytes member;
    (void)state;
    ask.channel = "hf:client";
    ask.channel_length = 9;
    ask.timeout_ms = HF_FOREVER;
    ask.reentrant = true;
    for (int forever = 1; forever >= 0; forever--) {
        const char *expected = text(ID "9:hf:client,2:me,%s,%s,1:1,", forever ? "4:1000" : "1:0",
                                    forever ? "1:0" : "2:25");
        hf_bytes_init(&member);
        hf_ask_member(&ask, &member);
        assert_int_equal(member.length, strlen(expected));
        assert_memory_equal(member.data, expected, member.length);
        hf_bytes_free(&member);
        ask.lease_ms = HF_NEVER;
        ask.timeout_ms = 25;
    }
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
    hf_request_acquire(&request, names, &ask, 0);
    const char *sent = request.encoded.data + request.keys_end + strlen("$32\r\n" ID "\r\n");
    assert_memory_equal(sent, "$4096\r\no", 8);
    assert_memory_equal(sent + 7 + sizeof owner - 1, "o\r\n$", 4);
    hf_request_free(&request);
    hf_names_drop(names);
}

static void test_scripts_are_known_by_their_digest_and_are_no_comment(void **state) {
    const hf_script *const all[] = {
        &hf_script_acquire, &hf_script_break,    &hf_script_cancel,  &hf_script_claim,
        &hf_script_heal,    &hf_script_inspect,  &hf_script_recheck, &hf_script_release,
        &hf_script_renew,   &hf_script_selftest,
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

/* An array of these integers; it and its parts live as long as the caller's. */
static redisReply array_of(redisReply *parts, redisReply **elements, const int64_t *numbers,
                           size_t count) {
    for (size_t i = 0; i < count; i++) {
        parts[i] = (redisReply){.type = REDIS_REPLY_INTEGER, .integer = numbers[i]};
        elements[i] = &parts[i];
    }
    return (redisReply){.type = REDIS_REPLY_ARRAY, .elements = count, .element = elements};
}

static void test_numbers_are_read_from_an_array_of_integers_only(void **state) {
    static const int64_t numbers[] = {5, -2};
    redisReply parts[2], *elements[2], reply = array_of(parts, elements, numbers, 2);
    redisReply word = {.type = REDIS_REPLY_STRING, .str = (char[]){"5"}, .len = 1};
    int64_t left_ms;
    (void)state;
    assert_true(hf_reply_renewal(&reply, &left_ms));
    assert_int_equal(left_ms, HF_RENEWAL_GONE);
    assert_true(hf_reply_kick_again(&reply));
    elements[1] = &word;
    assert_false(hf_reply_renewal(&reply, &left_ms));
    assert_int_equal(left_ms, HF_RENEWAL_REFUSED);
    assert_false(hf_reply_renewal(&parts[0], &left_ms));
    assert_false(hf_reply_renewal(&word, &left_ms));
    assert_int_equal(hf_reply_release(&word), HF_RELEASE_NONSENSE);
    assert_int_equal(hf_reply_listeners(&word), -1);
}

static void test_what_cannot_be_read_of_many_renewals_is_a_refusal(void **state) {
    static const int64_t numbers[] = {1700000000000000, 250, -1, -2, -3, -4};
    redisReply parts[6], *elements[6], reply = array_of(parts, elements, numbers, 6);
    redisReply word = {.type = REDIS_REPLY_STRING, .str = (char[]){"5"}, .len = 1};
    int64_t left_ms[5];
    (void)state;
    elements[2] = &word;
    hf_reply_renewals(&reply, left_ms, 5);
    assert_int_equal(left_ms[0], 250);
    assert_int_equal(left_ms[1], HF_RENEWAL_REFUSED);
    assert_int_equal(left_ms[2], HF_RENEWAL_GONE);
    assert_int_equal(left_ms[3], HF_RENEWAL_REFUSED);
    assert_int_equal(left_ms[4], HF_RENEWAL_REFUSED);
    hf_reply_renewals(&reply, left_ms, 4); /* not so many were asked for */
    assert_int_equal(left_ms[0], HF_RENEWAL_REFUSED);
    hf_reply_renewals(NULL, left_ms, 1);
    assert_int_equal(left_ms[0], HF_RENEWAL_REFUSED);
}

static void test_what_no_server_answers_is_not_reckoned_with(void **state) {
    static const struct {
        int64_t numbers[5];
        bool good;
    } answers[] = {
        {{1700000000000000, 1000, HF_STANDS_HELD, 7, 1000}, true},
        {{1700000000000000, -1, HF_STANDS_HELD, 7, -1}, true},
        {{1700000000000000, INT64_MAX, HF_STANDS_QUEUED, 1700000000000000, 3}, true},
        {{1700000000000000, -2, HF_STANDS_BUSY, 0, 0}, true},
        {{0, 1000, HF_STANDS_HELD, 7, 1000}, false},
        {{INT64_MAX, 1000, HF_STANDS_HELD, 7, 1000}, false},
        {{1700000000000000, 1000, HF_STANDS_HELD, 0, 1000}, false},
        {{1700000000000000, 1000, HF_STANDS_HELD, (INT64_C(1) << 53) + 1, 1000}, false},
        {{1700000000000000, 1000, HF_STANDS_HELD, 7, HF_LEASE_MAX + 1}, false},
        {{1700000000000000, 1000, HF_STANDS_HELD, 7, -2}, false},
        {{1700000000000000, 1000, HF_STANDS_QUEUED, -1, 0}, false},
        {{1700000000000000, 1000, 5, 0, 0}, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        redisReply parts[5], *elements[5];
        redisReply reply = array_of(parts, elements, answers[i].numbers, 5);
        hf_standing standings[2];
        hf_look look;
        assert_int_equal(hf_reply_recheck(&reply, &look, standings, 1), answers[i].good);
        assert_int_equal(hf_reply_acquire(&reply, 1000, &look, standings), answers[i].good);
        assert_false(hf_reply_recheck(&reply, &look, standings, 2));
    }
}

static void test_a_lock_that_was_free_is_answered_with_the_fence_alone(void **state) {
    redisReply reply = {.type = REDIS_REPLY_INTEGER, .integer = 1795197364705600};
    hf_standing mine;
    hf_look look;
    (void)state;
    assert_true(hf_reply_acquire(&reply, 500, &look, &mine));
    assert_int_equal(mine.state, HF_STANDS_HELD);
    assert_int_equal(mine.fence, reply.integer);
    assert_int_equal(mine.remaining_ms, 500);
    assert_int_equal(look.server_us, reply.integer);
    reply.integer = 7; /* no server's clock */
    assert_false(hf_reply_acquire(&reply, 500, &look, &mine));
}

static void test_a_grant_is_read_only_if_all_of_it_makes_sense(void **state) {
    static const char *const nonsense[] = {
        "g " ID " 7 1700000000000000",       "g " ID " 0 1700000000000000 3000",
        "g 0123 7 1700000000000000 3000",    "g " ID " 7 0 3000",
        "g " ID " 7 1700000000000000 -1",    "g " ID " 99999999999999999 1700000000000000 1",
        "x " ID " 7 1700000000000000 3000",  "t",
        "g " ID "0 7 1700000000000000 3000", "",
    };
    hf_grant grant;
    (void)state;
    assert_true(hf_message_grant("g " ID " 7 1700000000000000 3000", &grant));
    assert_string_equal(grant.id, ID);
    assert_int_equal(grant.fence, 7);
    assert_int_equal(grant.server_us, 1700000000000000);
    assert_int_equal(grant.granted_ms, 3000);
    for (size_t i = 0; i < COUNT(nonsense); i++)
        assert_false(hf_message_grant(nonsense[i], &grant));
    assert_true(hf_message_test("t"));
    assert_false(hf_message_test("tt"));
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
        /* Of a script: as Redis 7 says it, and 6.2 when the script catches it and when not. */
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

/* A release can use the lock's key alone if it does nothing but end the hold. */
static void test_a_release_has_a_form_with_one_key(void **state) {
    hf_names *names = names_of("x{b}");
    hf_request whole, alone;
    (void)state;
    for (int form = 0; form < 5; form++) {
        hf_ask ask = ask_of("me", 2);
        if (form == 3) { /* and leave the queue */
            ask.channel = "hf:client";
            ask.channel_length = 9;
        }
        if (form == 4)
            hf_request_cancel(&whole, names, &ask, false);
        else
            hf_request_release(&whole, names, &ask, form == 2, form == 1);
        bool good = hf_request_alone(&alone, &whole);
        assert_int_equal(good, form < 2);
        if (good) {
            static const char expected[] = "$4\r\nx{b}\r\n$32\r\n" ID "\r\n";
            assert_ptr_equal(alone.script, &hf_script_leave);
            assert_int_equal(alone.slot, names->slot);
            assert_int_equal(alone.keys, 1);
            assert_int_equal(alone.arguments, 1);
            assert_int_equal(alone.encoded.length, strlen(expected));
            assert_memory_equal(alone.encoded.data, expected, strlen(expected));
            hf_request_free(&alone);
        }
        hf_request_free(&whole);
    }
    hf_names_drop(names);
}

int main(void) {
    const struct CMUnitTest tests[] = {
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
        cmocka_unit_test(test_a_release_has_a_form_with_one_key),
        cmocka_unit_test(test_a_waiter_is_a_member_of_netstrings),
        cmocka_unit_test(test_what_cannot_be_read_of_many_renewals_is_a_refusal),
        cmocka_unit_test(test_a_lock_that_was_free_is_answered_with_the_fence_alone),
        cmocka_unit_test(test_a_grant_is_read_only_if_all_of_it_makes_sense),
        cmocka_unit_test(test_numbers_are_sent_with_all_their_digits),
        cmocka_unit_test(test_long_arguments_are_sent_whole),
        cmocka_unit_test(test_scripts_are_known_by_their_digest_and_are_no_comment),
        cmocka_unit_test(test_numbers_are_read_from_an_array_of_integers_only),
        cmocka_unit_test(test_what_no_server_answers_is_not_reckoned_with),
        cmocka_unit_test(test_every_server_error_says_what_happened_and_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
