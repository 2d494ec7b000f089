/* The names of the keys that the library leaves on a server: every script that it sends has a key,
 * and every key is one of those in docs/operations.md, and ends as that page states. */
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

/* Read the next line of MONITOR. All lines up to the marker have been read, so all commands before
 * it were sent. */
static const char *next_line(void) {
    void *reply;
    assert_int_equal(redisGetReply(monitor, &reply), REDIS_OK);
    return kept(reply)->str;
}

/* Copy a word, counted from 0, of a line of MONITOR without its quotes. False: there is no such
 * word. */
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
    &hf_script_renew,   &hf_script_selftest, &hf_script_share,       &hf_script_take,
    &hf_script_wait,
};
static const char *const names[] = {"acquire", "break",       "cancel",  "claim", "heal",
                                    "inspect", "permissions", "release", "renew", "selftest",
                                    "share",   "take",        "wait"};

/* Check that every script up to the marker has a key; seen: the scripts that were sent, by digest.
 */
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
            continue; /* the text has quotes; its digest was sent before */
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

static bool is_loaded(const hf_script *script) {
    redisReply *reply = ask("SCRIPT EXISTS %s", script->sha1);
    return reply->elements == 1 && reply->element[0]->integer == 1;
}

static void call_everything(hf_client *ann, hf_client *ben) {
    hf_lock *anns = lease_lock(ann, "k", 8000, HF_ON), *bens = lease_lock(ben, "k", 8000, HF_ON);
    hf_lock_info info = {.size = sizeof info};
    hf_hold *hold = held(anns);
    assert_status(hf_hold_renew(hold), HF_OK);
    for (int64_t ms = 50; !is_loaded(&hf_script_cancel); ms *= 2) /* until it has had a place */
        assert_status(hf_lock_acquire(bens, ms, NULL), HF_ETIMEOUT);
    for (int i = 0; i < 3; i++) { /* from the second time on they join a crowd */
        hold = handed_on(bens, hold);
        hold = handed_on(anns, hold);
    }
    assert_soon(hf_hold_remaining_ms(hold) < 7500);
    assert_soon(hf_hold_remaining_ms(hold) > 7500); /* it is claimed and renewed */
    assert_status(hf_lock_inspect(bens, 0, &info, NULL), HF_OK);
    assert_int_equal(info.fence, hf_hold_fence(hold));
    assert_status(hf_lock_break(bens, info.fence, 0), HF_OK);
    hf_hold_close(hold);
    TELL("SET k theirs");
    hf_lock *heals =
        open_lock(ben, "k", NULL, OPTIONS(.lease_ms = 1500, .renew = HF_OFF, .heal = HF_ON));
    assert_status(hf_lock_acquire(heals, 20000, &hold), HF_OK);
    hf_lock_close(heals);
    give_back(hold, HF_OK);
    /* Another lock, because a client uses the general way for one that was crowded. */
    hf_lock *reads = open_lock(ben, "shelf", NULL, OPTIONS(.mode = HF_SHARED));
    give_back(held(reads), HF_OK);
    hf_lock_close(reads);
    hf_lock_close(anns);
    hf_lock_close(bens);
}

static void lack_a_permission(void) {
    TELL("ACL SETUSER lacking on >secret ~* allchannels +@all -hset");
    hf_client *client = open_at(text("unix://lacking:secret@%s", unix_url() + strlen("unix://")));
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

/* ------------------------------------------------- The table of the page */

enum { LEASE_MS = 20000 };

typedef struct row {
    char suffix[32], type[16];
    long long most_ms;
    bool seen;
} row;

/* Read "1 day", "10 min", "30 s", or "the lease", to which an eighth is added; here "as its caller
 * chooses" is the same. */
static long long read_time(const char *cell) {
    static const struct {
        const char *unit;
        long long ms;
    } units[] = {{"s", 1000}, {"min", 60000}, {"day", 86400000}};
    char unit[8];
    int count;
    if (strncmp(cell, "the lease", 9) == 0 || strncmp(cell, "as its caller chooses", 21) == 0)
        return LEASE_MS + (strstr(cell, "eighth") != NULL ? LEASE_MS / 8 : 0);
    if (sscanf(cell, "%d %7[a-z]", &count, unit) == 2)
        for (size_t i = 0; i < COUNT(units); i++)
            if (strcmp(unit, units[i].unit) == 0)
                return count * units[i].ms;
    fail_msg("the page has a time that this test cannot read: %s", cell);
    return 0;
}

/* Read the rows of "The keys, and how long they stay". */
static size_t read_page(row *rows, size_t capacity) {
    static char page[65536];
    FILE *file = fopen(HOLDFAST_SOURCE_DIR "/docs/operations.md", "r");
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    char *line = strstr(page, "\n## The keys");
    assert_non_null(line);
    size_t count = 0;
    while ((line = strstr(line + 1, "\n| `")) != NULL && count < capacity) {
        char key[64], most[64];
        row *at = &rows[count];
        if (sscanf(line, "\n| `%63[^`]` | %15[a-z] | %*[^|] | %63[^|]", key, at->type, most) != 3)
            break; /* another table */
        const char *suffix = strstr(key, ":hf1:");
        snprintf(at->suffix, sizeof at->suffix, "%s", suffix != NULL ? suffix : "");
        at->most_ms = read_time(most);
        at->seen = false;
        count++;
    }
    return count;
}

static row *row_of(const char *key, row *rows, size_t count) {
    const char *suffix = strstr(key, ":hf1:");
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].suffix, suffix != NULL ? suffix : "") == 0)
            return &rows[i];
    fail_msg("the page does not have the key %s", key);
    return NULL;
}

