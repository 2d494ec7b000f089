/* TLS: the client checks its peer, on both kinds of connection. */
#include "certificates.h"

#include <netdb.h>
#include <sys/ioctl.h>

/* -------------------------------------------------------------- Servers */

/* Return a name if it can be resolved, so that names are compared too. */
static const char *local_host(void) {
    struct addrinfo *found = NULL;
    bool known = getaddrinfo("localhost", NULL, NULL, &found) == 0;
    if (known)
        freeaddrinfo(found);
    return known ? "localhost" : "127.0.0.1";
}

enum { GOOD, EXPIRED, SELF_SIGNED, WANTS_CLIENT, OTHER_NAME, SERVERS };
static const char *const names[] = {"good", "expired", "self", "good", "other"};
static int ports[SERVERS];
static pid_t servers[SERVERS];

static int start_all(void **state) {
    if (open_folder(state) != 0)
        return 1;
    const char *here = "DNS:localhost,IP:127.0.0.1";
    identity authority = make_identity("test authority", NULL, NULL, 10);
    identity good = make_identity("server", here, &authority, 10);
    identity expired = make_identity("server", here, &authority, 1);
    identity self = make_identity("server", here, NULL, 10);
    identity other = make_identity("localhost", "DNS:other.test,IP:127.0.0.1", &authority, 10);
    identity user = make_identity("user", NULL, &authority, 10);
    save(&authority, "ca");
    save(&good, "good");
    save(&expired, "expired");
    save(&self, "self");
    save(&other, "other");
    save(&user, "user");
    drop(&authority);
    drop(&good);
    drop(&expired);
    drop(&self);
    drop(&other);
    drop(&user);
    for (int i = 0; i < SERVERS; i++) {
        ports[i] = free_port();
        servers[i] = START("--port", "0", "--tls-port", number(ports[i]), "--save", "",
                           "--tls-cert-file", text("%s.pem", names[i]), "--tls-key-file",
                           text("%s.key", names[i]), "--tls-ca-cert-file", "ca.pem",
                           "--tls-auth-clients", i == WANTS_CLIENT ? "yes" : "no");
    }
    for (int i = 0; i < SERVERS; i++) {
        hf_client *client = NULL;
        hf_status status;
        int64_t until = now_ms() + 25000;
        do {
            sleep_ms(20);
            status = hf_client_open(
                text(
                    "rediss://127.0.0.1:%d?tls_verify=off&tls_cert=%s/user.pem&tls_key=%s/user.key",
                    ports[i], folder, folder),
                NULL, &client);
        } while (status != HF_OK && now_ms() < until);
        if (status != HF_OK)
            return 1;
        hf_client_close(client);
    }
    return 0;
}

static int stop_all(void **state) {
    for (int i = 0; i < SERVERS; i++)
        stop_server(&servers[i]);
    return remove_folder(state);
}

static int afresh(void **state) {
    (void)state;
    alarm(60);
    return 0;
}

/* ---------------------------------------------------------------- Tests */

static hf_client *client;

static hf_status open_with(int which, const char *host, const char *options) {
    return hf_client_open(text("rediss://%s:%d?connect_timeout=10&tls_ca=%s/ca.pem%s", host,
                               ports[which], folder, options),
                          NULL, &client);
}

static void *wait_for_it(void *lock) {
    hf_hold *hold;
    hf_status status = hf_lock_acquire(lock, 25000, &hold);
    if (status == HF_OK)
        status = hf_hold_release(hold);
    hf_hold_close(hold);
    return (void *)(intptr_t)status;
}

/* Acquire and release, wait until a grant arrives, and renew: pool, subscription and keeper. */
static void use(void) {
    hf_lock_options options = {.size = sizeof options, .lease_ms = 4500, .renew = HF_ON};
    hf_lock *lock;
    hf_hold *hold;
    pthread_t waiter;
    void *waited;
    hf_stats stats = {.size = sizeof stats};
    assert_status(hf_lock_open(client, "stock", 5, NULL, 0, &options, &lock), HF_OK);
    assert_status(hf_lock_acquire(lock, 0, &hold), HF_OK);
    assert_int_equal(pthread_create(&waiter, NULL, wait_for_it, lock), 0);
    assert_soon(hf_client_stats(client, &stats) == HF_OK && stats.waiting == 1 &&
                stats.renewed > 0);
    assert_status(hf_hold_release(hold), HF_OK);
    pthread_join(waiter, &waited);
    assert_int_equal((intptr_t)waited, HF_OK);
    assert_int_equal(hf_client_stats(client, &stats), HF_OK);
    assert_int_equal(stats.queued, 1);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
}

static void test_every_kind_of_connection_is_encrypted(void **state) {
    (void)state;
    assert_status(open_with(GOOD, local_host(), ""), HF_OK);
    use();
    assert_status(open_with(GOOD, "127.0.0.1", ""), HF_OK);
    use();
}

