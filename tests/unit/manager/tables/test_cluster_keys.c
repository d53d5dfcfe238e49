// SPDX-License-Identifier: Apache-2.0
/* Key pairs of the cluster: made once, the same for all managers, sealed in the store. */
#include <pthread.h>

#include <openssl/evp.h>

#include "base/syscalls.h"
#include "manager/store/each_store.h"
#include "manager/store/seal.h"
#include "manager/tables/cluster_keys.h"

#define MANAGERS 6

static struct seal *seal_in(const char *name)
{
    struct seal *s = NULL;
    char dir[256];

    unit_path(name, dir);
    assert_int_equal(os_mkdirs(dir, 0700), 0);
    ok(seal_open(dir, &s, &err));
    return s;
}

/* What one key signed, the other must accept. */
static bool is_pair(EVP_PKEY *a, EVP_PKEY *b)
{
    return EVP_PKEY_eq(a, b) == 1;
}

static void get(struct store *m, struct seal *s, enum cluster_key_purpose p, struct cluster_keys *k)
{
    ok(cluster_keys_get(m, s, p, k, &err));
    assert_int_equal(k->n, 1);
    assert_true(k->v[0].made_ms > 0);
}

static void test_one_key_of_each_purpose(void **state)
{
    struct seal *s = seal_in("one");
    struct cluster_keys a, b, again;

    get(store_of(state), s, CLUSTER_KEY_AUTHORITY, &a);
    get(store_of(state), s, CLUSTER_KEY_TICKETS, &b);
    assert_int_equal(EVP_PKEY_get_base_id(a.v[0].pair), EVP_PKEY_EC);
    assert_int_equal(EVP_PKEY_get_base_id(b.v[0].pair), EVP_PKEY_ED25519);
    reopen(state);
    get(store_of(state), s, CLUSTER_KEY_AUTHORITY, &again);
    assert_true(is_pair(a.v[0].pair, again.v[0].pair));
    assert_ptr_equal(cluster_keys_signer(&again), &again.v[0]);
    cluster_keys_release(&a);
    cluster_keys_release(&b);
    cluster_keys_release(&again);
    seal_close(&s);
}

struct asker {
    pthread_t thread;
    const char *url;
    struct seal *seal;
    struct cluster_keys keys;
    int rc;
    struct dlc_err err;
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    struct store *m = NULL;

    a->rc = store_open(a->url, &m, &a->err);
    if (a->rc == 0)
        a->rc = cluster_keys_get(m, a->seal, CLUSTER_KEY_TICKETS, &a->keys, &a->err);
    store_close(&m);
    return NULL;
}

/* (CLUSTER-KEYS-1) */
static void test_managers_that_ask_at_once_get_the_same(void **state)
{
    struct seal *s = seal_in("at-once");
    struct asker a[MANAGERS];

    memset(a, 0, sizeof(a));
    for (size_t i = 0; i < MANAGERS; i++) {
        a[i].url = url_of(state);
        a[i].seal = s;
        assert_int_equal(pthread_create(&a[i].thread, NULL, ask, &a[i]), 0);
    }
    for (size_t i = 0; i < MANAGERS; i++) {
        pthread_join(a[i].thread, NULL);
        if (a[i].rc != 0)
            fail_msg("%s", a[i].err.text);
        assert_true(is_pair(a[0].keys.v[0].pair, a[i].keys.v[0].pair));
    }
    for (size_t i = 0; i < MANAGERS; i++)
        cluster_keys_release(&a[i].keys);
    seal_close(&s);
}

/* (CLUSTER-KEYS-2) */
static void test_the_store_has_no_private_key(void **state)
{
    struct seal *s = seal_in("sealed");
    struct store_doc d = STORE_DOC_INIT;
    struct cluster_keys k;
    char *text;

    get(store_of(state), s, CLUSTER_KEY_TICKETS, &k);
    ok(store_get(store_of(state), STORE_MANAGER, "cluster_key.tickets", &d, &err));
    text = json_dumps(d.body, 0);
    assert_null(strstr(text, "PRIVATE"));
    free(text);
    /* Nor does it serve another purpose. */
    free(d.id);
    d.id = mem_str("cluster_key.authority");
    ok(store_put(store_of(state), STORE_MANAGER, &d, STORE_NEW, &err));
    cluster_keys_release(&k);
    assert_int_equal(cluster_keys_get(store_of(state), s, CLUSTER_KEY_AUTHORITY, &k, &err),
                     DLC_ECORRUPT);
    assert_int_equal(k.n, 0);
    store_doc_release(&d);
    seal_close(&s);
}

static void test_another_managers_key_is_told(void **state)
{
    struct seal *s = seal_in("mine"), *other = seal_in("other");
    struct cluster_keys k;

    get(store_of(state), s, CLUSTER_KEY_TICKETS, &k);
    cluster_keys_release(&k);
    assert_int_equal(cluster_keys_get(store_of(state), other, CLUSTER_KEY_TICKETS, &k, &err),
                     DLC_EDENIED);
    assert_non_null(strstr(err.text, "the manager the old key"));
    seal_close(&s);
    seal_close(&other);
}

/* A manager that may not write, since another one leads, and finds no key. */
static void test_a_store_that_cannot_be_written(void **state)
{
    struct seal *s = seal_in("unwritable");
    struct store *leader = NULL;
    struct cluster_keys k;
    uint64_t fence = 0;

    ok(store_open(url_of(state), &leader, &err));
    ok(store_lock(leader, "lead", "old", DLC_MS(1), &fence, &err));
    store_set_fence(store_of(state), fence);
    ok(store_unlock(leader, "lead", "old", &err));
    ok(store_lock(leader, "lead", "new", DLC_SEC(60), &fence, &err));
    store_set_fence(leader, fence);
    assert_int_equal(put(leader, STORE_TENANT, "x", "", 1, STORE_NEW, NULL), 0);
    assert_true(cluster_keys_get(store_of(state), s, CLUSTER_KEY_TICKETS, &k, &err) < 0);
    assert_non_null(strstr(err.text, "cluster_key.tickets"));
    assert_non_null(strstr(err.text, "the store must be readable and writable"));
    store_close(&leader);
    seal_close(&s);
}

int main(void)
{
    const struct each_case cases[] = {
        {"one key of each purpose", test_one_key_of_each_purpose},
        {"managers that ask at once get the same", test_managers_that_ask_at_once_get_the_same},
        {"the store has no private key", test_the_store_has_no_private_key},
        {"another manager's key is told", test_another_managers_key_is_told},
        {"a store that cannot be written", test_a_store_that_cannot_be_written},
    };

    return each_store(cases, unit_count(cases));
}
