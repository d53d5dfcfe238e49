// SPDX-License-Identifier: Apache-2.0
#include "gateway/access.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/config.h"
#include "base/event_loop.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/secret.h"
#include "base/str.h"
#include "daemon/cluster_ops.h"
#include "daemon/daemon.h"
#include "daemon/state.h"
#include "gateway/loopback_peer.h"

#define TOKEN_LIFE DLC_SEC(30)
#define TOKEN_WAIT DLC_SEC(5)
#define TOKENS     64u

struct known_token {
    unsigned char digest[SHA256_LEN];
    struct viewer viewer;
    struct dlc_mono asked; /* 0: none is here */
};

/* A question to the loop. It outlives who waits for it. */
struct question {
    struct access *access;
    struct dlc_list link; /* in access.questions, until both sides are done */
    struct task task;
    char *token;
    bool answered, left; /* G: access.mtx; left: nobody waits any more */
    struct viewer viewer;
    struct dlc_err err; /* code 0: none */
};

struct access {
    struct node *node;
    char *address;      /* NULL: none */
    struct dlc_mtx mtx; /* rank LCK_sync */
    struct dlc_cond cond;
    bool ending;                      /* G: mtx, and so is the rest */
    struct dlc_list questions;        /* struct question.link */
    struct known_token known[TOKENS]; /* by digest */
};

struct access *access_new(struct node *n)
{
    struct access *a = mem_new(struct access);

    a->node = n;
    dlc_mtx_init(&a->mtx, LCK_sync);
    dlc_cond_init(&a->cond);
    dlc_list_init(&a->questions);
    return a;
}

void access_set_address(struct access *a, const char *address)
{
    mem_free(&a->address);
    a->address = mem_str(address);
}

void access_end(struct access *a)
{
    dlc_mtx_lock(&a->mtx);
    a->ending = true;
    dlc_cond_broadcast(&a->cond);
    dlc_mtx_unlock(&a->mtx);
}

static void question_free(struct question *q)
{
    dlc_list_remove(&q->link);
    secret_free(&q->token);
    mem_free(&q);
}

void access_free(struct access **ap)
{
    struct access *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    while (!dlc_list_empty(&a->questions))
        question_free(dlc_container(a->questions.next, struct question, link));
    dlc_cond_release(&a->cond);
    dlc_mtx_release(&a->mtx);
    mem_free(&a->address);
    mem_free(&a);
}

/* ---- tokens ---- */

/* L. */
static void on_identified(struct node *n, const struct token_owner *o, const struct dlc_err *err,
                          void *arg)
{
    struct question *q = arg;
    struct access *a = q->access;

    (void)n;
    dlc_mtx_lock(&a->mtx);
    if (o == NULL) {
        q->err = *err;
    } else {
        q->viewer.all = o->admin;
        snprintf(q->viewer.tenant, sizeof(q->viewer.tenant), "%s", o->tenant);
    }
    q->answered = true;
    if (q->left)
        question_free(q);
    dlc_cond_broadcast(&a->cond);
    dlc_mtx_unlock(&a->mtx);
}

/* L. */
static void ask_manager(struct task *t)
{
    struct question *q = dlc_container(t, struct question, task);
    struct node *n = q->access->node;

    n->cluster_ops->identify(n, q->token, on_identified, q);
}

/* Under the lock. 0, or why not. */
static int wait_for_answer(struct access *a, struct question *q, struct viewer *out,
                           struct dlc_err *err)
{
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), TOKEN_WAIT);
    int rc;

    while (!q->answered && !a->ending) {
        struct dlc_dur left = dlc_mono_sub(until, dlc_mono_now());

        if (left.ns <= 0 || dlc_cond_wait_for(&a->cond, &a->mtx, left) != 0)
            break;
    }
    if (!q->answered) {
        q->left = true;
        return dlc_err_set(err, DLC_ETIMEDOUT, "nobody says whose the token is");
    }
    *out = q->viewer;
    if (q->err.code != 0)
        *err = q->err;
    rc = q->err.code;
    question_free(q);
    return rc;
}

