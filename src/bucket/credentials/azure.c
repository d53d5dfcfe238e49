// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/azure_i.h"

#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "bucket/credentials/chain_i.h"
#include "bucket/credentials/kind_i.h"
#include "bucket/credentials/parse_i.h"
#include "bucket/credentials/token_i.h"

#define AUTHORITY "https://login.microsoftonline.com/"
#define INSTANCE  "http://169.254.169.254"
#define RESOURCE  "https://storage.azure.com/"
/* What every Azurite and the emulator before it have. */
#define DEVELOPMENT_NAME "devstoreaccount1"
#define DEVELOPMENT_KEY                                                                            \
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

/* Fixed after new. */
struct azure {
    struct azure_account account;
    bool secret_ok; /* the endpoint may have tokens (AZURE-2) */
};

/* ---- of the storage account ---- */

static int check_key(const char *key, const char *where, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    bool ok;

    buf_reserve(&b, strlen(key) + 1);
    ok = str_unbase64(key, &b) && b.len > 0;
    secret_buf_release(&b);
    return ok ? 0
              : dlc_err_set(err, DLC_EINVAL, "%s is not base64: copy the account's key again",
                            where);
}

/* (AZURE-1) `name`: whose the credentials are; NULL: not said. */
static int check_account(const struct lookup *l, const char *name, const char *where,
                         struct dlc_err *err)
{
    const char *wanted = l->azure->account.name;

    if (name == NULL || wanted == NULL || strcmp(name, wanted) == 0)
        return 0;
    return dlc_err_set(err, DLC_EDENIED,
                       "%s is of the storage account %.60s, and the container is in %.60s: give "
                       "credentials of that account",
                       where, name, wanted);
}

static int check_secret_ok(const struct lookup *l, const char *what, struct dlc_err *err)
{
    if (l->azure->secret_ok)
        return 0;
    return dlc_err_set(err, DLC_EDENIED,
                       "%.200s is no https endpoint of Azure, and a %s is sent to no other that a "
                       "client or a tenant names, nor over plain http: use the account's key, open "
                       "it as anonymous, or start the daemon with --endpoint https://...",
                       l->azure->account.endpoint, what);
}

static int take_key(struct lookup *l, const char *name, const char *key, const char *where,
                    struct credentials *out, struct dlc_err *err)
{
    const char *account = name != NULL ? name : l->azure->account.name;
    int rc = check_account(l, name, where, err);

    if (rc == 0 && account == NULL)
        rc = dlc_err_set(err, DLC_EINVAL,
                         "%s is there, but not the account's name: set AZURE_STORAGE_ACCOUNT",
                         where);
    if (rc == 0)
        rc = check_key(key, where, err);
    if (rc == 0)
        *out = (struct credentials){.access_key = mem_str(account), .secret_key = mem_str(key)};
    return rc;
}

/* When a signature ends ("se=2026-01-31T12%3A00%3A00Z"); 0: it does not say. */
static int64_t sas_expires(const char *sas)
{
    struct buf when = BUF_INIT;
    int64_t t = 0;

    while (sas != NULL && *sas != '\0') {
        size_t n = strcspn(sas, "&");

        if (n > 3 && strncmp(sas, "se=", 3) == 0 && str_uri_decode(sas + 3, n - 3, &when) &&
            !answer_time(buf_str(&when), &t))
            t = 0;
        sas += n + (sas[n] == '&');
    }
    buf_release(&when);
    return t;
}

static int take_sas(struct lookup *l, const char *name, const char *sas, const char *where,
                    struct credentials *out, struct dlc_err *err)
{
    int rc = check_account(l, name, where, err);

    if (rc == 0)
        rc = check_secret_ok(l, "shared access signature", err);
    sas += *sas == '?';
    if (rc == 0 && strstr(sas, "sig=") == NULL)
        rc = dlc_err_set(err, DLC_EINVAL, "%s has no sig=: copy the signature again", where);
    if (rc == 0)
        *out = (struct credentials){.sas = mem_str(sas), .expires = sas_expires(sas)};
    return rc;
}

