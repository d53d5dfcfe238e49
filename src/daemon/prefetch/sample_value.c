// SPDX-License-Identifier: Apache-2.0
/*
 * Value of samples: the importance weight of a sample, and the runs that its dataset has still to
 * come. The memory tier asks for them when it ranks a sample (MEMORY-4), if its policy uses them
 * (docs/design/0021). Next uses are in next_use.c, costs are measured by the fetch.
 *
 * The weight is that of the job to which the sample matters most. A sample of which a job does not
 * know the weight yet has that job's mean, so that it is neither the first nor the last to go.
 *
 * How likely a sample is read again, for the tier that nodes share (docs/design/0024), follows from
 * its weight, else from its next use, else it is as likely as any other.
 */
#include "daemon/prefetch/sample_value.h"

#include <math.h>

#include "cache/memory/memory.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/job_weights.h"
#include "daemon/prefetch/next_use.h"

#define LIKELY 0.5 /* as any other sample, and when nobody knows */

static double sample_weight(void *arg, uint64_t sample)
{
    const struct dataset *ds = arg;
    double most = 0;

    dlc_list_each (l, &ds->job_weights) {
        const struct job_weights *w = dlc_container(l, struct job_weights, link);
        double weight = w->users > 0 ? (double)weights_get(&w->w, sample) : 0;

        if (w->users > 0 && !(weight > 0))
            weight = w->mean;
        most = fmax(most, weight);
    }
    return most;
}

/* The weight of the sample against the mean of its job, for the job to which it matters most. 0: no
 * job has weights. */
static double likely_by_weight(const struct dataset *ds, uint64_t sample)
{
    double most = 0;

    dlc_list_each (l, &ds->job_weights) {
        const struct job_weights *w = dlc_container(l, struct job_weights, link);
        double weight = (double)weights_get(&w->w, sample);

        if (w->users > 0 && w->mean > 0)
            most = fmax(most, weight > 0 ? weight / (weight + w->mean) : LIKELY);
    }
    return most;
}

double sample_likely(const struct dataset *ds, uint64_t sample)
{
    double epochs, most = likely_by_weight(ds, sample);

    if (most > 0)
        return most;
    epochs = next_use_after(ds, sample);
    return isinf(epochs) ? LIKELY : 1 / (1 + epochs);
}

static int32_t dataset_runs(void *arg)
{
    const struct dataset *ds = arg;

    return ds->runs;
}

static void value_begin(struct dataset *ds)
{
    static const struct mem_value_ops ops = {.weight = sample_weight, .runs = dataset_runs};

    mem_index_set_value(ds->index, &ops, ds);
}

const struct node_events sample_value_events = {.dataset_ready = value_begin};