static struct known_token *known_of(struct access *a, const unsigned char digest[static SHA256_LEN])
{
    return &a->known[digest[0] % TOKENS];
}

static bool is_known(const struct known_token *k, const unsigned char digest[static SHA256_LEN],
                     struct dlc_dur life)
{
    return k->asked.ns != 0 && memcmp(k->digest, digest, SHA256_LEN) == 0 &&
           (life.ns == 0 || dlc_mono_since(k->asked).ns <= life.ns);
}

static int viewer_of_token(struct access *a, const char *token, struct viewer *out,
                           struct dlc_err *err)
{
    unsigned char digest[SHA256_LEN];
    struct known_token *k;
    struct question *q;
    int rc = 0;

    if (a->node->cluster_ops == NULL)
        return dlc_err_set(err, DLC_EDENIED, "this daemon has no manager that knows tokens");
    sha256(token, strlen(token), digest);
    dlc_mtx_lock(&a->mtx);
    k = known_of(a, digest);
    if (is_known(k, digest, TOKEN_LIFE)) {
        *out = k->viewer;
        goto out;
    }
    q = mem_new(struct question);
    q->access = a;
    q->token = mem_str(token);
    q->task.run = ask_manager;
    dlc_list_push_tail(&a->questions, &q->link);
    loop_post(a->node->loop, &q->task);
    rc = wait_for_answer(a, q, out, err);
    if (rc == 0) {
        memcpy(k->digest, digest, SHA256_LEN);
        k->viewer = *out;
        k->asked = dlc_mono_now();
    } else if (rc != DLC_EDENIED && is_known(k, digest, a->node->config->manager_grace)) {
        *out = k->viewer; /* the manager is away */
        rc = 0;
    } else if (is_known(k, digest, (struct dlc_dur){0})) {
        k->asked.ns = 0;
    }
out:
    dlc_mtx_unlock(&a->mtx);
    return rc;
}

/* ---- addresses ---- */

bool access_host_is_local(const char *host)
{
    char name[64];
    struct in6_addr six;
    struct in_addr four;
    size_t n;

    if (host == NULL)
        return false;
    n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (n >= sizeof(name) || n > strlen(host) || (host[n] != '\0' && host[n] != ':'))
        return false;
    memcpy(name, host, n);
    name[n] = '\0';
    if (name[0] == '[') {
        name[n - 1] = '\0';
        return inet_pton(AF_INET6, name + 1, &six) == 1;
    }
    return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &four) == 1;
}

/* ---- the check ---- */

static bool is_cluster_node(const struct node *n)
{
    return n->cluster_ops != NULL && !n->membership->inside;
}

/* By the user at the other end: the daemon's own, or root. */
static bool is_own_user(const struct access *a, const struct http_request *r)
{
    int64_t uid;

    if (r->local)
        return true;
    if (r->uid >= 0 || a->address == NULL || !access_host_is_local(http_header(r, "Host")))
        return false;
    uid = loopback_peer_uid(r->address, a->address);
    return uid == 0 || (uid >= 0 && uid == (int64_t)geteuid());
}

bool access_check(struct access *a, const struct http_request *r, struct viewer *out,
                  struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    *out = (struct viewer){0};
    if (r->token == NULL || r->token[0] == '\0') {
        out->all = !is_cluster_node(a->node) && is_own_user(a, r);
        if (!out->all) {
            http_problem(reply, 401, "Token missing",
                         "figures of this daemon are for its own user on this machine%s; others "
                         "send Authorization: Bearer with a token of an admin or of a tenant",
                         is_cluster_node(a->node) ? " with a token" : "");
            http_reply_header(reply, "WWW-Authenticate", "Bearer");
        }
        return out->all;
    }
    rc = viewer_of_token(a, r->token, out, &err);
    if (rc == 0 && !out->all && out->tenant[0] == '\0')
        rc = dlc_err_set(&err, DLC_EDENIED, "the token is of no tenant");
    if (rc < 0)
        http_problem(reply, rc == DLC_EDENIED ? 401 : 503,
                     rc == DLC_EDENIED ? "Unknown token" : "Not known yet", "%s", err.text);
    return rc == 0;
}
