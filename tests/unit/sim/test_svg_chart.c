// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <expat.h>

#include "sim/svg_chart.h"

struct seen {
    int polylines, texts, depth;
    bool inside; /* every number that places something lies on the page */
};

static void on_start(void *priv, const char *name, const char **atts)
{
    struct seen *s = priv;

    s->polylines += strcmp(name, "polyline") == 0;
    s->texts += strcmp(name, "text") == 0;
    for (; atts[0] != NULL; atts += 2) {
        double v = atof(atts[1]);

        if (strcmp(atts[0], "y") == 0 || strcmp(atts[0], "cy") == 0)
            s->inside = s->inside && v >= 0 && v <= 540;
        if (strcmp(atts[0], "x") == 0 || strcmp(atts[0], "cx") == 0)
            s->inside = s->inside && v >= 0 && v <= 900;
    }
}

static struct seen look(const struct plot *p)
{
    XML_Parser parser = XML_ParserCreate(NULL);
    struct seen s = {.inside = true};
    struct buf svg = BUF_INIT;

    plot_svg(p, &svg);
    XML_SetUserData(parser, &s);
    XML_SetElementHandler(parser, on_start, NULL);
    assert_int_equal(XML_Parse(parser, svg.data, (int)svg.len, 1), XML_STATUS_OK);
    assert_null(strstr(buf_str(&svg), "nan"));
    assert_null(strstr(buf_str(&svg), "inf"));
    XML_ParserFree(parser);
    buf_release(&svg);
    return s;
}

static void test_curves_and_names(void **state)
{
    static const double x[] = {1, 2, 4}, a[] = {3, 2, 1}, b[] = {3, 2, 1.001}, c[] = {900, 5, 0};
    static const char *const names[] = {"1", "2", "4 < 5"};
    struct plot p = {.title = "A & B",
                     .subtitle = "",
                     .x_label = "x",
                     .y_label = "y",
                     .x = x,
                     .x_names = names,
                     .n = 3,
                     .series = {{"a", a, PLOT_PLAIN}, {"b", b, PLOT_OURS}, {"c", c, PLOT_BOUND}},
                     .n_series = 3};
    struct seen s = look(&p);

    (void)state;
    assert_int_equal(s.polylines, 3);
    assert_true(s.texts >= 3 + 3 + 4);
    assert_true(s.inside);
}

/* One point, no range, sixteen curves that end at the same place. */
static void test_odd_data(void **state)
{
    static const double x[] = {7}, y[] = {0};
    static const char *const names[] = {"7"};
    struct plot p = {.title = "", .subtitle = "", .x_label = "", .y_label = "", .x = x};

    (void)state;
    p.x_names = names;
    p.n = 1;
    for (p.n_series = 0; p.n_series < PLOT_SERIES; p.n_series++)
        p.series[p.n_series] = (struct plot_series){"s", y, PLOT_PLAIN};
    assert_true(look(&p).inside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curves_and_names),
        cmocka_unit_test(test_odd_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
