// SPDX-License-Identifier: Apache-2.0
#include "operator/kube/node_review.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/secret.h"
#include "operator/kube/kube.h"

#define TIMEOUT   DLC_SEC(3)
#define TOKEN_MAX 8192 /* characters; those of the kubelet have about 1,200 */

struct node_review {
    struct dlc_mtx mtx;       /* rank LCK_review; held over two requests */
    struct kube *kube;        /* G: mtx */
    _Atomic unsigned waiting; /* relaxed: a bound */
    char *ns, *account;
};

/* ---- what the API server said ---- */

static int deny(struct dlc_err *err, const char *why)
{
    return dlc_err_set(err, DLC_EDENIED, "the service account's token does not let a node join: %s",
                       why);
}

static bool array_has(const json_t *a, const char *text)
{
    for (size_t i = 0; i < json_array_size(a); i++) {
        const char *s = json_string_value(json_array_get(a, i));

        if (s != NULL && strcmp(s, text) == 0)
            return true;
    }
    return false;
}

/* Of a user's "extra", where each name has a list of values: the only one, or NULL. */
static const char *extra(const json_t *user, const char *name)
{
    const json_t *values = json_object_get(json_object_get(user, "extra"), name);

    return json_array_size(values) == 1 ? json_string_value(json_array_get(values, 0)) : NULL;
}

int node_review_pod(const json_t *review, const char *ns, const char *account, const char **pod,
                    const char **uid, struct dlc_err *err)
{
    const json_t *status = json_object_get(review, "status"),
                 *user = json_object_get(status, "user");
    const char *name = json_text_at(user, "username");
    char *wanted = mem_fmt("system:serviceaccount:%s:%s", ns, account);
    bool ours = strcmp(name, wanted) == 0;

    mem_free(&wanted);
    *pod = extra(user, "authentication.kubernetes.io/pod-name");
    *uid = extra(user, "authentication.kubernetes.io/pod-uid");
    if (!json_is_true(json_object_get(status, "authenticated")))
        return deny(err, "Kubernetes does not know it, or it has expired");
    if (!array_has(json_object_get(status, "audiences"), NODE_REVIEW_AUDIENCE))
        return deny(err, "its audience is not " NODE_REVIEW_AUDIENCE);
    if (!ours)
        return deny(err, "it is of another account than --node-account");
    if (*pod == NULL || *uid == NULL || **pod == '\0' || **uid == '\0')
        return deny(err, "it is bound to no pod: mount it as a projected volume");
    return 0;
}

int node_review_node(const json_t *pod, const char *account, const char *uid, const char **node,
                     struct dlc_err *err)
{
    *node = json_text_at(pod, "spec.nodeName");
    if (strcmp(kube_uid(pod), uid) != 0 || kube_is_deleted(pod))
        return deny(err, "its pod is gone, or is being deleted");
    if (strcmp(json_text_at(pod, "spec.serviceAccountName"), account) != 0)
        return deny(err, "its pod is of another account");
    if (**node == '\0')
        return deny(err, "its pod is bound to no node");
    return 0;
}

/* ---- the questions ---- */

/* No answer of ours: who asks tries again. `missing`: what it means that there is no such object. */
static int cannot_say(int rc, const char *missing, const struct dlc_err *why, struct dlc_err *err)
{
    if (rc == DLC_ENOTFOUND && missing != NULL)
        return deny(err, missing);
    return dlc_err_set(err, DLC_EBUCKET,
                       "Kubernetes cannot be asked about the service account's token: %s",
                       why->text);
}

static int ask_review(struct node_review *r, const char *token, json_t **out, struct dlc_err *err)
{
    json_t *body =
        json_pack("{s:{s:s, s:[s]}}", "spec", "token", token, "audiences", NODE_REVIEW_AUDIENCE);
    struct dlc_err why = DLC_ERR_INIT;
    int rc;

    *out = NULL;
    if (body == NULL) /* not UTF-8 */
        return deny(err, "it is not a token");
    rc = kube_create(r->kube, KUBE_TOKENREVIEW, NULL, body, out, &why);
    secret_json_wipe(json_object_get(body, "spec"));
    json_decref(body);
    return rc < 0 ? cannot_say(rc, NULL, &why, err) : 0;
}

static int ask_locked(struct node_review *r, const char *token, char **node, struct dlc_err *err)
{
    const char *name, *uid, *on;
    json_t *review = NULL, *pod = NULL;
    struct dlc_err why = DLC_ERR_INIT;
    int rc = ask_review(r, token, &review, err);

    if (rc == 0)
        rc = node_review_pod(review, r->ns, r->account, &name, &uid, err);
    if (rc == 0) {
        rc = kube_get(r->kube, KUBE_POD, r->ns, name, &pod, &why);
        rc = rc < 0 ? cannot_say(rc, "its pod is gone", &why, err)
                    : node_review_node(pod, r->account, uid, &on, err);
    }
    if (rc == 0)
        *node = mem_str(on);
    secret_json_wipe(json_object_get(review, "spec"));
    json_decref(review);
    json_decref(pod);
    return rc;
}

int node_review_ask(struct node_review *r, const char *token, char **node, struct dlc_err *err)
{
    int rc;

    *node = NULL;
    if (strlen(token) > TOKEN_MAX)
        return deny(err, "it is not a token");
    if (atomic_fetch_add_explicit(&r->waiting, 1, memory_order_relaxed) < NODE_REVIEW_WAITING) {
        dlc_mtx_lock(&r->mtx);
        rc = ask_locked(r, token, node, err);
        dlc_mtx_unlock(&r->mtx);
    } else {
        rc = dlc_err_set(err, DLC_EBUSY, "too many ask to join at once; try again");
    }
    atomic_fetch_sub_explicit(&r->waiting, 1, memory_order_relaxed);
    return rc;
}

/* ---- life ---- */

int node_review_new(const struct kube_config *config, const char *account, struct node_review **out,
                    struct dlc_err *err)
{
    const struct kube_options o = {.config = config, .timeout = TIMEOUT};
    const char *slash = strchr(account, '/');
    struct node_review *r;
    int rc;

    *out = NULL;
    if (slash == NULL || slash == account || slash[1] == '\0' || strchr(slash + 1, '/') != NULL)
        return dlc_err_set(err, DLC_EINVAL,
                           "--node-account %s: write NAMESPACE/NAME of the service account of the "
                           "nodes' pods",
                           account);
    r = mem_new(struct node_review);
    dlc_mtx_init(&r->mtx, LCK_review);
    r->ns = mem_strn(account, (size_t)(slash - account));
    r->account = mem_str(slash + 1);
    rc = kube_open(&o, &r->kube, err);
    if (rc < 0)
        node_review_free(&r);
    *out = r;
    return rc;
}

void node_review_free(struct node_review **rp)
{
    struct node_review *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    kube_close(&r->kube);
    dlc_mtx_release(&r->mtx);
    mem_free(&r->ns);
    mem_free(&r->account);
    mem_free(&r);
}
