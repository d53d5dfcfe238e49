// SPDX-License-Identifier: Apache-2.0
/* Parts of `dlcache demo`. */
#ifndef DLC_CLI_CMD_DEMO_H
#define DLC_CLI_CMD_DEMO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* n small PNG images in ten class folders below dir. */
int demo_make_images(const char *dir, uint64_t n, struct dlc_err *err);

#endif
