/* The rule of docs/connecting.md allows every command that is needed, and each of its words is
 * needed: without it a call names the missing permission, or waits by polling. */
#include "cluster.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

enum { LEASE_MS = 2500, SOON_MS = 20000 }; /* shorter than a grant */

static char *rule[64]; /* the words of the page, without the user's name and password */
static size_t words;
static const char *scheme; /* in URLs: unix or redis+cluster */
static bool polls;         /* the user gets no messages, so its acquires never queue */

static void add_words(char *from) {
    *strstr(from, "```") = '\0';
    for (char *word = strtok(from, " \n"); word != NULL; word = strtok(NULL, " \n"))
        rule[words++] = word;
}

static void remove_word(const char *word) {
    for (size_t i = 0; i < words; i++)
        if (strcmp(rule[i], word) == 0)
            rule[i] = rule[--words];
}

/* Read the command in the page's section, word by word. */
static int read_rule(void **state) {
    static char page[65536];
    (void)state;
    FILE *file = fopen(HOLDFAST_SOURCE_DIR "/docs/connecting.md", "r");
    if (file == NULL)
        return 1;
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    char *from = strstr(page, "\nACL SETUSER app reset on >secret\n");
    if (from == NULL)
        return 1;
    char *more = strstr(from, "  ```\n  +cluster|slots");
    if (more == NULL)
        return 1;
    more = strchr(more, '\n');
    add_words(strchr(from + 1, '\n'));
    if (strcmp(scheme, "unix") != 0) {
        remove_word("+subscribe");
        remove_word("+publish");
        remove_word("+pubsub|numsub");
        add_words(more);
    }
    return 0;
}

/* Start a Cluster of one node, which all tests then use. */
static int start_one(void **state) {
    if (open_folder(state) != 0 || read_rule(state) != 0)
        return 1;
    alarm(60);
    nodes[0] = free_port();
    const char *port = number(nodes[0]), *path = text("%s/socket", folder);
    node_pids[0] = START("--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder,
                         "--unixsocket", path, "--cluster-enabled", "yes");
    assert_soon(answers(nodes[0]));
    serve(nodes[0], 0, SLOTS - 1);
    assert_soon(node_says(0, "cluster_state:ok"));
    setenv("HOLDFAST_TEST_UNIX_URL", text("unix://%s", path), 1);
    return 0;
}

static int stop_one(void **state) {
    stop_server(&node_pids[0]);
    return remove_folder(state);
}

/* Return whether a user without this word is served nevertheless, by polling. */
static bool can_do_without(const char *word) {
    static const char *const optional[] = {
        "+subscribe", "+ping",       "+publish",  "+pubsub|numsub",
        "&hf:*",      "+ssubscribe", "+spublish", "+pubsub|shardnumsub"};
    for (size_t i = 0; i < COUNT(optional); i++)
        if (strcmp(word, optional[i]) == 0)
            return true;
    return false;
}

/* Set the page's user, without one word. */
static void set_user(const char *without) {
    const char *arguments[80] = {"ACL", "SETUSER", "app", "reset", "on", ">secret"};
    int count = 6;
    polls = without != NULL && strcmp(without, "+ping") != 0 && can_do_without(without);
    for (size_t i = 0; i < words; i++)
        if (without == NULL || strcmp(rule[i], without) != 0)
            arguments[count++] = rule[i];
    good(asked(redisCommandArgv(raw(), count, arguments, NULL), "ACL SETUSER"));
    TELL("ACL LOG RESET");
}

static hf_client *open_user(void) {
    const char *place = unix_url() + strlen("unix://");
    if (strcmp(scheme, "unix") != 0)
        place = text("127.0.0.1:%d", nodes[0]);
    return open_at(text("%s://app:secret@%s", scheme, place));
}

