// SPDX-License-Identifier: Apache-2.0
#include "catalog/manifest_refs_i.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

static bool is_archive(const char *key)
{
    const struct scanner *s = scanner_of(key);

    return s != NULL && !s->tabular;
}

void refs_init(struct refs *r, struct plan *p)
{
    *r = (struct refs){.p = p, .last = UINT64_MAX - 1, .names = BUF_INIT};
    r->wanted = mem_zero(p->n / 8 + 1);
    for (uint64_t j = 0; j < p->n; j++) {
        struct catalog_object o;

        catalog_builder_object(p->l->builder, j, &o);
        r->n_archives += is_archive(o.key);
    }
}

void refs_release(struct refs *r)
{
    buf_release(&r->names);
    mem_free(&r->members);
    map_release(&r->seen);
    mem_free(&r->wanted);
}

struct member_ref *refs_member(struct refs *r, uint64_t ref)
{
    dlc_check((ref & REF_MEMBER) != 0 && (ref & ~REF_MEMBER) < r->n);
    return &r->members[ref & ~REF_MEMBER];
}

/* ---- names of objects ---- */

/* From the manifest's own folder, from the root, or the whole key. */
static bool find_object(struct refs *r, struct catalog_text t, uint64_t *j)
{
    struct catalog_builder *b = r->p->l->builder;
    struct catalog_object m;
    const char *slash;
    size_t folder, root = strlen(r->p->l->root);
    char key[2 * CATALOG_KEY_MAX + 1];

    if (t.len == 0 || t.len > CATALOG_KEY_MAX || root > CATALOG_KEY_MAX)
        return false;
    catalog_builder_object(b, r->manifest, &m);
    slash = strrchr(m.key, '/');
    folder = slash == NULL ? 0 : (size_t)(slash + 1 - m.key);
    memcpy(key, m.key, folder);
    memcpy(key + folder, t.s, t.len);
    if (r->last + 1 < r->p->n) {
        struct catalog_object next;

        catalog_builder_object(b, r->last + 1, &next);
        if (next.key_len == folder + t.len && memcmp(next.key, key, next.key_len) == 0) {
            *j = ++r->last;
            return true;
        }
    }
    if (catalog_builder_find(b, key, folder + t.len, j) < 0) {
        memcpy(key, r->p->l->root, root);
        memcpy(key + root, t.s, t.len);
        if (catalog_builder_find(b, key, root + t.len, j) < 0 &&
            catalog_builder_find(b, t.s, t.len, j) < 0)
            return false;
    }
    r->last = *j;
    return true;
}

static struct catalog_text without_dot(struct catalog_text t)
{
    while (t.len > 2 && t.s[0] == '.' && t.s[1] == '/') {
        t.s += 2;
        t.len -= 2;
    }
    return t;
}

/* ---- names of members ---- */

/* ARCHIVE/MEMBER: the archive, and the member as what is left of *t. */
static bool find_archive(struct refs *r, struct catalog_text *t, uint64_t *archive)
{
    uint64_t last = r->last;

    for (size_t n = 1; n + 1 < t->len && n <= CATALOG_KEY_MAX; n++) {
        char key[CATALOG_KEY_MAX + 1];

        if (t->s[n] != '/')
            continue;
        memcpy(key, t->s, n);
        key[n] = '\0';
        if (!is_archive(key) || !find_object(r, (struct catalog_text){key, n}, archive))
            continue;
        r->last = last;
        *t = (struct catalog_text){t->s + n + 1, t->len - n - 1};
        return true;
    }
    return false;
}

/* The number of a reference, or where a new one goes in the map. */
static size_t seek_member(const struct refs *r, uint64_t archive, const char *s, size_t len,
                          uint64_t *slot)
{
    uint64_t h = hash64(s, len) ^ (archive + 1) * 0x9e3779b97f4a7c15u;
    uintptr_t at;

    while ((at = (uintptr_t)map_get(&r->seen, h)) != 0) {
        const struct member_ref *m = &r->members[at - 1];

        if (m->archive == archive && m->len == len && memcmp(r->names.data + m->name, s, len) == 0)
            return at - 1;
        h++;
    }
    *slot = h;
    return SIZE_MAX;
}

