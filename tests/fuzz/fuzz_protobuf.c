// SPDX-License-Identifier: Apache-2.0
/* Messages of Protocol Buffers: fields lie inside the message; what is read and written again reads
 * the same. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "operator/csi/protobuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_again(const struct pb_field *f, struct buf *out)
{
    if (f->is_number)
        pb_add_number(out, f->number, f->value);
    else
        pb_add_message(out, f->number, &(struct buf){.data = (char *)f->data, .len = f->len});
}

static void look_at(const void *data, size_t size, unsigned depth)
{
    struct pb_reader r = pb_read(data, size), s;
    struct buf again = BUF_INIT;
    struct pb_field f, g;

    while (pb_next(&r, &f)) {
        char *text = pb_text(&f);

        dlc_check(f.number > 0 && (text == NULL || strlen(text) == f.len));
        dlc_check(f.is_number ||
                  (f.data >= (const char *)data && f.data + f.len <= (const char *)data + size));
        mem_free(&text);
        buf_clear(&again);
        write_again(&f, &again);
        s = pb_read(again.data, again.len);
        if (again.len > 0)
            dlc_check(pb_next(&s, &g) && g.number == f.number && g.value == f.value &&
                      g.len == f.len);
        if (!f.is_number && depth < 4)
            look_at(f.data, f.len, depth + 1);
    }
    buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    look_at(data, size, 0);
    return 0;
}
