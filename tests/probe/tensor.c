// SPDX-License-Identifier: Apache-2.0
/*
 * usage: probe-tensor FILE type=NAME shape=2,3 [stored=NAME] [first=N] [count=N]
 * Writes what tensor_make() makes of rows of a file; raw when it is told what is stored.
 */
#include "probe.h"

#include "base/mem.h"
#include "loader/tensor/tensor.h"

static enum tensor_type type_of(const char *name)
{
    for (unsigned i = 0; name != NULL && i < TENSOR_TYPES; i++)
        if (strcmp(tensor_type_name((enum tensor_type)i), name) == 0)
            return (enum tensor_type)i;
    return (enum tensor_type)TENSOR_TYPES;
}

int main(int argc, char **argv)
{
    const char *shape = probe_text(argv, "shape"), *stored = probe_text(argv, "stored");
    struct tensor_spec spec = {.format = stored == NULL ? TENSOR_NPY : TENSOR_RAW,
                               .stored = type_of(stored),
                               .type = type_of(probe_text(argv, "type"))};
    uint64_t first = (uint64_t)probe_number(argv, "first"), count;
    struct dlc_err err = DLC_ERR_INIT;
    struct buf b = probe_file(argc > 1 ? argv[1] : "");
    struct tensor_rows rows;
    void *out;

    for (; shape != NULL && *shape != '\0'; shape += *shape == ',')
        spec.dims[spec.n_dims++] = strtoull(shape, (char **)&shape, 10);
    probe_good(tensor_check_spec(&spec, &err), &err);
    probe_good(tensor_open(b.data, b.len, &spec, &rows, &err), &err);
    count = probe_text(argv, "count") != NULL ? (uint64_t)probe_number(argv, "count") : rows.count;
    out = mem_alloc(count * tensor_bytes(&spec) + 1);
    probe_good(tensor_make(&rows, &spec, first, count, out, &err), &err);
    fwrite(out, tensor_bytes(&spec), count, stdout);
    mem_free(&out);
    buf_release(&b);
    return 0;
}
