// SPDX-License-Identifier: Apache-2.0
/* Between auth.c and tenants.c: where the store says whose a token is. */
#ifndef DLC_MANAGER_AUTH_I_H
#define DLC_MANAGER_AUTH_I_H

#include "manager/manager_i.h"

#define TOKEN_ID_LEN (6 + 2 * SHA256_LEN)

/* "token.HASH" */
void token_doc_id(const unsigned char hash[static SHA256_LEN], char out[static TOKEN_ID_LEN + 1]);

#endif
