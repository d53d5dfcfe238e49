// SPDX-License-Identifier: Apache-2.0
/* Layouts: what becomes of a list of objects. */
#include <poll.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "catalog/layout.h"

static char dir[] = "/tmp/dlcache-test-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/catalog", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    os_rmtree(dir);
    return 0;
}

/* ---- a dataset: keys, a manifest's text ---- */

struct world {
    struct layout l;
    const char *manifest; /* the text of whatever is opened */
    size_t len;
    _Atomic unsigned opens, closes;
    unsigned wait_for; /* the first object is read when so many are open */
    uint64_t bad;      /* objects from this number on are damaged; 0: none */
    _Atomic bool late; /* they were not, for 20 s */
    struct shelf *shelf;
};

/* Archives of a world with a manifest, and how often each was read. */
struct shelf {
    struct {
        const char *key;
        struct buf tar;
        unsigned opens;
    } v[4];
    unsigned n;
};

static int open_object(struct layout *l, uint64_t j, struct source *out, struct dlc_err *err)
{
    struct world *w = dlc_container(l, struct world, l);
    struct catalog_object o;

    (void)err;
    catalog_builder_object(l->builder, j, &o);
    *out = source_of_memory(w->manifest, w->len, o.key);
    for (unsigned i = 0; w->shelf != NULL && i < w->shelf->n; i++) {
        if (strcmp(o.key, w->shelf->v[i].key) == 0) {
            *out = source_of_memory(w->shelf->v[i].tar.data, w->shelf->v[i].tar.len, o.key);
            w->shelf->v[i].opens++;
        }
    }
    w->opens++;
    return 0;
}

static void close_object(struct layout *l, struct source *s)
{
    (void)s;
    dlc_container(l, struct world, l)->closes++;
}

static struct world world_of(const char *const *keys, const char *manifest)
{
    struct world w = {.l = {.root = "", .group = -1, .open = open_object, .close = close_object}};

    w.l.builder = catalog_builder_new();
    w.manifest = manifest;
    w.len = manifest == NULL ? 0 : strlen(manifest);
    for (unsigned i = 0; keys[i] != NULL; i++) {
        uint64_t size = str_ends(keys[i], ".csv") || str_ends(keys[i], ".jsonl") ? w.len : 100 + i;

        assert_int_equal(
            catalog_builder_add(w.l.builder, keys[i], strlen(keys[i]), size, "e", NULL), 0);
    }
    return w;
}

/* As ?manifest=NAME, from the root. */
static void select_manifest(struct world *w, const char *name)
{
    static struct layout_select one;
    static char key[64];

    snprintf(key, sizeof(key), "%s%s", w->l.root, name);
    one = (struct layout_select){SELECT_MANIFEST, "", key, name, false};
    w->l.select = &one;
    w->l.n_select = 1;
}

