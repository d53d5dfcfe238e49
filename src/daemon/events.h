// SPDX-License-Identifier: Apache-2.0
/*
 * The event table: notifications for modules that are layered above the one where the event
 * happens. The module that raises an event does not know its listeners. A listener defines one
 * `const struct node_events NAME_events`; daemon.c lists them all, including the cluster's.
 *
 * (EVENTS-1) Listeners are called one after the other, on the thread that raises the event, in the
 *            order of daemon.c's list. None may depend on that order.
 * (EVENTS-2) An event has no answer. Where one is needed, call a function of a lower module or an
 *            operation of cluster_ops.h.
 * (EVENTS-3) The list is made before the loop runs and does not change.
 */
#ifndef DLC_DAEMON_EVENTS_H
#define DLC_DAEMON_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct dataset;
struct mem_session_stats;
struct session;

/* NULL: not interested. Called on the node loop; those marked X on any thread. */
struct node_events {
    void (*dataset_ready)(struct dataset *ds);    /* it has its catalog and an index */
    void (*dataset_stopping)(struct dataset *ds); /* the daemon ends: work in progress ends soon */
    void (*dataset_closing)(struct dataset *ds);  /* no users are left; its index still exists */
    /* X: no other reference is left: free memory attached to it. It may never have been ready. */
    void (*dataset_freed)(struct dataset *ds);
    void (*catalog_loaded)(const struct dataset *ds); /* X: it has a catalog on disk */

    /* A session of samples ends; st: its read statistics. */
    void (*session_closed)(const struct session *s, const struct mem_session_stats *st);
    /* A session of any kind is about to leave its dataset's list. */
    void (*session_unlinked)(struct session *s);

    /* A sample is in memory now. bypass: only sessions that bypass the cache have asked for it. */
    void (*sample_resident)(struct dataset *ds, uint64_t sample, bool bypass);
    /* The session's cursor has passed absolute position `at`, where this sample is. */
    void (*sample_passed)(struct session *s, uint64_t at, uint64_t sample);
    /* The cost of fetching this sample, or of making the unpacked copy of this object, in the unit
     * of policy_cost(). Only for datasets that the cluster knows. */
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
