// SPDX-License-Identifier: Apache-2.0
#include "operator/kube/kube_config.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "base/api_token.h"
#include "operator/kube/yaml.h"

#define FILE_MAX    (1u << 20)
#define ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* A kubeconfig while it is read. */
struct reading {
    struct kube_config *c;
    const char *name; /* its path */
    struct dlc_err *err;
};

static int refuse(struct reading *r, const char *where, const char *why)
{
    return dlc_err_set(r->err, DLC_EINVAL, "%s: %s: %s", r->name, where, why);
}

/* -------- members -------- */

/* Gives *out, NULL when absent or empty. */
static int text(struct reading *r, const json_t *in, const char *name, char **out)
{
    const json_t *v = json_object_get(in, name);

    *out = NULL;
    if (v == NULL || json_is_null(v))
        return 0;
    if (!json_is_string(v))
        return refuse(r, name, "must be a text");
    if (json_string_length(v) > 0)
        *out = mem_str(json_string_value(v));
    return 0;
}

static int flag(struct reading *r, const json_t *in, const char *name, bool *out)
{
    const json_t *v = json_object_get(in, name);

    if (v != NULL && !json_is_boolean(v) && !json_is_null(v))
        return refuse(r, name, "must be true or false");
    *out = json_is_true(v);
    return 0;
}

/* A path, relative to the directory of the kubeconfig. */
static int file(struct reading *r, const json_t *in, const char *name, char **out)
{
    const char *slash = strrchr(r->name, '/');
    char *given;
    int rc = text(r, in, name, &given);

    if (rc < 0 || given == NULL || given[0] == '/' || slash == NULL) {
        *out = given;
        return rc;
    }
    *out = mem_fmt("%.*s/%s", (int)(slash - r->name), r->name, given);
    mem_free(&given);
    return 0;
}

/* As if nobody had broken the line. */
static void join_lines(char *s)
{
    char *to = s;

    for (; *s != '\0'; s++) {
        if (*s != '\n' && *s != '\r' && *s != ' ')
            *to++ = *s;
    }
    *to = '\0';
}

/* Base64 of PEM; gives the PEM. */
static int data(struct reading *r, const json_t *in, const char *name, char **out)
{
    struct buf b = BUF_INIT;
    char *given;
    int rc = text(r, in, name, &given);

    *out = NULL;
    if (rc < 0 || given == NULL)
        return rc;
    join_lines(given);
    if (!str_unbase64(given, &b) || b.len == 0 || memchr(b.data, '\0', b.len) != NULL ||
        strstr(b.data, "-----BEGIN ") == NULL)
        rc = refuse(r, name, "must be a PEM file in base64");
    else
        *out = buf_take(&b);
    secret_buf_release(&b);
    secret_free(&given);
    return rc;
}

/* A file or its content; the content wins, as for others who read such files. */
static int file_or_data(struct reading *r, const json_t *in, const char *name, char **path,
                        char **pem)
{
    char *member = mem_fmt("%s-data", name);
    int rc = data(r, in, member, pem);

    if (rc == 0 && *pem == NULL)
        rc = file(r, in, name, path);
    mem_free(&member);
    return rc;
}

/* The `what` of the list `in` that is called `name`: clusters, contexts and users are such. */
static int find(struct reading *r, const json_t *in, const char *what, const char *name,
                const json_t **out)
{
    char *list = mem_fmt("%ss", what);
    const json_t *all = json_object_get(in, list), *one;
    size_t i;

    *out = NULL;
    mem_free(&list);
    json_array_foreach((json_t *)all, i, one)
    {
        const char *n = json_string_value(json_object_get(one, "name"));

        if (n != NULL && strcmp(n, name) == 0) {
            *out = json_object_get(one, what);
            break;
        }
    }
    if (!json_is_object(*out))
        return dlc_err_set(r->err, DLC_EINVAL, "%s: there is no %s named '%.100s' in it", r->name,
                           what, name);
    return 0;
}

/* -------- clusters and users -------- */

