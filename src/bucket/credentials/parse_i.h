// SPDX-License-Identifier: Apache-2.0
/*
 * Parsers of credentials that services send. JSON: metadata services and credential_process; XML:
 * STS. What arrives is hostile input until parsed; messages repeat nothing of it but an error's
 * code and text.
 */
#ifndef DLC_BUCKET_CREDENTIALS_PARSE_I_H
#define DLC_BUCKET_CREDENTIALS_PARSE_I_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bucket/credentials/credentials_i.h"
#include "bucket/credentials/http_call_i.h"

/* "2026-01-31T12:00:00Z", with optional fraction, "Z" or "+hh:mm". */
bool answer_time(const char *s, int64_t *unix_time);

/*
 * {"AccessKeyId", "SecretAccessKey", "Token" or "SessionToken", "Expiration"} into *out.
 * DLC_EPROTO: something else; DLC_EDENIED: the answer is an error, with its code and message.
 * On failure *out is empty.
 */
int answer_json(const char *text, size_t len, struct credentials *out, struct dlc_err *err);

/* AssumeRole...Response or ErrorResponse of STS. */
int answer_sts(const char *text, size_t len, struct credentials *out, struct dlc_err *err);

/* One of them for what a server answered: credentials count only with status 200. */
typedef int answer_f(const char *text, size_t len, struct credentials *out, struct dlc_err *err);
int answer_of_web(const struct web_answer *a, answer_f *parse, struct credentials *out,
                  struct dlc_err *err);

#endif
