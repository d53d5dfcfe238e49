// SPDX-License-Identifier: Apache-2.0
/*
 * For the tests of scanners: run one over memory, keep what it found and what it wrote, and put the
 * samples together from their pieces as the daemon does. Checks on the way what every scanner
 * promises: pieces lie inside their object (SAMPLES-1), reads inside the source (SAMPLES-2),
 * failures have a text that names the source.
 */
#ifndef DLC_TESTS_SCANNING_H
#define DLC_TESTS_SCANNING_H

#include "unit.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "catalog/archives/scan.h"

struct kept_sample {
    char *name;
    struct piece *pieces; /* inline bytes are our copy */
    size_t n_pieces;
};

struct scanning {
    struct source source;
    struct scan_sink sink;
    struct scan_limits limits; /* set before run */
    const void *data;
    size_t reads;     /* that the source saw */
    size_t fail_read; /* from 1: the read that fails; 0: none */
    size_t fail_found;
    size_t fail_write;
    size_t writes;
    struct buf derived;
    struct kept_sample *samples;
    size_t n, cap;
    uint64_t skipped;
    struct dlc_err err;
};

static inline int scanning_read(struct source *s, uint64_t off, void *buf, size_t len,
                                struct dlc_err *err)
{
    struct scanning *k = s->priv;

    assert_true(len > 0 && off <= s->size && len <= s->size - off);
    if (++k->reads == k->fail_read)
        return dlc_err_set(err, DLC_EBUCKET, "%s: the bucket failed", s->name);
    memcpy(buf, (const char *)k->data + off, len);
    return 0;
}

static inline int scanning_write(struct scan_sink *sink, const void *data, size_t len,
                                 struct dlc_err *err)
{
    struct scanning *k = dlc_container(sink, struct scanning, sink);

    if (++k->writes == k->fail_write)
        return dlc_err_set(err, DLC_ENOSPACE, "box: the disk is full");
    buf_add(&k->derived, data, len);
    return 0;
}

static inline int scanning_found(struct scan *s, const struct scan_sample *sample,
                                 struct dlc_err *err)
{
    struct scanning *k = s->priv;
    struct kept_sample kept = {mem_strn(sample->name, sample->name_len), NULL, sample->n_pieces};

    assert_true(sample->name_len > 0 && sample->name_len <= SCAN_NAME_MAX);
    assert_int_equal(strlen(kept.name), sample->name_len);
    assert_true(sample->n_pieces > 0 && sample->n_pieces <= SAMPLE_PIECES_MAX);
    kept.pieces = mem_alloc(sample->n_pieces * sizeof(*kept.pieces));
    for (size_t i = 0; i < sample->n_pieces; i++) {
        struct piece p = sample->pieces[i];

        assert_int_equal(p.object, 0);
        if (p.kind == PIECE_OBJECT)
            assert_true(p.offset <= k->source.size && p.length <= k->source.size - p.offset);
        if (p.kind == PIECE_INLINE)
            p.bytes = mem_strn(p.bytes, p.length);
        kept.pieces[i] = p;
    }
    mem_reserve(k->samples, k->n, k->cap);
    k->samples[k->n++] = kept;
    if (k->n == k->fail_found)
        return dlc_err_set(err, DLC_ECANCELED, "box: enough");
    return 0;
}

static inline void scanning_release(struct scanning *k)
{
    for (size_t i = 0; i < k->n; i++) {
        for (size_t p = 0; p < k->samples[i].n_pieces; p++)
            if (k->samples[i].pieces[p].kind == PIECE_INLINE)
                mem_free(&k->samples[i].pieces[p].bytes);
        mem_free(&k->samples[i].pieces);
        mem_free(&k->samples[i].name);
    }
    mem_free(&k->samples);
    buf_release(&k->derived);
    k->n = k->cap = k->reads = k->writes = 0;
}

/* Scan data as `key`, whose suffix picks the scanner. May be called again. */
static inline int scanning_run(struct scanning *k, const char *key, const void *data, size_t len)
{
    const struct scanner *scanner = scanner_of(key);
    struct scan s = {.limits = k->limits, .found = scanning_found, .priv = k};
    int rc;

    scanning_release(k);
    assert_non_null(scanner);
    k->err = (struct dlc_err)DLC_ERR_INIT;
    k->data = data;
    k->source = (struct source){key, len, scanning_read, k};
    k->sink.write = scanning_write;
    s.source = &k->source;
    s.sink = scanner->derives ? &k->sink : NULL;
    rc = scanner->run(&s, &k->err);
    k->skipped = s.skipped;
    if (rc == 0) {
        assert_int_equal(s.derived_size, k->derived.len);
        for (size_t i = 0; i < k->n; i++)
            for (size_t p = 0; p < k->samples[i].n_pieces; p++) {
                const struct piece *at = &k->samples[i].pieces[p];

                if (at->kind == PIECE_DERIVED)
                    assert_true(at->offset <= k->derived.len &&
                                at->length <= k->derived.len - at->offset);
            }
    } else {
        assert_true(rc < 0);
        assert_int_equal(k->err.code, rc);
        assert_true(strncmp(k->err.text, key, strlen(key)) == 0 ||
                    strncmp(k->err.text, "box", 3) == 0);
    }
    return rc;
}

