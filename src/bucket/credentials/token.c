// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/token_i.h"

#include <string.h>

#include <jansson.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"

#define QUOTE_MAX 200 /* of what an error says */

/* Some services write numbers as text. */
static int64_t seconds_of(const json_t *v)
{
    uint64_t n;

    if (json_is_integer(v))
        return DLC_MIN(json_integer_value(v), INT32_MAX); /* it is added to the time */
    return json_is_string(v) && str_parse_u64(json_string_value(v), &n) && n < INT32_MAX
               ? (int64_t)n
               : 0;
}

static int refused(const json_t *doc, long status, struct dlc_err *err)
{
    const char *code = json_string_value(json_object_get(doc, "error"));
    const char *text = json_string_value(json_object_get(doc, "error_description"));
    struct buf b = BUF_INIT;

    if (code == NULL)
        return dlc_err_set(err, DLC_EPROTO, "HTTP status %ld without a token", status);
    str_printable(code, DLC_MIN(strlen(code), QUOTE_MAX), &b);
    if (text != NULL) {
        buf_adds(&b, ": ");
        str_printable(text, DLC_MIN(strcspn(text, "\r\n"), QUOTE_MAX), &b);
    }
    dlc_err_set(err, DLC_EDENIED, "HTTP status %ld, %s", status, buf_str(&b));
    buf_release(&b);
    return DLC_EDENIED;
}

int token_answer(const struct web_answer *a, int64_t now, struct credentials *out,
                 struct dlc_err *err)
{
    json_t *doc = json_loadb(buf_str(&a->body), a->body.len, 0, NULL);
    const json_t *token = json_object_get(doc, "access_token");
    int64_t seconds = seconds_of(json_object_get(doc, "expires_in"));
    int rc = 0;

    *out = (struct credentials)CREDENTIALS_INIT;
    if (a->status != 200 || !json_is_string(token) || json_string_length(token) == 0) {
        rc = refused(doc, a->status, err);
    } else if (seconds <= 0) {
        rc = dlc_err_set(err, DLC_EPROTO, "the token has no expires_in");
    } else {
        out->bearer = mem_str(json_string_value(token));
        out->expires = now + seconds;
    }
    secret_json_wipe(doc);
    json_decref(doc);
    return rc;
}

void form_add(struct buf *form, const char *name, const char *value)
{
    if (value == NULL)
        return;
    buf_addf(form, "%s%s=", form->len > 0 ? "&" : "", name);
    str_uri_encode(value, strlen(value), false, form);
}

static int ask(const struct lookup *l, struct web_call *c, struct credentials *out,
               struct dlc_err *err)
{
    struct web_answer a = WEB_ANSWER_INIT;
    int rc;

    c->ca_file = cloud_env_ca_file(l->env);
    c->stop_fd = l->stop_fd;
    rc = web_call(c, &a, err);
    if (rc == 0) {
        rc = token_answer(&a, l->now, out, err);
        if (rc < 0)
            dlc_err_prefix(err, "%.*s", (int)strcspn(c->url, "?"), c->url);
    }
    web_answer_release(&a);
    return rc;
}

int token_ask(const struct lookup *l, const char *url, const struct buf *form,
              struct credentials *out, struct dlc_err *err)
{
    struct web_call c = {
        .method = "POST",
        .url = url,
        .headers = "content-type: application/x-www-form-urlencoded; charset=utf-8\n",
        .body = buf_str(form),
        .timeout = DLC_SEC(10),
        .tries = 3,
    };

    return ask(l, &c, out, err);
}

int token_of_machine(struct lookup *l, const char *url, const char *headers,
                     struct credentials *out, struct dlc_err *err)
{
    struct web_call c = {
        .method = "GET",
        .url = url,
        .headers = headers,
        .timeout = DLC_SEC(1),
        .tries = 2,
        .direct = true,
    };
    const char *host = strstr(url, "://");
    int n, rc;

    host = host != NULL ? host + 3 : url;
    n = (int)DLC_MIN(strcspn(host, "/"), (size_t)60);
    rc = ask(l, &c, out, err);
    if (rc == DLC_ETIMEDOUT || rc == DLC_EBUCKET)
        return lookup_elsewhere(l, "no answer from %.*s", n, host);
    return rc == DLC_EPROTO ? lookup_elsewhere(l, "%.*s gives no token", n, host) : rc;
}

bool token_host_ok(const char *url)
{
    struct web_url u = WEB_URL_INIT;
    bool ok = web_url_parse(&u, url, NULL) == 0 &&
              (strcmp(u.scheme, "https") == 0 || web_host_is_near(u.host));

    web_url_release(&u);
    return ok;
}
