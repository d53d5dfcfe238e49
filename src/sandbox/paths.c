// SPDX-License-Identifier: Apache-2.0
#include "sandbox/paths_i.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/socket_dir.h"
#include "base/str.h"
#include "base/syscalls.h"

/* Of libraries and of the kernel. What is a secret of processes is not to be had by /proc: Landlock
 * also refuses what only a tracer may read. */
static const char *const system_paths[] = {
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/sys",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
    "/run/systemd/resolve",
    "/run/nscd",
    "/run/resolvconf",
    "/run/secrets",
    "/var/run/secrets",
    "/run/NetworkManager",
    "/var/lib/ca-certificates",
};

/* Of /etc, for root: the whole directory would have the passwords in it. */
static const char *const etc_of_root[] = {
    "/etc/ca-certificates", "/etc/crypto-policies", "/etc/dlcache",   "/etc/gai.conf",
    "/etc/gnutls",          "/etc/group",           "/etc/host.conf", "/etc/hostname",
    "/etc/hosts",           "/etc/ld.so.cache",     "/etc/localtime", "/etc/machine-id",
    "/etc/nsswitch.conf",   "/etc/passwd",          "/etc/pkcs11",    "/etc/pki",
    "/etc/protocols",       "/etc/resolv.conf",     "/etc/services",  "/etc/ssl",
};

/* Files that the environment names. */
static const char *const variables[] = {
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_FEDERATED_TOKEN_FILE",
    "CLOUDSDK_CONFIG",
    "CURL_CA_BUNDLE",
    "DLCACHE_CONFIG",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "HOSTALIASES",
    "KUBECONFIG",
    "OPENSSL_CONF",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
};

/* Below the home directory. */
static const char *const homes[] = {".aws", ".config/gcloud"};

static bool is_daemon(const struct sandbox_plan *plan)
{
    return plan->role == SANDBOX_SERVE || plan->role == SANDBOX_NODE;
}

bool paths_reads_everything(const struct sandbox_plan *plan)
{
    return plan->role == SANDBOX_SERVE ||
           (plan->role == SANDBOX_OPERATOR && getenv("KUBERNETES_SERVICE_HOST") == NULL);
}

/* Is a directory one that others keep files in too? */
static bool is_shared_dir(const char *dir)
{
    static const char *const shared[] = {"/", "/etc", "/tmp", "/var/tmp", "/home"};
    const char *home = getenv("HOME");

    for (size_t i = 0; i < DLC_COUNT(shared); i++) {
        if (strcmp(dir, shared[i]) == 0)
            return true;
    }
    return home != NULL && strcmp(dir, home) == 0;
}

/* A file that a setting names, and what replaces it there: its directory, if that is not shared. */
static void allow_file(struct landlock *l, const char *path)
{
    char *copy = mem_str(path), *dir = os_realpath(dirname(copy));

    if (path[0] != '\0' && dir != NULL) {
        landlock_allow(l, path, LANDLOCK_READ);
        if (!is_shared_dir(dir))
            landlock_allow(l, dir, LANDLOCK_READ);
    }
    free(dir);
    mem_free(&copy);
}

static void allow_list(struct landlock *l, const char *list)
{
    while (*list != '\0') {
        size_t n = strcspn(list, ",");
        char *one = mem_strn(list, n);

        landlock_allow(l, str_trim(one), LANDLOCK_READ);
        mem_free(&one);
        list += n + (list[n] == ',');
    }
}

/* ca=FILE, cert=FILE and key=FILE in the query of the URL of a Redis, decoded as redis_url.c does. */
static void allow_files_of_url(struct landlock *l, const char *url)
{
    const char *p = strchr(url, '?');

    while (p != NULL && *p != '\0') {
        size_t n = strcspn(++p, "&");
        const char *value = memchr(p, '=', n);
        struct buf path = BUF_INIT;

        if (value != NULL && str_uri_decode(value + 1, n - (size_t)(value + 1 - p), &path))
            allow_file(l, buf_str(&path));
        buf_release(&path);
        p += n;
    }
}

/* Every setting may name a file, also one that this list does not know yet. */
static void allow_setting(struct landlock *l, const char *value)
{
    struct stat st;

    if (os_stat(value, &st) == 0 && S_ISREG(st.st_mode))
        allow_file(l, value);
}

#define allow_setting_text(value)   allow_setting(l, value)
#define allow_setting_size(value)   (void)(value)
#define allow_setting_dur(value)    (void)(value)
#define allow_setting_number(value) (void)(value)
#define allow_setting_real(value)   (void)(value)
#define allow_setting_flag(value)   (void)(value)

static void allow_settings(const struct config *c, struct landlock *l)
{
#define OPTION(field, type, def, flag, env, roles, help) allow_setting_##type(c->field);
#include "base/tbl/options.def"
#undef OPTION
    allow_files_of_url(l, c->store);
    allow_files_of_url(l, c->shared);
    allow_list(l, c->allow_path);
}

static void allow_reads(const struct config *c, struct landlock *l)
{
    const char *home = getenv("HOME");

    for (size_t i = 0; i < DLC_COUNT(system_paths); i++)
        landlock_allow(l, system_paths[i], LANDLOCK_READ);
    if (geteuid() != 0)
        landlock_allow(l, "/etc", LANDLOCK_READ);
    for (size_t i = 0; geteuid() == 0 && i < DLC_COUNT(etc_of_root); i++)
        landlock_allow(l, etc_of_root[i], LANDLOCK_READ);
    for (size_t i = 0; i < DLC_COUNT(variables); i++) {
        if (getenv(variables[i]) != NULL)
            allow_file(l, getenv(variables[i]));
    }
    for (size_t i = 0; home != NULL && i < DLC_COUNT(homes); i++) {
        char *path = mem_fmt("%s/%s", home, homes[i]);

        landlock_allow(l, path, LANDLOCK_READ);
        mem_free(&path);
    }
    allow_settings(c, l);
}

/* The process makes it itself if it does not exist. */
static void allow_dir(struct landlock *l, const char *path)
{
    if (os_access(path, F_OK) == 0 || os_mkdirs(path, 0700) == 0)
        landlock_allow(l, path, LANDLOCK_WRITE);
}

static void allow_dir_of(struct landlock *l, const char *path)
{
    char *copy = mem_str(path);

    landlock_allow(l, dirname(copy), LANDLOCK_WRITE);
    mem_free(&copy);
}

void paths_allow(const struct sandbox_plan *plan, struct landlock *l)
{
    const struct config *c = plan->config;

    if (paths_reads_everything(plan))
        landlock_allow(l, "/", LANDLOCK_READ);
    else
        allow_reads(c, l);
    landlock_allow(l, "/dev/null", LANDLOCK_WRITE);
    if (c->file != NULL)
        landlock_allow(l, c->file, LANDLOCK_READ); /* at SIGHUP */
    if (c->log_file[0] != '\0')
        allow_dir_of(l, c->log_file); /* a new file is made there after logrotate */
    if (plan->role == SANDBOX_OPERATOR)
        return;
    allow_dir(l, c->dir);
    if (is_daemon(plan) && socket_dir_make(c->socket, sandbox_shares_socket(plan)) == 0)
        allow_dir_of(l, c->socket);
    if (is_daemon(plan) && str_starts(c->http, "unix:/"))
        allow_dir_of(l, c->http + strlen("unix:"));
    if (str_starts(c->store, "sqlite:"))
        allow_dir_of(l, c->store + strlen("sqlite:"));
    if (c->audit_log[0] != '\0')
        allow_dir_of(l, c->audit_log); /* likewise */
}
