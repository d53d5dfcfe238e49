// SPDX-License-Identifier: Apache-2.0
#include "catalog/archives/archive_members_i.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "catalog/archives/scan_i.h"
#include "catalog/archives/tar_header_i.h"

#define DEFAULT_MAX_MEMBERS ((uint64_t)100 * 1000 * 1000)
#define GROUP_MAX           1024 /* members of one group */

static_assert(2 * GROUP_MAX + 1 <= SAMPLE_PIECES_MAX, "every group fits in a sample");

void members_init(struct members *m, struct scan *scan)
{
    *m = (struct members){.scan = scan, .names = BUF_INIT};
}

void members_release(struct members *m)
{
    buf_release(&m->names);
    mem_free(&m->group);
    members_init(m, m->scan);
}

static int refuse(const struct members *m, const struct member *member, const char *why,
                  struct dlc_err *err)
{
    char shown[SCAN_SHOWN];

    return dlc_err_set(err, DLC_EINVAL, "%s: member '%s' %s; the archive is refused",
                       m->scan->source->name, scan_shown(member->name, member->name_len, shown),
                       why);
}

static bool has_dot_dot(const char *name, size_t len)
{
    size_t start = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && name[i] != '/' && name[i] != '\\')
            continue;
        if (i - start == 2 && name[start] == '.' && name[start + 1] == '.')
            return true;
        start = i + 1;
    }
    return false;
}

static int check_name(const struct members *m, const struct member *member, struct dlc_err *err)
{
    if (member->name_len == 0)
        return refuse(m, member, "has no name", err);
    if (member->name_len > SCAN_NAME_MAX)
        return refuse(m, member, "has a name of more than 1024 bytes", err);
    if (memchr(member->name, '\0', member->name_len) != NULL)
        return refuse(m, member, "has a NUL byte in its name", err);
    if (member->name[0] == '/' || member->name[0] == '\\')
        return refuse(m, member, "has an absolute path", err);
    if (has_dot_dot(member->name, member->name_len))
        return refuse(m, member, "has '..' in its path", err);
    return 0;
}

static int count(struct members *m, struct dlc_err *err)
{
    uint64_t max = m->scan->limits.max_members;

    max = max == 0 ? DEFAULT_MAX_MEMBERS : max;
    if (m->n == max)
        return dlc_err_set(err, DLC_EINVAL,
                           "%s: more than %" PRIu64 " members (limit max_members); it is refused",
                           m->scan->source->name, max);
    m->n++;
    return 0;
}

int members_skip(struct members *m, struct dlc_err *err)
{
    m->scan->skipped++;
    return count(m, err);
}

/* Length of the group's name; 0: belongs to none. */
static size_t group_key(const char *name, size_t len)
{
    const char *slash = memrchr(name, '/', len);
    size_t base = slash == NULL ? 0 : (size_t)(slash + 1 - name);
    const char *dot = memchr(name + base, '.', len - base);

    return dot == NULL || dot == name + base ? 0 : (size_t)(dot - name);
}

static bool are_neighbours(const struct members *m)
{
    for (size_t i = 0; i < m->n_group; i++) {
        const struct member *this = &m->group[i].member, *before = &m->group[i - (i > 0)].member;

        if (this->head == MEMBER_NO_HEAD || this->kind != before->kind)
            return false;
        if (i > 0 && this->head != TAR_PADDED(before->offset + before->size))
            return false;
    }
    return true;
}

static int emit(struct members *m, const struct piece *pieces, size_t n, struct dlc_err *err)
{
    struct scan_sample sample = {m->names.data, m->key_len, pieces, n};

    return m->scan->found(m->scan, &sample, err);
}

/* The part of the archive from the first header to the padded end of the last member. */
static int emit_range(struct members *m, struct dlc_err *err)
{
    const struct member *first = &m->group[0].member, *last = &m->group[m->n_group - 1].member;
    uint64_t end = TAR_PADDED(last->offset + last->size);
    struct piece p = {.kind = first->kind, .offset = first->head, .length = end - first->head};

    return emit(m, &p, 1, err);
}

/* header, data, (padding and header), data, ..., padding */
static int emit_made(struct members *m, struct dlc_err *err)
{
    static const char zeros[TAR_BLOCK];
    struct piece pieces[2 * GROUP_MAX + 1];
    struct buf made = BUF_INIT;
    size_t n = 0, begin = 0, at = 0;
    int rc;

    for (size_t i = 0; i < m->n_group; i++) {
        const struct member *g = &m->group[i].member;

        tar_head_make(&made, m->names.data + m->group[i].name_off, g->name_len, g->size);
        if (g->size == 0)
            continue;
        pieces[n++] = (struct piece){.kind = PIECE_INLINE, .length = made.len - begin};
        pieces[n++] = (struct piece){.kind = g->kind, .offset = g->offset, .length = g->size};
        begin = made.len;
        buf_add(&made, zeros, (size_t)(TAR_PADDED(g->size) - g->size));
    }
    if (made.len > begin)
        pieces[n++] = (struct piece){.kind = PIECE_INLINE, .length = made.len - begin};
    for (size_t i = 0; i < n; i++) {
        if (pieces[i].kind != PIECE_INLINE)
            continue;
        pieces[i].bytes = made.data + at;
        at += pieces[i].length;
    }
    rc = emit(m, pieces, n, err);
    buf_release(&made);
    return rc;
}

static int close_group(struct members *m, struct dlc_err *err)
{
    int rc = 0;

    if (m->n_group > 0)
        rc = are_neighbours(m) ? emit_range(m, err) : emit_made(m, err);
    m->n_group = 0;
    buf_clear(&m->names);
    return rc;
}

static int add_to_group(struct members *m, const struct member *member, struct dlc_err *err)
{
    size_t key = group_key(member->name, member->name_len);
    int rc;

    if (key == 0) {
        m->scan->skipped++;
        return 0;
    }
    if (m->n_group > 0 && (key != m->key_len || memcmp(member->name, m->names.data, key) != 0)) {
        rc = close_group(m, err);
        if (rc != 0)
            return rc;
    }
    if (m->n_group == GROUP_MAX)
        return refuse(m, member, "is the 1025th of its group (at most 1024 make one sample)", err);
    m->key_len = key;
    mem_reserve(m->group, m->n_group, m->cap_group);
    m->group[m->n_group++] = (struct group_member){m->names.len, *member};
    buf_add(&m->names, member->name, member->name_len);
    return 0;
}

int members_add(struct members *m, struct member member, struct dlc_err *err)
{
    struct piece p = {.kind = member.kind, .offset = member.offset, .length = member.size};
    struct scan_sample sample = {.pieces = &p, .n_pieces = 1};
    int rc;

    while (member.name_len > 2 && memcmp(member.name, "./", 2) == 0) {
        member.name += 2;
        member.name_len -= 2;
    }
    rc = check_name(m, &member, err);
    if (rc == 0)
        rc = count(m, err);
    if (rc != 0)
        return rc;
    if (m->scan->limits.group)
        return add_to_group(m, &member, err);
    sample.name = member.name;
    sample.name_len = member.name_len;
    return m->scan->found(m->scan, &sample, err);
}

int members_finish(struct members *m, struct dlc_err *err)
{
    return close_group(m, err);
}
