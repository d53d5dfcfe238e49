// SPDX-License-Identifier: Apache-2.0
/*
 * Reading a catalog.
 *
 * Opening verifies the header, the bounds of its sections and the URL, and touches nothing else, so
 * that ten million samples open in no time. A block is verified whenever it is used: its checksum
 * is seeded with its number, so a damaged row of the block table is found as well. Decoding
 * allocates nothing and never reads outside the mapping, whatever the bytes are.
 *
 * A file that is mapped must not shrink: it is replaced by renaming, never written again. The
 * daemon, which must survive a truncated file or a failed disk, loads it into sealed memory, and
 * passes that to its clients.
 *
 * Not here: samples, labels and the like (read_samples.c), writing (write.c), the bytes
 * (format_i.h).
 */
#include "catalog/catalog_i.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/syscalls.h"

#define PIECE ((uint64_t)1 << 20)

int catalog_corrupt(struct dlc_err *err, const char *what)
{
    return dlc_err_set(err, DLC_ECORRUPT, "catalog is damaged: %s; make it again", what);
}

static int check_header(const struct catalog_header *h, uint64_t size, struct dlc_err *err)
{
    if (h->magic != CATALOG_MAGIC)
        return dlc_err_set(err, DLC_ECORRUPT, "not a catalog: it does not begin like one");
    if (h->ver_major != CATALOG_MAJOR)
        return dlc_err_set(err, DLC_ECORRUPT,
                           "catalog is of version %u, this program reads version %d; make it again",
                           h->ver_major, CATALOG_MAJOR);
    if (h->checksum != catalog_header_checksum(h))
        return catalog_corrupt(err, "wrong checksum of its header");
    if (h->file_size != size)
        return catalog_corrupt(err, "it is shorter or longer than it should be");
    if (h->block_entries != CATALOG_BLOCK)
        return catalog_corrupt(err, "unknown size of blocks");
    return 0;
}

/* Where a known section goes; NULL: unknown. */
static struct catalog_section *place_of(struct catalog *c, uint32_t id,
                                        struct catalog_section *small)
{
    switch (id) {
    case CATALOG_SEC_ENTRIES: return &c->objects.data;
    case CATALOG_SEC_BLOCKS: return &c->objects.table;
    case CATALOG_SEC_URL: return small;
    case CATALOG_SEC_SAMPLES: return &c->samples.data;
    case CATALOG_SEC_SAMPLE_BLOCKS: return &c->samples.table;
    case CATALOG_SEC_NAMES: return &c->names;
    case CATALOG_SEC_INLINE: return &c->inlined;
    case CATALOG_SEC_DERIVED: return &c->derived;
    case CATALOG_SEC_LABELS: return &c->labels;
    case CATALOG_SEC_TEXTS: return &c->texts.data;
    case CATALOG_SEC_TEXT_BLOCKS: return &c->texts.table;
    case CATALOG_SEC_SPLITS: return &c->small;
    case CATALOG_SEC_TARGETS: return &c->targets;
    default: return NULL;
    }
}

static int load_sections(struct catalog *c, struct dlc_err *err)
{
    struct catalog_section url = {.id = 0}, *place;

    for (unsigned i = 0; i < CATALOG_SECTIONS; i++) {
        const struct catalog_section *s = &c->h.sections[i];

        place = place_of(c, s->id, &url);
        if (place == NULL)
            continue;
        if (place->id != 0 || s->off > c->h.file_size || s->len > c->h.file_size - s->off)
            return catalog_corrupt(err, "a section is there twice or lies outside of it");
        *place = *s;
    }
    if (c->objects.data.id == 0 || c->objects.table.id == 0 || url.id == 0)
        return catalog_corrupt(err, "a section is missing");
    if (!catalog_blocks_fit(&c->objects, c->h.n_objects, CATALOG_BLOCK_MAX))
        return catalog_corrupt(err, "the block table has the wrong length");
    if (url.len > CATALOG_URL_MAX || XXH3_64bits(c->map + url.off, url.len) != url.checksum)
        return catalog_corrupt(err, "wrong checksum of its URL");
    c->url = mem_strn((const char *)c->map + url.off, url.len);
    return catalog_load_samples(c, err);
}

