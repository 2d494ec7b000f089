/* A user's mistakes, each with an error that names it. */
#include "../network.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static int set_up(void **state) {
    (void)state;
    start_afresh();
    return 0;
}

#define PASSWORD "hunter2"

/* Connect timeouts: for an answer that arrives at once, however slow the machine is; for no answer;
 * and for an answer whose undo gets none. SLACK: what a pause of the machine may add. */
enum { PATIENT_MS = 20000, BRIEF_MS = 300, UNDONE_MS = 1000, SLACK_MS = 8000 };

/* Open a client, which must fail in time; the message must not contain the password. */
static void assert_refused_within(int64_t connect_ms, const char *url, hf_status status,
                                  const char *part) {
    hf_client_options options = {.size = sizeof options, .connect_timeout_ms = connect_ms};
    hf_client *client = (hf_client *)&client;
    int64_t before = now_ms();
    assert_status(hf_client_open(url, &options, &client), status);
    assert_in_range(now_ms() - before, 0, BRIEF_MS + SLACK_MS);
    assert_null(client);
    assert_message(part);
    assert_null(strstr(hf_error_message(), PASSWORD));
}

static void assert_refused(const char *url, hf_status status, const char *part) {
    assert_refused_within(PATIENT_MS, url, status, part);
}

/* -------------------------------------------------------------------- URLs */

