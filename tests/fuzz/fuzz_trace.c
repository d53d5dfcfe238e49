// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as a trace, and as a table of chunks. What is accepted can be replayed by every
 * contender. */
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "sim/workload_mix.h"
#include "sim/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay(const struct sim_trace *t)
{
    struct sim_options o = {.capacity = t->bytes / 2};
    struct sim_result r;

    for (const struct sim_contender *c = sim_contenders; c->name != NULL; c++) {
        sim_run(t, c, &o, &r);
        dlc_check(r.reads == t->n_reads && r.hits <= r.reads);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sim_trace t = SIM_TRACE_INIT;
    struct mix m = MIX_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    if (sim_trace_parse(&t, "input", (const char *)data, size, &err) == 0) {
        sim_trace_index(&t);
        replay(&t);
    } else {
        dlc_check(err.text[0] != '\0');
    }
    if (mix_parse(&m, "input", (const char *)data, size, 8, &err) == 0) {
        mix_seed(&m, size, true);
        mix_shuffle(&m, mix_row(5));
        replay(&m.trace);
    }
    sim_trace_release(&t);
    mix_release(&m);
    return 0;
}
