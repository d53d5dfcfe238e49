// SPDX-License-Identifier: Apache-2.0
/*
 * `dlcache tenant credentials`: sends the keys of a tenant's buckets to the manager. The command
 * asks for them on the terminal without echo, or reads them from a file, standard input or the
 * environment; never from arguments, which everybody on the machine can see.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "cli/manager_commands.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/credential_input.h"
#include "cli/cmd_tenant.h"

struct asked {
    bool from_env, remove, json;
    const char *file; /* "-": standard input */
};

/* ---- the terminal ---- */

static int terminal = -1;
static struct termios terminal_was;

static void give_echo_back(void)
{
    tcsetattr(terminal, TCSAFLUSH, &terminal_was);
}

/* ^C at a prompt must not leave a terminal that shows nothing. */
static void on_signal(int number)
{
    give_echo_back();
    signal(number, SIG_DFL);
    raise(number);
}

static int open_terminal(struct dlc_err *err)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
    struct termios quiet;

    terminal = os_open("/dev/tty", O_RDWR, 0);
    if (terminal < 0 || tcgetattr(terminal, &terminal_was) < 0) {
        os_close(&terminal);
        return dlc_err_set(err, DLC_EINVAL,
                           "there is no terminal to ask on: use --from-env or --from-file FILE "
                           "(- for standard input)");
    }
    for (size_t i = 0; i < DLC_COUNT(ends); i++)
        signal(ends[i], on_signal);
    quiet = terminal_was;
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    tcsetattr(terminal, TCSAFLUSH, &quiet);
    return 0;
}

static void close_terminal(void)
{
    give_echo_back();
    os_close(&terminal);
}

/* One line, without its end. Gives *out. */
static int prompt(const char *text, char **out, struct dlc_err *err)
{
    char line[9000];
    size_t n = 0;
    char c = 0;

    if (os_write_all(terminal, text, strlen(text)) < 0)
        return dlc_err_set(err, DLC_EIO, "cannot ask on the terminal: %s", strerror(errno));
    while (n < sizeof(line) - 1 && read(terminal, &c, 1) == 1 && c != '\n')
        line[n++] = c;
    os_write_all(terminal, "\n", 1);
    line[n] = '\0';
    *out = mem_str(str_trim(line));
    explicit_bzero(line, sizeof(line));
    explicit_bzero(&c, 1);
    return 0;
}

static int ask_terminal(struct keys *k, struct dlc_err *err)
{
    int rc = open_terminal(err);

    if (rc < 0)
        return rc;
    rc = prompt("access key (not shown): ", &k->access_key, err);
    if (rc == 0)
        rc = prompt("secret key (not shown): ", &k->secret_key, err);
    if (rc == 0)
        rc = prompt("session token (not shown; empty for none): ", &k->session_token, err);
    close_terminal();
    if (rc == 0 && (k->access_key[0] == '\0' || k->secret_key[0] == '\0'))
        rc = dlc_err_set(err, DLC_EINVAL, "an access key and a secret key are needed");
    return rc;
}

/* ---- files ---- */

static int read_stdin(struct buf *b, struct dlc_err *err)
{
    ssize_t n = 0;

    buf_reserve(b, KEYS_MAX + 2); /* once: what is moved cannot be wiped */
    while (b->len <= KEYS_MAX &&
           (n = read(STDIN_FILENO, b->data + b->len, KEYS_MAX + 1 - b->len)) > 0)
        b->len += (size_t)n;
    if (n < 0)
        return dlc_err_set(err, DLC_EIO, "cannot read standard input: %s", strerror(errno));
    return 0;
}

static int read_file(const char *path, struct keys *k, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    bool std = strcmp(path, "-") == 0;
    int rc;

    buf_reserve(&b, KEYS_MAX + 2);
    rc = std ? read_stdin(&b, err) : os_read_file(path, KEYS_MAX, &b, err);
    if (rc == 0) {
        rc = keys_parse(b.data, b.len, k, err);
        if (rc < 0)
            dlc_err_prefix(err, "%s", std ? "standard input" : path);
    }
    secret_buf_release(&b);
    return rc;
}

