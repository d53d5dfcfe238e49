// SPDX-License-Identifier: Apache-2.0
#include "operator/install_secret.h"

#include <string.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/api_token.h"
#include "operator/reconcile/manifest.h"

#define BYTES      32
#define REDIS_HOST "dlcache-redis"
#define MOUNTED    "/etc/dlcache/" /* where pods of deploy/ have members of the Secret */
/* The manager reads its certificate when it starts, so nobody renews it unseen: it outlives
 * installations. docs/kubernetes-upgrades.md says how to replace it. */
#define CERT_DAYS 3650

static void random_bytes(unsigned char out[static BYTES])
{
    dlc_check(RAND_bytes(out, BYTES) == 1);
}

/* As the manager makes them: "dlc_" and 32 bytes in base64url. Gives. */
static char *new_token(void)
{
    unsigned char bytes[BYTES];
    struct buf b = BUF_INIT;
    char *token;

    random_bytes(bytes);
    str_base64(bytes, sizeof(bytes), &b);
    for (char *s = b.data; *s != '\0'; s++)
        *s = *s == '+' ? '-' : *s == '/' ? '_' : *s;
    token = mem_fmt("dlc_%.*s", (int)strcspn(b.data, "="), b.data);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    OPENSSL_cleanse(b.data, b.cap);
    buf_release(&b);
    return token;
}

static char *new_hex(void)
{
    unsigned char bytes[BYTES];
    char *hex = mem_alloc(2 * BYTES + 1);

    random_bytes(bytes);
    str_hex(bytes, sizeof(bytes), hex);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return hex;
}

static bool has(const json_t *secret, const char *key)
{
    return json_string_length(json_object_get(json_object_get(secret, "data"), key)) > 0;
}

/* Takes and wipes text. */
static void put(json_t *into, const char *key, char *text)
{
    json_object_set_new(into, key, json_string(text));
    secret_free(&text);
}

static void put_store(json_t *into)
{
    char *password = new_hex();

    put(into, "store",
        mem_fmt("rediss://:%s@" REDIS_HOST ":6379?ca=" MOUNTED "redis-ca.crt", password));
    put(into, "redis.conf",
        mem_fmt("requirepass %s\nport 0\ntls-port 6379\ntls-cert-file " MOUNTED "redis.crt\n"
                "tls-key-file " MOUNTED "redis.key\ntls-ca-cert-file " MOUNTED "redis-ca.crt\n"
                "tls-auth-clients no\n",
                password));
    secret_free(&password);
}

/* Names of Services (deploy/), short and long, and where `kubectl port-forward` ends. Gives each. */
static size_t service_names(const char *ns, const char *const *services, size_t n_services,
                            char *names[static CERTS_NAMES_MAX])
{
    size_t n = 0;

    dlc_check(4 * n_services + 2 <= CERTS_NAMES_MAX);
    for (size_t i = 0; i < n_services; i++) {
        names[n++] = mem_str(services[i]);
        names[n++] = mem_fmt("%s.%s", services[i], ns);
        names[n++] = mem_fmt("%s.%s.svc", services[i], ns);
        names[n++] = mem_fmt("%s.%s.svc.cluster.local", services[i], ns);
    }
    names[n++] = mem_str("localhost");
    names[n++] = mem_str("127.0.0.1");
    return n;
}

void bootstrap_put_certs(json_t *texts, const struct certs *c)
{
    json_object_set_new(texts, "ca.crt", json_string(c->bundle));
    json_object_set_new(texts, "ca.key", json_string(c->ca_key));
    json_object_set_new(texts, "tls.crt", json_string(c->cert));
    json_object_set_new(texts, "tls.key", json_string(c->key));
}

