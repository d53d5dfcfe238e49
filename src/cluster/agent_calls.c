// SPDX-License-Identifier: Apache-2.0
/* Questions to the manager between two heartbeats: a queue, and the thread that asks. */
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "cluster/agent_i.h"
#include "daemon/state.h"
#include "net/manager_client.h"

void agent_call_release(struct agent_call *c)
{
    secret_json_wipe(json_object_get(c->answer, "credentials")); /* the only one who has them */
    mem_free(&c->path);
    json_decref(c->body);
    json_decref(c->answer);
    c->body = c->answer = NULL;
}

static void call_ended(struct task *t)
{
    struct agent_call *c = dlc_container(t, struct agent_call, task);

    c->agent->node->pending--;
    c->done(c);
}

void agent_ask(struct agent *a, struct agent_call *c)
{
    c->agent = a;
    c->task.run = call_ended;
    a->node->pending++;
    dlc_mtx_lock(&a->mtx);
    if (a->ending) {
        c->rc = dlc_err_set(&c->err, DLC_ECANCELED, "the node is ending");
        loop_post(a->node->loop, &c->task);
    } else {
        dlc_list_push_tail(c->later ? &a->later : &a->calls, &c->link);
        dlc_cond_broadcast(&a->wake);
    }
    dlc_mtx_unlock(&a->mtx);
}

/* The next call; NULL: none waits. With mtx. */
static struct dlc_list *pop_call(struct agent *a)
{
    struct dlc_list *l = dlc_list_pop_head(&a->calls);

    return l != NULL ? l : dlc_list_pop_head(&a->later);
}

void agent_calls_fail(struct agent *a, const struct dlc_err *err)
{
    struct dlc_list *l;

    dlc_mtx_lock(&a->mtx);
    while ((l = pop_call(a)) != NULL) {
        struct agent_call *c = dlc_container(l, struct agent_call, link);

        c->err = *err;
        c->rc = err->code;
        loop_post(a->node->loop, &c->task);
    }
    dlc_mtx_unlock(&a->mtx);
}

/* Is there a manager to ask, or is it known that there is none? With mtx. The manager wants our
 * certificate or credential, which come with the join. */
static bool can_ask(const struct agent *a)
{
    return a->broken || (a->ready && (a->joined || a->trouble.code != 0));
}

/* The next call, or NULL when the agent ends. */
static struct agent_call *next_call(struct agent *a)
{
    struct dlc_list *l = NULL;

    dlc_mtx_lock(&a->mtx);
    while (!a->ending && (!can_ask(a) || (dlc_list_empty(&a->calls) && dlc_list_empty(&a->later))))
        dlc_cond_wait(&a->wake, &a->mtx);
    if (!a->ending)
        l = pop_call(a);
    dlc_mtx_unlock(&a->mtx);
    return l != NULL ? dlc_container(l, struct agent_call, link) : NULL;
}

/* Why there is nobody to ask; 0: there is. */
static int nobody(struct agent *a, struct dlc_err *err)
{
    int rc = 0;

    dlc_mtx_lock(&a->mtx);
    if (a->broken || (a->certificate != NULL && !a->joined)) {
        *err = a->trouble;
        rc = err->code;
    }
    dlc_mtx_unlock(&a->mtx);
    return rc;
}

void *agent_calls_main(void *arg)
{
    struct agent *a = agent_of(arg);
    struct manager_client *client = NULL;
    struct agent_call *c;

    pthread_setname_np(pthread_self(), "dlc-ask");
    while ((c = next_call(a)) != NULL) {
        bool sent;

        c->rc = nobody(a, &c->err);
        if (c->rc == 0 && client == NULL)
            c->rc = agent_client_open(a, &client, &c->err);
        sent = c->rc == 0;
        if (sent)
            agent_client_certify(a, client);
        if (sent)
            c->rc = manager_client_call(client, c->method, c->path, c->body, &c->answer, &c->err);
        /* Our token was replaced: the client reads it again. Who asks for a tenant must not hear
         * that the tenant's is refused. */
        if (c->rc < 0 && sent && manager_client_status(client) == 401)
            c->rc = manager_client_call(client, c->method, c->path, c->body, &c->answer, &c->err);
        /* Nobody answered: callers that came meanwhile would wait as long for the same. */
        if (c->rc < 0 && sent && manager_client_status(client) == 0)
            agent_calls_fail(a, &c->err);
        loop_post(a->node->loop, &c->task);
    }
    manager_client_close(&client);
    return NULL;
}
