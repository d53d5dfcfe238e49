// SPDX-License-Identifier: Apache-2.0
/*
 * The environment variables that AWS tools know, copied once. Credentials are refreshed on a thread
 * of their own, and reading the environment there would race with a setenv() of the host program.
 */
#ifndef DLC_BUCKET_CREDENTIALS_ENV_I_H
#define DLC_BUCKET_CREDENTIALS_ENV_I_H

#include <stddef.h>

#define AWS_VARS(X)                                                                                \
    X(AWS_ACCESS_KEY_ID)                                                                           \
    X(AWS_CA_BUNDLE)                                                                               \
    X(AWS_CONFIG_FILE)                                                                             \
    X(AWS_CONTAINER_AUTHORIZATION_TOKEN)                                                           \
    X(AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE)                                                      \
    X(AWS_CONTAINER_CREDENTIALS_FULL_URI)                                                          \
    X(AWS_CONTAINER_CREDENTIALS_RELATIVE_URI)                                                      \
    X(AWS_DEFAULT_PROFILE)                                                                         \
    X(AWS_DEFAULT_REGION)                                                                          \
    X(AWS_EC2_METADATA_DISABLED)                                                                   \
    X(AWS_EC2_METADATA_SERVICE_ENDPOINT)                                                           \
    X(AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE)                                                      \
    X(AWS_ENDPOINT_URL)                                                                            \
    X(AWS_ENDPOINT_URL_S3)                                                                         \
    X(AWS_ENDPOINT_URL_STS)                                                                        \
    X(AWS_IGNORE_CONFIGURED_ENDPOINT_URLS)                                                         \
    X(AWS_PROFILE)                                                                                 \
    X(AWS_REGION)                                                                                  \
    X(AWS_ROLE_ARN)                                                                                \
    X(AWS_ROLE_SESSION_NAME)                                                                       \
    X(AWS_SECRET_ACCESS_KEY)                                                                       \
    X(AWS_SECURITY_TOKEN)                                                                          \
    X(AWS_SESSION_TOKEN)                                                                           \
    X(AWS_SHARED_CREDENTIALS_FILE)                                                                 \
    X(AWS_WEB_IDENTITY_TOKEN_FILE)                                                                 \
    X(HOME)                                                                                        \
    X(SSL_CERT_FILE)

enum aws_var {
#define X(name) VAR_##name,
    AWS_VARS(X)
#undef X
        N_AWS_VARS
};

struct aws_env {
    char *value[N_AWS_VARS]; /* NULL: not set, or empty */
};

void aws_env_read(struct aws_env *e);
void aws_env_release(struct aws_env *e); /* wipes */

static inline const char *aws_env_get(const struct aws_env *e, enum aws_var v)
{
    return e->value[v];
}

/* File with the certificates to trust, or NULL: the system's. */
static inline const char *aws_env_ca_file(const struct aws_env *e)
{
    const char *own = aws_env_get(e, VAR_AWS_CA_BUNDLE);

    return own != NULL ? own : aws_env_get(e, VAR_SSL_CERT_FILE);
}

#endif
