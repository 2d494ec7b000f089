/* Links alone: two nodes of a Cluster whose answers the test decides, and no client. */
#include "../network.h"

#include "net/links.h"

#include <sys/eventfd.h>

enum { A, B, NODES };

static fake nodes[NODES];
static atomic_bool all_at_a; /* otherwise the upper half of the slots is at B */
static atomic_int scripts_at_b;
static void (*script_at_b)(int fd, unsigned slot);
static unsigned slot_at_b;

/* ------------------------------------------------------------- The nodes */

static void say_text(int fd, const char *words) { say(fd, words, strlen(words)); }

static int add_slots(char *to, int from, int until, int port) {
    return sprintf(to, "*3\r\n:%d\r\n:%d\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", from, until, port);
}

static void say_slots(int fd) {
    char answer[256] = "*2\r\n";
    int half = atomic_load(&all_at_a) ? A : B;
    int length = 4 + add_slots(answer + 4, 0, 8191, nodes[A].port);
    add_slots(answer + length, 8192, 16383, nodes[half].port);
    say_text(fd, answer);
}

static void answer(int fd, int which, const redisReply *command) {
    const char *word = command->element[0]->str;
    char channel[512];
    if (strcmp(word, "HELLO") == 0) {
        say_text(fd, "*2\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n");
    } else if (strcmp(word, "CLUSTER") == 0) {
        say_slots(fd);
    } else if (strcmp(word, "SSUBSCRIBE") == 0) {
        const redisReply *name = command->element[1];
        snprintf(channel, sizeof channel, "*3\r\n$10\r\nssubscribe\r\n$%zu\r\n%s\r\n:1\r\n",
                 name->len, name->str);
        say_text(fd, channel);
    } else if (strncmp(word, "EVAL", 4) != 0) {
        say_text(fd, "+OK\r\n");
    } else if (which == A) {
        say_text(fd, ":1\r\n");
    } else {
        atomic_fetch_add(&scripts_at_b, 1);
        script_at_b(fd, slot_at_b);
    }
}