static struct catalog *apply(struct world *w, enum layout_kind expected)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c = NULL;

    if (layout_apply(&w->l, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(layout_name(w->l.kind), layout_name(expected));
    if (catalog_builder_finish(w->l.builder, path, "u", &err) < 0 ||
        catalog_open(path, &c, &err) < 0)
        fail_msg("%s", err.text);
    catalog_builder_free(&w->l.builder);
    assert_int_equal(w->opens, w->closes);
    return c;
}

static void refused(struct world *w, const char *text)
{
    struct dlc_err err = DLC_ERR_INIT;

    assert_int_equal(layout_apply(&w->l, &err), DLC_EINVAL);
    if (strstr(err.text, text) == NULL)
        fail_msg("'%s' says nothing of '%s'", err.text, text);
    catalog_builder_free(&w->l.builder);
    assert_int_equal(w->opens, w->closes);
}

/* "key=label key=label ...", in order; no label: "key". */
static void expect(const struct catalog *c, const char *const *want)
{
    uint64_t i = 0;

    for (; want[i] != NULL; i++) {
        struct catalog_entry e;
        struct catalog_text t;
        uint32_t label;
        char got[200];

        assert_int_equal(catalog_get(c, i, &e, NULL), 0);
        assert_int_equal(catalog_label(c, i, &label, NULL), 0);
        snprintf(got, sizeof(got), "%.150s", e.key);
        if (label != SAMPLE_NO_LABEL) {
            assert_int_equal(catalog_class_name(c, label, &t, NULL), 0);
            snprintf(got, sizeof(got), "%.100s=%u:%.*s", e.key, label, (int)t.len, t.s);
        }
        assert_string_equal(got, want[i]);
    }
    assert_int_equal(catalog_visible(c), i);
}

static void expect_split(const struct catalog *c, const char *name, uint64_t first, uint64_t count)
{
    const struct catalog_split *s = catalog_split(c, name);

    assert_non_null(s);
    assert_int_equal(s->first, first);
    assert_int_equal(s->count, count);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- flat, folders, splits ---- */

static void test_flat(void **state)
{
    struct world w = world_of(LIST("b.jpg", "a/x.jpg", "a/y.jpg", ".hidden"), NULL);
    struct catalog *c = apply(&w, LAYOUT_FLAT);

    (void)state;
    assert_true(catalog_is_whole(c));
    expect(c, LIST(".hidden", "a/x.jpg", "a/y.jpg", "b.jpg"));
    catalog_close(&c);
}

/* By class ('-' comes before '/' in keys, but "a" before "a-b"), then folder, then name. */
static void test_folders(void **state)
{
    struct world w = world_of(LIST("a/1", "a-b/2", "c/d/3", "c/e", ".DS_Store"), NULL);
    struct catalog *c = apply(&w, LAYOUT_FOLDERS);

    (void)state;
    expect(c, LIST("a/1=0:a", "a-b/2=1:a-b", "c/e=2:c", "c/d/3=2:c"));
    catalog_close(&c);
    /* seen from the root of the URL */
    w = world_of(LIST("set/x/1", "set/y/2"), NULL);
    w.l.root = "set/";
    c = apply(&w, LAYOUT_FOLDERS);
    assert_true(catalog_is_whole(c));
    expect(c, LIST("set/x/1=0:x", "set/y/2=1:y"));
    catalog_close(&c);
    /* what lies in no folder is no sample when folders are wanted */
    w = world_of(LIST("README", "x/1"), NULL);
    w.l.kind = LAYOUT_FOLDERS;
    c = apply(&w, LAYOUT_FOLDERS);
    expect(c, LIST("x/1=0:x"));
    catalog_close(&c);
    w = world_of(LIST("README"), NULL);
    w.l.kind = LAYOUT_FOLDERS;
    refused(&w, "finds no samples");
}

static void test_splits(void **state)
{
    const char *const *keys = LIST("train/cat/1", "train/dog/2", "val/dog/3", "test/cat/4");
    struct world w = world_of(keys, NULL);
    struct catalog *c = apply(&w, LAYOUT_FOLDERS);

    (void)state;
    assert_true(catalog_is_whole(c)); /* the order of keys is the order of splits */
    expect(c,
           LIST("test/cat/4=0:cat", "train/cat/1=0:cat", "train/dog/2=1:dog", "val/dog/3=1:dog"));
    expect_split(c, "test", 0, 1);
    expect_split(c, "train", 1, 2);
    expect_split(c, "validation", 3, 1);
    catalog_close(&c);
    w = world_of(keys, NULL);
    w.l.split = "valid";
    c = apply(&w, LAYOUT_FOLDERS);
    expect(c, LIST("val/dog/3=0:dog"));
    catalog_close(&c);
    w = world_of(LIST("x/1", "y/2"), NULL);
    w.l.split = "train";
    refused(&w, "no split 'train'");
    /* two folders for one split: which one is meant is not known */
    w = world_of(LIST("val/1", "valid/2"), NULL);
    c = apply(&w, LAYOUT_FOLDERS);
    assert_int_equal(catalog_splits(c), 0);
    catalog_close(&c);
    w = world_of(LIST("train/1.jpg", "test/2.jpg"), NULL);
    c = apply(&w, LAYOUT_FLAT);
    expect_split(c, "train", 1, 1);
    catalog_close(&c);
}

/* ---- pairs ---- */

static void expect_target(const struct catalog *c, uint64_t i, const char *key)
{
    struct catalog_entry e;
    uint64_t t;

    assert_int_equal(catalog_target(c, i, &t, NULL), 0);
    assert_true(t >= catalog_visible(c));
    assert_int_equal(catalog_get(c, t, &e, NULL), 0);
    assert_string_equal(e.key, key);
}

static void test_pairs(void **state)
{
    struct world w =
        world_of(LIST("images/1.jpg", "images/s/2.jpg", "masks/1.png", "masks/s/2.png"), NULL);
    struct catalog *c = apply(&w, LAYOUT_PAIRS);

    (void)state;
    expect(c, LIST("images/1.jpg", "images/s/2.jpg"));
    assert_int_equal(catalog_count(c), 4);
    expect_target(c, 0, "masks/1.png");
    expect_target(c, 1, "masks/s/2.png");
    catalog_close(&c);
    w = world_of(LIST("train/1.jpg", "train/1.txt", "test/a.b.jpg", "test/a.b.txt", "test/a.jpg",
                      "test/a.txt"),
                 NULL);
    c = apply(&w, LAYOUT_PAIRS);
    expect(c, LIST("test/a.b.jpg", "test/a.jpg", "train/1.jpg"));
    expect_target(c, 0, "test/a.b.txt");
    expect_target(c, 1, "test/a.txt");
    expect_target(c, 2, "train/1.txt");
    expect_split(c, "train", 2, 1);
    catalog_close(&c);
    /* not all have one: it is not chosen, and refused when it is wanted */
    w = world_of(LIST("1.jpg", "1.txt", "2.jpg"), NULL);
    c = apply(&w, LAYOUT_FLAT);
    catalog_close(&c);
    w = world_of(LIST("1.jpg", "1.txt", "2.jpg"), NULL);
    w.l.kind = LAYOUT_PAIRS;
    refused(&w, "2.jpg has no target, or several: 1 of 2");
}

/* ---- manifests ---- */

static void expect_cell(const struct catalog *c, uint64_t i, unsigned column, const char *want)
{
    struct catalog_text t;

    assert_int_equal(catalog_cell(c, i, column, &t, NULL), 0);
    assert_int_equal(t.len, strlen(want));
    assert_memory_equal(t.s, want, t.len);
}

static void test_csv(void **state)
{
    struct world w = world_of(LIST("manifest.csv", "i/a.jpg", "i/b.jpg", "i/c.jpg", "i/d.jpg"),
                              "\xef\xbb\xbfpath,Label,caption,split\r\n"
                              "i/c.jpg,dog,\"a \"\"big\"\" dog,\r\nbarking\",val\r\n"
                              "\r\n"
                              "./i/b.jpg,cat,,train\r\n"
                              "i/a.jpg,dog,\"\",train");
    struct catalog *c = apply(&w, LAYOUT_MANIFEST);

    (void)state;
    expect(c, LIST("i/c.jpg=1:dog", "i/b.jpg=0:cat", "i/a.jpg=1:dog"));
    expect_split(c, "validation", 0, 1);
    expect_split(c, "train", 1, 2);
    assert_int_equal(catalog_columns(c), 1);
    assert_string_equal(catalog_column_name(c, 0), "caption");
    expect_cell(c, 0, 0, "a \"big\" dog,\r\nbarking");
    expect_cell(c, 1, 0, "");
    catalog_close(&c);
}

static void test_csv_forms(void **state)
{
    struct world w = world_of(LIST("s/m.csv", "s/a", "s/b"), "whatever,class\nb,7\na,2\n");
    struct catalog *c;
    uint32_t label;

    (void)state;
    /* first column for want of a name; keys from the manifest's folder; numbers are classes */
    select_manifest(&w, "s/m.csv");
    c = apply(&w, LAYOUT_MANIFEST);
    assert_int_equal(catalog_classes(c), 8);
    expect(c, LIST("s/b=7:7", "s/a=2:2"));
    catalog_close(&c);
    /* no header */
    w = world_of(LIST("s/m.csv", "s/a", "s/b"), "a,x,1\nb,y,2");
    w.l.root = "s/";
    select_manifest(&w, "m.csv");
    c = apply(&w, LAYOUT_MANIFEST);
    expect(c, LIST("s/a=0:x", "s/b=1:y"));
    assert_string_equal(catalog_column_name(c, 0), "column3");
    catalog_close(&c);
    /* fractions are no classes */
    w = world_of(LIST("manifest.csv", "a", "b"), "key,target\na,0.5\nb,3\n");
    c = apply(&w, LAYOUT_MANIFEST);
    assert_int_equal(catalog_classes(c), 0);
    assert_int_equal(catalog_label(c, 0, &label, NULL), 0);
    assert_int_equal(label, SAMPLE_NO_LABEL);
    assert_string_equal(catalog_column_name(c, 0), "target");
    expect_cell(c, 0, 0, "0.5");
    catalog_close(&c);
    w = world_of(LIST("manifest.csv", "a", "b"), "key,split\na,train\nb,test\n");
    w.l.split = "test";
    c = apply(&w, LAYOUT_MANIFEST);
    expect(c, LIST("b"));
    catalog_close(&c);
}

static void test_jsonl(void **state)
{
    struct world w = world_of(LIST("metadata.jsonl", "a", "b"),
                              "{\"file_name\": \"b\", \"label\": \"x\", \"box\": [1, 2]}\n\n"
                              "{\"file_name\": \"a\", \"box\": null}\r\n");
    struct catalog *c = apply(&w, LAYOUT_MANIFEST);

    (void)state;
    expect(c, LIST("b=0:x", "a"));
    expect_cell(c, 0, 0, "[1,2]");
    expect_cell(c, 1, 0, "");
    catalog_close(&c);
}

static void test_bad_manifests(void **state)
{
    static const struct {
        const char *key, *text, *says;
    } bad[] = {
        {"manifest.csv", "", "is empty"},
        {"manifest.csv", "key,label\na\n", "line 2: key 'a': 1 fields, and there are 2 columns"},
        {"manifest.csv", "key\na\nb\na\n", "line 4: key 'a': the key is there twice"},
        {"manifest.csv", "key\na\nz\ny\n",
         "line 3: key 'z': there is no such object (the first of 2"},
        {"manifest.csv", "key\n\"a\nb", "line 2: quotes that are opened"},
        {"manifest.csv", "key\n\"a\"b\n", "line 2: text after the quotes"},
        {"manifest.csv", "key,x\n,1\n", "line 2: the key is empty"},
        {"manifest.csv", "key,x,x\na,1,2\n", "two columns named 'x'"},
        {"manifest.csv", "key\nmanifest.csv\n", "the manifest itself"},
        {"manifest.csv", "key,split\na,\n", "key 'a': the split is empty"},
        {"manifest.csv", "key\n", "finds no samples"},
        {"manifest.jsonl", "", "first line must be a JSON object"},
        {"manifest.jsonl", "[1]\n", "first line must be a JSON object: not a JSON object"},
        {"manifest.jsonl", "{\"x\": 1}\n", "no field for the key"},
        {"manifest.jsonl", "{\"key\": \"a\"}\n{\"key\": \n", "line 2: no JSON"},
        {"manifest.jsonl", "{\"key\": \"a\"}\n{\"key\": \"b\", \"z\": 1}\n",
         "'z' is not in the first"},
        {"manifest.jsonl", "{\"key\": \"a\"}\n{}\n", "line 2: not a JSON object with fields"},
    };

    (void)state;
    for (unsigned i = 0; i < DLC_COUNT(bad); i++) {
        struct world w = world_of(LIST(bad[i].key, "a", "b"), bad[i].text);

        refused(&w, bad[i].says);
    }
}

static void test_missing_manifest(void **state)
{
    struct world w = world_of(LIST("a", "b"), "");

    (void)state;
    w.l.kind = LAYOUT_MANIFEST;
    refused(&w, "?manifest=KEY");
    w = world_of(LIST("a", "b"), "");
    select_manifest(&w, "nope.csv");
    refused(&w, "nope.csv is not among");
    w = world_of(LIST("manifest.csv", "a"), "key\na\n");
    w.l.split = "train";
    refused(&w, "no column named split");
    w = world_of(LIST("manifest.csv", "a"), "key\na\0b\n");
    w.len = 8;
    refused(&w, "a NUL byte");
}

/* ---- archives ---- */

/* A tar with the members named, each with its name as its bytes. */
static void tar_of(const char *const *members, struct buf *out)
{
    for (; *members != NULL; members++) {
        char h[512] = "", body[512] = "";
        unsigned sum = 0;

        snprintf(h, 100, "%s", *members);
        snprintf(h + 100, 8, "0000644");
        snprintf(h + 124, 12, "%011o", (unsigned)strlen(*members));
        snprintf(h + 136, 12, "%011o", 0u);
        h[156] = '0';
        memcpy(h + 257, "ustar\00000", 8);
        memset(h + 148, ' ', 8);
        for (unsigned i = 0; i < 512; i++)
            sum += (unsigned char)h[i];
        snprintf(h + 148, 8, "%06o", sum);
        buf_add(out, h, sizeof(h));
        memcpy(body, *members, strlen(*members));
        buf_add(out, body, sizeof(body));
    }
    for (unsigned i = 0; i < 1024; i++)
        buf_addc(out, '\0');
}

static struct world tar_world(const char *key, const char *const *members, struct buf *tar)
{
    struct world w = world_of(LIST("x"), NULL);

    catalog_builder_free(&w.l.builder);
    w.l.builder = catalog_builder_new();
    buf_clear(tar);
    tar_of(members, tar);
    w.manifest = tar->data;
    w.len = tar->len;
    assert_int_equal(catalog_builder_add(w.l.builder, key, strlen(key), tar->len, "e", NULL), 0);
    return w;
}

/* ---- several at once ---- */

static int read_waiting(struct source *s, uint64_t off, void *buf, size_t len, struct dlc_err *err)
{
    struct world *w = s->priv;

    for (unsigned i = 0; w->opens < w->wait_for && strstr(s->name, "/000.tar") != NULL; i++) {
        w->late = i > 2000;
        if (w->late)
            break;
        poll(NULL, 0, 10);
    }
    if (w->bad > 0 && (uint64_t)atoi(strrchr(s->name, '/') + 1) >= w->bad)
        return dlc_err_set(err, DLC_ECORRUPT, "%s is damaged", s->name);
    memcpy(buf, w->manifest + off, len);
    return 0;
}

static int open_waiting(struct layout *l, uint64_t j, struct source *out, struct dlc_err *err)
{
    struct world *w = dlc_container(l, struct world, l);
    struct catalog_object o;

    (void)err;
    catalog_builder_object(l->builder, j, &o);
    *out = (struct source){.name = o.key, .size = w->len, .read = read_waiting, .priv = w};
    w->opens++;
    return 0;
}

/* n tars of the same members in two splits. */
static struct world tars_world(const struct buf *tar, unsigned n, unsigned parallel)
{
    struct world w = world_of(LIST(NULL), NULL);
    char key[40];

    w.manifest = tar->data;
    w.len = tar->len;
    w.l.open = open_waiting;
    w.l.parallel = parallel;
    w.l.group = 0;
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "%s/%03u.tar", i < n * 2 / 3 ? "train" : "val", i);
        assert_int_equal(catalog_builder_add(w.l.builder, key, strlen(key), tar->len, "e", NULL),
                         0);
    }
    return w;
}

