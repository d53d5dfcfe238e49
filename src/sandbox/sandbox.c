// SPDX-License-Identifier: Apache-2.0
#include "sandbox/sandbox.h"

#include <errno.h>
#include <libgen.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "sandbox/landlock_i.h"
#include "sandbox/paths_i.h"
#include "sandbox/privileges_i.h"
#include "sandbox/seccomp_i.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZER 1
#else
#define SANITIZER 0
#endif

enum part { PART_CAPABILITIES, PART_NO_NEW_PRIVS, PART_LANDLOCK, PART_SECCOMP, N_PARTS };

static struct sandbox_part parts[N_PARTS] = {
    [PART_CAPABILITIES] = {.name = "capabilities"},
    [PART_NO_NEW_PRIVS] = {.name = "no_new_privs"},
    [PART_LANDLOCK] = {.name = "landlock"},
    [PART_SECCOMP] = {.name = "seccomp"},
};
static bool entered;

__attribute__((format(printf, 3, 4))) static void part_set(enum part p, bool in_force,
                                                           const char *fmt, ...)
{
    va_list ap;

    parts[p].in_force = in_force;
    va_start(ap, fmt);
    vsnprintf(parts[p].text, sizeof(parts[p].text), fmt, ap);
    va_end(ap);
}

/* ---- capabilities ---- */

static bool is_low_port(const char *address)
{
    const char *colon = address != NULL ? strrchr(address, ':') : NULL;
    uint64_t port;

    return colon != NULL && str_parse_u64(colon + 1, &port) && port > 0 && port < 1024;
}

static bool is_of_another_user(const char *path)
{
    struct stat st;

    return os_stat(path, &st) == 0 && st.st_uid != geteuid();
}

static uint64_t capabilities_needed(const struct sandbox_plan *plan)
{
    const struct config *c = plan->config;
    char *socket = mem_str(c->socket);
    bool daemon = plan->role == SANDBOX_SERVE || plan->role == SANDBOX_NODE;
    uint64_t keep = 0;

    if (is_low_port(c->listen) || is_low_port(c->http) || is_low_port(plan->webhook))
        keep |= CAP_BIT(CAP_NET_BIND_SERVICE);
    if (c->user[0] == '\0' && daemon)
        keep |= CAP_BIT(CAP_DAC_READ_SEARCH); /* root reads file:// datasets of every user */
    if (c->user[0] == '\0' && plan->role != SANDBOX_OPERATOR &&
        (is_of_another_user(c->dir) || (daemon && is_of_another_user(dirname(socket)))))
        keep |= CAP_BIT(CAP_DAC_OVERRIDE); /* root writes into directories of that user */
    mem_free(&socket);
    return keep;
}

static void drop_capabilities(uint64_t keep)
{
    static const struct {
        unsigned cap;
        const char *name;
    } names[] = {{CAP_DAC_OVERRIDE, " dac_override"},
                 {CAP_DAC_READ_SEARCH, " dac_read_search"},
                 {CAP_NET_BIND_SERVICE, " net_bind_service"}};
    char text[64] = "";
    uint64_t left = 0;

    if (privileges_drop(keep, &left) < 0) {
        part_set(PART_CAPABILITIES, false, "cannot be dropped: %s", strerror(errno));
        return;
    }
    for (size_t i = 0; i < DLC_COUNT(names); i++) {
        if ((left & CAP_BIT(names[i].cap)) != 0)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s", names[i].name);
    }
    part_set(PART_CAPABILITIES, true, "%s", left == 0 ? "none" : text + 1);
}

/* ---- the rest ---- */

static void forbid_new_privileges(void)
{
    if (os_prctl(PR_SET_NO_NEW_PRIVS, 1) < 0)
        part_set(PART_NO_NEW_PRIVS, false, "%s", strerror(errno));
    else
        part_set(PART_NO_NEW_PRIVS, true, "set");
}

static void confine_files(const struct sandbox_plan *plan)
{
    struct landlock l;

    if (SANITIZER)
        part_set(PART_LANDLOCK, false, "a sanitizer writes reports anywhere");
    else if (!parts[PART_NO_NEW_PRIVS].in_force)
        part_set(PART_LANDLOCK, false, "needs no_new_privs");
    else if (landlock_open(&l) < 0)
        part_set(PART_LANDLOCK, false, "%s",
                 errno == ENOSYS || errno == EOPNOTSUPP
                     ? "this kernel has none, or one older than Linux 5.19"
                     : strerror(errno));
    else {
        paths_allow(plan, &l);
        if (landlock_enter(&l) < 0)
            part_set(PART_LANDLOCK, false, "%s", strerror(errno));
        else
            part_set(PART_LANDLOCK, true, "ABI %d%s", l.abi,
                     paths_reads_everything(plan) ? ": writes confined, reads open"
                                                  : ": reads and writes confined");
    }
}

static void filter_calls(void)
{
    if (SANITIZER)
        part_set(PART_SECCOMP, false, "a sanitizer needs calls that it refuses");
    else if (!parts[PART_NO_NEW_PRIVS].in_force)
        part_set(PART_SECCOMP, false, "needs no_new_privs");
    else if (seccomp_install() == 0)
        part_set(PART_SECCOMP, true, "allow-list");
    else if (errno == EOPNOTSUPP)
        part_set(PART_SECCOMP, false, "there is no list for this architecture");
    else
        part_set(PART_SECCOMP, false, "the kernel takes no filter: %s", strerror(errno));
}

/* One line, and what a caller who requires all parts needs to know of the first that is missing. */
static int report(bool required, struct dlc_err *err)
{
    struct buf line = BUF_INIT;
    int rc = 0;

    for (unsigned i = 0; i < N_PARTS; i++) {
        const struct sandbox_part *p = &parts[i];

        buf_addf(&line, "%s%s%s (%s)", i == 0 ? "" : ", ",
                 p->in_force ? "" : "not in force: ", p->name, p->text);
        if (!p->in_force && required && rc == 0)
            rc = dlc_err_set(err, DLC_EDENIED,
                             "--sandbox require: %s is not in force (%s); --sandbox auto runs "
                             "without it",
                             p->name, p->text);
    }
    log_info("sandbox: %s", buf_str(&line));
    buf_release(&line);
    return rc;
}

bool sandbox_shares_socket(const struct sandbox_plan *plan)
{
    return plan->role == SANDBOX_NODE || plan->config->allow_uid[0] != '\0';
}

int sandbox_enter(const struct sandbox_plan *plan, struct dlc_err *err)
{
    const struct config *c = plan->config;
    uint64_t keep = capabilities_needed(plan);
    int rc =
        c->user[0] != '\0' ? privileges_set_user(c, sandbox_shares_socket(plan), keep, err) : 0;

    if (rc == 0 && plan->as_user != NULL)
        rc = plan->as_user(c, err);
    if (rc < 0)
        return rc;
    entered = true;
    if (strcmp(c->sandbox, "off") == 0) {
        for (unsigned i = 0; i < N_PARTS; i++)
            part_set((enum part)i, false, "--sandbox off");
        return report(false, err);
    }
    if (plan->before != NULL && (rc = plan->before(err)) < 0)
        return rc;
    drop_capabilities(keep);
    forbid_new_privileges();
    confine_files(plan);
    filter_calls();
    return report(strcmp(c->sandbox, "require") == 0, err);
}

const struct sandbox_part *sandbox_parts(unsigned *n)
{
    *n = entered ? N_PARTS : 0;
    return parts;
}
