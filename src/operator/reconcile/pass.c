// SPDX-License-Identifier: Apache-2.0
#include "operator/reconcile/pass.h"

#include "base/log.h"

#define ENOUGH DLC_SEC(1) /* after RECONCILE_ROUNDS: another is worked on meanwhile */

static enum action_result execute_all(struct pass *p, const struct actions *all,
                                      struct dlc_err *err)
{
    enum action_result e = ACTION_DONE;

    for (size_t i = 0; e == ACTION_DONE && i < all->n; i++) {
        log_debug("%s: %s %s", p->key, action_infos[all->v[i].kind].name, all->v[i].name);
        if (kube_ask_to_write(p->reconciler->kube, err) < 0)
            return ACTION_FAILED;
        e = action_execute(p, &all->v[i], err);
    }
    return e;
}

/* Decide and action_execute until nothing more is asked for. */
static int decide(struct pass *p, struct dlc_dur *after, struct dlc_err *err)
{
    bool away = false;

    for (int n = 0; n < RECONCILE_ROUNDS; n++) {
        struct actions all = ACTIONS_INIT;
        bool again;
        enum action_result e;

        reconcile(&p->seen, &all);
        again = all.again;
        *after = all.after;
        e = execute_all(p, &all, err);
        actions_release(&all);
        if (e == ACTION_FAILED || (e == ACTION_MANAGER_AWAY && away))
            return err->code;
        away |= e == ACTION_MANAGER_AWAY;
        if (e == ACTION_DONE && !again)
            return 0;
    }
    *after = ENOUGH;
    return 0;
}

int pass_run(struct reconciler *r, const struct object_key *key, struct dlc_dur *after,
             struct dlc_err *err)
{
    json_t *object = objects_get(r->objects, key->kind, key->ns, key->name);
    struct pass p;
    int rc;

    *after = (struct dlc_dur){-1};
    if (object == NULL)
        return 0;
    rc = observe_begin(&p, r, object, err);
    if (rc == 0)
        rc = decide(&p, after, err);
    observe_end(&p);
    if (rc < 0)
        *after = kube_retry_after(r->kube);
    return rc;
}