static uint64_t snapshot_of(struct world *w, uint64_t *n)
{
    struct catalog *c = apply(w, LAYOUT_ARCHIVE);
    uint64_t snapshot = catalog_snapshot(c);

    *n = catalog_count(c);
    catalog_close(&c);
    return snapshot;
}

/* Read at once, they become the same catalog as one after the other. While the first one is still
 * being read, the others have been opened. */
static void same_at_once(unsigned tars, unsigned members, unsigned threads)
{
    const char **names = mem_zero((members + 1) * sizeof(*names));
    struct buf tar = BUF_INIT;
    struct world w;
    uint64_t alone, n;

    for (unsigned i = 0; i < members; i++)
        names[i] = mem_fmt("%06u-%080u.bin", i, i);
    tar_of(names, &tar);
    w = tars_world(&tar, tars, 0);
    alone = snapshot_of(&w, &n);
    assert_int_equal(n, tars * members);
    w = tars_world(&tar, tars, threads);
    w.wait_for = threads;
    assert_true(snapshot_of(&w, &n) == alone);
    assert_false(w.late);
    assert_int_equal(n, tars * members);
    for (unsigned i = 0; i < members; i++)
        mem_free(&names[i]);
    mem_free(&names);
    buf_release(&tar);
}

static void test_archives_at_once(void **state)
{
    (void)state;
    same_at_once(30, 50, 8);
    same_at_once(3, 40000, 2); /* more than one keeps until its turn: it waits */
}

