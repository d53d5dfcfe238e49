// SPDX-License-Identifier: Apache-2.0
#include "daemon/credentials.h"

#include "base/config.h"
#include "bucket/bucket.h"
#include "cluster/peer/view.h"
#include "daemon/dataset.h"
#include "daemon/state.h"

void dataset_credentials_init(struct dataset_credentials *c, const struct grant *g)
{
    dlc_list_init(&c->retries);
    c->keys = g != NULL && g->access_key != NULL ? bucket_keys_new() : NULL;
}

void dataset_credentials_release(struct dataset_credentials *c)
{
    bucket_keys_put(&c->keys);
}

bool dataset_credentials_take(struct dataset_credentials *c, const struct grant *g)
{
    if (c->keys == NULL || g->access_key == NULL ||
        !bucket_keys_set(c->keys, g->access_key, g->secret_key, g->session_token))
        return false;
    c->version++;
    return true;
}

bool dataset_lacks_credentials(const struct dataset *ds)
{
    return ds->cid != NULL && ds->tenant[0] != '\0' && ds->credentials.keys == NULL &&
           !ds->asked.anonymous && !ds->node->config->lend_credentials;
}
