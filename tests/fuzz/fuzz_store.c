// SPDX-License-Identifier: Apache-2.0
/*
 * What comes from a store or from a client into metadata: cursors, chunks as Redis has them, URLs
 * of stores, errors of Redis that lead elsewhere, whole replies. The first byte says which.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/mem.h"
#include "manager/store/chunk_merge_i.h"
#ifdef DLC_REDIS
#include "manager/store/redis_chunks_i.h"
#include "net/redis/redis.h"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_cursor(const char *s)
{
    char *key = NULL, *node = NULL, *again;

    if (!page_cursor_parse(s, &key, &node))
        return;
    dlc_check(key[0] != '\0' && strlen(key) <= STORE_KEY_MAX && strlen(node) <= STORE_ID_MAX);
    again = page_cursor(key, node);
    dlc_check(strcasecmp(again, s) == 0);
    mem_free(&again);
    mem_free(&key);
    mem_free(&node);
}

#ifdef DLC_REDIS
static void fuzz_chunk(const char *s, size_t len)
{
    struct store_chunk c, d;
    struct buf b = BUF_INIT;
    const char *etag, *etag2;
    size_t n, n2;

    if (!redis_chunk_parse(s, len, &c, &etag, &n))
        return;
    dlc_check(etag + n == s + len);
    if (memchr(etag, '\0', n) != NULL)
        return;
    c.etag = mem_strn(etag, n);
    redis_chunk_write(&b, &c);
    dlc_check(redis_chunk_parse(b.data, b.len, &d, &etag2, &n2));
    dlc_check(d.size == c.size && d.cost == c.cost && d.references == c.references &&
              d.state == c.state && d.jobs == c.jobs && d.changed_ms == c.changed_ms && n2 == n);
    mem_free(&c.etag);
    buf_release(&b);
}

static void fuzz_url(const char *s)
{
    struct redis_url u;
    struct dlc_err err = DLC_ERR_INIT;

    if (redis_url_parse(s, &u, &err) == 0)
        dlc_check(u.n > 0 && u.hosts[0][0] != '\0' && u.ports[0] != 0 && u.timeout.ns > 0);
    else
        dlc_check(err.text[0] != '\0' && u.n == 0);
    redis_url_release(&u);
}

static void fuzz_answer(const char *s)
{
    char address[80];
    int slot = -1;
    enum redis_answer a = redis_answer_parse(s, &slot, address);

    if (a == REDIS_MOVED || a == REDIS_ASK)
        dlc_check(slot >= 0 && slot < REDIS_SLOTS && strlen(address) < sizeof(address));
    dlc_check(redis_slot(s, strlen(s)) < REDIS_SLOTS);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *s;

    if (size == 0)
        return 0;
    s = mem_strn((const char *)data + 1, size - 1);
    if (data[0] == 'c')
        fuzz_cursor(s);
#ifdef DLC_REDIS
    else if (data[0] == 'v')
        fuzz_chunk((const char *)data + 1, size - 1);
    else if (data[0] == 'u')
        fuzz_url(s);
    else
        fuzz_answer(s);
#endif
    mem_free(&s);
    return 0;
}
