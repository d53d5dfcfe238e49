// SPDX-License-Identifier: Apache-2.0
#include "gateway/page/page.h"

#include <string.h>

#include "base/check.h"

/* One line per file; tools/embed makes the arrays. */
#define PAGE_FILES(FILE_)                                                                          \
    FILE_("index.html", web_index_html, "text/html; charset=utf-8")                                \
    FILE_("page.css", web_page_css, "text/css; charset=utf-8")                                     \
    FILE_("page.js", web_page_js, "text/javascript; charset=utf-8")                                \
    FILE_("icon.svg", web_icon_svg, "image/svg+xml")

#define DECLARE(name, data, type)                                                                  \
    extern const unsigned char data[];                                                             \
    extern const size_t data##_len;
PAGE_FILES(DECLARE)
#undef DECLARE

static const struct {
    const char *name, *type;
    const unsigned char *data;
    const size_t *len;
} files[] = {
#define ROW(name, data, type) {name, type, data, &data##_len},
    PAGE_FILES(ROW)
#undef ROW
};

static void answer(struct http_reply *reply, size_t i)
{
    reply->type = files[i].type;
    reply->data = files[i].data;
    reply->data_len = *files[i].len;
    http_reply_header(reply, "Content-Security-Policy",
                      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                      "connect-src 'self'; base-uri 'none'; form-action 'none'; "
                      "frame-ancestors 'none'");
    http_reply_header(reply, "X-Content-Type-Options", "nosniff");
    http_reply_header(reply, "Referrer-Policy", "no-referrer");
}

void page_index(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)r;
    (void)ctx;
    answer(reply, 0);
}

void page_file(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)ctx;
    for (size_t i = 0; i < DLC_COUNT(files); i++)
        if (strcmp(files[i].name, r->params[0]) == 0) {
            answer(reply, i);
            return;
        }
    http_problem(reply, 404, "Not found", "the page has no file of this name");
}
