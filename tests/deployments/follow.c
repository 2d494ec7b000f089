/* A client that follows the master, from within: the transport alone. */
#include "../transport.h"
#include "sentinels.h"

#include "net/transport.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

/* The next connection to another server than this one ends right after its log-in. */
static atomic_int alone;

int __real_getpeername(int fd, struct sockaddr *peer, socklen_t *size);
int __wrap_getpeername(int fd, struct sockaddr *peer, socklen_t *size);
int __wrap_getpeername(int fd, struct sockaddr *peer, socklen_t *size) {
    int outcome = __real_getpeername(fd, peer, size), only = atomic_load(&alone);
    if (only == 0 || ntohs(((struct sockaddr_in *)peer)->sin_port) == only)
        return outcome;
    atomic_store(&alone, 0);
    errno = ENOTCONN;
    return -1;
}

/* Send a request; the answer names the server. */
static hf_status ask_for_stock(hf_answer *answer) {
    hf_names *names;
    hf_request request;
    assert_status(hf_names_new("stock", 5, 0, &names), HF_OK);
    hf_request_inspect(&request, names, 0, 0, false);
    hf_status status = hf_transport_call(transport, &request, hf_after(hf_now(), 30000), answer);
    freeReplyObject(answer->reply);
    hf_request_free(&request);
    hf_names_drop(names);
    return status;
}

static bool has_our_connection(int port) {
    const redisReply *reply = tell(port, "CLIENT LIST TYPE normal");
    return reply != NULL && strstr(reply->str, " name=holdfast ") != NULL;
}

static int index_of(long long port) {
    for (int i = 0; i < NODES; i++)
        if (nodes[i] == port)
            return i;
    fail_msg("no node listens on %lld", port);
    return 0;
}

/* Return whether the sentinel believes that a replica is a master: it would demote that server,
 * even one that has been promoted since. */
static bool would_demote(int sentinel) {
    const redisReply *replicas = tell(sentinels[sentinel], "SENTINEL REPLICAS mine");
    for (size_t i = 0; i < replicas->elements; i++) {
        const redisReply *words = replicas->element[i];
        for (size_t j = 0; j + 1 < words->elements; j += 2)
            if (strcmp(words->element[j]->str, "role-reported") == 0 &&
                strcmp(words->element[j + 1]->str, "master") == 0)
                return true;
    }
    return false;
}

/* Wait until the others are replicas of the master; each sentinel tells a demoted master after
 * eight seconds. */
static void settle(void) {
    int64_t until = now_ms() + 40000;
    for (int i = 0; i < NODES; i++)
        while (!role_is(nodes[i], nodes[i] == master_port() ? "master" : "slave") ||
               would_demote(i)) {
            assert_true(now_ms() < until);
            sleep_ms(10);
        }
}

/* Return the sentinel that the client listens to, or -1. */
static int watched(void) {
    for (int i = 0; i < NODES; i++)
        if (strstr(tell(sentinels[i], "CLIENT LIST")->str, "cmd=subscribe") != NULL)
            return i;
    return -1;
}

static int64_t wait_for_version(unsigned version) {
    eventfd_t times;
    while (hf_discovery_version(transport->discovery, 0) != version)
        assert_int_equal(eventfd_read(wake, &times), 0);
    return now_ms();
}

static void test_a_planned_failover_is_followed_at_once(void **state) {
    (void)state;
    hf_answer answer;
    open_transport(text("%s?command_timeout=30", url));
    long long old = master_port();
    settle();
    unsigned version = hf_discovery_version(transport->discovery, 0);
    assert_status(ask_for_stock(&answer), HF_OK);
    assert_soon(watched() >= 0);
    fail_over((watched() + 1) % NODES);
    int64_t told = now_ms();
    assert_soon(master_port() != old);
    int64_t named = now_ms();
    int64_t knew = wait_for_version(version + 1);
    print_message("FAILOVER, a sentinel named the new master after %lld ms, the client knew after "
                  "%lld ms\n",
                  (long long)(named - told), (long long)(knew - told));
    assert_in_range(knew - named, 0, 6000); /* before the old master ends its connections */
    /* The old one still reports that it is a master, and is no longer asked. */
    assert_true(role_is((int)old, "master"));
    assert_status(ask_for_stock(&answer), HF_OK);
    assert_false(answer.doubtful);
    assert_false(has_our_connection((int)old));
    assert_true(has_our_connection((int)master_port()));
    close_transport();
}

/* H89: otherwise the watch would accept it, and the pool would stay at the old one. */
static void test_a_new_master_that_hangs_up_is_met_again(void **state) {
    (void)state;
    hf_answer answer;
    settle();
    open_transport(text("%s?command_timeout=30", url));
    long long old = master_port();
    unsigned version = hf_discovery_version(transport->discovery, 0);
    assert_status(ask_for_stock(&answer), HF_OK);
    assert_soon(watched() >= 0);
    atomic_store(&alone, (int)old);
    fail_over((watched() + 1) % NODES);
    assert_soon(hf_discovery_version(transport->discovery, 0) == version + 1);
    assert_int_equal(atomic_load(&alone), 0);
    close_transport();
}

