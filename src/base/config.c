// SPDX-License-Identifier: Apache-2.0
/*
 * Parsing of settings. Every value, from any source, is a text that goes through assign(): parsed
 * by its type, then checked by the rule of its option, if there is one. The caller puts the source
 * before the error: "--memory: ...", "$DLCACHE_MEMORY: ...", "dlcache.conf:3: memory: ...".
 */
#include "base/config_i.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/address_rules.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/socket_dir.h"
#include "base/suggest.h"
#include "base/syscalls.h"
#include "base/str.h"

#define FILE_MAX_BYTES (1u << 20)

const struct config_option config_options[] = {
#define OPTION(field, type, def, flag, env, roles, help)                                           \
    {flag, env, def, help, TYPE_##type, roles, offsetof(struct config, field)},
#include "base/tbl/options.def"
#undef OPTION
};
const unsigned config_n_options = CONFIG_N_OPTIONS;

static const struct config_option *find(const char *flag)
{
    for (unsigned i = 0; i < config_n_options; i++)
        if (strcmp(config_options[i].flag, flag) == 0)
            return &config_options[i];
    return NULL;
}

bool config_has(const char *flag, bool *is_boolean)
{
    const struct config_option *o = find(flag);

    if (o != NULL && is_boolean != NULL)
        *is_boolean = o->type == TYPE_flag;
    return o != NULL;
}

const char *config_env(const char *flag)
{
    const struct config_option *o = find(flag);

    dlc_check(o != NULL);
    return o->env;
}

/* ---- rules: what an option allows beyond its type ---- */

static bool is_path_style(const char *s)
{
    bool b;

    return strcmp(s, "auto") == 0 || str_parse_bool(s, &b);
}

static bool is_log_level(const char *s)
{
    enum log_level l;

    return log_level_parse(s, &l);
}

static bool is_log_format(const char *s)
{
    return strcmp(s, "text") == 0 || strcmp(s, "json") == 0;
}

static bool is_sandbox(const char *s)
{
    return strcmp(s, "auto") == 0 || strcmp(s, "require") == 0 || strcmp(s, "off") == 0;
}

static bool is_endpoint(const char *s)
{
    return s[0] == '\0' || str_starts(s, "http://") || str_starts(s, "https://");
}

static bool is_uid_list(const char *s)
{
    if (strcmp(s, CONFIG_ALL_USERS) == 0)
        return true;
    while (*s != '\0') {
        size_t n = strcspn(s, ",");
        char *one = mem_strn(s, n), *digits = str_trim(one);
        uint64_t v;
        bool ok = str_parse_u64(digits, &v) && v < UINT32_MAX;

        mem_free(&one);
        if (!ok)
            return false;
        s += n + (s[n] == ',');
    }
    return true;
}

static bool is_network_list(const char *s)
{
    struct address_rules r = ADDRESS_RULES_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    bool ok = address_rules_parse(&r, s, &err) == 0;

    address_rules_release(&r);
    return ok;
}

static bool is_path_list(const char *s)
{
    while (*s != '\0') {
        size_t n;

        s += strspn(s, " \t");
        if (*s != '/')
            return false;
        n = strcspn(s, ",");
        s += n + (s[n] == ',');
    }
    return true;
}

/* Texts have a test, numbers a range (times in seconds). */
static const struct rule {
    const char *flag, *allowed;
    bool (*test)(const char *s);
    double min, max;
} rules[] = {
    {"path-style", "auto, true or false", is_path_style, 0, 0},
    {"log-level", "error, warn, info or debug", is_log_level, 0, 0},
    {"log-format", "text or json", is_log_format, 0, 0},
    {"sandbox", "auto, require or off", is_sandbox, 0, 0},
    {"endpoint", "a URL that begins with http:// or https://", is_endpoint, 0, 0},
    {"allow-uid", "user numbers separated by commas, such as 1000,1001, or all", is_uid_list, 0, 0},
    {"allow-path", "absolute paths separated by commas, such as /data,/srv/team", is_path_list, 0,
     0},
    {"tenant-networks",
     "networks separated by commas, such as 10.0.0.0/8,fd12::/48, without bits after the prefix",
     is_network_list, 0, 0},
    {"tenant-proxy", "a URL that begins with http:// or https://", is_endpoint, 0, 0},
    {"memory", "auto, or at least 1 byte", NULL, 1, 0x1p62},
    {"lanes", "0 to 64", NULL, 0, 64},
    {"max-requests", "1 to 65536", NULL, 1, 65536},
    {"capacity", "auto, or at least 1 byte", NULL, 1, 0x1p62},
    {"gpus", "0 to 4096", NULL, 0, 4096},
    {"lease", "whole seconds from 3s to 1h", NULL, 3, 3600},
    {"workers", "1 to 64", NULL, 1, 64},
    {"retries", "0 to 100", NULL, 0, 100},
    {"connect-timeout", "1ms to 1h", NULL, 1e-3, 3600},
    {"stall-timeout", "1ms to 1h", NULL, 1e-3, 3600},
    {"deadline", "1ms to 24h", NULL, 1e-3, 86400},
    {"price-get", "-1 or more", NULL, -1, 1e9},
    {"price-list", "-1 or more", NULL, -1, 1e9},
    {"price-gb", "-1 or more", NULL, -1, 1e9},
    {"price-second", "0 or more", NULL, 0, 1e9},
    {"cost-factor", "0 to 10", NULL, 0, 10},
    {"half-life", "0 to 365d", NULL, 0, 365 * 86400.0},
};

/* `number` is the value of an option that is not a text, in bytes, seconds or units. */
static int obey_rule(const struct config_option *o, const char *value, double number,
                     struct dlc_err *err)
{
    for (unsigned i = 0; i < DLC_COUNT(rules); i++) {
        const struct rule *r = &rules[i];

        if (strcmp(r->flag, o->flag) != 0)
            continue;
        if (r->test != NULL ? !r->test(value) : number < r->min || number > r->max)
            return dlc_err_set(err, DLC_EINVAL, "\"%.100s\" is not allowed; allowed: %s", value,
                               r->allowed);
    }
    return 0;
}

/* ---- assigning ---- */

static const char *const type_allows[] = {
    [TYPE_text] = "a text",
    [TYPE_size] = "a size such as 500MB, 1.5GiB or a number of bytes",
    [TYPE_dur] = "a time such as 30s, 250ms, 5m or 2h",
    [TYPE_number] = "a whole number",
    [TYPE_real] = "a number",
    [TYPE_flag] = "true or false",
};

union value {
    config_size size;
    config_dur dur;
    config_number number;
    config_real real;
    config_flag flag;
};

/* Parse a value that is not a text. *n becomes the number that rules look at. */
static bool parse(const struct config_option *o, const char *s, union value *v, double *n)
{
    bool ok = false;

    switch (o->type) {
    case TYPE_size:
        if (strcmp(s, "auto") == 0 && strcmp(o->def, "auto") == 0) {
            v->size = CONFIG_AUTO;
            *n = 1;
            return true;
        }
        ok = str_parse_size(s, &v->size);
        *n = ok ? (double)v->size : 0;
        return ok;
    case TYPE_dur:
        ok = str_parse_dur(s, &v->dur);
        *n = ok ? dlc_dur_seconds(v->dur) : 0;
        return ok;
    case TYPE_number:
        ok = str_parse_u64(s, &v->number);
        *n = ok ? (double)v->number : 0;
        return ok;
    case TYPE_real:
        ok = str_parse_double(s, &v->real);
        *n = ok ? v->real : 0;
        return ok;
    case TYPE_flag: return str_parse_bool(s, &v->flag);
    case TYPE_text: break;
    }
    return false;
}

static const size_t type_size[] = {
    [TYPE_size] = sizeof(config_size),     [TYPE_dur] = sizeof(config_dur),
    [TYPE_number] = sizeof(config_number), [TYPE_real] = sizeof(config_real),
    [TYPE_flag] = sizeof(config_flag),     [TYPE_text] = sizeof(config_text),
};

size_t config_type_size(enum config_type type)
{
    return type_size[type];
}

static int assign(struct config *c, const struct config_option *o, const char *s,
                  struct dlc_err *err)
{
    char *field = (char *)c + o->offset;
    union value v = {0};
    double n = 0;
    int rc;

    if (o->type != TYPE_text && !parse(o, s, &v, &n))
        return dlc_err_set(err, DLC_EINVAL, "\"%.100s\" is not %s%s", s, type_allows[o->type],
                           o->type == TYPE_size && strcmp(o->def, "auto") == 0 ? ", or auto" : "");
    rc = obey_rule(o, s, n, err);
    if (rc < 0)
        return rc;
    if (o->type == TYPE_text) {
        char *copy = mem_str(s);

        mem_free((char **)(void *)field);
        *(char **)(void *)field = copy;
    } else {
        memcpy(field, &v, type_size[o->type]);
    }
    return 0;
}

/* Error for a name that is not in the table, with the name that was probably meant. */
static int unknown(const char *name, const char *dashes, struct dlc_err *err)
{
    const char *flags[DLC_COUNT(config_options)], *near;

    for (unsigned i = 0; i < config_n_options; i++)
        flags[i] = config_options[i].flag;
    near = nearest_name(name, flags, config_n_options);
    if (near != NULL)
        return dlc_err_set(err, DLC_EINVAL, "no setting %s%.60s; did you mean %s%s?", dashes, name,
                           dashes, near);
    return dlc_err_set(err, DLC_EINVAL, "no setting %s%.60s; `dlcache help config` lists them",
                       dashes, name);
}

/* ---- paths ---- */

static const char *env(const char *name)
{
    const char *s = getenv(name);

    return s != NULL && s[0] != '\0' ? s : NULL;
}

/* The home directory, or NULL. Gives. */
static char *home(void)
{
    const char *h = env("HOME");
    struct passwd pw, *found = NULL;
    char text[4096];

    if (h == NULL && getpwuid_r(getuid(), &pw, text, sizeof(text), &found) == 0 && found != NULL)
        h = found->pw_dir;
    return h != NULL && h[0] == '/' ? mem_str(h) : NULL;
}

static char *default_socket(void)
{
    const char *run = env("XDG_RUNTIME_DIR");
    bool session = run != NULL && str_starts(run, "/run/user/");

    if (os_access(MACHINE_SOCKET ".node", F_OK) == 0) /* ipc/node_marker.h */
        return mem_str(MACHINE_SOCKET);
    /* Root's session ends, and its directory with it, before the daemons that root starts. */
    if (run != NULL && run[0] == '/' && !(session && geteuid() == 0))
        return mem_fmt("%s/dlcache/socket", run);
    if (geteuid() == 0)
        return mem_str(MACHINE_SOCKET);
    return mem_fmt("/tmp/dlcache-%u/socket", (unsigned)geteuid());
}

static char *default_dir(void)
{
    const char *cache = env("XDG_CACHE_HOME");
    char *h, *dir;

    if (cache != NULL && cache[0] == '/')
        return mem_fmt("%s/dlcache", cache);
    h = home();
    dir = h != NULL ? mem_fmt("%s/.cache/dlcache", h)
                    : mem_fmt("/tmp/dlcache-%u/cache", (unsigned)geteuid());
    mem_free(&h);
    return dir;
}

/* Make *path absolute: "~/" is the home directory, other relative paths start here. */
static int absolute(char **path, struct dlc_err *err)
{
    char *base = NULL, *old = *path;

    if (old[0] == '/')
        return 0;
    if (str_starts(old, "~/")) {
        base = home();
    } else {
        char *cwd = os_getcwd();

        base = mem_str(cwd);
        free(cwd);
    }
    if (base == NULL)
        return dlc_err_set(err, DLC_EINVAL,
                           "\"%.200s\" cannot be made absolute; give a path that"
                           " begins with /",
                           old);
    *path = mem_fmt("%s/%s", base, old + (str_starts(old, "~/") ? 2 : 0));
    mem_free(&base);
    mem_free(&old);
    return 0;
}

static int resolve(struct config *c, struct dlc_err *err)
{
    const size_t longest = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
    int rc;

    if (c->socket[0] == '\0') {
        mem_free(&c->socket);
        c->socket = default_socket();
    }
    if (c->dir[0] == '\0') {
        mem_free(&c->dir);
        c->dir = default_dir();
    }
    rc = absolute(&c->socket, err);
    if (rc == 0)
        rc = absolute(&c->dir, err);
    if (rc == 0 && strlen(c->socket) > longest)
        rc = dlc_err_set(err, DLC_EINVAL,
                         "the path of the socket is longer than %zu characters: %.200s", longest,
                         c->socket);
    return rc;
}

/* ---- sources ---- */

static bool has_password(const char *value)
{
    const char *user = str_starts(value, "redis://")    ? value + 8
                       : str_starts(value, "rediss://") ? value + 9
                                                        : "";
    const char *at = strchr(user, '@');

    return at != NULL && memchr(user, ':', (size_t)(at - user)) != NULL;
}

static void set_origin(struct config *c, const struct config_option *o, enum config_source source,
                       unsigned line, const char *text)
{
    struct config_origin *from = &c->origin[o - config_options];

    mem_free(&from->text);
    *from = (struct config_origin){source, line, mem_str(text)};
}

int config_set(struct config *c, const char *flag, const char *value, struct dlc_err *err)
{
    const struct config_option *o = find(flag);
    int rc;

    if (o == NULL)
        return unknown(flag, "--", err);
    if (value == NULL && o->type != TYPE_flag)
        return dlc_err_set(err, DLC_EINVAL, "--%s needs a value: %s", flag, type_allows[o->type]);
    if (value != NULL && has_password(value))
        log_warn("--%s: every user of this machine can read a password on a command line; use "
                 "--%s-file or $%s",
                 flag, flag, o->env);
    if (value == NULL)
        value = "true";
    rc = assign(c, o, value, err);
    if (rc == 0) {
        set_origin(c, o, SOURCE_FLAG, 0, value);
        rc = resolve(c, err);
    }
    if (rc < 0)
        dlc_err_prefix(err, "--%s", flag);
    return rc;
}

/* One line, without its end. */
static int parse_line(struct config *c, char *line, unsigned number, struct dlc_err *err)
{
    const struct config_option *o;
    char *eq, *name, *value;
    int rc;

    for (char *p = line; *p != '\0'; p++) {
        if (*p == '#' && (p == line || p[-1] == ' ' || p[-1] == '\t')) {
            *p = '\0';
            break;
        }
    }
    name = str_trim(line);
    if (name[0] == '\0')
        return 0;
    eq = strchr(name, '=');
    if (eq == NULL)
        return dlc_err_set(err, DLC_EINVAL, "\"%.60s\" is not of the form \"name = value\"", name);
    *eq = '\0';
    name = str_trim(name);
    value = str_trim(eq + 1);
    o = find(name);
    if (o == NULL)
        return unknown(name, "", err);
    rc = assign(c, o, value, err);
    if (rc < 0)
        dlc_err_prefix(err, "%s", name);
    else
        set_origin(c, o, SOURCE_FILE, number, value);
    return rc;
}

int config_parse(struct config *c, const char *name, const char *text, size_t len,
                 struct dlc_err *err)
{
    const char *end = text + len;
    int rc = 0;

    for (unsigned line = 1; text < end && rc == 0; line++) {
        const char *nl = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((nl != NULL ? nl : end) - text);
        char *copy = mem_strn(text, n);

        rc = strlen(copy) == n ? parse_line(c, copy, line, err)
                               : dlc_err_set(err, DLC_EINVAL, "a NUL byte; is this a text file?");
        if (rc < 0)
            dlc_err_prefix(err, "%.200s:%u", name, line);
        mem_free(&copy);
        text += n + 1;
    }
    return rc;
}

static int load_file(struct config *c, const char *path, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    int rc = os_read_file(path, FILE_MAX_BYTES, &b, err);

    mem_free(&c->file);
    c->file = mem_str(path);
    if (rc == 0)
        rc = config_parse(c, path, buf_str(&b), b.len, err);
    buf_release(&b);
    return rc;
}

/* A file that was named must exist; of the usual ones, the first that does. */
static int load_files(struct config *c, const char *file, struct dlc_err *err)
{
    char *usual[2] = {NULL, mem_str("/etc/dlcache.conf")}, *h = home();
    int rc = 0;

    c->file_named = file != NULL;
    if (file == NULL)
        file = env("DLCACHE_CONFIG");
    if (file != NULL) {
        rc = load_file(c, file, err);
        goto out;
    }
    usual[0] = h != NULL ? mem_fmt("%s/.config/dlcache.conf", h) : NULL;
    for (unsigned i = 0; i < DLC_COUNT(usual); i++) {
        if (usual[i] != NULL && os_access(usual[i], F_OK) == 0) {
            rc = load_file(c, usual[i], err);
            break;
        }
    }
out:
    mem_free(&h);
    mem_free(&usual[0]);
    mem_free(&usual[1]);
    return rc;
}

static int load_env(struct config *c, struct dlc_err *err)
{
    int rc = 0;

    for (unsigned i = 0; i < config_n_options && rc == 0; i++) {
        const char *s = env(config_options[i].env);

        if (s == NULL)
            continue;
        rc = assign(c, &config_options[i], s, err);
        set_origin(c, &config_options[i], SOURCE_ENV, 0, s);
        if (rc < 0)
            dlc_err_prefix(err, "$%s", config_options[i].env);
    }
    return rc;
}

int config_load(struct config *c, const char *file, struct dlc_err *err)
{
    int rc;

    for (unsigned i = 0; i < config_n_options; i++) {
        rc = assign(c, &config_options[i], config_options[i].def, err);
        dlc_check(rc == 0); /* a default in the table that its own rule forbids */
    }
    rc = load_files(c, file, err);
    if (rc == 0)
        rc = load_env(c, err);
    if (rc == 0)
        rc = resolve(c, err);
    if (rc < 0)
        config_release(c);
    return rc;
}

void config_release(struct config *c)
{
    for (unsigned i = 0; i < config_n_options; i++) {
        if (config_options[i].type == TYPE_text)
            mem_free((char **)(void *)((char *)c + config_options[i].offset));
        mem_free(&c->origin[i].text);
    }
    mem_free(&c->file);
    *c = (struct config)CONFIG_INIT;
}

bool config_allows_all(const struct config *c)
{
    return strcmp(c->allow_uid, CONFIG_ALL_USERS) == 0;
}

bool config_trusts(const struct config *c, uid_t uid)
{
    const char *p = c->allow_uid;
    char *end;

    if (uid == geteuid() || uid == 0)
        return true;
    for (; *p != '\0'; p = *end == ',' ? end + 1 : end + strcspn(end, ",")) {
        unsigned long v = strtoul(p, &end, 10);

        if (end != p && v == uid)
            return true;
    }
    return false;
}
