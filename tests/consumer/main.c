/* The smallest user of an installed holdfast: it links, and it runs. */
#include <holdfast/holdfast.h>

#include <stdio.h>
#include <string.h>

int main(void) {
    char expected[32];
    hf_client *client = NULL;

    snprintf(expected, sizeof expected, "%d.%d.%d", HF_VERSION_MAJOR, HF_VERSION_MINOR,
             HF_VERSION_PATCH);
    if (strcmp(hf_version(), expected) != 0) {
        printf("library %s, header %s\n", hf_version(), expected);
        return 1;
    }
    if (hf_client_open("nonsense", NULL, &client) != HF_EINVAL) {
        printf("a bad URL was not refused\n");
        return 1;
    }
    printf("holdfast %s: %s\n", hf_version(), hf_error_message());
    return 0;
}
