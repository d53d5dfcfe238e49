// SPDX-License-Identifier: Apache-2.0
/* Users and capabilities of this process (capabilities(7)). All calls are for the calling thread,
 * which is the only one. */
#ifndef DLC_SANDBOX_PRIVILEGES_I_H
#define DLC_SANDBOX_PRIVILEGES_I_H

#include <stdint.h>

#include "base/config.h"
#include "base/err.h"

#define CAP_BIT(cap) ((uint64_t)1 << (cap))

/*
 * Become c->user, with its groups, and keep the capabilities `keep` if root has them. Directories
 * of the settings that do not exist yet are made for it. 0, also if we are that user already;
 * DLC_EDENIED: only root can; DLC_ENOTFOUND: there is no such user.
 */
int privileges_set_user(const struct config *c, bool shared, uint64_t keep, struct dlc_err *err);

/* Give up all capabilities but those of `keep`, and the right to get them back. *left: those that
 * are still effective. 0 or -1 with errno. */
int privileges_drop(uint64_t keep, uint64_t *left);

#endif
