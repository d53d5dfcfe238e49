// SPDX-License-Identifier: Apache-2.0
/* csi.v1.Identity and csi.v1.Node. The numbers are those of fields in the CSI specification. */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "dlcache/core.h"
#include "operator/csi/csi_driver.h"
#include "operator/csi/csi_services_i.h"
#include "operator/csi/protobuf.h"
#include "operator/csi/volume.h"

#define CONTROLLER_SERVICE 1 /* PluginCapability.Service.Type */
#define GET_VOLUME_STATS   2 /* NodeServiceCapability.RPC.Type */
#define TEXT_MAX           4096

static enum grpc_status fail(struct dlc_err *err, enum grpc_status status, const char *text)
{
    dlc_err_set(err, DLC_EINVAL, "%s", text);
    return status;
}

/* Texts that a request names by number. */
struct text_field {
    unsigned field;
    char **text;
};

/* Gives the texts that are there; the others stay NULL. False: the message is invalid. */
static bool read_texts(const void *request, size_t len, const struct text_field *w, size_t n,
                       bool *has_mount)
{
    struct pb_reader r = pb_read(request, len), capability;
    struct pb_field f, c;
    bool ok = true;

    while (ok && pb_next(&r, &f)) {
        for (size_t i = 0; i < n; i++)
            if (f.number == w[i].field && f.len <= TEXT_MAX) {
                mem_free(w[i].text);
                *w[i].text = f.len > 0 ? pb_text(&f) : NULL;
            }
        if (has_mount == NULL || f.number != 5 || f.is_number)
            continue;
        capability = pb_read(f.data, f.len);
        while (pb_next(&capability, &c))
            *has_mount |= c.number == 2 && !c.is_number;
        ok = !capability.invalid;
    }
    return ok && !r.invalid;
}

/* ---- identity ---- */

static enum grpc_status plugin_info(void *ctx, const void *request, size_t len, struct buf *out,
                                    struct dlc_err *err)
{
    (void)ctx;
    (void)request;
    (void)len;
    (void)err;
    pb_add_text(out, 1, CSI_DRIVER_NAME);
    pb_add_text(out, 2, dlc_version());
    return GRPC_OK;
}

static enum grpc_status plugin_capabilities(void *ctx, const void *request, size_t len,
                                            struct buf *out, struct dlc_err *err)
{
    struct buf service = BUF_INIT, capability = BUF_INIT;

    (void)ctx;
    (void)request;
    (void)len;
    (void)err;
    pb_add_number(&service, 1, CONTROLLER_SERVICE);
    pb_add_message(&capability, 1, &service);
    pb_add_message(out, 1, &capability);
    buf_release(&service);
    buf_release(&capability);
    return GRPC_OK;
}

static enum grpc_status probe(void *ctx, const void *request, size_t len, struct buf *out,
                              struct dlc_err *err)
{
    struct buf ready = BUF_INIT;

    (void)ctx;
    (void)request;
    (void)len;
    (void)err;
    pb_add_number(&ready, 1, 1);
    pb_add_message(out, 1, &ready);
    buf_release(&ready);
    return GRPC_OK;
}

/* ---- node ---- */

static enum grpc_status node_info(void *ctx, const void *request, size_t len, struct buf *out,
                                  struct dlc_err *err)
{
    const struct csi_config *c = ctx;

    (void)request;
    (void)len;
    (void)err;
    pb_add_text(out, 1, c->node_id);
    return GRPC_OK;
}

static enum grpc_status node_capabilities(void *ctx, const void *request, size_t len,
                                          struct buf *out, struct dlc_err *err)
{
    struct buf rpc = BUF_INIT, capability = BUF_INIT;

    (void)ctx;
    (void)request;
    (void)len;
    (void)err;
    pb_add_number(&rpc, 1, GET_VOLUME_STATS);
    pb_add_message(&capability, 1, &rpc);
    pb_add_message(out, 1, &capability);
    buf_release(&rpc);
    buf_release(&capability);
    return GRPC_OK;
}

static enum grpc_status publish(void *ctx, const void *request, size_t len, struct buf *out,
                                struct dlc_err *err)
{
    const struct csi_config *c = ctx;
    char *id = NULL, *target = NULL;
    const struct text_field texts[] = {{1, &id}, {4, &target}};
    enum grpc_status status = GRPC_OK;
    bool has_mount = false;

