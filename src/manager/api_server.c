// SPDX-License-Identifier: Apache-2.0
#include "manager/api_server.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/syscalls.h"
#include "manager/manager.h"
#include "manager/routes/api.h"
#include "manager/routes/audit.h"
#include "manager/routes/auth.h"
#include "manager/routes/route_table.h"
#include "manager/tables/authority.h"
#include "manager/tables/node_revocation.h"
#include "net/server.h"

static void identify(const void *der, size_t len, char node[static TLS_NAME_MAX], void *ctx)
{
    struct api *api = api_of(ctx);
    uint32_t generation;

    static_assert(TLS_NAME_MAX >= NAME_MAX_LEN + 1, "a node's name");
    authority_identify(&api->trust, der, len, node, &generation);
    if (node[0] != '\0' && revocations_refuse(api->tables, node, generation))
        node[0] = '\0'; /* (NODE-REVOCATION-1) */
}

static struct http_server_config config_of(struct api_server *s)
{
    return (struct http_server_config){
        .routes = route_table,
        .ctx = s->api,
        .check = auth_check,
        .answered = audit_request,
    };
}

/* heir_of: the server whose place it takes; NULL: listen at `address`. */
static int open_tcp(struct api_server *s, const char *address, struct http_server *heir_of,
                    struct http_server **out, struct dlc_err *err)
{
    struct http_server_config h = config_of(s);
    char *authorities = NULL;
    int rc = 0;

    h.address = address;
    h.heir_of = heir_of;
    h.tls_cert = s->tls_cert;
    h.tls_key = s->tls_key;
    if (s->tls_cert != NULL) {
        h.identify = identify;
        file_stamp_take(&s->cert_file, s->tls_cert);
        file_stamp_take(&s->key_file, s->tls_key);
        rc = authority_list(s->api->tables->store, s->api->seal, &authorities, err);
        h.authorities = authorities;
    }
    if (rc == 0)
        rc = http_server_open(&h, out, err);
    mem_free(&authorities);
    return rc;
}

int api_server_open(struct api_server *s, struct api *api, const struct manager_config *c,
                    struct dlc_err *err)
{
    struct http_server_config local;
    int rc = 0;

    s->api = api;
    s->tls_cert = mem_str(c->tls_cert);
    s->tls_key = mem_str(c->tls_key);
    if (c->listen != NULL)
        rc = open_tcp(s, c->listen, NULL, &s->tcp, err);
    if (rc == 0 && s->tcp != NULL)
        s->address = mem_str(http_server_address(s->tcp));
    if (rc == 0 && c->unix_path != NULL) {
        local = config_of(s);
        local.unix_path = c->unix_path;
        rc = http_server_open(&local, &s->local, err);
    }
    return rc;
}

const char *api_server_address(const struct api_server *s)
{
    return s->address;
}

/* ---- another certificate ---- */

static void *close_main(void *arg)
{
    struct http_server *old = arg;

    pthread_setname_np(pthread_self(), "dlc-https-end");
    http_server_close(&old);
    return NULL;
}

static void end_closer(struct api_server *s)
{
    if (s->has_closer)
        pthread_join(s->closer, NULL);
    s->has_closer = false;
}

/* Takes old, which may be NULL. */
static void close_later(struct api_server *s, struct http_server *old)
{
    end_closer(s); /* of the change before */
    s->has_closer = old != NULL && os_thread(&s->closer, close_main, old) == 0;
    if (!s->has_closer)
        http_server_close(&old);
}

int api_server_reload(struct api_server *s, struct dlc_err *err)
{
    struct http_server *fresh = NULL;
    bool cert, key;
    int rc;

    if (s->tcp == NULL || s->tls_cert == NULL)
        return 0;
    cert = file_stamp_take(&s->cert_file, s->tls_cert);
    key = file_stamp_take(&s->key_file, s->tls_key);
    if (!cert && !key)
        return 0;
    rc = open_tcp(s, NULL, s->tcp, &fresh, err);
    if (rc < 0)
        return rc;
    close_later(s, s->before);
    s->before = s->tcp;
    s->tcp = fresh;
    return 1;
}

void api_server_close(struct api_server *s)
{
    end_closer(s);
    http_server_close(&s->before);
    http_server_close(&s->tcp);
    http_server_close(&s->local);
    mem_free(&s->address);
    mem_free(&s->tls_cert);
    mem_free(&s->tls_key);
}
