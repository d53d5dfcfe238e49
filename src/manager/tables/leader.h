// SPDX-License-Identifier: Apache-2.0
/*
 * Leader election: the manager that holds the lock "manager" of the store leads.
 *
 *     WAITING --lock taken--> LEADING --renewed at a third of its time--> LEADING
 *                             LEADING --refused, or its time is over--> WAITING
 *
 * (LEADER-1) A manager leads only until the time that it asked for has passed on its own clock,
 *            counted from before it asked: the store started counting later, so no other manager
 *            led meanwhile.
 * (LEADER-2) Its name in the lock differs with each start, so that the fence grows with each.
 * (LEADER-3) A manager that was killed and starts again in its directory (locked by flock) releases
 *            the lock of its former process and need not wait for it. A copied directory does the
 *            same to a live manager, which then loses the lock as it would by expiry.
 */
#ifndef DLC_MANAGER_TABLES_LEADER_H
#define DLC_MANAGER_TABLES_LEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

struct tables;

/* Hooks of upper modules for the start of leading. The thread calls both, without mtx. */
struct leader_hooks {
    /* May this manager lead at all? False: *err has the reason. NULL: always. */
    bool (*may_lead)(void *ctx, struct dlc_err *err);
    /* Has the store lost its records? Before the lock is taken or renewed. NULL: never. */
    bool (*store_lost)(void *ctx, struct dlc_err *err);
    /* Load the state; writes are answered only after this. */
    int (*begin)(struct tables *t, uint64_t fence, struct dlc_err *err);
};

struct leader {
    const struct leader_hooks *hooks; /* NULL: none */
    void *ctx;                        /* of may_lead() */
    const char *dir;                  /* borrowed */
    char *advertise;                  /* G: mtx; how others reach this manager */
    struct dlc_dur ttl;               /* of the lock */
    int dir_lock;                     /* of DIR/manager.lock: one manager per directory */
    char *holder;                     /* our name in the lock */
    bool leads;                       /* G: mtx */
    bool refused;                     /* the thread's: may_lead() said no, and it was logged */
    struct dlc_mono lease_until;      /* G: mtx; past it we do not lead, whatever `leads` says */
    struct dlc_mono renew_at;         /* the thread's */
    uint64_t fence;                   /* G: mtx */
    struct dlc_mono since;            /* G: mtx; when it began to lead */
    char *store_lost;                 /* G: mtx; what is wrong with the store, or NULL */
    char *address;                    /* G: mtx; of who leads, as far as we know; may be NULL */
};

bool leader_leads(struct tables *t);
/* Does it lead for long enough to have heard of every node that lives? */
bool leader_is_settled(struct tables *t);
/* Gives what to do with a store that lost its records; NULL: it has them. */
char *leader_store_lost(struct tables *t);
/* Gives the address of another manager that leads; NULL: none is known. */
char *leader_elsewhere(struct tables *t);
int leader_lock_dir(struct tables *t, struct dlc_err *err); /* one manager per directory */
/* Take the lock, and its fence for what is written next, without leading: for a repair. */
int leader_take_fence(struct tables *t, struct dlc_err *err);
int leader_open(struct tables *t, struct dlc_err *err);
void leader_tick(struct tables *t, struct dlc_mono now); /* thread */
/* Renews the lock if due. Call it between writes, so that many slow writes do not lose the lock.
 * Thread. */
bool leader_holds(struct tables *t);
void leader_close(struct tables *t);

#endif