/* Return whether the server has refused what this word allows. */
static bool refused(const char *word) {
    redisReply *log = TELL("ACL LOG");
    const char *what = word + strspn(word, "+~&");
    if (!tells_expiry()) /* before 7.0 the log does not name the subcommand */
        what = text("%.*s", (int)strcspn(what, "|"), what);
    for (size_t i = 0; i < log->elements; i++) {
        const redisReply *entry = log->element[i];
        const char *reason = "", *object = "";
        for (size_t j = 0; j + 1 < entry->elements; j += 2) {
            if (strcmp(entry->element[j]->str, "reason") == 0)
                reason = entry->element[j + 1]->str;
            if (strcmp(entry->element[j]->str, "object") == 0)
                object = entry->element[j + 1]->str;
        }
        if (*word == '~'
                ? strcmp(reason, "key") == 0 && strncmp(object, what, strlen(what) - 1) == 0
            : *word == '&' ? strcmp(reason, "channel") == 0
                           : strcmp(reason, "command") == 0 && strcmp(object, what) == 0)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------ Everything */

static hf_client *ann, *ben; /* both log in as the user */
static hf_lock *anns, *bens;
static char message[600]; /* of the first call that failed */

/* Compare a status. False: it differs, and the message is kept. */
static bool came_from(hf_status status, hf_status expected, const char *call) {
    if (status != expected && *message == '\0')
        snprintf(message, sizeof message, "%s: %s (%s)", hf_status_name(status), hf_error_message(),
                 call);
    return status == expected;
}
#define came(call, expected) came_from(call, expected, #call)

static bool released_from(hf_hold *hold, const char *where) {
    bool fine = came_from(hf_hold_release(hold), HF_OK, where);
    hf_hold_close(hold);
    return fine;
}
#define released(hold) released_from(hold, text("line %d", __LINE__))

static bool changes_hold(void) {
    hf_hold *hold, *nested;
    if (!came(hf_lock_acquire(anns, 0, &hold), HF_OK))
        return false;
    bool fine = came(hf_hold_renew(hold), HF_OK) && came(hf_hold_check(hold), HF_OK) &&
                came(hf_hold_extend(hold, 100, 0), HF_OK) &&
                came(hf_hold_extend(hold, LEASE_MS, 1), HF_OK);
    if (fine && came(hf_lock_acquire(anns, 0, &nested), HF_OK)) {
        fine = came(hf_hold_extend(nested, 2 * LEASE_MS, 1), HF_OK);
        fine = released(nested) && fine;
    } else {
        fine = false;
    }
    return released(hold) && fine;
}

static bool never_ends(void) {
    hf_hold *hold;
    if (!came(hf_lock_acquire(anns, 0, &hold), HF_OK))
        return false;
    bool fine = came(hf_hold_extend(hold, HF_NEVER, 1), HF_OK);
    return released(hold) && fine;
}

static atomic_bool waited;

static void *wait_on_thread(void *out) {
    hf_hold **hold = out;
    hf_status status = hf_lock_acquire(bens, SOON_MS, hold);
    if (!came(status, HF_OK))
        *hold = NULL;
    waited = true;
    return NULL;
}

static bool is_queued(void) {
    return NUMBER("ZCOUNT {app:stock}app:stock:hf1:q 0 9007199254740992") > 0;
}

static int64_t soon(void) { return now_ms() + (polls ? 200 : SOON_MS); }

/* Let one client of this user wait in the queue for the other's lock, and get it. */
static bool hands_on(bool claims, int held_for_ms) {
    hf_hold *first, *second = NULL;
    pthread_t thread;
    if (!came(hf_lock_acquire(anns, 0, &first), HF_OK))
        return false;
    if (!came(hf_lock_acquire(bens, 0, &second), HF_EBUSY) ||
        !came(hf_lock_acquire(bens, 20, &second), HF_ETIMEOUT)) {
        released(first);
        return false;
    }
    waited = false;
    pthread_create(&thread, NULL, wait_on_thread, &second);
    for (int64_t late = soon(); !is_queued() && !waited && now_ms() < late;)
        sleep_ms(2);
    int64_t until = now_ms() + held_for_ms;
    bool fine = true;
    while (fine && now_ms() < until) {
        sleep_ms(100);
        fine = came(hf_hold_renew(first), HF_OK);
    }
    fine = released(first) && fine;
    pthread_join(thread, NULL);
    if (second == NULL)
        return false;
    if (claims) /* after a third of the lease */
        sleep_ms(LEASE_MS / 2);
    fine = came(hf_hold_check(second), HF_OK) && fine;
    return released(second) && fine;
}

/* Wait for the next started acquire, and release its hold. */
static bool given_and_released(void) {
    hf_completion done = {.size = sizeof done};
    int64_t until = now_ms() + SOON_MS;
    while (done.kind != HF_KIND_ACQUIRE && now_ms() < until) {
        sleep_ms(1);
        hf_client_next(ann, &done);
    }
    if (done.hold == NULL && *message == '\0')
        snprintf(message, sizeof message, "%s: %s", hf_status_name(done.status),
                 done.error.message);
    return done.hold != NULL && released(done.hold);
}

/* Take a free lock for a short lease, which a pause of the machine may end before the answer. */
static hf_status soon_over(hf_lock *lock, hf_hold **hold) {
    hf_status status;
    do
        status = hf_lock_acquire(lock, 0, hold);
    while (status == HF_EBUSY);
    return status;
}

/* Make the keeper's requests: started operations, and a wait for a dead holder's lock. */
static bool keeps(void) {
    hf_hold *first;
    hf_lock_options options = {.size = sizeof options, .lease_ms = 300, .renew = HF_OFF};
    hf_lock *brief;
    assert_status(hf_lock_open(ben, "app:stock", 9, "ben", 3, &options, &brief), HF_OK);
    bool fine = came(soon_over(brief, &first), HF_OK);
    hf_lock_close(brief);
    if (!fine)
        return false;
    hf_hold_close(first);               /* it ends with its lease */
    for (int64_t op = 1; op <= 2; op++) /* they ask together */
        assert_status(hf_lock_acquire_start(anns, NULL, 0, SOON_MS, NULL, op), HF_OK);
    for (int i = 0; i < 2; i++)
        fine = given_and_released() && fine;
    return fine;
}

static bool looks_and_breaks(void) {
    hf_lock_info info = {.size = sizeof info};
    hf_lock_options options = {
        .size = sizeof options, .lease_ms = 100, .renew = HF_OFF, .heal = HF_ON};
    hf_lock *lock;
    hf_hold *hold;
    if (!came(hf_lock_acquire(anns, 0, &hold), HF_OK))
        return false;
    bool fine = came(hf_lock_inspect(bens, 0, &info, NULL), HF_OK) &&
                came(hf_lock_break(bens, info.fence, 0), HF_OK);
    hf_hold_release(hold);
    hf_hold_close(hold);
    if (!fine)
        return false;
    TELL("SET app:theirs x"); /* another library's, without an end */
    assert_status(hf_lock_open(ann, "app:theirs", 10, NULL, 0, &options, &lock), HF_OK);
    fine = came(hf_lock_acquire(lock, SOON_MS, &hold), HF_OK);
    if (fine) {
        hf_status status = hf_hold_release(hold);
        fine = status == HF_ELOST || came(status, HF_OK); /* its lease is short */
        hf_hold_close(hold);
    }
    hf_lock_close(lock);
    return fine;
}

/* Acquire shared holds: one ends by itself, one is released, and a waiter gets the lock after them.
 */
static bool shares(void) {
    hf_lock_options brief = {
        .size = sizeof brief, .lease_ms = 200, .renew = HF_OFF, .mode = HF_SHARED};
    hf_lock_options options = {.size = sizeof options,
                               .lease_ms = LEASE_MS,
                               .renew = HF_OFF,
                               .mode = HF_SHARED,
                               .permits = 3};
    hf_lock *short_ones, *readers;
    hf_lock_info info = {.size = sizeof info};
    hf_hold *first = NULL, *second = NULL, *third = NULL;
    assert_status(hf_lock_open(ann, "app:stock", 9, "a", 1, &brief, &short_ones), HF_OK);
    assert_status(hf_lock_open(ben, "app:stock", 9, NULL, 0, &options, &readers), HF_OK);
    bool fine = came(soon_over(short_ones, &first), HF_OK) &&
                came(hf_lock_acquire(readers, 0, &second), HF_OK) &&
                came(hf_lock_inspect(readers, 0, &info, NULL), HF_OK);
    sleep_ms(220);
    fine = fine && came(hf_lock_acquire_start(anns, NULL, 0, SOON_MS, NULL, 9), HF_OK);
    struct pollfd ended = {.fd = hf_client_fd(ann), .events = POLLIN};
    for (int64_t late = soon(); fine && !is_queued() && now_ms() < late && poll(&ended, 1, 2) == 0;)
        continue;
    fine = fine && came(hf_lock_acquire(readers, 0, &third), HF_OK) && /* it nests */
           came(hf_hold_renew(second), HF_OK);
    hf_hold_close(first);
    fine = (third == NULL || released(third)) && fine;
    fine = (second == NULL || released(second)) && fine && given_and_released();
    hf_lock_close(short_ones);
    hf_lock_close(readers);
    return fine;
}

/* Run all steps until one fails. */
static bool everything(bool patient) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = LEASE_MS, .renew = HF_OFF};
    *message = '\0';
    TELL("FLUSHALL");
    TELL("SCRIPT FLUSH");
    ann = open_user();
    ben = open_user();
    assert_status(hf_lock_open(ann, "app:stock", 9, NULL, 0, &options, &anns), HF_OK);
    assert_status(hf_lock_open(ben, "app:stock", 9, "ben", 3, &options, &bens), HF_OK);
    bool fine = changes_hold() && hands_on(patient, patient ? 3500 : 0) && keeps() &&
                hands_on(false, 0) && looks_and_breaks() && never_ends() && shares();
    hf_lock_close(anns);
    hf_lock_close(bens);
    hf_client_close(ann);
    hf_client_close(ben);
    return fine;
}

