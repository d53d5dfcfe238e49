// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/env_i.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/secret.h"
#include "bucket/credentials/lookup_i.h"

static const char *const names[N_CLOUD_VARS] = {
#define X(name) #name,
    CLOUD_VARS(X)
#undef X
};

void cloud_env_read(struct cloud_env *e)
{
    for (int i = 0; i < N_CLOUD_VARS; i++) {
        const char *v = getenv(names[i]);

        e->value[i] = v == NULL || v[0] == '\0' ? NULL : mem_str(v);
    }
}

void cloud_env_release(struct cloud_env *e)
{
    for (int i = 0; i < N_CLOUD_VARS; i++)
        secret_free(&e->value[i]);
}

int find_in_environment(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *access = cloud_env_get(l->env, VAR_AWS_ACCESS_KEY_ID);
    const char *secret = cloud_env_get(l->env, VAR_AWS_SECRET_ACCESS_KEY);
    const char *token = cloud_env_get(l->env, VAR_AWS_SESSION_TOKEN);

    if (access == NULL && secret == NULL)
        return lookup_elsewhere(l, "AWS_ACCESS_KEY_ID not set");
    if (access == NULL || secret == NULL)
        return dlc_err_set(err, DLC_EINVAL, "%s is set but %s is not: set both, or neither",
                           access == NULL ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID",
                           access == NULL ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY");
    if (token == NULL)
        token = cloud_env_get(l->env, VAR_AWS_SECURITY_TOKEN);
    *out = (struct credentials){.access_key = mem_str(access),
                                .secret_key = mem_str(secret),
                                .session_token = mem_str(token)};
    return 0;
}