/* Of several that are damaged, the first one is named, and no object is read for long after it. */
static void test_archives_at_once_fail(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct buf tar = BUF_INIT;
    struct world w;

    (void)state;
    tar_of(LIST("a", "b"), &tar);
    w = tars_world(&tar, 30, 16);
    w.wait_for = 8;
    w.bad = 5;
    assert_int_equal(layout_apply(&w.l, &err), DLC_ECORRUPT);
    assert_non_null(strstr(err.text, "train/005.tar is damaged"));
    assert_int_equal(w.opens, w.closes);
    assert_true(w.opens <= 21); /* the first split; five were read, sixteen at once */
    assert_false(w.late);
    catalog_builder_free(&w.l.builder);
    buf_release(&tar);
}

static void test_archive(void **state)
{
    struct buf tar = BUF_INIT;
    struct world w = tar_world("train/s.tar", LIST("a.jpg", "b.jpg"), &tar);
    struct catalog *c = apply(&w, LAYOUT_ARCHIVE);
    struct catalog_sample s;

    (void)state;
    expect(c, LIST("train/s.tar/a.jpg", "train/s.tar/b.jpg"));
    expect_split(c, "train", 0, 2);
    assert_int_equal(catalog_sample(c, 1, &s, NULL), 0);
    assert_int_equal(s.size, 5);
    assert_memory_equal(tar.data + s.pieces[0].offset, "b.jpg", 5);
    catalog_sample_release(&s);
    catalog_close(&c);
    /* neighbours with the same stem are one sample, unless the user says no */
    w = tar_world("s.tar", LIST("1.jpg", "1.cls", "2.jpg", "2.cls"), &tar);
    c = apply(&w, LAYOUT_ARCHIVE);
    expect(c, LIST("s.tar/1", "s.tar/2"));
    catalog_close(&c);
    w = tar_world("s.tar", LIST("1.jpg", "1.cls"), &tar);
    w.l.group = 0;
    c = apply(&w, LAYOUT_ARCHIVE);
    expect(c, LIST("s.tar/1.jpg", "s.tar/1.cls"));
    catalog_close(&c);
    w = tar_world("s.tar", LIST("../x"), &tar);
    refused(&w, "s.tar");
    w = world_of(LIST("s.tar", "notes"), "");
    w.l.kind = LAYOUT_ARCHIVE;
    refused(&w, "notes is no archive");
    buf_release(&tar);
}

