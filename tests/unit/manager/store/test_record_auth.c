// SPDX-License-Identifier: Apache-2.0
/* Documents of a store with a key ring: what is authentic, and what a change of any part makes. */
#include "store_unit.h"

#include <sys/stat.h>

#include "base/syscalls.h"
#include "each_store.h"
#include "manager/store/record_auth_i.h"
#include "manager/store/record_copy.h"
#include "manager/store/seal.h"
#include "manager/store/store_i.h"

#define KEY1 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define KEY2 "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"

static unsigned forged;
static char forged_id[64];

static void on_forged(const char *kind, const char *id, const char *why, void *arg)
{
    assert_non_null(why);
    assert_ptr_equal(arg, &forged);
    snprintf(forged_id, sizeof(forged_id), "%s/%s", kind, id);
    forged++;
}

static struct seal *ring(const char *keys)
{
    struct seal *s = NULL;

    setenv("DLCACHE_MANAGER_KEY", keys, 1);
    ok(seal_open("/nonexistent", &s, &err));
    unsetenv("DLCACHE_MANAGER_KEY");
    return s;
}

static struct store *with_ring(void **state, struct seal *s)
{
    store_authenticate(store_of(state), s, on_forged, &forged);
    forged = 0;
    return store_of(state);
}

/* What lies in the store. */
static struct store_raw raw_get(struct store *m, enum store_kind kind, const char *id)
{
    struct store_raw r = {0};

    ok(m->ops->get(m, kind, id, &r, &err));
    return r;
}

/* Put it there as somebody without the key would. The version becomes one more than expect. */
static void raw_put(struct store *m, enum store_kind kind, struct store_raw *r, uint64_t expect)
{
    ok(m->ops->put(m, kind, r, expect, 0, &err));
}

static void test_documents_as_ever(void **state)
{
    struct seal *s = ring(KEY1);
    struct store *m = with_ring(state, s);
    struct store_doc d;
    struct store_raw r;
    uint64_t v;

    ok(put(m, STORE_DATASET, "a", "t", 1, STORE_NEW, &v));
    assert_int_equal(v, 1);
    assert_int_equal(put(m, STORE_DATASET, "a", "t", 2, STORE_NEW, NULL), DLC_EBUSY);
    ok(put(m, STORE_DATASET, "a", "t", 2, 1, &v));
    for (unsigned i = 0; i < 3; i++)
        ok(put(m, STORE_DATASET, "a", "t", 3 + i, STORE_ANY, &v));
    assert_int_equal(v, 5);
    ok(store_get(m, STORE_DATASET, "a", &d, &err));
    assert_int_equal(d.version, 5);
    assert_int_equal(strlen(d.key), SEAL_KEY_ID_LEN);
    store_doc_release(&d);
    r = raw_get(m, STORE_DATASET, "a");
    assert_memory_equal(r.body, "dlc1:", 5);
    store_raw_release(&r);
    ok(put(m, STORE_DATASET, "b", "", 1, STORE_ANY, &v)); /* there was none */
    assert_int_equal(v, 1);
    assert_int_equal(forged, 0);
    /* Another manager took over: no write of ours has an effect, and none loops. */
    store_set_fence(m, 7);
    ok(put(m, STORE_DATASET, "b", "", 2, STORE_ANY, &v));
    store_set_fence(m, 3);
    assert_int_equal(put(m, STORE_DATASET, "b", "", 3, STORE_ANY, NULL), DLC_EBUSY);
    store_set_fence(m, 7);
    store_authenticate(m, NULL, NULL, NULL);
    seal_close(&s);
}

static void expect_forged(struct store *m, enum store_kind kind, const char *id)
{
    struct store_doc d;
    unsigned before = forged;

    assert_int_equal(store_get(m, kind, id, &d, &err), DLC_ECORRUPT);
    assert_int_equal(forged, before + 1);
    assert_non_null(strstr(forged_id, id));
}

