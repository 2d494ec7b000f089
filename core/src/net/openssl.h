/* OpenSSL, loaded when a program first opens a rediss:// URL: programs without TLS need no OpenSSL,
 * and one build serves all its versions since 1.1.1. All calls of OpenSSL must use this table. Many
 * names in its headers are macros over the functions here. */
#ifndef HF_OPENSSL_H
#define HF_OPENSSL_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/util.h"

#define HF_OPENSSL_FUNCTIONS(NAME)                                                                 \
    NAME(BIO_clear_flags)                                                                          \
    NAME(BIO_free)                                                                                 \
    NAME(BIO_get_data)                                                                             \
    NAME(BIO_meth_free)                                                                            \
    NAME(BIO_meth_new)                                                                             \
    NAME(BIO_meth_set_ctrl)                                                                        \
    NAME(BIO_meth_set_read)                                                                        \
    NAME(BIO_meth_set_write)                                                                       \
    NAME(BIO_new)                                                                                  \
    NAME(BIO_set_data)                                                                             \
    NAME(BIO_set_flags)                                                                            \
    NAME(BIO_set_init)                                                                             \
    NAME(ERR_clear_error)                                                                          \
    NAME(ERR_peek_last_error)                                                                      \
    NAME(ERR_reason_error_string)                                                                  \
    NAME(SSL_CTX_ctrl)                                                                             \
    NAME(SSL_CTX_free)                                                                             \
    NAME(SSL_CTX_load_verify_locations)                                                            \
    NAME(SSL_CTX_new)                                                                              \
    NAME(SSL_CTX_set_default_passwd_cb)                                                            \
    NAME(SSL_CTX_set_default_verify_paths)                                                         \
    NAME(SSL_CTX_set_verify)                                                                       \
    NAME(SSL_CTX_use_PrivateKey_file)                                                              \
    NAME(SSL_CTX_use_certificate_chain_file)                                                       \
    NAME(SSL_ctrl)                                                                                 \
    NAME(SSL_free)                                                                                 \
    NAME(SSL_get0_param)                                                                           \
    NAME(SSL_get_error)                                                                            \
    NAME(SSL_get_verify_result)                                                                    \
    NAME(SSL_is_init_finished)                                                                     \
    NAME(SSL_new)                                                                                  \
    NAME(SSL_pending)                                                                              \
    NAME(SSL_read)                                                                                 \
    NAME(SSL_set1_host)                                                                            \
    NAME(SSL_set_bio)                                                                              \
    NAME(SSL_set_connect_state)                                                                    \
    NAME(SSL_want)                                                                                 \
    NAME(SSL_write)                                                                                \
    NAME(TLS_client_method)                                                                        \
    NAME(X509_VERIFY_PARAM_set1_ip_asc)                                                            \
    NAME(X509_verify_cert_error_string)

typedef struct {
#define HF_OPENSSL_MEMBER(name) __typeof__(name) *name;
    HF_OPENSSL_FUNCTIONS(HF_OPENSSL_MEMBER)
#undef HF_OPENSSL_MEMBER
} hf_openssl;

/* Every function, after hf_openssl_load() has found them. It is never unloaded. */
extern hf_openssl hf_ssl;

/* Thread-safe. HF_EUNSUPPORTED with a message: there is no OpenSSL, or none that is new enough. */
hf_status hf_openssl_load(void);

#endif
