// SPDX-License-Identifier: Apache-2.0
/*
 * Fields of containers that pass through to a pod, and which of them are safe. Pure.
 *
 * The operator makes pods, so the rules for those who may make pods do not see the user: what the
 * level "restricted" of Pod Security refuses is refused here, with the reason.
 *
 * (CONTAINER-1) A field that is not on the list is refused, not dropped.
 * (CONTAINER-2) Every container drops all capabilities and cannot gain privileges, whatever it says.
 */
#ifndef DLC_OPERATOR_RECONCILE_CONTAINER_FIELDS_H
#define DLC_OPERATOR_RECONCILE_CONTAINER_FIELDS_H

#include <jansson.h>

#include "base/err.h"

#define CONTAINER_INIT_MAX 16

/* Probes, lifecycle, securityContext and initContainers of a job. 0 or DLC_EINVAL with
 * "spec.jobs[0].lifecycle: what is wrong". */
int container_check_job(const json_t *job, const char *path, struct dlc_err *err);

/* Set what passes through of a job in its container. */
void container_pass(json_t *to, const json_t *job);
/* The securityContext of a container: what it says, and (CONTAINER-2). Gives. */
json_t *container_security(const json_t *from);
/* The initContainers of a job's pods; those with restartPolicy Always are sidecars. Gives. */
json_t *container_inits(const json_t *job);
/* `ours` (taken) and what the user says: both must hold. Gives. */
json_t *container_affinity(const json_t *user, json_t *ours);

#endif
