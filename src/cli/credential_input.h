// SPDX-License-Identifier: Apache-2.0
/*
 * Bucket credentials as users have them: lines of "name = value" (ours, those of a profile in
 * ~/.aws/credentials, or shell exports), or the JSON object that `aws configure export-credentials`
 * prints. The input is not kept; keys_release() wipes.
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
/* From AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN. */
int keys_of_env(struct keys *out, struct dlc_err *err);
void keys_release(struct keys *k);

/* A secret text that is freed: wiped first. */

#endif