/* Takes *fd, also on failure. */
static int open_taking(int *fd, struct catalog **out, struct dlc_err *err)
{
    struct catalog *c = mem_new(struct catalog);
    struct stat st;
    int rc;

    *out = NULL;
    c->tag = CATALOG_TAG;
    c->fd = *fd;
    *fd = -1;
    if (os_fstat(c->fd, &st) < 0) {
        rc = dlc_err_sys(err, "cannot look at the catalog");
        goto out;
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size < sizeof(c->h)) {
        rc = catalog_corrupt(err, "it is too short");
        goto out;
    }
    c->h.file_size = (uint64_t)st.st_size; /* what is unmapped when we fail below */
    c->map = os_map(c->fd, 0, (size_t)st.st_size, false);
    if (c->map == NULL) {
        rc = dlc_err_sys(err, "cannot map the catalog");
        goto out;
    }
    memcpy(&c->h, c->map, sizeof(c->h));
    rc = check_header(&c->h, (uint64_t)st.st_size, err);
    c->h.file_size = (uint64_t)st.st_size;
    if (rc == 0)
        rc = load_sections(c, err);
out:
    if (rc == 0)
        *out = c;
    else
        catalog_close(&c);
    return rc;
}

char *catalog_path(const char *dir, const char *const *parts, size_t n)
{
    struct name_hash h = name_hash_of(parts, n);

    return mem_fmt("%s/catalogs/%016llx%016llx.cat", dir, (unsigned long long)h.hi,
                   (unsigned long long)h.lo);
}

int catalog_open(const char *path, struct catalog **out, struct dlc_err *err)
{
    struct dlc_err mine = DLC_ERR_INIT;
    int fd = os_open(path, O_RDONLY, 0), rc;

    *out = NULL;
    if (fd < 0)
        return dlc_err_sys(err, "cannot open catalog %s", path);
    rc = open_taking(&fd, out, &mine);
    if (rc < 0)
        dlc_err_set(err, rc, "%s: %s", path, mine.text);
    return rc;
}

