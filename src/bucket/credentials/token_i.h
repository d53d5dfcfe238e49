// SPDX-License-Identifier: Apache-2.0
/*
 * Bearer tokens: OAuth's token services and the clouds' metadata services answer alike,
 * {"access_token": "...", "expires_in": 3599}.
 */
#ifndef DLC_BUCKET_CREDENTIALS_TOKEN_I_H
#define DLC_BUCKET_CREDENTIALS_TOKEN_I_H

#include "bucket/credentials/http_call_i.h"
#include "bucket/credentials/lookup_i.h"

#define TOKEN_FILE_MAX 20000
#define FORM_RESERVE   (4 * TOKEN_FILE_MAX) /* so that no secret is copied about by growing */

/* One more field of a form; a value of NULL adds nothing. */
void form_add(struct buf *form, const char *name, const char *value);

/* Ask a token service with a form. DLC_EDENIED: refused, in the service's words; DLC_EPROTO:
 * something else; or as web_call() when no answer came. On failure *out is empty. */
int token_ask(const struct lookup *l, const char *url, const struct buf *form,
              struct credentials *out, struct dlc_err *err);

/* Ask the metadata service of the machine: directly, and one second must do. No answer, and one
 * without a token or a reason, only mean: not here (LOOKUP_ELSEWHERE). */
int token_of_machine(struct lookup *l, const char *url, const char *headers,
                     struct credentials *out, struct dlc_err *err);

/* The token in an answer that came at `now`. DLC_EDENIED, DLC_EPROTO as above; on failure *out is
 * empty. */
int token_answer(const struct web_answer *a, int64_t now, struct credentials *out,
                 struct dlc_err *err);

/* May a secret be sent there: https, or this machine? */
bool token_host_ok(const char *url);

#endif
