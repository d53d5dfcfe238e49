// SPDX-License-Identifier: Apache-2.0
#include "bucket/azure_account.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"

#define DEVELOPMENT "http://127.0.0.1:10000/devstoreaccount1" /* UseDevelopmentStorage=true */

#define FORMS_TEXT "az://CONTAINER/PREFIX or az://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX"

/* Azure's clouds: the world, China, the United States' government; and accounts in DNS zones. */
static const char *const suffixes[] = {".blob.core.windows.net", ".blob.core.chinacloudapi.cn",
                                       ".blob.core.usgovcloudapi.net", ".blob.storage.azure.net"};

/* ---- names ---- */

static bool name_ok(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!islower((unsigned char)s[i]) && !isdigit((unsigned char)s[i]) && s[i] != '-')
            return false;
    }
    return n >= 3 && n <= 63 && s[0] != '-' && s[n - 1] != '-';
}

static bool container_ok(const char *s)
{
    return strcmp(s, "$root") == 0 || strcmp(s, "$web") == 0 || name_ok(s, strlen(s));
}

/* The n bytes at host end in one of Azure's suffixes, and a name comes before it. */
static bool host_ok(const char *host, size_t n)
{
    for (size_t i = 0; i < DLC_COUNT(suffixes); i++) {
        size_t len = strlen(suffixes[i]);

        if (n > len && strncasecmp(host + n - len, suffixes[i], len) == 0)
            return name_ok(host, strcspn(host, "."));
    }
    return false;
}

/* ---- URLs ---- */

static int bad_url(const char *rest, struct dlc_err *err)
{
    if (*rest == '\0' || *rest == '/')
        return dlc_err_set(err, DLC_EINVAL, "the URL names no container; write " FORMS_TEXT);
    return dlc_err_set(err, DLC_EINVAL,
                       "az://%.120s names no container of Azure (3 to 63 of a-z 0-9 -, or $root, "
                       "$web): write " FORMS_TEXT,
                       rest);
}