static void test_member_classes(void **state)
{
    static const char *const none[][4] = {
        {"b/1", "a/2", "3"},                     /* one lies in no folder */
        {"b/1", "b/2"},                          /* one folder is no choice */
        {"train/b/1", "test/a/2"},               /* splits are not classes */
        {"b/1.jpg", "b/1.cls", "a/2.jpg", NULL}, /* groups have their own */
    };
    struct buf tar = BUF_INIT;
    struct world w = tar_world("s.tar", LIST("dog/1.jpg", "cat/x/2.jpg", "dog/3.jpg"), &tar);
    struct catalog *c = apply(&w, LAYOUT_ARCHIVE);

    (void)state;
    expect(c, LIST("s.tar/dog/1.jpg=1:dog", "s.tar/cat/x/2.jpg=0:cat", "s.tar/dog/3.jpg=1:dog"));
    catalog_close(&c);
    for (unsigned i = 0; i < DLC_COUNT(none); i++) {
        const char *members[5] = {none[i][0], none[i][1], none[i][2], none[i][3], NULL};

        w = tar_world("s.tar", members, &tar);
        c = apply(&w, LAYOUT_ARCHIVE);
        assert_int_equal(catalog_classes(c), 0);
        catalog_close(&c);
    }
    buf_release(&tar);
}

/* ---- manifests over members of archives ---- */

static void shelf_add(struct world *w, const char *key, const char *const *members)
{
    struct buf *tar = &w->shelf->v[w->shelf->n].tar;

    *tar = (struct buf)BUF_INIT;
    tar_of(members, tar);
    w->shelf->v[w->shelf->n].opens = 0;
    w->shelf->v[w->shelf->n++].key = key;
    assert_int_equal(catalog_builder_add(w->l.builder, key, strlen(key), tar->len, "e", NULL), 0);
}

