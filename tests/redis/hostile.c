/*
 * A hostile server: it accepts every client, and then gives answers that no Redis would give, to
 * every kind of request and on every kind of connection. Calls end in time with a clear error, no
 * impossible answer is believed, and memory is bounded.
 */
#include "../network.h"

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SANITIZED = 1 }; /* freed memory is kept for a while */
#else
enum { SANITIZED = 0 };
#endif

static fake server;
static _Atomic(const char *) answer; /* to every script and SUBSCRIBE; or one of these: */
static const char endless_bulk[] = "", endless_line[] = "", endless_lists[] = "",
                  announced_lists[] = "", endless_pushes[] = "", endless_answers[] = "";

static void tell(int fd, const char *words) { say(fd, words, strlen(words)); }

/* Send the words again and again, until the client has enough. */
static void flood(int fd, const char *head, const char *words) {
    static _Thread_local char bytes[65536];
    size_t length = strlen(words), count = sizeof bytes / length * length;
    for (size_t i = 0; i < count; i += length)
        memcpy(bytes + i, words, length);
    tell(fd, head);
    for (int i = 0; i < 4096 && say(fd, bytes, count); i++)
        continue;
}

static void misbehave(int fd, const char *what) {
    if (what == endless_bulk)
        flood(fd, "$536870912\r\n", "x");
    else if (what == endless_line)
        flood(fd, "+", "x");
    else if (what == endless_lists)
        flood(fd, "", "*1\r\n");
    else if (what == announced_lists)
        flood(fd, "", "*20000\r\n");
    else if (what == endless_pushes)
        flood(fd, "", ">2\r\n+news\r\n:1\r\n");
    else if (what == endless_answers)
        flood(fd, "", "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nt\r\n");
    else
        tell(fd, what);
}

static void talk_to_one(void *unused, int fd) {
    (void)unused;
    char bytes[65536];
    ssize_t length;
    while ((length = recv(fd, bytes, sizeof bytes - 1, 0)) > 0) {
        bytes[length] = '\0';
        for (const char *at = bytes; at != NULL; at = strstr(at, "\r\n*")) {
            at += at > bytes ? 2 : 0;
            const char *name = strchr(at, '\n');
            name = name != NULL ? strchr(name + 1, '\n') : NULL;
            if (name == NULL)
                break;
            if (strncmp(name + 1, "HELLO", 5) == 0) /* the part that a client looks at */
                tell(fd, "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n");
            else if (strncmp(name + 1, "EVAL", 4) == 0 || strncmp(name + 1, "SUBS", 4) == 0)
                misbehave(fd, atomic_load(&answer));
            else
                tell(fd, "+OK\r\n");
            at = name;
        }
    }
}

static int start_serving(void **state) {
    (void)state;
    alarm(60);
    fake_start_many(&server, talk_to_one, NULL);
    return 0;
}

/* Return the peak of this process's memory since the last call, in KiB. */
static long peak(void) {
    char line[256];
    long found = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmHWM: %ld", &found) == 1)
            break;
    fclose(file);
    file = fopen("/proc/self/clear_refs", "w");
    if (file != NULL) {
        fputs("5", file);
        fclose(file);
    }
    return found;
}

/* Accept any status except that of a caller's mistake, with a message. */
static hf_status check_call(hf_status status, const char *what, const char *call) {
    static const hf_status allowed[] = {HF_OK,      HF_EBUSY,    HF_ETIMEOUT, HF_ENOTHELD,
                                        HF_ELOST,   HF_EUNKNOWN, HF_ECONNECT, HF_EAUTH,
                                        HF_ESERVER, HF_EPROTOCOL};
    for (size_t i = 0; i < COUNT(allowed); i++)
        if (status == allowed[i] && (status == HF_OK || *hf_error_message() != '\0'))
            return status;
    fail_msg("%.40s: %s answered %s: %s", what, call, hf_status_name(status), hf_error_message());
    return status;
}
#define check(call) check_call((call), what, #call)

/* Make every request that a client can make. */
static void ask_everything(const char *what) {
    hf_client_options options = {/* to open it is no call that may end in time */
                                 .size = sizeof options,
                                 .connect_timeout_ms = 60,
                                 .command_timeout_ms = 60,
                                 .lazy = HF_ON};
    hf_lock_options short_lease = {.size = sizeof short_lease, .lease_ms = 60, .renew = HF_ON};
    hf_lock_info info = {.size = sizeof info};
    hf_client *client;
    hf_lock *lock;
    hf_hold *hold;
    const char *token = "hf1 0123456789abcdef0123456789abcdef x5 5 stockme";
    alarm(60);
    atomic_store(&answer, what);
    int64_t begun = now_ms();
    assert_status(hf_client_open(text("redis://127.0.0.1:%d/1", server.port), &options, &client),
                  HF_OK);
    assert_status(hf_lock_open(client, "stock", 5, NULL, 0, &short_lease, &lock), HF_OK);
    check(hf_lock_inspect(lock, 0, &info, NULL));
    check(hf_lock_break(lock, 5, 0));
    for (int64_t timeout_ms = 0; timeout_ms <= 60; timeout_ms += 60) {
        hold = NULL;
        if (check(hf_lock_acquire(lock, timeout_ms, &hold)) != HF_OK) {
            assert_null(hold);
            continue;
        }
        assert_in_range(hf_hold_fence(hold), 1, INT64_C(1) << 53);
        assert_in_range(hf_hold_remaining_ms(hold), 0, HF_LEASE_MAX);
        check(hf_hold_renew(hold));
        check(hf_hold_extend(hold, 50, 1));
        check(hf_hold_check(hold));
        check(hf_hold_release(hold));
        hf_hold_close(hold);
    }
    hold = NULL;
    if (check(hf_lock_adopt(lock, token, strlen(token), &hold)) == HF_OK)
        hf_hold_close(hold);
    if (hf_client_fd(client) >= 0 &&
        check(hf_lock_acquire_start(lock, NULL, 0, 30, NULL, 1)) == HF_OK) {
        hf_completion done = {.size = sizeof done};
        assert_soon(hf_client_next(client, &done) == HF_OK && done.kind == HF_KIND_ACQUIRE);
        check(done.status);
        hf_hold_close(done.hold);
    }
    hf_lock_close(lock);
    hf_client_close(client);
    assert_in_range(now_ms() - begun, 0, 20000); /* some 30 requests */
}

