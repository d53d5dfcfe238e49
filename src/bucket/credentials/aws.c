// SPDX-License-Identifier: Apache-2.0
/* Amazon's kind of credentials: the profile, the region and the endpoint that go with them. */
#include "bucket/credentials/chain_i.h"

#include <string.h>

#include "base/mem.h"
#include "bucket/credentials/kind_i.h"
#include "bucket/credentials/profile_i.h"
#include "bucket/s3_dialect_i.h"

/* Fixed after new. */
struct aws {
    char *profile;
    const char *profile_by;
    char *region, *endpoint; /* or NULL */
};

static int aws_find(void *state, struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const struct aws *s = state;
    struct profiles p;
    int rc = profiles_load(&p, l->env, err); /* again: the files may have changed */

    if (rc < 0)
        return rc;
    l->profiles = &p;
    l->profile = s->profile;
    l->profile_by = s->profile_by;
    l->profile_only = s->profile_by != NULL && strcmp(s->profile_by, "--profile") == 0;
    l->region = s->region;
    rc = chain_find(l, out, err);
    profiles_release(&p);
    return rc;
}

static void aws_free(void *state)
{
    struct aws *s = state;

    if (s == NULL)
        return;
    mem_free(&s->profile);
    mem_free(&s->region);
    mem_free(&s->endpoint);
    mem_free(&s);
}

static const struct credential_kind kind = {aws_find, NULL, aws_free};

/* Name of the profile and what named it. */
static void choose_profile(struct aws *s, const struct cloud_env *env,
                           const struct bucket_config *c)
{
    const char *name = c->profile;

    s->profile_by = "--profile";
    if (name == NULL || name[0] == '\0') {
        name = cloud_env_get(env, VAR_AWS_PROFILE);
        s->profile_by = "AWS_PROFILE";
    }
    if (name == NULL) {
        name = cloud_env_get(env, VAR_AWS_DEFAULT_PROFILE);
        s->profile_by = "AWS_DEFAULT_PROFILE";
    }
    if (name == NULL) {
        name = "default";
        s->profile_by = NULL;
    }
    s->profile = mem_str(name);
}

static void choose_region_and_endpoint(struct aws *s, const struct cloud_env *env,
                                       const struct bucket_config *c, const struct profiles *p)
{
    const char *region = c->region, *endpoint = c->endpoint;

    if (endpoint == NULL || endpoint[0] == '\0')
        endpoint = profiles_endpoint(p, env, s->profile, "s3", VAR_AWS_ENDPOINT_URL_S3);
    s->endpoint = mem_str(endpoint);
    if (region == NULL || region[0] == '\0')
        s->region = s3_dialect_region(endpoint);
    if (s->region != NULL)
        return;
    if (region == NULL || region[0] == '\0')
        region = cloud_env_get(env, VAR_AWS_REGION);
    if (region == NULL)
        region = cloud_env_get(env, VAR_AWS_DEFAULT_REGION);
    if (region == NULL)
        region = profiles_get(p, s->profile, "region");
    s->region = mem_str(region);
}

/* It becomes part of host names. */
static int check_region(const char *region, struct dlc_err *err)
{
    const char *allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

    if (region == NULL || (strlen(region) < 64 && strspn(region, allowed) == strlen(region)))
        return 0;
    return dlc_err_set(err, DLC_EINVAL,
                       "the region \"%.60s\" is not one: letters, digits and - are allowed, as in "
                       "eu-west-1",
                       region);
}

int credential_source_new(const struct bucket_config *c, struct credential_source **out,
                          struct dlc_err *err)
{
    struct profiles p = PROFILES_INIT;
    const struct cloud_env *env;
    struct aws *s;
    int rc = credential_source_make(&kind, c, out, err);

    if (rc < 0)
        return rc;
    env = credential_source_env(*out);
    s = mem_new(struct aws);
    credential_source_take_state(*out, s);
    rc = profiles_load(&p, env, err);
    if (rc == 0) {
        choose_profile(s, env, c);
        choose_region_and_endpoint(s, env, c, &p);
        rc = check_region(s->region, err);
    }
    profiles_release(&p);
    if (rc < 0)
        credential_source_free(out);
    return rc;
}

const char *credential_source_region(struct credential_source *s)
{
    return ((const struct aws *)credential_source_state(s))->region;
}

const char *credential_source_endpoint(struct credential_source *s)
{
    return ((const struct aws *)credential_source_state(s))->endpoint;
}
