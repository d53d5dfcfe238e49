// SPDX-License-Identifier: Apache-2.0
/* Names of resources in the cluster: [a-z0-9][a-z0-9._-]{0,62}. */
#ifndef DLC_CLI_RESOURCE_NAME_H
#define DLC_CLI_RESOURCE_NAME_H

#include <stdbool.h>

#define NAME_LEN 63

bool name_is_ok(const char *s);
/* A name for the dataset at url: its last folder, or its bucket. */
void name_of_url(const char *url, char out[static NAME_LEN + 1]);

#endif
