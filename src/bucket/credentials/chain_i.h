// SPDX-License-Identifier: Apache-2.0
/*
 * Where credentials are looked for, in the order of the AWS tools: environment, web identity of the
 * environment, profile, container, instance metadata. A place that is not configured is passed
 * over with a note why; one that is configured and fails ends the look, so that a broken set-up is
 * told and not papered over.
 */
#ifndef DLC_BUCKET_CREDENTIALS_CHAIN_I_H
#define DLC_BUCKET_CREDENTIALS_CHAIN_I_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "bucket/credentials/env_i.h"
#include "bucket/credentials/credentials_i.h"
#include "bucket/credentials/profile_i.h"

#define CHAIN_ELSEWHERE 1 /* a place's answer: not configured here; look.why says more */

/* One look for credentials. Borrows all but what is marked. */
struct look {
    const struct aws_env *env;
    const struct profiles *profiles;
    const char *profile; /* its name */
    const char
        *profile_by;    /* what named it ("--profile", "AWS_PROFILE"); NULL: it is the default */
    bool profile_only;  /* named by the user for this bucket: pass the environment over */
    const char *region; /* or NULL */
    int64_t now;        /* Unix time */
    int stop_fd;        /* readable: give up */
    char why[100];      /* of the latest CHAIN_ELSEWHERE */
};

/* Set l->why and return CHAIN_ELSEWHERE. */
int look_elsewhere(struct look *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Look in all places. 0: *out is filled (generation 0). Otherwise the text lists what was tried. */
int chain_find(struct look *l, struct credentials *out, struct dlc_err *err);

/* Can these be sent? DLC_EINVAL, DLC_EDENIED (there are none). */
int chain_check(const struct credentials *c, struct dlc_err *err);

/* The places. 0, CHAIN_ELSEWHERE, or a negative code with its text. */
int find_in_environment(struct look *l, struct credentials *out, struct dlc_err *err);
int find_web_identity(struct look *l, struct credentials *out, struct dlc_err *err); /* sts.c */
int find_in_profile(struct look *l, struct credentials *out, struct dlc_err *err);   /* role.c */
int find_in_container(struct look *l, struct credentials *out, struct dlc_err *err); /* imds.c */
int find_in_instance(struct look *l, struct credentials *out, struct dlc_err *err);  /* imds.c */

/* A role to take on. */
struct role {
    const char *arn;
    const char *session_name; /* NULL: dlcache-TIME */
    const char *external_id;  /* or NULL */
    const char *duration;     /* seconds, or NULL */
};

/* STS. `from` signs the request. */
int sts_assume_role(struct look *l, const struct role *r, const struct credentials *from,
                    struct credentials *out, struct dlc_err *err);
int sts_web_identity(struct look *l, const struct role *r, const char *token_file,
                     struct credentials *out, struct dlc_err *err);

/* Run a shell command that prints credentials as JSON. */
int process_credentials(struct look *l, const char *command, struct credentials *out,
                        struct dlc_err *err);

#endif
