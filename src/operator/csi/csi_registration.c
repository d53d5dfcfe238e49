// SPDX-License-Identifier: Apache-2.0
/* pluginregistration.Registration: how the kubelet learns of the driver. */
#include "base/log.h"
#include "base/mem.h"
#include "operator/csi/csi_driver.h"
#include "operator/csi/csi_services_i.h"
#include "operator/csi/protobuf.h"

#define CSI_VERSION "1.0.0" /* of the protocol; the kubelet wants the first of its major version */

static enum grpc_status get_info(void *ctx, const void *request, size_t len, struct buf *out,
                                 struct dlc_err *err)
{
    const struct csi_config *c = ctx;

    (void)request;
    (void)len;
    (void)err;
    pb_add_text(out, 1, "CSIPlugin");
    pb_add_text(out, 2, CSI_DRIVER_NAME);
    pb_add_text(out, 3, c->kubelet_socket);
    pb_add_text(out, 4, CSI_VERSION);
    return GRPC_OK;
}

static enum grpc_status notify(void *ctx, const void *request, size_t len, struct buf *out,
                               struct dlc_err *err)
{
    struct pb_reader r = pb_read(request, len);
    struct pb_field f;
    bool registered = false;
    char *reason = NULL;

    (void)ctx;
    (void)out;
    while (pb_next(&r, &f)) {
        if (f.number == 1)
            registered = f.value != 0;
        if (f.number == 2) {
            mem_free(&reason);
            reason = pb_text(&f);
        }
    }
    if (r.invalid) {
        dlc_err_set(err, DLC_EPROTO, "the message is invalid");
    } else if (registered) {
        log_info("the kubelet knows " CSI_DRIVER_NAME);
    } else {
        log_error("the kubelet refuses " CSI_DRIVER_NAME ": %s",
                  reason != NULL ? reason : "it gives no reason");
    }
    mem_free(&reason);
    return r.invalid ? GRPC_INVALID_ARGUMENT : GRPC_OK;
}

const struct grpc_method registration_methods[] = {
    {"/pluginregistration.Registration/GetInfo", get_info},
    {"/pluginregistration.Registration/NotifyRegistrationStatus", notify},
    {NULL, NULL},
};
