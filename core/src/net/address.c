#include "net/address.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "net/member.h"

/* A fence with a flag, which shows whether ids are dead, lives for a day whatever the user
 * chooses. */
#define FENCE_LIFE_MIN 1000

/* Copy the text with %XX decoded. *bad: an escape is broken, or stands for a NUL. */
static char *decode(const char *from, size_t length, bool *bad) {
    char *text = length < SIZE_MAX ? malloc(length + 1) : NULL, *to = text;
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

/* Decode into *text_out; where: the part of the URL, for the message. */
static hf_status take(char **text_out, const char *from, size_t length, const char *where) {
    bool bad = false;
    *text_out = decode(from, length, &bad);
    if (*text_out == NULL)
        return hf_fail(HF_ENOMEM, "no memory");
    return bad ? hf_fail(HF_EINVAL, "malformed URL: a bad %% escape in %s", where) : HF_OK;
}

/* Return the number of the decimal digits; -1: there are other characters, or it is above max. */
static int read_number(const char *from, size_t length, int max) {
    int64_t value = 0 < length && length <= 9 ? hf_read_digits(from, length) : -1;
    return value <= max ? (int)value : -1;
}

static bool is(const char *word, size_t length, const char *text) {
    return strlen(text) == length && memcmp(word, text, length) == 0;
}

/* The text after redis, rediss, valkey or valkeys. */
static const char *const kinds[] = {[HF_SERVER] = "",
                                    [HF_SENTINEL] = "+sentinel",
                                    [HF_CLUSTER] = "+cluster",
                                    [HF_QUORUM] = "+quorum"};
#define SCHEMES                                                                                    \
    "redis, rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster, rediss+cluster, "        \
    "redis+quorum, rediss+quorum; or valkey for redis"

static hf_status parse_scheme(const char *url, size_t length, hf_address *address, bool *tcp) {
    *tcp = length != 4 || strncasecmp(url, "unix", 4) != 0;
    if (!*tcp)
        return HF_OK;
    size_t at = strncasecmp(url, "redis", 5) == 0 ? 5 : strncasecmp(url, "valkey", 6) == 0 ? 6 : 0;
    address->tls = at > 0 && tolower((unsigned char)url[at]) == 's';
    at += address->tls;
    for (int i = 0; at > 0 && i <= HF_QUORUM; i++)
        if (at + strlen(kinds[i]) == length && strncasecmp(url + at, kinds[i], length - at) == 0) {
            address->kind = i;
            return HF_OK;
        }
    /* Show the text only if it can be a scheme: other text may be a secret. */
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)url[i]) && strchr("+-.", url[i]) == NULL)
            return hf_fail(HF_EINVAL, "malformed URL: it must begin with one of " SCHEMES);
    return hf_fail(HF_EINVAL, "unknown scheme %s in the URL: use one of " SCHEMES,
                   hf_quote(url, length));
}

static hf_status parse_login(const char *from, size_t length, hf_address *address) {
    static const char where[] = "the user or the password";
    const char *colon = memchr(from, ':', length);
    /* In redis://name@host the password is missing. */
    if (colon == NULL)
        return hf_fail(HF_EINVAL,
                       "malformed URL: in front of the @ it takes user:password or :password");
    hf_status status = HF_OK;
    if (colon > from)
        status = take(&address->user, from, (size_t)(colon - from), where);
    if (status != HF_OK)
        return status;
    return take(&address->secret, colon + 1, length - (size_t)(colon + 1 - from), where);
}

/* Return seconds, with or without a fraction, as milliseconds; -1: the text is no such number. */
static int64_t milliseconds(const char *from, size_t length) {
    const char *point = memchr(from, '.', length);
    size_t whole = point != NULL ? (size_t)(point - from) : length;
    int seconds = read_number(from, whole, 315360000), fraction = 0;
    if (point != NULL) {
        size_t digits = length - whole - 1;
        fraction = digits <= 3 ? read_number(point + 1, digits, 999) : -1;
        for (; digits < 3; digits++)
            fraction *= 10;
    }
    return seconds < 0 || fraction < 0 ? -1 : seconds * INT64_C(1000) + fraction;
}

