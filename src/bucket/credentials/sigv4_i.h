// SPDX-License-Identifier: Apache-2.0
/*
 * AWS Signature Version 4, as S3 wants it: the path is encoded once, and the host, the payload
 * hash, the date, the session token and every extra header are signed.
 *
 * A signer belongs to one thread (one per lane). It keeps its buffers and the signing key derived
 * from (secret, day, region, service), so that a signature allocates nothing and derives the key
 * once a day.
 */
#ifndef DLC_BUCKET_CREDENTIALS_SIGV4_I_H
#define DLC_BUCKET_CREDENTIALS_SIGV4_I_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/hash.h"
#include "bucket/credentials/credentials_i.h"

#define SIGV4_EXTRA_MAX 16 /* extra headers of one request */

struct sigv4_header {
    const char *name; /* lower case */
    const char *value;
};

struct sigv4_signer {
    struct evp_md_ctx_st *md;      /* OpenSSL's EVP_MD_CTX */
    struct buf canonical;          /* the canonical request, then the string to sign */
    struct buf secret, scope;      /* what key was derived from; scope is day/region/service/... */
    unsigned char key[SHA256_LEN]; /* derived signing key */
    int64_t second;                /* the moment that stamp tells */
    char stamp[sizeof("20130524T000000Z")];
};

void sigv4_signer_init(struct sigv4_signer *sg);
void sigv4_signer_release(struct sigv4_signer *sg); /* wipes what it kept */

/*
 * Sign one request and append to out the header lines "name: value\n" that it needs:
 * x-amz-content-sha256, x-amz-date, x-amz-security-token (with a session token), authorization.
 *
 * Borrows all arguments for the call. path and query are encoded already, query sorted by name, ""
 * if none. extra need not be sorted; it names neither host nor any of the headers above.
 * payload_hash: hex, "UNSIGNED-PAYLOAD", or NULL for an empty body. now: Unix time.
 */
void sigv4_sign(struct sigv4_signer *sg, const struct credentials *c, const char *region,
                const char *service, int64_t now, const char *method, const char *host,
                const char *path, const char *query, const struct sigv4_header *extra,
                size_t n_extra, const char *payload_hash, struct buf *out);

#endif
