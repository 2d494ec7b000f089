/*
 * The askers in C; run.py describes the question and starts them.
 *
 * A line on standard input, "once 33 NAME" or "each 33 NAME", gives the way to
 * ask, the number of callers, and the name of the call, which is also the
 * vendor's idempotency key. Each caller prints its answer as a line of JSON.
 * With "most" the vendor is called at most once, whichever process dies:
 * docs/guides/payment.md.
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

#define MAX_NAME 200
#define MAX_ANSWER 4096

static hf_lock *check_lock;
static char how[8], name[MAX_NAME + 1];

/* Return HF_ONCE_DONE, or HF_ONCE_FAILED if the vendor refuses, which is an answer as well. */
static int32_t ask_vendor(char *answer, size_t *length);

static const char *setting(const char *variable) {
    const char *value = getenv(variable);

    if (!value)
        errx(2, "no %s in the environment: run.py starts this program", variable);
    return value;
}

static void check(hf_status status) {
    if (status != HF_OK)
        errx(1, "%s: %s", hf_status_name(status), hf_error_message());
}

/* Put the error into the form that Python and Java store; the vendor's text needs no escapes. */
static void keep_as_error(char *answer, size_t *length) {
    char text[MAX_ANSWER - 64];

    snprintf(text, sizeof text, "%.*s", (int)*length, answer);
    *length =
        (size_t)sprintf(answer, "{\"type\":\"Declined\",\"message\":\"%s\",\"data\":null}", text);
}

/* Copy the result of a call that ended with HF_EDONE or HF_EFAILED. */
static void copy_result(const hf_hold *hold, char *answer, size_t *length) {
    const void *result = hf_hold_result(hold, length);

    if (*length > MAX_ANSWER)
        errx(1, "the answer has %zu bytes", *length);
    memcpy(answer, result, *length);
}

/* Ask the vendor as the first caller, or get that caller's answer. */
static const char *ask_once(const hf_acquire_options *options, char *answer, size_t *length) {
    hf_hold *hold;
    hf_status status;
    int32_t state = HF_ONCE_DONE;
    const char *outcome = "answer";

    do { /* again if the lock was lost before the call began */
        status = hf_once_begin(check_lock, MINUTE_MS, options, NULL, 0, &hold);
        if (status == HF_OK && options) {
            status = hf_once_mark(hold, HF_NEVER, NULL, 0);
            if (status == HF_ELOST)
                hf_hold_close(hold);
        }
    } while (status == HF_ELOST);
    if (status == HF_OK) {
        state = ask_vendor(answer, length);
        if (state == HF_ONCE_FAILED)
            keep_as_error(answer, length);
        check(hf_once_finish(hold, state, answer, *length, MINUTE_MS));
    } else if (status == HF_EDONE || status == HF_EFAILED) {
        state = status == HF_EDONE ? HF_ONCE_DONE : HF_ONCE_FAILED;
        copy_result(hold, answer, length);
    } else if (status == HF_EOUTCOME) {
        outcome = "unknown";
        *length = (size_t)sprintf(answer, "true");
    } else {
        check(status);
    }
    hf_hold_close(hold);
    return state == HF_ONCE_FAILED ? "error" : outcome;
}

static void *ask(void *unused) {
    static const hf_acquire_options most = {.size = sizeof most, .flags = HF_ACQUIRE_AT_MOST_ONCE};
    char answer[MAX_ANSWER];
    const char *outcome = "answer";
    size_t length;

    (void)unused;
    if (strcmp(how, "each") == 0)
        ask_vendor(answer, &length);
    else
        outcome = ask_once(strcmp(how, "most") == 0 ? &most : NULL, answer, &length);
    printf("{\"language\":\"c\",\"%s\":%.*s}\n", outcome, (int)length, answer);
    return NULL;
}

int main(void) {
    static pthread_t threads[MAX_ASKERS];
    hf_client *client;
    int askers;

    setvbuf(stdout, NULL, _IOLBF, 0);
    check(hf_client_open(setting("REDIS"), NULL, &client));
    puts("{\"ready\":true}");

    while (scanf("%7s %d %200s", how, &askers, name) == 3 && askers <= MAX_ASKERS) {
        check(hf_lock_open(client, name, strlen(name), NULL, 0, NULL, &check_lock));
        for (int i = 0; i < askers; i++)
            if (pthread_create(&threads[i], NULL, ask, NULL) != 0)
                errx(1, "no thread for an asker");
        for (int i = 0; i < askers; i++)
            pthread_join(threads[i], NULL);
        hf_lock_close(check_lock);
    }
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

static int32_t ask_vendor(char *answer, size_t *answer_length) {
    char identity[1024];
    char message[4096];
    size_t length = 0;
    int vendor = connect_to_vendor();
    char *body;

    snprintf(identity, sizeof identity, "{\"name\":\"%s\",\"number\":\"%s\",\"born\":\"%s\"}",
             setting("IDENTITY_NAME"), setting("IDENTITY_NUMBER"), setting("IDENTITY_BORN"));
    snprintf(message, sizeof message,
             "POST /check HTTP/1.0\r\nIdempotency-Key: %s\r\nContent-Length: %zu\r\n\r\n%s", name,
             strlen(identity), identity);
    if (write(vendor, message, strlen(message)) != (ssize_t)strlen(message))
        err(1, "the vendor");
    for (ssize_t got; (got = read(vendor, message + length, sizeof message - 1 - length)) > 0;)
        length += (size_t)got;
    close(vendor);
    message[length] = '\0';

    body = strstr(message, "\r\n\r\n");
    if (!body || strlen(body + 4) > MAX_ANSWER)
        errx(1, "the vendor's answer makes no sense");
    *answer_length = strlen(body + 4);
    memcpy(answer, body + 4, *answer_length);
    return strncmp(message + strlen("HTTP/1.0 "), "402", 3) == 0 ? HF_ONCE_FAILED : HF_ONCE_DONE;
}
