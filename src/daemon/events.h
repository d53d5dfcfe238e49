// SPDX-License-Identifier: Apache-2.0
/*
 * The event table: what happens in the daemon, for modules that stand above the one where it
 * happens. Who raises an event does not know who hears it. A module that hears some defines one
 * `const struct node_events NAME_events`; daemon.c lists them all, and the cluster's with them.
 *
 * (E1) Listeners are told one after the other, on the thread that raises the event, in the order of
 *      daemon.c's list. None may depend on that order.
 * (E2) An event only tells: it has no answer. What needs one is a function of a module below, or an
 *      operation of cluster_ops.h.
 * (E3) The list is made before the loop runs and does not change.
 */
#ifndef DLC_DAEMON_EVENTS_H
#define DLC_DAEMON_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct dataset;
struct mem_session_stats;
struct session;

/* NULL: it does not hear of that. On the node loop, unless marked X: on any thread. */
struct node_events {
    void (*dataset_ready)(struct dataset *ds);    /* it has its catalog and an index */
    void (*dataset_stopping)(struct dataset *ds); /* the daemon ends: what is under way ends soon */
    void (*dataset_closing)(struct dataset *ds);  /* nobody uses it; its index is still there */
    /* X: nobody else knows it any more: memory that hangs on it is freed. Perhaps it never was
     * ready. */
    void (*dataset_freed)(struct dataset *ds);
    void (*catalog_loaded)(const struct dataset *ds); /* X: it has a catalog on disk */

    /* A session of samples ends; st: what it has read. */
    void (*session_closed)(const struct session *s, const struct mem_session_stats *st);

    /* A sample is in memory now. bypass: only sessions that bypass the cache have asked for it. */
    void (*sample_resident)(struct dataset *ds, uint64_t sample, bool bypass);
    /* The session's cursor has passed absolute position `at`, where this sample is. */
    void (*sample_passed)(struct session *s, uint64_t at, uint64_t sample);
    /* What it took to bring this sample in, or to make the derived form of this object: in the unit
     * of policy_cost(). Only of datasets that the cluster knows. */
    void (*sample_cost)(struct dataset *ds, uint64_t sample, double cost);
    void (*derived_cost)(struct dataset *ds, uint64_t object, double cost);
};

#define EVENTS_MAX 24 /* listeners */

/* n->events ends with a NULL. */
#define events_raise(n, event, ...)                                                                \
    do {                                                                                           \
        for (const struct node_events *const *e_ = (n)->events; *e_ != NULL; e_++)                 \
            if ((*e_)->event != NULL)                                                              \
                (*e_)->event(__VA_ARGS__);                                                         \
    } while (0)

#endif
