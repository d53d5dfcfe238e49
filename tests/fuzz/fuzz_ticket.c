// SPDX-License-Identifier: Apache-2.0
/* Tickets, from bytes (the text is made here, or no mutation would be base64) and as text. What is
 * read is made of names; nothing is signed that we did not sign; signed again it reads the same. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/ticket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at(const char *text)
{
    static EVP_PKEY *pair;
    static struct ticket_key key;
    struct dlc_err err = DLC_ERR_INIT;
    struct buf again = BUF_INIT;
    struct ticket t, u;

    if (pair == NULL) {
        pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
        ticket_key_of(pair, &key);
    }
    dlc_check(ticket_check(text, &key, 1, &t, &err) < 0);
    if (ticket_parse(text, &t, &err) < 0)
        return;
    dlc_check(strlen(text) <= TICKET_TEXT_MAX && t.expires_ms >= 0);
    dlc_check(str_is_name(t.dataset) && str_is_name(t.node));
    dlc_check(t.tenant[0] == '\0' || str_is_name(t.tenant));
    ticket_sign(pair, &t, &again);
    dlc_check(ticket_check(buf_str(&again), &key, 1, &u, &err) == 0);
    dlc_check(strcmp(t.dataset, u.dataset) == 0 && strcmp(t.tenant, u.tenant) == 0);
    dlc_check(strcmp(t.node, u.node) == 0 && t.expires_ms == u.expires_ms);
    buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_strn((const char *)data, size);
    struct buf b = BUF_INIT;

    look_at(text);
    buf_adds(&b, TICKET_PREFIX);
    str_base64(data, size, &b);
    look_at(buf_str(&b));
    buf_release(&b);
    mem_free(&text);
    return 0;
}
