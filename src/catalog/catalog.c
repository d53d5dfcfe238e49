// SPDX-License-Identifier: Apache-2.0
/*
 * Reading a catalog.
 *
 * Opening verifies the header, the bounds of its sections and the URL, and touches nothing else, so
 * that ten million samples open in no time. A block is verified whenever it is used: its checksum
 * is seeded with its number, so a damaged row of the block table is found as well. Decoding
 * allocates nothing and never reads outside the mapping, whatever the bytes are.
 *
 * The file must not shrink while it is mapped: it is replaced by renaming, never written again.
 *
 * Not here: writing (builder.c), the bytes (format_i.h).
 */
#include "catalog/catalog.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/os.h"
#include "catalog/format_i.h"

#define CATALOG_TAG DLC_TAG4('c', 't', 'l', 'g')

struct catalog {
    uint32_t tag;
    int fd;
    const unsigned char *map;
    struct catalog_header h; /* copied: what was checked is what is used */
    struct catalog_section entries, blocks;
    uint64_t n_blocks;
    char *url;
};

static const struct catalog *catalog_of(const struct catalog *c)
{
    dlc_check(c != NULL && c->tag == CATALOG_TAG);
    return c;
}

static int corrupt(struct dlc_err *err, const char *what)
{
    return dlc_err_set(err, DLC_ECORRUPT, "catalog is damaged: %s; make it again", what);
}

static bool find_section(const struct catalog_header *h, uint32_t id, struct catalog_section *out)
{
    for (unsigned i = 0; i < CATALOG_SECTIONS; i++) {
        *out = h->sections[i];
        if (out->id == id)
            return out->off <= h->file_size && out->len <= h->file_size - out->off;
    }
    return false;
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
        return corrupt(err, "wrong checksum of its header");
    if (h->file_size != size)
        return corrupt(err, "it is shorter or longer than it should be");
    if (h->block_entries != CATALOG_BLOCK)
        return corrupt(err, "unknown size of blocks");
    return 0;
}

static int load_sections(struct catalog *c, struct dlc_err *err)
{
    struct catalog_section url;

    if (!find_section(&c->h, CATALOG_SEC_ENTRIES, &c->entries) ||
        !find_section(&c->h, CATALOG_SEC_BLOCKS, &c->blocks) ||
        !find_section(&c->h, CATALOG_SEC_URL, &url))
        return corrupt(err, "a section is missing or lies outside of it");
    c->n_blocks = c->h.count / CATALOG_BLOCK + (c->h.count % CATALOG_BLOCK != 0);
    if (c->blocks.len / sizeof(struct catalog_block) != c->n_blocks ||
        c->blocks.len % sizeof(struct catalog_block) != 0)
        return corrupt(err, "the block table has the wrong length");
    if (url.len > CATALOG_URL_MAX || XXH3_64bits(c->map + url.off, url.len) != url.checksum)
        return corrupt(err, "wrong checksum of its URL");
    c->url = mem_strn((const char *)c->map + url.off, url.len);
    return 0;
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
    if (fstat(c->fd, &st) < 0) {
        rc = dlc_err_sys(err, "cannot look at the catalog");
        goto out;
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size < sizeof(c->h)) {
        rc = corrupt(err, "it is too short");
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

char *catalog_path(const char *dir, const char *endpoint, const char *url)
{
    char *place = mem_fmt("%s %s", endpoint, url);
    char *path = mem_fmt("%s/catalogs/%016llx.cat", dir, (unsigned long long)hash64_str(place));

    mem_free(&place);
    return path;
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

int catalog_open_fd(int fd, struct catalog **out, struct dlc_err *err)
{
    int mine = fcntl(fd, F_DUPFD_CLOEXEC, 0);

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
    c->tag = 0;
    mem_free(&c);
}

uint64_t catalog_count(const struct catalog *c)
{
    return catalog_of(c)->h.count;
}

uint64_t catalog_bytes(const struct catalog *c)
{
    return catalog_of(c)->h.bytes;
}

const char *catalog_url(const struct catalog *c)
{
    return catalog_of(c)->url;
}

int64_t catalog_created(const struct catalog *c)
{
    return catalog_of(c)->h.created;
}

uint64_t catalog_snapshot(const struct catalog *c)
{
    return catalog_of(c)->h.snapshot;
}

uint64_t catalog_file_size(const struct catalog *c)
{
    return catalog_of(c)->h.file_size;
}

int catalog_fd(const struct catalog *c)
{
    return catalog_of(c)->fd;
}

/* A cursor over the verified bytes of block b. */
static bool open_block(const struct catalog *c, uint64_t b, struct catalog_cursor *cur)
{
    struct catalog_block row;

    memcpy(&row, c->map + c->blocks.off + b * sizeof(row), sizeof(row));
    if (row.len > CATALOG_BLOCK_MAX || row.off > c->entries.len ||
        row.len > c->entries.len - row.off)
        return false;
    cur->p = c->map + c->entries.off + row.off;
    cur->end = cur->p + row.len;
    return catalog_block_checksum(cur->p, row.len, b) == row.checksum;
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

int catalog_get(const struct catalog *c, uint64_t i, struct catalog_entry *out, struct dlc_err *err)
{
    struct catalog_cursor cur;
    size_t len = 0;
    bool good;

    catalog_of(c);
    out->key[0] = out->etag[0] = '\0';
    out->size = 0;
    if (i >= c->h.count)
        return dlc_err_set(err, DLC_EINVAL, "no sample %llu: the dataset has %llu",
                           (unsigned long long)i, (unsigned long long)c->h.count);
    good = open_block(c, i / CATALOG_BLOCK, &cur);
    for (uint64_t k = 0; good && k <= i % CATALOG_BLOCK; k++)
        good = next_entry(&cur, out, &len);
    if (good)
        return 0;
    out->key[0] = out->etag[0] = '\0';
    return dlc_err_set(err, DLC_ECORRUPT, "catalog of %s is damaged at sample %llu; make it again",
                       c->url, (unsigned long long)i);
}

/* The block that would hold key: the last whose first key is not greater. */
static int find_block(const struct catalog *c, const char *key, struct catalog_entry *e,
                      uint64_t *block)
{
    uint64_t lo = 0, hi = c->n_blocks; /* the answer is in [lo, hi) */
    struct catalog_cursor cur;

    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;
        size_t len = 0;

        if (!open_block(c, mid, &cur) || !next_entry(&cur, e, &len))
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

    catalog_of(c);
    if (c->h.count == 0)
        return DLC_ENOTFOUND;
    if (find_block(c, key, &e, &block) < 0 || !open_block(c, block, &cur))
        return DLC_ECORRUPT;
    n = DLC_MIN(c->h.count - block * CATALOG_BLOCK, CATALOG_BLOCK);
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