static void test_answers_of_a_wrong_type_are_an_error(void **state) {
    static const char *const answers[] = {
        "+OK\r\n",
        ":0\r\n",
        ":-1\r\n",
        ":2\r\n",
        ":9223372036854775807\r\n",
        ":-9223372036854775808\r\n",
        ":1700000000000000\r\n",
        "$3\r\nabc\r\n",
        "$0\r\n\r\n",
        "$-1\r\n",
        "$-2\r\n",
        "$9223372036854775807\r\n",
        "*0\r\n",
        "*-1\r\n",
        "*-2\r\n",
        "*1\r\n*1\r\n*1\r\n:1\r\n",
        "*2\r\n:1700000000000000\r\n:-2\r\n",
        "*2\r\n:1700000000000000\r\n:9223372036854775807\r\n",
        "*5\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n",
        "*5\r\n:1700000000000000\r\n:1\r\n:1\r\n:1\r\n:9223372036854775807\r\n",
        "*5\r\n:1700000000000000\r\n:1\r\n:1\r\n:9223372036854775807\r\n:1000\r\n",
        "*5\r\n:9223372036854775807\r\n:1\r\n:1\r\n:5\r\n:1000\r\n",
        "*5\r\n:-9223372036854775808\r\n:-9223372036854775808\r\n:2\r\n:-5\r\n:-5\r\n",
        "*5\r\n:1700000000000000\r\n:1\r\n:99\r\n:5\r\n:1000\r\n",
        "*6\r\n:1\r\n$2\r\nme\r\n:1\r\n:5\r\n:9223372036854775807\r\n:0\r\n",
        "*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
        "-\r\n",
        "-ERR no\r\n",
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        ",nan\r\n",
        "(123456789012345678901234567890\r\n",
        "=7\r\ntxt:abc\r\n",
        "%1\r\n+a\r\n:1\r\n",
        "~1\r\n:1\r\n",
        "|1\r\n+a\r\n:1\r\n:1\r\n",
        ">2\r\n+news\r\n:1\r\n:1700000000000000\r\n",
        "$16\r\n1700000000000000\r\n$16\r\n1700000000000001\r\n", /* one more than was asked for */
        "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nt\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n*0\r\n",
        "\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
    };
    (void)state;
    peak();
    for (size_t i = 0; i < COUNT(answers); i++)
        ask_everything(answers[i]);
    assert_in_range(peak(), 0, 64 * 1024);
}

/* The client's memory is bounded, and so is its time. */
static void test_answers_without_end_are_cut_off(void **state) {
    static const char *const floods[] = {endless_bulk,    endless_line,   endless_lists,
                                         announced_lists, endless_pushes, endless_answers};
    (void)state;
    for (size_t i = 0; i < COUNT(floods); i++) {
        peak();
        ask_everything(floods[i]);
        long most = peak();
        print_message("flood %zu: %ld KiB\n", i, most);
        assert_in_range(most, 0, SANITIZED ? 1024 * 1024 : 64 * 1024);
    }
}

/* Otherwise the next request would get the answer to this one. */
static void test_an_answer_too_many_is_no_answer_to_the_next_request(void **state) {
    hf_client *client;
    hf_lock *lock;
    hf_hold *hold;
    (void)state;
    atomic_store(&answer, "$16\r\n1700000000000000\r\n$16\r\n1700000000000001\r\n");
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", server.port), NULL, &client), HF_OK);
    assert_status(hf_lock_open(client, "stock", 5, NULL, 0, NULL, &lock), HF_OK);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    hf_hold_close(hold);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_int_equal(hf_hold_fence(hold), 1700000000000000);
    hf_hold_close(hold);
    hf_lock_close(lock);
    atomic_store(&answer, ":1\r\n");
    hf_client_close(client);
}

/* A server's text is shown, but cannot begin lines or control a terminal. */
static void test_an_error_of_the_server_is_shown_as_one_plain_line(void **state) {
    hf_client *client;
    hf_lock *lock;
    hf_hold *hold;
    (void)state;
    atomic_store(&answer, "-ERR \x1b[2Jall\tis well\x7f\r\n");
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", server.port), NULL, &client), HF_OK);
    assert_status(hf_lock_open(client, "stock", 5, NULL, 0, NULL, &lock), HF_OK);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_ESERVER);
    assert_message("answered: ERR ?[2Jall?is well?");
    hf_lock_close(lock);
    hf_client_close(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_of_a_wrong_type_are_an_error),
        cmocka_unit_test(test_answers_without_end_are_cut_off),
        cmocka_unit_test(test_an_answer_too_many_is_no_answer_to_the_next_request),
        cmocka_unit_test(test_an_error_of_the_server_is_shown_as_one_plain_line),
    };
    return cmocka_run_group_tests(tests, start_serving, NULL);
}
