// SPDX-License-Identifier: Apache-2.0
/* The loop of a node in a test that plays its turns, and the end of the node's agent, which needs
 * them. */
#ifndef DLC_TESTS_CLUSTER_TURNS_H
#define DLC_TESTS_CLUSTER_TURNS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "unit.h"

#include "base/event_loop.h"
#include "cluster/agent.h"

/* loop_stop() was called once: from then on loop_run() is one turn. */
#define turns_until(loop, condition)                                                               \
    while (!(condition)) {                                                                         \
        loop_run(loop);                                                                            \
        sched_yield();                                                                             \
    }

struct agent_leaver {
    struct agent *agent;
    struct loop *loop;
    struct task task;
    bool left;
};

static inline void agent_has_left(struct task *t)
{
    dlc_container(t, struct agent_leaver, task)->left = true;
}

static inline void *agent_leave_main(void *arg)
{
    struct agent_leaver *l = arg;

    agent_leave(l->agent);
    loop_post(l->loop, &l->task);
    return NULL;
}

static inline void agent_end(struct agent **ap, struct loop *loop)
{
    struct agent_leaver l = {.agent = *ap, .loop = loop, .task = {.run = agent_has_left}};
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, agent_leave_main, &l), 0);
    turns_until(loop, l.left);
    pthread_join(t, NULL);
    agent_close(ap);
}

#endif
