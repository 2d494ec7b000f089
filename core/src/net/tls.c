#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/openssl.h"

struct hf_tls {
    SSL_CTX *context;
    BIO_METHOD *socket; /* OpenSSL's own BIO raises SIGPIPE */
};

struct hf_tls_session {
    SSL *ssl;
    int fd, flags;              /* of the socket, and of the call that is under way */
    bool starved;               /* the last send waits for bytes from the other end */
    bool (*has_time)(void *of); /* a wait gets the time left */
    void *of;
    char error[256];
};

static const int RETRY = BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY;

static int moved(BIO *bio, ssize_t count, int way) {
    hf_ssl.BIO_clear_flags(bio, RETRY);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        hf_ssl.BIO_set_flags(bio, BIO_FLAGS_SHOULD_RETRY | way);
    return (int)count;
}

/* Return the flags of one read or write. A record or a handshake has several; after the deadline
 * each takes only what is there. */
static int flags_of(const hf_tls_session *session) {
    bool waits = (session->flags & MSG_DONTWAIT) == 0 && session->has_time(session->of);
    return waits ? session->flags : session->flags | MSG_DONTWAIT;
}

static int socket_write(BIO *bio, const char *bytes, int size) {
    const hf_tls_session *session = hf_ssl.BIO_get_data(bio);
    int flags = flags_of(session) | MSG_NOSIGNAL;
    return moved(bio, send(session->fd, bytes, (size_t)size, flags), BIO_FLAGS_WRITE);
}

static int socket_read(BIO *bio, char *bytes, int size) {
    const hf_tls_session *session = hf_ssl.BIO_get_data(bio);
    int flags = flags_of(session) & ~MSG_NOSIGNAL;
    return moved(bio, recv(session->fd, bytes, (size_t)size, flags), BIO_FLAGS_READ);
}

static long socket_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static const char *reason(void) {
    unsigned long code = hf_ssl.ERR_peek_last_error();
    const char *text = code != 0 ? hf_ssl.ERR_reason_error_string(code) : NULL;
    return text != NULL ? text : "unknown reason";
}

/* Return the low bits, where OpenSSL 1.1 and 3 both have the reason. */
static int reason_number(void) { return (int)(hf_ssl.ERR_peek_last_error() & 0xfff); }

/* Return why a file is refused: by the system, or by OpenSSL. */
static const char *why_not(const char *path) {
    return access(path, R_OK) != 0 ? strerror(errno) : reason();
}

/* Give OpenSSL no password: without a function it asks the terminal, and waits. */
static int no_password(char *text, int size, int writes, void *pointer) {
    (void)text, (void)size, (void)writes, (void)pointer;
    return -1;
}

