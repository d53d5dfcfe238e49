// SPDX-License-Identifier: Apache-2.0
/* POST /v1/jobs: registers a job. It runs, waits, or is refused with the numbers (JOB-1). */
#ifndef DLC_MANAGER_ROUTES_JOB_REGISTER_H
#define DLC_MANAGER_ROUTES_JOB_REGISTER_H

#include "net/server.h"

http_handler_f route_jobs_create;

#endif
