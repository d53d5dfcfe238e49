// SPDX-License-Identifier: Apache-2.0
/*
 * csi.v1.Controller: PersistentVolumes by a StorageClass. Such a volume is a name and nothing else:
 * what a pod may read follows from its namespace when the volume is published, not from the volume.
 * A record of each volume's name and size lies in the state directory, since the specification wants
 * a second creation with another size refused.
 */
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "operator/csi/csi_driver.h"
#include "operator/csi/csi_services_i.h"
#include "operator/csi/protobuf.h"

#define CREATE_DELETE_VOLUME 1 /* ControllerServiceCapability.RPC.Type */
#define ID_PREFIX            "dlcache-"
#define RECORD_MAX           64

/* ---- records ---- */

/* Gives. */
static char *id_of(const char *name)
{
    unsigned char digest[SHA256_LEN];
    char hex[2 * SHA256_LEN + 1];

    sha256(name, strlen(name), digest);
    str_hex(digest, SHA256_LEN / 2, hex);
    return mem_fmt(ID_PREFIX "%s", hex);
}

/* Gives; NULL: this was never an id of ours. */
static char *record_path(const struct csi_config *c, const char *id)
{
    if (!str_starts(id, ID_PREFIX) || strchr(id, '/') != NULL)
        return NULL;
    return mem_fmt("%s/volumes/%s", c->dirs.state, id);
}

/* 0, DLC_ENOTFOUND, or another error. */
static int record_read(const struct csi_config *c, const char *id, uint64_t *bytes,
                       struct dlc_err *err)
{
    char *path = record_path(c, id);
    struct buf text = BUF_INIT;
    int rc = path == NULL ? DLC_ENOTFOUND : os_read_file(path, RECORD_MAX, &text, err);

    if (rc == DLC_ENOTFOUND)
        dlc_err_set(err, rc, "there is no volume %.200s", id);
    else if (rc == 0 && !str_parse_u64(buf_str(&text), bytes))
        rc = dlc_err_set(err, DLC_ECORRUPT, "%s is damaged; remove it", path);
    buf_release(&text);
    mem_free(&path);
    return rc;
}

static int record_write(const struct csi_config *c, const char *id, uint64_t bytes,
                        struct dlc_err *err)
{
    char *dir = mem_fmt("%s/volumes", c->dirs.state), *path = record_path(c, id);
    char *text = mem_fmt("%llu", (unsigned long long)bytes);
    int rc = os_mkdirs(dir, 0700) < 0 ? dlc_err_sys(err, "cannot make %s", dir)
                                      : os_write_file(path, text, strlen(text), 0600, err);

    mem_free(&dir);
    mem_free(&path);
    mem_free(&text);
    return rc;
}

/* ---- requests ---- */

struct request {
    char *name_or_id;
    uint64_t bytes;
    unsigned capabilities;
    bool block; /* one of them is of a block device */
};

static uint64_t required_bytes(const struct pb_field *range)
{
    struct pb_reader r = pb_read(range->data, range->len);
    uint64_t bytes = 0;
    struct pb_field f;

    while (pb_next(&r, &f))
        if (f.number == 1)
            bytes = f.value;
    return bytes;
}

static bool is_block(const struct pb_field *capability)
{
    struct pb_reader r = pb_read(capability->data, capability->len);
    bool block = false;
    struct pb_field f;

    while (pb_next(&r, &f))
        block |= f.number == 1;
    return block;
}

/* Fields 1 and 3 mean the same in all requests; `range`: field 2 is a CapacityRange. */
static bool read_request(const void *data, size_t len, bool range, struct request *q)
{
    struct pb_reader r = pb_read(data, len);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == 1 && f.len > 0) {
            mem_free(&q->name_or_id);
            q->name_or_id = pb_text(&f);
        }
        if (f.number == 2 && range && !f.is_number)
            q->bytes = required_bytes(&f);
        if (f.number == 3 && !f.is_number) {
            q->capabilities++;
            q->block |= is_block(&f);
        }
    }
    return !r.invalid && q->name_or_id != NULL;
}

static enum grpc_status refuse(struct dlc_err *err, enum grpc_status status, const char *text)
{
    dlc_err_set(err, DLC_EINVAL, "%s", text);
    return status;
}

static enum grpc_status status_of(const struct dlc_err *err)
{
    return err->code == DLC_ENOTFOUND ? GRPC_NOT_FOUND : GRPC_INTERNAL;
}

