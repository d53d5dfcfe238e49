// SPDX-License-Identifier: Apache-2.0
#include "net/curl_headers.h"

#include <string.h>

#include "base/check.h"

struct curl_slist *header_lines_add(struct curl_slist *list, const char *line)
{
    list = curl_slist_append(list, line);
    dlc_check(list != NULL); /* only for want of a few hundred bytes */
    return list;
}

void header_lines_free(struct curl_slist **list)
{
    for (struct curl_slist *i = *list; i != NULL; i = i->next)
        explicit_bzero(i->data, strlen(i->data));
    curl_slist_free_all(*list);
    *list = NULL;
}