/* The options after the ?, and their fields. */
#define FIELD(field) offsetof(hf_address, field)
static const struct option {
    const char *name;
    enum { TEXT, NAME, NUMBER, SWITCH, SECONDS, SECONDS_OR_0, SECONDS_OR_NEVER } kind;
    size_t field;
} url_options[] = {
    {"db", NUMBER, FIELD(database)},
    {"tls_ca", TEXT, FIELD(ca)},
    {"tls_cert", TEXT, FIELD(certificate)},
    {"tls_key", TEXT, FIELD(key)},
    {"tls_verify", SWITCH, FIELD(verify)},
    {"password_file", TEXT, FIELD(secret_file)},
    {"password_env", TEXT, FIELD(secret_variable)},
    {"connect_timeout", SECONDS, FIELD(options.connect_timeout_ms)},
    {"command_timeout", SECONDS, FIELD(options.command_timeout_ms)},
    {"keepalive", SECONDS_OR_NEVER, FIELD(options.keepalive_ms)},
    {"client_name", NAME, FIELD(client_name)},
    {"lazy", SWITCH, FIELD(options.lazy)},
    {"fence_life", SECONDS, FIELD(options.fence_life_ms)},
    {"replicas", NUMBER, FIELD(replicas)},
    {"quarantine", SECONDS_OR_0, FIELD(quarantine_ms)},
};
#undef FIELD
#define OPTIONS (sizeof url_options / sizeof *url_options)

static hf_status set_option(const struct option *option, const char *value, size_t length,
                            hf_address *address) {
    static const char *const takes[] = {
        [TEXT] = "one value",
        [NAME] = "1 to 63 characters",
        [NUMBER] = "a number",
        [SWITCH] = "on or off",
        [SECONDS] = "seconds, like 2 or 0.5",
        [SECONDS_OR_0] = "seconds, like 30, or 0",
        [SECONDS_OR_NEVER] = "seconds, like 30, or 0",
    };
    void *field = (char *)address + option->field;
    char **text = field;
    int32_t *number = field;
    int64_t *ms = field;
    bool bad;
    switch (option->kind) {
    case TEXT:
    case NAME:
        bad = length == 0 || *text != NULL;
        if (!bad && (*text = decode(value, length, &bad)) == NULL)
            return hf_fail(HF_ENOMEM, "no memory");
        break;
    case NUMBER:
        *number = read_number(value, length, 1000000);
        bad = *number < 0;
        break;
    case SWITCH:
        *number = is(value, length, "on") ? HF_ON : HF_OFF;
        bad = *number == HF_OFF && !is(value, length, "off");
        break;
    default:
        *ms = milliseconds(value, length);
        bad = *ms < 0 || (*ms == 0 && option->kind == SECONDS);
        if (*ms == 0 && option->kind == SECONDS_OR_NEVER)
            *ms = HF_NEVER;
    }
    return bad ? hf_fail(HF_EINVAL, "malformed URL: %s takes %s", option->name, takes[option->kind])
               : HF_OK;
}

/* Refuse an unknown option. Its name is shown only where it cannot be the rest of a password: the
 * hosts before it are good, and a value follows. */
static hf_status refuse_option(const char *name) {
    size_t length = strcspn(name, "=&"), used = 0;
    bool named = length > 0 && name[length] == '=';
    char known[256];
    for (size_t i = 0; i < OPTIONS; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s, ", url_options[i].name);
    return hf_fail(HF_EINVAL, "%s%s in the URL: after the ? it takes %seach with a = and a value",
                   named ? "unknown option " : "an option without a name or a value",
                   named ? hf_quote(name, length) : "", known);
}

/* Parse the options. *unknown: the first option with an unknown name, or NULL. */
static hf_status parse_query(const char *query, hf_address *address, const char **unknown) {
    bool quorum = address->kind == HF_QUORUM;
    if (strchr(query, '@') != NULL)
        return hf_fail(HF_EINVAL,
                       "malformed URL: a ? in the user or the password must be written %%3F");
    while (*query != '\0') {
        size_t length = strcspn(query, "&"), name = strcspn(query, "=&"), i = 0;
        const char *value = query + name + (name < length);
        hf_status status = HF_OK;
        while (i < OPTIONS && !is(query, name, url_options[i].name))
            i++;
        if (i < OPTIONS)
            status = set_option(&url_options[i], value, length - (size_t)(value - query), address);
        else if (*unknown == NULL)
            *unknown = query;
        if (status != HF_OK)
            return status;
        if (is(query, name, "replicas") && quorum)
            return hf_fail(HF_EINVAL,
                           "malformed URL: the masters of redis+quorum:// have no replicas");
        if (is(query, name, "quarantine") && !quorum)
            return hf_fail(HF_EINVAL, "malformed URL: quarantine needs redis+quorum://");
        query += length + (query[length] == '&');
    }
    if (!address->tls && (address->ca != NULL || address->certificate != NULL ||
                          address->key != NULL || address->verify == HF_OFF))
        return hf_fail(HF_EINVAL, "malformed URL: the tls_ options need rediss://");
    if (address->secret_file != NULL && address->secret_variable != NULL)
        return hf_fail(HF_EINVAL,
                       "malformed URL: it takes password_file or password_env, not both");
    return HF_OK;
}

/* Parse host[:port] or [v6]:port; the place is all zeros before. */
static hf_status parse_host(const char *from, size_t length, int usual, hf_place *place) {
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
        if (port != NULL && memchr(port, ':', (size_t)(end - port)) != NULL)
            return hf_fail(HF_EINVAL, "malformed URL: more than one : in the host; an IPv6 address "
                                      "needs brackets, like [::1]:6379");
    }
    if (host_end == host)
        return hf_fail(HF_EINVAL, "malformed URL: no host");
    place->port = port != NULL ? read_number(port, (size_t)(end - port), 65535) : usual;
    if (place->port <= 0)
        return hf_fail(HF_EINVAL, "malformed URL: the port must be 1 to 65535");
    return take(&place->host, host, (size_t)(host_end - host), "the host");
}

