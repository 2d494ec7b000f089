/* Keys and certificates, made for one run of a test as files in its folder. */
#ifndef CERTIFICATES_H
#define CERTIFICATES_H

#include "servers.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

typedef struct {
    EVP_PKEY *key;
    X509 *certificate;
} identity;

static inline void extend(X509 *certificate, X509 *issuer, int nid, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

/* Make a certificate, signed by the issuer or by itself, valid from a day ago for that number of
 * days. */
static inline identity make_identity(const char *name, const char *alternatives,
                                     const identity *issuer, int days) {
    static long serial = 1;
    identity made = {EVP_EC_gen("P-256"), X509_new()};
    X509 *c = made.certificate;
    X509_set_version(c, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(c), serial++);
    X509_gmtime_adj(X509_getm_notBefore(c), -24L * 3600);
    X509_gmtime_adj(X509_getm_notAfter(c), (days - 1) * 24L * 3600 - 1);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_pubkey(c, made.key);
    X509 *by = issuer != NULL ? issuer->certificate : c;
    X509_set_issuer_name(c, X509_get_subject_name(by));
    extend(c, by, NID_basic_constraints, issuer == NULL ? "critical,CA:TRUE" : "CA:FALSE");
    if (alternatives != NULL)
        extend(c, by, NID_subject_alt_name, alternatives);
    assert_true(X509_sign(c, issuer != NULL ? issuer->key : made.key, EVP_sha256()) > 0);
    return made;
}

static inline void save(const identity *who, const char *name) {
    FILE *file = fopen(text("%s/%s.pem", folder, name), "w");
    PEM_write_X509(file, who->certificate);
    fclose(file);
    file = fopen(text("%s/%s.key", folder, name), "w");
    PEM_write_PrivateKey(file, who->key, NULL, NULL, 0, NULL, NULL);
    fclose(file);
}

static inline void drop(identity *who) {
    EVP_PKEY_free(who->key);
    X509_free(who->certificate);
}

#endif
