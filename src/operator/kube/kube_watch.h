// SPDX-License-Identifier: Apache-2.0
/*
 * Informer: one thread lists and watches one kind of object and applies it to the cache.
 *
 *     LIST --all pages--> WATCH --closed, silent--> WATCH from the last version (bookmarks count)
 *                         WATCH --410, invalid, refused--> LIST
 *     any --failed--> back-off with jitter, 50 ms .. 30 s, or what the server asked for --> again
 *
 * (KUBE-WATCH-1) The cache never loses a change: what happened between two versions is seen either
 *                as events or by the next list, which also reports deletions.
 * (KUBE-WATCH-2) An event is applied whole before the next line is read; its version counts only
 *                then.
 */
#ifndef DLC_OPERATOR_KUBE_KUBE_WATCH_H
#define DLC_OPERATOR_KUBE_KUBE_WATCH_H

#include <stdint.h>

#include "operator/kube/kube.h"
#include "base/rng.h"
#include "operator/kube/object_cache.h"

struct kube_watch;

struct kube_watch_config {
    struct kube_options kube; /* timeout: of one page of a list; 0: 30 s */
    enum kube_kind kind;
    struct kube_query query; /* texts are copied */
    struct objects *into;    /* borrowed; only this watch lists this kind into it */
    struct dlc_dur silence;  /* without any line a watch is dead; 0: 150 s */
};
/* How long the server is asked to keep a watch open: it ends it before the silence of a kind of which
 * nothing changes, not even bookmarks come, could pass for a dead connection. Pure. */
unsigned kube_watch_open_seconds(struct dlc_dur silence, struct rng *rng);

int kube_watch_start(const struct kube_watch_config *c, struct kube_watch **out,
                     struct dlc_err *err);
void kube_watch_stop(struct kube_watch **wp); /* at once; joins */

struct kube_watch_figures {
    uint64_t lists, watches, events, bookmarks, expired, failures;
    bool synced;           /* listed at least once: as objects_synced() */
    struct dlc_mono heard; /* the last line or list */
    char last_error[256];  /* "" when the last attempt went well */
};
void kube_watch_figures(struct kube_watch *w, struct kube_watch_figures *out); /* any thread */

/* One line of a watch, for kube_watch.c and tests. */
enum watch_type { WATCH_ADDED, WATCH_MODIFIED, WATCH_DELETED, WATCH_BOOKMARK, WATCH_ERROR };
struct watch_event {
    enum watch_type type;
    json_t *object; /* owned; of WATCH_ERROR: a Status */
    int code;       /* of WATCH_ERROR: 410, ...; 0: unknown */
};
/* Returns 0 or DLC_EPROTO: no JSON, an unknown type, an object without name or version. */
int watch_event_parse(const char *line, size_t len, struct watch_event *e, struct dlc_err *err);
void watch_event_release(struct watch_event *e);

#endif
