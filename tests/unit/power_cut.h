// SPDX-License-Identifier: Apache-2.0
/*
 * Power cuts: what a disk may hold after the power failed at any moment of a run.
 *
 * While a test runs, the tree below one directory is looked at before each system call of its
 * thread (fault_observe()). The differences are the operations: names that came, went or moved, and
 * bytes of files that changed, be it by write() or through a mapping. fsync() is one too.
 *
 * A cut after the nth operation leaves
 *     - every change of a directory that was synced since, and any subset of the others; a rename
 *       is one change, and lasts when either directory was synced;
 *     - of each file the bytes as they were synced last, and of later changes any: none, all, the
 *       size alone (which reads as zeros), or any of its sectors of 512 bytes.
 * Changes that one file system would never lose without losing others are tried all the same: the
 * promise is about all of them.
 *
 * cut_each() makes such trees, one after the other: all subsets where few changes are open, some of
 * them by a seed beyond that.
 */
#ifndef DLC_TESTS_POWER_CUT_H
#define DLC_TESTS_POWER_CUT_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/rng.h"

enum { CUT_NAMES = 512, CUT_NODES = 512, CUT_OPS = 4096, CUT_SECTOR = 512 };

/* All subsets of so many open changes are tried, and so many of more; main() may raise them. */
static unsigned cut_all_of = 3, cut_some = 8;

/* A file or directory, by its inode for as long as that has a name or an open descriptor. */
struct cut_node {
    ino_t ino;
    bool is_dir, has_name;
    unsigned char *data; /* as seen last */
    size_t len;
};

struct cut_name {
    int dir, node; /* numbers of nodes; -1: none */
    char name[256];
    bool seen;
};

enum cut_kind { CUT_LINK, CUT_UNLINK, CUT_RENAME, CUT_DATA, CUT_SYNC, CUT_MARK };

struct cut_op {
    enum cut_kind kind;
    int node;
    int dir, to_dir;
    char name[256], to[256];
    unsigned char *data; /* DATA: all of it */
    size_t len;
    int mark;
};

static struct cut {
    char root[256];
    struct cut_node nodes[CUT_NODES];
    unsigned n_nodes;
    struct cut_name names[CUT_NAMES];
    unsigned n_names;
    struct cut_op ops[CUT_OPS];
    unsigned n_ops;
    pid_t thread;
} cut;

/* ---- recording ---- */

static inline struct cut_op *cut_add(enum cut_kind kind, int node)
{
    struct cut_op *o = &cut.ops[cut.n_ops++];

    assert_true(cut.n_ops < CUT_OPS);
    *o = (struct cut_op){.kind = kind, .node = node, .dir = -1, .to_dir = -1};
    return o;
}

static inline int cut_node_of(ino_t ino)
{
    for (unsigned i = cut.n_nodes; i-- > 0;)
        if (cut.nodes[i].ino == ino)
            return (int)i;
    return -1;
}

static inline int cut_node_new(ino_t ino, bool is_dir)
{
    assert_true(cut.n_nodes < CUT_NODES);
    cut.nodes[cut.n_nodes] = (struct cut_node){.ino = ino, .is_dir = is_dir, .has_name = true};
    return (int)cut.n_nodes++;
}

/* The bytes of a file changed: a DATA. */
static inline void cut_see_data(int node, const char *path, size_t len)
{
    struct cut_node *n = &cut.nodes[node];
    unsigned char *data = mem_alloc(len + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct cut_op *o;

    assert_true(fd >= 0 && read(fd, data, len) == (ssize_t)len);
    close(fd);
    if (len == n->len && (len == 0 || memcmp(data, n->data, len) == 0)) {
        mem_free(&data);
        return;
    }
    n->data = data; /* the op's, too: never freed before the end */
    n->len = len;
    o = cut_add(CUT_DATA, node);
    o->data = data;
    o->len = len;
}

static inline void cut_see_name(int dir, const char *name, int node)
{
    struct cut_name *free_one = NULL, *old = NULL;
    struct cut_op *o;

    for (unsigned i = 0; i < cut.n_names; i++) {
        struct cut_name *n = &cut.names[i];

        if (n->node >= 0 && n->dir == dir && strcmp(n->name, name) == 0)
            old = n;
        if (n->node < 0)
            free_one = n;
    }
    if (old != NULL && old->node == node) {
        old->seen = true;
        return;
    }
    o = cut_add(CUT_LINK, node); /* or RENAME: cut_look() sees that another name went */
    o->dir = dir;
    snprintf(o->name, sizeof(o->name), "%s", name);
    if (old == NULL)
        old = free_one != NULL ? free_one : &cut.names[cut.n_names++];
    assert_true(cut.n_names < CUT_NAMES);
    *old = (struct cut_name){.dir = dir, .node = node, .seen = true};
    snprintf(old->name, sizeof(old->name), "%s", name);
}

static inline void cut_walk(int dir, const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;

    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        struct stat st;
        char *below;
        int node;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        below = mem_fmt("%s/%s", path, e->d_name);
        assert_int_equal(lstat(below, &st), 0);
        node = cut_node_of(st.st_ino);
        if (node < 0 || !cut.nodes[node].has_name) /* the number of a file that is gone */
            node = cut_node_new(st.st_ino, S_ISDIR(st.st_mode));
        cut_see_name(dir, e->d_name, node);
        if (S_ISDIR(st.st_mode))
            cut_walk(node, below);
        else
            cut_see_data(node, below, (size_t)st.st_size);
        mem_free(&below);
    }
    closedir(d);
}

