// SPDX-License-Identifier: Apache-2.0
#include "origin_run.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct loop_call {
    struct task task;
    struct origin_run *run;
    struct attempt *attempt;
    bool started;
};

static void on_done(struct attempt *a)
{
    struct loop_call *e = a->owner;

    dlc_check(e->started);
    sem_post(&e->run->done);
}

static void start(struct task *t)
{
    struct loop_call *e = dlc_container(t, struct loop_call, task);
    struct origin *o = e->run->origin;

    o->ops->start(o, e->attempt);
    e->started = true;
}

static void start_and_cancel(struct task *t)
{
    struct loop_call *e = dlc_container(t, struct loop_call, task);
    struct origin *o = e->run->origin;

    start(t);
    o->ops->cancel(o, e->attempt);
}

static void wait_for(struct origin_run *r)
{
    while (sem_wait(&r->done) != 0)
        ;
}

static void run(struct origin_run *r, struct attempt *a, void (*how)(struct task *))
{
    struct loop_call e = {.task.run = how, .run = r, .attempt = a};

    a->done = on_done;
    a->owner = &e;
    loop_post(r->thread.loop, &e.task);
    wait_for(r);
}

void origin_run_attempt(struct origin_run *r, struct attempt *a)
{
    run(r, a, start);
}

void origin_run_cancelled(struct origin_run *r, struct attempt *a)
{
    run(r, a, start_and_cancel);
}

static void open_lane(struct task *t)
{
    struct loop_call *e = dlc_container(t, struct loop_call, task);
    struct origin *o = e->run->origin;

    dlc_check(o->ops->lane_open(o, 0, e->run->thread.loop, NULL) == 0);
    sem_post(&e->run->done);
}

static void close_lane(struct task *t)
{
    struct loop_call *e = dlc_container(t, struct loop_call, task);
    struct origin *o = e->run->origin;

    o->ops->lane_close(o, 0);
    sem_post(&e->run->done);
}

void origin_run_open(struct origin_run *r, struct origin *o)
{
    struct loop_call e = {.task.run = open_lane, .run = r};

    r->origin = o;
    sem_init(&r->done, 0, 0);
    dlc_check(loop_thread_start(&r->thread, "lane", NULL) == 0);
    loop_post(r->thread.loop, &e.task);
    wait_for(r);
}

void origin_run_close(struct origin_run *r)
{
    struct loop_call e = {.task.run = close_lane, .run = r};

    loop_post(r->thread.loop, &e.task);
    wait_for(r);
    loop_thread_stop(&r->thread);
    r->origin->ops->free(r->origin);
    sem_destroy(&r->done);
}

/* -------- the server -------- */

static void on_request(void *priv, const struct tiny_request *q, struct buf *out)
{
    struct script *s = priv;

    pthread_mutex_lock(&s->mtx);
    s->asked++;
    buf_clear(&s->head);
    buf_adds(&s->head, q->head);
    buf_adds(out, s->answers[0]);
    if (s->answers[1] != NULL)
        s->answers++;
    pthread_mutex_unlock(&s->mtx);
}

void script_start(struct script *s)
{
    static const char *const nothing[] = {"", NULL};

    *s = (struct script){.answers = nothing};
    pthread_mutex_init(&s->mtx, NULL);
    setenv("no_proxy", "127.0.0.1", 1);
    s->server.answer = on_request;
    s->server.priv = s;
    tiny_http_start(&s->server);
}

void script_stop(struct script *s)
{
    tiny_http_stop(&s->server);
    buf_release(&s->head);
    pthread_mutex_destroy(&s->mtx);
}

void script_set(struct script *s, const char *const *answers)
{
    pthread_mutex_lock(&s->mtx);
    s->answers = answers;
    s->asked = 0;
    pthread_mutex_unlock(&s->mtx);
}

unsigned script_asked(struct script *s)
{
    unsigned n;

    pthread_mutex_lock(&s->mtx);
    n = s->asked;
    pthread_mutex_unlock(&s->mtx);
    return n;
}

bool script_saw(struct script *s, const char *text)
{
    bool yes;

    pthread_mutex_lock(&s->mtx);
    yes = strcasestr(buf_str(&s->head), text) != NULL;
    pthread_mutex_unlock(&s->mtx);
    return yes;
}