static void *ask_on_a_thread(void *answer) { return (void *)(intptr_t)ask_for_stock(answer); }

static void test_what_a_replaced_master_answers_does_not_count(void **state) {
    (void)state;
    hf_answer answer;
    pthread_t thread;
    void *status;
    settle();
    open_transport(text("%s?command_timeout=30", url));
    int old = index_of(master_port());
    unsigned version = hf_discovery_version(transport->discovery, 0);
    assert_status(ask_for_stock(&answer), HF_OK);
    set_down_after(500);
    kill(node_pids[old], SIGSTOP);
    assert_int_equal(pthread_create(&thread, NULL, ask_on_a_thread, &answer), 0);
    wait_for_version(version + 1);
    kill(node_pids[old], SIGCONT); /* now it answers, as the former master */
    pthread_join(thread, &status);
    set_down_after(15000);
    assert_ptr_equal(status, HF_OK);
    assert_true(answer.doubtful);
    assert_soon(!has_our_connection(nodes[old]));
    assert_soon(has_our_connection((int)master_port())); /* perhaps as a late sentinel names it */
    close_transport();
}

static void test_another_sentinel_is_followed_when_one_hangs(void **state) {
    (void)state;
    settle();
    open_transport(text("%s?command_timeout=30", url));
    unsigned version = hf_discovery_version(transport->discovery, 0);
    assert_soon(watched() >= 0);
    int hangs = watched();
    kill(sentinel_pids[hangs], SIGSTOP);
    fail_over((hangs + 1) % NODES);
    wait_for_version(version + 1);
    kill(sentinel_pids[hangs], SIGCONT);
    close_transport();
}

static void test_a_closed_client_listens_to_no_sentinel(void **state) {
    (void)state;
    open_transport(text("%s?command_timeout=30", url));
    assert_soon(watched() >= 0);
    close_transport();
    assert_soon(watched() < 0);
}

static long long connections(redisContext *sentinel) {
    redisReply *reply = kept(redisCommand(sentinel, "INFO stats"));
    return atoll(strchr(strstr(reply->str, "total_connections_received:"), ':') + 1);
}

/* A sentinel learns nothing of a failover, as on the old master's side of a partition. */
static void test_a_sentinel_that_missed_the_failover_is_not_followed(void **state) {
    (void)state;
    hf_answer answer;
    settle();
    int port = free_port(), old = (int)master_port();
    const char *file = text("%s/deaf.conf", folder);
    FILE *conf = fopen(file, "w");
    fprintf(conf, "port %d\nsentinel monitor mine 127.0.0.1 %d 2\n", port, old);
    fprintf(conf, "sentinel rename-command mine SUBSCRIBE NOTHING\n"
                  "sentinel rename-command mine PUBLISH NOTHING\n");
    fclose(conf);
    pid_t deaf = START(file, "--sentinel");
    assert_soon(answers(port));
    redisContext *sentinel = redisConnect("127.0.0.1", port);
    char *places = text("%.*s,127.0.0.1:%d", (int)(strrchr(url, '/') - url), url, port);
    places = text("%s/mine?connect_timeout=0.3&command_timeout=30", places);
    /* The client chooses at random: repeat until it listens to a sentinel that publishes. */
    for (long long before = connections(sentinel);; before = connections(sentinel)) {
        open_transport(places);
        assert_soon(watched() >= 0 || connections(sentinel) > before);
        if (connections(sentinel) == before)
            break;
        close_transport();
        assert_soon(watched() < 0);
    }
    unsigned version = hf_discovery_version(transport->discovery, 0);
    fail_over(0);
    wait_for_version(version + 1);
    assert_status(ask_for_stock(&answer), HF_OK);
    long long before = connections(sentinel);
    for (int i = 0; i < NODES; i++)
        kill(sentinel_pids[i], SIGSTOP);
    /* Two connections for the sentinel's answer; when the next one begins, the client has decided.
     */
    assert_soon(connections(sentinel) >= before + 3 ||
                hf_discovery_version(transport->discovery, 0) != version + 1);
    assert_int_equal(hf_discovery_version(transport->discovery, 0), version + 1);
    assert_true(role_is(old, "master"));
    assert_status(ask_for_stock(&answer), HF_OK);
    assert_false(has_our_connection(old));
    close_transport();
    redisFree(sentinel);
    stop_server(&deaf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_closed_client_listens_to_no_sentinel, afresh),
        cmocka_unit_test_setup(test_a_planned_failover_is_followed_at_once, afresh),
        cmocka_unit_test_setup(test_a_new_master_that_hangs_up_is_met_again, afresh),
        cmocka_unit_test_setup(test_what_a_replaced_master_answers_does_not_count, afresh),
        cmocka_unit_test_setup(test_another_sentinel_is_followed_when_one_hangs, afresh),
        cmocka_unit_test_setup(test_a_sentinel_that_missed_the_failover_is_not_followed, afresh),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
