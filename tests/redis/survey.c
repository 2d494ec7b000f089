/* The report of a client about its servers: whether they answer, and whether their settings fit. */
#include "../server.h"

#include <signal.h>

static hf_client *client;
static hf_finding found[HF_FINDINGS_MAX];
static size_t count;

/* Return the finding about the subject, or NULL. */
static const hf_finding *about(const char *subject) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(found[i].subject, subject) == 0)
            return &found[i];
    return NULL;
}

static void survey(hf_client *of, const char *name) {
    assert_status(
        hf_client_survey(of, 0, name, name != NULL ? strlen(name) : 0, found, COUNT(found), &count),
        HF_OK);
    for (size_t i = 0; i < count; i++)
        print_message("%d %s: %s\n", (int)found[i].level, found[i].subject, found[i].text);
}

static void assert_found(const char *subject, int level, const char *part) {
    const hf_finding *one = about(subject);
    if (one == NULL)
        fail_msg("nothing about %s", subject);
    else if (one->level != level || strstr(one->text, part) == NULL)
        fail_msg("%s: %d %s", subject, (int)one->level, one->text);
}

static int afresh(void **state) {
    (void)state;
    start_afresh();
    TELL("CONFIG SET maxmemory-policy noeviction");
    TELL("CONFIG SET appendonly yes");
    TELL("CONFIG SET timeout 0");
    TELL("CONFIG SET tcp-keepalive 60");
    client = open_client();
    return 0;
}

static int end(void **state) {
    (void)state;
    hf_client_close(client);
    TELL("CONFIG SET appendonly no");
    return 0;
}

static void test_a_server_for_few_connections_is_not_nearly_full(void **state) {
    (void)state;
    TELL("CONFIG SET maxclients 50");
    survey(client, NULL);
    assert_found("connections", HF_FINDING_GOOD, "of 50 are open");
    TELL("CONFIG SET maxclients 10000");
}

static void test_a_ping_asks_the_server(void **state) {
    size_t servers = 9;
    (void)state;
    long long before = NUMBER("EVAL %s 0", "return tonumber(string.match(redis.call('INFO', "
                                           "'commandstats'), 'cmdstat_ping:calls=(%d+)') or 0)");
    assert_status(hf_client_ping(client, &servers), HF_OK);
    assert_int_equal(servers, 1);
    assert_status(hf_client_ping(client, NULL), HF_OK);
    long long after = NUMBER("EVAL %s 0", "return tonumber(string.match(redis.call('INFO', "
                                          "'commandstats'), 'cmdstat_ping:calls=(%d+)') or 0)");
    assert_int_equal(after - before, 2);
}

static void test_a_ping_goes_past_a_connection_that_has_died(void **state) {
    (void)state;
    assert_status(hf_client_ping(client, NULL), HF_OK);
    TELL("CLIENT KILL TYPE normal SKIPME yes");
    assert_status(hf_client_ping(client, NULL), HF_OK);
}

static void test_a_ping_of_a_server_that_hangs_ends_in_time(void **state) {
    hf_client_options options = {
        .size = sizeof options, .command_timeout_ms = 100, .connect_timeout_ms = 300};
    hf_client *hasty;
    (void)state;
    assert_soon(hf_client_open(unix_url(), &options, &hasty) == HF_OK);
    pid_t pid = (pid_t)atoi(getenv("HOLDFAST_TEST_REDIS_PID"));
    kill(pid, SIGSTOP);
    hf_status status = hf_client_ping(hasty, NULL);
    kill(pid, SIGCONT);
    assert_status(status, HF_ECONNECT);
    hf_client_close(hasty);
}

static void test_a_good_server_gets_no_warning(void **state) {
    (void)state;
    survey(client, "stock");
    for (size_t i = 0; i < count; i++)
        if (found[i].level == HF_FINDING_WARNING)
            fail_msg("%s: %s", found[i].subject, found[i].text);
    assert_found("version", HF_FINDING_GOOD, ".");
    assert_found("eviction", HF_FINDING_GOOD, "noeviction");
    assert_found("persistence", HF_FINDING_GOOD, "append-only");
    assert_found("replicas", HF_FINDING_NOTE, "none");
    assert_found("timeout", HF_FINDING_GOOD, "0");
    assert_found("keepalive", HF_FINDING_GOOD, "60");
    assert_found("clock", HF_FINDING_GOOD, "ms");
    assert_found("permissions", HF_FINDING_GOOD, "may");
    assert_null(about("memory"));
    assert_int_equal(NUMBER("DBSIZE"), 0);
    assert_status(hf_client_survey(client, 1, NULL, 0, found, COUNT(found), &count), HF_OK);
    assert_int_equal(count, 0);
}

