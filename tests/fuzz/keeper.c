/*
 * Messages from a server to a client: messages on its channel, and answers to requests of the
 * keeper and of callers, in any order and at any time; with whole reply trees of any type, size and
 * nesting. No network, no threads, and a clock and random numbers of its own, so that every run can
 * be repeated.
 *
 * The input is a list of steps: a byte that names the step, and its arguments.
 */
#include "fuzz.h"

/* Included because functions that are private to them are called here. */
#include "../../core/src/net/channel.c"
#include "../../core/src/net/link.c"
#include "../../core/src/net/links.c"
#include "lock/client.h"
#include "lock/renewal.h"

/* ---------------------------------------------------- Clock and randomness */

static int64_t clock_now;
static unsigned random_next;

int64_t __wrap_hf_now(void);
bool __wrap_hf_random(void *bytes, size_t count);
int64_t __wrap_hf_jitter(int64_t low, int64_t high);

int64_t __wrap_hf_now(void) { return clock_now += 1000; }

/* Hold ids that count up: 30 zeros and two digits. */
bool __wrap_hf_random(void *bytes, size_t count) {
    memset(bytes, 0, count);
    for (size_t at = count; at >= 16; at -= 16)
        ((unsigned char *)bytes)[at - 1] = (unsigned char)random_next++;
    return true;
}

int64_t __wrap_hf_jitter(int64_t low, int64_t high) {
    (void)high;
    return low;
}

/* ---------------------------------------------------------------- Replies */

/* Read a reply from these bytes, or return NULL; an @ stands for 30 zeros. */
static redisReply *read_reply(input *from) {
    char text[16 * 1024];
    size_t count = take_byte(from), length = 0;
    if (count == 255)
        count += take_byte(from) * 16;
    const uint8_t *bytes = take_bytes(from, &count);
    for (size_t i = 0; i < count && length < sizeof text - 64; i++) {
        if (bytes[i] == '@') {
            memset(text + length, '0', 30);
            length += 30;
        } else {
            text[length++] = (char)bytes[i];
        }
    }
    void *reply = NULL;
    redisReader *reader = redisReaderCreate();
    reader->maxelements = HF_REPLY_PARTS_MAX;
    redisReaderFeed(reader, text, length);
    if (redisReaderGetReply(reader, &reply) != REDIS_OK)
        reply = NULL;
    redisReaderFree(reader);
    return reply;
}

/* -------------------------------------------------------------- Transport */

static input *answers; /* the answers to a caller's request */
static bool clustered;
static unsigned changes; /* of a cluster's map */

hf_status __wrap_hf_transport_call(hf_transport *transport, hf_request *request, int64_t deadline,
                                   hf_answer *answer);
void __wrap_hf_transport_explain(hf_transport *transport, const hf_request *request,
                                 int64_t deadline);
void __wrap_hf_flush(hf_transport *transport, hf_request *const *requests, size_t count,
                     int64_t deadline);
hf_dial *__wrap_hf_dial_start(hf_transport *transport, int node);
int __wrap_hf_discovery_node(const hf_discovery *discovery, unsigned slot);
unsigned __wrap_hf_discovery_change(const hf_discovery *discovery);
bool __wrap_hf_discovery_serves(hf_discovery *discovery, int node);
unsigned __wrap_hf_discovery_version(const hf_discovery *discovery, int node);
bool __wrap_hf_discovery_clustered(const hf_discovery *discovery);
int __wrap_hf_discovery_redirect(hf_discovery *discovery, int node, const char *text);
void __wrap_hf_discovery_look(hf_discovery *discovery);
void __wrap_hf_pool_drop(hf_pool *pool, int node);

hf_status __wrap_hf_transport_call(hf_transport *transport, hf_request *request, int64_t deadline,
                                   hf_answer *answer) {
    (void)transport, (void)request, (void)deadline;
    memset(answer, 0, sizeof *answer);
    answer->sent_at = hf_now();
    clock_now += HF_MS;
    redisReply *reply = answers != NULL ? read_reply(answers) : NULL;
    if (reply == NULL) {
        answer->doubtful = true;
        return hf_fail(HF_EUNKNOWN, "no answer");
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        hf_status status;
        hf_error_class(reply->str, &status);
        hf_fail(status, "answered: %.*s", hf_error_shown(reply->str), reply->str);
        freeReplyObject(reply);
        return status;
    }
    answer->reply = reply;
    return HF_OK;
}

void __wrap_hf_transport_explain(hf_transport *transport, const hf_request *request,
                                 int64_t deadline) {
    (void)transport, (void)request, (void)deadline;
}

