// SPDX-License-Identifier: Apache-2.0
#include "cli/resource_name.h"

#include <ctype.h>
#include <string.h>

static bool starts(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool name_is_ok(const char *s)
{
    size_t len = strlen(s);

    return len >= 1 && len <= NAME_LEN && starts(s[0]) &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

void name_of_url(const char *url, char out[static NAME_LEN + 1])
{
    const char *rest = strstr(url, "://"), *end, *start;
    size_t n = 0;

    rest = rest != NULL ? rest + 3 : url;
    end = rest + strcspn(rest, "?#");
    while (end > rest && end[-1] == '/')
        end--;
    for (start = end; start > rest && start[-1] != '/'; start--)
        ;
    for (; start < end && n < NAME_LEN; start++) {
        char c = (char)tolower((unsigned char)*start);

        if (!starts(c) && (n == 0 || (c != '.' && c != '_')))
            c = '-';
        if (starts(c) || (n > 0 && out[n - 1] != '-'))
            out[n++] = c;
    }
    while (n > 0 && !starts(out[n - 1]))
        n--;
    out[n] = '\0';
    if (n == 0)
        memcpy(out, "dataset", sizeof("dataset"));
}
