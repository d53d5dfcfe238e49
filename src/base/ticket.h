// SPDX-License-Identifier: Apache-2.0
/*
 * Tickets: a manager's word that a node may ask its peers for one dataset, for a while. A node shows
 * it instead of its own token, which opens more. Ed25519; every node knows the managers' public
 * keys.
 *
 *     "dlt1." base64( version 1 | expiry, ms of Unix time, 8 bytes, big-endian
 *                     | length, DATASET | length, TENANT | length, NODE | signature, 64 bytes )
 *
 * A length is one byte. The signature covers "dlcache ticket" and all bytes before it.
 *
 * (TICKET-1) What ticket_check() accepts was signed with one of the keys, whole: no byte follows.
 * (TICKET-2) DATASET and NODE are names, TENANT is one or empty (str_is_name()).
 */
#ifndef DLC_BASE_TICKET_H
#define DLC_BASE_TICKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define TICKET_NAME_MAX 63
#define TICKET_KEY_LEN  32
#define TICKET_TEXT_MAX 400 /* characters, more than any ticket has */
#define TICKET_PREFIX   "dlt1."

struct ticket {
    char dataset[TICKET_NAME_MAX + 1], tenant[TICKET_NAME_MAX + 1], node[TICKET_NAME_MAX + 1];
    int64_t expires_ms;
};

struct ticket_key {
    unsigned char bytes[TICKET_KEY_LEN]; /* public */
};

struct evp_pkey_st;
/* Adds its text to *out. pair: an Ed25519 key with its private part. */
void ticket_sign(struct evp_pkey_st *pair, const struct ticket *t, struct buf *out);
void ticket_key_of(struct evp_pkey_st *pair, struct ticket_key *out);

/* What it says, signed or not. DLC_EPROTO: it is not a ticket. */
int ticket_parse(const char *text, struct ticket *out, struct dlc_err *err);
/* The same, if one of the keys signed it; else DLC_EDENIED. Says nothing about its expiry. */
int ticket_check(const char *text, const struct ticket_key *keys, size_t n, struct ticket *out,
                 struct dlc_err *err);

#endif
