#include "net/openssl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

hf_openssl hf_ssl;

static const struct {
    const char *name;
    size_t at;
} functions[] = {
#define FUNCTION(name) {#name, offsetof(hf_openssl, name)},
    HF_OPENSSL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static const char *missing; /* the first function that the library lacks */
static bool loaded;

/* Find all functions. libssl loads libcrypto, so that a search in libssl finds the functions of
 * both. */
static bool find_all(void *library) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(library, functions[i].name);
        if (found == NULL) {
            missing = functions[i].name;
            return false;
        }
        memcpy((char *)&hf_ssl + functions[i].at, &found, sizeof found);
    }
    return true;
}

static void load(void) {
    for (const char *const *name = hf_libssl_names; *name != NULL && !loaded; name++) {
        void *library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        loaded = library != NULL && find_all(library);
        if (library != NULL && !loaded)
            dlclose(library);
    }
}

hf_status hf_openssl_load(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (loaded)
        return HF_OK;
    if (missing != NULL)
        return hf_fail(HF_EUNSUPPORTED,
                       "rediss:// needs OpenSSL 3 or 1.1.1, and the one on this machine has no %s",
                       missing);
    return hf_fail(HF_EUNSUPPORTED,
                   "rediss:// needs OpenSSL 3 or 1.1.1, and this machine has no %s: install "
                   "OpenSSL and start the program again",
                   hf_libssl_names[0]);
}
