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

struct config {
#define OPTION(field, type, def, flag, env, help) config_##type field;
#include "base/tbl/options.def"
#undef OPTION
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

void config_release(struct config *c);

/* May we talk to a process of this user: our own, root, or one in allow-uid? */
bool config_trusts(const struct config *c, uid_t uid);

/* docs/configuration.md, from the table. */
void config_reference(struct buf *out);

/* "  --memory SIZE      help" lines for --help. */
void config_help(struct buf *out);

#endif