/* ---- methods ---- */

static enum grpc_status capabilities(void *ctx, const void *request, size_t len, struct buf *out,
                                     struct dlc_err *err)
{
    struct buf rpc = BUF_INIT, capability = BUF_INIT;

    (void)ctx;
    (void)request;
    (void)len;
    (void)err;
    pb_add_number(&rpc, 1, CREATE_DELETE_VOLUME);
    pb_add_message(&capability, 1, &rpc);
    pb_add_message(out, 1, &capability);
    buf_release(&rpc);
    buf_release(&capability);
    return GRPC_OK;
}

static enum grpc_status create_named(const struct csi_config *c, const struct request *q,
                                     struct buf *out, struct dlc_err *err)
{
    char *id = id_of(q->name_or_id);
    struct buf volume = BUF_INIT;
    enum grpc_status status = GRPC_OK;
    uint64_t before = q->bytes;
    int rc = record_read(c, id, &before, err);

    if (rc == DLC_ENOTFOUND)
        rc = record_write(c, id, q->bytes, err);
    if (rc < 0) {
        status = GRPC_INTERNAL;
    } else if (before != q->bytes) {
        status = refuse(err, GRPC_ALREADY_EXISTS,
                        "there is a volume of this name with another size; name it otherwise");
    } else {
        pb_add_number(&volume, 1, q->bytes);
        pb_add_text(&volume, 2, id);
        pb_add_message(out, 1, &volume);
    }
    buf_release(&volume);
    mem_free(&id);
    return status;
}

static enum grpc_status create(void *ctx, const void *request, size_t len, struct buf *out,
                               struct dlc_err *err)
{
    struct request q = {0};
    enum grpc_status status;

    if (!read_request(request, len, true, &q))
        status = refuse(err, GRPC_INVALID_ARGUMENT, "name is missing");
    else if (q.capabilities == 0 || q.block)
        status = refuse(err, GRPC_INVALID_ARGUMENT,
                        "volume_capabilities must be those of a mounted volume");
    else
        status = create_named(ctx, &q, out, err);
    mem_free(&q.name_or_id);
    return status;
}

static enum grpc_status remove_volume(void *ctx, const void *request, size_t len, struct buf *out,
                                      struct dlc_err *err)
{
    struct request q = {0};
    enum grpc_status status = GRPC_OK;
    char *path;

    (void)out;
    if (!read_request(request, len, false, &q)) {
        mem_free(&q.name_or_id); /* of a message that is cut off behind it */
        return refuse(err, GRPC_INVALID_ARGUMENT, "volume_id is missing");
    }
    path = record_path(ctx, q.name_or_id);
    if (path != NULL && os_unlink(path) < 0 && errno != ENOENT) {
        dlc_err_sys(err, "cannot remove %s", path);
        status = GRPC_INTERNAL;
    }
    mem_free(&path);
    mem_free(&q.name_or_id);
    return status;
}

static enum grpc_status validate(void *ctx, const void *request, size_t len, struct buf *out,
                                 struct dlc_err *err)
{
    struct request q = {0};
    enum grpc_status status = GRPC_OK;
    struct pb_reader r = pb_read(request, len);
    struct buf confirmed = BUF_INIT;
    struct pb_field f;
    uint64_t bytes;

    if (!read_request(request, len, false, &q))
        status = refuse(err, GRPC_INVALID_ARGUMENT, "volume_id is missing");
    else if (q.capabilities == 0)
        status = refuse(err, GRPC_INVALID_ARGUMENT, "volume_capabilities are missing");
    else if (record_read(ctx, q.name_or_id, &bytes, err) < 0)
        status = status_of(err);
    else if (q.block)
        pb_add_text(out, 2, "there is no block device");
    else {
        while (pb_next(&r, &f))
            if (f.number == 3)
                pb_add_message(&confirmed, 2, &(struct buf){.data = (char *)f.data, .len = f.len});
        pb_add_message(out, 1, &confirmed);
    }
    buf_release(&confirmed);
    mem_free(&q.name_or_id);
    return status;
}

const struct grpc_method controller_methods[] = {
    {"/csi.v1.Controller/ControllerGetCapabilities", capabilities},
    {"/csi.v1.Controller/CreateVolume", create},
    {"/csi.v1.Controller/DeleteVolume", remove_volume},
    {"/csi.v1.Controller/ValidateVolumeCapabilities", validate},
    {NULL, NULL},
};
