#include "address.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy with %XX decoded; *bad if an escape is broken or hides a NUL. */
static char *decode(const char *from, size_t length, bool *bad) {
    char *text = malloc(length + 1), *to = text;
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < length; i++) {
        if (from[i] != '%') {
            *to++ = from[i];
            continue;
        }
        char hex[3] = {0};
        if (i + 2 >= length || !isxdigit((unsigned char)from[i + 1]) ||
            !isxdigit((unsigned char)from[i + 2])) {
            *bad = true;
            break;
        }
        memcpy(hex, from + i + 1, 2);
        char byte = (char)strtol(hex, NULL, 16);
        if (byte == '\0')
            *bad = true;
        *to++ = byte;
        i += 2;
    }
    *to = '\0';
    return text;
}

/* A whole string of decimal digits, at most max; -1 if it is anything else. */
static int number(const char *from, size_t length, int max) {
    int value = 0;
    if (length == 0 || length > 9)
        return -1;
    for (size_t i = 0; i < length; i++) {
        if (from[i] < '0' || from[i] > '9')
            return -1;
        value = 10 * value + (from[i] - '0');
    }
    return value <= max ? value : -1;
}

static bool is(const char *word, size_t length, const char *text) {
    return strlen(text) == length && memcmp(word, text, length) == 0;
}

static hf_status check_scheme(const char *url, size_t length) {
    static const char *const later[] = {
        "rediss",         "unixs",         "redis+sentinel", "rediss+sentinel",
        "sentinel",       "redis+cluster", "rediss+cluster", "cluster",
        "redis-sentinel", "redis-cluster", "valkey",         "valkeys",
    };
    if (is(url, length, "redis") || is(url, length, "unix"))
        return HF_OK;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (is(url, length, later[i]))
            return hf_fail(HF_EUNSUPPORTED,
                           "the scheme %s:// is not supported yet: use redis:// or unix://",
                           later[i]);
    /* Only what can be a scheme is shown: anything else may be a secret. */
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)url[i]) && strchr("+-.", url[i]) == NULL)
            return hf_fail(HF_EINVAL, "malformed URL: it must begin with redis:// or unix://");
    return hf_fail(HF_EINVAL, "unknown scheme %s in the URL: use redis:// or unix://",
                   hf_quote(url, length));
}

