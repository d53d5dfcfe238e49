// SPDX-License-Identifier: Apache-2.0
/*
 * What a source of credentials (credentials_i.h) leaves to each cloud: where to look (aws.c, azure.c,
 * google.c).
 */
#ifndef DLC_BUCKET_CREDENTIALS_KIND_I_H
#define DLC_BUCKET_CREDENTIALS_KIND_I_H

#include "bucket/credentials/lookup_i.h"

struct credential_kind {
    /* On the thread of the search. `l` has the environment, the time and stop_fd; the kind adds
     * what is its own. 0: *out is filled (generation 0); otherwise the text lists what was tried.
     */
    int (*find)(void *state, struct lookup *l, struct credentials *out, struct dlc_err *err);
    /* What the keys that were given to us mean, without asking anybody; NULL: they are as they are.
     * LOOKUP_ELSEWHERE: find() must ask with them (l->given). */
    int (*given)(void *state, struct lookup *l, struct credentials *given, struct credentials *out,
                 struct dlc_err *err);
    void (*free)(void *state); /* NULL is fine */
};

/* Read the environment; the source is complete when it has its state. Borrows c for the call; gives
 * *out. */
int credential_source_make(const struct credential_kind *kind, const struct bucket_config *c,
                           struct credential_source **out, struct dlc_err *err);
void credential_source_take_state(struct credential_source *s, void *state); /* takes it */
void *credential_source_state(const struct credential_source *s);
const struct cloud_env *credential_source_env(const struct credential_source *s);

#endif