void __wrap_hf_flush(hf_transport *transport, hf_request *const *requests, size_t count,
                     int64_t deadline) {
    (void)transport, (void)requests, (void)count, (void)deadline;
}

hf_dial *__wrap_hf_dial_start(hf_transport *transport, int node) {
    (void)transport, (void)node;
    return NULL;
}

int __wrap_hf_discovery_node(const hf_discovery *discovery, unsigned slot) {
    (void)discovery;
    return clustered ? (int)((slot + changes) % 3) : 0;
}

unsigned __wrap_hf_discovery_change(const hf_discovery *discovery) {
    (void)discovery;
    return changes;
}

bool __wrap_hf_discovery_serves(hf_discovery *discovery, int node) {
    (void)discovery;
    return node < 2;
}

unsigned __wrap_hf_discovery_version(const hf_discovery *discovery, int node) {
    (void)discovery;
    return (unsigned)node;
}

bool __wrap_hf_discovery_clustered(const hf_discovery *discovery) {
    (void)discovery;
    return clustered;
}

int __wrap_hf_discovery_redirect(hf_discovery *discovery, int node, const char *text) {
    (void)discovery, (void)node;
    changes++;
    return (int)(strlen(text) % 4) - 1;
}

void __wrap_hf_discovery_look(hf_discovery *discovery) { (void)discovery; }

void __wrap_hf_pool_drop(hf_pool *pool, int node) { (void)pool, (void)node; }

