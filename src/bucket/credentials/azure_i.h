// SPDX-License-Identifier: Apache-2.0
/*
 * Azure's kind of credentials, in the order of its own tools: those of the storage account
 * (connection string, key, shared access signature), then those of DefaultAzureCredential (client
 * secret, workload identity, managed identity), which are bearer tokens of Microsoft Entra.
 *
 * (AZURE-1) A key or signature of one account is never used for another one.
 * (AZURE-2) A bearer token or signature, which whoever sees it can use, is looked for only when the
 *           endpoint may have it (struct azure_place).
 */
#ifndef DLC_BUCKET_CREDENTIALS_AZURE_I_H
#define DLC_BUCKET_CREDENTIALS_AZURE_I_H

#include "base/buf.h"
#include "bucket/azure_account.h"
#include "bucket/credentials/credentials_i.h"

/* Takes *account. Gives *out. */
int azure_source_new(const struct bucket_config *c, struct azure_account *account,
                     struct credential_source **out, struct dlc_err *err);

/* One request, as far as Azure signs it. */
struct azure_request {
    const char *method;
    const char *path;             /* encoded, with the container */
    const char *query;            /* encoded, "" if none; names sorted */
    const char *if_match, *range; /* header values, "" if absent */
    const char *x_ms;             /* "name:value\n" of the x-ms- headers, sorted */
};

/* "SharedKey ACCOUNT:SIGNATURE" after `out`. False: the key is not base64. */
bool azure_sign(const struct azure_request *r, const char *account, const char *key,
                struct buf *out);

/* The text of which the signature is made; for tests. */
void azure_string_to_sign(const struct azure_request *r, const char *account, struct buf *out);

#endif
