// SPDX-License-Identifier: Apache-2.0
/*
 * Credentials for a bucket: found the way the cloud's own tools find them (kind_i.h: one kind per
 * cloud), kept, and refreshed before they expire.
 *
 * Looking for credentials may ask a metadata service or run a program, so it happens on a
 * short-lived thread of the source, at most one at a time. No thread waits on a lock for it: a
 * caller that cannot be served at once leaves a task that is posted when the search has ended.
 *
 *     NONE --get--> LOOKING --found--> FRESH --refresh due--> FRESH, LOOKING in the background
 *                           --failed--> FAILED --pause over--> LOOKING
 *
 * (CREDENTIALS-1) Credentials that have not expired are never withheld because a refresh failed.
 * (CREDENTIALS-2) A generation number names one set of values: finding the same values again keeps
 *                 it.
 * (CREDENTIALS-3) A secret is wiped before its memory is freed, and is in no message.
 */
#ifndef DLC_BUCKET_CREDENTIALS_CREDENTIALS_I_H
#define DLC_BUCKET_CREDENTIALS_CREDENTIALS_I_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/event_loop.h"
#include "bucket/bucket.h"

struct credentials {
    /* A pair of keys; Azure: the account's name and its key. NULL: one of the tokens instead. */
    char *access_key, *secret_key;
    char *session_token; /* beside the keys, or NULL */
    char *bearer;        /* a token for the authorization header, or NULL */
    char *sas;           /* Azure: a shared access signature, for the query; or NULL */
    int64_t expires;     /* Unix time; 0: never */
    unsigned generation; /* from 1 */
};

#define CREDENTIALS_INIT                                                                           \
    {                                                                                              \
        .access_key = NULL                                                                         \
    }

void credentials_release(struct credentials *c); /* wipes and frees the strings; usable again */

/* Can these be sent? DLC_EINVAL, DLC_EDENIED (there are none). */
int credentials_check(const struct credentials *c, struct dlc_err *err);

/* A copy of what they are now. Gives. */
void bucket_keys_read(struct bucket_keys *k, struct credentials *out);

struct credential_source;
struct credentials_ref; /* shared, counted */

/*
 * Amazon's (aws.c): read the environment and the profile files (not yet the credentials). Borrows c
 * for the call; gives *out. Fails when a profile file is malformed; a missing one is fine.
 */
int credential_source_new(const struct bucket_config *c, struct credential_source **out,
                          struct dlc_err *err);

/* X, when no other thread uses it. Cancels a running search and joins it; waiting tasks are posted
 * before this returns, so the loops must still exist. */
void credential_source_free(struct credential_source **sp);

/*
 * X, does not block. 0: gives *out, return it with credentials_put(). For an anonymous source *out
 * is NULL: do not sign.
 * DLC_EBUSY: the source looks for them; `ready` will be posted to `loop` once, when the look has
 * ended, whatever the outcome; then ask again. Until it runs, do not pass the same task again.
 * Other negative codes (DLC_EDENIED, DLC_EINVAL, ...): the text lists what was looked for and what
 * to do. The failure is remembered for CREDENTIALS_PAUSE; ready is not posted.
 */
int credential_source_get(struct credential_source *s, struct loop *loop, struct task *ready,
                          struct credentials_ref **out, struct dlc_err *err);

#define CREDENTIALS_PAUSE DLC_SEC(5)

/* X. Take back a task left with get(). True: it will not be posted. False: it is in the loop's
 * inbox already, or has run. */
bool credential_source_forget(struct credential_source *s, struct task *ready);

void credentials_put(struct credentials_ref **rp); /* X; NULL is fine */
const struct credentials *credentials_of(const struct credentials_ref *r);

/*
 * X. The server said that this generation is expired or invalid: the next get() looks again. No-op
 * when the generation is not the present one, or when such a look has just found the same values.
 */
void credential_source_expire(struct credential_source *s, unsigned generation);

/* Amazon's: from config, AWS_REGION, AWS_DEFAULT_REGION, the profile; or NULL. Valid as long as s. */
const char *credential_source_region(struct credential_source *s);

/* Amazon's: from config, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile (services section, then
 * endpoint_url); or NULL: the cloud's own. Valid as long as s. */
const char *credential_source_endpoint(struct credential_source *s);

/* For tests: the source's wall clock runs this many seconds ahead from now on. Adds up. */
void credential_source_advance(struct credential_source *s, int64_t seconds);

#endif