static void shelf_release(struct shelf *f)
{
    for (unsigned i = 0; i < f->n; i++)
        buf_release(&f->v[i].tar);
    f->n = 0;
}

/* Two archives beside a manifest: a.tar has x/1 and x/2, b.tar has y/1 and x/2. */
static struct world shelf_world(struct shelf *f, const char *manifest)
{
    struct world w = world_of(LIST("manifest.csv", "plain.jpg"), manifest);

    f->n = 0;
    w.shelf = f;
    shelf_add(&w, "s/a.tar", LIST("x/1", "x/2"));
    shelf_add(&w, "s/b.tar", LIST("y/1", "x/2"));
    return w;
}

static void test_members(void **state)
{
    struct shelf f;
    struct world w = shelf_world(&f, "key,label,split\n"
                                     "s/b.tar/x/2,dog,train\n"
                                     "plain.jpg,cat,train\n"
                                     "./y/1,cat,test\n"
                                     "x/1,dog,train\n");
    struct catalog *c = apply(&w, LAYOUT_MANIFEST);
    struct catalog_sample s;

    (void)state;
    expect(c,
           LIST("s/b.tar/x/2=1:dog", "plain.jpg=0:cat", "s/a.tar/x/1=1:dog", "s/b.tar/y/1=0:cat"));
    expect_split(c, "test", 3, 1);
    assert_int_equal(catalog_sample(c, 0, &s, NULL), 0);
    assert_int_equal(s.size, 3);
    assert_memory_equal(f.v[1].tar.data + s.pieces[0].offset, "x/2", 3);
    catalog_sample_release(&s);
    catalog_close(&c);
    shelf_release(&f);
    /* only the archive that rows name is read, and only for rows of the split */
    w = shelf_world(&f, "key,split\ns/a.tar/x/1,train\ns/b.tar/y/1,test\n");
    w.l.split = "train";
    c = apply(&w, LAYOUT_MANIFEST);
    expect(c, LIST("s/a.tar/x/1"));
    assert_int_equal(f.v[0].opens, 1);
    assert_int_equal(f.v[1].opens, 0);
    catalog_close(&c);
    shelf_release(&f);
    /* without a header, and from the folder of the manifest */
    w = shelf_world(&f, "b.tar/y/1,7\nb.tar/x/2,0\n");
    catalog_builder_free(&w.l.builder);
    w.l.builder = catalog_builder_new();
    shelf_release(&f);
    shelf_add(&w, "s/b.tar", LIST("y/1", "x/2"));
    assert_int_equal(catalog_builder_add(w.l.builder, "s/m.csv", 7, w.len, "e", NULL), 0);
    select_manifest(&w, "s/m.csv");
    c = apply(&w, LAYOUT_MANIFEST);
    expect(c, LIST("s/b.tar/y/1=7:7", "s/b.tar/x/2=0:0"));
    catalog_close(&c);
    shelf_release(&f);
}

static void test_bad_members(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"key\nx/1\nx/3\n",
         "line 3: key 'x/3': there is no such object, and no archive has such a member"},
        {"key\ns/a.tar/y/1\n", "line 2: key 'y/1': s/a.tar has no such member"},
        {"key\nx/2\n", "key 'x/2': s/a.tar and s/b.tar have such a member: write ARCHIVE/MEMBER"},
        {"key\nx/1\nx/1\n", "line 3: key 'x/1': the key is there twice"},
        {"key\nx/1\ns/a.tar/x/1\n", "line 3: key 'x/1': the key is there twice"},
        {"key\ns/c.tar/x\nnope\n", "line 2: key 's/c.tar/x': there is no such object, and no "
                                   "archive has such a member (the first of 2 faults)"},
    };

    (void)state;
    for (unsigned i = 0; i < DLC_COUNT(bad); i++) {
        struct shelf f;
        struct world w = shelf_world(&f, bad[i].text);

        refused(&w, bad[i].says);
        shelf_release(&f);
    }
}

/* ---- target files ---- */

static void test_target_files(void **state)
{
    struct shelf f;
    struct world w = shelf_world(&f, "key,label,target_file,split,speaker\n"
                                     "s/a.tar/x/1,dog,y/1,train,ann\n"
                                     "s/b.tar/x/2,cat,y/1,train,ben\n"
                                     "plain.jpg,cat,,test,cid\n"
                                     "s/a.tar/x/2,cat,plain.jpg,train,\n");
    struct catalog *c = apply(&w, LAYOUT_MANIFEST);
    uint64_t t;

    (void)state;
    expect(c,
           LIST("s/a.tar/x/1=1:dog", "s/b.tar/x/2=0:cat", "s/a.tar/x/2=0:cat", "plain.jpg=0:cat"));
    expect_target(c, 0, "s/b.tar/y/1");
    expect_target(c, 1, "s/b.tar/y/1");
    expect_target(c, 2, "plain.jpg");
    assert_int_equal(catalog_target(c, 3, &t, NULL), DLC_ENOTFOUND);
    assert_int_equal(catalog_count(c), 6); /* a target of two samples is there once */
    expect_split(c, "train", 0, 3);
    expect_split(c, "test", 3, 1);
    assert_int_equal(catalog_columns(c), 1);
    expect_cell(c, 1, 0, "ben");
    catalog_close(&c);
    shelf_release(&f);
    /* of one split: the targets of others are not there */
    w = shelf_world(&f, "key,target_path,split\nplain.jpg,x/1,train\ns/a.tar/x/2,y/1,test\n");
    w.l.split = "test";
    c = apply(&w, LAYOUT_MANIFEST);
    expect(c, LIST("s/a.tar/x/2"));
    expect_target(c, 0, "s/b.tar/y/1");
    assert_int_equal(catalog_count(c), 2);
    catalog_close(&c);
    shelf_release(&f);
}

