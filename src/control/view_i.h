// SPDX-License-Identifier: Apache-2.0
/* The pure parts of the view. */
#ifndef DLC_CONTROL_VIEW_I_H
#define DLC_CONTROL_VIEW_I_H

#include "control/control_i.h"

double view_weight(enum node_state state, uint64_t capacity, uint64_t memory);
json_t *view_nodes(const struct node_info *nodes, size_t n); /* gives */
bool view_names(const json_t *view, const char *name);       /* is that node in it? */

#endif
