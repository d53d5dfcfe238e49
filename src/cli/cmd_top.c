// SPDX-License-Identifier: Apache-2.0
/*
 * `dlcache top`: jobs, waits and datasets of a daemon, live in a terminal.
 *
 * On a terminal it draws the screen again every second and heeds keys; elsewhere, and with --batch, it
 * prints one screen after the other. Figures and advice are the daemon's (GET /v1/figures).
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/figures_client.h"
#include "cli/figures_view.h"
#include "net/json_client.h"

struct options {
    bool once, json, batch;
    struct dlc_dur every;
    const char *at;
    enum top_sort sort;
};

/* ---- a terminal ---- */

static struct termios cooked;

static bool terminal_open(void)
{
    struct termios raw;

    if (isatty(STDIN_FILENO) != 1 || tcgetattr(STDIN_FILENO, &cooked) < 0)
        return false;
    raw = cooked;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* signals stay: ^C ends it */
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    return tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static struct top_screen screen_of(const struct options *o, bool terminal)
{
    struct top_screen s = {.sort = o->sort};
    struct winsize w;

    if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 && w.ws_row > 1) {
        s.rows = w.ws_row - 1u;
        s.columns = w.ws_col;
    }
    return s;
}

/* Wait for the next screen, or for a key: 'q' ends, 's' changes the order. False: end. */
static bool wait_for_key(struct options *o, bool keys)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = 0;

    if (!keys) {
        dlc_sleep(o->every);
        return true;
    }
    if (poll(&p, 1, (int)(o->every.ns / 1000000)) <= 0)
        return true;
    if (read(STDIN_FILENO, &key, 1) != 1)
        return false;
    if (key == 's')
        o->sort = (o->sort + 1) % TOP_SORTS;
    return key != 'q';
}

/* ---- screens ---- */

static void show(const struct options *o, const json_t *figures, bool terminal)
{
    struct top_screen s = screen_of(o, terminal);
    struct buf out = BUF_INIT;

    if (o->json) {
        print_json(json_incref((json_t *)(uintptr_t)figures), false);
        return;
    }
    top_render(figures, &s, &out);
    if (terminal)
        fputs("\033[H\033[J", stdout);
    fputs(buf_str(&out), stdout);
    if (terminal)
        printf("q quit   s sort by %s", top_sort_name((o->sort + 1) % TOP_SORTS));
    else if (!o->once)
        putchar('\n');
    buf_release(&out);
}

static int top(const struct config *config, struct options *o, struct dlc_err *err)
{
    bool terminal = !o->once && !o->json && !o->batch && isatty(STDOUT_FILENO) == 1;
    bool keys = terminal && terminal_open();
    struct http_client *c = NULL;
    int rc = figures_client_open(config, o->at, &c, err);

    while (rc == 0) {
        json_t *figures = NULL;

        rc = o->once ? figures_fetch_recent(c, &figures, err) : figures_fetch(c, &figures, err);
        if (rc == 0)
            show(o, figures, terminal);
        json_decref(figures);
        if (o->once || rc < 0 || fflush(stdout) != 0 || !wait_for_key(o, keys))
            break;
    }
    if (keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &cooked);
    if (terminal)
        putchar('\n');
    http_client_close(&c);
    return rc;
}

static bool read_options(struct options *o, const char *every, const char *sort,
                         struct dlc_err *err)
{
    if (every != NULL && (!str_parse_dur(every, &o->every) || o->every.ns < DLC_MS(100).ns ||
                          o->every.ns > DLC_SEC(3600).ns)) {
        dlc_err_set(err, DLC_EINVAL, "--every: \"%.60s\" is not a time from 100ms to 1h", every);
        return false;
    }
    for (o->sort = 0; sort != NULL && o->sort < TOP_SORTS; o->sort++)
        if (strcmp(sort, top_sort_name(o->sort)) == 0)
            return true;
    if (sort != NULL)
        dlc_err_set(err, DLC_EINVAL, "--sort: \"%.60s\" is not one of waiting, read, name", sort);
    return sort == NULL;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct options o = {.every = DLC_SEC(1)};
    const char *every = NULL, *sort = NULL;
    const struct args_option options[] = {
        {"once", '1', NULL, "Print one screen and end.", &o.once, NULL},
        {"batch", 'b', NULL, "Print one screen after the other, also to a terminal.", &o.batch,
         NULL},
        {"json", 0, NULL, "Print the figures as JSON, one object per line.", &o.json, NULL},
        {"every", 'e', "TIME", "Look again every TIME; 1s.", NULL, &every},
        {"sort", 's', "KEY", "Sort jobs by waiting, read or name.", NULL, &sort},
        {"at", 0, "ADDRESS", "The daemon's --http address: http://HOST:PORT or unix:PATH.", NULL,
         &o.at},
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int status;

    if (args_parse(&a, cmd, options, argc, argv, &status)) {
        if (!read_options(&o, every, sort, &err) || top(&a.config, &o, &err) < 0)
            status = cli_fail(cmd, &err);
        else
            status = end_output(cmd);
    }
    args_release(&a);
    return status;
}

const struct command cmd_top = {
    .name = "top",
    .synopsis = "[--once] [--batch] [--json] [--every TIME] [--sort KEY] [--at ADDRESS]",
    .summary = "Watch jobs, what they wait for, and what would help.",
    .details = "READS is what the readers of a job get, WAITS the share of their time that they "
               "waited in the\n"
               "last minute, and for what. Keys: q ends, s sorts by the next column. A node of a "
               "cluster asks\n"
               "for a token, as its page does.",
    .examples = "  $ dlcache top\n"
                "  $ dlcache top --once\n"
                "  $ dlcache top --json --once | jq '.jobs[].advice'\n",
    .run = run,
};