static void test_bad_target_files(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"key,target_file\nplain.jpg,x/9\n",
         "line 2: target_file 'x/9': there is no such object, and no archive has such a member"},
        {"key,Target_File\nplain.jpg,s/a.tar/y\n",
         "line 2: Target_File 'y': s/a.tar has no such member"},
        {"key,target_file\nplain.jpg,manifest.csv\n", "target_file 'manifest.csv': that is the"},
        {"key,target_file\nx/1,y/1\nplain.jpg,\n",
         "line 3: key 'plain.jpg': rows of its split both have a target file and have none"},
    };
    struct world w = world_of(LIST("manifest.csv", "a", "b"), "key,target_file\na,c\n");

    (void)state;
    refused(&w, "line 2: target_file 'c': there is no such object");
    for (unsigned i = 0; i < DLC_COUNT(bad); i++) {
        struct shelf f;

        w = shelf_world(&f, bad[i].text);
        refused(&w, bad[i].says);
        shelf_release(&f);
    }
}

/* ---- selections ---- */

static struct layout_select chosen[8];

/* "train a/", " b/", "=test m.csv", "+train t/": samples, samples of no split, a manifest, targets */
static void choose(struct world *w, const char *const *what)
{
    w->l.n_select = 0;
    w->l.select = chosen;
    for (; *what != NULL; what++) {
        struct layout_select *s = &chosen[w->l.n_select++];
        const char *text = *what, *space;
        static char splits[8][16];

        *s = (struct layout_select){.kind = SELECT_SAMPLES};
        if (*text == '=' || *text == '+')
            s->kind = *text++ == '=' ? SELECT_MANIFEST : SELECT_TARGETS;
        space = strchr(text, ' ');
        snprintf(splits[s - chosen], 16, "%.*s", (int)(space - text), text);
        s->split = splits[s - chosen];
        s->prefix = (char *)(uintptr_t)(space + 1);
        s->shown = s->prefix;
        s->one = strchr(s->prefix, '.') != NULL;
    }
}

static void test_select_samples(void **state)
{
    const char *const *keys = LIST("a/cat/1", "a/dog/2", "b/dog/3", "b2/x/4", "c/cow/5", "d.jpg");
    struct world w = world_of(keys, NULL);
    struct catalog *c;

    (void)state;
    choose(&w, LIST("train b/", "test c/", "train a/"));
    c = apply(&w, LAYOUT_FOLDERS); /* those of one split together, in the order of the selection */
    expect(c, LIST("b/dog/3=2:dog", "a/cat/1=0:cat", "a/dog/2=2:dog", "c/cow/5=1:cow"));
    expect_split(c, "train", 0, 3);
    expect_split(c, "test", 3, 1);
    catalog_close(&c);
    w = world_of(keys, NULL);
    w.l.split = "train";
    choose(&w, LIST("train b/", "test c/", "train a/"));
    c = apply(&w, LAYOUT_FOLDERS);
    expect(c, LIST("b/dog/3=1:dog", "a/cat/1=0:cat", "a/dog/2=1:dog"));
    catalog_close(&c);
    w = world_of(keys, NULL);
    choose(&w, LIST(" d.jpg", " b/dog/"));
    c = apply(&w, LAYOUT_FLAT);
    expect(c, LIST("d.jpg", "b/dog/3"));
    catalog_close(&c);
    /* each of them has splits inside */
    w = world_of(LIST("a/test/1", "a/train/2", "b/train/3", "b/val/4", "z"), NULL);
    choose(&w, LIST(" b/", " a/"));
    c = apply(&w, LAYOUT_FLAT);
    expect(c, LIST("b/train/3", "a/train/2", "b/val/4", "a/test/1"));
    expect_split(c, "train", 0, 2);
    expect_split(c, "validation", 2, 1);
    expect_split(c, "test", 3, 1);
    catalog_close(&c);
}

