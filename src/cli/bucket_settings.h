// SPDX-License-Identifier: Apache-2.0
/* How a command that reads a bucket itself, without a daemon, opens it. */
#ifndef DLC_CLI_BUCKET_SETTINGS_H
#define DLC_CLI_BUCKET_SETTINGS_H

#include "base/config.h"
#include "bucket/bucket.h"

/* Its texts are borrowed from c. */
struct bucket_config bucket_settings(const struct config *c);

#endif