static void test_each_bad_setting_is_found(void **state) {
    (void)state;
    TELL("CONFIG SET appendonly no");
    TELL("CONFIG SET maxmemory-policy allkeys-lru");
    TELL("CONFIG SET maxmemory 100mb");
    TELL("CONFIG SET timeout 7");
    TELL("CONFIG SET tcp-keepalive 0");
    TELL("CONFIG SET min-replicas-to-write 0");
    survey(client, NULL);
    assert_found("eviction", HF_FINDING_WARNING, "allkeys-lru");
    assert_found("memory", HF_FINDING_GOOD, "of 100 MB");
    assert_found("persistence", HF_FINDING_WARNING, "appendonly yes");
    assert_found("timeout", HF_FINDING_NOTE, "timeout 7");
    assert_found("keepalive", HF_FINDING_NOTE, "for ever");
    assert_null(about("permissions"));
    TELL("CONFIG SET maxmemory 2mb");
    survey(client, NULL);
    TELL("CONFIG SET maxmemory 0");
    if (NUMBER("EVAL %s 0", "return tonumber(string.match(redis.call('INFO', 'memory'), "
                            "'used_memory:(%d+)'))") > 2000000)
        assert_found("memory", HF_FINDING_WARNING, "soon");
    TELL("CONFIG SET maxmemory-policy allkeys-lru");
    survey(client, NULL);
    assert_found("eviction", HF_FINDING_NOTE, "ever set");
}

static void test_a_replica_is_found(void **state) {
    (void)state;
    TELL("REPLICAOF 127.0.0.1 1");
    survey(client, NULL);
    TELL("REPLICAOF NO ONE");
    assert_found("role", HF_FINDING_WARNING, "replica");
}

static hf_client *open_as(const char *rules) {
    const char *words[64] = {"ACL", "SETUSER", "app", "reset", "on", ">secret"};
    char *copy = strdup(rules);
    int n = 6;
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
        words[n++] = word;
    good(kept(redisCommandArgv(raw(), n, words, NULL)));
    free(copy);
    return open_at(text("unix://app:secret@%s", unix_url() + strlen("unix://")));
}

static void test_what_the_user_may_not_ask_is_a_note(void **state) {
    (void)state;
    hf_client *app = open_as("~app:* ~{app:* allchannels +@all -info -config");
    survey(app, "app:stock");
    assert_found("version", HF_FINDING_NOTE, "INFO");
    assert_found("timeout", HF_FINDING_NOTE, "CONFIG GET");
    assert_found("permissions", HF_FINDING_GOOD, "may");
    hf_client_close(app);
}

static void test_missing_permissions_are_warned_of(void **state) {
    (void)state;
    hf_client *app = open_as("~app:* ~{app:* allchannels +@all -eval -evalsha");
    survey(app, "app:stock");
    assert_found("permissions", HF_FINDING_WARNING, "'eval");
    survey(app, NULL);
    assert_null(about("permissions"));
    hf_client_close(app);
    app = open_as("~app:* ~{app:* allchannels +@all -zadd -time");
    survey(app, "app:stock");
    if (tells_expiry()) /* Redis 7.0 reports it */
        assert_found("permissions", HF_FINDING_WARNING, "+zadd");
    assert_found("clock", HF_FINDING_WARNING, "TIME");
    survey(app, "other");
    assert_found("permissions", HF_FINDING_WARNING, "missing: ~other");
    hf_client_close(app);
    TELL("ACL DELUSER app");
}

static void test_wrong_arguments_are_refused(void **state) {
    (void)state;
    assert_status(hf_client_ping(NULL, NULL), HF_EINVAL);
    assert_status(hf_client_survey(NULL, 0, NULL, 0, found, COUNT(found), &count), HF_EINVAL);
    assert_status(hf_client_survey(client, 0, NULL, 0, NULL, COUNT(found), &count), HF_EINVAL);
    assert_status(hf_client_survey(client, 0, NULL, 0, found, 3, &count), HF_EINVAL);
    assert_status(hf_client_survey(client, 0, NULL, 0, found, COUNT(found), NULL), HF_EINVAL);
    assert_status(hf_client_survey(client, 0, "", 0, found, COUNT(found), &count), HF_EINVAL);
    assert_status(hf_client_survey(client, 0, "a:hf1:f", 7, found, COUNT(found), &count),
                  HF_EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, afresh, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_ping_asks_the_server),
        TEST(test_a_server_for_few_connections_is_not_nearly_full),
        TEST(test_a_ping_goes_past_a_connection_that_has_died),
        TEST(test_a_ping_of_a_server_that_hangs_ends_in_time),
        TEST(test_a_good_server_gets_no_warning),
        TEST(test_each_bad_setting_is_found),
        TEST(test_a_replica_is_found),
        TEST(test_what_the_user_may_not_ask_is_a_note),
        TEST(test_missing_permissions_are_warned_of),
        TEST(test_wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
