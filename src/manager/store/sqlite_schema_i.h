// SPDX-License-Identifier: Apache-2.0
/* The schema of the SQLite store and the migrations between its versions. */
#ifndef DLC_MANAGER_STORE_SQLITE_SCHEMA_I_H
#define DLC_MANAGER_STORE_SQLITE_SCHEMA_I_H

#include <sqlite3.h>

#include "base/err.h"

#define SQLITE_SCHEMA_VERSION 2
/* DLC_EINVAL: it is a database of another program. */
int sqlite_check_header(int fd, const char *path, struct dlc_err *err);
int sqlite_migrate(sqlite3 *db, const char *path, struct dlc_err *err);

#endif
