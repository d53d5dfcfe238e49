// SPDX-License-Identifier: Apache-2.0
/*
 * The JSON files of Google's credentials, each exchanged for a token:
 *
 *     service_account    a private key, which signs a statement (JWT, RS256)
 *     authorized_user    the refresh token of `gcloud auth application-default login`
 *     external_account   workload identity federation: a token of another issuer, in a file; then
 *                        the service account that it may stand for, if one is named
 *
 * (GOOGLE-FILE-1) A secret of a file goes to the https hosts of Google that the file names, or to
 *                 the token service in CLOUDSDK_AUTH_TOKEN_HOST; a file alone cannot lead it
 *                 elsewhere.
 */
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "bucket/credentials/google_i.h"
#include "bucket/credentials/token_i.h"

#define TOKEN_URI "https://oauth2.googleapis.com/token"
#define SCOPE     "https://www.googleapis.com/auth/devstorage.read_only"
#define LIFE      3600 /* seconds of a statement: the most that Google allows */

static const char *member(const json_t *doc, const char *name)
{
    const char *s = json_string_value(json_object_get(doc, name));

    return s != NULL && *s != '\0' ? s : NULL;
}

static int lacks(const char *name, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_EINVAL, "there is no %s in it: download it again", name);
}

/* (GOOGLE-FILE-1) */
static int check_service(const struct lookup *l, const char *url, struct dlc_err *err)
{
    const char *allowed = cloud_env_get(l->env, VAR_CLOUDSDK_AUTH_TOKEN_HOST);

    if (google_is_own(url) || (allowed != NULL && strcmp(url, allowed) == 0 && token_host_ok(url)))
        return 0;
    return dlc_err_set(err, DLC_EDENIED,
                       "it names the token service %.120s, which is no https host of Google: set "
                       "CLOUDSDK_AUTH_TOKEN_HOST to it if it is right",
                       url);
}

/* ---- service accounts ---- */

/* Base64 for URLs, after `out`. */
static void add_base64url(const void *data, size_t len, struct buf *out)
{
    size_t from = out->len;

    str_base64(data, len, out);
    while (out->len > from && out->data[out->len - 1] == '=')
        out->data[--out->len] = '\0';
    for (size_t i = from; i < out->len; i++)
        out->data[i] = (char)(out->data[i] == '+' ? '-' : out->data[i] == '/' ? '_' : out->data[i]);
}

static void add_json(json_t *doc, struct buf *out)
{
    char *text = json_dumps(doc, JSON_COMPACT);

    dlc_check(text != NULL);
    add_base64url(text, strlen(text), out);
    free(text);
    json_decref(doc);
}

/* Gives the key, or NULL. */
static EVP_PKEY *key_of(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key;

    dlc_check(bio != NULL);
    key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    BIO_free(bio);
    if (key != NULL && EVP_PKEY_base_id(key) != EVP_PKEY_RSA) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    return key;
}

/* ".SIGNATURE" after the statement. */
static bool sign(const char *pem, struct buf *jwt)
{
    EVP_PKEY *key = key_of(pem);
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    unsigned char signature[1024];
    size_t n = sizeof(signature);
    bool ok;

    dlc_check(md != NULL);
    ok = key != NULL && (size_t)EVP_PKEY_size(key) <= sizeof(signature) &&
         EVP_DigestSignInit(md, NULL, EVP_sha256(), NULL, key) == 1 &&
         EVP_DigestSign(md, signature, &n, (const unsigned char *)buf_str(jwt), jwt->len) == 1;
    if (ok) {
        buf_addc(jwt, '.');
        add_base64url(signature, n, jwt);
    }
    EVP_MD_CTX_free(md);
    EVP_PKEY_free(key);
    return ok;
}

static int service_account(struct lookup *l, const json_t *doc, struct credentials *out,
                           struct dlc_err *err)
{
    const char *email = member(doc, "client_email"), *pem = member(doc, "private_key");
    const char *id = member(doc, "private_key_id"), *uri = member(doc, "token_uri");
    struct buf jwt = BUF_INIT, form = BUF_INIT;
    int rc;

    if (email == NULL || pem == NULL)
        return lacks(email == NULL ? "client_email" : "private_key", err);
    uri = uri != NULL ? uri : TOKEN_URI;
    rc = check_service(l, uri, err);
    if (rc < 0)
        return rc;
    buf_reserve(&jwt, 8192);
    add_json(json_pack("{s:s, s:s, s:s*}", "alg", "RS256", "typ", "JWT", "kid", id), &jwt);
    buf_addc(&jwt, '.');
    add_json(json_pack("{s:s, s:s, s:s, s:I, s:I}", "iss", email, "scope", SCOPE, "aud", uri, "iat",
                       (json_int_t)l->now, "exp", (json_int_t)(l->now + LIFE)),
             &jwt);
    if (!sign(pem, &jwt)) {
        rc =
            dlc_err_set(err, DLC_EINVAL, "its private_key is no RSA key in PEM: download it again");
    } else {
        buf_reserve(&form, FORM_RESERVE);
        form_add(&form, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
        form_add(&form, "assertion", buf_str(&jwt));
        rc = token_ask(l, uri, &form, out, err);
    }
    secret_buf_release(&jwt);
    secret_buf_release(&form);
    return rc;
}

/* ---- users ---- */

static int authorized_user(struct lookup *l, const json_t *doc, struct credentials *out,
                           struct dlc_err *err)
{
    static const char *const names[] = {"client_id", "client_secret", "refresh_token"};
    const char *uri = cloud_env_get(l->env, VAR_CLOUDSDK_AUTH_TOKEN_HOST);
    struct buf form = BUF_INIT;
    int rc = 0;

