// SPDX-License-Identifier: Apache-2.0
/* Parsers of the Redis client: URLs, addresses, redirections; and the slot of a key. */
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "net/redis/redis_i.h"

#define DEFAULT_PORT 6379

/* Messages never show the URL: there may be a password in it. */
static int bad(struct dlc_err *err, const char *what)
{
    return dlc_err_set(err, DLC_EINVAL,
                       "store: %s; it is redis[s]://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...]"
                       "[/PREFIX][?timeout=5s&ca=FILE&cert=FILE&key=FILE]",
                       what);
}

void redis_url_release(struct redis_url *u)
{
    mem_free(&u->user);
    mem_free(&u->password);
    mem_free(&u->prefix);
    mem_free(&u->ca);
    mem_free(&u->cert);
    mem_free(&u->key);
    for (size_t i = 0; i < u->n; i++)
        mem_free(&u->hosts[i]);
    mem_free(&u->hosts);
    mem_free(&u->ports);
    u->n = 0;
}

/* "HOST:PORT", "[::1]:PORT", "::1:PORT" as Redis writes it. */
bool redis_address_split(const char *address, char host[static 80], uint16_t *port)
{
    const char *colon = strrchr(address, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - address);
    uint64_t number;

    if (colon == NULL || !str_parse_u64(colon + 1, &number) || number == 0 || number > 65535)
        return false;
    if (len >= 2 && address[0] == '[' && address[len - 1] == ']') {
        address++;
        len -= 2;
    }
    if (len >= 80)
        return false;
    memcpy(host, address, len);
    host[len] = '\0';
    *port = (uint16_t)number;
    return true;
}

static int parse_host(const char *s, size_t len, struct redis_url *out, struct dlc_err *err)
{
    char *one = mem_strn(s, len), *bracket = strrchr(one, ']');
    char host[80];
    uint16_t port;
    char *full = strchr(bracket != NULL ? bracket : one, ':') != NULL
                     ? mem_str(one)
                     : mem_fmt("%s:%d", one, DEFAULT_PORT);
    bool good = redis_address_split(full, host, &port) && host[0] != '\0' &&
                (bracket != NULL || strchr(host, ':') == NULL);

    for (const char *p = host; good && *p != '\0'; p++)
        good = isalnum((unsigned char)*p) || strchr(".-_:%", *p) != NULL;
    if (good) {
        out->hosts = mem_grow(out->hosts, (out->n + 1) * sizeof(char *));
        out->ports = mem_grow(out->ports, (out->n + 1) * sizeof(uint16_t));
        out->hosts[out->n] = mem_str(host);
        out->ports[out->n++] = port;
    }
    mem_free(&one);
    mem_free(&full);
    return good ? 0 : bad(err, "a host and port cannot be read");
}

static int decode(const char *s, size_t len, char **out, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    bool good = str_uri_decode(s, len, &b) && memchr(buf_str(&b), '\0', b.len) == NULL;

    if (good && b.len > 0)
        *out = mem_str(b.data);
    buf_release(&b);
    return good ? 0 : bad(err, "there is a bad %XX");
}

static int parse_user(const char *s, size_t len, struct redis_url *out, struct dlc_err *err)
{
    const char *colon = memchr(s, ':', len);
    size_t user = colon == NULL ? 0 : (size_t)(colon - s);
    int rc = decode(s, user, &out->user, err);

    if (colon == NULL)
        return decode(s, len, &out->password, err);
    return rc < 0 ? rc : decode(colon + 1, len - user - 1, &out->password, err);
}

/* "NAME=VALUE" */
static int parse_setting(const char *s, size_t len, struct redis_url *out, struct dlc_err *err)
{
    const struct {
        const char *name;
        char **value;
    } files[] = {{"ca=", &out->ca}, {"cert=", &out->cert}, {"key=", &out->key}};
    char *one = mem_strn(s, len);
    int rc = bad(err, "after '?' there may be timeout=5s, and with rediss:// ca, cert and key");

    if (str_starts(one, "timeout=") && str_parse_dur(one + 8, &out->timeout) && out->timeout.ns > 0)
        rc = 0;
    for (size_t i = 0; out->tls && i < sizeof(files) / sizeof(files[0]); i++) {
        size_t name = strlen(files[i].name);

        if (str_starts(one, files[i].name) && *files[i].value == NULL && len > name)
            rc = decode(s + name, len - name, files[i].value, err);
    }
    mem_free(&one);
    return rc;
}

