// SPDX-License-Identifier: Apache-2.0
#include "base/short_name.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/str.h"

#define HASH_DIGITS 16
#define TENANT_MOST 40

const char *short_name(const char *whole, size_t most, char sep, char out[static SHORT_NAME_LEN])
{
    unsigned char hash[SHA256_LEN];
    char hex[HASH_DIGITS + 1];

    dlc_check(most > HASH_DIGITS && most < SHORT_NAME_LEN);
    if (strlen(whole) <= most) {
        snprintf(out, SHORT_NAME_LEN, "%s", whole);
        return out;
    }
    sha256(whole, strlen(whole), hash);
    str_hex(hash, HASH_DIGITS / 2, hex);
    snprintf(out, SHORT_NAME_LEN, "%.*s%c%s", (int)most - HASH_DIGITS - 1, whole, sep, hex);
    return out;
}

const char *short_tenant(const char *tenant, char out[static SHORT_NAME_LEN])
{
    return short_name(tenant, TENANT_MOST, '_', out);
}
