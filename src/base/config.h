// SPDX-License-Identifier: Apache-2.0
/*
 * Settings: flag, then environment, then file (--config FILE, $DLCACHE_CONFIG,
 * ~/.config/dlcache.conf, /etc/dlcache.conf: the first that exists), then default. One table:
 * tbl/options.def.
 */
#ifndef DLC_BASE_CONFIG_H
#define DLC_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#define CONFIG_AUTO UINT64_MAX /* a size left to us */

typedef char *config_text;
typedef uint64_t config_size;
typedef struct dlc_dur config_dur;
typedef uint64_t config_number;
typedef double config_real;
typedef bool config_flag;

/* Who reads a setting: a command or a program that uses the library, or one of the servers. */
enum config_role {
    ROLE_COMMAND = 1,
    ROLE_SERVE = 2,
    ROLE_NODE = 4,
    ROLE_MANAGER = 8,
    ROLE_OPERATOR = 16,
    ROLE_CSI = 32,
    CONFIG_RELOAD = 256, /* no role: SIGHUP changes it in a running server */
};
#define ROLE_SERVERS (ROLE_SERVE | ROLE_NODE | ROLE_MANAGER | ROLE_OPERATOR | ROLE_CSI)

enum config_source { SOURCE_DEFAULT, SOURCE_FILE, SOURCE_ENV, SOURCE_FLAG };

enum {
#define OPTION(field, type, def, flag, env, roles, help) CONFIG_AT_##field,
#include "base/tbl/options.def"
#undef OPTION
    CONFIG_N_OPTIONS
};

struct config {
#define OPTION(field, type, def, flag, env, roles, help) config_##type field;
#include "base/tbl/options.def"
#undef OPTION
    struct config_origin {
        enum config_source source;
        unsigned line; /* of the file */
        char *text;    /* as it was given; NULL: default */
    } origin[CONFIG_N_OPTIONS];
    char *file;      /* that was read; NULL: none */
    bool file_named; /* by --config: it is for this process alone */
};

#define CONFIG_INIT                                                                                \
    {                                                                                              \
        NULL                                                                                       \
    }

/*
 * Defaults, then the file, then the environment. `file` may be NULL: look in the usual places.
 * socket and dir are resolved to absolute paths; nothing is created. Errors name the file and line,
 * or the variable. *c was CONFIG_INIT, and is again on failure.
 */
int config_load(struct config *c, const char *file, struct dlc_err *err);

/* Lines of a configuration file, "flag = value" or "# comment", over what *c holds. `name` is for
 * errors. The first bad line ends it. */
int config_parse(struct config *c, const char *name, const char *text, size_t len,
                 struct dlc_err *err);

/* Set by flag name, as on the command line. DLC_EINVAL says what is allowed. value may be NULL for
 * a boolean: true. */
int config_set(struct config *c, const char *flag, const char *value, struct dlc_err *err);

/* Is there an option of this flag name, and does it take a value (flags do not need one)? */
bool config_has(const char *flag, bool *is_boolean);

/* The environment variable of an option that exists. */
const char *config_env(const char *flag);

/*
 * Error if a flag, or a line of a file that --config named, sets what none of these roles reads:
 * the one who wrote it expects an effect. The environment and the usual files are shared by all that
 * runs on a machine, so what is of another role there is only logged, by servers, and not at all if
 * programs read it. `command` is for the text.
 */
int config_check_roles(const struct config *c, unsigned roles, const char *command,
                       struct dlc_err *err);

/*
 * Read file, environment and the flags of *c again, and take what CONFIG_RELOAD marks. What else has
 * changed is logged. On an error nothing is changed. Threads: none may read those settings meanwhile,
 * nor keep their texts.
 */
int config_reload(struct config *c, unsigned roles, const char *command, struct dlc_err *err);

/* Setting i of CONFIG_N_OPTIONS as text. False: none of these roles reads it. */
struct config_shown {
    const char *flag;
    struct buf value, source; /* source: "--memory", "$DLCACHE_MEMORY", "FILE:3" or "default" */
    bool changed;             /* not the default's */
};
#define CONFIG_SHOWN_INIT                                                                          \
    {                                                                                              \
        NULL, BUF_INIT, BUF_INIT, false                                                            \
    }
bool config_show(const struct config *c, unsigned i, unsigned roles, struct config_shown *out);
void config_shown_release(struct config_shown *s);

/* "commands, serve, node": the names of roles. */
void config_role_names(unsigned roles, struct buf *out);

void config_release(struct config *c);

/* May we talk to a process of this user: our own, root, or one in allow-uid? `all` names nobody here:
 * it lets users in to a node, and says nothing of whose socket a program trusts. */
bool config_trusts(const struct config *c, uid_t uid);
#define CONFIG_ALL_USERS "all"
bool config_allows_all(const struct config *c);

/* docs/configuration.md, from the table. */
void config_reference(struct buf *out);

/* "  --memory SIZE      help" lines for --help: the settings of these roles. 0: all, each with its
 * roles. */
void config_help(struct buf *out, unsigned roles);

#endif
