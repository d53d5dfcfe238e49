// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the peer client (peer_client.h).
 *
 *     peer_client.c    requests to peers, on threads of their own
 *     peer_table.c     what is known of each peer
 */
#ifndef DLC_CLUSTER_PEER_PEER_CLIENT_I_H
#define DLC_CLUSTER_PEER_PEER_CLIENT_I_H

#include "base/check.h"
#include "base/event_loop.h"
#include "base/histogram.h"
#include "base/list.h"
#include "base/mutex.h"
#include "base/u64map.h"
#include "cluster/peer/peer_client.h"
#include "cluster/peer/peer_health.h"

struct engine;
struct engine_request;

#define PEERS_TAG   DLC_TAG4('p', 'e', 'e', 'r')
#define PEER_TAG    DLC_TAG4('p', 'e', 'e', '1')
#define THREADS_MAX 2

/* Requests that hand copies over have connections of their own: each of two nodes may wait for a
 * sample of the other that needs one. */
enum call_class { CLASS_READ, CLASS_HANDOVER, CLASSES };

struct lane {
    struct peers *peers;
    struct loop_thread thread;
    struct engine *engine;
    struct dlc_list flying; /* of ask.link */
    struct task close;
};

struct peer {
    uint32_t tag;
    char *name;
    struct lane *lane;
    struct dlc_list waiting[CLASSES]; /* of ask.link; L, and what follows */
    unsigned in_flight[CLASSES];
    struct engine_request *probe; /* how it is; NULL: not asked */
    struct timer probe_end;
    uint64_t probe_address;
    bool looks; /* somebody waits for it: that it does not answer says nothing new */

    struct health health; /* G: mtx, and what follows */
    uint64_t address;     /* hash of where it was asked last: health begins again elsewhere */
    struct hist took;     /* ns */
    uint64_t reads, bytes, failures, skipped;
    bool looked_for; /* peers_look() is on its way to the lane, or a probe is */
};

struct peers {
    uint32_t tag;
    unsigned connections;
    struct dlc_dur least, most;
    char *ca;
    struct lane lanes[THREADS_MAX];
    unsigned n_lanes;
    _Atomic bool closing; /* W closer, R any */

    struct dlc_mtx mtx; /* rank LCK_peers */
    struct map table;   /* G: mtx: hash of the name -> peer */
    bool tls;
    struct tls_identity *identity; /* G: mtx; NULL: none yet */
};

/* With mtx held. NULL: it is not known, and not to be made. */
struct peer *peer_find_locked(struct peers *p, const char *name, bool make);
/* It is asked there from now on. */
void peer_moved_locked(struct peers *p, struct peer *x, uint64_t address);

#endif
