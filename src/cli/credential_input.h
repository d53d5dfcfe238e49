// SPDX-License-Identifier: Apache-2.0
/*
 * Bucket credentials as users have them: lines of "name = value" (ours, those of a profile in
 * ~/.aws/credentials, or shell exports, also of Azure's variables), the JSON object that `aws
 * configure export-credentials` prints, or the JSON file of a service account of Google. What a
 * cloud names otherwise becomes a pair of keys: Azure's account and its key or SAS; the address of a
 * service account and its file. The input is not kept; keys_release() wipes.
 */
#ifndef DLC_CLI_CREDENTIAL_INPUT_H
#define DLC_CLI_CREDENTIAL_INPUT_H

#include <stddef.h>

#include "base/err.h"

#define KEYS_MAX 65536 /* of a text with credentials */

struct keys {
    char *access_key, *secret_key, *session_token; /* NULL: not there */
};

#define KEYS_INIT                                                                                  \
    {                                                                                              \
        NULL, NULL, NULL                                                                           \
    }

/* DLC_EINVAL: it holds none, or those of several profiles. No message holds any of it.
 * Gives: *out; return it with keys_release(), also after a failure. */
int keys_parse(const char *text, size_t len, struct keys *out, struct dlc_err *err);
/* From AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; else Azure's: a connection
 * string, or AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN; else the file
 * in GOOGLE_APPLICATION_CREDENTIALS. */
int keys_of_env(struct keys *out, struct dlc_err *err);
void keys_release(struct keys *k);

/* A secret text that is freed: wiped first. */

#endif