/* Check the masters: each must be a separate server, and a majority must be more than one. */
static hf_status check_masters(const hf_address *address) {
    if (address->place_count < HF_MASTERS_MIN || address->place_count > HF_MASTERS_MAX)
        return hf_fail(HF_EINVAL,
                       "malformed URL: %zu masters: a quorum takes %d to %d, like "
                       "redis+quorum://host,host,host",
                       address->place_count, HF_MASTERS_MIN, HF_MASTERS_MAX);
    for (size_t i = 0; i < address->place_count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcasecmp(address->places[i].host, address->places[j].host) == 0 &&
                address->places[i].port == address->places[j].port)
                return hf_fail(HF_EINVAL, "malformed URL: it names one master of the quorum twice");
    return HF_OK;
}

/* Parse one host, or several separated by commas. */
static hf_status parse_hosts(const char *from, const char *end, hf_address *address) {
    if (address->kind == HF_SERVER)
        return parse_host(from, (size_t)(end - from), 6379, &address->place);
    for (;;) {
        const char *comma = memchr(from, ',', (size_t)(end - from));
        const char *stop = comma != NULL ? comma : end;
        hf_place *places = realloc(address->places, (address->place_count + 1) * sizeof *places);
        if (places == NULL)
            return hf_fail(HF_ENOMEM, "no memory");
        hf_place *place = &places[address->place_count++];
        *place = (hf_place){0};
        address->places = places;
        hf_status status = parse_host(from, (size_t)(stop - from),
                                      address->kind == HF_SENTINEL ? 26379 : 6379, place);
        if (status != HF_OK || comma == NULL)
            return status;
        from = comma + 1;
    }
}

/* Parse [/service][/database]. */
static hf_status parse_path(const char *path, const char *end, hf_address *address) {
    if (address->kind == HF_SENTINEL) {
        const char *slash = path < end ? memchr(path + 1, '/', (size_t)(end - path - 1)) : NULL;
        const char *stop = slash != NULL ? slash : end;
        if (path + 1 >= stop)
            return hf_fail(HF_EINVAL, "malformed URL: it must look like "
                                      "redis+sentinel://host,host,host/service/0");
        hf_status status =
            take(&address->service, path + 1, (size_t)(stop - path - 1), "the service");
        if (status != HF_OK)
            return status;
        path = stop;
    }
    if (path + 1 >= end)
        return HF_OK;
    if (address->database != 0)
        return hf_fail(HF_EINVAL, "malformed URL: it names the database twice");
    address->database = read_number(path + 1, (size_t)(end - path - 1), 1000000);
    if (address->database < 0)
        return hf_fail(HF_EINVAL, "malformed URL: the database must be a number");
    return HF_OK;
}