static void test_a_bad_url_says_what_is_wrong_with_it(void **state) {
    static const struct {
        const char *url;
        hf_status status;
        const char *message;
    } urls[] = {
        {"", HF_EINVAL, "malformed URL"},
        {"localhost:6379", HF_EINVAL, "malformed URL"},
        {"redis://", HF_EINVAL, "no host"},
        {"redis://:" PASSWORD "@h:port", HF_EINVAL, "port"},
        {"redis://:" PASSWORD "@h/first", HF_EINVAL, "database"},
        {"unix://:" PASSWORD "@relative", HF_EINVAL, "three /"},
        {"http://:" PASSWORD "@h", HF_EINVAL, "unknown scheme 'http'"},
        {"redis://h?connect_timeout=soon", HF_EINVAL, "connect_timeout takes seconds"},
        {"redis://h?command_timeout=0", HF_EINVAL, "command_timeout takes seconds"},
        {"redis://h?keepalive=1.2345", HF_EINVAL, "keepalive takes seconds"},
        {"redis://h?fence_life=0", HF_EINVAL, "fence_life takes seconds"},
        {"redis://h?fence_life=0.5", HF_EINVAL,
         "a fence_life of 500 ms: it must be 1 s to 10 years"},
        {"redis://h?replicas=all", HF_EINVAL, "replicas takes a number"},
        {"redis+quorum://a,b,c?replicas=1", HF_EINVAL, "have no replicas"},
        {"redis://h?client_name=", HF_EINVAL, "client_name takes 1 to 63 characters"},
        {"redis://h?client_name=a%20b", HF_EINVAL, "client_name 'a b'"},
        {"redis-cluster://h", HF_EINVAL, "unknown scheme 'redis-cluster'"},
        {"redis+cluster://h/1", HF_EINVAL, "only the database 0"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(urls); i++)
        assert_refused(urls[i].url, urls[i].status, urls[i].message);
    assert_refused(NULL, HF_EINVAL, "the URL is NULL");
}

static void test_a_bad_client_option_is_refused(void **state) {
    hf_client *client;
    hf_client_options options = {.size = sizeof options, .connect_timeout_ms = -1};
    (void)state;
    assert_status(hf_client_open(unix_url(), &options, &client), HF_EINVAL);
    assert_message("timeout");
    options = (hf_client_options){.size = sizeof options, .command_timeout_ms = INT64_MAX};
    assert_status(hf_client_open(unix_url(), &options, &client), HF_EINVAL);
    options = (hf_client_options){.size = sizeof options, .keepalive_ms = -2};
    assert_status(hf_client_open(unix_url(), &options, &client), HF_EINVAL);
    assert_message("a keepalive of -2 ms");
    options = (hf_client_options){.size = sizeof options, .client_name = "two words"};
    assert_status(hf_client_open(unix_url(), &options, &client), HF_EINVAL);
    assert_message("client_name 'two words'");
    options = (hf_client_options){.size = sizeof options, .client_name = "caf\xc3\xa9"};
    assert_status(hf_client_open(unix_url(), &options, &client), HF_EINVAL);
    memset(options.client_name, 'x', sizeof options.client_name); /* without a NUL */
    assert_status(hf_client_open(unix_url(), &options, &client), HF_EINVAL);
    assert_message("at most 63");
    options = (hf_client_options){.connect_timeout_ms = 100};
    assert_status(hf_client_open(unix_url(), &options, &client), HF_EINVAL);
    assert_message("hf_client_options.size is 0");
    assert_status(hf_client_open(unix_url(), NULL, NULL), HF_EINVAL);
}

static void test_a_connect_timeout_may_be_very_long(void **state) {
    static const int64_t timeouts[] = {1, INT64_C(1) << 31, INT64_C(1) << 32, HF_LEASE_MAX};
    (void)state;
    for (size_t i = 1; i < COUNT(timeouts); i++) {
        hf_client_options options = {.size = sizeof options,
                                     .connect_timeout_ms = timeouts[i],
                                     .command_timeout_ms = timeouts[i]};
        hf_client *client;
        hf_lock *lock;
        assert_status(hf_client_open(tcp_url(), &options, &client), HF_OK);
        assert_status(hf_lock_open(client, "stock", 5, NULL, 0, NULL, &lock), HF_OK);
        assert_status(hf_lock_acquire(lock, HF_FOREVER, NULL), HF_OK);
        assert_status(hf_lock_release(lock), HF_OK);
        hf_lock_close(lock);
        hf_client_close(client);
    }
}

/* -------------------------------------------------- Servers out of reach */

static void test_a_host_where_nobody_listens_is_unreachable(void **state) {
    int port;
    (void)state;
    close(listen_somewhere(1, &port));
    assert_refused(text("redis://:" PASSWORD "@127.0.0.1:%d", port), HF_ECONNECT,
                   text("cannot reach redis://127.0.0.1:%d: Connection refused", port));
    assert_refused("unix://:" PASSWORD "@/nowhere/redis.sock", HF_ECONNECT,
                   "cannot reach unix:///nowhere/redis.sock: No such file");
    assert_refused("redis://:" PASSWORD "@999.999.999.999", HF_ECONNECT,
                   "cannot reach redis://999.999.999.999:6379");
}

static void test_a_host_that_does_not_answer_costs_the_connect_timeout(void **state) {
    int port, fillers[FILLERS], fd = listen_in_vain(&port, fillers);
    (void)state;
    int64_t before = now_ms();
    assert_refused_within(BRIEF_MS, text("redis://:" PASSWORD "@127.0.0.1:%d", port), HF_ECONNECT,
                          text("cannot reach redis://127.0.0.1:%d", port));
    assert_in_range(now_ms() - before, BRIEF_MS - 10, BRIEF_MS + SLACK_MS);
    for (size_t i = 0; i < COUNT(fillers); i++)
        close(fillers[i]);
    close(fd);
}

/* ------------------------------------------------------ Not a Redis server */

/* Wait for a request or the end of the connection. */
static bool hear(int fd) {
    char bytes[65536];
    return recv(fd, bytes, sizeof bytes, 0) > 0;
}

static void tell(int fd, const char *reply) { say(fd, reply, strlen(reply)); }

static void talk_http(int fd) {
    hear(fd);
    tell(fd, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
}
static void talk_binary(int fd) {
    hear(fd);
    say(fd, "\x16\x03\x01\x00\xff\x00", 6);
}
/* Send what a newer OpenSSL sends for bytes that are not TLS; an older one hangs up silently. */
static void talk_tls_alert(int fd) {
    hear(fd);
    say(fd, "\x15\x03\x01\x00\x02\x02\x46", 7);
}
static void talk_of_too_many(int fd) {
    hear(fd);
    tell(fd, "-ERR max number of clients reached\r\n");
}
static void talk_short_reply(int fd) {
    hear(fd);
    tell(fd, "*14\r\n$6\r\nserv");
}
static void talk_nothing(int fd) { hear(fd); }
static void talk_silence(int fd) {
    while (hear(fd))
        continue;
}
static void talk_without_end(int fd) {
    static char bytes[65536];
    memset(bytes, 'x', sizeof bytes);
    hear(fd);
    tell(fd, "+");
    while (say(fd, bytes, sizeof bytes))
        continue;
}
static void talk_of_much_to_come(int fd) {
    static char bytes[65536];
    hear(fd);
    tell(fd, "$9999999999\r\n");
    while (say(fd, bytes, sizeof bytes))
        continue;
}
static void talk_in_endless_lists(int fd) {
    static char bytes[65536];
    for (size_t i = 0; i < sizeof bytes; i += 4)
        memcpy(bytes + i, "*1\r\n", 4);
    hear(fd);
    while (say(fd, bytes, sizeof bytes))
        continue;
}
static void talk_of_many_parts(int fd) {
    hear(fd);
    tell(fd, "*2000000000\r\n");
    hear(fd);
}
/* Send a byte now and then: each byte arrives in time, the answer never does. */
static void talk_drop_by_drop(int fd) {
    hear(fd);
    tell(fd, "+");
    while (say(fd, "x", 1))
        sleep_ms(20);
}
/* Send a record of TLS in the same way: OpenSSL reads its parts by itself. */
static void talk_tls_drop_by_drop(int fd) {
    hear(fd);
    say(fd, "\x16\x03\x03\x40\x00", 5);
    for (int i = 0; i < 1000 && say(fd, "x", 1); i++)
        sleep_ms(20);
}
static void talk_echo(int fd) {
    char bytes[4096];
    ssize_t length;
    while ((length = recv(fd, bytes, sizeof bytes, 0)) > 0)
        say(fd, bytes, (size_t)length);
}
/* Answer each request; several may arrive together. */
static void answer_all(int fd, const char *reply) {
    char bytes[4096];
    ssize_t length;
    while ((length = recv(fd, bytes, sizeof bytes, 0)) > 0)
        for (ssize_t i = 0; i < length; i++)
            if (bytes[i] == '*' && (i == 0 || bytes[i - 1] == '\n'))
                tell(fd, reply);
}
static void talk_numbers(int fd) { answer_all(fd, ":5\r\n"); }

static void test_what_is_no_redis_server_is_told_from_one_that_is_down(void **state) {
    static const struct {
        const char *what;
        void (*talk)(int fd);
        hf_status status;
        const char *message;
    } fakes[] = {
        {"http", talk_http, HF_EPROTOCOL, "does not speak the Redis protocol"},
        {"binary", talk_binary, HF_EPROTOCOL, "does not speak the Redis protocol"},
        {"echo", talk_echo, HF_EPROTOCOL, "127.0.0.1"},
        {"numbers", talk_numbers, HF_EPROTOCOL, "unexpected reply"},
        {"TLS alert", talk_tls_alert, HF_EPROTOCOL,
         "it speaks TLS, so the URL must begin with rediss"},
        {"closes mid-reply", talk_short_reply, HF_ECONNECT, "closed the connection"},
        {"closes at once", talk_nothing, HF_ECONNECT, "cannot log in to redis://127.0.0.1"},
        {"never answers", talk_silence, HF_ECONNECT, "no answer in time"},
        {"drop by drop", talk_drop_by_drop, HF_ECONNECT, "no answer in time"},
        {"without end", talk_without_end, HF_EPROTOCOL, "too long"},
        {"much to come", talk_of_much_to_come, HF_EPROTOCOL, "127.0.0.1"},
        {"endless lists", talk_in_endless_lists, HF_EPROTOCOL, "nested too deep"},
        {"many parts", talk_of_many_parts, HF_EPROTOCOL, "127.0.0.1"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(fakes); i++) {
        fake server;
        print_message("%s\n", fakes[i].what);
        fake_start(&server, fakes[i].talk);
        int64_t ms = fakes[i].status == HF_ECONNECT ? BRIEF_MS : PATIENT_MS;
        assert_refused_within(ms, text("redis://127.0.0.1:%d", server.port), fakes[i].status,
                              fakes[i].message);
        assert_refused_within(ms, text("redis://:" PASSWORD "@127.0.0.1:%d/1", server.port),
                              fakes[i].status, "127.0.0.1");
        fake_stop(&server);
    }
}

static void test_a_plain_answer_to_tls_is_told_from_a_bad_certificate(void **state) {
    static void (*const talks[])(int fd) = {talk_http, talk_of_too_many};
    (void)state;
    for (size_t i = 0; i < COUNT(talks); i++) {
        fake server;
        fake_start(&server, talks[i]);
        assert_refused(text("rediss://:" PASSWORD "@127.0.0.1:%d", server.port), HF_ECONNECT,
                       "what answered does not speak TLS: the URL must begin with redis, not");
        fake_stop(&server);
    }
}

static void test_a_record_of_tls_that_comes_in_drops_moves_no_deadline(void **state) {
    fake server;
    (void)state;
    fake_start(&server, talk_tls_drop_by_drop);
    assert_refused_within(BRIEF_MS, text("rediss://:" PASSWORD "@127.0.0.1:%d", server.port),
                          HF_ECONNECT, "no answer in time");
    fake_stop(&server);
}

static const char *old_version;

static void talk_old_redis(int fd) {
    char bytes[4096];
    ssize_t length;
    while ((length = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        if (memmem(bytes, (size_t)length, "INFO", 4) != NULL) {
            char *info = NULL;
            if (asprintf(&info, "# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\n",
                         old_version) < 0)
                return;
            dprintf(fd, "$%zu\r\n%s\r\n", strlen(info), info);
            free(info);
            continue;
        }
        if (memmem(bytes, (size_t)length, "AUTH", 4) != NULL)
            tell(fd, "+OK\r\n");
        tell(fd, "-ERR unknown command `HELLO`, with args beginning with: `2`, \r\n");
    }
}

static void talk_redis_6_0(int fd) {
    while (hear(fd))
        tell(fd, "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n6.0.16\r\n");
}

static void test_a_redis_that_is_too_old_is_told_which_is_needed(void **state) {
    static const char *const versions[] = {"5.0.7", "3.2.12", "2.8.24"};
    fake server;
    (void)state;
    for (size_t i = 0; i < COUNT(versions); i++) {
        old_version = versions[i];
        fake_start(&server, talk_old_redis);
        assert_refused(text("redis://:" PASSWORD "@127.0.0.1:%d", server.port), HF_EUNSUPPORTED,
                       text("runs Redis %s: 6.2 or newer is needed", versions[i]));
        fake_stop(&server);
    }
    fake_start(&server, talk_redis_6_0);
    assert_refused(text("redis://127.0.0.1:%d", server.port), HF_EUNSUPPORTED,
                   "runs Redis 6.0.16: 6.2 or newer is needed");
    fake_stop(&server);
}

/* ------------------------------------------------- Servers that turn bad later */

/* Log every client in, and misbehave at the first script. */
static void (*talk_badly)(int fd);

static void talk_well_at_first(void *unused, int fd) {
    char bytes[65536];
    (void)unused;
    while (recv(fd, bytes, sizeof bytes, MSG_PEEK) > 0) {
        if (memmem(bytes, 64, "EVAL", 4) != NULL) {
            talk_badly(fd);
            return;
        }
        hear(fd);
        tell(fd, "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n");
    }
}

static void talk_refusal(int fd) { answer_all(fd, "-ERR no such thing\r\n"); }

static void test_a_server_that_turns_bad_ends_no_call_later_than_promised(void **state) {
    static const struct {
        const char *what;
        void (*talk)(int fd);
        hf_status status;
        const char *message;
    } fakes[] = {
        {"http", talk_http, HF_EUNKNOWN, "may have been carried out"},
        {"closes mid-reply", talk_short_reply, HF_EUNKNOWN, "may have been carried out"},
        {"closes at once", talk_nothing, HF_EUNKNOWN, "may have been carried out"},
        {"never answers", talk_silence, HF_EUNKNOWN, "may have been carried out"},
        {"drop by drop", talk_drop_by_drop, HF_EUNKNOWN, "may have been carried out"},
        {"without end", talk_without_end, HF_EUNKNOWN, "may have been carried out"},
        {"refuses", talk_refusal, HF_ESERVER, "ERR no such thing"},
        {"numbers", talk_numbers, HF_EPROTOCOL, "unexpected reply"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(fakes); i++) {
        bool answers = fakes[i].status != HF_EUNKNOWN;
        hf_client_options options = {.size = sizeof options,
                                     .connect_timeout_ms = answers ? UNDONE_MS : BRIEF_MS};
        hf_client *client;
        hf_lock *lock;
        hf_lock_info info = {.size = sizeof info};
        fake server;
        print_message("%s\n", fakes[i].what);
        talk_badly = fakes[i].talk;
        fake_start_many(&server, talk_well_at_first, NULL); /* the undo has a connection, too */
        const char *url = text("redis://127.0.0.1:%d", server.port);
        assert_soon(hf_client_open(url, &options, &client) == HF_OK);
        assert_status(hf_lock_open(client, "stock", 5, NULL, 0, NULL, &lock), HF_OK);
        int64_t before = now_ms();
        assert_status(hf_lock_acquire(lock, 0, NULL), fakes[i].status);
        assert_in_range(now_ms() - before, 0, BRIEF_MS + SLACK_MS);
        assert_message(fakes[i].message);
        /* A request that changes nothing cannot have an unknown outcome. */
        hf_status look = hf_lock_inspect(lock, 0, &info, NULL);
        assert_int_equal(look, answers ? fakes[i].status : HF_ECONNECT);
        assert_status(hf_lock_release(lock), HF_ENOTHELD);
        hf_lock_close(lock);
        hf_client_close(client);
        fake_stop(&server);
    }
}

/* -------------------------------------------------------- Wrong passwords */

typedef struct {
    pid_t pid;
    char folder[64];
} own_server;

/* Start a real server with one more option, on a unix socket in a separate folder. */
static const char *start_server(own_server *server, const char *option, const char *value,
                                const char *more) {
    snprintf(server->folder, sizeof server->folder, "%.40s/holdfast.XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(server->folder));
    char *path = text("%s/s", server->folder);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the server must not outlive the test */
        if (freopen("/dev/null", "w", stdout) != NULL)
            execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", path, "--save",
                   "", "--dir", server->folder, option, value, more, (char *)NULL);
        _exit(127);
    }
    redisContext *context = NULL;
    do {
        redisFree(context);
        sleep_ms(1);
        context = redisConnectUnix(path);
    } while (context == NULL || context->err != 0); /* alarm() ends the wait */
    redisFree(context);
    return path;
}

static void stop_server(const own_server *server) {
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    unlink(text("%s/s", server->folder));
    rmdir(server->folder);
}

static void assert_welcome(const char *url) {
    hf_client *client = open_at(url);
    hf_lock *lock;
    assert_status(hf_lock_open(client, "stock", 5, NULL, 0, NULL, &lock), HF_OK);
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_OK);
    assert_status(hf_lock_release(lock), HF_OK);
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_a_wrong_password_is_refused_and_never_told(void **state) {
    own_server server;
    (void)state;
    /* Not as an argument: every user of the machine can read those. */
    const char *path = start_server(&server, "--databases", "16", NULL);
    redisContext *admin = redisConnectUnix(path);
    freeReplyObject(redisCommand(admin, "CONFIG SET requirepass %s", "right/p@ss word"));
    redisFree(admin);
    assert_welcome(text("unix://:right%%2fp%%40ss%%20word@%s", path));
    assert_welcome(text("unix://default:right%%2fp%%40ss%%20word@%s?db=3", path));
    assert_refused(text("unix://:" PASSWORD "@%s", path), HF_EAUTH,
                   "refused the user or the password");
    assert_message("WRONGPASS");
    assert_message(path);
    assert_refused(text("unix://default:" PASSWORD "@%s", path), HF_EAUTH, "WRONGPASS");
    assert_refused(text("unix://stranger:" PASSWORD "@%s", path), HF_EAUTH, "WRONGPASS");
    assert_refused(text("unix://:@%s", path), HF_EAUTH, "WRONGPASS");
    assert_refused(text("unix://%s", path), HF_EAUTH, "NOAUTH");
    stop_server(&server);
}

static void test_a_password_that_the_server_does_not_ask_for_is_refused(void **state) {
    (void)state;
    assert_refused(text("unix://:" PASSWORD "@%s", unix_url() + strlen("unix://")), HF_EAUTH,
                   "without any password configured");
}

static void test_a_server_that_repeats_the_password_is_not_quoted(void **state) {
    own_server server;
    char password[201] = PASSWORD;
    (void)state;
    memset(password + strlen(PASSWORD), 'x', sizeof password - 1 - strlen(PASSWORD));
    /* "ERR unknown command 'AUTH', with args beginning with: 'hunter2'" */
    const char *path = start_server(&server, "--rename-command", "AUTH", "");
    assert_refused(text("unix://:" PASSWORD "@%s", path), HF_EAUTH,
                   "refused the user or the password");
    assert_refused(text("unix://ann:" PASSWORD "@%s", path), HF_EAUTH,
                   "refused the user or the password");
    assert_refused(text("unix://:%s@%s", password, path), HF_EAUTH,
                   "refused the user or the password");
    stop_server(&server);
}

static void talk_password_back(int fd) {
    answer_all(fd, "-ERR no user has the password " PASSWORD "\r\n");
}

static void test_a_proxy_that_repeats_the_password_is_not_quoted(void **state) {
    fake server;
    (void)state;
    fake_start(&server, talk_password_back);
    assert_refused(text("redis://:" PASSWORD "@127.0.0.1:%d", server.port), HF_EAUTH,
                   "refused the user or the password");
    fake_stop(&server);
}

static void test_a_user_with_a_wrong_password_is_refused(void **state) {
    const char *path = unix_url() + strlen("unix://");
    (void)state;
    TELL("ACL SETUSER ann reset on >right ~* &* +@all");
    assert_welcome(text("unix://ann:right@%s", path));
    assert_refused(text("unix://ann:" PASSWORD "@%s", path), HF_EAUTH, "WRONGPASS");
    TELL("ACL SETUSER ann off");
    assert_refused(text("unix://ann:right@%s", path), HF_EAUTH, "WRONGPASS");
    TELL("ACL DELUSER ann");
}

static void test_a_user_who_lacks_a_permission_is_told_which(void **state) {
    hf_lock *lock;
    const char *path = unix_url() + strlen("unix://");
    (void)state;
    /* HELLO is not needed; EVALSHA is. */
    TELL("ACL SETUSER ann reset on >right ~* &* +@all -hello -evalsha");
    hf_client *client = open_at(text("unix://ann:right@%s", path));
    assert_status(hf_lock_open(client, "stock", 5, NULL, 0, NULL, &lock), HF_OK);
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_ESERVER);
    assert_message("NOPERM");
    assert_message("evalsha");
    hf_lock_close(lock);
    hf_client_close(client);
    TELL("ACL DELUSER ann");
}

static void test_a_database_that_the_server_lacks_is_refused(void **state) {
    (void)state;
    assert_refused(text("%s?db=16", unix_url()), HF_ESERVER, "refused SELECT: ERR DB index");
    assert_refused(text("%s/16", tcp_url()), HF_ESERVER, "refused SELECT: ERR DB index");
    /* The database that the URL names is used. */
    hf_client *client = open_at(text("%s/7", tcp_url()));
    hf_lock *lock;
    assert_status(hf_lock_open(client, "stock", 5, NULL, 0, NULL, &lock), HF_OK);
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_OK);
    assert_int_equal(NUMBER("EXISTS stock"), 0);
    TELL("SELECT 7");
    assert_int_equal(NUMBER("EXISTS stock"), 1);
    TELL("SELECT 0");
    hf_lock_close(lock);
    hf_client_close(client);
}

/* ------------------------------------------------------- Names, owners, options */

static void test_a_bad_name_or_owner_is_refused(void **state) {
    static char bytes[HF_NAME_MAX + 1];
    hf_client *client = open_client();
    hf_lock *lock = (hf_lock *)&lock;
    (void)state;
    memset(bytes, 'x', sizeof bytes);
    assert_status(hf_lock_open(client, "", 0, NULL, 0, NULL, &lock), HF_EINVAL);
    assert_message("the name is empty");
    assert_null(lock);
    assert_status(hf_lock_open(client, NULL, 5, NULL, 0, NULL, &lock), HF_EINVAL);
    assert_status(hf_lock_open(client, bytes, sizeof bytes, NULL, 0, NULL, &lock), HF_EINVAL);
    assert_message("4097 bytes: at most 4096");
    assert_status(hf_lock_open(client, "stock:hf1:q", 11, NULL, 0, NULL, &lock), HF_EINVAL);
    assert_message("ends like one of a lock's own keys");
    assert_status(hf_lock_open(client, "x", 1, bytes, sizeof bytes, NULL, &lock), HF_EINVAL);
    assert_message("the owner has 4097 bytes");
    assert_status(hf_lock_open(client, "x", 1, "ann", 0, NULL, &lock), HF_EINVAL);
    assert_message("the owner has 0 bytes");
    assert_status(hf_lock_open(client, "x", 1, NULL, 3, NULL, &lock), HF_EINVAL);
    assert_message("the owner has 3 bytes");
    /* The longest ones are accepted, and work. */
    assert_status(hf_lock_open(client, bytes, HF_NAME_MAX, bytes, HF_OWNER_MAX, NULL, &lock),
                  HF_OK);
    assert_status(hf_lock_acquire(lock, 0, NULL), HF_OK);
    assert_int_equal(read_stored(TELL("HGETALL %b", bytes, (size_t)HF_NAME_MAX)).owner_length,
                     HF_OWNER_MAX);
    assert_status(hf_lock_acquire_as(lock, bytes, sizeof bytes, 0, NULL, NULL), HF_EINVAL);
    assert_status(hf_lock_release_as(lock, "ann", 0), HF_EINVAL);
    assert_status(hf_lock_release(lock), HF_OK);
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_a_bad_lease_or_timeout_is_refused(void **state) {
    static const int64_t leases[] = {-3, 1, 9, HF_LEASE_MAX + 1, INT64_MAX, INT64_MIN};
    static const int64_t timeouts[] = {-2, -1000, INT64_MIN};
    hf_client *client = open_client();
    hf_lock *lock, *none = (hf_lock *)&none;
    hf_hold *hold = (hf_hold *)&hold;
    (void)state;
    assert_status(hf_lock_open(client, "stock", 5, NULL, 0, NULL, &lock), HF_OK);
    for (size_t i = 0; i < COUNT(leases); i++) {
        hf_lock_options options = {.size = sizeof options, .lease_ms = leases[i]};
        hf_acquire_options once = {.size = sizeof once, .lease_ms = leases[i]};
        assert_status(hf_lock_open(client, "x", 1, NULL, 0, &options, &none), HF_EINVAL);
        assert_message(text("a lease of %lld ms", (long long)leases[i]));
        assert_message("10 ms to 10 years");
        assert_null(none);
        assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, &once, &hold), HF_EINVAL);
        assert_message(text("a lease of %lld ms", (long long)leases[i]));
        assert_null(hold);
    }
    for (size_t i = 0; i < COUNT(timeouts); i++) {
        assert_status(hf_lock_acquire(lock, timeouts[i], &hold), HF_EINVAL);
        assert_message(text("a timeout of %lld ms", (long long)timeouts[i]));
    }
    assert_int_equal(NUMBER("DBSIZE"), 0);
    assert_status(hf_lock_acquire(lock, INT64_MAX, NULL), HF_OK);
    assert_status(hf_lock_release(lock), HF_OK);
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_options_that_do_nothing_together_are_refused(void **state) {
    static const struct {
        hf_lock_options options;
        const char *message;
    } bad[] = {
        {{.lease_ms = HF_NEVER, .renew = HF_ON}, "renew does nothing for a lease that never ends"},
        {{.lease_ms = 1000, .renew = HF_OFF, .max_hold_ms = 5000},
         "max_hold does nothing without renewal"},
        {{.lease_ms = HF_NEVER, .max_hold_ms = 5000}, "max_hold needs a lease that ends"},
        {{.max_hold_ms = 9}, "a max_hold of 9 ms: it takes 10 ms to 10 years"},
        {{.replica_timeout_ms = 100}, "replica_timeout does nothing without replicas"},
        {{.permits = 2}, "permits need the mode HF_SHARED"},
    };
    hf_client *client = open_client();
    hf_lock *lock;
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        hf_lock_options options = bad[i].options;
        options.size = sizeof options;
        assert_status(hf_lock_open(client, "x", 1, NULL, 0, &options, &lock), HF_EINVAL);
        assert_message(bad[i].message);
    }
    hf_lock_options options = {.size = sizeof options, .max_hold_ms = 5000};
    hf_acquire_options never = {.size = sizeof never, .lease_ms = HF_NEVER};
    assert_status(hf_lock_open(client, "x", 1, NULL, 0, &options, &lock), HF_OK);
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, &never, NULL), HF_EINVAL);
    assert_message("max_hold needs a lease that ends");
    hf_lock_close(lock);
    assert_status(hf_lock_open(client, "x", 1, NULL, 0, NULL, &lock), HF_OK);
    never.renew = HF_ON;
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, &never, NULL), HF_EINVAL);
    assert_message("renew does nothing for a lease that never ends");
    assert_int_equal(NUMBER("DBSIZE"), 0);
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_a_bad_switch_or_flag_is_refused(void **state) {
    hf_client *client = open_client();
    hf_lock *lock, *none;
    (void)state;
    assert_status(hf_lock_open(client, "stock", 5, NULL, 0, NULL, &lock), HF_OK);
    hf_lock_options options = {.size = sizeof options, .renew = 3};
    assert_status(hf_lock_open(client, "x", 1, NULL, 0, &options, &none), HF_EINVAL);
    assert_message("renew is 3");
    options = (hf_lock_options){.size = sizeof options, .reentrant = -1};
    assert_status(hf_lock_open(client, "x", 1, NULL, 0, &options, &none), HF_EINVAL);
    assert_message("reentrant is -1");
    options = (hf_lock_options){.lease_ms = 1000};
    assert_status(hf_lock_open(client, "x", 1, NULL, 0, &options, &none), HF_EINVAL);
    assert_message("hf_lock_options.size is 0");
    hf_acquire_options once = {.size = sizeof once, .flags = 16};
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, &once, NULL), HF_EINVAL);
    assert_message("unknown bit");
    once = (hf_acquire_options){.size = sizeof once, .renew = 9};
    assert_status(hf_lock_acquire_as(lock, NULL, 0, 0, &once, NULL), HF_EINVAL);
    assert_message("renew is 9");
    assert_status(hf_lock_break(lock, -1, 0), HF_EINVAL);
    assert_message("a fence of -1");
    assert_status(hf_lock_break(lock, 1, 2), HF_EINVAL);
    assert_message("unknown bit");
    assert_int_equal(NUMBER("DBSIZE"), 0);
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_null_handles_are_refused_and_closing_null_does_nothing(void **state) {
    hf_client *client = open_client();
    hf_lock *lock;
    hf_hold *hold = (hf_hold *)&hold;
    hf_lock_info info = {.size = sizeof info};
    char owner[HF_DEFAULT_OWNER_MAX];
    (void)state;
    assert_status(hf_lock_open(NULL, "x", 1, NULL, 0, NULL, &lock), HF_EINVAL);
    assert_message("NULL");
    assert_status(hf_lock_open(client, "x", 1, NULL, 0, NULL, NULL), HF_EINVAL);
    assert_status(hf_lock_acquire(NULL, 0, &hold), HF_EINVAL);
    assert_null(hold);
    assert_status(hf_lock_acquire_as(NULL, NULL, 0, 0, NULL, NULL), HF_EINVAL);
    assert_status(hf_lock_release(NULL), HF_EINVAL);
    assert_status(hf_lock_release_as(NULL, NULL, 0), HF_EINVAL);
    assert_int_equal(hf_lock_count_as(NULL, NULL, 0), 0);
    assert_status(hf_lock_inspect(NULL, 0, &info, NULL), HF_EINVAL);
    assert_status(hf_lock_break(NULL, 0, 0), HF_EINVAL);
    assert_status(hf_hold_release(NULL), HF_EINVAL);
    assert_status(hf_hold_renew(NULL), HF_EINVAL);
    assert_status(hf_hold_check(NULL), HF_EINVAL);
    assert_status(hf_hold_extend(NULL, 1000, 0), HF_EINVAL);
    assert_int_equal(hf_hold_fence(NULL), 0);
    assert_int_equal(hf_hold_remaining_ms(NULL), 0);
    assert_int_equal(hf_hold_state(NULL), HF_STATE_RELEASED);
    assert_status(hf_client_owner(NULL, 't', 1, owner, sizeof owner), HF_EINVAL);
    assert_status(hf_client_owner(client, 'x', 1, owner, sizeof owner), HF_EINVAL);
    assert_status(hf_client_owner(client, 't', -1, owner, sizeof owner), HF_EINVAL);
    assert_status(hf_client_owner(client, 'a', 0, owner, sizeof owner), HF_EINVAL);
    assert_status(hf_client_owner(client, 't', 1, NULL, 0), HF_EINVAL);
    assert_status(hf_client_owner(client, 't', 1, owner, 10), HF_EINVAL);
    assert_message("too small");
    assert_status(hf_lock_open(client, "x", 1, NULL, 0, NULL, &lock), HF_OK);
    assert_status(hf_lock_inspect(lock, 0, NULL, NULL), HF_EINVAL);
    hf_client_close(NULL);
    hf_lock_close(NULL);
    hf_hold_close(NULL);
    hf_lock_close(lock);
    hf_client_close(client);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_bad_url_says_what_is_wrong_with_it),
        TEST(test_a_bad_client_option_is_refused),
        TEST(test_a_connect_timeout_may_be_very_long),
        TEST(test_a_host_where_nobody_listens_is_unreachable),
        TEST(test_a_host_that_does_not_answer_costs_the_connect_timeout),
        TEST(test_what_is_no_redis_server_is_told_from_one_that_is_down),
        TEST(test_a_plain_answer_to_tls_is_told_from_a_bad_certificate),
        TEST(test_a_record_of_tls_that_comes_in_drops_moves_no_deadline),
        TEST(test_a_redis_that_is_too_old_is_told_which_is_needed),
        TEST(test_a_server_that_turns_bad_ends_no_call_later_than_promised),
        TEST(test_a_wrong_password_is_refused_and_never_told),
        TEST(test_a_password_that_the_server_does_not_ask_for_is_refused),
        TEST(test_a_server_that_repeats_the_password_is_not_quoted),
        TEST(test_a_proxy_that_repeats_the_password_is_not_quoted),
        TEST(test_a_user_with_a_wrong_password_is_refused),
        TEST(test_a_user_who_lacks_a_permission_is_told_which),
        TEST(test_a_database_that_the_server_lacks_is_refused),
        TEST(test_a_bad_name_or_owner_is_refused),
        TEST(test_a_bad_lease_or_timeout_is_refused),
        TEST(test_options_that_do_nothing_together_are_refused),
        TEST(test_a_bad_switch_or_flag_is_refused),
        TEST(test_null_handles_are_refused_and_closing_null_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
