// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/profile_i.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "base/secret.h"

#define FILE_MAX (1u << 20)

/* Gives, or NULL. */
static char *home_of(const struct cloud_env *env)
{
    struct passwd pw, *found = NULL;
    char space[4096];

    if (cloud_env_get(env, VAR_HOME) != NULL)
        return mem_str(cloud_env_get(env, VAR_HOME));
    if (getpwuid_r(getuid(), &pw, space, sizeof(space), &found) != 0 || found == NULL)
        return NULL;
    return mem_str(found->pw_dir);
}

/* Gives the path of a file: as named (with ~/ expanded), or its usual place; NULL: none. */
static char *path_of(const char *named, const char *home, const char *usual)
{
    if (named != NULL && !str_starts(named, "~/"))
        return mem_str(named);
    if (home == NULL)
        return NULL;
    return mem_fmt("%s/%s", home, named != NULL ? named + 2 : usual);
}

static int load_file(struct ini *out, const char *path, struct dlc_err *err)
{
    struct buf text = BUF_INIT;
    struct stat st;
    int rc;

    if (path == NULL)
        return 0;
    if (os_stat(path, &st) < 0) /* a home that we may not enter has none for us */
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES
                   ? 0
                   : dlc_err_sys(err, "cannot look at %s", path);
    buf_reserve(&text, DLC_MIN((size_t)st.st_size, FILE_MAX));
    rc = os_read_file(path, FILE_MAX, &text, err);
    if (rc == 0)
        rc = ini_parse(out, path, buf_str(&text), text.len, err);
    secret_buf_release(&text);
    return rc;
}

int profiles_load(struct profiles *p, const struct cloud_env *env, struct dlc_err *err)
{
    char *home = home_of(env);
    int rc;

    *p = (struct profiles)PROFILES_INIT;
    p->credentials_path =
        path_of(cloud_env_get(env, VAR_AWS_SHARED_CREDENTIALS_FILE), home, ".aws/credentials");
    p->config_path = path_of(cloud_env_get(env, VAR_AWS_CONFIG_FILE), home, ".aws/config");
    rc = load_file(&p->credentials, p->credentials_path, err);
    if (rc == 0)
        rc = load_file(&p->config, p->config_path, err);
    if (rc < 0)
        profiles_release(p);
    mem_free(&home);
    return rc;
}

void profiles_release(struct profiles *p)
{
    ini_release(&p->credentials);
    ini_release(&p->config);
    mem_free(&p->credentials_path);
    mem_free(&p->config_path);
}

/* Gives the profile's section in the config file; "default" may be written both ways. */
static char *config_section(const struct profiles *p, const char *profile)
{
    char *section = mem_fmt("profile %s", profile);

    if (strcmp(profile, "default") == 0 && !ini_has_section(&p->config, section)) {
        mem_free(&section);
        section = mem_str("default");
    }
    return section;
}

bool profiles_have(const struct profiles *p, const char *profile)
{
    char *section = config_section(p, profile);
    bool have = ini_has_section(&p->credentials, profile) || ini_has_section(&p->config, section);

    mem_free(&section);
    return have;
}

static const char *config_get(const struct profiles *p, const char *profile, const char *name)
{
    char *section = config_section(p, profile);
    const char *v = ini_get(&p->config, section, name, NULL);

    mem_free(&section);
    return v;
}

const char *profiles_get(const struct profiles *p, const char *profile, const char *name)
{
    const char *v = ini_get(&p->credentials, profile, name, NULL);

    return v != NULL ? v : config_get(p, profile, name);
}

const char *profiles_command(const struct profiles *p, const char *profile)
{
    const char *v = ini_get_raw(&p->credentials, profile, "credential_process");
    char *section;

    if (v != NULL)
        return v;
    section = config_section(p, profile);
    v = ini_get_raw(&p->config, section, "credential_process");
    mem_free(&section);
    return v;
}

void profiles_keys(const struct profiles *p, const char *profile, struct profile_keys *out)
{
    out->access_key = ini_get(&p->credentials, profile, "aws_access_key_id", NULL);
    out->secret_key = ini_get(&p->credentials, profile, "aws_secret_access_key", NULL);
    out->session_token = ini_get(&p->credentials, profile, "aws_session_token", NULL);
    if (out->access_key != NULL || out->secret_key != NULL)
        return;
    out->access_key = config_get(p, profile, "aws_access_key_id");
    out->secret_key = config_get(p, profile, "aws_secret_access_key");
    out->session_token = config_get(p, profile, "aws_session_token");
}

const char *profiles_endpoint(const struct profiles *p, const struct cloud_env *env,
                              const char *profile, const char *service, enum cloud_var own)
{
    const char *v = cloud_env_get(env, VAR_AWS_IGNORE_CONFIGURED_ENDPOINT_URLS), *services;
    char *section;
    bool ignore;

    if (v == NULL)
        v = profiles_get(p, profile, "ignore_configured_endpoint_urls");
    if (v != NULL && str_parse_bool(v, &ignore) && ignore)
        return NULL;
    if ((v = cloud_env_get(env, own)) != NULL ||
        (v = cloud_env_get(env, VAR_AWS_ENDPOINT_URL)) != NULL)
        return v;
    services = profiles_get(p, profile, "services");
    if (services != NULL) {
        section = mem_fmt("services %s", services);
        v = ini_get(&p->config, section, service, "endpoint_url");
        mem_free(&section);
    }
    return v != NULL ? v : profiles_get(p, profile, "endpoint_url");
}
