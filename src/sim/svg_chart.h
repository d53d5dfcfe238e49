// SPDX-License-Identifier: Apache-2.0
/* A line chart as SVG: one curve per series, named at its right end. */
#ifndef DLC_SIM_SVG_CHART_H
#define DLC_SIM_SVG_CHART_H

#include "base/buf.h"

#define PLOT_SERIES 16

enum plot_style { PLOT_PLAIN, PLOT_OURS, PLOT_OURS_TOO, PLOT_BOUND };

struct plot_series {
    const char *name;
    const double *y; /* one for each x */
    enum plot_style style;
};

struct plot {
    const char *title, *subtitle, *x_label, *y_label;
    const double *x;
    const char *const *x_names; /* what stands below each x */
    unsigned n;                 /* of x */
    struct plot_series series[PLOT_SERIES];
    unsigned n_series;
    double top; /* the scale ends there at least; 0: by the data */
};

void plot_svg(const struct plot *p, struct buf *out);

#endif
