// SPDX-License-Identifier: Apache-2.0
#include "operator/csi/csi_driver.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "operator/csi/csi_services_i.h"
#include "operator/csi/grpc_server.h"

static const struct grpc_method *const csi_tables[] = {csi_methods, controller_methods, NULL};
static const struct grpc_method *const registration_tables[] = {registration_methods, NULL};

struct csi_driver {
    struct grpc_server *csi, *registration;
};

int csi_driver_start(const struct csi_config *config, struct csi_driver **out, struct dlc_err *err)
{
    struct csi_driver *d = mem_new(struct csi_driver);
    char *path = config->registration != NULL
                     ? mem_fmt("%s/" CSI_DRIVER_NAME "-reg.sock", config->registration)
                     : NULL;
    int rc = 0;

    if (os_mkdirs(config->dirs.state, 0700) < 0)
        rc = dlc_err_sys(err, "cannot make %s", config->dirs.state);
    if (rc == 0)
        rc = grpc_server_start(config->socket, csi_tables, (void *)config, &d->csi, err);
    /* Last: the kubelet calls as soon as it sees this one. */
    if (rc == 0 && path != NULL)
        rc = grpc_server_start(path, registration_tables, (void *)config, &d->registration, err);
    if (rc < 0)
        csi_driver_stop(&d);
    mem_free(&path);
    *out = d;
    return rc;
}

void csi_driver_stop(struct csi_driver **dp)
{
    struct csi_driver *d = *dp;

    if (d == NULL)
        return;
    grpc_server_stop(&d->registration);
    grpc_server_stop(&d->csi);
    mem_free(dp);
}