static void want(struct refs *r, uint64_t archive)
{
    if (archive == REF_NONE)
        r->all = true;
    else
        r->wanted[archive / 8] = (unsigned char)(r->wanted[archive / 8] | 1 << archive % 8);
}

static uint64_t member_ref_of(struct refs *r, uint64_t archive, struct catalog_text t,
                              uint64_t line, const char *column)
{
    uint64_t slot = 0;
    size_t at = seek_member(r, archive, t.s, t.len, &slot);

    if (at == SIZE_MAX) {
        at = r->n;
        mem_reserve(r->members, r->n, r->cap);
        r->members[r->n++] = (struct member_ref){.archive = archive,
                                                 .name = r->names.len,
                                                 .len = t.len,
                                                 .manifest = r->manifest,
                                                 .line = line,
                                                 .column = column,
                                                 .also_in = REF_NONE,
                                                 .same = SIZE_MAX};
        buf_add(&r->names, t.s, t.len);
        map_set(&r->seen, slot, (void *)(uintptr_t)r->n);
        want(r, archive);
    }
    return REF_MEMBER | at;
}

bool refs_is_known(struct refs *r, struct catalog_text t)
{
    uint64_t j;

    t = without_dot(t);
    return find_object(r, t, &j) || find_archive(r, &t, &j);
}

bool refs_find(struct refs *r, struct catalog_text t, uint64_t line, const char *column,
               uint64_t *ref)
{
    uint64_t archive = REF_NONE;

    t = without_dot(t);
    if (find_object(r, t, ref))
        return true;
    if (r->n_archives == 0 || t.len == 0 || t.len > SCAN_NAME_MAX)
        return false;
    find_archive(r, &t, &archive);
    *ref = member_ref_of(r, archive, t, line, column);
    return true;
}

/* ---- reading archives ---- */

static bool is_wanted(const struct member_sink *k, uint64_t j)
{
    const struct refs *r = k->priv;
    struct catalog_object o;

    if (!r->all)
        return (r->wanted[j / 8] >> j % 8 & 1) != 0;
    catalog_builder_object(r->p->l->builder, j, &o);
    return is_archive(o.key);
}

/* The last member of a name counts, as when the archive is unpacked. */
static size_t found_as(struct refs *r, uint64_t archive, const char *name, size_t len,
                       const struct piece *piece)
{
    uint64_t slot;
    size_t at = seek_member(r, archive, name, len, &slot);
    struct member_ref *m;

    if (at == SIZE_MAX)
        return at;
    m = &r->members[at];
    if (m->found && m->piece.object != piece->object)
        m->also_in = m->piece.object;
    m->piece = *piece;
    m->found = true;
    return at;
}

static int on_member(const struct member_sink *k, const char *name, size_t len,
                     const struct piece *piece, struct dlc_err *err)
{
    struct refs *r = k->priv;
    size_t named = found_as(r, piece->object, name, len, piece);
    size_t any = found_as(r, REF_NONE, name, len, piece);

    (void)err;
    if (named != SIZE_MAX && any != SIZE_MAX) {
        r->members[named].same = any;
        r->members[any].same = named;
    }
    return 0;
}

int refs_read_archives(struct refs *r, struct dlc_err *err)
{
    struct member_sink sink = {.wants = is_wanted, .found = on_member, .priv = r};

    return r->n == 0 ? 0 : layout_read_members(r->p, &sink, err);
}

int refs_add_sample(struct refs *r, uint64_t ref, struct catalog_new_sample *s, struct dlc_err *err)
{
    struct catalog_builder *b = r->p->l->builder;
    struct buf name = BUF_INIT;
    struct member_ref *m;
    struct catalog_object o;
    int rc;

    if ((ref & REF_MEMBER) == 0) {
        s->object = ref;
        return catalog_builder_sample(b, s, err);
    }
    m = refs_member(r, ref);
    dlc_check(m->found);
    catalog_builder_object(b, m->piece.object, &o);
    buf_add(&name, o.key, o.key_len);
    buf_addc(&name, '/');
    buf_add(&name, r->names.data + m->name, m->len);
    s->name = buf_str(&name);
    s->name_len = name.len;
    s->pieces = &m->piece;
    s->n_pieces = 1;
    rc = catalog_builder_sample(b, s, err);
    buf_release(&name);
    return rc;
}