/* A day counts from the last fence, which may be some microseconds ahead of the clock. */
enum { AHEAD_MS = 1000 };

static void check_keys(row *rows, size_t count) {
    redisReply *keys = TELL("KEYS *");
    for (size_t i = 0; i < keys->elements; i++) {
        const char *key = keys->element[i]->str;
        row *its = row_of(key, rows, count);
        long long left = NUMBER("PTTL %s", key);
        if (left == -2)
            continue; /* it has just ended */
        its->seen = true;
        assert_string_equal(STRING("TYPE %s", key), its->type);
        if (left < 0 || left > its->most_ms + AHEAD_MS)
            fail_msg("%s ends in %lld ms; the page says %lld", key, left, its->most_ms);
    }
}

static void test_every_key_is_in_the_page_and_ends_as_it_says(void **state) {
    row rows[8];
    size_t count = read_page(rows, COUNT(rows));
    char token[HF_TOKEN_MAX];
    size_t length;
    (void)state;
    assert_int_equal(count, 6);
    hf_client *ann = open_client(), *ben = open_client();
    hf_lock *lock = open_lock(ann, "k", NULL, OPTIONS(.lease_ms = LEASE_MS, .renew = HF_OFF));
    hf_lock *bens = open_lock(ben, "k", NULL, OPTIONS(.lease_ms = LEASE_MS, .renew = HF_OFF));
    hf_lock *moves = open_lock(ann, "moves", NULL, OPTIONS(.lease_ms = LEASE_MS, .renew = HF_OFF));
    hf_lock *paid = open_lock(ann, "paid", NULL, OPTIONS(.lease_ms = LEASE_MS, .renew = HF_OFF));
    hf_lock *readers = open_lock(ann, "readers", NULL,
                                 OPTIONS(.lease_ms = LEASE_MS, .renew = HF_OFF, .mode = HF_SHARED));
    hf_hold *hold = held(lock), *reads = held(readers), *beside = held(readers);
    hf_hold *moved = held(moves), *call;
    pthread_t thread;
    void *waited;
    check_keys(rows, count);
    pthread_create(&thread, NULL, wait_for_it, bens);
    assert_soon(NUMBER("ZCOUNT {k}k:hf1:q 0 9007199254740992") > 0);
    check_keys(rows, count); /* held, waited for, shared */
    assert_status(hf_hold_hand_over(moved, token, sizeof token, &length), HF_OK);
    hf_hold_close(moved);
    assert_status(hf_lock_adopt(moves, token, length, &moved), HF_OK);
    give_back(moved, HF_OK);
    give_back(hold, HF_OK);
    pthread_join(thread, &waited);
    check_keys(rows, count); /* handed on; and a dead id */
    give_back(waited, HF_OK);
    give_back(reads, HF_OK);
    give_back(beside, HF_OK);
    assert_status(hf_once_begin(paid, 0, NULL, NULL, 0, &call), HF_OK);
    assert_status(hf_once_finish(call, HF_ONCE_DONE, "r", 1, LEASE_MS), HF_OK);
    hf_hold_close(call);
    check_keys(rows, count);
    for (size_t i = 0; i < count; i++)
        if (!rows[i].seen)
            fail_msg("no key like %s was there", rows[i].suffix);
    redisReply *left = TELL("KEYS *");
    for (size_t i = 0; i < left->elements; i++)
        if (strstr(left->element[i]->str, ":hf1:f") == NULL &&
            strstr(left->element[i]->str, ":hf1:d") == NULL &&
            strstr(left->element[i]->str, ":hf1:q") == NULL &&
            strstr(left->element[i]->str, ":hf1:r") == NULL)
            fail_msg("%s is left of a lock that is free", left->element[i]->str);
    hf_lock_close(lock);
    hf_lock_close(bens);
    hf_lock_close(moves);
    hf_lock_close(paid);
    hf_lock_close(readers);
    hf_client_close(ann);
    hf_client_close(ben);
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
        TEST(test_every_key_is_in_the_page_and_ends_as_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
