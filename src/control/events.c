// SPDX-License-Identifier: Apache-2.0
#include "control/control_i.h"

const struct http_route control_event_routes[] = {{NULL, NULL, 0, NULL}};
