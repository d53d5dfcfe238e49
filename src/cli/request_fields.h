// SPDX-License-Identifier: Apache-2.0
/* What users typed for a field of a request. The manager's refusals begin with "FIELD: ", by the
 * names of its API (manager/routes/json_fields.h). Pure. */
#ifndef DLC_CLI_REQUEST_FIELDS_H
#define DLC_CLI_REQUEST_FIELDS_H

#include "base/err.h"

/* Put the flag or operand in the place of the field that the text of *err begins with, if it does.
 * path: of the request. */
void request_fields_show(const char *path, struct dlc_err *err);

#endif