static void *take_turns(void *lock) {
    for (int i = 0; i < 20; i++)
        if (wait_for_it(lock) != (void *)(intptr_t)HF_OK)
            return NULL;
    return lock;
}

/* One thread at a time may use a session, and each thread gets its own answer. */
static void test_threads_share_encrypted_connections(void **state) {
    enum { THREADS = 50, NAMES = 20 };
    pthread_t threads[THREADS];
    hf_lock *locks[THREADS];
    void *done;
    hf_stats stats = {.size = sizeof stats};
    (void)state;
    assert_status(open_with(GOOD, local_host(), "&command_timeout=12"), HF_OK);
    for (int i = 0; i < THREADS; i++) {
        const char *name = text("shared %d", i % NAMES);
        assert_status(hf_lock_open(client, name, strlen(name), NULL, 0, NULL, &locks[i]), HF_OK);
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, locks[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &done);
        assert_ptr_equal(done, locks[i]);
        hf_lock_close(locks[i]);
    }
    assert_status(hf_client_stats(client, &stats), HF_OK);
    assert_int_equal(stats.reconnects, 0);
    assert_in_range(stats.connections, 2, 3);
    hf_client_close(client);
}

/* H88: the keeper reads after it has sent. */
static void test_a_large_result_goes_over_a_full_socket(void **state) {
    char *result = calloc(1, HF_RESULT_MAX);
    size_t length;
    hf_hold *hold;
    (void)state;
    assert_status(open_with(GOOD, local_host(), "&command_timeout=12"), HF_OK);
    hf_lock *lock = open_lock(client, "large", NULL, NULL);
    assert_status(hf_once_begin(lock, 0, NULL, NULL, 0, &hold), HF_OK);
    kill(servers[GOOD], SIGSTOP);
    assert_status(hf_once_finish_start(hold, HF_ONCE_DONE, result, HF_RESULT_MAX, 60000, 1), HF_OK);
    sleep_ms(300); /* until the socket is full */
    kill(servers[GOOD], SIGCONT);
    hf_completion completion = next_of(client);
    assert_int_equal(completion.kind, HF_KIND_RELEASE);
    assert_status(completion.status, HF_OK);
    hf_hold_close(hold);
    assert_status(hf_once_begin(lock, 0, NULL, NULL, 0, &hold), HF_EDONE);
    assert_non_null(hf_hold_result(hold, &length));
    assert_int_equal(length, HF_RESULT_MAX);
    hf_hold_close(hold);
    hf_lock_close(lock);
    hf_client_close(client);
    free(result);
}

static void test_another_host_s_certificate_is_refused(void **state) {
    (void)state;
    assert_status(open_with(GOOD, "127.0.0.2", ""), HF_ECONNECT);
    assert_message("IP address mismatch");
    assert_message("127.0.0.2");
}

/* It is not enough that the certificate has the address to which the name leads, or the name as its
 * subject. */
static void test_a_certificate_of_another_name_is_refused(void **state) {
    (void)state;
    if (strcmp(local_host(), "localhost") != 0)
        skip();
    assert_status(open_with(OTHER_NAME, "127.0.0.1", ""), HF_OK);
    hf_client_close(client);
    assert_status(open_with(OTHER_NAME, "localhost", ""), HF_ECONNECT);
    assert_message("ostname mismatch");
}

static void test_an_expired_certificate_is_refused(void **state) {
    (void)state;
    assert_status(open_with(EXPIRED, local_host(), ""), HF_ECONNECT);
    assert_message("expired");
}

static void test_a_self_signed_certificate_is_refused(void **state) {
    (void)state;
    assert_status(open_with(SELF_SIGNED, local_host(), ""), HF_ECONNECT);
    assert_message("self-signed certificate");
}

static void test_an_authority_that_is_not_trusted_is_refused(void **state) {
    (void)state;
    assert_status(hf_client_open(text("rediss://127.0.0.1:%d", ports[GOOD]), NULL, &client),
                  HF_ECONNECT);
    assert_message("certificate");
}

static void test_nothing_is_verified_only_if_asked_for(void **state) {
    (void)state;
    assert_status(open_with(SELF_SIGNED, local_host(), "&tls_verify=off"), HF_OK);
    use();
}

static void test_a_client_certificate_is_shown_where_one_is_wanted(void **state) {
    (void)state;
    assert_status(open_with(WANTS_CLIENT, local_host(), ""), HF_ECONNECT);
    assert_status(open_with(WANTS_CLIENT, local_host(),
                            text("&tls_cert=%s/user.pem&tls_key=%s/user.key", folder, folder)),
                  HF_OK);
    use();
}

