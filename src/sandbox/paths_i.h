// SPDX-License-Identifier: Apache-2.0
/*
 * Which files a server process needs after its start, by its role and settings.
 *
 *     writes      --dir, the directories of the socket, of an SQLite store, of --audit-log;
 *                 nothing else
 *     reads       `serve`: everything, since its user opens file:// datasets anywhere; likewise
 *                 `operator` with a kubeconfig file, which names files anywhere
 *                 others: what libraries read (certificates, name resolution), credentials,
 *                 files that settings and environment name, --allow-path
 */
#ifndef DLC_SANDBOX_PATHS_I_H
#define DLC_SANDBOX_PATHS_I_H

#include "sandbox/landlock_i.h"
#include "sandbox/sandbox.h"

bool paths_reads_everything(const struct sandbox_plan *plan);

/* Make the directories that will be written, and allow all. */
void paths_allow(const struct sandbox_plan *plan, struct landlock *l);

#endif