static int find_connection(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    static const char where[] = "AZURE_STORAGE_CONNECTION_STRING";
    const char *text = cloud_env_get(l->env, VAR_AZURE_STORAGE_CONNECTION_STRING);
    char *name = azure_connection_field(text, "AccountName");
    char *key = azure_connection_field(text, "AccountKey");
    char *sas = azure_connection_field(text, "SharedAccessSignature");
    char *development = azure_connection_field(text, "UseDevelopmentStorage");
    int rc;

    if (text == NULL)
        rc = lookup_elsewhere(l, "%s not set", where);
    else if (key != NULL)
        rc = take_key(l, name, key, where, out, err);
    else if (sas != NULL)
        rc = take_sas(l, name, sas, where, out, err);
    else if (development != NULL && strcasecmp(development, "true") == 0)
        rc = take_key(l, DEVELOPMENT_NAME, DEVELOPMENT_KEY, where, out, err);
    else
        rc = dlc_err_set(err, DLC_EINVAL, "%s has neither AccountKey nor SharedAccessSignature",
                         where);
    mem_free(&name);
    secret_free(&key);
    secret_free(&sas);
    mem_free(&development);
    return rc;
}

static const char *env_account(const struct lookup *l)
{
    const char *name = cloud_env_get(l->env, VAR_AZURE_STORAGE_ACCOUNT_NAME);

    return name != NULL ? name : cloud_env_get(l->env, VAR_AZURE_STORAGE_ACCOUNT);
}

static int find_key(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *key = cloud_env_get(l->env, VAR_AZURE_STORAGE_ACCOUNT_KEY);
    const char *where = key != NULL ? "AZURE_STORAGE_ACCOUNT_KEY" : "AZURE_STORAGE_KEY";

    if (key == NULL)
        key = cloud_env_get(l->env, VAR_AZURE_STORAGE_KEY);
    if (key == NULL)
        return lookup_elsewhere(l, "AZURE_STORAGE_KEY not set");
    return take_key(l, env_account(l), key, where, out, err);
}

static int find_sas(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *sas = cloud_env_get(l->env, VAR_AZURE_STORAGE_SAS_TOKEN);

    if (sas == NULL)
        return lookup_elsewhere(l, "AZURE_STORAGE_SAS_TOKEN not set");
    return take_sas(l, env_account(l), sas, "AZURE_STORAGE_SAS_TOKEN", out, err);
}

/* ---- of Microsoft Entra ---- */

/* Ask Entra: `secret` or `assertion` proves who the client is. */
static int entra_ask(struct lookup *l, const char *secret, const char *assertion,
                     struct credentials *out, struct dlc_err *err)
{
    const char *host = cloud_env_get(l->env, VAR_AZURE_AUTHORITY_HOST);
    const char *tenant = cloud_env_get(l->env, VAR_AZURE_TENANT_ID);
    struct buf form = BUF_INIT, url = BUF_INIT;
    int rc = check_secret_ok(l, "token of Entra", err);