static void test_select_targets(void **state)
{
    const char *const *keys =
        LIST("m/1.png", "m/s/2.png", "n/3.x", "p/1.jpg", "p/s/2.jpg", "q/3.jpg");
    struct world w = world_of(keys, NULL);
    struct catalog *c;
    uint64_t t;

    (void)state;
    choose(&w, LIST("train p/", "+train m/", "test q/", "+test n/"));
    c = apply(&w, LAYOUT_PAIRS);
    expect(c, LIST("p/1.jpg", "p/s/2.jpg", "q/3.jpg"));
    expect_target(c, 0, "m/1.png");
    expect_target(c, 1, "m/s/2.png");
    expect_target(c, 2, "n/3.x");
    expect_split(c, "test", 2, 1);
    catalog_close(&c);
    w = world_of(keys, NULL);
    choose(&w, LIST("train p/", "+train m/", "test q/"));
    c = apply(&w, LAYOUT_PAIRS); /* no targets are selected for the split test */
    expect_target(c, 1, "m/s/2.png");
    assert_int_equal(catalog_target(c, 2, &t, NULL), DLC_ENOTFOUND);
    catalog_close(&c);
    w = world_of(keys, NULL);
    choose(&w, LIST("train p/", "+train n/"));
    refused(&w, "p/1.jpg has no target of its name");
    w = world_of(LIST("m/1.a", "n/1.b", "p/1.jpg"), NULL);
    choose(&w, LIST(" p/", "+ n/", "+ m/"));
    refused(&w, "p/1.jpg has several targets");
}

static void test_select_manifests(void **state)
{
    const char *const *keys = LIST("t.csv", "v.csv", "a", "b");
    struct world w = world_of(keys, "key,label\na,7\n");
    struct catalog *c;

    (void)state;
    choose(&w, LIST("=train t.csv", "=test v.csv"));
    refused(&w,
            "v.csv, line 2: key 'a': the key is there twice"); /* both have the same rows here */
    w = world_of(keys, "key,label\na,7\n");
    w.l.split = "test";
    choose(&w, LIST("=train t.csv", "=test v.csv"));
    c = apply(&w, LAYOUT_MANIFEST);
    expect(c, LIST("a=7:7"));
    expect_split(c, "test", 0, 1);
    catalog_close(&c);
    w = world_of(keys, "key,split\na,x\n");
    choose(&w, LIST("=train t.csv"));
    refused(&w, "t.csv has a column named split, and is said to be of the split 'train'");
    w = world_of(keys, "key\na\n");
    choose(&w, LIST("=train t.csv", "= v.csv"));
    refused(&w, "v.csv: of several manifests all have splits, or none has");
    w = world_of(keys, "key\na\n");
    choose(&w, LIST("=train u.csv"));
    refused(&w, "the manifest u.csv is not among");
    w = world_of(keys, "key\na\n");
    choose(&w, LIST("=train t.csv", "test b"));
    refused(&w, "'b' of the split test is selected, and no manifest is of that split");
    w = world_of(keys, "key\na\n");
    w.l.split = "val";
    choose(&w, LIST("=train t.csv"));
    refused(&w, "no manifest of the split 'validation'");
}

static void test_bad_selections(void **state)
{
    const char *const *keys = LIST("a/b/1", "a/c/2", "m/1");
    struct dlc_err err = DLC_ERR_INIT;
    struct world w = world_of(keys, NULL);

    (void)state;
    choose(&w, LIST("train a/", "test a/c/"));
    refused(&w, "a/c/2 is below two of the selected prefixes");
    w = world_of(keys, NULL);
    choose(&w, LIST("train a/b/", " a/c/"));
    refused(&w, "with a split and without one");
    w = world_of(keys, NULL);
    choose(&w, LIST("train a/", "test x/"));
    assert_int_equal(layout_apply(&w.l, &err), DLC_ENOTFOUND);
    assert_non_null(strstr(err.text, "no object below 'x/'"));
    catalog_builder_free(&w.l.builder);
}

static int stop(struct layout *l, const char *phase, uint64_t done, uint64_t total)
{
    (void)l, (void)phase, (void)done, (void)total;
    return -1;
}

static void test_stopped(void **state)
{
    struct buf tar = BUF_INIT;
    struct world w = tar_world("s.tar", LIST("a"), &tar);

    (void)state;
    w.l.progress = stop;
    assert_int_equal(layout_apply(&w.l, NULL), DLC_ECANCELED);
    catalog_builder_free(&w.l.builder);
    buf_release(&tar);
}

static void test_names(void **state)
{
    enum layout_kind kind;

    (void)state;
    assert_true(layout_parse("pairs", &kind));
    assert_int_equal(kind, LAYOUT_PAIRS);
    assert_false(layout_parse("pair", &kind));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_csv_forms),
        cmocka_unit_test(test_jsonl),
        cmocka_unit_test(test_bad_manifests),
        cmocka_unit_test(test_missing_manifest),
        cmocka_unit_test(test_archive),
        cmocka_unit_test(test_member_classes),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_bad_members),
        cmocka_unit_test(test_target_files),
        cmocka_unit_test(test_bad_target_files),
        cmocka_unit_test(test_select_samples),
        cmocka_unit_test(test_select_targets),
        cmocka_unit_test(test_select_manifests),
        cmocka_unit_test(test_bad_selections),
        cmocka_unit_test(test_archives_at_once),
        cmocka_unit_test(test_archives_at_once_fail),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