/* Gives the host in lower case, that of the blob service for one of the data lake's. */
static char *host_of(const char *s, size_t n)
{
    char *host = mem_strn(s, n), *dfs, *blob;

    for (char *p = host; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    dfs = strstr(host, ".dfs.");
    if (dfs != NULL) {
        blob = mem_fmt("%.*s.blob.%s", (int)(dfs - host), host, dfs + 5);
        mem_free(&host);
        host = blob;
    }
    return host;
}

int azure_url_split(const char *rest, char **bucket, char **prefix, struct dlc_err *err)
{
    size_t n = strcspn(rest, "/");
    const char *at = memchr(rest, '@', n), *more = rest[n] == '/' ? rest + n + 1 : rest + n;
    char *host = NULL, *container = NULL;
    int rc = 0;

    if (at != NULL) {
        container = mem_strn(rest, (size_t)(at - rest));
        host = host_of(at + 1, n - (size_t)(at + 1 - rest));
    } else if (memchr(rest, '.', n) != NULL) {
        host = host_of(rest, n);
        container = mem_strn(more, strcspn(more, "/"));
        more += strlen(container) + (more[strlen(container)] == '/');
    } else {
        container = mem_strn(rest, n);
    }
    if ((host != NULL && !host_ok(host, strlen(host))) || !container_ok(container)) {
        rc = bad_url(rest, err);
    } else {
        *bucket = host != NULL ? mem_fmt("%s/%s", host, container) : mem_str(container);
        *prefix = mem_str(more);
    }
    mem_free(&host);
    mem_free(&container);
    return rc;
}

/* ---- connection strings ---- */

char *azure_connection_field(const char *text, const char *name)
{
    size_t len = strlen(name);

    while (text != NULL && *text != '\0') {
        size_t n = strcspn(text, ";");

        while (n > 0 && isspace((unsigned char)*text)) {
            text++;
            n--;
        }
        if (n > len + 1 && strncasecmp(text, name, len) == 0 && text[len] == '=')
            return mem_strn(text + len + 1, n - len - 1);
        text += n + (text[n] == ';');
    }
    return NULL;
}

/* Gives the blob endpoint that a connection string means, or NULL. */
static char *connection_endpoint(const char *text)
{
    char *blob = azure_connection_field(text, "BlobEndpoint");
    char *development = azure_connection_field(text, "UseDevelopmentStorage");
    char *name = azure_connection_field(text, "AccountName");
    char *suffix = azure_connection_field(text, "EndpointSuffix");
    char *protocol = azure_connection_field(text, "DefaultEndpointsProtocol");

    if (blob == NULL && development != NULL && strcasecmp(development, "true") == 0)
        blob = mem_str(DEVELOPMENT);
    else if (blob == NULL && name != NULL)
        blob = mem_fmt("%s://%s.blob.%s", protocol != NULL ? protocol : "https", name,
                       suffix != NULL ? suffix : "core.windows.net");
    mem_free(&development);
    mem_free(&name);
    mem_free(&suffix);
    mem_free(&protocol);
    return blob;
}

/* ---- accounts ---- */

bool azure_is_cloud(const char *endpoint)
{
    static const char scheme[] = "https://";
    const char *host;

    if (!str_starts(endpoint, scheme) || strchr(endpoint, '@') != NULL)
        return false;
    host = endpoint + strlen(scheme);
    return host_ok(host, strcspn(host, "/:"));
}

/* The account that an endpoint names: in the host of Azure's own, elsewhere (Azurite) as the first
 * part of the path. Gives, or NULL. */
static char *name_in(const char *endpoint)
{
    const char *host = strstr(endpoint, "://"), *path;
    size_t n;

    if (host == NULL)
        return NULL;
    host += 3;
    n = strcspn(host, "/:");
    if (host_ok(host, n)) {
        n = strcspn(host, ".");
        if (n > 10 && strncmp(host + n - 10, "-secondary", 10) == 0)
            n -= 10;
        return mem_strn(host, n);
    }
    path = strchr(host, '/');
    n = path != NULL ? strcspn(path + 1, "/") : 0;
    return n > 0 ? mem_strn(path + 1, n) : NULL;
}

static const char *env(const char *name)
{
    const char *v = getenv(name);

    return v != NULL && *v != '\0' ? v : NULL;
}

static const char *env_name(void)
{
    const char *name = env("AZURE_STORAGE_ACCOUNT_NAME");

    return name != NULL ? name : env("AZURE_STORAGE_ACCOUNT");
}

/* Gives the URL's own endpoint, or NULL. */
static char *url_endpoint(const struct url *u)
{
    const char *slash = strchr(u->bucket, '/');

    return slash == NULL ? NULL : mem_fmt("https://%.*s", (int)(slash - u->bucket), u->bucket);
}

/* Gives what the environment says, or NULL. */
static char *env_endpoint(void)
{
    const char *service = env("AZURE_STORAGE_SERVICE_ENDPOINT"), *name = env_name();
    char *e = connection_endpoint(env("AZURE_STORAGE_CONNECTION_STRING"));

    if (e == NULL && service != NULL)
        e = mem_str(service);
    if (e == NULL && name != NULL)
        e = mem_fmt("https://%s.blob.core.windows.net", name);
    return e;
}

char *azure_endpoint_of_env(const struct url *u)
{
    return strchr(u->bucket, '/') != NULL ? NULL : env_endpoint();
}

char *azure_endpoint(const struct url *u)
{
    char *e = url_endpoint(u);

    if (e == NULL)
        e = env_endpoint();
    return e != NULL ? e : mem_str("");
}

/* Gives the account's name, when the endpoint does not say it. */
static char *name_elsewhere(const char *given)
{
    char *name = mem_str(given);

    if (name == NULL)
        name = azure_connection_field(env("AZURE_STORAGE_CONNECTION_STRING"), "AccountName");
    return name != NULL ? name : mem_str(env_name());
}

int azure_account_find(const struct url *u, const char *endpoint, const char *name,
                       struct azure_account *out, struct dlc_err *err)
{
    char *own = url_endpoint(u);

    *out = (struct azure_account){NULL, NULL};
    if (endpoint != NULL && *endpoint != '\0')
        out->endpoint = mem_str(endpoint);
    else if (own != NULL)
        out->endpoint = mem_str(own);
    else
        out->endpoint =
            name != NULL ? mem_fmt("https://%s.blob.core.windows.net", name) : env_endpoint();
    if (out->endpoint != NULL)
        out->name = name_in(own != NULL ? own : out->endpoint);
    if (out->name == NULL)
        out->name = name_elsewhere(name);
    mem_free(&own);
    if (out->endpoint != NULL && (out->name == NULL || name_ok(out->name, strlen(out->name))))
        return 0;
    dlc_err_set(err, DLC_EINVAL,
                out->endpoint == NULL
                    ? "az://%.80s: which storage account? Set AZURE_STORAGE_ACCOUNT or --endpoint, "
                      "or write az://ACCOUNT.blob.core.windows.net/%.80s/..."
                    : "az://%.80s: the name of the storage account has characters other than a-z, "
                      "0-9 and -: correct AZURE_STORAGE_ACCOUNT or the endpoint (container %.80s)",
                u->bucket, u->bucket);
    azure_account_release(out);
    return DLC_EINVAL;
}

void azure_account_release(struct azure_account *a)
{
    mem_free(&a->name);
    mem_free(&a->endpoint);
}
