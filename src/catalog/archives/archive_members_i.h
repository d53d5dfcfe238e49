// SPDX-License-Identifier: Apache-2.0
/*
 * Turns members of an archive into samples: checks names, counts members, and groups neighbours
 * when the scan asks for it.
 *
 * The group of a member is its path up to the first dot of the base name: 0001.jpg, 0001.cls and
 * 0001.seg.png are "0001". Members in sequence with the same group are one sample, a small tar
 * without the two zero blocks at its end. Members without a name before a dot, or without a dot,
 * belong to no group and are skipped, as WebDataset does.
 */
#ifndef DLC_CATALOG_ARCHIVES_ARCHIVE_MEMBERS_I_H
#define DLC_CATALOG_ARCHIVES_ARCHIVE_MEMBERS_I_H

#include "base/buf.h"
#include "catalog/archives/scan.h"

#define MEMBER_NO_HEAD UINT64_MAX

struct member {
    const char *name; /* borrowed */
    size_t name_len;
    enum piece_kind kind; /* OBJECT or DERIVED; one kind in a group of neighbours */
    uint64_t head;        /* where its tar headers begin, or MEMBER_NO_HEAD */
    uint64_t offset, size;
};

struct group_member {
    size_t name_off; /* in names */
    struct member member;
};

struct members {
    struct scan *scan;
    uint64_t n;
    struct buf names; /* of the open group: its members' names one after the other */
    size_t key_len;   /* of the open group: so much of the first name */
    struct group_member *group;
    size_t n_group, cap_group;
};

void members_init(struct members *m, struct scan *scan);
void members_release(struct members *m);

int members_add(struct members *m, struct member member, struct dlc_err *err);
int members_skip(struct members *m, struct dlc_err *err); /* one that is not a sample */
int members_finish(struct members *m, struct dlc_err *err);

#endif
