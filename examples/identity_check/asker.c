/*
 * The askers in C; run.py says what they ask and starts them.
 *
 * A line on standard input, "once 33" or "each 33", is how they ask and how
 * many at once; each prints its answer as a line of JSON.
 */
#include <err.h>
#include <holdfast/holdfast.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_ASKERS 1000
#define MINUTE_MS 60000

static hf_lock *check_lock;
static int once;

static size_t ask_vendor(char *answer, size_t capacity);

static const char *setting(const char *name) {
    const char *value = getenv(name);

    if (!value)
        errx(2, "no %s in the environment: run.py starts this program", name);
    return value;
}

static void check(hf_status status) {
    if (status != HF_OK)
        errx(1, "%s: %s", hf_status_name(status), hf_error_message());
}

static void *ask(void *unused) {
    char answer[4096];
    size_t length;

    (void)unused;
    if (!once) {
        length = ask_vendor(answer, sizeof answer);
    } else {
        hf_hold *hold;
        hf_status status = hf_once_begin(check_lock, MINUTE_MS, NULL, NULL, 0, &hold);

        if (status == HF_OK) { /* the first one: the vendor is asked */
            length = ask_vendor(answer, sizeof answer);
            check(hf_once_finish(hold, HF_ONCE_DONE, answer, length, MINUTE_MS));
        } else if (status == HF_EDONE) { /* all others have its answer */
            const void *result = hf_hold_result(hold, &length);

            if (length > sizeof answer)
                errx(1, "the answer has %zu bytes", length);
            memcpy(answer, result, length);
        } else {
            check(status);
        }
        hf_hold_close(hold);
    }
    printf("{\"language\":\"c\",\"answer\":%.*s}\n", (int)length, answer);
    return NULL;
}

int main(void) {
    static pthread_t threads[MAX_ASKERS];
    const char *name = setting("NAME");
    hf_client *client;
    char how[8];
    int askers;

    setvbuf(stdout, NULL, _IOLBF, 0);
    check(hf_client_open(setting("REDIS"), NULL, &client));
    check(hf_lock_open(client, name, strlen(name), NULL, 0, NULL, &check_lock));
    puts("{\"ready\":true}");

    while (scanf("%7s %d", how, &askers) == 2 && askers <= MAX_ASKERS) {
        once = strcmp(how, "once") == 0;
        for (int i = 0; i < askers; i++)
            if (pthread_create(&threads[i], NULL, ask, NULL) != 0)
                errx(1, "no thread for an asker");
        for (int i = 0; i < askers; i++)
            pthread_join(threads[i], NULL);
    }
    hf_lock_close(check_lock);
    hf_client_close(client);
    return 0;
}

/* ------------------------------------------------------- The vendor, by HTTP */

static int connect_to_vendor(void) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int vendor;

    if (getaddrinfo("127.0.0.1", setting("VENDOR_PORT"), &hints, &found) != 0)
        errx(1, "no such vendor");
    vendor = socket(found->ai_family, found->ai_socktype, 0);
    if (vendor < 0 || connect(vendor, found->ai_addr, found->ai_addrlen) != 0)
        err(1, "the vendor");
    freeaddrinfo(found);
    return vendor;
}

static size_t ask_vendor(char *answer, size_t capacity) {
    char identity[1024];
    char message[4096];
    size_t length = 0;
    int vendor = connect_to_vendor();
    char *body;

    snprintf(identity, sizeof identity, "{\"name\":\"%s\",\"number\":\"%s\",\"born\":\"%s\"}",
             setting("IDENTITY_NAME"), setting("IDENTITY_NUMBER"), setting("IDENTITY_BORN"));
    snprintf(message, sizeof message, "POST /check HTTP/1.0\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(identity), identity);
    if (write(vendor, message, strlen(message)) != (ssize_t)strlen(message))
        err(1, "the vendor");
    for (ssize_t got; (got = read(vendor, message + length, sizeof message - 1 - length)) > 0;)
        length += (size_t)got;
    close(vendor);
    message[length] = '\0';

    body = strstr(message, "\r\n\r\n");
    if (!body || strlen(body + 4) > capacity)
        errx(1, "the vendor's answer makes no sense");
    length = strlen(body + 4);
    memcpy(answer, body + 4, length);
    return length;
}
