// SPDX-License-Identifier: Apache-2.0
/*
 * The tenant of a namespace: its token in a Secret, and its bucket credentials at the manager. A
 * tenant has one set of credentials; an annotation on its Secret names their source, so that a
 * changed Secret is sent again, and two different Secrets do not overwrite each other in turn.
 */
#include "operator/reconcile/reconcile_i.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

static struct action *order(struct round *r, enum action_kind kind)
{
    struct action *a = add_action(r->out, kind);

    snprintf(a->name, sizeof(a->name), "%s", r->o->tenant);
    return a;
}

/* The Secret as the annotation names it: "NAME/VERSION". */
static const char *version_of(const struct observed *o, char out[static 256])
{
    snprintf(out, 256, "%.180s/%.60s", o->secret,
             json_text_at(o->secret_object, "metadata.resourceVersion"));
    return out;
}

static void order_credentials(struct round *r)
{
    version_of(r->o, order(r, ACT_CREDENTIALS)->key);
}

void tenant_again(struct round *r)
{
    struct action *a;

    if (r->tenant_again)
        return;
    r->tenant_again = true;
    a = order(r, ACT_TENANT);
    snprintf(a->key, sizeof(a->key), "again");
    a->body = build_tenant_secret(r->o->tenant);
    if (r->o->secret[0] != '\0')
        order_credentials(r);
}

static enum step credentials_step(struct round *r)
{
    const struct observed *o = r->o;
    const json_t *data = json_object_get(o->secret_object, "data");
    const char *have = annotation(o->tenant_secret, ANNOTATION_CREDENTIALS);
    char want[256];

    if (o->secret_forbidden) {
        warn(r, COND_DATASET, "False", "SecretForbidden",
             "the operator may not read Secret %s of namespace %s; let it: kubectl -n %s create "
             "rolebinding dlcache-secrets --clusterrole dlcache-secrets --serviceaccount "
             "dlcache-system:dlcache-operator",
             o->secret, o->tenant, o->tenant);
        look_after(r->out, RECON_LOOK_WAITING);
        return WAIT;
    }
    if (o->secret_object == NULL) {
        warn(r, COND_DATASET, "False", "SecretMissing",
             "Secret %s does not exist in namespace %s; make it, or correct spec.secretRef",
             o->secret, o->tenant);
        return WAIT;
    }
    if (json_text_at(data, "access_key")[0] == '\0' ||
        json_text_at(data, "secret_key")[0] == '\0') {
        warn(r, COND_DATASET, "False", "SecretIncomplete",
             "Secret %s has no %s; it needs access_key and secret_key", o->secret,
             json_text_at(data, "access_key")[0] == '\0' ? "access_key" : "secret_key");
        return WAIT;
    }
    version_of(o, want);
    if (strcmp(have, want) == 0)
        return GO;
    if (o->credentials_used && strncmp(have, want, strlen(o->secret) + 1) != 0) {
        warn(r, COND_DATASET, "False", "CredentialsConflict",
             "namespace %s reads with Secret %.*s, which others here name; a namespace has one: "
             "name the same in all, or use another namespace",
             o->tenant, (int)strcspn(have, "/"), have);
        return WAIT;
    }
    if (o->credentials_refused == 404) {
        tenant_again(r);
        return AGAIN;
    }
    if (o->credentials_refused != 0) {
        warn(r, COND_DATASET, "False", "CredentialsRefused", "Secret %s: %s", o->secret,
             o->credentials_error);
        look_after(r->out, RECON_LOOK_WAITING);
        return WAIT;
    }
    order_credentials(r);
    return AGAIN;
}

enum step tenant_step(struct round *r)
{
    const struct observed *o = r->o;

    if (o->tenant_secret == NULL) {
        order(r, ACT_TENANT)->body = build_tenant_secret(o->tenant);
        return AGAIN;
    }
    if (strcmp(label(o->tenant_secret, LABEL_MANAGED), MANAGED_BY) != 0) {
        warn(r, COND_DATASET, "False", "ForeignObject",
             "Secret %s of namespace %s is not dlcache's and is left alone; rename or delete it",
             TENANT_SECRET, o->tenant);
        return WAIT;
    }
    return o->secret[0] != '\0' ? credentials_step(r) : GO;
}
