// SPDX-License-Identifier: Apache-2.0
#include "daemon/client_audit.h"

#include <string.h>

#include "base/mem.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/session.h"
#include "daemon/state.h"

/* The tenant that a token named: with this message, or as the session was opened. */
static const char *tenant_of(const struct conn *c)
{
    const char *tenant = c->tenant;

    if (tenant == NULL && c->session != NULL)
        tenant = c->session->ds->tenant;
    return tenant != NULL && tenant[0] != '\0' ? tenant : NULL;
}

void client_audit(const struct conn *c, const char *action, const char *object,
                  enum audit_outcome outcome, const char *reason)
{
    char *shown = object != NULL ? mem_strn(object, strcspn(object, "?")) : NULL;
    const char *tenant = tenant_of(c);

    audit_log_write(c->node->audit, &(struct audit_event){
                                        .role = c->admin         ? "admin"
                                                : tenant != NULL ? "tenant"
                                                                 : "user",
                                        .name = tenant,
                                        .local = true,
                                        .uid = c->uid,
                                        .pid = c->pid,
                                        .address = "unix",
                                        .action = action,
                                        .object = shown,
                                        .outcome = outcome,
                                        .reason = reason,
                                    });
    mem_free(&shown);
}

void client_audit_stranger(struct node *n, int64_t uid, int64_t pid, const char *reason)
{
    audit_log_write(n->audit, &(struct audit_event){
                                  .role = "user",
                                  .local = true,
                                  .uid = uid,
                                  .pid = pid,
                                  .address = "unix",
                                  .action = "connect",
                                  .outcome = AUDIT_REFUSED,
                                  .reason = reason,
                              });
}
