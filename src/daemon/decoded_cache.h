// SPDX-License-Identifier: Apache-2.0
/* The cache of decoded samples: one per dataset, user and way of decoding. */
#ifndef DLC_DAEMON_DECODED_CACHE_H
#define DLC_DAEMON_DECODED_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"

struct dataset;
struct dlc_err;
struct evict_place;
struct mem_index;
struct node;
struct node_events;
struct session;
struct tenant_memory;

/* The decoded samples of one owner and one way of decoding. */
struct decoded_cache {
    struct dlc_list link;    /* in dataset.decoded_caches */
    struct dlc_list of_node; /* in node.decoded */
    struct dlc_list unused;  /* in tenant_memory.unused, if it has no users and may hold some */
    struct node *node;
    struct tenant_memory *memory;
    unsigned char key[SHA256_LEN];
    uint64_t id;
    struct mem_index *index;
    uint64_t cleared; /* (DECODED-CACHE-4): the decoded samples before this one were evicted */
    unsigned users;   /* sessions, and uploads in progress */
    struct dlc_mono last_used;
};

void decoded_key(unsigned char key[static SHA256_LEN], uid_t uid, const char *token,
                 const char *policy);
/* Find or create. Gives. */
int decoded_get(struct dataset *ds, const unsigned char key[static SHA256_LEN],
                struct decoded_cache **out, struct dlc_err *err);
void decoded_put(struct decoded_cache **sp);
/* Upload a decoded sample of len bytes, including its header. 1: it is being copied; done() is
 * called if the session still exists then. 0: it is there already. DLC_EBUSY: there is no room. */
typedef void decoded_uploaded_f(struct session *s, uint32_t slot, int rc);
int decoded_upload(struct session *s, uint64_t sample, uint32_t slot, uint64_t len,
                   decoded_uploaded_f *done);
void decoded_caches_tell_room(struct node *n); /* some of them: called periodically */
/* Evict samples and decoded samples from memory in steps, starting at *at (zeros at first); adds to
 * *bytes. False: all are evicted; then call memory_give_back(). */
bool dataset_evict_some(struct dataset *ds, struct evict_place *at, uint64_t *bytes);
void decoded_caches_figures(const struct dataset *ds, uint64_t *samples, uint64_t *bytes);

extern const struct node_events decoded_cache_events;

#endif
