// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/credentials_i.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/syscalls.h"
#include "bucket/credentials/kind_i.h"

/* Before the expiry, in seconds: refresh in the background; do not hand out before trying. Shorter
 * for credentials that live only minutes. */
#define REFRESH_AHEAD 300
#define MUST_AHEAD    60

#define SOURCE_TAG DLC_TAG4('c', 'r', 's', 'r')
#define REF_TAG    DLC_TAG4('c', 'r', 'e', 'f')

struct credentials_ref {
    uint32_t tag;
    _Atomic unsigned refs;
    struct credentials c;
    int64_t refresh_at, must_at; /* Unix time; INT64_MAX: never */
};

struct waiter {
    struct loop *loop;
    struct task *ready;
};

struct credential_source {
    uint32_t tag;
    /* fixed after new */
    const struct credential_kind *kind;
    void *state; /* the kind's */
    struct cloud_env env;
    bool anonymous, no_machine_role;
    struct bucket_keys *keys; /* or NULL: look for them */
    int stop_fd;              /* eventfd: readable when the source goes away */

    _Atomic int64_t ahead; /* W tests, R any, relaxed: of the wall clock, in seconds */

    struct dlc_mtx mtx;              /* rank LCK_credentials */
    struct credentials_ref *current; /* G: mtx; or NULL */
    struct credentials asked_with;   /* G: mtx: given ones that the latest look is of */
    bool stale;                      /* G: mtx: the server refused current */
    unsigned refused;                /* G: mtx: generation that a look found again, 0: none */
    unsigned generation;             /* G: mtx: of the newest */
    struct dlc_err failure;          /* G: mtx: of the latest look; code 0: it succeeded */
    struct dlc_mono looked;          /* G: mtx: when the latest look ended; 0: never */
    bool looking, joinable;          /* G: mtx: the thread runs; has to be joined */
    pthread_t thread;                /* G: mtx */
    struct waiter *waiters;          /* G: mtx */
    size_t n_waiters, cap_waiters;   /* G: mtx */
};

/* ---- credentials and references ---- */

