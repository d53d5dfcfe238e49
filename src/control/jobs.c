// SPDX-License-Identifier: Apache-2.0
#include "control/control_i.h"

const struct http_route control_job_routes[] = {{NULL, NULL, 0, NULL}};

void jobs_tick(struct control *c, struct dlc_mono now)
{
    (void)c;
    (void)now;
}

int jobs_load(struct control *c, struct dlc_err *err)
{
    (void)c;
    (void)err;
    return 0;
}

void jobs_close(struct control *c)
{
    (void)c;
}