    buf_reserve(&form, FORM_RESERVE);
    form_add(&form, "grant_type", "refresh_token");
    for (size_t i = 0; i < DLC_COUNT(names) && rc == 0; i++) {
        if (member(doc, names[i]) == NULL)
            rc = lacks(names[i], err);
        form_add(&form, names[i], member(doc, names[i]));
    }
    uri = uri != NULL ? uri : TOKEN_URI;
    if (rc == 0)
        rc = check_service(l, uri, err);
    if (rc == 0)
        rc = token_ask(l, uri, &form, out, err);
    secret_buf_release(&form);
    return rc;
}

/* ---- federation ---- */

/* The token of the other issuer: the text of a file, or a field of the JSON in it. */
static int subject_token(const json_t *doc, struct buf *out, struct dlc_err *err)
{
    const json_t *source = json_object_get(doc, "credential_source"), *in;
    const json_t *format = json_object_get(source, "format");
    const char *file = member(source, "file"), *field = member(format, "subject_token_field_name");
    struct buf text = BUF_INIT;
    int rc;

    if (file == NULL)
        return dlc_err_set(
            err, DLC_EINVAL,
            "its credential_source is no file: dlcache reads tokens from files only");
    buf_reserve(&text, TOKEN_FILE_MAX);
    rc = os_read_file(file, TOKEN_FILE_MAX, &text, err);
    if (rc == 0 && member(format, "type") != NULL && strcmp(member(format, "type"), "json") == 0) {
        json_t *inner = json_loadb(buf_str(&text), text.len, 0, NULL);

        in = json_object_get(inner, field != NULL ? field : "access_token");
        buf_adds(out, json_is_string(in) ? json_string_value(in) : "");
        secret_json_wipe(inner);
        json_decref(inner);
    } else if (rc == 0 && text.len > 0) {
        buf_adds(out, str_trim(text.data));
    }
    if (rc == 0 && out->len == 0)
        rc = dlc_err_set(err, DLC_EINVAL, "%s holds no token", file);
    secret_buf_release(&text);
    return rc;
}

static int external_account(struct lookup *l, const json_t *doc, struct credentials *out,
                            struct dlc_err *err)
{
    const char *uri = member(doc, "token_url"), *audience = member(doc, "audience");
    const char *type = member(doc, "subject_token_type");
    struct buf form = BUF_INIT, token = BUF_INIT;
    int rc;

    if (uri == NULL || audience == NULL || type == NULL)
        return lacks(uri == NULL        ? "token_url"
                     : audience == NULL ? "audience"
                                        : "subject_token_type",
                     err);
    if (member(doc, "service_account_impersonation_url") != NULL)
        return dlc_err_set(err, DLC_EINVAL,
                           "it stands for a service account, which dlcache does not ask for: grant "
                           "the federated identity itself the right to read the bucket");
    buf_reserve(&token, TOKEN_FILE_MAX);
    rc = check_service(l, uri, err);
    if (rc == 0)
        rc = subject_token(doc, &token, err);
    if (rc == 0) {
        buf_reserve(&form, FORM_RESERVE);
        form_add(&form, "grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
        form_add(&form, "audience", audience);
        form_add(&form, "scope", SCOPE);
        form_add(&form, "requested_token_type", "urn:ietf:params:oauth:token-type:access_token");
        form_add(&form, "subject_token_type", type);
        form_add(&form, "subject_token", buf_str(&token));
        rc = token_ask(l, uri, &form, out, err);
    }
    secret_buf_release(&token);
    secret_buf_release(&form);
    return rc;
}

/* ---- all ---- */

int google_json(struct lookup *l, const char *text, size_t len, bool ours, struct credentials *out,
                struct dlc_err *err)
{
    json_t *doc = json_loadb(text, len, 0, NULL);
    const char *type = member(doc, "type");
    int rc;

    if (type == NULL)
        rc = dlc_err_set(err, DLC_EINVAL, "it is not JSON of Google's credentials");
    else if (strcmp(type, "service_account") == 0)
        rc = service_account(l, doc, out, err);
    else if (ours && strcmp(type, "authorized_user") == 0)
        rc = authorized_user(l, doc, out, err);
    else if (ours && strcmp(type, "external_account") == 0)
        rc = external_account(l, doc, out, err);
    else
        rc = dlc_err_set(err, DLC_EINVAL, "its type is \"%.40s\"; dlcache knows %s", type,
                         ours ? "service_account, authorized_user and external_account"
                              : "service_account here");
    secret_json_wipe(doc);
    json_decref(doc);
    return rc;
}

int google_file(struct lookup *l, const char *path, struct credentials *out, struct dlc_err *err)
{
    struct buf text = BUF_INIT;
    int rc;

    buf_reserve(&text, TOKEN_FILE_MAX);
    rc = os_read_file(path, TOKEN_FILE_MAX, &text, err);
    if (rc == 0) {
        rc = google_json(l, buf_str(&text), text.len, true, out, err);
        if (rc < 0)
            dlc_err_prefix(err, "%s", path);
    }
    secret_buf_release(&text);
    return rc;
}
