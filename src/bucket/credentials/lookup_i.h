// SPDX-License-Identifier: Apache-2.0
/*
 * One lookup of credentials: its inputs, and the places that it may ask. chain_i.h has their order.
 */
#ifndef DLC_BUCKET_CREDENTIALS_LOOKUP_I_H
#define DLC_BUCKET_CREDENTIALS_LOOKUP_I_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "bucket/credentials/env_i.h"
#include "bucket/credentials/credentials_i.h"
#include "bucket/credentials/profile_i.h"

#define LOOKUP_ELSEWHERE 1 /* a place's answer: not configured here; lookup.why says more */

/* One lookup. Borrows all but what is marked. */
struct lookup {
    const struct cloud_env *env;
    const struct profiles *profiles; /* Amazon's, as the next four */
    const char *profile;             /* its name */
    const char
        *profile_by;      /* what named it ("--profile", "AWS_PROFILE"); NULL: it is the default */
    bool profile_only;    /* named by the user for this bucket: pass the environment over */
    bool no_machine_role; /* see bucket.h */
    const char *region;   /* or NULL */
    int64_t now;          /* Unix time */
    int stop_fd;          /* readable: give up */
    const struct credentials *given; /* ask with these; NULL: look for some */
    const struct azure *azure;       /* Azure's */
    const struct google *google;     /* Google's */
    char why[100];                   /* of the latest LOOKUP_ELSEWHERE */
};

/* Set l->why and return LOOKUP_ELSEWHERE. */
int lookup_elsewhere(struct lookup *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The places. 0, LOOKUP_ELSEWHERE, or a negative code with its text. */
int find_in_environment(struct lookup *l, struct credentials *out, struct dlc_err *err); /* env.c */
int find_web_identity(struct lookup *l, struct credentials *out, struct dlc_err *err);   /* sts.c */
int find_in_profile(struct lookup *l, struct credentials *out, struct dlc_err *err);   /* role.c */
int find_in_container(struct lookup *l, struct credentials *out, struct dlc_err *err); /* imds.c */
int find_in_instance(struct lookup *l, struct credentials *out, struct dlc_err *err);  /* imds.c */

/* A role to take on. */
struct role {
    const char *arn;
    const char *session_name; /* NULL: dlcache-TIME */
    const char *external_id;  /* or NULL */
    const char *duration;     /* seconds, or NULL */
};

/* STS. `from` signs the request. */
int sts_assume_role(struct lookup *l, const struct role *r, const struct credentials *from,
                    struct credentials *out, struct dlc_err *err);
int sts_web_identity(struct lookup *l, const struct role *r, const char *token_file,
                     struct credentials *out, struct dlc_err *err);

/* Run a shell command that prints credentials as JSON. */
int process_credentials(struct lookup *l, const char *command, struct credentials *out,
                        struct dlc_err *err);
/* Start a shell command in a process group of its own, with its output to out_fd. 0 or -1 with
 * errno. */
int command_spawn(const char *command, int out_fd, pid_t *pid);

#endif