    (void)out;
    if (!read_texts(request, len, texts, 2, &has_mount))
        status = fail(err, GRPC_INVALID_ARGUMENT, "the message is invalid");
    else if (id == NULL)
        status = fail(err, GRPC_INVALID_ARGUMENT, "volume_id is missing");
    else if (target == NULL || target[0] != '/')
        status = fail(err, GRPC_INVALID_ARGUMENT, "target_path is missing, or not absolute");
    else if (!has_mount)
        status =
            fail(err, GRPC_INVALID_ARGUMENT,
                 "volume_capability must be that of a mounted volume: there is no block device");
    else if (volume_publish(&c->dirs, target, err) < 0)
        status = GRPC_INTERNAL;
    else
        log_info("volume %s published at %s", id, target);
    mem_free(&id);
    mem_free(&target);
    return status;
}

static enum grpc_status unpublish(void *ctx, const void *request, size_t len, struct buf *out,
                                  struct dlc_err *err)
{
    const struct csi_config *c = ctx;
    char *id = NULL, *target = NULL;
    const struct text_field texts[] = {{1, &id}, {2, &target}};
    enum grpc_status status = GRPC_OK;

    (void)out;
    if (!read_texts(request, len, texts, 2, NULL))
        status = fail(err, GRPC_INVALID_ARGUMENT, "the message is invalid");
    else if (id == NULL || target == NULL || target[0] != '/')
        status =
            fail(err, GRPC_INVALID_ARGUMENT, "volume_id and an absolute target_path are needed");
    else if (volume_unpublish(&c->dirs, target, err) < 0)
        status = GRPC_INTERNAL;
    else
        log_info("volume %s is gone from %s", id, target);
    mem_free(&id);
    mem_free(&target);
    return status;
}

/* VolumeUsage; unit 1: bytes, 2: inodes. */
static void add_usage(struct buf *out, uint64_t available, uint64_t total, unsigned unit)
{
    struct buf usage = BUF_INIT;

    pb_add_number(&usage, 1, available);
    pb_add_number(&usage, 2, total);
    pb_add_number(&usage, 3, total - available);
    pb_add_number(&usage, 4, unit);
    pb_add_message(out, 1, &usage);
    buf_release(&usage);
}

static enum grpc_status volume_stats(void *ctx, const void *request, size_t len, struct buf *out,
                                     struct dlc_err *err)
{
    char *id = NULL, *path = NULL;
    const struct text_field texts[] = {{1, &id}, {2, &path}};
    enum grpc_status status = GRPC_OK;
    struct statvfs fs;

    (void)ctx;
    if (!read_texts(request, len, texts, 2, NULL)) {
        status = fail(err, GRPC_INVALID_ARGUMENT, "the message is invalid");
    } else if (id == NULL || path == NULL) {
        status = fail(err, GRPC_INVALID_ARGUMENT, "volume_id and volume_path are needed");
    } else if (!volume_is_published(path)) {
        status = fail(err, GRPC_NOT_FOUND, "no volume is published at this path");
    } else if (os_statvfs(path, &fs) < 0) {
        dlc_err_sys(err, "%s", path);
        status = GRPC_INTERNAL;
    } else {
        add_usage(out, fs.f_bavail * fs.f_frsize, fs.f_blocks * fs.f_frsize, 1);
        add_usage(out, fs.f_favail, fs.f_files, 2);
    }
    mem_free(&id);
    mem_free(&path);
    return status;
}

const struct grpc_method csi_methods[] = {
    {"/csi.v1.Identity/GetPluginInfo", plugin_info},
    {"/csi.v1.Identity/GetPluginCapabilities", plugin_capabilities},
    {"/csi.v1.Identity/Probe", probe},
    {"/csi.v1.Node/NodeGetInfo", node_info},
    {"/csi.v1.Node/NodeGetCapabilities", node_capabilities},
    {"/csi.v1.Node/NodePublishVolume", publish},
    {"/csi.v1.Node/NodeUnpublishVolume", unpublish},
    {"/csi.v1.Node/NodeGetVolumeStats", volume_stats},
    {NULL, NULL},
};