/* ----------------------------------------------------------------- Tests */

static int afresh(void **state) {
    (void)state;
    alarm(100);
    TELL("FLUSHALL");
    return 0;
}

static void test_the_rule_of_the_page_allows_everything(void **state) {
    (void)state;
    set_user(NULL);
    if (!everything(true))
        fail_msg("refused: %s", message);
    redisReply *log = TELL("ACL LOG");
    for (size_t i = 0; i < log->elements; i++) {
        const char *object = log->element[i]->element[7]->str;
        assert_true(strncmp(object, "client", 6) == 0 || strcmp(object, "info") == 0 ||
                    strcmp(object, "hf1:members") == 0);
    }
}

static void test_the_rule_reaches_no_other_keys_and_channels(void **state) {
    hf_lock *lock;
    (void)state;
    set_user(NULL);
    ann = open_user();
    assert_status(hf_lock_open(ann, "other:stock", 11, NULL, 0, NULL, &lock), HF_OK);
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_ESERVER);
    assert_message("NOPERM");
    if (tells_expiry()) /* 7.0 */
        assert_message("~other:stock");
    hf_lock_close(lock);
    hf_client_close(ann);
}

static void test_what_is_missing_is_named_and_no_lock_is_left(void **state) {
    (void)state;
    bool tells = tells_expiry(); /* 7.0 */
    for (size_t i = 0; i < words; i++) {
        if (strcmp(rule[i], "resetchannels") == 0)
            continue; /* only Redis 6.2 needs it */
        set_user(rule[i]);
        bool fine = everything(strcmp(rule[i], "+ping") == 0);
        print_message("without %s: %s\n", rule[i], fine ? "served" : message);
        assert_int_equal(fine, can_do_without(rule[i]));
        if (!refused(rule[i]))
            fail_msg("%s: nothing needs it", rule[i]);
        if (!fine) {
            const char *name = rule[i] + strspn(rule[i], "+~&");
            assert_int_equal(strncmp(message, "HF_ESERVER", 10), 0);
            /* Before 7.0 the server does not report it for a script. */
            if (strncmp(name, "eval", 4) == 0)
                assert_non_null(strstr(message, text("'%s'", name)));
            else if (tells)
                assert_non_null(strstr(message, text("%.*s", (int)strcspn(rule[i], "*"), rule[i])));
        }
        /* The lock ends with its lease at the latest: the clients that renewed it are closed. */
        long long left_ms = NUMBER("PTTL app:stock");
        assert_int_not_equal(left_ms, -1);
        assert_true(left_ms <= 2 * LEASE_MS);
        /* A place that the user may not leave is skipped, and gone within half a minute. */
        assert_true(NUMBER("PTTL {app:stock}app:stock:hf1:q") != -1);
    }
    TELL("ACL DELUSER app");
}

