/* URLs: no URL crashes the parser, and no message reveals a password. */
#include "fuzz.h"

#include "net/address.h"

#define PASSWORD "hunter2"

static size_t times(const char *text, const char *word) {
    size_t count = 0;
    for (; text != NULL && (text = strstr(text, word)) != NULL; text++)
        count++;
    return count;
}

/* Return whether the one password of this URL is where passwords belong. */
static bool well_placed(const char *url) {
    const char *rest = strstr(url, "://"), *at = strrchr(url, '@');
    const char *found = strstr(url, ":" PASSWORD "@");
    return times(url, PASSWORD) == 1 && rest != NULL && found != NULL && at != NULL &&
           found > rest && found < at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *url = malloc(size + 1);
    hf_address address, other;
    memcpy(url, data, size);
    url[size] = '\0';
    hf_status status = hf_address_parse(url, &address);
    if (status != HF_OK) {
        promise(status == HF_EINVAL || status == HF_EUNSUPPORTED);
        promise(*hf_error_message() != '\0');
        promise(!well_placed(url) || times(hf_error_message(), PASSWORD) == 0);
    } else {
        promise(!well_placed(url) || times(address.shown, PASSWORD) == 0);
        promise((address.kind == HF_SERVER) == (address.place_count == 0));
        promise((address.place.host != NULL) + (address.path != NULL) + (address.place_count > 0) ==
                1);
        promise(address.place.host == NULL ||
                (address.place.port > 0 && address.place.port < 65536));
        promise(address.database >= 0);
        for (size_t i = 0; i < address.place_count; i++)
            promise(address.places[i].port > 0 && address.places[i].port < 65536);
        promise(hf_address_options(&address, &(hf_client_options){0}) == HF_OK ||
                *hf_error_message() != '\0');
        promise(hf_address_make(&address, &(hf_place){(char *)"host", 1}, &other) == HF_OK);
        promise(times(other.shown, PASSWORD) == 0);
        hf_address_unmake(&other);
        hf_address_free(&address);
    }
    free(url);
    return 0;
}
