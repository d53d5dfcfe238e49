// SPDX-License-Identifier: Apache-2.0
#include "operator/housekeeping_i.h"

#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/api_token.h"
#include "operator/install_secret.h"
#include "operator/reconcile/manifest.h"

/* ---- the Secret ---- */

json_t *housekeeping_certs_secret(const char *ns, const struct certs *c, const json_t *was)
{
    json_t *texts = json_object();

    bootstrap_put_certs(texts, c);
    if (was != NULL)
        return json_pack("{s:{s:s}, s:o}", "metadata", "resourceVersion", kube_version(was),
                         "stringData", texts);
    return json_pack("{s:{s:s, s:s, s:{s:s, s:s}}, s:s, s:o}", "metadata", "name", WEBHOOK_SECRET,
                     "namespace", ns, "labels", "app.kubernetes.io/name", "dlcache", LABEL_MANAGED,
                     MANAGED_BY, "type", "Opaque", "stringData", texts);
}

static int write_secret(struct kube *k, const char *ns, const struct certs *c, const json_t *was,
                        struct dlc_err *err)
{
    json_t *body = housekeeping_certs_secret(ns, c, was);
    int rc = was == NULL ? kube_create(k, KUBE_SECRET, ns, body, NULL, err)
                         : kube_patch(k, KUBE_SECRET, ns, WEBHOOK_SECRET, body, 0, NULL, err);

    json_decref(body);
    return rc;
}

/* ---- the bundle ---- */

json_t *housekeeping_bundle_patch(const json_t *config, const char *bundle)
{
    json_t *hooks = json_array(), *one;
    struct buf b64 = BUF_INIT;
    bool same = true;
    size_t i;

    str_base64(bundle, strlen(bundle), &b64);
    json_array_foreach(json_object_get(config, "webhooks"), i, one)
    {
        const char *has = json_string_value(json_at(one, "clientConfig.caBundle"));
        const char *name = json_string_value(json_object_get(one, "name"));

        same &= has != NULL && strcmp(has, buf_str(&b64)) == 0;
        json_array_append_new(hooks, json_pack("{s:s, s:{s:s}}", "name", name, "clientConfig",
                                               "caBundle", buf_str(&b64)));
    }
    buf_release(&b64);
    if (same) {
        json_decref(hooks);
        return NULL;
    }
    return json_pack("{s:o}", "webhooks", hooks);
}

static int tell_bundle(struct kube *k, const char *bundle, struct dlc_err *err)
{
    json_t *config = NULL, *patch = NULL;
    int rc = kube_get(k, KUBE_WEBHOOK, NULL, WEBHOOK_CONFIG, &config, err);

    if (rc == 0)
        patch = housekeeping_bundle_patch(config, bundle);
    if (patch != NULL)
        rc = kube_apply(k, KUBE_WEBHOOK, NULL, WEBHOOK_CONFIG, patch, KUBE_FORCE, NULL, err);
    json_decref(patch);
    json_decref(config);
    return rc == DLC_ENOTFOUND ? 0 : rc; /* an installation without it */
}

/* ---- all ---- */

static int renew(struct kube *k, const struct housekeeping_config *c, struct certs *certs,
                 const json_t *secret, struct dlc_err *err)
{
    char *service = mem_fmt("%s.%s.svc", SERVICE_NAME, c->ns);
    char *whole = mem_fmt("%s.cluster.local", service);
    const char *v[] = {service, whole, c->host};
    const struct certs_names names = {v, c->host != NULL ? 3 : 2, 0};
    bool changed = false;
    int rc = certs_renew(certs, &names, dlc_wall_seconds(), &changed, err);

    if (rc == 0 && changed)
        rc = write_secret(k, c->ns, certs, secret, err);
    if (rc == 0 && changed)
        log_info("the webhook has a new certificate");
    mem_free(&service);
    mem_free(&whole);
    return rc;
}

static int show(struct serve *s, const struct certs *c, struct dlc_err *err)
{
    bool first = serve_webhook(s) == NULL;
    int rc = serve_tls(s, c->cert, c->key, err);

    if (rc == 0 && first)
        log_info("webhook at https://%s", serve_webhook(s));
    return rc;
}

int housekeeping_tls(struct kube *k, const struct housekeeping_config *c, bool leads, int64_t *end,
                     struct dlc_err *err)
{
    struct certs certs = CERTS_INIT;
    json_t *secret = NULL;
    int rc = kube_get(k, KUBE_SECRET, c->ns, WEBHOOK_SECRET, &secret, err);

    *end = 0;
    if (rc == 0 || rc == DLC_ENOTFOUND) {
        bootstrap_certs(secret, &certs);
        rc = leads ? renew(k, c, &certs, secret, err) : rc;
    }
    if (rc == 0 && leads) /* first whom to believe, then what is shown */
        rc = tell_bundle(k, certs.bundle, err);
    if (rc == 0 && certs.cert != NULL && certs.key != NULL)
        rc = show(c->serve, &certs, err);
    if (rc == 0 && certs.cert != NULL)
        *end = certs_end(certs.cert);
    certs_release(&certs);
    json_decref(secret);
    return rc;
}