/* The permissions that only a cluster needs. Asking for a slot that is moving, and leaving a
 * channel, would take longer than this test. */
static void test_what_a_cluster_needs_is_named_or_done_without(void **state) {
    static const char *const sharded[] = {"+ssubscribe", "+spublish", "+pubsub|shardnumsub"};
    (void)state;
    for (size_t i = 0; i < COUNT(sharded); i++) {
        set_user(sharded[i]);
        if (!everything(false))
            fail_msg("without %s: %s", sharded[i], message);
        if (!refused(sharded[i]))
            fail_msg("%s: nothing needs it", sharded[i]);
    }
    set_user("+cluster|slots");
    hf_client *client;
    assert_status(
        hf_client_open(text("redis+cluster://app:secret@127.0.0.1:%d", nodes[0]), NULL, &client),
        HF_ESERVER);
    assert_message("CLUSTER SLOTS");
    TELL("ACL DELUSER app");
}

#define TEST(name) cmocka_unit_test_setup(name, afresh)

/* Run the tests; with the argument `cluster`, on a Cluster. */
int main(int count, char **arguments) {
    scheme = count > 1 && strcmp(arguments[1], "cluster") == 0 ? "redis+cluster" : "unix";
    if (strcmp(scheme, "unix") != 0) {
        const struct CMUnitTest sharded[] = {
            TEST(test_the_rule_of_the_page_allows_everything),
            TEST(test_the_rule_reaches_no_other_keys_and_channels),
            TEST(test_what_a_cluster_needs_is_named_or_done_without),
        };
        return cmocka_run_group_tests(sharded, start_one, stop_one);
    }

    const struct CMUnitTest tests[] = {
        TEST(test_the_rule_of_the_page_allows_everything),
        TEST(test_the_rule_reaches_no_other_keys_and_channels),
        TEST(test_what_is_missing_is_named_and_no_lock_is_left),
    };
    return cmocka_run_group_tests(tests, read_rule, NULL);
}
