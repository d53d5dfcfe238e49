// SPDX-License-Identifier: Apache-2.0
#include "operator/housekeeping_i.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/syscalls.h"
#include "operator/install_secret.h"
#include "operator/reconcile/manifest.h"
#include "operator/reconcile/reconcile_i.h"

#define TICK           DLC_SEC(1) /* so late it is noticed that we lead */
#define NODES_INTERVAL DLC_SEC(5)
#define TLS_INTERVAL   DLC_SEC(30) /* when all is well; else NODES_INTERVAL */

/* What may fail, each with its own last error. */
enum part { PART_TLS, PART_NODES, PARTS };

struct housekeeping {
    struct housekeeping_config config;
    struct kube *kube;
    struct manager_client *manager;
    pthread_t thread;
    bool led; /* at the last check */
    struct dlc_mono next[PARTS];
    char error[PARTS][200]; /* of the last failure; "": none */
    struct dlc_mtx mtx;
    struct dlc_cond woken;
    bool stop; /* G: mtx */
};

/* ---- the installation's Secret ---- */

int housekeeping_control_secret(struct kube *k, const char *ns, json_t **out, struct dlc_err *err)
{
    json_t *body, *have = NULL;
    int rc = kube_get(k, KUBE_SECRET, ns, MANAGER_SECRET, &have, err);

    *out = NULL;
    if (rc < 0 && rc != DLC_ENOTFOUND)
        return rc;
    body = bootstrap_secret(ns, have);
    if (body == NULL) {
        *out = have;
        return 0;
    }
    rc = have == NULL ? kube_create(k, KUBE_SECRET, ns, body, out, err)
                      : kube_patch(k, KUBE_SECRET, ns, MANAGER_SECRET, body, 0, out, err);
    if (rc == DLC_EBUSY || rc == DLC_ECHANGED) /* the other replica was first */
        rc = kube_get(k, KUBE_SECRET, ns, MANAGER_SECRET, out, err);
    json_decref(body);
    json_decref(have);
    return rc;
}

/* ---- labels ---- */

json_t *housekeeping_labels(const json_t *nodes, const json_t *live)
{
    json_t *out = json_array();
    const json_t *one;
    size_t i;

    json_array_foreach(nodes, i, one)
    {
        const char *name = kube_name(one), *has = label(one, LABEL_NODE);
        bool lives = strcmp(json_text_at(json_find(live, "name", name), "state"), "live") == 0;

        if (lives != (strcmp(has, "ready") == 0))
            json_array_append_new(
                out, json_pack("{s:s, s:s?}", "name", name, "label", lives ? "ready" : NULL));
    }
    return out;
}

static int set_label(struct housekeeping *k, const json_t *change, struct dlc_err *err)
{
    const char *name = json_text_at(change, "name");
    json_t *body = json_pack("{s:{s:{s:O}}}", "metadata", "labels", LABEL_NODE,
                             json_object_get(change, "label")),
           *out = NULL;
    int rc = kube_patch(k->kube, KUBE_NODE, NULL, name, body, 0, &out, err);

    json_decref(body);
    if (rc == 0) {
        log_info("node %s %s", name,
                 json_is_null(json_object_get(change, "label")) ? "has no dlcache any more"
                                                                : "has dlcache");
        objects_note(k->config.objects, KUBE_NODE, &out);
    }
    return rc == DLC_ENOTFOUND ? 0 : rc;
}

static int label_nodes(struct housekeeping *k, struct dlc_err *err)
{
    json_t *live = NULL, *nodes, *changes, *one;
    int rc = 0;
    size_t i;

    if (!objects_synced(k->config.objects, KUBE_NODE))
        return 0;
    if (manager_nodes(k->manager, &live, err) != MANAGER_OK) /* labels stay as they are */
        return dlc_err_prefix(err, "the manager does not tell its nodes");
    nodes = objects_all(k->config.objects, KUBE_NODE, NULL);
    changes = housekeeping_labels(nodes, live);
    objects_put(k->config.objects, &nodes);
    json_array_foreach(changes, i, one)
    {
        rc = rc == 0 ? set_label(k, one, err) : rc;
    }
    json_decref(changes);
    json_decref(live);
    return rc;
}

