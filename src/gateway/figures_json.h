// SPDX-License-Identifier: Apache-2.0
/* A snapshot of a daemon's figures as JSON: for the page, and for programs (GET /v1/figures). Pure.
 */
#ifndef DLC_GATEWAY_FIGURES_JSON_H
#define DLC_GATEWAY_FIGURES_JSON_H

#include <jansson.h>

struct node_figures;

/* tenant NULL: all; else as (GATEWAY-3). Gives. */
json_t *gateway_figures_json(const struct node_figures *f, const char *tenant);

#endif
