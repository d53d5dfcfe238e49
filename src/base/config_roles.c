// SPDX-License-Identifier: Apache-2.0
/* Which settings have an effect in which role, and what is said of one that has none. */
#include "base/config_i.h"

#include "base/check.h"
#include "base/log.h"

static const struct {
    enum config_role role;
    const char *name;
} role_names[] = {
    {ROLE_COMMAND, "commands"}, {ROLE_SERVE, "serve"},       {ROLE_NODE, "node"},
    {ROLE_MANAGER, "manager"},  {ROLE_OPERATOR, "operator"}, {ROLE_CSI, "csi"},
};

void config_role_names(unsigned roles, struct buf *out)
{
    bool first = true;

    for (unsigned i = 0; i < DLC_COUNT(role_names); i++) {
        if ((roles & role_names[i].role) == 0)
            continue;
        buf_addf(out, "%s%s", first ? "" : ", ", role_names[i].name);
        first = false;
    }
}

int config_check_roles(const struct config *c, unsigned roles, const char *command,
                       struct dlc_err *err)
{
    struct buf place = BUF_INIT, names = BUF_INIT;
    int rc = 0;

    for (unsigned i = 0; i < config_n_options && rc == 0; i++) {
        const struct config_option *o = &config_options[i];
        enum config_source source = c->origin[i].source;
        bool server = (roles & ROLE_COMMAND) == 0;

        if (source == SOURCE_DEFAULT || (o->roles & roles) != 0)
            continue;
        buf_clear(&place);
        buf_clear(&names);
        config_place(c, i, &place);
        if (source == SOURCE_FILE)
            buf_addf(&place, ": %s", o->flag);
        config_role_names(o->roles, &names);
        if (source == SOURCE_FLAG || (source == SOURCE_FILE && c->file_named && server))
            rc = dlc_err_set(err, DLC_EINVAL,
                             "%s has no effect in `dlcache %s`, so remove it: it is a setting of "
                             "%s (`dlcache help config`)",
                             buf_str(&place), command, buf_str(&names));
        else if (server && (o->roles & ROLE_COMMAND) == 0)
            log_warn("%s has no effect in `dlcache %s`: it is a setting of %s", buf_str(&place),
                     command, buf_str(&names));
    }
    buf_release(&place);
    buf_release(&names);
    return rc;
}