/* ---- the thread ---- */

static void note(struct housekeeping *k, enum part p, int rc, const struct dlc_err *err)
{
    static const char *const what[PARTS] = {"the webhook's certificate", "labels of nodes"};
    const char *text = rc < 0 && rc != DLC_ECANCELED ? err->text : "";

    if (strncmp(k->error[p], text, sizeof(k->error[p]) - 1) == 0)
        return;
    if (text[0] != '\0')
        log_warn("%s: %s", what[p], text);
    else
        log_info("%s: well again", what[p]);
    snprintf(k->error[p], sizeof(k->error[p]), "%.199s", text);
}

/* Is it time for this part? If so, when again. */
static bool is_due(struct housekeeping *k, enum part p)
{
    struct dlc_mono now = dlc_mono_now();

    if (now.ns < k->next[p].ns)
        return false;
    k->next[p].ns = now.ns + NODES_INTERVAL.ns;
    return true;
}

static void check_tls(struct housekeeping *k, bool leads)
{
    struct dlc_err err = DLC_ERR_INIT;
    int64_t end;
    int rc = housekeeping_tls(k->kube, &k->config, leads, &end, &err);

    if (rc == 0) {
        atomic_store_explicit(k->config.certificate_end, end, memory_order_relaxed);
        k->next[PART_TLS].ns = dlc_mono_now().ns + TLS_INTERVAL.ns;
    }
    note(k, PART_TLS, leads || rc != DLC_ENOTFOUND ? rc : 0, &err);
}

static void check_due(struct housekeeping *k)
{
    bool leads = lease_held(k->config.lease);
    struct dlc_err err = DLC_ERR_INIT;

    if (leads && !k->led)
        memset(k->next, 0, sizeof(k->next));
    k->led = leads;
    if (k->config.serve != NULL && is_due(k, PART_TLS))
        check_tls(k, leads);
    if (leads && is_due(k, PART_NODES)) {
        int rc = label_nodes(k, &err);

        note(k, PART_NODES, rc, &err);
    }
}

static void *run(void *arg)
{
    struct housekeeping *k = arg;
    bool stop = false;

    while (!stop) {
        check_due(k);
        dlc_mtx_lock(&k->mtx);
        if (!k->stop)
            dlc_cond_wait_for(&k->woken, &k->mtx, TICK);
        stop = k->stop;
        dlc_mtx_unlock(&k->mtx);
    }
    return NULL;
}

static void housekeeping_free(struct housekeeping *k)
{
    manager_client_close(&k->manager);
    kube_close(&k->kube);
    dlc_cond_release(&k->woken);
    dlc_mtx_release(&k->mtx);
    mem_free(&k);
}

int housekeeping_start(const struct housekeeping_config *c, struct housekeeping **out,
                       struct dlc_err *err)
{
    struct housekeeping *k = mem_new(struct housekeeping);
    int rc;

    *out = NULL;
    k->config = *c;
    dlc_mtx_init(&k->mtx, LCK_housekeeping);
    dlc_cond_init(&k->woken);
    rc = manager_client_open(&c->manager, &k->manager, err);
    if (rc == 0)
        rc = kube_open(&c->kube, &k->kube, err);
    if (rc == 0 && os_thread(&k->thread, run, k) != 0)
        rc = dlc_err_set(err, DLC_ENOMEM, "cannot start the housekeeping thread");
    if (rc < 0) {
        housekeeping_free(k);
        return rc;
    }
    *out = k;
    return 0;
}

void housekeeping_stop(struct housekeeping **kp)
{
    struct housekeeping *k = *kp;

    *kp = NULL;
    if (k == NULL)
        return;
    kube_interrupt(k->kube);
    dlc_mtx_lock(&k->mtx);
    k->stop = true;
    dlc_cond_broadcast(&k->woken);
    dlc_mtx_unlock(&k->mtx);
    pthread_join(k->thread, NULL);
    housekeeping_free(k);
}