/* Let the client log in, with an answer to each command. */
static void *let_in(void *listener) {
    static const char hello[] = "*2\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n";
    char heard[4096];
    ssize_t length;
    int fd;
    while ((fd = accept((int)(intptr_t)listener, NULL, NULL)) >= 0) {
        while ((length = recv(fd, heard, sizeof heard, 0)) > 0)
            for (ssize_t i = 0; i < length; i++)
                if (heard[i] == '*')
                    send(fd, hello, sizeof hello - 1, MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

static const char *address(void) {
    static char url[128];
    pthread_t thread;
    if (*url == '\0') {
        int listener = fuzz_listen(url, sizeof url, "");
        promise(pthread_create(&thread, NULL, let_in, (void *)(intptr_t)listener) == 0);
        pthread_detach(thread);
    }
    return url;
}

/* ------------------------------------------------------------------ Steps */

static hf_client *client;
static hf_lock *locks[3];
static hf_hold *holds[64];
static size_t hold_count;
static int64_t ops;

static void keep(hf_hold *hold) {
    promise(hf_hold_fence(hold) > 0 && hf_hold_fence(hold) <= INT64_C(1) << 53);
    promise(hf_hold_remaining_ms(hold) <= HF_LEASE_MAX);
    if (hold_count < sizeof holds / sizeof *holds)
        holds[hold_count++] = hold;
    else
        hf_hold_close(hold);
}

static void read_completions(void) {
    hf_completion found = {.size = sizeof found};
    while (hf_client_next(client, &found) == HF_OK && found.kind != HF_KIND_NONE) {
        promise(found.kind >= HF_KIND_ACQUIRE && found.kind <= HF_KIND_LOSS);
        promise((found.hold != NULL) == (found.kind == HF_KIND_ACQUIRE && found.status == HF_OK));
        if (found.hold != NULL)
            keep(found.hold);
    }
}

/* Return one of the links. */
static hf_link *some_link(input *from) {
    hf_item *at = client->links.all.first;
    for (unsigned n = clustered ? take_byte(from) % 4 : 0; n > 0 && at->next != NULL; n--)
        at = at->next;
    return HF_OF(hf_link, item, at);
}

static void hear_something(input *from) {
    hf_link *link = some_link(from);
    redisReply *reply = read_reply(from);
    /* As far as is possible without a connection. */
    HF_EACH(at, &link->unasked)
    if (clustered && CHANNEL_OF(at)->wanted)
        set_asked(CHANNEL_OF(at), true);
    if (reply != NULL)
        hear(&client->links, link, reply);
    freeReplyObject(reply);
}

/* Answer the keeper's oldest request, or end its connection. */
static void answer(input *from) {
    hf_link *link = some_link(from);
    if (link->sent.first == NULL && link->waiting.first != NULL) {
        hf_item *at = hf_list_take_first(&link->waiting);
        TASK_OF(at)->sent_at = hf_now();
        hf_list_add_last(&link->sent, at);
    }
    redisReply *reply = read_reply(from);
    if (reply == NULL || !take_answer(link, reply, hf_now()))
        fail_connection(&client->links, link, hf_now());
    freeReplyObject(reply);
}

static void pass_time(input *from) {
    clock_now += (int64_t)take_byte(from) * take_byte(from) * HF_MS;
    int64_t now = hf_now();
    for (int i = 0; i < 100 && hf_timers_due(&client->timers) <= now; i++)
        hf_timers_fire(&client->timers, now);
    hf_renewal_flush_locked(client);
    hf_link_send_delayed(&client->links, now);
    follow_slots(&client->links);
    HF_EACH(at, &client->links.all)
    give_up_old(LINK_OF(at), now);
}

/* Read every byte of the view. */
static void read_view(const hf_view *view) {
    hf_lock_holder holder = {.size = sizeof holder};
    hf_lock_waiter waiter = {.size = sizeof waiter};
    for (size_t i = 0; hf_view_holder(view, i, &holder) == HF_OK; i++)
        hf_hash(0, holder.owner, holder.owner_len);
    for (size_t i = 0; hf_view_waiter(view, i, &waiter) == HF_OK; i++)
        hf_hash(0, waiter.owner, waiter.owner_len);
}

static void call(unsigned what, input *from) {
    hf_lock *lock = locks[take_byte(from) % 3];
    hf_hold *hold = hold_count > 0 ? holds[take_byte(from) % hold_count] : NULL, *won = NULL;
    hf_lock_info info = {.size = sizeof info};
    hf_view *view;
    size_t length = 0;
    answers = from;
    switch (what) {
    case 0:
        if (hf_lock_acquire(lock, 0, &won) == HF_OK)
            keep(won);
        break;
    case 1:
        hf_hold_release(hold);
        break;
    case 2:
        hf_hold_renew(hold);
        break;
    case 3:
        hf_hold_extend(hold, 10 + take_byte(from), take_byte(from) & 1);
        break;
    case 4:
        if (hf_lock_inspect(lock, 0, &info, &view) != HF_OK)
            break;
        promise(info.held == 0 || info.held == 1);
        read_view(view);
        hf_view_close(view);
        break;
    case 5:
        hf_lock_break(lock, take_byte(from), take_byte(from) & 1);
        break;
    default:
        length = take_byte(from);
        const uint8_t *token = take_bytes(from, &length);
        char *copy = malloc(length + 1);
        memcpy(copy, token, length);
        if (hf_lock_adopt(lock, copy, length, &won) == HF_OK)
            keep(won);
        free(copy);
    }
    answers = NULL;
}

static void step(input *from) {
    unsigned what = take_byte(from) % 16;
    switch (what) {
    case 0:
        hear_something(from);
        break;
    case 1:
        answer(from);
        break;
    case 2:
        pass_time(from);
        break;
    case 3:
    case 4:
        hf_lock_acquire_start(locks[take_byte(from) % 3], NULL, 0,
                              what == 3 ? (int64_t)take_byte(from) * 10 : HF_FOREVER, NULL, ++ops);
        break;
    case 5:
        hf_op_cancel(client, take_byte(from));
        break;
    case 6:
        read_completions();
        break;
    case 7:
        hf_hold_release_start(hold_count > 0 ? holds[take_byte(from) % hold_count] : NULL, ++ops);
        break;
    case 8:
        hf_link_deaf(&client->links, some_link(from));
        break;
    default:
        call(what - 9, from);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input from = {data, size};
    clock_now = INT64_C(1000000000000);
    clustered = size % 2 != 0;
    changes = 0;
    random_next = 0;
    ops = 0;
    hold_count = 0;
    promise(hf_client_open(address(), NULL, &client) == HF_OK);
    client->started = client->stop = true; /* there is no thread */
    promise(hf_client_fd(client) >= 0);
    hf_lock_options options[3] = {
        {.size = sizeof *options, .lease_ms = 1000, .renew = HF_ON, .heal = HF_ON},
        {.size = sizeof *options, .reentrant = HF_OFF, .max_hold_ms = 20000},
        {.size = sizeof *options, .lease_ms = HF_NEVER},
    };
    for (size_t i = 0; i < 3; i++)
        promise(hf_lock_open(client, "stock", 5, i == 2 ? "me" : NULL, i == 2 ? 2 : 0, &options[i],
                             &locks[i]) == HF_OK);
    while (from.left > 0)
        step(&from);
    hf_client_close(client);
    read_completions();
    for (size_t i = 0; i < hold_count; i++)
        hf_hold_close(holds[i]);
    for (size_t i = 0; i < 3; i++)
        hf_lock_close(locks[i]);
    return 0;
}
