// SPDX-License-Identifier: Apache-2.0
/*
 * Google's kind of credentials: HMAC keys (access_key, secret_key) or bearer tokens.
 *
 *     HMAC key           GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY
 *     token              GOOGLE_OAUTH_ACCESS_TOKEN
 *     AWS variables      if they hold an HMAC key of Google (GOOG...) or an endpoint was given
 *     metadata server    of the machine
 *
 * (GOOGLE-1) A bearer token, which whoever sees it can use, is looked for only when the endpoint
 *            may have it: Google's own, or one that the daemon's operator named.
 */
#ifndef DLC_BUCKET_CREDENTIALS_GOOGLE_I_H
#define DLC_BUCKET_CREDENTIALS_GOOGLE_I_H

#include "bucket/credentials/credentials_i.h"

/* Gives *out. */
int google_source_new(const struct bucket_config *c, struct credential_source **out,
                      struct dlc_err *err);

#endif
