// SPDX-License-Identifier: Apache-2.0
#include "operator/reconcile/pass.h"

#include "base/log.h"

#define ENOUGH DLC_SEC(1) /* after RECONCILE_ROUNDS: another is worked on meanwhile */

static enum act_end act_all(struct turn *t, const struct actions *all, struct dlc_err *err)
{
    enum act_end e = ACT_DONE;

    for (size_t i = 0; e == ACT_DONE && i < all->n; i++) {
        log_debug("%s: %s %s", t->key, action_infos[all->v[i].kind].name, all->v[i].name);
        if (kube_ask_to_write(t->desk->kube, err) < 0)
            return ACT_FAILED;
        e = act(t, &all->v[i], err);
    }
    return e;
}

/* Decide and act until nothing more is asked for. */
static int decide(struct turn *t, struct dlc_dur *after, struct dlc_err *err)
{
    bool away = false;

    for (int n = 0; n < RECONCILE_ROUNDS; n++) {
        struct actions all = ACTIONS_INIT;
        bool again;
        enum act_end e;

        reconcile(&t->seen, &all);
        again = all.again;
        *after = all.after;
        e = act_all(t, &all, err);
        actions_release(&all);
        if (e == ACT_FAILED || (e == ACT_AWAY && away))
            return err->code;
        away |= e == ACT_AWAY;
        if (e == ACT_DONE && !again)
            return 0;
    }
    *after = ENOUGH;
    return 0;
}

int turn_take(struct desk *d, const struct object_key *key, struct dlc_dur *after,
              struct dlc_err *err)
{
    json_t *object = objects_get(d->objects, key->kind, key->ns, key->name);
    struct turn t;
    int rc;

    *after = (struct dlc_dur){-1};
    if (object == NULL)
        return 0;
    rc = look_begin(&t, d, object, err);
    if (rc == 0)
        rc = decide(&t, after, err);
    look_end(&t);
    if (rc < 0)
        *after = kube_retry_after(d->kube);
    return rc;
}