static hf_status load(const hf_address *address, SSL_CTX *context) {
    hf_ssl.ERR_clear_error();
    if (address->ca != NULL) {
        struct stat found;
        bool folder = stat(address->ca, &found) == 0 && S_ISDIR(found.st_mode);
        int good = hf_ssl.SSL_CTX_load_verify_locations(context, folder ? NULL : address->ca,
                                                        folder ? address->ca : NULL);
        if (good != 1)
            return hf_fail(HF_EINVAL, "tls_ca: cannot use %.200s: %s", address->ca,
                           why_not(address->ca));
    } else if (hf_ssl.SSL_CTX_set_default_verify_paths(context) != 1) {
        return hf_fail(HF_EINVAL, "cannot read the system's certificate authorities: %s", reason());
    }
    if (address->certificate != NULL &&
        hf_ssl.SSL_CTX_use_certificate_chain_file(context, address->certificate) != 1)
        return hf_fail(HF_EINVAL, "tls_cert: cannot use %.200s: %s", address->certificate,
                       why_not(address->certificate));
    hf_ssl.SSL_CTX_set_default_passwd_cb(context, no_password);
    const char *key = address->key != NULL ? address->key : address->certificate;
    if (key != NULL && hf_ssl.SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        return hf_fail(HF_EINVAL, "tls_key: cannot use %.200s: %s", key, why_not(key));
    return HF_OK;
}

hf_status hf_tls_new(const hf_address *address, hf_tls **tls_out) {
    *tls_out = NULL;
    hf_status status = hf_openssl_load();
    if (status != HF_OK)
        return status;
    hf_tls *tls = calloc(1, sizeof *tls);
    if (tls != NULL) {
        tls->context = hf_ssl.SSL_CTX_new(hf_ssl.TLS_client_method());
        tls->socket = hf_ssl.BIO_meth_new(BIO_TYPE_SOURCE_SINK, "holdfast socket");
    }
    if (tls == NULL || tls->context == NULL || tls->socket == NULL) {
        hf_tls_free(tls);
        return hf_fail(HF_ENOMEM, "no memory for TLS");
    }
    hf_ssl.BIO_meth_set_write(tls->socket, socket_write);
    hf_ssl.BIO_meth_set_read(tls->socket, socket_read);
    hf_ssl.BIO_meth_set_ctrl(tls->socket, socket_control);
    hf_ssl.SSL_CTX_ctrl(tls->context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    hf_ssl.SSL_CTX_set_verify(tls->context,
                              address->verify == HF_OFF ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    hf_ssl.SSL_CTX_ctrl(tls->context, SSL_CTRL_MODE,
                        SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
    status = load(address, tls->context);
    if (status == HF_OK)
        *tls_out = tls;
    else
        hf_tls_free(tls);
    return status;
}

void hf_tls_free(hf_tls *tls) {
    if (tls == NULL)
        return;
    hf_ssl.SSL_CTX_free(tls->context);
    hf_ssl.BIO_meth_free(tls->socket);
    free(tls);
}

static bool send_name(SSL *ssl, const char *name) {
    return hf_ssl.SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                           (void *)name) == 1; /* OpenSSL copies the name */
}

hf_status hf_tls_begin(const hf_tls *tls, const hf_address *address, int fd,
                       bool (*has_time)(void *of), void *of, hf_tls_session **session_out) {
    hf_tls_session *session = calloc(1, sizeof *session);
    BIO *bio = session != NULL ? hf_ssl.BIO_new(tls->socket) : NULL;
    *session_out = NULL;
    if (bio != NULL)
        session->ssl = hf_ssl.SSL_new(tls->context);
    if (session == NULL || session->ssl == NULL) {
        hf_ssl.BIO_free(bio);
        free(session);
        return hf_fail(HF_ENOMEM, "no memory for TLS");
    }
    session->fd = fd;
    session->has_time = has_time;
    session->of = of;
    hf_ssl.BIO_set_data(bio, session);
    hf_ssl.BIO_set_init(bio, 1);
    hf_ssl.SSL_set_bio(session->ssl, bio, bio);
    hf_ssl.SSL_set_connect_state(session->ssl);
    /* Ask for this name, and demand a certificate for it. */
    unsigned char numeric[sizeof(struct in6_addr)];
    X509_VERIFY_PARAM *wanted = hf_ssl.SSL_get0_param(session->ssl);
    bool ok;
    const char *name = address->place.host;
    if (inet_pton(AF_INET, name, numeric) == 1 || inet_pton(AF_INET6, name, numeric) == 1)
        ok = hf_ssl.X509_VERIFY_PARAM_set1_ip_asc(wanted, name) == 1;
    else
        ok = send_name(session->ssl, name) && hf_ssl.SSL_set1_host(session->ssl, name) == 1;
    if (!ok) {
        hf_tls_end(session);
        return hf_fail(HF_ENOMEM, "no memory for TLS");
    }
    *session_out = session;
    return HF_OK;
}

void hf_tls_end(hf_tls_session *session) {
    if (session == NULL)
        return;
    hf_ssl.SSL_free(session->ssl); /* no close_notify: a forked child must not send its parent's */
    free(session);
}

/* Return the result of a failed SSL_read or SSL_write as recv(2) would. */
static ssize_t outcome(hf_tls_session *session, int count) {
    int error = errno;
    switch (hf_ssl.SSL_get_error(session->ssl, count)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = error == EINTR ? EINTR : EAGAIN;
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        if (error == 0 || count == 0)
            return 0;
        errno = error;
        return -1;
    default:
        break;
    }
    long verdict = hf_ssl.SSL_get_verify_result(session->ssl);
    if (reason_number() == SSL_R_WRONG_VERSION_NUMBER && !hf_tls_established(session))
        snprintf(session->error, sizeof session->error,
                 "what answered does not speak TLS: the URL must begin with redis, not rediss");
    else if (verdict != X509_V_OK)
        snprintf(session->error, sizeof session->error, "the server's certificate is refused: %s",
                 hf_ssl.X509_verify_cert_error_string(verdict));
    else
        snprintf(session->error, sizeof session->error, "TLS failed: %s", reason());
    errno = EPROTO;
    return -1;
}

ssize_t hf_tls_receive(hf_tls_session *session, void *buffer, size_t size, int flags) {
    session->flags = flags;
    hf_ssl.ERR_clear_error();
    errno = 0;
    int count = hf_ssl.SSL_read(session->ssl, buffer, size > INT32_MAX ? INT32_MAX : (int)size);
    return count > 0 ? count : outcome(session, count);
}

ssize_t hf_tls_send(hf_tls_session *session, const void *bytes, size_t size, int flags) {
    session->flags = flags;
    hf_ssl.ERR_clear_error();
    errno = 0;
    int count = hf_ssl.SSL_write(session->ssl, bytes, size > INT32_MAX ? INT32_MAX : (int)size);
    session->starved = count <= 0 && hf_ssl.SSL_want(session->ssl) == SSL_READING;
    return count > 0 ? count : outcome(session, count);
}

const char *hf_tls_error(const hf_tls_session *session) { return session->error; }

bool hf_tls_established(const hf_tls_session *session) {
    return hf_ssl.SSL_is_init_finished(session->ssl);
}

bool hf_tls_starved(const hf_tls_session *session) { return session->starved; }

bool hf_tls_pending(const hf_tls_session *session) { return hf_ssl.SSL_pending(session->ssl) > 0; }
