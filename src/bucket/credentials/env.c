// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/env_i.h"

#include <stdlib.h>

#include "base/mem.h"
#include "bucket/credentials/wipe.h"

static const char *const names[N_AWS_VARS] = {
#define X(name) #name,
    AWS_VARS(X)
#undef X
};

void aws_env_read(struct aws_env *e)
{
    for (int i = 0; i < N_AWS_VARS; i++) {
        const char *v = getenv(names[i]);

        e->value[i] = v == NULL || v[0] == '\0' ? NULL : mem_str(v);
    }
}

void aws_env_release(struct aws_env *e)
{
    for (int i = 0; i < N_AWS_VARS; i++)
        secret_free(&e->value[i]);
}
