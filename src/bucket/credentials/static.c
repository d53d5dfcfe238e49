// SPDX-License-Identifier: Apache-2.0
#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "bucket/credentials/credentials_i.h"

#define KEYS_TAG DLC_TAG4('k', 'e', 'y', 's')

struct bucket_keys {
    uint32_t tag;
    _Atomic unsigned refs;
    struct dlc_mtx mtx;   /* rank LCK_keys */
    struct credentials c; /* G: mtx; no expiry, no generation */
};

struct bucket_keys *bucket_keys_new(void)
{
    struct bucket_keys *k = mem_new(struct bucket_keys);

    k->tag = KEYS_TAG;
    k->refs = 1;
    dlc_mtx_init(&k->mtx, LCK_keys);
    return k;
}

struct bucket_keys *bucket_keys_get(struct bucket_keys *k)
{
    dlc_check(k->tag == KEYS_TAG);
    /* Relaxed: who gets one holds one already. */
    atomic_fetch_add_explicit(&k->refs, 1, memory_order_relaxed);
    return k;
}

void bucket_keys_put(struct bucket_keys **kp)
{
    struct bucket_keys *k = *kp;

    *kp = NULL;
    if (k == NULL)
        return;
    dlc_check(k->tag == KEYS_TAG);
    /* Pairs with itself: the last one sees what all others did. */
    if (atomic_fetch_sub_explicit(&k->refs, 1, memory_order_acq_rel) > 1)
        return;
    credentials_release(&k->c);
    dlc_mtx_release(&k->mtx);
    k->tag = 0;
    mem_free(&k);
}

static bool differs(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a != b : strcmp(a, b) != 0;
}

bool bucket_keys_set(struct bucket_keys *k, const char *access_key, const char *secret_key,
                     const char *session_token)
{
    bool changed;

    dlc_mtx_lock(&k->mtx);
    changed = differs(k->c.access_key, access_key) || differs(k->c.secret_key, secret_key) ||
              differs(k->c.session_token, session_token);
    if (changed) {
        credentials_release(&k->c);
        k->c.access_key = mem_str(access_key);
        k->c.secret_key = mem_str(secret_key);
        k->c.session_token = mem_str(session_token);
    }
    dlc_mtx_unlock(&k->mtx);
    return changed;
}

void bucket_keys_read(struct bucket_keys *k, struct credentials *out)
{
    dlc_mtx_lock(&k->mtx);
    *out = (struct credentials){.access_key = mem_str(k->c.access_key),
                                .secret_key = mem_str(k->c.secret_key),
                                .session_token = mem_str(k->c.session_token)};
    dlc_mtx_unlock(&k->mtx);
}