static void talk_to_one(void *node, int fd) {
    char bytes[8192];
    ssize_t length;
    redisReader *reader = redisReaderCreate();
    while ((length = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        void *command;
        redisReaderFeed(reader, bytes, (size_t)length);
        while (redisReaderGetReply(reader, &command) == REDIS_OK && command != NULL) {
            answer(fd, (int)((fake *)node - nodes), command);
            freeReplyObject(command);
        }
    }
    redisReaderFree(reader);
}

/* -------------------------------------------------------------- The links */

#define ID "0123456789abcdef0123456789abcdef"

static hf_transport *transport;
static hf_timers timers;
static hf_links *links;
static int wake_fd;

static void wake(hf_links *of) { (void)of; }
static void changed(hf_links *of, hf_channel *channel) { (void)of, (void)channel; }
static void silent(hf_links *of, hf_channel *channel, int64_t now, bool hopeless) {
    (void)of, (void)channel, (void)now, (void)hopeless;
}
static void deaf(hf_links *of, hf_link *link) { (void)of, (void)link; }
static void moved(hf_links *of, hf_channel *channel, hf_link *from) {
    (void)of, (void)channel, (void)from;
}
static const hf_listener listener = {.wake = wake,
                                     .changed = changed,
                                     .silent = silent,
                                     .deaf = deaf,
                                     .moved = moved,
                                     .replaced = wake};

static int set_up(void **state) {
    hf_client_options none = {0};
    hf_address address;
    (void)state;
    atomic_store(&all_at_a, false);
    atomic_store(&scripts_at_b, 0);
    for (int i = 0; i < NODES; i++)
        fake_start_many(&nodes[i], talk_to_one, &nodes[i]);
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_status(hf_address_parse(text("redis+cluster://127.0.0.1:%d", nodes[A].port), &address),
                  HF_OK);
    assert_status(hf_address_options(&address, &none), HF_OK);
    assert_status(hf_transport_open(&address, &transport), HF_OK);
    hf_discovery_set_wake(transport->discovery, wake_fd);
    links = calloc(1, sizeof *links);
    assert_status(hf_links_begin(links, transport, &listener, &timers, ID), HF_OK);
    return 0;
}

static int tear_down(void **state) {
    hf_list left = {0};
    (void)state;
    hf_links_close(links);
    hf_links_take(links, &left);
    for (hf_item *at; (at = hf_list_take_first(&left)) != NULL;)
        hf_task_end(HF_OF(hf_task, item, at), HF_ECLOSED, NULL);
    hf_discovery_set_wake(transport->discovery, -1);
    hf_links_end(links);
    hf_transport_free(transport);
    free(links);
    free(timers.heap);
    timers = (hf_timers){0};
    for (int i = 0; i < NODES; i++)
        fake_stop(&nodes[i]);
    close(wake_fd);
    return 0;
}

static void watch(struct pollfd *fd, const hf_connection *connection) {
    *fd = (struct pollfd){.fd = -1};
    if (connection != NULL)
        *fd = (struct pollfd){connection->socket.fd, hf_connection_events(connection), 0};
}

static void drive(void) { hf_links_drive(links, hf_now()); }

/* Sleep until the links must be driven again. */
static void sleep_until_due(void) {
    struct pollfd fds[1 + 2 * NODES] = {{.fd = wake_fd, .events = POLLIN}};
    nfds_t count = 1;
    eventfd_t times;
    HF_EACH(at, &links->all) {
        watch(&fds[count++], HF_OF(hf_link, item, at)->commands);
        watch(&fds[count++], HF_OF(hf_link, item, at)->subscription);
    }
    int64_t ms = hf_until(hf_links_due(links), hf_now());
    poll(fds, count, ms < 10000 ? (int)ms : 10000);
    eventfd_read(wake_fd, &times);
}

static bool ended;
static hf_status how;

static void task_ended(hf_task *task, hf_status status, const redisReply *reply) {
    (void)task, (void)reply;
    ended = true;
    how = status;
}

/* Return the names of a lock of that node. */
static hf_names *names_at(int which) {
    for (int i = 0;; i++) {
        char name[16];
        hf_names *names;
        int length = snprintf(name, sizeof name, "k%d", i);
        assert_status(hf_names_new(name, (size_t)length, 0, &names), HF_OK);
        if ((names->slot >= 8192) == (which == B))
            return names;
        hf_names_drop(names);
    }
}

static void request(hf_names *names) {
    hf_task *task = hf_task_new(sizeof *task, NULL, task_ended, NULL);
    ended = false;
    hf_request_heal(&task->request, names, 1000);
    hf_task_submit(links, task, hf_after(hf_now(), 5000));
    for (drive(); !ended; drive())
        sleep_until_due();
    assert_status(how, HF_OK);
}

/* -------------------------------------------------------------- The tests */

static void send_to_a(int fd, unsigned slot) {
    char redirection[64];
    snprintf(redirection, sizeof redirection, "-ASK %u 127.0.0.1:%d\r\n", slot, nodes[A].port);
    say_text(fd, redirection);
}

/* The link that gets the request was driven before the link that redirects it. */
static void test_what_is_sent_on_to_another_node_is_sent_at_once(void **state) {
    (void)state;
    hf_names *here = names_at(A), *there = names_at(B);
    slot_at_b = there->slot;
    script_at_b = send_to_a;
    request(here);
    int64_t since = now_ms();
    request(there);
    assert_in_range(now_ms() - since, 0, 1000);
    hf_names_drop(here);
    hf_names_drop(there);
}

static void hang_up(int fd, unsigned slot) {
    (void)slot;
    if (atomic_load(&scripts_at_b) == 4)
        atomic_store(&all_at_a, true);
    shutdown(fd, SHUT_RDWR);
}

/* Return whether the task's link still exists. */
static bool has_link(const hf_task *task) {
    HF_EACH(at, &links->all)
    if (HF_OF(hf_link, item, at) == task->link)
        return true;
    return false;
}

/* A subscription's self-test waits to be sent again when its node no longer serves any slot. */
static void test_a_link_stays_until_what_is_bound_to_it_has_ended(void **state) {
    (void)state;
    hf_item user = {0};
    hf_names *names = names_at(B);
    hf_channel *channel = hf_channel_get(links, names);
    const hf_link *link = channel->link;
    script_at_b = hang_up;
    hf_list_add_last(&channel->users, &user);
    hf_channel_want(links, channel);
    for (drive(); channel->link == link || links->delayed.count > 0; drive()) {
        HF_EACH(at, &links->delayed)
        assert_true(has_link(HF_OF(hf_task, item, at)));
        sleep_until_due();
    }
    hf_names_drop(names);
}

static atomic_bool hears;

static void hear_later(int fd, unsigned slot) {
    (void)slot;
    if (atomic_load(&hears))
        say_text(fd, ":1\r\n");
}

static bool doubtful;

static void note_doubt(hf_task *task, hf_status status, const redisReply *reply) {
    doubtful = task->course.doubtful;
    task_ended(task, status, reply);
}

/* The request waits behind one that has been under way for too long. */
static void test_what_was_not_sent_is_not_in_doubt(void **state) {
    (void)state;
    hf_names *names = names_at(B);
    hf_task *first = hf_task_new(sizeof *first, NULL, NULL, NULL);
    hf_task *second = hf_task_new(sizeof *second, NULL, note_doubt, NULL);
    atomic_store(&hears, false);
    script_at_b = hear_later;
    hf_request_heal(&first->request, names, 1000);
    hf_request_heal(&second->request, names, 1000);
    first->answer_ms = 100;
    hf_task_submit(links, first, hf_after(hf_now(), 5000));
    hf_link *link = first->link;
    for (drive(); link->sent.count == 0; drive())
        sleep_until_due();
    while (hf_now() < hf_after(first->sent_at, first->answer_ms + 2 * link->trip_ms + 2))
        continue;
    atomic_store(&hears, true);
    ended = false;
    hf_task_submit(links, second, hf_after(hf_now(), 5000));
    drive();
    first->answer_ms = 0; /* when it is sent again, its answer may take its time */
    for (; !ended; drive())
        sleep_until_due();
    assert_status(how, HF_OK);
    assert_false(doubtful);
    hf_names_drop(names);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_sent_on_to_another_node_is_sent_at_once,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_link_stays_until_what_is_bound_to_it_has_ended,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_not_sent_is_not_in_doubt, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
