// SPDX-License-Identifier: Apache-2.0
/* The thread that renews or waits for the Lease; lease_decide.c makes its decisions. */
#include "operator/kube/lease.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <openssl/rand.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "operator/kube/lease_i.h"

#define LEASE_TAG DLC_TAG4('l', 'e', 'a', 's')
#define DURATION  DLC_SEC(15)

struct lease {
    uint32_t tag;
    struct kube *kube;
    char *ns, *name, *identity;
    void (*changed)(bool held, void *arg);
    void *arg;
    pthread_t thread;
    bool was_held;          /* as last told; the thread's */
    struct lease_view view; /* the thread's */
    json_t *last;           /* the record as it is while we lead; the thread's */
    /* W the thread, R any, relaxed: the end of what we may do, 0: nothing. A reader that sees an
     * older value stops sooner. */
    _Atomic int64_t held_until;
    _Atomic uint64_t transitions;
    struct dlc_mtx mtx; /* rank LCK_lease */
    struct dlc_cond woken;
    bool stop;    /* G: mtx */
    char *holder; /* G: mtx */
};

static struct lease *lease_of(void *priv)
{
    struct lease *l = priv;

    dlc_check(l != NULL && l->tag == LEASE_TAG);
    return l;
}

/* -------- for others -------- */

bool lease_held(const struct lease *l)
{
    return dlc_mono_now().ns < atomic_load_explicit(&l->held_until, memory_order_relaxed);
}

bool lease_may_write(void *lease)
{
    return lease_held(lease_of(lease));
}

uint64_t lease_transitions(const struct lease *l)
{
    return atomic_load_explicit(&l->transitions, memory_order_relaxed);
}

const char *lease_identity(const struct lease *l)
{
    return l->identity;
}

char *lease_holder(struct lease *l)
{
    char *holder;

    dlc_mtx_lock(&lease_of(l)->mtx);
    holder = mem_str(l->holder);
    dlc_mtx_unlock(&l->mtx);
    return holder;
}

struct dlc_dur lease_timeout(struct dlc_dur duration)
{
    return lease_share(duration.ns > 0 ? duration : DURATION, LEASE_TIMEOUT);
}

/* -------- the thread -------- */

static void tell(struct lease *l, bool held)
{
    l->was_held = held;
    if (held)
        log_info("%s leads from now on (%s/%s, change %lld)", l->identity, l->ns, l->name,
                 (long long)l->view.transitions);
    else
        log_warn("%s does not lead any more (%s/%s)", l->identity, l->ns, l->name);
    if (l->changed != NULL)
        l->changed(held, l->arg);
}

/* Tell what has become of it. A renewal that came too late was a time without us: whoever saw
 * that has to hear of both. */
static void publish(struct lease *l)
{
    const struct lease_view *v = &l->view;
    bool held = lease_view_holds(v, dlc_mono_now()), lapsed;
    int64_t until = held ? v->held_from.ns + lease_share(v->duration, LEASE_HOLDS).ns : 0, before;

    atomic_store_explicit(&l->transitions, (uint64_t)DLC_MAX(v->transitions, 0),
                          memory_order_relaxed); /* pairs with lease_transitions() */
    before = atomic_exchange_explicit(&l->held_until, until,
                                      memory_order_relaxed); /* pairs with lease_held() */
    lapsed = l->was_held && dlc_mono_now().ns >= before;     /* somebody may have seen it */
    dlc_mtx_lock(&l->mtx);
    mem_free(&l->holder);
    l->holder = mem_str(v->holder != NULL ? v->holder : "");
    dlc_mtx_unlock(&l->mtx);
    if (lapsed && held)
        tell(l, false);
    if (held != l->was_held)
        tell(l, held);
}

/* Write what the step wants. `from` is when we began: our time counts from there. */
static int write_record(struct lease *l, enum lease_step step, const json_t *seen,
                        struct dlc_mono from, struct dlc_err *err)
{
    char now[KUBE_TIME_LEN];
    json_t *record = lease_record(&l->view, step, seen, l->ns, l->name, kube_time(true, now));
    json_t *out = NULL;
    int rc;

    if (step == LEASE_CREATE)
        rc = kube_create(l->kube, KUBE_LEASE, l->ns, record, &out, err);
    else
        rc = kube_replace(l->kube, KUBE_LEASE, l->ns, l->name, record, 0, &out, err);
    json_decref(record);
    if (rc < 0)
        return rc;
    lease_decide(&l->view, out, from); /* remember it as it is now */
    l->view.held_from = from;
    json_decref(l->last);
    l->last = out;
    return 0;
}

