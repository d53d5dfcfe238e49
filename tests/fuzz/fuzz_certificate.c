// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes as the request for a certificate that a node sends to a manager, as a certificate that it
 * shows there, and as what a manager answers. The authority signs a request only for the name that it
 * is told, whatever the request says; it knows no certificate that it did not sign; a node takes none
 * of another authority.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "manager/tables/authority.h"
#include "net/tls_identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/dlcache-fuzz-XXXXXX";
static struct store *store;
static struct seal *seal;
static struct authority_trust trust;

static void clean(void)
{
    authority_trust_release(&trust);
    seal_close(&seal);
    store_close(&store);
    os_rmtree(dir);
}

static void set_up(void)
{
    char *url;

    dlc_check(mkdtemp(dir) != NULL);
    url = mem_fmt("sqlite:%s/db", dir);
    dlc_check(store_open(url, &store, NULL) == 0 && seal_open(dir, &seal, NULL) == 0);
    authority_trust_init(&trust, store, seal);
    mem_free(&url);
    atexit(clean);
}

static void sign(const char *request)
{
    const struct authority_subject who = {"a", 3};
    struct authority_certificate c;
    struct dlc_err err = DLC_ERR_INIT;

    if (authority_sign(store, seal, &who, request, DLC_SEC(3600), &c, &err) == 0)
        dlc_check(c.cert != NULL && c.authorities != NULL && c.not_after > 0);
    else
        dlc_check(err.text[0] != '\0' && c.cert == NULL);
    authority_certificate_release(&c);
}

static void identify(const uint8_t *data, size_t size)
{
    char node[NAME_MAX_LEN + 1];
    uint32_t generation;

    authority_identify(&trust, data, size, node, &generation);
    dlc_check(node[0] == '\0');
}

/* As certificate and as list of authorities, with a key of our own. */
static void take(const char *text)
{
    static char *key;
    char *request = NULL;
    struct tls_identity *id = NULL;
    struct dlc_err err = DLC_ERR_INIT;

    if (key == NULL) {
        dlc_check(tls_request_new("a", &key, &request, &err) == 0);
        mem_free(&request);
    }
    dlc_check(tls_identity_new("a", text, key, text, &id, &err) < 0 && id == NULL);
    dlc_check(err.text[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_strn((const char *)data, size);
    struct buf b = BUF_INIT;

    if (store == NULL)
        set_up();
    sign(text);
    take(text);
    str_base64(data, size, &b); /* or no mutation of the bytes inside would get that far */
    sign(buf_str(&b));
    identify(data, size);
    buf_release(&b);
    mem_free(&text);
    return 0;
}
