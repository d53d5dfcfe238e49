// SPDX-License-Identifier: Apache-2.0
/*
 * The peer client: other nodes as a tier. Reads samples by HTTP GET, asynchronously, on threads of
 * its own (libcurl multi, keep-alive). A peer is tried once per sample: when it is slow, dead, or
 * refuses, the caller reads the bucket.
 *
 * (PEER-CLIENT-1) done() is called exactly once, on a thread of the peer client, also after close;
 *                 it must not block.
 * (PEER-CLIENT-2) A peer that failed three times in a row is not asked for one second, then two, up
 *                 to 30; one request then finds out whether it is back.
 * (PEER-CLIENT-3) dst is not touched after done().
 * (PEER-CLIENT-4) An answer carries the checksum of the sample: XXH3, 64 bits, 16 hexadecimal
 *                 digits in the header Dlcache-Checksum. An answer without it is rejected. Samples
 *                 of up to PEERS_SUM_MAX bytes are compared with it here (DLC_ECORRUPT); the caller
 *                 compares longer ones, on a thread that may block.
 *
 * (PEER-CLIENT-5) With `tls`, a peer is asked only over TLS, with the identity that
 *                 peers_identity() gave, and only if its certificate has the name of the peer.
 *                 Before the first identity nobody is asked (DLC_EMISS).
 *
 * GET ADDRESS/v1/peer/DATASET/SNAPSHOT/samples/SAMPLE (SNAPSHOT: 16 hexadecimal digits). With
 * ?cached=1 the peer gives only a copy that it has; .../SAMPLE/take?from=NODE asks it, as the owner,
 * to get the copy of that node, and is answered without a body when it has it
 * (docs/design/0019-handover.md). A request
 * is given up when nothing was received for 4 x the 99th percentile of the times to a first sign,
 * within [least, most]. An owner that must wait for its bucket says so (102, net/async_server.h),
 * at once and then every half second: from then on silence of `most` ends the request. 404 is
 * DLC_ENOTFOUND, 409 DLC_ECHANGED, 401 and 403 DLC_EDENIED, 507 (it has no room for the sample)
 * DLC_ENOSPACE; those do not count against the peer's health.
 */
#ifndef DLC_CLUSTER_PEER_PEER_CLIENT_H
#define DLC_CLUSTER_PEER_PEER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "net/tls_identity.h"

struct peers;

#define PEERS_SUM_MAX ((uint64_t)4 << 20)

struct peers_config {
    unsigned connections;       /* to one peer at most; 0: 16 */
    struct dlc_dur least, most; /* bounds of the deadline; 0: 250 ms, 2 s */
    const char *ca;             /* PEM; NULL: the system's */
    bool tls;                   /* peers show certificates, and are asked by name (PEER-CLIENT-5) */
};

struct peers *peers_new(const struct peers_config *c, struct dlc_err *err);
void peers_free(struct peers **pp);
/* X, with config.tls: from the next request on. Takes a reference. */
void peers_identity(struct peers *p, struct tls_identity *id);

struct peer_read {
    const char *peer;    /* its name, for figures and health */
    const char *address; /* "http://host:port" */
    const char *token;   /* a ticket (base/ticket.h); NULL: none */
    const char *dataset; /* id */
    const char *tenant;  /* its required owner; NULL: as the token says */
    uint64_t snapshot, sample;
    bool cached;           /* only if the peer has a copy: else DLC_ENOTFOUND, at once */
    const char *take_from; /* the peer is to copy it from the node of this name; NULL: give it */
    bool take_on_disk;     /* to its disk, if it has one */
    const char *evicted; /* with take_from: mark of the last eviction that this node knows; or "" */
    void *dst;
    uint64_t length; /* exact; 0 with take_from */
    void (*done)(struct peer_read *r);
    void *priv;

    int rc; /* DLC_EMISS: not asked, the peer is being skipped; DLC_ETIMEDOUT, DLC_ECHANGED (other
             * snapshot), DLC_EDENIED, DLC_EBUCKET, ... */
    struct dlc_err err;
    struct dlc_dur took;
    bool from_memory;  /* the owner had it resident */
    uint64_t checksum; /* the peer's claim */
    bool verified;     /* the bytes in dst match it */
    bool mismatch;     /* they do not match: rc is DLC_ECORRUPT */
    void *engine;      /* the peers' */
};
void peers_read(struct peers *p, struct peer_read *r); /* any thread; strings borrowed until done */
/* The caller has compared the checksum of this read. Until then the read counts neither for nor
 * against the peer's health. */
void peers_verified(struct peers *p, const struct peer_read *r, bool right);
/* False: it would be skipped now. A peer with a new address starts with a clean record. */
bool peers_usable(struct peers *p, const char *peer, const char *address);
/* Was it asked, and is not there: it said that it ends (503 with Retry-After), or no process listens
 * at that address of its host? *since: from when on. It may be restarted. */
bool peers_left(struct peers *p, const char *peer, const char *address, struct dlc_mono *since);
/* Somebody waits for a peer that has left: ask it how it is, unless that is under way. When it answers,
 * it has not left any more. */
void peers_look(struct peers *p, const char *peer, const char *address);
/* It is known to be there again: it starts with a clean record. */
void peers_is_back(struct peers *p, const char *peer);

struct peer_figures {
    char peer[256];
    uint64_t reads, bytes, failures, skipped;
    double p50_ms, p99_ms;
    bool skipping;
};
size_t peers_figures(struct peers *p, struct peer_figures *out, size_t max);

#endif