static void test_every_part_counts(void **state)
{
    struct seal *s = ring(KEY1);
    struct store *m = with_ring(state, s);
    struct store_raw r, other;
    char tenant[] = "u";

    ok(put(m, STORE_DATASET, "a", "t", 1, STORE_NEW, NULL));
    r = raw_get(m, STORE_DATASET, "a");
    for (size_t i = 0; i < r.body_len; i++) {
        char was = r.body[i];

        if (i >= 5 && i < 21)
            continue; /* the key's id: another key */
        r.body[i] = was == '0' ? '1' : '0';
        other = r;
        ok(store_delete(m, STORE_DATASET, "a", STORE_ANY, &err));
        raw_put(m, STORE_DATASET, &other, STORE_NEW);
        expect_forged(m, STORE_DATASET, "a");
        r.body[i] = was;
    }
    ok(store_delete(m, STORE_DATASET, "a", STORE_ANY, &err));
    other = r;
    raw_put(m, STORE_DATASET, &other, STORE_NEW);
    assert_int_equal(value_of(m, STORE_DATASET, "a", NULL), 1); /* as it was */
    other = r;
    raw_put(m, STORE_DATASET, &other, 1); /* at the next version */
    expect_forged(m, STORE_DATASET, "a");
    other = r;
    raw_put(m, STORE_JOB, &other, STORE_NEW); /* as another kind */
    expect_forged(m, STORE_JOB, "a");
    other = r;
    other.id = tenant;
    raw_put(m, STORE_DATASET, &other, STORE_NEW); /* under another name */
    expect_forged(m, STORE_DATASET, "u");
    other = r;
    other.tenant = tenant;
    ok(store_delete(m, STORE_DATASET, "a", STORE_ANY, &err));
    raw_put(m, STORE_DATASET, &other, STORE_NEW); /* of another tenant */
    expect_forged(m, STORE_DATASET, "a");
    store_raw_release(&r);
    store_authenticate(m, NULL, NULL, NULL);
    seal_close(&s);
}

static bool count_one(struct store_doc *d, void *arg)
{
    assert_string_not_equal(d->id, "m");
    ++*(unsigned *)arg;
    return true;
}

/* A list for a caller fails; what the manager loads leaves it out, whatever page it lies on. */
static void test_lists(void **state)
{
    struct seal *s = ring(KEY1);
    struct store *m = with_ring(state, s);
    char body[] = "{\"n\": 1}", id[16], m_id[] = "m", t[] = "t";
    struct store_raw plain = {.id = m_id, .tenant = t, .body = body, .body_len = strlen(body)};
    struct store_doc docs[4];
    unsigned seen = 0;
    size_t n;

    for (unsigned i = 0; i < 300; i++) {
        snprintf(id, sizeof(id), "%c%03u", i < 255 ? 'a' : 'z', i);
        ok(put(m, STORE_JOB, id, "t", (int)i, STORE_NEW, NULL));
    }
    raw_put(m, STORE_JOB, &plain, STORE_NEW); /* the last one of the first page */
    ok(store_each(m, STORE_JOB, NULL, count_one, &seen, &err));
    assert_int_equal(seen, 300);
    assert_int_equal(forged, 1);
    assert_int_equal(store_list(m, STORE_JOB, "t", "a254", 4, docs, &n, &err), DLC_ECORRUPT);
    assert_int_equal(n, 0);
    ok(store_list(m, STORE_JOB, "t", "m", 4, docs, &n, &err));
    for (size_t i = 0; i < n; i++)
        store_doc_release(&docs[i]);
    store_authenticate(m, NULL, NULL, NULL);
    seal_close(&s);
}

static void test_keys_of_a_ring(void **state)
{
    struct seal *old = ring(KEY1), *both = ring(KEY2 " " KEY1), *new = ring(KEY2);
    struct store *m = with_ring(state, old);
    struct store_doc d;

    ok(put(m, STORE_TENANT, "a", "a", 1, STORE_NEW, NULL));
    store_authenticate(m, both, on_forged, &forged);
    ok(store_get(m, STORE_TENANT, "a", &d, &err)); /* by the older key */
    store_doc_release(&d);
    assert_int_equal(forged, 0);
    store_authenticate(m, new, on_forged, &forged);
    assert_int_equal(store_get(m, STORE_TENANT, "a", &d, &err), DLC_EDENIED);
    assert_non_null(strstr(err.text, "manager.key"));
    store_authenticate(m, both, on_forged, &forged);
    ok(put(m, STORE_TENANT, "a", "a", 2, STORE_ANY, NULL));
    store_authenticate(m, new, on_forged, &forged);
    assert_int_equal(value_of(m, STORE_TENANT, "a", NULL), 2);
    store_authenticate(m, NULL, NULL, NULL);
    seal_close(&old);
    seal_close(&both);
    seal_close(&new);
}