static bool text_equal(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool credentials_equal(const struct credentials *a, const struct credentials *b)
{
    return text_equal(a->access_key, b->access_key) && text_equal(a->secret_key, b->secret_key) &&
           text_equal(a->session_token, b->session_token) && text_equal(a->bearer, b->bearer) &&
           text_equal(a->sas, b->sas);
}

/* Takes *c. */
static struct credentials_ref *ref_new(struct credentials *c, int64_t now)
{
    struct credentials_ref *r = mem_new(struct credentials_ref);
    int64_t life = c->expires - now;

    r->tag = REF_TAG;
    r->refs = 1;
    r->c = *c;
    *c = (struct credentials)CREDENTIALS_INIT;
    r->refresh_at = r->must_at = INT64_MAX;
    if (r->c.expires != 0) {
        r->refresh_at = r->c.expires - DLC_MIN(REFRESH_AHEAD, life / 3);
        r->must_at = r->c.expires - DLC_MIN(MUST_AHEAD, life / 6);
    }
    return r;
}

static struct credentials_ref *ref_get(struct credentials_ref *r)
{
    /* Relaxed: who gets one holds one already, or the source's lock. */
    atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

void credentials_put(struct credentials_ref **rp)
{
    struct credentials_ref *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    dlc_check(r->tag == REF_TAG);
    /* Pairs with itself: the last one sees what all others did. */
    if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1) {
        credentials_release(&r->c);
        r->tag = 0;
        mem_free(&r);
    }
}

const struct credentials *credentials_of(const struct credentials_ref *r)
{
    dlc_check(r->tag == REF_TAG);
    return &r->c;
}

/* ---- the look, on its own thread ---- */

static int64_t now_of(struct credential_source *s)
{
    return dlc_wall_seconds() + atomic_load_explicit(&s->ahead, memory_order_relaxed);
}

static struct lookup lookup_of(struct credential_source *s)
{
    return (struct lookup){
        .env = &s->env,
        .no_machine_role = s->no_machine_role,
        .now = now_of(s),
        .stop_fd = s->stop_fd,
    };
}

static int look(struct credential_source *s, struct credentials *out, struct dlc_err *err)
{
    struct credentials given = CREDENTIALS_INIT;
    struct lookup l = lookup_of(s);
    int rc;

    if (s->keys != NULL) {
        bucket_keys_read(s->keys, &given);
        l.given = &given;
    }
    rc = s->kind->find(s->state, &l, out, err);
    credentials_release(&given);
    return rc;
}

/* Takes *found. */
static void install_locked(struct credential_source *s, struct credentials *found)
{
    bool same = s->current != NULL && credentials_equal(&s->current->c, found);

    s->refused = same && s->stale ? s->generation : 0;
    if (!same)
        s->generation++;
    found->generation = s->generation;
    credentials_put(&s->current);
    s->current = ref_new(found, now_of(s));
    s->stale = false;
}

static void *look_main(void *priv)
{
    struct credential_source *s = priv;
    struct credentials found = CREDENTIALS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    dlc_check(s->tag == SOURCE_TAG);
    pthread_setname_np(pthread_self(), "dlc-credentials");
    rc = look(s, &found, &err);
    dlc_mtx_lock(&s->mtx);
    s->failure = err;
    s->failure.code = rc;
    if (rc == 0)
        install_locked(s, &found);
    else if (s->current != NULL && rc != DLC_ECANCELED)
        log_warn("cannot refresh credentials: %s", err.text);
    s->looking = false;
    s->looked = dlc_mono_now();
    for (size_t i = 0; i < s->n_waiters; i++)
        loop_post(s->waiters[i].loop, s->waiters[i].ready);
    s->n_waiters = 0;
    dlc_mtx_unlock(&s->mtx);
    return NULL;
}

static void join_locked(struct credential_source *s)
{
    if (s->joinable)
        pthread_join(s->thread, NULL); /* its last act was to unlock: no wait worth the name */
    s->joinable = false;
}

/* Start a look unless one runs. Signals are for other threads. */
static int start_locked(struct credential_source *s, struct dlc_err *err)
{
    sigset_t all, old;
    int e;

    dlc_mtx_assert_held(&s->mtx);
    if (s->looking)
        return 0;
    join_locked(s);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    e = os_thread(&s->thread, look_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e != 0)
        return dlc_err_set(err, dlc_err_of_errno(e), "cannot start a thread for credentials: %s",
                           strerror(e));
    s->looking = s->joinable = true;
    return 0;
}

/* ---- the source ---- */

int credential_source_make(const struct credential_kind *kind, const struct bucket_config *c,
                           struct credential_source **out, struct dlc_err *err)
{
    struct credential_source *s = mem_new(struct credential_source);
    int rc;

    *out = NULL;
    s->tag = SOURCE_TAG;
    s->kind = kind;
    s->anonymous = c->anonymous;
    s->no_machine_role = c->no_machine_role;
    s->keys = c->keys != NULL ? bucket_keys_get(c->keys) : NULL;
    dlc_mtx_init(&s->mtx, LCK_credentials);
    cloud_env_read(&s->env);
    s->stop_fd = os_eventfd();
    rc = s->stop_fd < 0 ? dlc_err_sys(err, "cannot make an eventfd") : 0;
    if (rc < 0)
        credential_source_free(&s);
    *out = s;
    return rc;
}

void credential_source_take_state(struct credential_source *s, void *state)
{
    dlc_check(s->state == NULL);
    s->state = state;
}

void *credential_source_state(const struct credential_source *s)
{
    return s->state;
}

const struct cloud_env *credential_source_env(const struct credential_source *s)
{
    return &s->env;
}

void credential_source_free(struct credential_source **sp)
{
    struct credential_source *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    dlc_check(s->tag == SOURCE_TAG);
    if (s->stop_fd >= 0)
        os_wake(s->stop_fd);
    join_locked(s); /* nobody else uses s: no lock needed, and the thread wants it */
    dlc_check(s->n_waiters == 0);
    credentials_put(&s->current);
    credentials_release(&s->asked_with);
    bucket_keys_put(&s->keys);
    mem_free(&s->waiters);
    cloud_env_release(&s->env);
    s->kind->free(s->state);
    os_close(&s->stop_fd);
    dlc_mtx_release(&s->mtx);
    s->tag = 0;
    mem_free(&s);
}

/* The latest look ended so recently that another one makes no sense. */
static bool pausing_locked(const struct credential_source *s)
{
    return s->looked.ns != 0 &&
           !dlc_mono_passed(dlc_mono_add(s->looked, CREDENTIALS_PAUSE), dlc_mono_now());
}

static int wait_locked(struct credential_source *s, struct loop *loop, struct task *ready,
                       struct dlc_err *err)
{
    int rc = start_locked(s, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < s->n_waiters; i++)
        dlc_check(s->waiters[i].ready != ready);
    mem_reserve(s->waiters, s->n_waiters, s->cap_waiters);
    s->waiters[s->n_waiters++] = (struct waiter){loop, ready};
    return dlc_err_set(err, DLC_EBUSY, "looking for credentials");
}

static int get_locked(struct credential_source *s, struct loop *loop, struct task *ready,
                      struct dlc_err *err)
{
    int64_t now = now_of(s);
    bool usable = s->current != NULL && !s->stale &&
                  (s->current->c.expires == 0 || now < s->current->c.expires);
    bool pausing = pausing_locked(s) && (usable || s->failure.code < 0);

    if (usable && (now < s->current->must_at || pausing)) {
        if (now >= s->current->refresh_at && !pausing && start_locked(s, NULL) < 0)
            log_warn("cannot start a thread to refresh credentials");
        return 0;
    }
    if (pausing && !s->looking) {
        if (err != NULL)
            *err = s->failure;
        return s->failure.code;
    }
    return wait_locked(s, loop, ready, err);
}

/* Others than those of the latest look: what it found is not theirs. Takes *given. */
static void ask_with_locked(struct credential_source *s, struct credentials *given)
{
    if (!credentials_equal(&s->asked_with, given)) {
        s->stale = s->current != NULL;
        s->looked = (struct dlc_mono){0};
        credentials_release(&s->asked_with);
        s->asked_with = *given;
        *given = (struct credentials)CREDENTIALS_INIT;
    }
}

/* They were given to us: there is nowhere else to look. */
static int given_locked(struct credential_source *s, struct loop *loop, struct task *ready,
                        struct dlc_err *err)
{
    struct credentials given = CREDENTIALS_INIT, found = CREDENTIALS_INIT;
    struct lookup l = lookup_of(s);
    int rc = 0;

    bucket_keys_read(s->keys, &given);
    if (s->kind->given != NULL) {
        rc = s->kind->given(s->state, &l, &given, &found, err);
    } else {
        found = given;
        given = (struct credentials)CREDENTIALS_INIT;
    }
    if (rc == LOOKUP_ELSEWHERE) {
        ask_with_locked(s, &given);
        rc = get_locked(s, loop, ready, err);
        goto out;
    }
    if (rc == 0)
        rc = credentials_check(&found, err);
    if (rc < 0)
        dlc_err_prefix(err, "the tenant's credentials");
    else if (s->current == NULL || !credentials_equal(&s->current->c, &found))
        install_locked(s, &found);
out:
    credentials_release(&given);
    credentials_release(&found);
    return rc;
}

int credential_source_get(struct credential_source *s, struct loop *loop, struct task *ready,
                          struct credentials_ref **out, struct dlc_err *err)
{
    int rc;

    dlc_check(s->tag == SOURCE_TAG);
    *out = NULL;
    if (s->anonymous)
        return 0;
    dlc_mtx_lock(&s->mtx);
    rc = s->keys != NULL ? given_locked(s, loop, ready, err) : get_locked(s, loop, ready, err);
    if (rc == 0)
        *out = ref_get(s->current);
    dlc_mtx_unlock(&s->mtx);
    return rc;
}

bool credential_source_forget(struct credential_source *s, struct task *ready)
{
    bool found = false;

    dlc_mtx_lock(&s->mtx);
    for (size_t i = 0; i < s->n_waiters && !found; i++) {
        if (s->waiters[i].ready == ready) {
            s->waiters[i] = s->waiters[--s->n_waiters];
            found = true;
        }
    }
    dlc_mtx_unlock(&s->mtx);
    return found;
}

void credential_source_expire(struct credential_source *s, unsigned generation)
{
    dlc_mtx_lock(&s->mtx);
    if (s->current != NULL && generation == s->generation &&
        !(s->refused == generation && pausing_locked(s)))
        s->stale = true;
    dlc_mtx_unlock(&s->mtx);
}

void credential_source_advance(struct credential_source *s, int64_t seconds)
{
    atomic_fetch_add_explicit(&s->ahead, seconds, memory_order_relaxed);
}
