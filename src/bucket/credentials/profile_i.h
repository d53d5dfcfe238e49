// SPDX-License-Identifier: Apache-2.0
/*
 * Profiles: what ~/.aws/credentials ([NAME]) and ~/.aws/config ([profile NAME], [default]) say. A
 * setting in the credentials file wins over the same one in the config file.
 */
#ifndef DLC_BUCKET_CREDENTIALS_PROFILE_I_H
#define DLC_BUCKET_CREDENTIALS_PROFILE_I_H

#include <stdbool.h>

#include "base/err.h"
#include "bucket/credentials/env_i.h"
#include "bucket/credentials/ini_i.h"

struct profiles {
    struct ini credentials, config;
    char *credentials_path, *config_path; /* NULL: no home directory and none named */
};

#define PROFILES_INIT                                                                              \
    {                                                                                              \
        INI_INIT, INI_INIT, NULL, NULL                                                             \
    }

/* Read both files. A file that does not exist is empty; a malformed one is an error. */
int profiles_load(struct profiles *p, const struct cloud_env *env, struct dlc_err *err);
void profiles_release(struct profiles *p); /* wipes */

bool profiles_have(const struct profiles *p, const char *profile);

/* A setting of a profile, or NULL. Valid as long as p. */
const char *profiles_get(const struct profiles *p, const char *profile, const char *name);

/* credential_process, whole. */
const char *profiles_command(const struct profiles *p, const char *profile);

/* The three parts of static keys, all from the same file. Any may be NULL. */
struct profile_keys {
    const char *access_key, *secret_key, *session_token;
};
void profiles_keys(const struct profiles *p, const char *profile, struct profile_keys *out);

/*
 * Endpoint of a service ("s3", "sts") in the order of the AWS tools: the service's own variable,
 * AWS_ENDPOINT_URL, the profile's services section, the profile's endpoint_url. NULL: not set, or
 * told to be ignored.
 */
const char *profiles_endpoint(const struct profiles *p, const struct cloud_env *env,
                              const char *profile, const char *service, enum cloud_var own);

#endif
