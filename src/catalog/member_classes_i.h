// SPDX-License-Identifier: Apache-2.0
/*
 * Classes of members of archives: the first folder of the path in the archive, as the layout
 * `folders` has it of keys. Members have classes if each lies in a folder and there are two folders
 * at least, unless the folders are those of splits.
 *
 * Which classes there are is known when all members are: samples are numbered by folders as these
 * come, and renumbered at the end.
 */
#ifndef DLC_CATALOG_MEMBER_CLASSES_I_H
#define DLC_CATALOG_MEMBER_CLASSES_I_H

#include "catalog/builder_i.h"
#include "catalog/name_table_i.h"

struct member_classes {
    struct name_table folders;
    struct grown labels; /* uint32_t: folder of each sample */
    bool off;            /* a member lies in no folder */
};

/* The next sample. -1: no memory. */
int member_classes_add(struct member_classes *c, const char *path, size_t len);
/* All samples of `b` were added here and there: give them their labels. */
int member_classes_finish(struct member_classes *c, struct catalog_builder *b, struct dlc_err *err);
void member_classes_release(struct member_classes *c);

#endif
