/* Files with passwords: the first line counts, whatever else is in them. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "net/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64], *secret = NULL;
    int fd = memfd_create("password", MFD_CLOEXEC);
    promise(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    hf_address address = {.secret_file = path};
    hf_status status = hf_address_secret(&address, &secret);
    if (status == HF_OK) {
        size_t length = strlen(secret);
        promise(length <= size && memcmp(secret, data, length) == 0);
        promise(strpbrk(secret, "\r\n") == NULL);
        promise(length == size || strchr("\r\n", data[length]) != NULL);
        hf_secret_free(secret);
    } else {
        promise(status == HF_EAUTH);
    }
    close(fd);
    return 0;
}
