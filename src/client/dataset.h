// SPDX-License-Identifier: Apache-2.0
/* An open dataset, and how it stays attached while daemons come and go. */
#ifndef DLC_CLIENT_DATASET_H
#define DLC_CLIENT_DATASET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/err.h"
#include "base/list.h"
#include "base/mutex.h"
#include "bucket/bucket.h"
#include "catalog/catalog.h"
#include "client/attachment.h"
#include "client/job_weights.h"
#include "client/reading.h"
#include "dlcache.h"

#define DATASET_TAG DLC_TAG4('o', 'p', 'e', 'n')

struct dlc_dataset {
    uint32_t tag;
    struct dlc_list link; /* G: the process-wide lock */
    char *url, *endpoint;
    char *token;   /* or NULL; never shown */
    char *decoded; /* decoded_cache.c: the policy of the decoded samples that it reads; else NULL */
    /* Location of a named dataset, as the first daemon reported it; else NULL. Fixed once it is
     * open. */
    char *place, *place_endpoint;
    char *shown;            /* the URL as messages show it */
    struct dlc_options opt; /* strings are not used from here */
    struct config config;
    struct dlc_dur timeout;
    uint64_t n;
    struct catalog *catalog; /* of the first attachment: defines the sample numbers */

    /* Changed under the process-wide lock, which is held for moments, so that fork() finds them
     * whole whatever other threads do. */
    _Atomic(struct attachment *) cur;
    struct dlc_list retired;
    _Atomic bool unreaped; /* some of them may still be mapped; relaxed where it is only read */
    struct dlc_mono spawn_from; /* the daemon was told to stop: do not start another before */
    bool lost;                  /* it was attached, and lost its daemon */
    struct dlc_stats past;      /* hits, misses, bytes and stall_ns of ended sessions */

    struct dlc_mtx mtx;        /* rank LCK_dataset */
    _Atomic bool attaching;    /* a thread looks for a daemon, without the lock. W: under mtx */
    struct dlc_mono try_again; /* G: mtx: do not look for a daemon before */
    struct dlc_dur patience;   /* G: mtx: between looks, growing while none is found */
    _Atomic bool refused; /* W mtx: a daemon answers, but does not have our snapshot; relaxed */
    struct dlc_mtx direct_mtx; /* rank LCK_direct */
    struct bucket *direct;     /* G: direct_mtx; made when first needed */

    /* One thread at a time, by contract; replaced under mtx and the process-wide lock. */
    struct reading reading;
    _Atomic uint64_t at; /* reading.pos, for any thread that finds the daemon again */
    _Atomic bool said;   /* that it waits for a daemon; relaxed: once in the log */
    struct importance importance;

    /* relaxed: statistics */
    _Atomic uint64_t reconnects, without_daemon, direct_reads, direct_bytes, direct_ns;
};

/* The attachment to use; attaches or re-attaches as allowed. NULL: none now. Gives; return it with
 * dataset_detach(). */
struct attachment *dataset_attached(struct dlc_dataset *ds);
/* The same without attaching. */
struct attachment *dataset_current(struct dlc_dataset *ds);
/* As dataset_attached(), and checks whether its daemon is gone. */
struct attachment *dataset_checked(struct dlc_dataset *ds);
/* The same, and attaching may take until the deadline. */
struct attachment *dataset_checked_until(struct dlc_dataset *ds, struct dlc_mono deadline);
void dataset_detach(struct dlc_dataset *ds, struct attachment *a);
/* Stops using an attachment whose daemon is gone, without looking for another daemon. */
void dataset_drop_lost(struct dlc_dataset *ds);
/* No daemon is available, for the reason in *err: look for one later. */
void dataset_back_off(struct dlc_dataset *ds, const struct dlc_err *err);
/* A caller needs a daemon: look for one soon. */
void dataset_hurry(struct dlc_dataset *ds);
/* `a` has lost its daemon: stop using it. */
void dataset_lost(struct dlc_dataset *ds, struct attachment *a);
/* Put a view that was obtained before the fork. */
void dataset_put_inherited(struct dlc_dataset *ds, struct attachment *a);
/* Unmap retired attachments without users. */
void dataset_reap(struct dlc_dataset *ds);
/* Register with the fork handlers and the watch thread, until it is closed. */
void dataset_enlist(struct dlc_dataset *ds);
void dataset_delist(struct dlc_dataset *ds);
/* Takes a new attachment into use. */
void dataset_attach_to(struct dlc_dataset *ds, struct attachment *a);

#endif
