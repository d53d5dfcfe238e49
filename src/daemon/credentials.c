// SPDX-License-Identifier: Apache-2.0
#include "daemon/credentials.h"

#include "base/config.h"
#include "base/mem.h"
#include "base/secret.h"
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

void dataset_ticket_take(struct dataset_ticket *t, const struct grant *g)
{
    if (g->ticket == NULL || (t->text != NULL && g->ticket_renew.ns < t->renew.ns))
        return;
    secret_free(&t->text);
    t->text = mem_str(g->ticket);
    t->renew = g->ticket_renew;
}

void dataset_ticket_refused(struct dataset_ticket *t)
{
    t->renew = (struct dlc_mono){0};
}

void dataset_ticket_release(struct dataset_ticket *t)
{
    secret_free(&t->text);
}

bool dataset_lacks_credentials(const struct dataset *ds)
{
    return ds->cid != NULL && ds->tenant[0] != '\0' && ds->credentials.keys == NULL &&
           !ds->asked.anonymous && !ds->node->config->lend_credentials;
}