/* Names that were not seen went. One that came for the same file in this look makes it a rename. */
static inline void cut_sweep(unsigned first_op)
{
    for (unsigned i = 0; i < cut.n_names; i++) {
        struct cut_name *n = &cut.names[i];
        struct cut_op *o = NULL;

        if (n->node < 0 || n->seen)
            continue;
        for (unsigned k = first_op; k < cut.n_ops; k++)
            if (cut.ops[k].kind == CUT_LINK && cut.ops[k].node == n->node)
                o = &cut.ops[k];
        if (o != NULL) {
            o->kind = CUT_RENAME;
            o->to_dir = o->dir;
            memcpy(o->to, o->name, sizeof(o->to));
        } else {
            o = cut_add(CUT_UNLINK, n->node);
        }
        o->dir = n->dir;
        memcpy(o->name, n->name, sizeof(o->name));
        n->node = -1;
    }
}

static inline void cut_look(void)
{
    unsigned first_op = cut.n_ops;

    for (unsigned i = 0; i < cut.n_names; i++)
        cut.names[i].seen = false;
    cut_walk(0, cut.root);
    cut_sweep(first_op);
    for (unsigned i = 1; i < cut.n_nodes; i++)
        cut.nodes[i].has_name = false;
    for (unsigned i = 0; i < cut.n_names; i++)
        if (cut.names[i].node >= 0)
            cut.nodes[cut.names[i].node].has_name = true;
}

static inline void cut_observe(enum fault_call call, int fd)
{
    const uint64_t changes = FAULT_CALL(write) | FAULT_CALL(rename) | FAULT_CALL(link) |
                             FAULT_CALL(unlink) | FAULT_CALL(fsync) | FAULT_CALL(ftruncate) |
                             FAULT_CALL(fallocate) | FAULT_CALL(mkdir) | FAULT_CALL(open) |
                             FAULT_CALL(munmap) | FAULT_CALL(close);
    struct stat st;

    if (gettid() != cut.thread || (changes & (uint64_t)1 << call) == 0)
        return;
    cut_look();
    if (call == CALL_fsync) {
        assert_int_equal(fstat(fd, &st), 0);
        if (cut_node_of(st.st_ino) >= 0)
            cut_add(CUT_SYNC, cut_node_of(st.st_ino));
    }
}

/* What lies below it now has been synced. */
static inline void cut_begin(const char *dir)
{
    struct stat st;

    memset(&cut, 0, sizeof(cut));
    snprintf(cut.root, sizeof(cut.root), "%s", dir);
    assert_int_equal(stat(dir, &st), 0);
    cut_node_new(st.st_ino, true);
    cut_look();
    for (unsigned i = 0; i < cut.n_nodes; i++)
        cut_add(CUT_SYNC, (int)i);
    cut.thread = gettid();
    fault_observe(cut_observe);
}

/* From here on the test knows something more. */
static inline void cut_mark(int mark)
{
    if (cut.thread == 0)
        return; /* nothing is recorded */
    cut_look();
    cut_add(CUT_MARK, -1)->mark = mark;
}

static inline void cut_end(void)
{
    cut_look();
    fault_observe(NULL);
    cut.thread = 0;
}

static inline void cut_release(void)
{
    for (unsigned i = 0; i < cut.n_ops; i++)
        mem_free(&cut.ops[i].data);
}

/* ---- replaying ---- */

struct cut_tree {
    struct cut_name names[CUT_NAMES];
    unsigned n;
};

static inline void cut_set_name(struct cut_tree *t, int dir, const char *name, int node)
{
    unsigned i = 0;

    while (i < t->n && (t->names[i].dir != dir || strcmp(t->names[i].name, name) != 0))
        i++;
    assert_true(i < CUT_NAMES);
    t->n += i == t->n;
    t->names[i] = (struct cut_name){.dir = dir, .node = node};
    snprintf(t->names[i].name, sizeof(t->names[i].name), "%s", name);
}

static inline void cut_apply(struct cut_tree *t, const struct cut_op *o)
{
    if (o->kind != CUT_LINK)
        cut_set_name(t, o->dir, o->name, -1);
    else
        cut_set_name(t, o->dir, o->name, o->node);
    if (o->kind == CUT_RENAME)
        cut_set_name(t, o->to_dir, o->to, o->node);
}

static inline bool cut_is_change(const struct cut_op *o)
{
    return o->kind == CUT_LINK || o->kind == CUT_UNLINK || o->kind == CUT_RENAME;
}

