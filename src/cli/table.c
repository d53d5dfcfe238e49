// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"

void table_init(struct table *t, const char *headings)
{
    const char *s = headings;
    bool more = true;

    *t = (struct table)TABLE_INIT;
    while (more) {
        size_t n = strcspn(s, "|");
        bool right = n > 0 && s[0] == '>';
        char *heading = mem_strn(s + right, n - right);

        dlc_check(t->columns < TABLE_COLUMNS);
        t->right |= (unsigned)right << t->columns;
        t->columns++;
        table_add(t, heading);
        mem_free(&heading);
        more = s[n] == '|';
        s += n + 1;
    }
}

void table_add(struct table *t, const char *text)
{
    struct buf b = BUF_INIT;

    str_printable(text, strlen(text), &b);
    mem_reserve(t->cells, t->n, t->cap);
    t->cells[t->n++] = buf_take(&b);
}

void table_addf(struct table *t, const char *fmt, ...)
{
    va_list ap;
    char text[256];

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    table_add(t, text);
}

/* Characters, not bytes: those that continue a UTF-8 sequence do not count. */
static size_t width(const char *s)
{
    size_t n = 0;

    for (; *s != '\0'; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static bool has_headings(const struct table *t)
{
    for (unsigned i = 0; i < t->columns; i++)
        if (t->cells[i][0] != '\0')
            return true;
    return false;
}

void table_format(const struct table *t, struct buf *out)
{
    size_t widths[TABLE_COLUMNS] = {0};

    dlc_check(t->n % t->columns == 0); /* only whole rows */
    for (unsigned i = 0; i < t->n; i++)
        widths[i % t->columns] = DLC_MAX(widths[i % t->columns], width(t->cells[i]));
    for (unsigned i = has_headings(t) ? 0 : t->columns; i < t->n; i++) {
        unsigned c = i % t->columns;
        bool last = c == t->columns - 1, right = (t->right >> c & 1) != 0;
        int pad = (int)(widths[c] - width(t->cells[i]));

        buf_addf(out, "%*s%s", right ? pad : 0, "", t->cells[i]);
        if (last)
            buf_addc(out, '\n');
        else
            buf_addf(out, "%*s", (right ? 0 : pad) + 2, "");
    }
}

void table_print(const struct table *t, FILE *f)
{
    struct buf b = BUF_INIT;

    table_format(t, &b);
    fputs(buf_str(&b), f);
    buf_release(&b);
}

void table_release(struct table *t)
{
    for (unsigned i = 0; i < t->n; i++)
        mem_free(&t->cells[i]);
    mem_free(&t->cells);
    *t = (struct table)TABLE_INIT;
}

const char *table_count(unsigned long long n, char out[static 32])
{
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%llu", n), o = 0;

    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[o++] = ',';
        out[o++] = digits[i];
    }
    out[o] = '\0';
    return out;
}
