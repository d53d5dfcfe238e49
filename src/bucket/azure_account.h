// SPDX-License-Identifier: Apache-2.0
/*
 * Which storage account an az:// URL means, and at which address it answers.
 *
 *     az://CONTAINER/PREFIX                                the account of the endpoint or environment
 *     az://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX  this account
 *     az://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX   the same, as Hadoop and adlfs write it
 *
 * The first is what adlfs and fsspec users write. A container's name has no dot, so that the forms
 * cannot be mistaken for one another. All X.
 */
#ifndef DLC_BUCKET_AZURE_ACCOUNT_H
#define DLC_BUCKET_AZURE_ACCOUNT_H

#include <stdbool.h>

#include "base/err.h"
#include "bucket/url.h"

struct azure_account {
    char *name;     /* of the storage account; NULL: not known, so no key of it can be used */
    char *endpoint; /* its containers are below this URL */
};

/*
 * Where u leads: the URL's own account; else `endpoint` (NULL: none); else `name`, that of given
 * credentials (NULL: none); else the environment: AZURE_STORAGE_CONNECTION_STRING,
 * AZURE_STORAGE_SERVICE_ENDPOINT, AZURE_STORAGE_ACCOUNT(_NAME). An endpoint is also the address of
 * an account that the URL names. Gives *out. DLC_EINVAL: none of them says.
 */
int azure_account_find(const struct url *u, const char *endpoint, const char *name,
                       struct azure_account *out, struct dlc_err *err);
void azure_account_release(struct azure_account *a);

/* The endpoint that u has by its own name and the environment; "" when nothing says. Gives. */
char *azure_endpoint(const struct url *u);
/* That of the environment, for a URL that does not say its account; NULL: none. Gives. */
char *azure_endpoint_of_env(const struct url *u);

/* Is this https:// at a host of Azure's blob storage? */
bool azure_is_cloud(const char *endpoint);

/* A field of a connection string ("AccountName=...;AccountKey=..."), or NULL. Gives. */
char *azure_connection_field(const char *text, const char *name);

/*
 * What follows az:// -> "CONTAINER" or "HOST/CONTAINER", and the prefix. Gives both; DLC_EINVAL says
 * what is allowed.
 */
int azure_url_split(const char *rest, char **bucket, char **prefix, struct dlc_err *err);

#endif