static hf_status parse(const char *url, hf_address *address) {
    const char *separator = strstr(url, "://");
    if (separator == NULL)
        return hf_fail(HF_EINVAL, "malformed URL: it must look like redis://host:6379/0 or "
                                  "unix:///path/to/socket");
    bool tcp;
    hf_status status = parse_scheme(url, (size_t)(separator - url), address, &tcp);
    if (status != HF_OK)
        return status;
    address->quarantine_ms = HF_QUARANTINE_MS;
    const char *rest = separator + 3, *query = strchr(rest, '?');
    const char *end = query != NULL ? query : rest + strlen(rest), *unknown = NULL;
    if (query != NULL && (status = parse_query(query + 1, address, &unknown)) != HF_OK)
        return status;
    if (memchr(rest, '#', (size_t)(end - rest)) != NULL)
        return hf_fail(HF_EINVAL, "malformed URL: a # must be written %%23");

    const char *path = memchr(rest, '/', (size_t)(end - rest));
    const char *authority_end = path != NULL ? path : end;
    /* The last @ ends the login: so a password with an @ never becomes a host, which messages
     * show. */
    const char *at = NULL;
    for (const char *c = rest; c < authority_end; c++)
        if (*c == '@')
            at = c;
    if (memchr(authority_end, '@', (size_t)(end - authority_end)) != NULL)
        return hf_fail(HF_EINVAL, "malformed URL: a / in the user or the password must be "
                                  "written %%2F, and a @ in a path %%40");
    if (at != NULL) {
        status = parse_login(rest, (size_t)(at - rest), address);
        if (status != HF_OK)
            return status;
        rest = at + 1;
    }
    if (!tcp) {
        if (path == NULL || rest != path)
            return hf_fail(HF_EINVAL,
                           "malformed URL: it must look like unix:///path/to/socket, with three /");
        status = take(&address->path, path, (size_t)(end - path), "the socket's path");
        size_t most = sizeof((struct sockaddr_un *)0)->sun_path - 1; /* the limit of this system */
        if (status == HF_OK && strlen(address->path) > most)
            status = hf_fail(HF_EINVAL, "malformed URL: the socket's path is longer than %zu bytes",
                             most);
    } else {
        status = parse_path(path != NULL ? path : end, end, address);
        if (status == HF_OK)
            status = parse_hosts(rest, authority_end, address);
    }
    if (status == HF_OK && address->kind == HF_CLUSTER && address->database != 0)
        status = hf_fail(HF_EINVAL, "malformed URL: a cluster has only the database 0");
    if (status == HF_OK && address->kind == HF_QUORUM)
        status = check_masters(address);
    return status == HF_OK && unknown != NULL ? refuse_option(unknown) : status;
}

static char *show(const hf_address *address, const char *scheme) {
    hf_bytes text;
    char number_text[16];
    hf_bytes_init(&text);
    hf_bytes_add(&text, scheme, strlen(scheme));
    hf_bytes_add(&text, "://", 3);
    bool one = address->place.host != NULL;
    const hf_place *places = one ? &address->place : address->places;
    size_t count = one ? 1 : address->place_count;
    for (size_t i = 0; i < count; i++) {
        bool v6 = strchr(places[i].host, ':') != NULL;
        hf_bytes_add(&text, ",", i > 0);
        hf_bytes_add(&text, "[", v6);
        hf_bytes_add(&text, places[i].host, strlen(places[i].host));
        int length = snprintf(number_text, sizeof number_text, v6 ? "]:%d" : ":%d", places[i].port);
        hf_bytes_add(&text, number_text, (size_t)length);
    }
    if (address->path != NULL)
        hf_bytes_add(&text, address->path, strlen(address->path));
    if (address->service != NULL && !one) {
        hf_bytes_add(&text, "/", 1);
        hf_bytes_add(&text, address->service, strlen(address->service));
    }
    char *shown = text.failed ? NULL : strndup(text.data, text.length);
    hf_bytes_free(&text);
    return shown;
}

hf_status hf_address_parse(const char *url, hf_address *address) {
    memset(address, 0, sizeof *address);
    hf_status status = parse(url, address);
    if (status == HF_OK) {
        char scheme[32];
        snprintf(scheme, sizeof scheme, "%.*s", (int)(strstr(url, "://") - url), url);
        address->shown = show(address, scheme);
        if (address->shown == NULL)
            status = hf_fail(HF_ENOMEM, "no memory");
    }
    if (status != HF_OK)
        hf_address_free(address);
    return status;
}