/* Look, and do what is to be done. */
static int look(struct lease *l, struct dlc_err *err)
{
    json_t *seen = NULL;
    struct dlc_mono from;
    enum lease_step step;
    int rc = 0;

    if (l->last == NULL) {
        rc = kube_get(l->kube, KUBE_LEASE, l->ns, l->name, &seen, err);
        if (rc == DLC_ENOTFOUND && kube_status(l->kube) == 404)
            rc = 0;
    } else {
        seen = json_incref(l->last); /* nobody else has changed it, or we shall hear of it */
    }
    if (rc == 0) {
        from = dlc_mono_now();
        step = lease_decide(&l->view, seen, from);
        if (step != LEASE_WAIT)
            rc = write_record(l, step, seen, from, err);
        if (rc < 0) {
            json_decref(l->last); /* look at it again before the next attempt */
            l->last = NULL;
        }
    }
    json_decref(seen);
    return rc;
}

/* False: it is time to go. */
static bool wait_until(struct lease *l, struct dlc_mono at)
{
    bool stop;

    dlc_mtx_lock(&l->mtx);
    while (!l->stop && dlc_mono_now().ns < at.ns)
        dlc_cond_wait_for(&l->woken, &l->mtx, dlc_mono_sub(at, dlc_mono_now()));
    stop = l->stop;
    dlc_mtx_unlock(&l->mtx);
    return !stop;
}

static void give_up(struct lease *l)
{
    char now[KUBE_TIME_LEN];
    json_t *record;

    if (!lease_view_holds(&l->view, dlc_mono_now()) || l->last == NULL)
        return;
    l->view.held_from = (struct dlc_mono){0};
    publish(l);
    record = lease_farewell(l->last, kube_time(true, now));
    kube_replace(l->kube, KUBE_LEASE, l->ns, l->name, record, 0, NULL, NULL);
    json_decref(record);
}

static void *run(void *priv)
{
    struct lease *l = lease_of(priv);
    bool complained = false;
    struct dlc_mono at;

    do {
        struct dlc_err err = DLC_ERR_INIT;
        int rc = look(l, &err);

        if (rc < 0 && rc != DLC_ECHANGED && rc != DLC_EBUSY) {
            log_at(complained ? LOG_DEBUG : LOG_WARN, "the Lease %s/%s: %s", l->ns, l->name,
                   err.text);
            complained = true;
        } else {
            complained = false;
        }
        publish(l);
        at = lease_next(&l->view, dlc_mono_now());
        if (rc < 0) /* try again soon, while there is time */
            at = dlc_mono_add(dlc_mono_now(), lease_share(l->view.duration, LEASE_FOLLOWED));
    } while (wait_until(l, at));
    give_up(l);
    return NULL;
}

/* -------- beginning and end -------- */

/* One start, one name. */
static char *new_identity(const char *who)
{
    unsigned char random[8];
    char hex[2 * sizeof(random) + 1], host[256] = "";

    dlc_check(RAND_bytes(random, sizeof(random)) == 1);
    str_hex(random, sizeof(random), hex);
    if (who == NULL && gethostname(host, sizeof(host) - 1) == 0)
        who = host;
    return mem_fmt("%.100s_%s", who != NULL && *who != '\0' ? who : "operator", hex);
}

static void free_lease(struct lease *l)
{
    kube_close(&l->kube);
    json_decref(l->last);
    lease_view_release(&l->view);
    dlc_cond_release(&l->woken);
    dlc_mtx_release(&l->mtx);
    mem_free(&l->ns);
    mem_free(&l->name);
    mem_free(&l->identity);
    mem_free(&l->holder);
    l->tag = 0;
    mem_free(&l);
}

int lease_start(const struct lease_config *c, struct lease **out, struct dlc_err *err)
{
    struct lease *l = mem_new(struct lease);
    struct kube_options o = c->kube;
    int rc;

    *out = NULL;
    l->tag = LEASE_TAG;
    l->ns = mem_str(c->ns);
    l->name = mem_str(c->name);
    l->identity = new_identity(c->who);
    l->changed = c->changed;
    l->arg = c->arg;
    l->view.identity = l->identity;
    l->view.duration = c->duration.ns > 0 ? c->duration : DURATION;
    dlc_check(l->view.duration.ns % 1000000000 == 0);
    l->holder = mem_str("");
    dlc_mtx_init(&l->mtx, LCK_lease);
    dlc_cond_init(&l->woken);
    o.may_write = NULL;
    o.timeout = lease_timeout(l->view.duration);
    rc = kube_open(&o, &l->kube, err);
    if (rc == 0 && os_thread(&l->thread, run, l) != 0)
        rc = dlc_err_set(err, DLC_ENOMEM, "no thread for the Lease");
    if (rc < 0) {
        free_lease(l);
        return rc;
    }
    *out = l;
    return 0;
}

void lease_give_up(struct lease *l)
{
    bool done;

    dlc_mtx_lock(&lease_of(l)->mtx);
    done = l->stop;
    l->stop = true;
    dlc_cond_broadcast(&l->woken);
    dlc_mtx_unlock(&l->mtx);
    if (!done)
        pthread_join(l->thread, NULL);
}

void lease_stop(struct lease **lp)
{
    if (*lp == NULL)
        return;
    lease_give_up(*lp);
    free_lease(*lp);
    *lp = NULL;
}
