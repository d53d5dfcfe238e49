// SPDX-License-Identifier: Apache-2.0
/*
 * Metadata services: that of a container (ECS, EKS pod identity) and that of an instance (EC2, with
 * the session token of IMDSv2).
 *
 * They are asked directly, never through a proxy. A machine outside the cloud has no instance
 * service, so it gets one second and two tries, and no answer only means: not here.
 */
#include "bucket/credentials/lookup_i.h"

#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "bucket/credentials/parse_i.h"
#include "base/secret.h"
#include "bucket/credentials/http_call_i.h"

#define CONTAINER_HOST "http://169.254.170.2"
#define INSTANCE_HOST  "http://169.254.169.254"
#define INSTANCE_HOST6 "http://[fd00:ec2::254]"
#define ROLES_PATH     "/latest/meta-data/iam/security-credentials/"
#define TOKEN_MAX      16384

/* A token goes into a header line: nothing but printable characters. */
static bool fits_header(const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s < ' ' || *s > '~')
            return false;
    }
    return true;
}

/* ---- container ---- */

static int check_full_uri(const char *uri, struct dlc_err *err)
{
    struct web_url u;
    int rc = web_url_parse(&u, uri, err);

    if (rc == 0 && strcmp(u.scheme, "https") != 0 && !web_host_is_near(u.host))
        rc = dlc_err_set(err, DLC_EINVAL,
                         "plain http is allowed only to this machine, 169.254.170.2 and "
                         "169.254.170.23: use https");
    if (rc < 0)
        dlc_err_prefix(err, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    web_url_release(&u);
    return rc;
}

/* The header line with the token, if there is one. */
static int container_token(const struct lookup *l, struct buf *headers, struct dlc_err *err)
{
    const char *file = cloud_env_get(l->env, VAR_AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE);
    const char *token = cloud_env_get(l->env, VAR_AWS_CONTAINER_AUTHORIZATION_TOKEN);
    struct buf text = BUF_INIT;
    int rc = 0;

    buf_reserve(&text, TOKEN_MAX);
    buf_reserve(headers, 2 * TOKEN_MAX);
    if (file != NULL) {
        rc = os_read_file(file, TOKEN_MAX, &text, err);
        token = rc == 0 && text.len > 0 ? str_trim(text.data) : NULL;
    }
    if (rc == 0 && token != NULL && !fits_header(token))
        rc = dlc_err_set(err, DLC_EINVAL, "%s holds a line end or other odd character",
                         file != NULL ? file : "AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (rc == 0 && token != NULL)
        buf_addf(headers, "authorization: %s\n", token);
    secret_buf_release(&text);
    return rc;
}

int find_in_container(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *relative = cloud_env_get(l->env, VAR_AWS_CONTAINER_CREDENTIALS_RELATIVE_URI);
    const char *full = cloud_env_get(l->env, VAR_AWS_CONTAINER_CREDENTIALS_FULL_URI);
    struct web_answer a = WEB_ANSWER_INIT;
    struct buf headers = BUF_INIT;
    char *url;
    int rc;

    if (relative == NULL && full == NULL)
        return lookup_elsewhere(l, "AWS_CONTAINER_CREDENTIALS_*_URI not set");
    url = relative != NULL ? mem_fmt(CONTAINER_HOST "%s", relative) : mem_str(full);
    rc = relative != NULL ? 0 : check_full_uri(full, err);
    if (rc == 0)
        rc = container_token(l, &headers, err);
    if (rc == 0) {
        struct web_call c = {
            .method = "GET",
            .url = url,
            .headers = buf_str(&headers),
            .timeout = DLC_SEC(2),
            .tries = 3,
            .direct = true,
            .ca_file = cloud_env_ca_file(l->env),
            .stop_fd = l->stop_fd,
        };

        rc = web_call(&c, &a, err);
    }
    if (rc == 0)
        rc = answer_of_web(&a, answer_json, out, err);
    secret_buf_release(&headers);
    web_answer_release(&a);
    mem_free(&url);
    return rc;
}

/* ---- instance ---- */

struct instance {
    struct lookup *l;
    char *base;
    struct buf token_line; /* header */
};

static void instance_begin(struct instance *in, struct lookup *l)
{
    const char *base = cloud_env_get(l->env, VAR_AWS_EC2_METADATA_SERVICE_ENDPOINT);
    const char *mode = cloud_env_get(l->env, VAR_AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE);
    size_t n;

    if (base == NULL)
        base = mode != NULL && strcasecmp(mode, "IPv6") == 0 ? INSTANCE_HOST6 : INSTANCE_HOST;
    for (n = strlen(base); n > 0 && base[n - 1] == '/'; n--)
        ;
    *in = (struct instance){.l = l, .base = mem_strn(base, n)};
    buf_reserve(&in->token_line, TOKEN_MAX);
}

static void instance_end(struct instance *in)
{
    secret_buf_release(&in->token_line);
    mem_free(&in->base);
}

static int instance_ask(const struct instance *in, const char *method, const char *path,
                        const char *headers, struct web_answer *a, struct dlc_err *err)
{
    char *url = mem_fmt("%s%s", in->base, path);
    struct web_call c = {
        .method = method,
        .url = url,
        .headers = headers,
        .timeout = DLC_SEC(1),
        .tries = 2,
        .direct = true,
        .stop_fd = in->l->stop_fd,
    };
    int rc = web_call(&c, a, err);

    mem_free(&url);
    return rc;
}

static int instance_token(struct instance *in, struct dlc_err *err)
{
    struct web_answer a = WEB_ANSWER_INIT;
    int rc = instance_ask(in, "PUT", "/latest/api/token",
                          "X-aws-ec2-metadata-token-ttl-seconds: 21600\n", &a, err);

    if (rc == DLC_ETIMEDOUT || rc == DLC_EBUCKET)
        rc = lookup_elsewhere(in->l, "no answer from %.60s", in->base);
    else if (rc == 0 && a.status != 200)
        rc = lookup_elsewhere(in->l, "%.60s answers %ld", in->base, a.status);
    else if (rc == 0 &&
             (a.body.len == 0 || a.body.len > TOKEN_MAX / 2 || !fits_header(a.body.data)))
        rc = lookup_elsewhere(in->l, "%.60s gives no token", in->base);
    else if (rc == 0)
        buf_addf(&in->token_line, "X-aws-ec2-metadata-token: %s\n", buf_str(&a.body));
    web_answer_release(&a);
    return rc;
}

/* Gives the name of the instance's role, encoded for a path. */
static int instance_role(struct instance *in, char **role, struct dlc_err *err)
{
    struct web_answer a = WEB_ANSWER_INIT;
    struct buf name = BUF_INIT;
    size_t n;
    int rc = instance_ask(in, "GET", ROLES_PATH, buf_str(&in->token_line), &a, err);

    if (rc == 0 && a.status != 200 && a.status != 404)
        rc = dlc_err_set(err, DLC_EPROTO, "%s%s: HTTP status %ld", in->base, ROLES_PATH, a.status);
    n = strcspn(buf_str(&a.body), "\r\n");
    if (rc == 0 && (a.status == 404 || n == 0))
        rc = lookup_elsewhere(in->l, "no role is attached to this instance");
    if (rc == 0) {
        str_uri_encode(a.body.data, n, false, &name);
        *role = buf_take(&name);
    }
    web_answer_release(&a);
    return rc;
}

static int instance_credentials(struct instance *in, const char *role, struct credentials *out,
                                struct dlc_err *err)
{
    struct web_answer a = WEB_ANSWER_INIT;
    char *path = mem_fmt(ROLES_PATH "%s", role);
    int rc = instance_ask(in, "GET", path, buf_str(&in->token_line), &a, err);

    if (rc == 0)
        rc = answer_of_web(&a, answer_json, out, err);
    if (rc < 0)
        dlc_err_prefix(err, "role %s", role);
    web_answer_release(&a);
    mem_free(&path);
    return rc;
}

int find_in_instance(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *disabled = cloud_env_get(l->env, VAR_AWS_EC2_METADATA_DISABLED);
    struct instance in;
    char *role = NULL;
    bool off;
    int rc;

    if (disabled != NULL && str_parse_bool(disabled, &off) && off)
        return lookup_elsewhere(l, "AWS_EC2_METADATA_DISABLED is set");
    if (l->no_machine_role)
        return lookup_elsewhere(l, "not asked for a dataset of a cluster");
    instance_begin(&in, l);
    rc = instance_token(&in, err);
    if (rc == 0)
        rc = instance_role(&in, &role, err);
    if (rc == 0)
        rc = instance_credentials(&in, role, out, err);
    mem_free(&role);
    instance_end(&in);
    return rc;
}
