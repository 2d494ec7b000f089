/* What the library names and leaves on a server: every script that it sends has a key. */
#include "../server.h"

#include <pthread.h>
#include <strings.h>

#include "protocol/scripts.h"

/* ---------------------------------------------------------- What was sent */

static redisContext *monitor;

static void watch(void) {
    monitor = connect_raw();
    good(kept(redisCommand(monitor, "MONITOR")));
}

/* The line up to the marker has been read; so everything before it was sent. */
static const char *next_line(void) {
    void *reply;
    assert_int_equal(redisGetReply(monitor, &reply), REDIS_OK);
    return kept(reply)->str;
}

/* The word, from 0, of a line of MONITOR: without its quotes. False: there is none. */
static bool word(const char *line, int index, char *to, size_t size) {
    const char *at = strstr(line, "] \"");
    for (; at != NULL && index > 0; index--)
        at = strstr(at + 3, "\" \"");
    if (at == NULL)
        return false;
    snprintf(to, size, "%.*s", (int)strcspn(at + 3, "\""), at + 3);
    return true;
}

static const hf_script *const scripts[] = {
    &hf_script_acquire, &hf_script_break,    &hf_script_cancel,      &hf_script_claim,
    &hf_script_heal,    &hf_script_inspect,  &hf_script_permissions, &hf_script_release,
    &hf_script_renew,   &hf_script_selftest, &hf_script_take,        &hf_script_wait,
};
static const char *const names[] = {"acquire", "break",    "cancel",      "claim",
                                    "heal",    "inspect",  "permissions", "release",
                                    "renew",   "selftest", "take",        "wait"};

/* Every script up to the marker has a key; seen: which of them came, by digest. */
static void read_what_was_sent(const char *marker, bool *seen) {
    for (;;) {
        char command[16], digest[64], keys[16];
        const char *line = next_line();
        if (strstr(line, marker) != NULL)
            return;
        if (strstr(line, " lua] ") != NULL || !word(line, 0, command, sizeof command) ||
            strncasecmp(command, "eval", 4) != 0)
            continue;
        assert_true(word(line, 1, digest, sizeof digest));
        for (size_t i = 0; i < COUNT(scripts); i++)
            seen[i] = seen[i] || strcmp(digest, scripts[i]->sha1) == 0;
        if (strcasecmp(command, "evalsha") != 0)
            continue; /* the text has quotes; its digest came before */
        assert_true(word(line, 2, keys, sizeof keys));
        if (atoi(keys) < 1)
            fail_msg("a script without a key: %.200s", line);
    }
}

/* -------------------------------------------------------------- Every call */

static void *wait_for_it(void *lock) {
    hf_hold *hold = NULL;
    assert_status(hf_lock_acquire(lock, 10000, &hold), HF_OK);
    return hold;
}

static hf_hold *handed_on(hf_lock *to, hf_hold *from) {
    pthread_t thread;
    void *hold;
    pthread_create(&thread, NULL, wait_for_it, to);
    assert_soon(NUMBER("ZCOUNT {k}k:hf1:q 0 9007199254740992") > 0);
    give_back(from, HF_OK);
    pthread_join(thread, &hold);
    return hold;
}

static void call_everything(hf_client *ann, hf_client *ben) {
    hf_lock *anns = lease_lock(ann, "k", 300, HF_ON), *bens = lease_lock(ben, "k", 300, HF_ON);
    hf_lock_info info = {.size = sizeof info};
    hf_hold *hold = held(anns);
    assert_status(hf_hold_renew(hold), HF_OK);
    assert_status(hf_lock_acquire(bens, 50, NULL), HF_ETIMEOUT);
    hold = handed_on(bens, hold);
    hold = handed_on(anns, hold); /* it joins a crowd */
    sleep_ms(250);                /* it is claimed, and renewed */
    assert_status(hf_lock_inspect(bens, &info, NULL, 0, NULL), HF_OK);
    assert_int_equal(info.fence, hf_hold_fence(hold));
    assert_status(hf_lock_break(bens, info.fence, 0), HF_OK);
    hf_hold_close(hold);
    TELL("SET k theirs");
    hf_lock *heals = open_lock(ben, "k", NULL, OPTIONS(.lease_ms = 50, .heal = HF_ON));
    assert_status(hf_lock_acquire(heals, 5000, &hold), HF_OK);
    hf_lock_close(heals);
    give_back(hold, HF_OK);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

static void lack_a_permission(void) {
    hf_client *client;
    TELL("ACL SETUSER lacking on >secret ~* allchannels +@all -hset");
    assert_status(hf_client_open(text("unix://lacking:secret@%s", unix_url() + strlen("unix://")),
                                 NULL, &client),
                  HF_OK);
    hf_lock *lock = open_lock(client, "lacking", NULL, NULL);
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_ESERVER);
    hf_lock_close(lock);
    hf_client_close(client);
    TELL("ACL DELUSER lacking");
}

static void test_every_script_that_is_sent_has_a_key(void **state) {
    bool seen[COUNT(scripts)] = {false};
    (void)state;
    TELL("SCRIPT FLUSH");
    watch();
    hf_client *ann = open_client(), *ben = open_client();
    call_everything(ann, ben);
    lack_a_permission();
    TELL("ECHO the-end");
    read_what_was_sent("the-end", seen);
    for (size_t i = 0; i < COUNT(scripts); i++)
        if (!seen[i])
            fail_msg("%s was never sent", names[i]);
    hf_client_close(ann);
    hf_client_close(ben);
    redisFree(monitor);
}

static int afresh(void **state) {
    (void)state;
    start_afresh();
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, afresh)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_every_script_that_is_sent_has_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
