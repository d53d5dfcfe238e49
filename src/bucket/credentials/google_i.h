// SPDX-License-Identifier: Apache-2.0
/*
 * Google's kind of credentials: HMAC keys (access_key, secret_key) or bearer tokens.
 *
 *     HMAC key           GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY
 *     token              GOOGLE_OAUTH_ACCESS_TOKEN
 *     AWS variables      if they hold an HMAC key of Google (GOOG...) or an endpoint was given
 *     file               GOOGLE_APPLICATION_CREDENTIALS (google_file.c)
 *     gcloud             application_default_credentials.json of `gcloud auth application-default`
 *     metadata server    of the machine
 *
 * (GOOGLE-1) A bearer token, which whoever sees it can use, is looked for only when the endpoint
 *            may have it: Google's own, or one that the daemon's operator named.
 */
#ifndef DLC_BUCKET_CREDENTIALS_GOOGLE_I_H
#define DLC_BUCKET_CREDENTIALS_GOOGLE_I_H

#include <stdbool.h>

#include "bucket/credentials/credentials_i.h"

struct lookup;

/* Gives *out. */
int google_source_new(const struct bucket_config *c, struct credential_source **out,
                      struct dlc_err *err);

bool google_is_own(const char *url); /* https:// at a host of googleapis.com? */

/* Exchange the text of a credentials file for a token. ours: it is of the daemon's operator, and may
 * name files; else only a service account will do. */
int google_json(struct lookup *l, const char *text, size_t len, bool ours, struct credentials *out,
                struct dlc_err *err);
int google_file(struct lookup *l, const char *path, struct credentials *out, struct dlc_err *err);

#endif
