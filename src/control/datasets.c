// SPDX-License-Identifier: Apache-2.0
#include "control/control_i.h"

const struct http_route control_dataset_routes[] = {{NULL, NULL, 0, NULL}};

json_t *datasets_view(struct control *c, struct dlc_err *err)
{
    (void)c;
    (void)err;
    return json_array();
}

void datasets_order_done(struct control *c, const char *node, const json_t *order,
                         const json_t *result, const char *error)
{
    (void)c;
    (void)node;
    (void)order;
    (void)result;
    (void)error;
}
