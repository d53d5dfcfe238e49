// SPDX-License-Identifier: Apache-2.0
/* The Security Token Service: a role in exchange for other credentials or a web identity. */
#include "bucket/credentials/lookup_i.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "bucket/credentials/parse_i.h"
#include "base/secret.h"
#include "bucket/credentials/sigv4_i.h"
#include "bucket/credentials/token_i.h"

#define FORM_TYPE "application/x-www-form-urlencoded; charset=utf-8"

static void form_begin(const struct lookup *l, const struct role *r, const char *action,
                       struct buf *form)
{
    char *name = r->session_name != NULL ? mem_str(r->session_name)
                                         : mem_fmt("dlcache-%lld", (long long)l->now);

    buf_reserve(form, FORM_RESERVE);
    form_add(form, "Action", action);
    form_add(form, "Version", "2011-06-15");
    form_add(form, "RoleArn", r->arn);
    form_add(form, "RoleSessionName", name);
    form_add(form, "DurationSeconds", r->duration);
    form_add(form, "ExternalId", r->external_id);
    mem_free(&name);
}

/* Gives the URL to ask. */
static char *endpoint_of(const struct lookup *l)
{
    const char *e =
        profiles_endpoint(l->profiles, l->env, l->profile, "sts", VAR_AWS_ENDPOINT_URL_STS);

    if (e != NULL)
        return mem_str(e);
    if (l->region == NULL)
        return mem_str("https://sts.amazonaws.com/");
    return mem_fmt("https://sts.%s.amazonaws.com%s/", l->region,
                   str_starts(l->region, "cn-") ? ".cn" : "");
}

/* Header lines of the request, signed when `from` is given. */
static void add_headers(const struct lookup *l, const struct web_url *u, const struct buf *form,
                        const struct credentials *from, struct buf *out)
{
    struct sigv4_header type = {"content-type", FORM_TYPE};
    unsigned char hash[SHA256_LEN];
    char hex[2 * SHA256_LEN + 1];
    struct sigv4_signer sg;

    buf_adds(out, "content-type: " FORM_TYPE "\n");
    if (from == NULL)
        return;
    sha256(form->data, form->len, hash);
    str_hex(hash, sizeof(hash), hex);
    sigv4_signer_init(&sg);
    sigv4_sign(&sg, from, l->region == NULL ? "us-east-1" : l->region, "sts", l->now, "POST",
               u->authority, u->path, "", &type, 1, hex, out);
    sigv4_signer_release(&sg);
}

static int ask(const struct lookup *l, const char *arn, const struct buf *form,
               const struct credentials *from, struct credentials *out, struct dlc_err *err)
{
    char *url = endpoint_of(l);
    struct web_url u = WEB_URL_INIT;
    struct web_answer a = WEB_ANSWER_INIT;
    struct buf headers = BUF_INIT;
    struct web_call c = {
        .method = "POST",
        .url = url,
        .body = buf_str(form),
        .timeout = DLC_SEC(10),
        .tries = 3,
        .ca_file = cloud_env_ca_file(l->env),
        .stop_fd = l->stop_fd,
    };
    int rc = web_url_parse(&u, url, err);

    if (rc == 0) {
        buf_reserve(&headers, FORM_RESERVE);
        add_headers(l, &u, form, from, &headers);
        c.headers = buf_str(&headers);
        rc = web_call(&c, &a, err);
    }
    if (rc == 0)
        rc = answer_of_web(&a, answer_sts, out, err);
    if (rc < 0)
        dlc_err_prefix(err, "no role %s from STS at %s", arn, url);
    secret_buf_release(&headers);
    web_answer_release(&a);
    web_url_release(&u);
    mem_free(&url);
    return rc;
}

int sts_assume_role(struct lookup *l, const struct role *r, const struct credentials *from,
                    struct credentials *out, struct dlc_err *err)
{
    struct buf form = BUF_INIT;
    int rc;

    form_begin(l, r, "AssumeRole", &form);
    rc = ask(l, r->arn, &form, from, out, err);
    secret_buf_release(&form);
    return rc;
}

int sts_web_identity(struct lookup *l, const struct role *r, const char *token_file,
                     struct credentials *out, struct dlc_err *err)
{
    struct role plain = *r;
    struct buf form = BUF_INIT, token = BUF_INIT;
    int rc;

    plain.external_id = NULL; /* no parameter of this action */
    buf_reserve(&token, TOKEN_FILE_MAX);
    rc = os_read_file(token_file, TOKEN_FILE_MAX, &token, err);
    if (rc == 0 && token.len == 0)
        rc = dlc_err_set(err, DLC_EINVAL, "%s is empty", token_file);
    if (rc < 0) {
        dlc_err_prefix(err, "web identity token");
        goto out;
    }
    form_begin(l, &plain, "AssumeRoleWithWebIdentity", &form);
    form_add(&form, "WebIdentityToken", str_trim(token.data));
    rc = ask(l, r->arn, &form, NULL, out, err);
out:
    secret_buf_release(&token);
    secret_buf_release(&form);
    return rc;
}

int find_web_identity(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *token_file = cloud_env_get(l->env, VAR_AWS_WEB_IDENTITY_TOKEN_FILE);
    struct role r = {
        .arn = cloud_env_get(l->env, VAR_AWS_ROLE_ARN),
        .session_name = cloud_env_get(l->env, VAR_AWS_ROLE_SESSION_NAME),
    };

    if (token_file == NULL)
        return lookup_elsewhere(l, "AWS_WEB_IDENTITY_TOKEN_FILE not set");
    if (r.arn == NULL)
        return dlc_err_set(err, DLC_EINVAL,
                           "AWS_WEB_IDENTITY_TOKEN_FILE is set but AWS_ROLE_ARN is not: set both");
    return sts_web_identity(l, &r, token_file, out, err);
}
