// SPDX-License-Identifier: Apache-2.0
#include "sim/svg_chart.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/check.h"

#define WIDTH  900.0
#define HEIGHT 536.0
#define LEFT   76.0
#define RIGHT  172.0
#define TOP    96.0
#define BOTTOM 62.0
#define LABEL  17.0 /* least distance between two names */
#define FONT   "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
#define INK    "#1b1f24"
#define FAINT  "#667180"
#define RULE   "#e4e8ed"
#define OURS   "#0072b2"
#define BOUND  "#8a939e"

struct frame {
    const struct plot *p;
    double x0, x1, y0, y1, step; /* of the data shown */
    struct buf *out;
};

/* Told apart by people who see colours differently, too; blue is ours. */
static const char *const palette[] = {"#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
                                      "#7a5195", "#8c6d31", "#b33a3a", "#4c9f70", "#6b6ecf"};

static void text(struct buf *out, const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s == '<')
            buf_adds(out, "&lt;");
        else if (*s == '&')
            buf_adds(out, "&amp;");
        else
            buf_addc(out, *s);
    }
}

static void label(struct buf *out, double x, double y, const char *anchor, const char *fill,
                  const char *extra, const char *s)
{
    buf_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\"%s>", x, y, anchor,
             fill, extra);
    text(out, s);
    buf_adds(out, "</text>\n");
}

static double px(const struct frame *f, double x)
{
    double width = WIDTH - LEFT - RIGHT;

    return f->x1 > f->x0 ? LEFT + (x - f->x0) / (f->x1 - f->x0) * width : LEFT + width / 2;
}