static hf_status parse_login(const char *from, size_t length, hf_address *address) {
    bool bad = false;
    const char *colon = memchr(from, ':', length);
    /* redis://name@host: a user without a password is one who forgot it. */
    if (colon == NULL)
        return hf_fail(HF_EINVAL,
                       "malformed URL: before the @ it takes user:password or :password");
    if (colon > from)
        address->user = decode(from, (size_t)(colon - from), &bad);
    address->secret = decode(colon + 1, length - (size_t)(colon + 1 - from), &bad);
    if ((colon > from && address->user == NULL) || address->secret == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    if (bad)
        return hf_fail(HF_EINVAL, "malformed URL: a bad %% escape in user or password");
    return HF_OK;
}

static hf_status parse_query(const char *query, hf_address *address) {
    if (strchr(query, '@') != NULL)
        return hf_fail(HF_EINVAL, "malformed URL: a ? in user or password must be written %%3F");
    while (*query != '\0') {
        size_t length = strcspn(query, "&"), name = strcspn(query, "=&");
        if (!is(query, name, "db"))
            /* Not shown: it may be a piece of a password. */
            return hf_fail(HF_EINVAL, "unknown option in the URL: after the ? it takes db=number");
        address->database =
            length > name ? number(query + name + 1, length - name - 1, 1000000) : -1;
        if (address->database < 0)
            return hf_fail(HF_EINVAL, "malformed URL: db takes a number");
        query += length + (query[length] == '&');
    }
    return HF_OK;
}

/* host[:port], [v6]:port */
static hf_status parse_host(const char *from, size_t length, hf_address *address) {
    bool bad = false;
    const char *end = from + length, *host = from, *host_end, *port = NULL;
    if (length > 0 && *from == '[') {
        host = from + 1;
        host_end = memchr(from, ']', length);
        if (host_end == NULL || (host_end + 1 < end && host_end[1] != ':'))
            return hf_fail(HF_EINVAL, "malformed URL: a [ in the host is not closed");
        if (host_end + 1 < end)
            port = host_end + 2;
    } else {
        host_end = memchr(from, ':', length);
        if (host_end == NULL)
            host_end = end;
        else
            port = host_end + 1;
    }
    if (host_end == host)
        return hf_fail(HF_EINVAL, "malformed URL: no host");
    address->port = port != NULL ? number(port, (size_t)(end - port), 65535) : 6379;
    if (address->port <= 0)
        return hf_fail(HF_EINVAL, "malformed URL: the port must be 1 to 65535");
    address->host = decode(host, (size_t)(host_end - host), &bad);
    if (address->host == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    if (bad)
        return hf_fail(HF_EINVAL, "malformed URL: a bad %% escape in the host");
    return HF_OK;
}

static hf_status parse(const char *url, hf_address *address) {
    const char *separator = strstr(url, "://");
    if (separator == NULL)
        return hf_fail(HF_EINVAL, "malformed URL: it must look like redis://host:6379/0 or "
                                  "unix:///path/to/socket");
    hf_status status = check_scheme(url, (size_t)(separator - url));
    if (status != HF_OK)
        return status;
    bool tcp = *url == 'r', bad = false;
    const char *rest = separator + 3, *query = strchr(rest, '?');
    const char *end = query != NULL ? query : rest + strlen(rest);
    if (query != NULL && (status = parse_query(query + 1, address)) != HF_OK)
        return status;
    if (memchr(rest, '#', (size_t)(end - rest)) != NULL)
        return hf_fail(HF_EINVAL, "malformed URL: a # must be written %%23");

    const char *path = memchr(rest, '/', (size_t)(end - rest));
    const char *authority_end = path != NULL ? path : end;
    /* The last @ ends the login, so that a careless password cannot become a
     * host, and with it a part of a message. */
    const char *at = NULL;
    for (const char *c = rest; c < authority_end; c++)
        if (*c == '@')
            at = c;
    if (at != NULL) {
        status = parse_login(rest, (size_t)(at - rest), address);
        if (status != HF_OK)
            return status;
        rest = at + 1;
    } else if (memchr(rest, '@', (size_t)(end - rest)) != NULL) {
        return hf_fail(HF_EINVAL, "malformed URL: a / in user or password must be written %%2F, "
                                  "a @ in a path %%40");
    }
    if (!tcp) {
        if (path == NULL || rest != path)
            return hf_fail(HF_EINVAL,
                           "malformed URL: it must look like unix:///path/to/socket, with three /");
        address->path = decode(path, (size_t)(end - path), &bad);
        if (address->path == NULL)
            return hf_fail(HF_ENOMEM, "no memory");
        if (bad || strlen(address->path) > 107)
            return hf_fail(HF_EINVAL, "malformed URL: the socket's path %s",
                           bad ? "has a bad % escape" : "is longer than 107 bytes");
        return HF_OK;
    }
    if (path != NULL && path + 1 < end) {
        address->database = number(path + 1, (size_t)(end - path - 1), 1000000);
        if (address->database < 0)
            return hf_fail(HF_EINVAL, "malformed URL: the database must be a number");
    }
    return parse_host(rest, (size_t)(authority_end - rest), address);
}

hf_status hf_address_parse(const char *url, hf_address *address) {
    memset(address, 0, sizeof *address);
    hf_status status = parse(url, address);
    if (status == HF_OK) {
        size_t length = strlen(address->path != NULL ? address->path : address->host) + 32;
        address->shown = malloc(length);
        if (address->shown == NULL)
            status = hf_fail(HF_ENOMEM, "no memory");
        else if (address->path != NULL)
            snprintf(address->shown, length, "unix://%s", address->path);
        else
            snprintf(address->shown, length,
                     strchr(address->host, ':') != NULL ? "redis://[%s]:%d" : "redis://%s:%d",
                     address->host, address->port);
    }
    if (status != HF_OK)
        hf_address_free(address);
    return status;
}

void hf_address_free(hf_address *address) {
    if (address->secret != NULL)
        explicit_bzero(address->secret, strlen(address->secret));
    free(address->host);
    free(address->path);
    free(address->user);
    free(address->secret);
    free(address->shown);
    memset(address, 0, sizeof *address);
}
