/* The map of a cluster: which node serves which slots. */
#include "../check.h"

#include "net/map.h"

#include <hiredis/hiredis.h>

/* Build a reply from its bytes in the protocol. */
static redisReply *reply_of(const char *bytes) {
    void *reply = NULL;
    redisReader *reader = redisReaderCreate();
    assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

static hf_status read_map(hf_map *map, int node, const char *bytes) {
    redisReply *reply = reply_of(bytes);
    hf_status status = hf_map_read(map, node, reply);
    freeReplyObject(reply);
    return status;
}

static hf_map *new_map(void) {
    hf_place seeds[] = {{.host = (char *)"one", .port = 7000},
                        {.host = (char *)"two", .port = 7001}};
    hf_map *map = hf_map_new(seeds, 2);
    assert_non_null(map);
    assert_int_equal(map->seeds, 2);
    assert_int_equal(map->owned[0], HF_SLOTS);
    return map;
}

static void assert_place(const hf_map *map, int node, const char *host, int port) {
    assert_in_range(node, 0, map->count - 1);
    assert_string_equal(map->nodes[node].host, host);
    assert_int_equal(map->nodes[node].port, port);
}

static void assert_serves(const hf_map *map, unsigned slot, const char *host, int port) {
    assert_place(map, map->slots[slot], host, port);
}

#define NODE(host, port) "*3\r\n" host ":" port "\r\n$2\r\nid\r\n"
#define RANGE(first, last, master) "*3\r\n:" first "\r\n:" last "\r\n" master
#define ONE "$3\r\none\r\n"
#define SIX "$3\r\n::6\r\n"

static void test_slots_go_to_the_masters_named(void **state) {
    (void)state;
    hf_map *map = new_map();
    assert_status(read_map(map, 0,
                           "*2\r\n" RANGE("0", "8191", NODE(ONE, "7000"))
                               RANGE("8192", "16383", NODE(SIX, "7005"))),
                  HF_OK);
    assert_serves(map, 0, "one", 7000);
    assert_serves(map, 8191, "one", 7000);
    assert_serves(map, 8192, "::6", 7005);
    assert_serves(map, 16383, "::6", 7005);
    assert_int_equal(map->owned[0], 8192);
    hf_map_free(map);
}

/* Replicas follow their master in the reply, and are never sent writes. */
static void test_replicas_serve_nothing(void **state) {
    (void)state;
    hf_map *map = new_map();
    assert_status(
        read_map(map, 0, "*1\r\n*4\r\n:0\r\n:16383\r\n" NODE(SIX, "7005") NODE(ONE, "7000")),
        HF_OK);
    assert_serves(map, 5, "::6", 7005);
    assert_int_equal(map->owned[0], 0);
    hf_map_free(map);
}

static void test_a_node_that_names_no_host_means_its_own(void **state) {
    (void)state;
    hf_map *map = new_map();
    assert_status(read_map(map, 1,
                           "*2\r\n" RANGE("0", "99", NODE("$-1\r\n", "7009"))
                               RANGE("100", "16383", NODE("$0\r\n\r\n", "7010"))),
                  HF_OK);
    assert_serves(map, 99, "two", 7009);
    assert_serves(map, 100, "two", 7010);
    int node = hf_map_redirect(map, 1, "MOVED 7 :7011");
    assert_place(map, node, "two", 7011);
    hf_map_free(map);
}

static void test_a_host_that_is_not_known_yet_is_left_out(void **state) {
    (void)state;
    hf_map *map = new_map();
    assert_status(read_map(map, 0,
                           "*2\r\n" RANGE("0", "99", NODE("$1\r\n?\r\n", "7009"))
                               RANGE("100", "200", NODE(SIX, "7005"))),
                  HF_OK);
    assert_serves(map, 99, "one", 7000);
    assert_serves(map, 100, "::6", 7005);
    assert_int_equal(hf_map_redirect(map, 0, "MOVED 7 ?:7009"), -1);
    hf_map_free(map);
}

static void test_moved_is_remembered_and_ask_is_not(void **state) {
    (void)state;
    hf_map *map = new_map();
    int node = hf_map_redirect(map, 0, "ASK 3999 10.0.0.1:6381");
    assert_place(map, node, "10.0.0.1", 6381);
    unsigned before = map->change; /* counts the new node, too */
    assert_int_equal(hf_map_redirect(map, 0, "ASK 3999 10.0.0.1:6381"), node);
    assert_serves(map, 3999, "one", 7000);
    assert_int_equal(map->change, before);
    assert_int_equal(hf_map_redirect(map, 0, "MOVED 3999 10.0.0.1:6381"), node);
    assert_serves(map, 3999, "10.0.0.1", 6381);
    assert_serves(map, 3998, "one", 7000);
    assert_int_equal(map->owned[node], 1);
    assert_true(map->change > before);
    assert_place(map, hf_map_redirect(map, 0, "MOVED 0 ::1:6382"), "::1", 6382);
    hf_map_free(map);
}

static void test_what_is_no_map_changes_nothing(void **state) {
    static const char *const bad[] = {
        "*0\r\n",
        "+OK\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n" RANGE("-1", "5", NODE(ONE, "7000")),
        "*1\r\n" RANGE("0", "16384", NODE(ONE, "7000")),
        "*1\r\n" RANGE("0", "5", NODE(ONE, "70000")),
        "*1\r\n" RANGE("0", "5", "*1\r\n" ONE),
        "*1\r\n" RANGE("0", "5", ":7\r\n"),
        "*2\r\n" RANGE("0", "5", NODE(SIX, "7005")) ":1\r\n",
    };
    static const char *const nowhere[] = {
        "MOVED",      "MOVED ",          "MOVED x one:1",    "MOVED 16384 one:1", "MOVED -1 one:1",
        "MOVED 5",    "MOVED 5 one",     "MOVED 5 one:0",    "MOVED 5 one:65536", "MOVED 5 one:1x",
        "ASK 5 one:", "MOVED 5one:7000", "WRONG 5 one:7000",
    };
    (void)state;
    hf_map *map = new_map();
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_status(read_map(map, 0, bad[i]), HF_EPROTOCOL);
    for (size_t i = 0; i < COUNT(nowhere); i++)
        assert_int_equal(hf_map_redirect(map, 0, nowhere[i]), -1);
    assert_int_equal(map->change, 0);
    assert_int_equal(map->owned[0], HF_SLOTS);
    hf_map_free(map);
}

/* Nodes join and leave for years: a node that no longer serves a slot makes room. */
static void test_nodes_that_are_gone_make_room(void **state) {
    (void)state;
    hf_map *map = new_map();
    for (int i = 0; i < 10 * HF_NODES_MAX; i++) {
        int node = hf_map_redirect(map, 0, text("MOVED 5 10.0.%d.%d:7000", i / 250, i % 250));
        assert_place(map, node, text("10.0.%d.%d", i / 250, i % 250), 7000);
    }
    assert_true(map->count < 5);
    assert_place(map, 0, "one", 7000);
    assert_place(map, 1, "two", 7001);
    hf_map_free(map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_go_to_the_masters_named),
        cmocka_unit_test(test_replicas_serve_nothing),
        cmocka_unit_test(test_a_node_that_names_no_host_means_its_own),
        cmocka_unit_test(test_a_host_that_is_not_known_yet_is_left_out),
        cmocka_unit_test(test_moved_is_remembered_and_ask_is_not),
        cmocka_unit_test(test_what_is_no_map_changes_nothing),
        cmocka_unit_test(test_nodes_that_are_gone_make_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