/* ---- to the manager ---- */

static int collect(const struct asked *o, const struct config *c, json_t **body,
                   struct dlc_err *err)
{
    struct keys k = KEYS_INIT;
    int rc = 0;

    if (c->anonymous)
        ;
    else if (o->from_env)
        rc = keys_of_env(&k, err);
    else if (o->file != NULL)
        rc = read_file(o->file, &k, err);
    else
        rc = ask_terminal(&k, err);
    if (rc == 0) {
        *body = json_object();
        api_set(*body, "access_key", k.access_key);
        api_set(*body, "secret_key", k.secret_key);
        api_set(*body, "session_token", k.session_token);
        api_set(*body, "endpoint", c->endpoint);
        api_set(*body, "region", c->region);
        if (c->anonymous)
            json_object_set_new(*body, "anonymous", json_true());
    }
    keys_release(&k);
    return rc;
}

static void say_set(const json_t *answer, void *arg)
{
    (void)answer;
    printf("the credentials of tenant %s are set; nodes use them from now on\n", (const char *)arg);
}

static void say_removed(const json_t *answer, void *arg)
{
    (void)answer;
    printf("tenant %s has no credentials any more\n", (const char *)arg);
}

static int check(const struct asked *o, const struct config *c, struct dlc_err *err)
{
    if (o->from_env + (o->file != NULL) + o->remove + c->anonymous > 1)
        return dlc_err_set(err, DLC_EINVAL,
                           "--from-env, --from-file, --anonymous and --remove exclude each other");
    return 0;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct asked o = {.json = false};
    const struct args_option options[] = {
        {"from-env", 0, NULL,
         "Take those in AWS_*, AZURE_STORAGE_* or GOOGLE_APPLICATION_CREDENTIALS.", &o.from_env,
         NULL},
        {"from-file", 'f', "FILE", "Read them from FILE; - is standard input.", NULL, &o.file},
        {"remove", 0, NULL, "Forget those that were set.", &o.remove, NULL},
        API_JSON(&o.json),
        API_END,
    };
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *body = NULL;
    char *path;
    int status;

    if (!kind_begin(&a, cmd, options, argc, argv, "/credentials", &path, &status))
        goto out;
    if (check(&o, &a.config, &err) < 0 || (!o.remove && collect(&o, &a.config, &body, &err) < 0)) {
        status = cli_fail(cmd, &err);
        goto out;
    }
    status = api_do(cmd, &a, o.json, o.remove ? "DELETE" : "PUT", path, json_incref(body),
                    o.remove ? say_removed : say_set, (void *)a.operands[0]);
out:
    secret_json_wipe(body);
    json_decref(body);
    mem_free(&path);
    args_release(&a);
    return status;
}

const struct command cmd_tenant_credentials = {
    .name = "tenant credentials",
    .synopsis = "NAME [--from-env | --from-file FILE | --anonymous | --remove]",
    .summary = "Set the keys with which nodes read a tenant's buckets.",
    .details =
        "Asks for them on the terminal, without showing what is typed, unless an option says where "
        "they\n"
        "are. A file holds lines of access_key, secret_key and session_token, or a profile as in\n"
        "~/.aws/credentials, or JSON of `aws configure export-credentials`, or is the file of a "
        "service\n"
        "account of Google. For az:// the access key is the storage account, the secret key its "
        "key or a\n"
        "SAS. They are never arguments, which other users of the machine could see; the manager\n"
        "encrypts them and never shows them.\n"
        "\n"
        "--endpoint and --region go with them. --anonymous: public buckets, no keys. A tenant may "
        "do\n"
        "this with its own token.",
    .examples = "  $ dlcache tenant credentials vision\n"
                "  $ dlcache tenant credentials vision --from-env --region eu-west-1\n"
                "  $ dlcache tenant credentials vision --from-file service-account.json\n"
                "  $ aws configure export-credentials | dlcache tenant credentials vision -f -\n",
    ONE_OPERAND("the name of a tenant"),
    .run = run,
    .kind = &kind_tenant,
};