/* The bytes of sample i. Gives a buffer that the next call reuses. */
static inline const struct buf *scanning_bytes(const struct scanning *k, size_t i)
{
    static struct buf b = BUF_INIT;

    assert_true(i < k->n);
    buf_clear(&b);
    for (size_t p = 0; p < k->samples[i].n_pieces; p++) {
        const struct piece *at = &k->samples[i].pieces[p];

        if (at->kind == PIECE_INLINE)
            buf_add(&b, at->bytes, at->length);
        else if (at->kind == PIECE_OBJECT)
            buf_add(&b, (const char *)k->data + at->offset, at->length);
        else
            buf_add(&b, k->derived.data + at->offset, at->length);
    }
    return &b;
}

static inline void scanning_expect(const struct scanning *k, size_t i, const char *name,
                                   const char *text)
{
    assert_true(i < k->n);
    assert_string_equal(k->samples[i].name, name);
    assert_string_equal(buf_str(scanning_bytes(k, i)), text);
}

/* What a Python program writes to the file OUT; it has tarfile, zipfile, gzip, bz2, lzma, io. */
static inline void scanning_make(struct buf *out, const char *program)
{
    char path[256], script[256];
    char *command, *whole;

    unit_path("made", path);
    unit_path("make.py", script);
    whole = mem_fmt("import tarfile, zipfile, gzip, bz2, lzma, io, struct\nOUT = '%s'\n%s\n", path,
                    program);
    assert_int_equal(os_write_file(script, whole, strlen(whole), 0600, NULL), 0);
    command = mem_fmt("exec python3 '%s'", script);
    assert_int_equal(system(command), 0);
    buf_clear(out);
    assert_int_equal(os_read_file(path, SIZE_MAX, out, NULL), 0);
    mem_free(&command);
    mem_free(&whole);
}

/* Cut at every place (or at about `steps` places of a larger one) it fails with ECORRUPT or
 * EINVAL, and the source is exactly as large as what is left, so that a sanitizer sees more. */
static inline void scanning_cut_everywhere(struct scanning *k, const char *key,
                                           const struct buf *whole, size_t steps)
{
    for (size_t len = 0; len < whole->len; len += DLC_MAX(whole->len / steps, 1u)) {
        char *part = mem_alloc(len);
        int rc;

        memcpy(part, whole->data, len);
        rc = scanning_run(k, key, part, len);
        if (rc != DLC_ECORRUPT && rc != DLC_EINVAL)
            fail_msg("%s cut at %zu of %zu: %d", key, len, whole->len, rc);
        mem_free(&part);
    }
}

/* Whichever read, write, allocation or call of found() fails, the scan fails with its code. */
static inline void scanning_fail_everywhere(struct scanning *k, const char *key,
                                            const struct buf *whole)
{
    bool fired = true;
    size_t n;

    assert_int_equal(scanning_run(k, key, whole->data, whole->len), 0);
    n = k->reads;
    for (k->fail_read = 1; k->fail_read <= n; k->fail_read++)
        assert_int_equal(scanning_run(k, key, whole->data, whole->len), DLC_EBUCKET);
    k->fail_read = 0;
    assert_int_equal(scanning_run(k, key, whole->data, whole->len), 0);
    n = k->n;
    for (k->fail_found = 1; k->fail_found <= n; k->fail_found++)
        assert_int_equal(scanning_run(k, key, whole->data, whole->len), DLC_ECANCELED);
    k->fail_found = 0;
    assert_int_equal(scanning_run(k, key, whole->data, whole->len), 0);
    n = k->writes;
    for (k->fail_write = 1; k->fail_write <= n; k->fail_write++)
        assert_int_equal(scanning_run(k, key, whole->data, whole->len), DLC_ENOSPACE);
    k->fail_write = 0;
    for (int nth = 1; fired; nth++) {
        int rc;

        fault_arm(FAULT_ALLOC, nth);
        rc = scanning_run(k, key, whole->data, whole->len);
        fired = fault_disarm();
        assert_int_equal(rc, fired ? DLC_ENOMEM : 0);
    }
}

#endif
