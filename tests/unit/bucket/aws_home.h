// SPDX-License-Identifier: Apache-2.0
/*
 * A home for tests of credentials: an empty home directory and no AWS_* variable, whatever the
 * machine that the tests run on has.
 */
#ifndef DLC_TEST_AWS_HOME_H
#define DLC_TEST_AWS_HOME_H

#include "bucket/credentials/credentials_i.h"

/* cmocka set-up and tear-down. */
int aws_home_set_up(void **state);
int aws_home_tear_down(void **state);

/* Path below the home directory; valid until the next call. */
const char *aws_home_path(const char *name);

/* Write a file below the home directory. */
void aws_home_file(const char *name, const char *text);

/* Get credentials, waiting as long as the source is busy. */
int aws_home_get(struct credential_source *s, struct credentials_ref **out, struct dlc_err *err);

/* Make a source of the home as it is, get credentials, and free the source. */
int aws_home_find(const struct bucket_config *c, struct credentials_ref **out, struct dlc_err *err);

/* The same, when it must work, and must give these; token NULL: none. */
void aws_home_expect(const char *access, const char *secret, const char *token);

/* The same, when it must fail with this code and these words in the text. Secrets must not be. */
void aws_home_expect_error(int code, const char *words);

#endif