static int parse_query(const char *s, struct redis_url *out, struct dlc_err *err)
{
    for (;; s++) {
        size_t len = strcspn(s, "&");
        int rc = parse_setting(s, len, out, err);

        if (rc < 0)
            return rc;
        s += len;
        if (*s == '\0')
            break;
    }
    return (out->cert == NULL) == (out->key == NULL) ? 0 : bad(err, "cert and key need each other");
}

static int parse_tail(const char *s, struct redis_url *out, struct dlc_err *err)
{
    size_t path = strcspn(s, "?");
    const char *query = s + path;

    if (path > 1) {
        out->prefix = mem_strn(s + 1, path - 1);
        if (strlen(out->prefix) > 64 ||
            strspn(out->prefix,
                   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
                strlen(out->prefix))
            return bad(err, "a prefix has up to 64 letters, digits, '.', '_' and '-'");
    }
    return query[0] == '\0' ? 0 : parse_query(query + 1, out, err);
}

int redis_url_parse(const char *url, struct redis_url *out, struct dlc_err *err)
{
    const char *s, *end, *at;
    int rc = 0;

    *out = (struct redis_url){.timeout = DLC_SEC(5), .tls = str_starts(url, "rediss://")};
    if (!out->tls && !str_starts(url, "redis://"))
        return bad(err, "not redis://");
    s = strstr(url, "://") + 3;
    end = s + strcspn(s, "/?");
    at = memrchr(s, '@', (size_t)(end - s));
    if (at != NULL) {
        rc = parse_user(s, (size_t)(at - s), out, err);
        s = at + 1;
    }
    while (rc == 0) {
        size_t len = strcspn(s, ",/?");

        rc = parse_host(s, len, out, err);
        s += len;
        if (*s != ',')
            break;
        s++;
    }
    if (rc == 0)
        rc = parse_tail(s, out, err);
    if (rc < 0)
        redis_url_release(out);
    return rc;
}

enum redis_answer redis_answer_parse(const char *text, int *slot, char address[static 80])
{
    static const char *const later[] = {"TRYAGAIN", "CLUSTERDOWN", "LOADING",  "MASTERDOWN",
                                        "READONLY", "BUSY",        "UNBLOCKED"};
    size_t word = strcspn(text, " ");
    unsigned number;
    char rest[80];

    if ((str_starts(text, "MOVED ") || str_starts(text, "ASK ")) &&
        sscanf(text + word + 1, "%5u %79s", &number, rest) == 2 && number < REDIS_SLOTS &&
        strrchr(rest, ':') != NULL) {
        *slot = (int)number;
        memcpy(address, rest, sizeof(rest));
        return text[0] == 'M' ? REDIS_MOVED : REDIS_ASK;
    }
    if (str_starts(text, "NOSCRIPT"))
        return REDIS_SCRIPT;
    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
        if (word == strlen(later[i]) && strncmp(text, later[i], word) == 0)
            return REDIS_LATER;
    /* A script met a key that has moved already: its slot is on its way. */
    return strstr(text, "non local key") != NULL ? REDIS_LATER : REDIS_FINAL;
}

/* CRC16 (XMODEM) of the key, or of what is in its first braces. */
int redis_slot(const char *key, size_t len)
{
    const char *open = memchr(key, '{', len);
    unsigned crc = 0;

    if (open != NULL) {
        const char *from = open + 1;
        const char *close = memchr(from, '}', len - (size_t)(from - key));

        if (close != NULL && close != from) {
            key = from;
            len = (size_t)(close - from);
        }
    }
    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned)(unsigned char)key[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) != 0 ? (crc << 1 ^ 0x1021) & 0xffff : crc << 1 & 0xffff;
    }
    return (int)(crc % REDIS_SLOTS);
}
