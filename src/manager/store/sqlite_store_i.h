// SPDX-License-Identifier: Apache-2.0
/*
 * The SQLite store: documents, locks and events in one file, a connection to write and one to read.
 */
#ifndef DLC_MANAGER_STORE_SQLITE_STORE_I_H
#define DLC_MANAGER_STORE_SQLITE_STORE_I_H

#include "manager/store/sqlite_conn_i.h"
#include "manager/store/store_i.h"

struct sqlite_store {
    struct store m;
    char *path, *boot;          /* boot: the boot that times of its clock belong to */
    struct sq_conn write, read; /* never both at once in one thread */
};

struct sqlite_store *sqlite_store_of(struct store *m);

/* Inside a transaction: refuse an old fence, remember a new one. Where there is none at all, the store
 * was emptied since it was raised. */
int sq_pass_fence(struct sq_conn *c, uint64_t fence, struct dlc_err *err);

#endif