/* The address of a server as we want it. */
static int take_server(struct reading *r, char **server)
{
    char *s = *server;

    if (s == NULL)
        return refuse(r, "server", "is missing");
    if ((strncasecmp(s, "https://", 8) != 0 || s[8] == '\0') &&
        (strncasecmp(s, "http://", 7) != 0 || s[7] == '\0'))
        return refuse(r, "server", "must be https://HOST:PORT");
    for (const char *p = s; *p != '\0'; p++) {
        if ((unsigned char)*p <= ' ' || *p == 0x7f || strchr("?#@\\", *p) != NULL)
            return refuse(r, "server", "must be https://HOST:PORT");
    }
    for (size_t n = strlen(s); n > 0 && s[n - 1] == '/'; n--)
        s[n - 1] = '\0';
    r->c->server = s;
    *server = NULL;
    return 0;
}

static int read_cluster(struct reading *r, const json_t *cluster)
{
    struct kube_config *c = r->c;
    char *server = NULL;
    int rc = text(r, cluster, "server", &server);

    if (rc == 0)
        rc = take_server(r, &server);
    if (rc == 0)
        rc = file_or_data(r, cluster, "certificate-authority", &c->ca_file, &c->ca_pem);
    if (rc == 0)
        rc = text(r, cluster, "tls-server-name", &c->server_name);
    if (rc == 0)
        rc = flag(r, cluster, "insecure-skip-tls-verify", &c->insecure);
    if (rc == 0 && json_object_get(cluster, "proxy-url") != NULL)
        rc = refuse(r, "proxy-url", "proxies are not supported");
    if (rc == 0 && c->server_name != NULL &&
        strspn(c->server_name,
               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") !=
            strlen(c->server_name))
        rc = refuse(r, "tls-server-name", "must be the name of a host");
    mem_free(&server);
    return rc;
}

static int check_token(struct reading *r)
{
    const char *t = r->c->token;

    for (; t != NULL && *t != '\0'; t++) {
        if ((unsigned char)*t <= ' ' || (unsigned char)*t >= 0x7f)
            return refuse(r, "token", "must be one word");
    }
    return 0;
}

static int read_user(struct reading *r, const json_t *user)
{
    static const char *const programs[] = {"exec", "auth-provider", "username", "password", "as"};
    struct kube_config *c = r->c;
    int rc;

    for (size_t i = 0; i < DLC_COUNT(programs); i++) {
        if (json_object_get(user, programs[i]) != NULL)
            return refuse(r, programs[i],
                          "is not supported; use a token, a token file or a client certificate");
    }
    rc = text(r, user, "token", &c->token);
    if (rc == 0)
        rc = file(r, user, "tokenFile", &c->token_file);
    if (rc == 0)
        rc = check_token(r);
    if (rc == 0)
        rc = file_or_data(r, user, "client-certificate", &c->cert_file, &c->cert_pem);
    if (rc == 0)
        rc = file_or_data(r, user, "client-key", &c->key_file, &c->key_pem);
    if (rc == 0 && (c->cert_file != NULL || c->cert_pem != NULL) !=
                       (c->key_file != NULL || c->key_pem != NULL))
        rc = refuse(r, "client-certificate", "certificate and key need each other");
    return rc;
}

/* -------- the whole -------- */

static int read_context(struct reading *r, const json_t *top, const char *name)
{
    const json_t *context, *cluster, *user;
    char *cluster_name = NULL, *user_name = NULL;
    int rc = find(r, top, "context", name, &context);

    if (rc == 0)
        rc = text(r, context, "namespace", &r->c->namespace);
    if (rc == 0)
        rc = text(r, context, "cluster", &cluster_name);
    if (rc == 0)
        rc = text(r, context, "user", &user_name);
    if (rc == 0)
        rc = find(r, top, "cluster", cluster_name != NULL ? cluster_name : "", &cluster);
    if (rc == 0)
        rc = read_cluster(r, cluster);
    if (rc == 0 && user_name != NULL) {
        rc = find(r, top, "user", user_name, &user);
        if (rc == 0)
            rc = read_user(r, user);
    }
    if (rc == 0 && r->c->namespace == NULL)
        r->c->namespace = mem_str("default");
    mem_free(&cluster_name);
    mem_free(&user_name);
    return rc;
}

int kube_config_parse(struct kube_config *c, const char *name, const char *bytes, size_t len,
                      const char *context, struct dlc_err *err)
{
    struct reading r = {c, name, err};
    char *current = NULL;
    json_t *top;
    int rc = yaml_parse(name, bytes, len, &top, err);

    if (rc == 0 && !json_is_object(top))
        rc = dlc_err_set(err, DLC_EINVAL, "%s: this is not a kubeconfig", name);
    if (rc == 0 && context == NULL) {
        rc = text(&r, top, "current-context", &current);
        if (rc == 0 && current == NULL)
            rc = refuse(&r, "current-context", "is missing; name a context");
        context = current;
    }
    if (rc == 0)
        rc = read_context(&r, top, context);
    if (rc == 0)
        c->from = mem_str(name);
    else
        kube_config_release(c);
    mem_free(&current);
    json_decref(top);
    return rc;
}

static int load_file(struct kube_config *c, const char *path, const char *context,
                     struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    int rc = os_read_file(path, FILE_MAX, &b, err);

    if (rc == 0)
        rc = kube_config_parse(c, path, buf_str(&b), b.len, context, err);
    secret_buf_release(&b);
    return rc;
}

static char *read_word(const char *dir, const char *name)
{
    char *path = mem_fmt("%s/%s", dir, name), *word = NULL;
    struct buf b = BUF_INIT;

    if (os_read_file(path, 4096, &b, NULL) == 0 && b.len > 0 && *str_trim(b.data) != '\0')
        word = mem_str(str_trim(b.data));
    buf_release(&b);
    mem_free(&path);
    return word;
}

int kube_config_in_cluster(struct kube_config *c, const char *dir, struct dlc_err *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    uint64_t number;

    if (dir == NULL)
        dir = ACCOUNT_DIR;
    if (host == NULL || *host == '\0')
        return dlc_err_set(err, DLC_ENOTFOUND,
                           "no cluster: KUBERNETES_SERVICE_HOST is not set; run in a pod or give "
                           "a kubeconfig");
    if (port == NULL || *port == '\0')
        port = "443";
    if (!str_parse_u64(port, &number) || number == 0 || number > 65535 ||
        strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:") !=
            strlen(host))
        return dlc_err_set(
            err, DLC_EINVAL,
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not an address");
    c->token_file = mem_fmt("%s/token", dir);
    if (os_access(c->token_file, R_OK) != 0) {
        int rc = dlc_err_sys(err, "the service account's token %s", c->token_file);

        kube_config_release(c);
        return rc;
    }
    c->from = mem_str("the service account");
    c->server =
        mem_fmt(strchr(host, ':') != NULL ? "https://[%s]:%s" : "https://%s:%s", host, port);
    c->ca_file = mem_fmt("%s/ca.crt", dir);
    c->namespace = read_word(dir, "namespace");
    if (c->namespace == NULL)
        c->namespace = mem_str("default");
    return 0;
}

int kube_config_load(struct kube_config *c, const char *path, const char *context,
                     struct dlc_err *err)
{
    const char *named = getenv("KUBECONFIG"), *home = getenv("HOME");
    char *own;
    int rc;

    if (path != NULL)
        return load_file(c, path, context, err);
    if (named != NULL && named[strspn(named, ":")] != '\0') {
        named += strspn(named, ":");
        own = mem_strn(named, strcspn(named, ":"));
        rc = load_file(c, own, context, err);
        mem_free(&own);
        return rc;
    }
    if (getenv("KUBERNETES_SERVICE_HOST") != NULL && context == NULL)
        return kube_config_in_cluster(c, NULL, err);
    own = mem_fmt("%s/.kube/config", home != NULL ? home : "");
    rc = load_file(c, own, context, err);
    if (rc == DLC_ENOTFOUND)
        rc = dlc_err_set(err, DLC_ENOTFOUND,
                         "no cluster: there is no %s, KUBECONFIG is not set, and this is not a pod",
                         own);
    mem_free(&own);
    return rc;
}

void kube_config_release(struct kube_config *c)
{
    secret_free(&c->token);
    secret_free(&c->key_pem);
    mem_free(&c->from);
    mem_free(&c->server);
    mem_free(&c->namespace);
    mem_free(&c->ca_file);
    mem_free(&c->ca_pem);
    mem_free(&c->cert_file);
    mem_free(&c->cert_pem);
    mem_free(&c->key_file);
    mem_free(&c->token_file);
    mem_free(&c->server_name);
    c->insecure = false;
}
