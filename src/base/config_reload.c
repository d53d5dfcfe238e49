// SPDX-License-Identifier: Apache-2.0
/* Settings of a running server, read again: those that may change are taken, of others it is said
 * that they wait for a restart. */
#include "base/config_i.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"

static const char *given(const struct config *c, unsigned i)
{
    return c->origin[i].source != SOURCE_DEFAULT ? c->origin[i].text : config_options[i].def;
}

/* As it was written, or as it is: a default that the start has put into the environment. */
static bool is_same(const struct config *c, const struct config *fresh, unsigned i)
{
    const struct config_option *o = &config_options[i];
    const char *a = (const char *)c + o->offset, *b = (const char *)fresh + o->offset;

    return strcmp(given(c, i), given(fresh, i)) == 0 ||
           (o->type == TYPE_text &&
            strcmp(*(char *const *)(const void *)a, *(char *const *)(const void *)b) == 0);
}

/* Who may attach at all is decided at the start: the mode of the socket, and which memory is shared.
 */
static bool may_change(const struct config *c, const struct config *fresh, unsigned i)
{
    if ((config_options[i].roles & CONFIG_RELOAD) == 0)
        return false;
    return i != CONFIG_AT_allow_uid || (c->allow_uid[0] == '\0') == (fresh->allow_uid[0] == '\0');
}

/* Exchange the values of option i, and their sources. */
static void take(struct config *c, struct config *fresh, unsigned i)
{
    size_t at = config_options[i].offset, size = config_type_size(config_options[i].type);
    struct config_origin origin = c->origin[i];
    char value[16];

    memcpy(value, (char *)c + at, size);
    memcpy((char *)c + at, (char *)fresh + at, size);
    memcpy((char *)fresh + at, value, size);
    c->origin[i] = fresh->origin[i];
    fresh->origin[i] = origin;
}

/* The same file and the same flags, over an environment that cannot have changed. */
static int read_again(const struct config *c, unsigned roles, const char *command,
                      struct config *fresh, struct dlc_err *err)
{
    int rc = config_load(fresh, c->file_named ? c->file : NULL, err);

    for (unsigned i = 0; i < config_n_options && rc == 0; i++) {
        if (c->origin[i].source == SOURCE_FLAG)
            rc = config_set(fresh, config_options[i].flag, c->origin[i].text, err);
    }
    return rc == 0 ? config_check_roles(fresh, roles, command, err) : rc;
}

int config_reload(struct config *c, unsigned roles, const char *command, struct dlc_err *err)
{
    struct config fresh = CONFIG_INIT;
    int rc = read_again(c, roles, command, &fresh, err);

    for (unsigned i = 0; i < config_n_options && rc == 0; i++) {
        const struct config_option *o = &config_options[i];

        if ((o->roles & roles) == 0 || is_same(c, &fresh, i))
            continue;
        if (may_change(c, &fresh, i)) {
            log_info("%s is \"%s\" now", o->flag, given(&fresh, i));
            take(c, &fresh, i);
        } else {
            log_warn("%s was changed: that takes effect at the next start", o->flag);
        }
    }
    config_release(&fresh);
    return rc;
}