/* Was the directory, or either, synced after the op and before the cut? */
static inline bool cut_lasts(unsigned op, unsigned end)
{
    for (unsigned i = op + 1; i < end; i++)
        if (cut.ops[i].kind == CUT_SYNC &&
            (cut.ops[i].node == cut.ops[op].dir || cut.ops[i].node == cut.ops[op].to_dir))
            return true;
    return false;
}

enum cut_bytes { BYTES_OLD, BYTES_NEW, BYTES_ZERO, BYTES_TORN, N_BYTES };

/* Bytes of a file after the cut. */
static inline void cut_write(int fd, int node, unsigned end, enum cut_bytes how, struct rng *r)
{
    const struct cut_op *old = NULL, *new = NULL;
    size_t len;

    for (unsigned i = 0; i < end; i++) {
        if (cut.ops[i].kind == CUT_DATA && cut.ops[i].node == node)
            new = &cut.ops[i];
        if (cut.ops[i].kind == CUT_SYNC && cut.ops[i].node == node)
            old = new;
    }
    if (new == NULL)
        return;
    if (how == BYTES_OLD)
        new = old;
    len = new == NULL ? 0 : new->len;
    if (how == BYTES_TORN && new != old && rng_below(r, 4) == 0)
        len = rng_below(r, len / CUT_SECTOR + 1) * CUT_SECTOR;
    assert_int_equal(ftruncate(fd, (off_t)len), 0);
    for (size_t at = 0; at < len; at += CUT_SECTOR) {
        const struct cut_op *from = new;
        size_t n = DLC_MIN(len - at, (size_t)CUT_SECTOR);

        if (new != old && (how == BYTES_ZERO || (how == BYTES_TORN && rng_below(r, 2) == 0)))
            from = old;
        if (from != NULL && at < from->len)
            n = DLC_MIN(n, from->len - at);
        else
            continue; /* zeros */
        assert_int_equal(pwrite(fd, from->data + at, n, (off_t)at), n);
    }
}

static inline void cut_make(const struct cut_tree *t, int dir, const char *path, unsigned end,
                            enum cut_bytes how, struct rng *r)
{
    for (unsigned i = 0; i < t->n; i++) {
        const struct cut_name *n = &t->names[i];
        char *below;

        if (n->dir != dir || n->node < 0)
            continue;
        below = mem_fmt("%s/%s", path, n->name);
        if (cut.nodes[n->node].is_dir) {
            assert_int_equal(mkdir(below, 0700), 0);
            cut_make(t, n->node, below, end, how, r);
        } else {
            int fd = open(below, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

            assert_true(fd >= 0);
            cut_write(fd, n->node, end, how, r);
            close(fd);
        }
        mem_free(&below);
    }
}

/* One tree: the changes whose bit is set are kept, of those that did not last. */
static inline void cut_one(const char *where, unsigned end, uint64_t kept, enum cut_bytes how,
                           uint64_t seed)
{
    static struct cut_tree t;
    struct rng r = {seed};
    unsigned k = 0;

    t.n = 0;
    for (unsigned i = 0; i < end; i++)
        if (cut_is_change(&cut.ops[i]) && (cut_lasts(i, end) || (kept >> (k++ % 64) & 1) != 0))
            cut_apply(&t, &cut.ops[i]);
    os_rmtree(where);
    assert_int_equal(mkdir(where, 0700), 0);
    cut_make(&t, 0, where, end, how, &r);
}

static inline unsigned cut_open_changes(unsigned end)
{
    unsigned n = 0;

    for (unsigned i = 0; i < end; i++)
        n += cut_is_change(&cut.ops[i]) && !cut_lasts(i, end);
    return n;
}

/*
 * After each operation, trees below `where`, and check() of each with the last mark before the cut.
 * Returns how many trees there were.
 */
static inline unsigned cut_each(const char *where, void (*check)(const char *where, int mark))
{
    unsigned trees = 0;
    struct rng r = {7};
    int mark = 0;

    for (unsigned end = 1; end <= cut.n_ops; end++) {
        unsigned n = cut_open_changes(end);
        uint64_t subsets = n <= cut_all_of ? (uint64_t)1 << n : cut_some;

        if (cut.ops[end - 1].kind == CUT_MARK)
            mark = cut.ops[end - 1].mark;
        for (uint64_t k = 0; k < subsets; k++) {
            uint64_t kept = n <= cut_all_of ? k : rng_next(&r);

            if (n > cut_all_of && k < 2) /* none, and all */
                kept = k == 0 ? 0 : UINT64_MAX;
            for (int how = 0; how < N_BYTES; how++, trees++) {
                cut_one(where, end, kept, (enum cut_bytes)how, rng_next(&r));
                check(where, mark);
            }
        }
    }
    os_rmtree(where);
    return trees;
}

/* "long": some thousand trees more; for main(). */
static inline void cut_arguments(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "long") == 0) {
        cut_all_of = 7;
        cut_some = 200;
    }
}

#endif
