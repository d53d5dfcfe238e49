// SPDX-License-Identifier: Apache-2.0
/* The table of options as data, for config.c and config_doc.c. */
#ifndef DLC_BASE_CONFIG_I_H
#define DLC_BASE_CONFIG_I_H

#include "base/config.h"

enum config_type { TYPE_text, TYPE_size, TYPE_dur, TYPE_number, TYPE_real, TYPE_flag };

struct config_option {
    const char *flag, *env, *def, *help;
    enum config_type type;
    unsigned roles;
    size_t offset; /* in struct config */
};

extern const struct config_option config_options[];
extern const unsigned config_n_options;

size_t config_type_size(enum config_type type); /* of its field in struct config */

/* "--memory", "$DLCACHE_MEMORY", "FILE:3" or "default": where option i has its value from. */
void config_place(const struct config *c, unsigned i, struct buf *out);

#endif