static void test_files_that_cannot_be_used_are_named(void **state) {
    (void)state;
    assert_status(hf_client_open(text("rediss://127.0.0.1:%d?tls_ca=/nowhere.pem", ports[GOOD]),
                                 NULL, &client),
                  HF_EINVAL);
    assert_message("tls_ca: cannot use /nowhere.pem: No such file or directory");
    assert_status(open_with(GOOD, local_host(), "&tls_cert=/nowhere.pem"), HF_EINVAL);
    assert_message("tls_cert: cannot use /nowhere.pem: No such file or directory");
    assert_status(open_with(GOOD, local_host(), text("&tls_cert=%s/user.pem", folder)), HF_EINVAL);
    assert_message("tls_key");
}

/* Open the client in a process with this terminal, and end. */
static void open_on(const char *terminal) {
    if (setsid() < 0 || ioctl(open(terminal, O_RDWR), TIOCSCTTY, 0) != 0)
        _exit(2);
    const char *files = text("&tls_cert=%s/user.pem&tls_key=%s/secret.key", folder, folder);
    hf_status status = open_with(WANTS_CLIENT, "127.0.0.1", files);
    _exit(status == HF_EINVAL && strstr(hf_error_message(), "tls_key") != NULL ? 0 : 1);
}

/* OpenSSL would ask for its password on the terminal, and wait. */
static void test_a_key_with_a_password_asks_no_terminal(void **state) {
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), status = -1;
    (void)state;
    FILE *file = fopen(text("%s/secret.key", folder), "w");
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert_int_equal(
        PEM_write_PrivateKey(file, key, EVP_aes_256_cbc(), (unsigned char *)"word", 4, NULL, NULL),
        1);
    EVP_PKEY_free(key);
    fclose(file);
    assert_true(grantpt(master) == 0 && unlockpt(master) == 0);
    const char *terminal = text("%s", ptsname(master));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        open_on(terminal);
    struct pollfd asks = {.fd = master, .events = POLLIN};
    for (pid_t ended = 0; ended == 0; ended = waitpid(child, &status, WNOHANG))
        if (poll(&asks, 1, 10) > 0 && (asks.revents & POLLIN) != 0) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            break;
        }
    assert_int_equal(status, 0);
    close(master);
}

static void test_plain_and_encrypted_do_not_mix_and_say_so(void **state) {
    hf_client_options options = {.size = sizeof options, .connect_timeout_ms = 500};
    (void)state;
    int64_t before = now_ms();
    assert_status(hf_client_open(text("redis://127.0.0.1:%d", ports[GOOD]), &options, &client),
                  HF_ECONNECT);
    assert_message(text("cannot log in to redis://127.0.0.1:%d: ", ports[GOOD]));
    assert_message(": if the server expects TLS, the URL must begin with rediss");
    assert_status(
        hf_client_open(text("redis+sentinel://127.0.0.1:%d/mine", ports[GOOD]), &options, &client),
        HF_ECONNECT);
    assert_message(text("cannot ask the sentinel redis://127.0.0.1:%d: ", ports[GOOD]));
    assert_message(": if the server expects TLS, the URL must begin with rediss");
    const char *plain = strchr(tcp_url(), '/') + 2;
    assert_status(hf_client_open(text("rediss://%s", plain), &options, &client), HF_ECONNECT);
    assert_message("cannot log in to rediss://");
    assert_message(": if the server does not speak TLS, the URL must begin with redis, not rediss");
    assert_in_range(now_ms() - before, 0, 20000);
}

static void test_tls_options_need_the_scheme(void **state) {
    (void)state;
    assert_status(hf_client_open("redis://localhost?tls_ca=x", NULL, &client), HF_EINVAL);
    assert_message("rediss://");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_every_kind_of_connection_is_encrypted, afresh),
        cmocka_unit_test_setup(test_threads_share_encrypted_connections, afresh),
        cmocka_unit_test_setup(test_a_large_result_goes_over_a_full_socket, afresh),
        cmocka_unit_test_setup(test_another_host_s_certificate_is_refused, afresh),
        cmocka_unit_test_setup(test_a_certificate_of_another_name_is_refused, afresh),
        cmocka_unit_test_setup(test_an_expired_certificate_is_refused, afresh),
        cmocka_unit_test_setup(test_a_self_signed_certificate_is_refused, afresh),
        cmocka_unit_test_setup(test_an_authority_that_is_not_trusted_is_refused, afresh),
        cmocka_unit_test_setup(test_nothing_is_verified_only_if_asked_for, afresh),
        cmocka_unit_test_setup(test_a_client_certificate_is_shown_where_one_is_wanted, afresh),
        cmocka_unit_test_setup(test_files_that_cannot_be_used_are_named, afresh),
        cmocka_unit_test_setup(test_a_key_with_a_password_asks_no_terminal, afresh),
        cmocka_unit_test_setup(test_plain_and_encrypted_do_not_mix_and_say_so, afresh),
        cmocka_unit_test_setup(test_tls_options_need_the_scheme, afresh),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
