// SPDX-License-Identifier: Apache-2.0
#include "cli/daemon_client.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/json.h"
#include "base/secret.h"
#include "base/syscalls.h"
#include "base/api_token.h"
#include "client/daemon.h"
#include "base/mem.h"
#include "bucket/azure_account.h"
#include "ipc/node_marker.h"

static const struct dlc_dur answer_timeout = {60000000000};

static int say_hello(struct ctl *c, struct dlc_err *err)
{
    struct msg m = MSG_INIT;
    json_t *hello =
        json_pack("{s:s, s:i, s:i}", "op", "hello", "version", CTL_VERSION, "pid", (int)getpid());
    int rc = ctl_call(c, hello, NULL, NULL, &m, err);

    if (rc < 0)
        return rc;
    c->daemon_pid = (int)json_u64_at(m.body, "pid");
    if (json_u64_at(m.body, "version") != CTL_VERSION)
        rc =
            dlc_err_set(err, DLC_EPROTO,
                        "the daemon (process %d, dlcache %s) speaks version %d of the protocol and "
                        "this program version %d; end it and start it again with this program",
                        c->daemon_pid, json_text_at(m.body, "program"),
                        (int)json_u64_at(m.body, "version"), CTL_VERSION);
    msg_release(&m);
    return rc;
}

int ctl_open(struct ctl *c, const struct config *config, bool start, struct dlc_err *err)
{
    struct dlc_mono deadline = dlc_mono_add(dlc_mono_now(), DAEMON_PATIENCE);
    int rc;

    *c = (struct ctl)CTL_INIT;
    rc = daemon_connect(config, deadline, err);
    if (rc == DLC_ENODAEMON && start) {
        rc = daemon_spawn(config, deadline, err);
        if (rc == 0)
            rc = daemon_connect(config, deadline, err);
    } else if (rc == DLC_ENODAEMON && node_marker_refuse(config->socket, rc, err) == 0) {
        dlc_err_set(
            err, rc,
            "no daemon answers at %s; start one with `dlcache serve` or just open a dataset",
            config->socket);
    }
    if (rc < 0)
        return rc;
    c->sock = rc;
    rc = say_hello(c, err);
    if (rc < 0) {
        dlc_err_prefix(err, "%s", config->socket);
        ctl_close(c);
    }
    return rc;
}

void ctl_close(struct ctl *c)
{
    os_close(&c->sock);
}

/* The daemon said no: its code, if it is one of ours, and its text. */
static int refused(const json_t *body, struct dlc_err *err)
{
    json_int_t code = json_int_at(body, "code");
    const char *text = json_text_at(body, "error");

    if (code >= 0 || strcmp(dlc_err_name((int)DLC_MAX(code, -1000)), "?") == 0)
        code = DLC_EPROTO;
    return dlc_err_set(err, (int)code, "%s", text[0] != '\0' ? text : dlc_strerror((int)code));
}

int ctl_call(struct ctl *c, json_t *request, ctl_progress_f *on_progress, void *priv,
             struct msg *answer, struct dlc_err *err)
{
    struct dlc_dur timeout = on_progress != NULL ? (struct dlc_dur){-1} : answer_timeout;
    int rc;

    dlc_check(request != NULL);
    rc = msg_send(c->sock, request, NULL, 0, err);
    json_decref(request);
    if (rc == DLC_EPROTO) /* it hung up, but may have said why */
        rc = 0;
    while (rc == 0) {
        const json_t *p;

        rc = msg_recv(c->sock, answer, timeout, err);
        if (rc < 0)
            break;
        p = json_object_get(answer->body, "progress");
        if (p == NULL) {
            if (!json_true_at(answer->body, "ok"))
                rc = refused(answer->body, err);
            break;
        }
        if (on_progress != NULL)
            on_progress(p, priv);
        msg_release(answer);
    }
    if (rc < 0)
        msg_release(answer);
    return rc;
}

/* 0, or why the token cannot be had. */
static int add_token(const struct config *config, json_t *request, struct dlc_err *err)
{
    char *token = NULL;
    int rc = token_load(config, NULL, &token, err);

    if (rc == 0 && token != NULL)
        json_object_set_new(request, "token", msg_string(token));
    secret_free(&token);
    return rc;
}

int ctl_call_as(struct ctl *c, const struct config *config, json_t *request, struct msg *answer,
                struct dlc_err *err)
{
    int rc = add_token(config, request, err);

    if (rc < 0) {
        json_decref(request);
        return rc;
    }
    return ctl_call(c, request, NULL, NULL, answer, err);
}

int ctl_check_url(const char *url, struct dlc_err *err)
{
    struct url u = URL_INIT;
    int rc = url_parse(&u, url, err);

    url_release(&u);
    return rc;
}

char *ctl_endpoint(const struct config *config, const char *url)
{
    static const char *const names[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"};
    struct url u = URL_INIT;
    char *e = NULL;

    if (url_parse(&u, url, NULL) < 0 || !url_is_cloud(u.scheme))
        goto out;
    if (config->endpoint[0] != '\0')
        e = mem_str(config->endpoint);
    else if (u.scheme == URL_AZ)
        e = azure_endpoint_of_env(&u);
    for (unsigned i = 0; u.scheme != URL_AZ && e == NULL && i < DLC_COUNT(names); i++) {
        const char *s = getenv(names[i]);

        e = s != NULL && s[0] != '\0' ? mem_str(s) : NULL;
    }
out:
    url_release(&u);
    return e;
}

int ctl_open_dataset(struct ctl *c, const struct config *config, const char *url, bool refresh,
                     ctl_progress_f *on_progress, void *priv, struct msg *answer,
                     struct dlc_err *err)
{
    char *endpoint = ctl_endpoint(config, url);
    json_t *request = json_pack("{s:s, s:o, s:b, s:b}", "op", "open", "url", msg_string(url),
                                "anonymous", config->anonymous, "refresh", refresh);

    if (endpoint != NULL)
        json_object_set_new(request, "endpoint", msg_string(endpoint));
    mem_free(&endpoint);
    if (add_token(config, request, err) < 0) {
        json_decref(request);
        return err->code;
    }
    return ctl_call(c, request, on_progress, priv, answer, err);
}

static json_t *evict_request(const char *url, const char *tier)
{
    json_t *r = json_pack("{s:s, s:s}", "op", "evict", "tier", tier);

    if (url != NULL)
        json_object_set_new(r, "url", msg_string(url));
    return r;
}

int ctl_evict(const struct config *config, const char *url, const char *tier,
              ctl_progress_f *on_progress, void *priv, struct msg *answer, struct dlc_err *err)
{
    struct ctl c = CTL_INIT;
    struct msg opened = MSG_INIT;
    int rc = url != NULL ? ctl_check_url(url, err) : 0;

    if (rc == 0)
        rc = ctl_open(&c, config, true, err);
    if (rc == 0)
        rc = ctl_call_as(&c, config, evict_request(url, tier), answer, err);
    if (rc == DLC_ENOTFOUND && url != NULL) {
        rc = ctl_open_dataset(&c, config, url, false, on_progress, priv, &opened, err);
        if (rc == 0)
            rc = ctl_call_as(&c, config, evict_request(url, tier), answer, err);
    }
    msg_release(&opened);
    ctl_close(&c);
    return rc;
}
