// SPDX-License-Identifier: Apache-2.0
#include "cluster_certs.h"

#include "base/mem.h"
#include "base/secret.h"
#include "base/syscalls.h"
#include "manager/store/seal.h"
#include "manager/store/store.h"
#include "manager/tables/authority.h"
#include "unit.h"

static void sign(const char *cluster, const char *node, const char *request, struct dlc_dur life,
                 struct authority_certificate *out)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct store *store = NULL;
    struct seal *seal = NULL;
    char dir[256], *url;

    unit_path(cluster, dir);
    url = mem_fmt("sqlite:%s/manager.db", dir);
    if (os_mkdirs(dir, 0700) < 0 || seal_open(dir, &seal, &err) < 0 ||
        store_open(url, &store, &err) < 0 ||
        authority_sign(store, seal, &(struct authority_subject){node, 0}, request, life, out,
                       &err) < 0)
        fail_msg("%s", err.text);
    mem_free(&url);
    store_close(&store);
    seal_close(&seal);
}

struct tls_identity *cluster_cert(const char *cluster, const char *node, struct dlc_dur life)
{
    struct authority_certificate c;
    struct dlc_err err = DLC_ERR_INIT;
    struct tls_identity *id = NULL;
    char *key = NULL, *request = NULL;

    assert_int_equal(tls_request_new(node, &key, &request, &err), 0);
    sign(cluster, node, request, life, &c);
    if (tls_identity_new(node, c.cert, key, c.authorities, &id, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(id->not_after, c.not_after);
    authority_certificate_release(&c);
    secret_free(&key);
    mem_free(&request);
    return id;
}
