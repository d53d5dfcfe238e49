// SPDX-License-Identifier: Apache-2.0
/* Without libmicrohttpd there is no HTTP server. */
#include "gateway/gateway.h"

#include "base/config.h"
#include "daemon/daemon.h"
#include "daemon/state.h"

static int stub_open(struct node *n, void **state, struct dlc_err *err)
{
    (void)state;
    if (n->config->http[0] == '\0')
        return 0;
    return dlc_err_set(err, DLC_EINVAL, "--http: this dlcache was built without an HTTP server");
}

static void stub_close(void **state)
{
    *state = NULL;
}

const struct node_gateway gateway_ops = {.open = stub_open, .close = stub_close};
