// SPDX-License-Identifier: Apache-2.0
/* The handle of an API server: its address and our identity. Requests: kube_http.c. */
#include "operator/kube/kube_i.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "base/api_token.h"

#define TIMEOUT        DLC_SEC(5)
#define TOKEN_FILE_MAX (16u << 10)

/* -------- who we are -------- */

static void set_token(struct kube *k, const char *token)
{
    secret_free(&k->token_line);
    k->token_line = mem_fmt("Authorization: Bearer %s", token);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Service accounts' tokens are longer than ours. Gives. */
static int read_token(const char *path, char **out, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    const char *word = "";
    int rc = os_read_file(path, TOKEN_FILE_MAX, &b, err);

    *out = NULL;
    if (rc == 0 && b.len > 0)
        word = str_trim(b.data);
    for (const char *p = word; rc == 0 && (p == word || *p != '\0'); p++) {
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f)
            rc = dlc_err_set(err, DLC_EINVAL, "%s holds no token", path);
    }
    if (rc == 0)
        *out = mem_str(word);
    secret_buf_release(&b);
    return rc;
}

/* The kubelet replaces the file well before the token in it ends. */
int kube_refresh_token(struct kube *k, struct dlc_err *err)
{
    const char *path = k->o.config->token_file;
    struct stat st;
    char *token;
    int rc;

    if (path == NULL)
        return 0;
    if (os_stat(path, &st) < 0)
        return k->token_line != NULL ? 0 : dlc_err_sys(err, "the token in %s", path);
    if (k->token_line != NULL && same_file(&st, &k->token_stat))
        return 0;
    rc = read_token(path, &token, err);
    if (rc < 0)
        return k->token_line != NULL ? 0 : rc; /* half written: the old one may still do */
    set_token(k, token);
    k->token_stat = st;
    secret_free(&token);
    return 0;
}

/* With tls-server-name: ask for that host, and connect to the real one. */
static int resolve_server(struct kube *k, struct dlc_err *err)
{
    const struct kube_config *c = k->o.config;
    CURLU *u = curl_url();
    char *host = NULL, *port = NULL, *url = NULL, *to = NULL;
    int rc = 0;

    dlc_check(u != NULL);
    if (curl_url_set(u, CURLUPART_URL, c->server, 0) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK ||
        (c->server_name != NULL &&
         (curl_url_set(u, CURLUPART_HOST, c->server_name, 0) != CURLUE_OK ||
          curl_url_get(u, CURLUPART_URL, &url, 0) != CURLUE_OK))) {
        rc = dlc_err_set(err, DLC_EINVAL,
                         "%s: the server '%.200s' is not an address; write https://HOST:PORT",
                         c->from, c->server);
    } else if (c->server_name == NULL) {
        k->url = mem_str(c->server);
    } else {
        k->url = mem_strn(url, strlen(url) - (str_ends(url, "/") ? 1 : 0));
        to = mem_fmt("%s:%s:%s:%s", c->server_name, port, host, port);
        k->connect_to = curl_slist_append(NULL, to);
        dlc_check(k->connect_to != NULL);
        k->host_line = mem_fmt("Host: %s:%s", host, port);
    }
    mem_free(&to);
    curl_free(url);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(u);
    return rc;
}

/* -------- the handle -------- */

int kube_open(const struct kube_options *o, struct kube **out, struct dlc_err *err)
{
    struct sync_handle *handle;
    struct kube *k;
    int rc = sync_handle_new(-1, &handle, err);

    *out = NULL;
    if (rc < 0)
        return rc;
    k = mem_new(struct kube);
    k->tag = KUBE_TAG;
    k->o = *o;
    k->handle = handle;
    if (k->o.timeout.ns <= 0)
        k->o.timeout = TIMEOUT;
    if (o->config->token != NULL && o->config->token_file == NULL)
        set_token(k, o->config->token);
    rc = resolve_server(k, err);
    if (rc < 0)
        kube_close(&k);
    *out = k;
    return rc;
}

void kube_close(struct kube **kp)
{
    struct kube *k = *kp;

    *kp = NULL;
    if (k == NULL)
        return;
    dlc_check(k->tag == KUBE_TAG);
    sync_handle_free(&k->handle);
    curl_slist_free_all(k->connect_to);
    secret_free(&k->token_line);
    mem_free(&k->url);
    mem_free(&k->host_line);
    k->tag = 0;
    mem_free(&k);
}

void kube_interrupt(struct kube *k)
{
    dlc_check(k->tag == KUBE_TAG);
    sync_handle_interrupt(k->handle);
}

int kube_status(const struct kube *k)
{
    return k->status;
}

struct dlc_dur kube_retry_after(const struct kube *k)
{
    return k->retry_after;
}

void kube_forget(struct kube *k)
{
    k->status = 0;
    k->retry_after = DLC_SEC(0);
}

int kube_ask_to_write(struct kube *k, struct dlc_err *err)
{
    if (k->o.may_write == NULL || k->o.may_write(k->o.arg))
        return 0;
    kube_forget(k);
    return dlc_err_set(err, DLC_ECANCELED, "this replica does not lead: nothing is written");
}