static double py(const struct frame *f, double y)
{
    return HEIGHT - BOTTOM - (y - f->y0) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten, five to ten of them over the range. */
static double nice_step(double range)
{
    double power = pow(10, floor(log10(range / 5))), units = range / 5 / power;

    return power * (units < 2 ? 1 : units < 5 ? 2 : 5);
}

static void measure(struct frame *f)
{
    const struct plot *p = f->p;
    double lo = INFINITY, hi = p->top > 0 ? p->top : -INFINITY;

    f->x0 = INFINITY;
    f->x1 = -INFINITY;
    for (unsigned i = 0; i < p->n; i++) {
        f->x0 = fmin(f->x0, p->x[i]);
        f->x1 = fmax(f->x1, p->x[i]);
        for (unsigned s = 0; s < p->n_series; s++) {
            lo = fmin(lo, p->series[s].y[i]);
            hi = fmax(hi, p->series[s].y[i]);
        }
    }
    if (lo > 0 && lo < hi / 2)
        lo = 0;
    if (!(hi > lo))
        hi = lo + 1;
    f->step = nice_step(hi - lo);
    f->y0 = floor(lo / f->step) * f->step;
    f->y1 = ceil(hi / f->step) * f->step;
}

static void axes(struct frame *f)
{
    const struct plot *p = f->p;
    struct buf *out = f->out;
    char number[32];

    for (unsigned i = 0; f->y0 + i * f->step <= f->y1 + f->step / 2; i++) {
        double y = f->y0 + i * f->step;

        buf_addf(out,
                 "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"" RULE "\"/>\n",
                 LEFT, WIDTH - RIGHT, py(f, y), py(f, y));
        snprintf(number, sizeof(number), "%.6g", fabs(y) < f->step / 1e6 ? 0 : y);
        label(out, LEFT - 10, py(f, y) + 4, "end", FAINT, "", number);
    }
    for (unsigned i = 0; i < p->n; i++)
        label(out, px(f, p->x[i]), HEIGHT - BOTTOM + 22, "middle", FAINT, "", p->x_names[i]);
    label(out, LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 16, "middle", INK, "", p->x_label);
    label(out, LEFT - 56, TOP - 16, "start", INK, "", p->y_label);
    label(out, LEFT - 56, 28, "start", INK, " font-size=\"18\" font-weight=\"600\"", p->title);
    label(out, LEFT - 56, 48, "start", FAINT, "", p->subtitle);
}

static bool is_ours(const struct plot_series *s)
{
    return s->style == PLOT_OURS || s->style == PLOT_OURS_TOO;
}

static unsigned layer_of(const struct plot_series *s)
{
    return is_ours(s) ? 1 : s->style == PLOT_BOUND ? 2 : 0;
}

static const char *colour(const struct plot *p, unsigned s)
{
    unsigned plain = 0;

    if (p->series[s].style != PLOT_PLAIN)
        return is_ours(&p->series[s]) ? OURS : BOUND;
    for (unsigned i = 0; i < s; i++)
        plain += p->series[i].style == PLOT_PLAIN;
    return palette[plain % DLC_COUNT(palette)];
}

static void curve(struct frame *f, unsigned s)
{
    const struct plot_series *series = &f->p->series[s];
    bool ours = is_ours(series), bound = series->style == PLOT_BOUND;

    buf_addf(f->out, "<g stroke-linejoin=\"round\"%s>\n",
             series->style == PLOT_OURS_TOO ? " opacity=\".5\"" : "");
    buf_addf(f->out,
             "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s "
             "points=\"",
             colour(f->p, s), ours ? "3" : "1.8", bound ? " stroke-dasharray=\"5 4\"" : "");
    for (unsigned i = 0; i < f->p->n; i++)
        buf_addf(f->out, "%s%.1f,%.1f", i > 0 ? " " : "", px(f, f->p->x[i]), py(f, series->y[i]));
    buf_adds(f->out, "\"/>\n");
    for (unsigned i = 0; i < f->p->n && !bound; i++)
        buf_addf(f->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\"/>\n",
                 px(f, f->p->x[i]), py(f, series->y[i]), ours ? "4" : "3", colour(f->p, s));
    buf_adds(f->out, "</g>\n");
}

/* Names beside the last points, moved apart where curves end close together. */
static void names(struct frame *f)
{
    const struct plot *p = f->p;
    unsigned order[PLOT_SERIES];
    double at[PLOT_SERIES], over;

    for (unsigned s = 0; s < p->n_series; s++) { /* from top to bottom */
        unsigned k = s;

        for (; k > 0 && p->series[order[k - 1]].y[p->n - 1] < p->series[s].y[p->n - 1]; k--)
            order[k] = order[k - 1];
        order[k] = s;
    }
    for (unsigned k = 0; k < p->n_series; k++) {
        at[k] = py(f, p->series[order[k]].y[p->n - 1]) + 4;
        if (k > 0)
            at[k] = fmax(at[k], at[k - 1] + LABEL);
    }
    over = p->n_series > 0 ? at[p->n_series - 1] - (HEIGHT - BOTTOM + 4) : 0;
    for (unsigned k = p->n_series; over > 0 && k-- > 0;) /* back up from the bottom edge */
        at[k] = fmin(at[k], HEIGHT - BOTTOM + 4 - (double)(p->n_series - 1 - k) * LABEL);
    for (unsigned k = 0; k < p->n_series; k++) {
        const struct plot_series *s = &p->series[order[k]];
        double y = py(f, s->y[p->n - 1]);

        buf_addf(
            f->out,
            "<path d=\"M%.1f %.1f L%.1f %.1f\" stroke=\"%s\" stroke-width=\"1\" opacity=\".5\"/>\n",
            px(f, p->x[p->n - 1]) + 6, y, WIDTH - RIGHT + 16, at[k] - 4, colour(p, order[k]));
        label(f->out, WIDTH - RIGHT + 20, at[k], "start", colour(p, order[k]),
              s->style == PLOT_OURS ? " font-weight=\"700\"" : "", s->name);
    }
}

void plot_svg(const struct plot *p, struct buf *out)
{
    struct frame f = {.p = p, .out = out};

    dlc_check(p->n > 0 && p->n_series > 0 && p->n_series <= PLOT_SERIES);
    measure(&f);
    buf_addf(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
             "height=\"%.0f\" font-family=\"" FONT "\" font-size=\"13\">\n"
             "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
             WIDTH, HEIGHT, WIDTH, HEIGHT);
    axes(&f);
    for (unsigned layer = 0; layer < 3; layer++) /* the bounds on top, as they are dashed */
        for (unsigned s = 0; s < p->n_series; s++)
            if (layer_of(&p->series[s]) == layer)
                curve(&f, s);
    names(&f);
    buf_adds(out, "</svg>\n");
}