/* Gives a descriptor of sealed memory with the bytes of the file, or DLC_E*. */
static int copy_sealed(int fd, struct dlc_err *err)
{
    int to = os_memfd("dlcache-catalog"), rc = 0;
    uint64_t size = 0;
    struct stat st;
    char *piece = mem_alloc(PIECE);

    if (to < 0 || os_fstat(fd, &st) < 0) {
        rc = dlc_err_sys(err, "no memory for the catalog");
        goto out;
    }
    size = (uint64_t)st.st_size;
    for (uint64_t at = 0; at < size && rc == 0; at += PIECE) {
        size_t len = (size_t)DLC_MIN(size - at, PIECE);

        if (os_pread_all(fd, piece, len, at) < 0)
            rc = dlc_err_sys(err, "cannot read the catalog");
        else if (os_pwrite_all(to, piece, len, at) < 0)
            rc = dlc_err_sys(err, "no memory for the catalog");
    }
    if (rc == 0 &&
        os_fcntl(to, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        rc = dlc_err_sys(err, "cannot seal the catalog's memory");
out:
    mem_free(&piece);
    if (rc < 0)
        os_close(&to);
    return rc < 0 ? rc : to;
}

/* Every byte was just read: look at them all. */
static int verify_sections(const struct catalog *c, struct dlc_err *err)
{
    for (unsigned i = 0; i < CATALOG_SECTIONS; i++) {
        const struct catalog_section *s = &c->h.sections[i];

        if (s->id != 0 && (s->off > c->h.file_size || s->len > c->h.file_size - s->off ||
                           XXH3_64bits(c->map + s->off, s->len) != s->checksum))
            return catalog_corrupt(err, "wrong checksum of a section");
    }
    return 0;
}

int catalog_load(const char *path, struct catalog **out, struct dlc_err *err)
{
    struct dlc_err mine = DLC_ERR_INIT;
    int fd = os_open(path, O_RDONLY, 0), copy, rc;

    *out = NULL;
    if (fd < 0)
        return dlc_err_sys(err, "cannot open catalog %s", path);
    rc = copy = copy_sealed(fd, &mine);
    os_close(&fd);
    if (copy >= 0)
        rc = open_taking(&copy, out, &mine);
    if (rc == 0)
        rc = verify_sections(*out, &mine); /* and no page fault is left for the event loop */
    if (rc < 0) {
        catalog_close(out);
        return dlc_err_set(err, rc, "%s: %s", path, mine.text);
    }
    return 0;
}

uint64_t catalog_stored_snapshot(const char *path)
{
    struct catalog_header h;
    struct stat st;
    int fd = os_open(path, O_RDONLY, 0);
    bool good = fd >= 0 && os_fstat(fd, &st) == 0 && os_pread_all(fd, &h, sizeof(h), 0) == 0 &&
                check_header(&h, (uint64_t)st.st_size, NULL) == 0;

    os_close(&fd);
    return good ? h.snapshot : 0;
}

int catalog_open_fd(int fd, struct catalog **out, struct dlc_err *err)
{
    int mine = os_dup(fd);

    *out = NULL;
    if (mine < 0)
        return dlc_err_sys(err, "cannot duplicate the descriptor of a catalog");
    return open_taking(&mine, out, err);
}

void catalog_close(struct catalog **cp)
{
    struct catalog *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    catalog_of(c);
    os_unmap(c->map, (size_t)c->h.file_size);
    os_close(&c->fd);
    mem_free(&c->url);
    mem_free(&c->splits);
    mem_free(&c->columns);
    c->tag = 0;
    mem_free(&c);
}

uint64_t catalog_count(const struct catalog *c)
{
    return catalog_of(c)->h.count;
}

uint64_t catalog_visible(const struct catalog *c)
{
    return catalog_of(c)->h.visible;
}

uint64_t catalog_objects(const struct catalog *c)
{
    return catalog_of(c)->h.n_objects;
}

bool catalog_is_whole(const struct catalog *c)
{
    return catalog_of(c)->samples.data.id == 0;
}

uint64_t catalog_bytes(const struct catalog *c)
{
    return catalog_of(c)->h.bytes;
}

const char *catalog_url(const struct catalog *c)
{
    return catalog_of(c)->url;
}

uint64_t catalog_snapshot(const struct catalog *c)
{
    return catalog_of(c)->h.snapshot;
}

/* The headers have the length and checksum of every section: no byte of those is looked at. */
bool catalog_same(const struct catalog *a, const struct catalog *b)
{
    return catalog_of(a)->h.snapshot == catalog_of(b)->h.snapshot &&
           a->h.file_size == b->h.file_size && strcmp(a->url, b->url) == 0 &&
           memcmp(a->h.sections, b->h.sections, sizeof(a->h.sections)) == 0;
}

uint64_t catalog_file_size(const struct catalog *c)
{
    return catalog_of(c)->h.file_size;
}

int catalog_fd(const struct catalog *c)
{
    return catalog_of(c)->fd;
}

bool catalog_blocks_fit(struct blocks *b, uint64_t n_records, uint64_t block_max)
{
    uint64_t n_blocks = n_records / CATALOG_BLOCK + (n_records % CATALOG_BLOCK != 0);

    b->n_records = n_records;
    b->block_max = block_max;
    return b->table.len / sizeof(struct catalog_block) == n_blocks &&
           b->table.len % sizeof(struct catalog_block) == 0;
}

bool catalog_open_block(const struct catalog *c, const struct blocks *b, uint64_t k,
                        struct catalog_cursor *cur)
{
    struct catalog_block row;

    memcpy(&row, c->map + b->table.off + k * sizeof(row), sizeof(row));
    if (row.len > b->block_max || row.off > b->data.len || row.len > b->data.len - row.off)
        return false;
    cur->p = c->map + b->data.off + row.off;
    cur->end = cur->p + row.len;
    return catalog_block_checksum(cur->p, row.len, k) == row.checksum;
}

/* Decode the next entry; e holds the one before (any, when first), and keeps its key's length in
 * *len. */
static bool next_entry(struct catalog_cursor *cur, struct catalog_entry *e, size_t *len)
{
    uint64_t shared, more;

    if (!catalog_get_varint(cur, &shared) || !catalog_get_varint(cur, &more))
        return false;
    if (shared > *len || more > CATALOG_KEY_MAX - shared)
        return false;
    if (!catalog_get_bytes(cur, e->key + shared, (size_t)more))
        return false;
    *len = (size_t)(shared + more);
    e->key[*len] = '\0';
    return catalog_get_tail(cur, &e->size, e->etag);
}

int catalog_object(const struct catalog *c, uint64_t j, struct catalog_entry *out,
                   struct dlc_err *err)
{
    struct catalog_cursor cur;
    size_t len = 0;
    bool good;

    catalog_of(c);
    out->key[0] = out->etag[0] = '\0';
    out->size = 0;
    if (j >= c->h.n_objects)
        return dlc_err_set(err, DLC_EINVAL, "no %s %llu: the dataset has %llu",
                           catalog_is_whole(c) ? "sample" : "object", (unsigned long long)j,
                           (unsigned long long)c->h.n_objects);
    good = catalog_open_block(c, &c->objects, j / CATALOG_BLOCK, &cur);
    for (uint64_t k = 0; good && k <= j % CATALOG_BLOCK; k++)
        good = next_entry(&cur, out, &len);
    if (good)
        return 0;
    out->key[0] = out->etag[0] = '\0';
    return dlc_err_set(err, DLC_ECORRUPT, "catalog of %s is damaged at %s %llu; make it again",
                       c->url, catalog_is_whole(c) ? "sample" : "object", (unsigned long long)j);
}

int catalog_get(const struct catalog *c, uint64_t i, struct catalog_entry *out, struct dlc_err *err)
{
    if (catalog_is_whole(c))
        return catalog_object(c, i, out, err);
    return catalog_get_sample(c, i, out, err);
}

/* The block that would hold key: the last whose first key is not greater. */
static int find_block(const struct catalog *c, const char *key, struct catalog_entry *e,
                      uint64_t *block)
{
    uint64_t lo = 0, hi = (c->h.n_objects + CATALOG_BLOCK - 1) /
                          CATALOG_BLOCK; /* the answer is in [lo, hi) */
    struct catalog_cursor cur;

    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;
        size_t len = 0;

        if (!catalog_open_block(c, &c->objects, mid, &cur) || !next_entry(&cur, e, &len))
            return DLC_ECORRUPT;
        if (strcmp(e->key, key) <= 0)
            lo = mid;
        else
            hi = mid;
    }
    *block = lo;
    return 0;
}

int catalog_find(const struct catalog *c, const char *key, uint64_t *i)
{
    struct catalog_cursor cur;
    struct catalog_entry e;
    uint64_t block, n;
    size_t len = 0;

    if (!catalog_is_whole(c))
        return catalog_find_sample(c, key, i);
    if (c->h.n_objects == 0)
        return DLC_ENOTFOUND;
    if (find_block(c, key, &e, &block) < 0 || !catalog_open_block(c, &c->objects, block, &cur))
        return DLC_ECORRUPT;
    n = DLC_MIN(c->h.n_objects - block * CATALOG_BLOCK, CATALOG_BLOCK);
    for (uint64_t k = 0; k < n; k++) {
        int order;

        if (!next_entry(&cur, &e, &len))
            return DLC_ECORRUPT;
        order = strcmp(e.key, key);
        if (order == 0)
            *i = block * CATALOG_BLOCK + k;
        if (order >= 0)
            return order == 0 ? 0 : DLC_ENOTFOUND;
    }
    return DLC_ENOTFOUND;
}
