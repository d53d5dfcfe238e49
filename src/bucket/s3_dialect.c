// SPDX-License-Identifier: Apache-2.0
#include "bucket/s3_dialect_i.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"

#define OSS ".aliyuncs.com"
#define R2  ".r2.cloudflarestorage.com"

/* The host of an endpoint, and its length. */
static const char *host_of(const char *endpoint, size_t *n)
{
    const char *host = endpoint != NULL ? strstr(endpoint, "://") : NULL;

    host = host != NULL ? host + 3 : "";
    *n = strcspn(host, "/:");
    return host;
}

static bool host_ends(const char *endpoint, const char *suffix)
{
    size_t n, len = strlen(suffix);
    const char *host = host_of(endpoint, &n);

    return n > len && strncasecmp(host + n - len, suffix, len) == 0;
}

bool s3_dialect_wants_host(const char *endpoint)
{
    return host_ends(endpoint, OSS);
}

/* "s3.oss-cn-hangzhou-internal.aliyuncs.com" -> "cn-hangzhou"; NULL: it does not say. Gives. */
static char *oss_region(const char *endpoint)
{
    size_t n;
    const char *host = host_of(endpoint, &n);
    char *name = mem_strn(host, n - strlen(OSS)), *region = NULL;
    const char *p = str_starts(name, "s3.") ? name + 3 : name;

    if (str_ends(name, "-internal"))
        *strrchr(name, '-') = '\0';
    if (str_starts(p, "oss-") && strchr(p, '.') == NULL && !str_starts(p, "oss-accelerate"))
        region = mem_str(p + strlen("oss-"));
    mem_free(&name);
    return region;
}

char *s3_dialect_region(const char *endpoint)
{
    if (host_ends(endpoint, R2))
        return mem_str("auto");
    return host_ends(endpoint, OSS) ? oss_region(endpoint) : NULL;
}
