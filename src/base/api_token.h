// SPDX-License-Identifier: Apache-2.0
/*
 * The API token of this process: the first of these that is set, for commands, daemons and
 * programs.
 *
 *     given in code | flag --token-file | DLCACHE_TOKEN | DLCACHE_TOKEN_FILE | token-file of a file
 *
 * (The flag removes DLCACHE_TOKEN from the environment: cli/args.c.)
 */
#ifndef DLC_BASE_API_TOKEN_H
#define DLC_BASE_API_TOKEN_H

#include "base/config.h"
#include "base/err.h"

/*
 * given: NULL or "" for none. Gives *out, NULL when there is no token anywhere; return it with
 * secret_free(). A file that is named and cannot be read, or holds no token, is an error; no message
 * holds any of it.
 */
int token_load(const struct config *c, const char *given, char **out, struct dlc_err *err);
/* The same of a file: its first line. The manager's files may hold an older token below it. */
int token_load_file(const char *path, char **out, struct dlc_err *err);

#endif
