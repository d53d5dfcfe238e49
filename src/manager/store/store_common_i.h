// SPDX-License-Identifier: Apache-2.0
/*
 * Code that the SQLite and Redis backends share: limits, raw documents and events, and error
 * messages, so that a caller reads the same message from either. Pure. Threads: any.
 */
#ifndef DLC_MANAGER_STORE_STORE_COMMON_I_H
#define DLC_MANAGER_STORE_STORE_COMMON_I_H

#include <stddef.h>
#include <stdint.h>

#include "manager/store/store.h"

#define STORE_ID_MAX     255
#define STORE_KEY_MAX    4096
#define STORE_BODY_MAX   (8u << 20)
#define STORE_SIZE_MAX   ((uint64_t)1 << 53) /* Lua counts in doubles */
#define STORE_EVENTS_MAX 100000

extern uint64_t store_events_kept; /* STORE_EVENTS_MAX; tests lower it before they open a store */

/* A document as a store has it. */
struct store_raw {
    char *id, *tenant;
    char *body;
    size_t body_len;
    uint64_t version;
};
void store_raw_release(struct store_raw *r);

struct store_raw_event {
    uint64_t seq;
    int64_t time_ms;
    char *tenant, *body;
};

/* One error message for both backends. expect, there: versions; there 0: no such document. */
int store_err_version(struct dlc_err *err, enum store_kind kind, const char *id, uint64_t expect,
                      uint64_t there);
int store_err_fence(struct dlc_err *err, uint64_t fence, uint64_t newest);
int store_err_lost(struct dlc_err *err);
int store_err_held(struct dlc_err *err, const char *name, const char *holder);
int store_err_absent(struct dlc_err *err, enum store_kind kind, const char *id);

/* DLC_EINVAL: `what` is absent, or shorter or longer than that. */
int store_check_text(const char *what, const char *s, size_t min, size_t max, struct dlc_err *err);
int store_check_chunk(const struct store_chunk *c, struct dlc_err *err); /* DLC_EINVAL */
const char *store_kind_name(enum store_kind kind);                       /* "dataset" */

#endif
