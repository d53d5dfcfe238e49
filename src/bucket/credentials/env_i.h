// SPDX-License-Identifier: Apache-2.0
/*
 * The environment variables that the clouds' tools know, copied once. Credentials are refreshed on a thread
 * of their own, and reading the environment there would race with a setenv() of the host program.
 */
#ifndef DLC_BUCKET_CREDENTIALS_ENV_I_H
#define DLC_BUCKET_CREDENTIALS_ENV_I_H

#include <stddef.h>

#define CLOUD_VARS(X)                                                                              \
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
    X(AZURE_AUTHORITY_HOST)                                                                        \
    X(AZURE_CLIENT_ID)                                                                             \
    X(AZURE_CLIENT_SECRET)                                                                         \
    X(AZURE_FEDERATED_TOKEN_FILE)                                                                  \
    X(AZURE_POD_IDENTITY_AUTHORITY_HOST)                                                           \
    X(AZURE_STORAGE_ACCOUNT)                                                                       \
    X(AZURE_STORAGE_ACCOUNT_KEY)                                                                   \
    X(AZURE_STORAGE_ACCOUNT_NAME)                                                                  \
    X(AZURE_STORAGE_CONNECTION_STRING)                                                             \
    X(AZURE_STORAGE_KEY)                                                                           \
    X(AZURE_STORAGE_SAS_TOKEN)                                                                     \
    X(AZURE_TENANT_ID)                                                                             \
    X(CLOUDSDK_AUTH_TOKEN_HOST)                                                                    \
    X(CLOUDSDK_CONFIG)                                                                             \
    X(GCE_METADATA_HOST)                                                                           \
    X(GOOGLE_APPLICATION_CREDENTIALS)                                                              \
    X(GOOGLE_OAUTH_ACCESS_TOKEN)                                                                   \
    X(GS_ACCESS_KEY_ID)                                                                            \
    X(GS_SECRET_ACCESS_KEY)                                                                        \
    X(HOME)                                                                                        \
    X(SSL_CERT_FILE)

enum cloud_var {
#define X(name) VAR_##name,
    CLOUD_VARS(X)
#undef X
        N_CLOUD_VARS
};

struct cloud_env {
    char *value[N_CLOUD_VARS]; /* NULL: not set, or empty */
};

void cloud_env_read(struct cloud_env *e);
void cloud_env_release(struct cloud_env *e); /* wipes */

static inline const char *cloud_env_get(const struct cloud_env *e, enum cloud_var v)
{
    return e->value[v];
}

/* File with the certificates to trust, or NULL: the system's. */
static inline const char *cloud_env_ca_file(const struct cloud_env *e)
{
    const char *own = cloud_env_get(e, VAR_AWS_CA_BUNDLE);

    return own != NULL ? own : cloud_env_get(e, VAR_SSL_CERT_FILE);
}

#endif