    host = host != NULL ? host : AUTHORITY;
    buf_addf(&url, "%s%s", host, str_ends(host, "/") ? "" : "/");
    str_uri_encode(tenant, strlen(tenant), false, &url);
    buf_adds(&url, "/oauth2/v2.0/token");
    if (rc == 0 && !token_host_ok(buf_str(&url)))
        rc = dlc_err_set(err, DLC_EINVAL,
                         "AZURE_AUTHORITY_HOST is %.100s: secrets are sent to https:// only", host);
    if (rc == 0) {
        buf_reserve(&form, FORM_RESERVE);
        form_add(&form, "client_id", cloud_env_get(l->env, VAR_AZURE_CLIENT_ID));
        form_add(&form, "scope", RESOURCE ".default");
        form_add(&form, "grant_type", "client_credentials");
        form_add(&form, "client_secret", secret);
        form_add(&form, "client_assertion_type",
                 assertion == NULL ? NULL
                                   : "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        form_add(&form, "client_assertion", assertion);
        rc = token_ask(l, buf_str(&url), &form, out, err);
    }
    secret_buf_release(&form);
    buf_release(&url);
    return rc;
}

static int needs_client(const struct lookup *l, const char *with, struct dlc_err *err)
{
    if (cloud_env_get(l->env, VAR_AZURE_CLIENT_ID) != NULL &&
        cloud_env_get(l->env, VAR_AZURE_TENANT_ID) != NULL)
        return 0;
    return dlc_err_set(err, DLC_EINVAL,
                       "%s is set but AZURE_CLIENT_ID or AZURE_TENANT_ID is not: set both", with);
}

static int find_client_secret(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *secret = cloud_env_get(l->env, VAR_AZURE_CLIENT_SECRET);
    int rc;

    if (secret == NULL)
        return lookup_elsewhere(l, "AZURE_CLIENT_SECRET not set");
    rc = needs_client(l, "AZURE_CLIENT_SECRET", err);
    return rc < 0 ? rc : entra_ask(l, secret, NULL, out, err);
}

static int find_workload_identity(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *file = cloud_env_get(l->env, VAR_AZURE_FEDERATED_TOKEN_FILE);
    struct buf token = BUF_INIT;
    int rc;

    if (file == NULL)
        return lookup_elsewhere(l, "AZURE_FEDERATED_TOKEN_FILE not set");
    rc = needs_client(l, "AZURE_FEDERATED_TOKEN_FILE", err);
    if (rc < 0)
        return rc;
    buf_reserve(&token, TOKEN_FILE_MAX);
    rc = os_read_file(file, TOKEN_FILE_MAX, &token, err);
    if (rc == 0 && token.len == 0)
        rc = dlc_err_set(err, DLC_EINVAL, "%s is empty", file);
    if (rc == 0)
        rc = entra_ask(l, NULL, str_trim(token.data), out, err);
    secret_buf_release(&token);
    return rc;
}

/* The identity of the machine: not for guests on it. */
static int find_managed_identity(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    const char *base = cloud_env_get(l->env, VAR_AZURE_POD_IDENTITY_AUTHORITY_HOST);
    const char *client = cloud_env_get(l->env, VAR_AZURE_CLIENT_ID);
    struct buf url = BUF_INIT;
    int rc;

    if (l->no_machine_role)
        return lookup_elsewhere(l, "not asked for a dataset of a cluster");
    if (!l->azure->secret_ok)
        return lookup_elsewhere(l, "its token is only for https endpoints of Azure");
    base = base != NULL ? base : INSTANCE;
    buf_addf(&url, "%.*s/metadata/identity/oauth2/token?api-version=2018-02-01&resource=",
             (int)(strlen(base) - str_ends(base, "/")), base);
    str_uri_encode(RESOURCE, strlen(RESOURCE), false, &url);
    if (client != NULL) {
        buf_adds(&url, "&client_id=");
        str_uri_encode(client, strlen(client), false, &url);
    }
    rc = token_of_machine(l, buf_str(&url), "Metadata: true\n", out, err);
    buf_release(&url);
    return rc;
}

/* ---- the kind ---- */

static const struct chain_step steps[] = {
    {"connection string", find_connection, true},
    {"account key", find_key, true},
    {"SAS", find_sas, true},
    {"client secret", find_client_secret, true},
    {"workload identity", find_workload_identity, true},
    {"managed identity", find_managed_identity, false},
};

static const struct chain chain = {
    "no Azure credentials found: ",
    ". Set AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or "
    "AZURE_STORAGE_CONNECTION_STRING; --anonymous for a public container",
    steps,
    DLC_COUNT(steps),
};

static int azure_find(void *state, struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    l->azure = state;
    return chain_run(&chain, l, out, err);
}

/* A tenant's: the account's name, and its key or a shared access signature. */
static int azure_given(void *state, struct lookup *l, struct credentials *given,
                       struct credentials *out, struct dlc_err *err)
{
    l->azure = state;
    if (given->access_key == NULL || given->secret_key == NULL)
        return dlc_err_set(err, DLC_EDENIED,
                           "there is no storage account, or no key of it: set both");
    if (strstr(given->secret_key, "sig=") != NULL)
        return take_sas(l, given->access_key, given->secret_key, "the signature", out, err);
    return take_key(l, given->access_key, given->secret_key, "the key", out, err);
}

static void azure_free(void *state)
{
    struct azure *s = state;

    if (s == NULL)
        return;
    azure_account_release(&s->account);
    mem_free(&s);
}

static const struct credential_kind kind = {azure_find, azure_given, azure_free};

int azure_source_new(const struct bucket_config *c, struct azure_account *account,
                     struct credential_source **out, struct dlc_err *err)
{
    struct azure *s = mem_new(struct azure);
    int rc;

    s->account = *account;
    *account = (struct azure_account){NULL, NULL};
    s->secret_ok = azure_is_cloud(s->account.endpoint) ||
                   (!c->foreign_endpoint && token_host_ok(s->account.endpoint));
    rc = credential_source_make(&kind, c, out, err);
    if (rc < 0)
        azure_free(s);
    else
        credential_source_take_state(*out, s);
    return rc;
}
