// SPDX-License-Identifier: Apache-2.0
#include "net/request_head_i.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* RFC 9110: what methods and names of fields consist of. */
static bool is_token_char(char c)
{
    return c != '\0' && (isalnum((unsigned char)c) || strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(const char *s)
{
    const char *p = s;

    while (is_token_char(*p))
        p++;
    return p > s && *p == '\0';
}

/* Visible characters, spaces and tabs; bytes above 127 are the sender's own matter. */
static bool is_value(const char *s)
{
    for (; *s != '\0'; s++)
        if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
            return false;
    return true;
}

size_t request_head_length(const char *data, size_t len, size_t from)
{
    static const char end[] = "\r\n\r\n";
    size_t at = from > sizeof(end) ? from - sizeof(end) : 0;
    const char *found = len > at ? memmem(data + at, len - at, end, sizeof(end) - 1) : NULL;

    return found != NULL ? (size_t)(found - data) + sizeof(end) - 1 : 0;
}

bool request_head_begins(const char *data, size_t len)
{
    for (size_t i = 0; i < len && data[i] != ' '; i++)
        if (!is_token_char(data[i]))
            return false;
    return len == 0 || data[0] != ' ';
}

/* Cut the next line off *rest. NULL: a CR or LF stands alone. */
static char *take_line(char **rest)
{
    char *line = *rest, *end = line + strcspn(line, "\r\n");

    if (end[0] != '\r' || end[1] != '\n')
        return NULL;
    *end = '\0';
    *rest = end + 2;
    return line;
}

static int parse_request_line(struct request_head *h, char *line, const char **why)
{
    char *target = strchr(line, ' '), *version = target != NULL ? strchr(target + 1, ' ') : NULL;

    *why = "the request line must be METHOD PATH HTTP/1.1";
    if (version == NULL)
        return 400;
    *target++ = *version++ = '\0';
    if (!is_token(line) || !is_value(target) || *target == '\0')
        return 400;
    if (strncmp(version, "HTTP/", 5) != 0)
        return 400;
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0) {
        *why = "this server speaks HTTP/1.1";
        return 505;
    }
    h->method = line;
    h->target = target;
    h->keep = version[7] == '1';
    return 0;
}

static const char *bearer(const char *value)
{
    if (strncasecmp(value, "Bearer ", 7) != 0)
        return NULL;
    value += 7;
    value += strspn(value, " ");
    return *value != '\0' ? value : NULL;
}

static void take_field(struct request_head *h, const char *name, const char *value)
{
    if (strcasecmp(name, "Authorization") == 0)
        h->token = bearer(value);
    else if (strcasecmp(name, "Range") == 0)
        h->range = value;
    else if (strcasecmp(name, "If-Range") == 0)
        h->if_range = true;
    else if (strcasecmp(name, "Dlcache-Processing") == 0)
        h->processing = strcmp(value, "1") == 0;
    else if (strcasecmp(name, "Content-Length") == 0)
        h->body = h->body || strcmp(value, "0") != 0;
    else if (strcasecmp(name, "Transfer-Encoding") == 0)
        h->body = true;
    else if (strcasecmp(name, "Connection") == 0 && strcasestr(value, "close") != NULL)
        h->keep = false;
}

/* "Name: value"; *value is without the white space around it. */
static bool split_field(char *line, char **value)
{
    char *colon = strchr(line, ':'), *end;

    if (colon == NULL)
        return false;
    *colon = '\0';
    *value = colon + 1 + strspn(colon + 1, " \t");
    for (end = *value + strlen(*value); end > *value && (end[-1] == ' ' || end[-1] == '\t');)
        *--end = '\0';
    return is_token(line) && is_value(*value);
}

int request_head_parse(struct request_head *h, char *text, size_t len, const char **why)
{
    char *rest = text, *line = take_line(&rest), *value;
    bool host = false;
    int status;

    *h = (struct request_head){0};
    *why = "a line does not end with CR LF, or there is a zero byte";
    if (strlen(text) + (line != NULL ? 2 + strlen(rest) : 0) != len || line == NULL)
        return 400;
    status = parse_request_line(h, line, why);
    if (status != 0)
        return status;
    *why = "a header field is not NAME: VALUE";
    while ((line = take_line(&rest)) != NULL && *line != '\0') {
        if (!split_field(line, &value))
            return 400;
        host = host || strcasecmp(line, "Host") == 0;
        take_field(h, line, value);
    }
    if (line == NULL)
        return 400;
    *why = "the field Host is missing";
    return host || !h->keep ? 0 : 400;
}
