/* Programs without TLS need no OpenSSL; without it a rediss:// is a clear error. */
#include <dlfcn.h>
#include <holdfast/holdfast.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

static enum { ALL_THERE, NO_LIBRARY, OLD_LIBRARY } machine;
static int asked;

void *__real_dlopen(const char *file, int flags);
void *__wrap_dlopen(const char *file, int flags);
void *__wrap_dlopen(const char *file, int flags) {
    asked++;
    return machine == NO_LIBRARY ? NULL : __real_dlopen(file, flags);
}

void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name) {
    return machine == OLD_LIBRARY && strcmp(name, "SSL_set1_host") == 0
               ? NULL
               : __real_dlsym(library, name);
}

/* The library looks for OpenSSL only once, so each case has a process of its own. */
#define IN_A_CHILD(CHECKS)                                                                         \
    do {                                                                                           \
        pid_t child = fork();                                                                      \
        if (child == 0) {                                                                          \
            CHECKS;                                                                                \
            _exit(0);                                                                              \
        }                                                                                          \
        int ended = -1;                                                                            \
        assert_int_equal(waitpid(child, &ended, 0), child);                                        \
        assert_int_equal(ended, 0);                                                                \
    } while (0)

static void opens(const char *url, hf_status expected, const char *text) {
    hf_client_options lazily = {.size = sizeof lazily, .lazy = HF_ON};
    hf_client *client = NULL;
    hf_status status = hf_client_open(url, &lazily, &client);
    if (status != expected || (text != NULL && strstr(hf_error_message(), text) == NULL)) {
        fprintf(stderr, "%s: %s: %s\n", url, hf_status_name(status), hf_error_message());
        _exit(1);
    }
    hf_client_close(client);
}

static void test_a_client_without_tls_looks_for_no_openssl(void **state) {
    (void)state;
    IN_A_CHILD({
        machine = NO_LIBRARY;
        opens("redis://127.0.0.1:1", HF_OK, NULL);
        opens("redis+sentinel://127.0.0.1:1/service", HF_OK, NULL);
        if (asked != 0)
            _exit(2);
    });
}

static void test_tls_without_openssl_says_what_to_install(void **state) {
    (void)state;
    IN_A_CHILD({
        machine = NO_LIBRARY;
        opens("rediss://127.0.0.1:1", HF_EUNSUPPORTED, "this machine has no libssl");
        opens("rediss://127.0.0.1:1", HF_EUNSUPPORTED, "install OpenSSL");
        if (asked == 0)
            _exit(2);
    });
}

static void test_tls_with_an_openssl_that_is_too_old_names_what_it_lacks(void **state) {
    (void)state;
    IN_A_CHILD({
        machine = OLD_LIBRARY;
        opens("rediss://127.0.0.1:1", HF_EUNSUPPORTED, "has no SSL_set1_host");
    });
}

static void test_tls_with_openssl_is_opened(void **state) {
    (void)state;
    IN_A_CHILD({
        opens("rediss://127.0.0.1:1", HF_OK, NULL);
        if (asked == 0)
            _exit(2);
    });
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_client_without_tls_looks_for_no_openssl),
        cmocka_unit_test(test_tls_without_openssl_says_what_to_install),
        cmocka_unit_test(test_tls_with_an_openssl_that_is_too_old_names_what_it_lacks),
        cmocka_unit_test(test_tls_with_openssl_is_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
