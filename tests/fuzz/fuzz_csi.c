// SPDX-License-Identifier: Apache-2.0
/*
 * Requests of the kubelet to the methods of the CSI driver. The first byte picks the method, the
 * second says whether the rest is the message itself or describes its fields: a mutator of bytes
 * seldom keeps the lengths of nested messages right. A method that fails says why and one that
 * succeeds answers with a sound message. Nothing is mounted, made or removed outside of the records:
 * those calls fail here, since the paths are the input's.
 */
#include "fuzz_numbers.h"

#include <limits.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "operator/csi/csi_driver.h"
#include "operator/csi/csi_services_i.h"
#include "operator/csi/protobuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The id of the volume "known", of which there is a record; that of one whose record is damaged. */
#define KNOWN   "dlcache-7117fff2d0fd294462b3c802b7cb8753"
#define DAMAGED "dlcache-damaged"

static const char *const texts[] = {"known",      KNOWN,          DAMAGED, "dlcache-",
                                    "dlcache-..", "dlcache-../x", "",      "/",
                                    "/tmp",       "/a/../..",     ".",     "a\nb"};

static struct csi_config config = {
    .socket = "s", .kubelet_socket = "k", .node_id = "n", .dirs.sockets = "/nowhere/sockets"};
static char state_dir[] = "/tmp/fuzz-csi.XXXXXX";

static void remove_state(void)
{
    fault_disarm();
    os_rmtree(state_dir);
}

static void record(const char *id, const char *text)
{
    struct dlc_err err = DLC_ERR_INIT;
    char *path = mem_fmt("%s/volumes/%s", state_dir, id);

    dlc_check(os_write_file(path, text, strlen(text), 0600, &err) == 0);
    mem_free(&path);
}

static void set_up(void)
{
    char *dir;

    dlc_check(mkdtemp(state_dir) != NULL);
    atexit(remove_state);
    log_set_level("error");
    dir = mem_fmt("%s/volumes", state_dir);
    dlc_check(os_mkdirs(dir, 0700) == 0);
    mem_free(&dir);
    config.dirs.state = state_dir;
    record(KNOWN, "1");
    record(DAMAGED, "one");
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(mount) | FAULT_CALL(mkdir) |
                                             FAULT_CALL(unlink) | FAULT_CALL(write),
                                    .nth = 1,
                                    .times = INT_MAX});
}

static void build(struct fuzz_bytes *b, unsigned depth, struct buf *out)
{
    for (unsigned n = fuzz_byte(b) % 8; n > 0 && b->left > 0; n--) {
        uint8_t what = fuzz_byte(b);
        unsigned field = 1 + what % 8;
        struct buf inner = BUF_INIT;

        switch (what >> 3 & 3) {
        case 0: pb_add_number(out, field, fuzz_take(b)); break;
        case 1: pb_add_text(out, field, texts[fuzz_byte(b) % DLC_COUNT(texts)]); break;
        case 2:
            if (depth < 3)
                build(b, depth + 1, &inner);
            pb_add_message(out, field, &inner);
            break;
        default:
            for (unsigned len = fuzz_byte(b); len > 0 && b->left > 0; len--)
                buf_addc(&inner, (char)fuzz_byte(b));
            pb_add_message(out, field, &inner);
        }
        buf_release(&inner);
    }
    if (fuzz_byte(b) == 255 && out->len > 0)
        out->len--; /* cut off */
}

static const struct grpc_method *pick(unsigned i)
{
    static const struct grpc_method *const tables[] = {csi_methods, controller_methods,
                                                       registration_methods};
    unsigned n = 0;

    for (;;) /* over and over until the i-th one */
        for (unsigned t = 0; t < DLC_COUNT(tables); t++)
            for (const struct grpc_method *m = tables[t]; m->path != NULL; m++)
                if (n++ == i)
                    return m;
}

static void check_sound(const struct buf *out)
{
    struct pb_reader r = pb_read(out->data, out->len);
    struct pb_field f;

    while (pb_next(&r, &f))
        ;
    dlc_check(!r.invalid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes b = {data, size};
    const struct grpc_method *m = pick(fuzz_byte(&b));
    struct buf message = BUF_INIT, out = BUF_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    char *exact;

    if (config.dirs.state == NULL)
        set_up();
    if (fuzz_byte(&b) & 1)
        build(&b, 0, &message);
    else
        buf_add(&message, b.p, b.left);
    exact = mem_alloc(message.len); /* so that a step beyond it is seen */
    memcpy(exact, buf_str(&message), message.len);
    if (m->call(&config, exact, message.len, &out, &err) == GRPC_OK)
        check_sound(&out);
    else
        dlc_check(err.text[0] != '\0');
    mem_free(&exact);
    buf_release(&message);
    buf_release(&out);
    return 0;
}
