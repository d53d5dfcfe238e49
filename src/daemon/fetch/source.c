// SPDX-License-Identifier: Apache-2.0
/* The table of sources, in the order in which they are tried. */
#include "daemon/fetch/source.h"

const struct fetch_source *const fetch_sources[] = {
    &fetch_from_memory,        &fetch_from_disk,          &fetch_from_same_object,
    &fetch_from_peer,          &fetch_from_draining_node, &fetch_from_previous_owner,
    &fetch_from_earlier_owner, &fetch_from_redis,         &fetch_wait_for_owner,
    &fetch_from_bucket,
};
const unsigned n_fetch_sources = sizeof(fetch_sources) / sizeof(fetch_sources[0]);