/* A document that left the store comes back only as it was, and only by who has the key. */
static void test_export(void **state)
{
    struct seal *s = ring(KEY1), *other = ring(KEY2);
    struct store *m = with_ring(state, s);
    static const char *const fields[] = {"id", "tenant", "sealed"};
    struct store_doc d, back;
    json_t *text, *bad;

    ok(put(m, STORE_DATASET, "a", "t", 7, STORE_NEW, NULL));
    ok(store_get(m, STORE_DATASET, "a", &d, &err));
    text = store_doc_export(m, STORE_DATASET, &d);
    ok(store_doc_import(m, STORE_DATASET, text, &back, &err));
    assert_string_equal(back.id, "a");
    assert_string_equal(back.tenant, "t");
    assert_int_equal(back.version, 1);
    assert_int_equal(json_equal(back.body, d.body), 1);
    store_doc_release(&back);
    for (size_t i = 0; i < 3; i++) {
        bad = json_deep_copy(text);
        json_object_set_new(bad, fields[i], json_string("b"));
        assert_int_equal(store_doc_import(m, STORE_DATASET, bad, &back, &err), DLC_ECORRUPT);
        json_object_del(bad, fields[i]);
        assert_int_equal(store_doc_import(m, STORE_DATASET, bad, &back, &err), DLC_ECORRUPT);
        json_decref(bad);
    }
    json_object_set_new(text, "version", json_integer(2));
    assert_int_equal(store_doc_import(m, STORE_DATASET, text, &back, &err), DLC_ECORRUPT);
    json_object_set_new(text, "version", json_integer(1));
    assert_int_equal(store_doc_import(m, STORE_TENANT, text, &back, &err), DLC_ECORRUPT);
    store_authenticate(m, other, NULL, NULL);
    assert_int_equal(store_doc_import(m, STORE_DATASET, text, &back, &err), DLC_EDENIED);
    store_authenticate(m, s, on_forged, &forged);
    json_decref(text);
    store_doc_release(&d);
    seal_close(&s);
    seal_close(&other);
}

/* The copy of a manager fills an empty store, the mark last; an empty store is never copied. */
static void test_copy(void **state)
{
    struct seal *s = ring(KEY1);
    struct store *m = with_ring(state, s);
    char path[256];
    json_t *copy;

    unit_path("copy", path);
    unlink(path);
    assert_int_equal(record_copy_read(path, &copy, &err), DLC_ENOTFOUND);
    ok(put(m, STORE_TENANT, "t", "", 1, STORE_NEW, NULL));
    assert_int_equal(record_copy_write(m, path, &err), DLC_ECHANGED);
    assert_int_equal(access(path, F_OK), -1);
    ok(put(m, STORE_MANAGER, STORE_MARK, "", 2, STORE_NEW, NULL));
    ok(put(m, STORE_DATASET, "a", "t", 3, STORE_NEW, NULL));
    ok(record_copy_write(m, path, &err));
    ok(record_copy_read(path, &copy, &err));
    assert_int_equal(json_array_size(record_copy_of(copy, STORE_DATASET)), 1);
    ok(store_delete(m, STORE_TENANT, "t", STORE_ANY, &err));
    ok(store_delete(m, STORE_MANAGER, STORE_MARK, STORE_ANY, &err));
    ok(put(m, STORE_DATASET, "a", "t", 4, STORE_ANY, NULL)); /* in the way */
    assert_false(store_is_marked(m, &err));
    ok(record_copy_restore(m, copy, &err));
    assert_true(store_is_marked(m, &err));
    assert_int_equal(value_of(m, STORE_TENANT, "t", NULL), 1);
    assert_int_equal(value_of(m, STORE_DATASET, "a", NULL), 3);
    json_object_set_new((json_t *)(uintptr_t)json_array_get(record_copy_of(copy, STORE_TENANT), 0),
                        "id", json_string("u"));
    assert_int_equal(record_copy_restore(m, copy, &err), DLC_ECORRUPT);
    json_decref(copy);
    seal_close(&s);
}

int main(void)
{
    static const struct each_case cases[] = {
        {"documents as ever", test_documents_as_ever},
        {"every part counts", test_every_part_counts},
        {"lists", test_lists},
        {"keys of a ring", test_keys_of_a_ring},
        {"documents as text", test_export},
        {"copy of all documents", test_copy},
    };

    return each_store(cases, unit_count(cases));
}
