// SPDX-License-Identifier: Apache-2.0
/*
 * dlcache: samples of a dataset in a cloud bucket, at the speed of memory.
 *
 *     struct dlc_dataset *ds;
 *     struct dlc_view v;
 *
 *     if (dlc_open("s3://my-bucket/train/", NULL, &ds) < 0)
 *         errx(1, "%s", dlc_last_error());
 *     for (uint64_t i = 0; i < dlc_count(ds); i++) {
 *         if (dlc_get(ds, i, &v) < 0)
 *             errx(1, "%s", dlc_last_error());
 *         consume(v.data, v.len);
 *         dlc_put(ds, &v);
 *     }
 *     dlc_close(&ds);
 *
 * This header includes all of the API. Each part can be included alone:
 *
 *     dlcache/core.h         errors, opening a dataset, its samples, reading them
 *     dlcache/order.h        reading in an order that the daemon knows, so that it fetches ahead
 *     dlcache/importance.h   epochs drawn by what the model has yet to learn
 *     dlcache/loader.h       batches of decoded images, sounds or arrays
 *
 * Words of the contracts: a function *borrows* what it uses only for the call, *gives* what the
 * caller must hand back, and *takes* what it frees itself. "Threads: any" means that any number of
 * threads may call it at once with the same handle.
 *
 * Functions return 0 or a count on success, and a negative DLC_E* code on failure. dlc_last_error()
 * is the text of the calling thread's latest failure. No function prints or exits.
 */
#ifndef DLCACHE_H
#define DLCACHE_H

#include "dlcache/core.h"
#include "dlcache/importance.h"
#include "dlcache/loader.h"
#include "dlcache/order.h"

#endif
