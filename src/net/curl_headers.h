// SPDX-License-Identifier: Apache-2.0
/* Header lines of a request of libcurl's. Some of them are secret: they are wiped. */
#ifndef DLC_NET_CURL_HEADERS_H
#define DLC_NET_CURL_HEADERS_H

#include <curl/curl.h>

/* list NULL: the first. Gives the list with one more; the line is copied. */
struct curl_slist *header_lines_add(struct curl_slist *list, const char *line);
void header_lines_free(struct curl_slist **list);

#endif
