// SPDX-License-Identifier: Apache-2.0
#include "cluster/peer/peer_url.h"

#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "cluster/peer/peer_client.h"

void peer_url_add(const struct peer_read *r, struct buf *url)
{
    buf_adds(url, "/v1/peer/");
    str_uri_encode(r->dataset, strlen(r->dataset), false, url);
    buf_addf(url, "/%016llx/samples/%llu", (unsigned long long)r->snapshot,
             (unsigned long long)r->sample);
    if (r->take_from != NULL)
        buf_addf(url, "/take?tier=%s&from=%s&evicted=%s", r->take_on_disk ? "disk" : "memory",
                 r->take_from, r->evicted != NULL ? r->evicted : "");
    else
        buf_addf(url, "?cached=%d", r->cached);
    if (r->tenant != NULL) {
        buf_adds(url, "&tenant=");
        str_uri_encode(r->tenant, strlen(r->tenant), false, url);
    }
}
