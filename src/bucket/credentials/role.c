// SPDX-License-Identifier: Apache-2.0
/*
 * Credentials of a profile: its own keys, a role taken on with those of another profile, a web
 * identity, or a program that prints them.
 *
 * As in the AWS tools, a role comes before keys in the profile that was asked for, and keys before
 * a role in the profiles that it names as its source (so that a profile may name itself).
 */
#include "bucket/credentials/lookup_i.h"

#include <string.h>

#include "base/mem.h"

#define DEPTH_MAX 8 /* of source_profile: deeper is a circle */

static int resolve(struct lookup *l, const char *profile, unsigned depth, struct credentials *out,
                   struct dlc_err *err);

static const char *get(const struct lookup *l, const char *profile, const char *name)
{
    return profiles_get(l->profiles, profile, name);
}

static int keys_of(struct lookup *l, const char *profile, struct credentials *out,
                   struct dlc_err *err)
{
    struct profile_keys k;

    profiles_keys(l->profiles, profile, &k);
    if (k.access_key == NULL && k.secret_key == NULL)
        return lookup_elsewhere(l, "\"%.40s\" has no keys", profile);
    if (k.access_key == NULL || k.secret_key == NULL)
        return dlc_err_set(err, DLC_EINVAL, "profile \"%s\" has no %s: add it", profile,
                           k.access_key == NULL ? "aws_access_key_id" : "aws_secret_access_key");
    *out = (struct credentials){.access_key = mem_str(k.access_key),
                                .secret_key = mem_str(k.secret_key),
                                .session_token = mem_str(k.session_token)};
    return 0;
}

/* The credentials that a role's request is signed with. */
static int source_of(struct lookup *l, const char *profile, unsigned depth, struct credentials *out,
                     struct dlc_err *err)
{
    const char *source = get(l, profile, "source_profile");
    const char *named = get(l, profile, "credential_source");
    int rc;

    if (source != NULL) {
        if (!profiles_have(l->profiles, source))
            return dlc_err_set(err, DLC_EINVAL,
                               "profile \"%s\" names source_profile \"%s\", which does not exist",
                               profile, source);
        rc = resolve(l, source, depth + 1, out, err);
    } else if (named == NULL) {
        return dlc_err_set(err, DLC_EINVAL,
                           "profile \"%s\" has role_arn but none of source_profile, "
                           "credential_source and web_identity_token_file: add one",
                           profile);
    } else if (strcmp(named, "Environment") == 0) {
        rc = find_in_environment(l, out, err);
    } else if (strcmp(named, "EcsContainer") == 0) {
        rc = find_in_container(l, out, err);
    } else if (strcmp(named, "Ec2InstanceMetadata") == 0) {
        rc = find_in_instance(l, out, err);
    } else {
        return dlc_err_set(err, DLC_EINVAL,
                           "profile \"%s\": credential_source is \"%s\"; allowed are Environment, "
                           "EcsContainer, Ec2InstanceMetadata",
                           profile, named);
    }
    if (rc == LOOKUP_ELSEWHERE)
        rc = dlc_err_set(err, DLC_EDENIED, "profile \"%s\": its source %s has no credentials: %s",
                         profile, source != NULL ? source : named, l->why);
    return rc;
}

static int role_of(struct lookup *l, const char *profile, unsigned depth, struct credentials *out,
                   struct dlc_err *err)
{
    struct role r = {
        .arn = get(l, profile, "role_arn"),
        .session_name = get(l, profile, "role_session_name"),
        .external_id = get(l, profile, "external_id"),
        .duration = get(l, profile, "duration_seconds"),
    };
    const char *token_file = get(l, profile, "web_identity_token_file");
    struct credentials from = CREDENTIALS_INIT;
    int rc;

    if (token_file != NULL)
        return sts_web_identity(l, &r, token_file, out, err);
    if (get(l, profile, "mfa_serial") != NULL)
        return dlc_err_set(
            err, DLC_EINVAL,
            "profile \"%s\" wants a code (mfa_serial), which dlcache cannot ask for: "
            "export the keys with `aws configure export-credentials`",
            profile);
    rc = source_of(l, profile, depth, &from, err);
    if (rc == 0)
        rc = sts_assume_role(l, &r, &from, out, err);
    credentials_release(&from);
    return rc;
}

static int without_role(struct lookup *l, const char *profile, struct credentials *out,
                        struct dlc_err *err)
{
    const char *command;
    int rc = keys_of(l, profile, out, err);

    if (rc != LOOKUP_ELSEWHERE)
        return rc;
    command = profiles_command(l->profiles, profile);
    if (command != NULL)
        return process_credentials(l, command, out, err);
    if (get(l, profile, "sso_session") != NULL || get(l, profile, "sso_start_url") != NULL ||
        get(l, profile, "login_session") != NULL)
        return dlc_err_set(err, DLC_EINVAL,
                           "profile \"%s\" uses single sign-on, which dlcache does not speak: run "
                           "eval \"$(aws configure export-credentials --profile %s --format env)\"",
                           profile, profile);
    return lookup_elsewhere(l, "\"%.40s\" has no credentials", profile);
}

static int resolve(struct lookup *l, const char *profile, unsigned depth, struct credentials *out,
                   struct dlc_err *err)
{
    struct profile_keys k;

    if (depth > DEPTH_MAX)
        return dlc_err_set(err, DLC_EINVAL,
                           "profile \"%s\": its source_profile leads in a circle, without keys",
                           l->profile);
    profiles_keys(l->profiles, profile, &k);
    if (get(l, profile, "role_arn") != NULL && (depth == 0 || k.access_key == NULL))
        return role_of(l, profile, depth, out, err);
    return without_role(l, profile, out, err);
}

int find_in_profile(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *credentials = l->profiles->credentials_path, *config = l->profiles->config_path;

    if (profiles_have(l->profiles, l->profile))
        return resolve(l, l->profile, 0, out, err);
    if (l->profile_by != NULL)
        return dlc_err_set(err, DLC_EINVAL,
                           "%s names \"%s\", which is neither in %s nor in %s: correct the name, "
                           "or add the profile",
                           l->profile_by, l->profile, credentials == NULL ? "~/.aws" : credentials,
                           config == NULL ? "~/.aws" : config);
    return lookup_elsewhere(l, "no \"%s\" in %.60s", l->profile,
                            credentials == NULL ? "~/.aws, no home directory" : credentials);
}