/* (INSTALL-SECRET-3) */
static void put_certificate(json_t *into, const char *ns, const json_t *have)
{
    static const char *const managers[] = {"dlcache-manager", "dlcache-manager-b",
                                           "dlcache-manager-c"};
    char *v[CERTS_NAMES_MAX];
    struct certs_names names = {(const char *const *)v, 0, CERT_DAYS};
    struct certs c = CERTS_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    if (has(have, "ca.crt") && has(have, "tls.crt") && has(have, "tls.key"))
        return;
    bootstrap_certs(have, &c);
    mem_free(&c.cert);
    secret_free(&c.key);
    names.n = service_names(ns, managers, DLC_COUNT(managers), v);
    if (certs_renew(&c, &names, dlc_wall_seconds(), NULL, &err) == 0)
        bootstrap_put_certs(into, &c);
    else
        log_warn("no certificate for the managers of namespace %s: %s", ns, err.text);
    for (size_t i = 0; i < names.n; i++)
        mem_free(&v[i]);
    certs_release(&c);
}

/* (INSTALL-SECRET-4) */
static void put_redis_certificate(json_t *into, const char *ns, const json_t *have)
{
    static const char *const redis[] = {REDIS_HOST};
    char *v[CERTS_NAMES_MAX];
    struct certs_names names = {(const char *const *)v, 0, CERT_DAYS};
    struct certs c = CERTS_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    if (has(have, "redis-ca.crt") && has(have, "redis.crt") && has(have, "redis.key"))
        return;
    names.n = service_names(ns, redis, DLC_COUNT(redis), v);
    if (certs_renew(&c, &names, dlc_wall_seconds(), NULL, &err) == 0) {
        json_object_set_new(into, "redis-ca.crt", json_string(c.bundle));
        json_object_set_new(into, "redis.crt", json_string(c.cert));
        json_object_set_new(into, "redis.key", json_string(c.key));
    } else {
        log_warn("no certificate for the Redis of namespace %s: %s", ns, err.text);
    }
    for (size_t i = 0; i < names.n; i++)
        mem_free(&v[i]);
    certs_release(&c);
}

static json_t *what_is_missing(const char *ns, const json_t *have)
{
    static const char *const tokens[] = {"admin.token", "node.token"};
    json_t *texts = json_object();

    for (size_t i = 0; i < DLC_COUNT(tokens); i++) {
        if (!has(have, tokens[i]))
            put(texts, tokens[i], new_token());
    }
    if (!has(have, "manager.key"))
        put(texts, "manager.key", new_hex());
    if (!has(have, "store"))
        put_store(texts);
    put_certificate(texts, ns, have);
    put_redis_certificate(texts, ns, have);
    return texts;
}

json_t *bootstrap_secret(const char *ns, const json_t *have)
{
    json_t *texts = what_is_missing(ns, have);
    const json_t *version = json_at(have, "metadata.resourceVersion");

    if (json_object_size(texts) == 0) {
        json_decref(texts);
        return NULL;
    }
    if (have != NULL)
        return json_pack("{s:{s:O*}, s:o}", "metadata", "resourceVersion", version, "stringData",
                         texts);
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:{s:s, s:s}}, s:s, s:o}", "apiVersion", "v1", "kind",
                     "Secret", "metadata", "name", MANAGER_SECRET, "namespace", ns, "labels",
                     "app.kubernetes.io/name", "dlcache", LABEL_MANAGED, MANAGED_BY, "type",
                     "Opaque", "stringData", texts);
}

char *bootstrap_text(const json_t *secret, const char *key)
{
    const char *b64 = json_string_value(json_object_get(json_object_get(secret, "data"), key));
    struct buf b = BUF_INIT;
    char *text = NULL;

    if (b64 != NULL && str_unbase64(b64, &b) && b.len > 0 && strlen(b.data) == b.len)
        text = mem_str(str_trim(b.data));
    if (b.data != NULL)
        OPENSSL_cleanse(b.data, b.cap);
    buf_release(&b);
    return text;
}

/* With the end of line that a PEM text has. Gives, or NULL. */
static char *pem_of(const json_t *secret, const char *key)
{
    char *trimmed = bootstrap_text(secret, key);
    char *pem = trimmed != NULL ? mem_fmt("%s\n", trimmed) : NULL;

    secret_free(&trimmed);
    return pem;
}

void bootstrap_certs(const json_t *secret, struct certs *out)
{
    out->bundle = pem_of(secret, "ca.crt");
    out->ca_key = pem_of(secret, "ca.key");
    out->cert = pem_of(secret, "tls.crt");
    out->key = pem_of(secret, "tls.key");
}