hf_status hf_address_options(hf_address *address, const hf_client_options *chosen) {
    hf_client_options *options = &address->options;
    const char *name = *chosen->client_name != '\0'   ? chosen->client_name
                       : address->client_name != NULL ? address->client_name
                                                      : "holdfast";
    size_t length = strnlen(name, sizeof options->client_name);
    if (length == sizeof options->client_name)
        return hf_fail(HF_EINVAL, "the client_name takes at most 63 characters");
    for (size_t i = 0; i < length; i++)
        if (name[i] <= ' ' || name[i] > '~')
            return hf_fail(HF_EINVAL,
                           "the client_name %s: it takes printable ASCII characters, no spaces",
                           hf_quote(name, length));
    memcpy(options->client_name, name, length + 1);

#define CHOOSE(option, usual)                                                                      \
    options->option = chosen->option != 0    ? chosen->option                                      \
                      : options->option != 0 ? options->option                                     \
                                             : (usual)
    CHOOSE(connect_timeout_ms, 2000);
    CHOOSE(command_timeout_ms, 2000);
    CHOOSE(keepalive_ms, 15000);
    CHOOSE(fence_life_ms, 0); /* 0 is a day */
    CHOOSE(lazy, HF_OFF);
#undef CHOOSE
    if (options->connect_timeout_ms < 0 || options->command_timeout_ms < 0 ||
        options->connect_timeout_ms > HF_LEASE_MAX || options->command_timeout_ms > HF_LEASE_MAX)
        return hf_fail(HF_EINVAL,
                       "the connect timeout or the command timeout is negative, or over ten years");
    if (options->keepalive_ms < HF_NEVER || options->keepalive_ms > HF_LEASE_MAX)
        return hf_fail(HF_EINVAL, "a keepalive of %lld ms: it must be 1 ms to 10 years, or off",
                       (long long)options->keepalive_ms);
    int64_t life_ms = options->fence_life_ms;
    if (life_ms != 0 && (life_ms < FENCE_LIFE_MIN || life_ms > HF_LEASE_MAX))
        return hf_fail(HF_EINVAL, "a fence_life of %lld ms: it must be 1 s to 10 years",
                       (long long)life_ms);
    if (options->lazy != HF_ON && options->lazy != HF_OFF)
        return hf_fail(HF_EINVAL, "lazy is %d: it is on, off or left to the default",
                       (int)options->lazy);
    return HF_OK;
}

hf_status hf_address_pick(hf_address *address, size_t at) {
    for (size_t i = 0; i < address->place_count; i++)
        if (i != at)
            free(address->places[i].host);
    address->place = address->places[at];
    free(address->places);
    free(address->shown);
    address->places = NULL;
    address->place_count = 0;
    address->kind = HF_SERVER;
    address->shown = show(address, address->tls ? "rediss" : "redis");
    return address->shown != NULL ? HF_OK : hf_fail(HF_ENOMEM, "no memory");
}

void hf_secret_free(char *secret) {
    if (secret != NULL)
        hf_wipe(secret, strlen(secret));
    free(secret);
}

void hf_address_free(hf_address *address) {
    hf_secret_free(address->secret);
    for (size_t i = 0; i < address->place_count; i++)
        free(address->places[i].host);
    free(address->places);
    free(address->place.host);
    free(address->path);
    free(address->service);
    free(address->user);
    free(address->client_name);
    free(address->secret_file);
    free(address->secret_variable);
    free(address->ca);
    free(address->certificate);
    free(address->key);
    free(address->shown);
    hf_members_drop(address->members);
    memset(address, 0, sizeof *address);
}

hf_status hf_address_make(const hf_address *original, const hf_place *place, hf_address *address) {
    *address = *original;
    address->kind = HF_SERVER;
    address->places = NULL;
    address->place_count = 0;
    address->path = NULL;
    address->place = (hf_place){strdup(place->host), place->port};
    address->shown =
        address->place.host != NULL ? show(address, original->tls ? "rediss" : "redis") : NULL;
    if (address->shown != NULL)
        return HF_OK;
    hf_address_unmake(address);
    return hf_fail(HF_ENOMEM, "no memory");
}

void hf_address_unmake(hf_address *address) {
    free(address->place.host);
    free(address->shown);
    memset(address, 0, sizeof *address);
}

hf_status hf_address_secret(const hf_address *address, char **secret_out) {
    char text[1024] = "";
    const char *found = address->secret;
    if (address->secret_variable != NULL) {
        found = getenv(address->secret_variable);
        if (found == NULL)
            return hf_fail(HF_EAUTH, "password_env: the variable %.100s is not set",
                           address->secret_variable);
    } else if (address->secret_file != NULL) {
        FILE *file = fopen(address->secret_file, "re");
        size_t length = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
        bool good = file != NULL && !ferror(file) && length < sizeof text - 1;
        if (file != NULL)
            fclose(file);
        if (!good)
            return hf_fail(HF_EAUTH, "password_file: cannot read %.200s: %s", address->secret_file,
                           file == NULL ? strerror(errno) : "it is too long");
        text[strcspn(text, "\r\n")] = '\0';
        found = text;
    }
    *secret_out = found != NULL ? strdup(found) : NULL;
    bool failed = found != NULL && *secret_out == NULL;
    hf_wipe(text, sizeof text);
    return failed ? hf_fail(HF_ENOMEM, "no memory") : HF_OK;
}
