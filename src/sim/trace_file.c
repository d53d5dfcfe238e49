// SPDX-License-Identifier: Apache-2.0
/*
 * Traces as text (docs/format/trace.md). One thing per line, the key last, so that it may hold
 * blanks:
 *
 *     chunk SIZE COST KEY
 *     job NAME [DATASET]
 *     read JOB KEY
 *     weight WEIGHT KEY
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/u64map.h"
#include "base/mem.h"
#include "base/str.h"
#include "sim/trace.h"

#define MOST_BYTES ((uint64_t)1 << 60)
#define MOST_COST  1e12

/* Names to numbers. Two names of one hash are told apart by a linked list. */
struct name {
    struct name *next;
    uint32_t number;
    char text[];
};

struct names {
    struct map by_hash;
};

struct parser {
    struct sim_trace *t;
    struct names chunks, jobs, datasets;
    uint32_t *last_read; /* of each chunk, or SIM_NONE */
    uint32_t n_last, cap_last;
    const char *file;
    unsigned line;
    struct dlc_err *err;
};

static struct name *names_find(const struct names *n, const char *text)
{
    struct name *e = map_get(&n->by_hash, hash64_str(text));

    while (e != NULL && strcmp(e->text, text) != 0)
        e = e->next;
    return e;
}

static void names_add(struct names *n, const char *text, uint32_t number)
{
    size_t len = strlen(text) + 1;
    struct name *e = mem_alloc(sizeof(*e) + len);

    e->next = map_get(&n->by_hash, hash64_str(text));
    e->number = number;
    memcpy(e->text, text, len);
    map_set(&n->by_hash, hash64_str(text), e);
}

static void names_release(struct names *n)
{
    map_each(e, &n->by_hash)
    {
        for (struct name *x = e->value, *next; x != NULL; x = next) {
            next = x->next;
            mem_free(&x);
        }
    }
    map_release(&n->by_hash);
}

/* The next word of *s, which moves on; "" at the end of the line. */
static char *word(char **s)
{
    char *w = str_trim(*s);
    size_t n = strcspn(w, " \t");

    *s = w + n + (w[n] != '\0');
    w[n] = '\0';
    return w;
}

static int wrong(struct parser *p, const char *what, const char *text)
{
    return dlc_err_set(p->err, DLC_EINVAL, "%s:%u: %s \"%.80s\"", p->file, p->line, what, text);
}

static int find(struct parser *p, const struct names *n, const char *text, const char *unknown,
                uint32_t *number)
{
    const struct name *e = names_find(n, text);

    if (e == NULL)
        return wrong(p, unknown, text);
    *number = e->number;
    return 0;
}

static int parse_chunk(struct parser *p, char *rest)
{
    const char *size = word(&rest), *cost = word(&rest), *key = str_trim(rest);
    uint64_t bytes;
    double seconds;

    if (!str_parse_size(size, &bytes) || bytes > MOST_BYTES)
        return wrong(p, "a chunk's size is like 1500 or 2.5GB, not", size);
    if (!str_parse_double(cost, &seconds) || !(seconds >= 0) || seconds > MOST_COST)
        return wrong(p, "a chunk's cost is a number of seconds, not", cost);
    if (key[0] == '\0')
        return wrong(p, "a chunk has a key: chunk SIZE COST KEY, not", size);
    if (names_find(&p->chunks, key) != NULL)
        return wrong(p, "this chunk is there already:", key);
    if (p->t->bytes + bytes > MOST_BYTES)
        return wrong(p, "all chunks together are too large at", key);
    names_add(&p->chunks, key, sim_trace_chunk(p->t, bytes, seconds));
    mem_reserve(p->last_read, p->n_last, p->cap_last);
    p->last_read[p->n_last++] = SIM_NONE;
    return 0;
}

static int parse_job(struct parser *p, char *rest)
{
    const char *name = word(&rest), *dataset = str_trim(rest);
    uint32_t number;

    if (name[0] == '\0')
        return wrong(p, "a job has a name: job NAME [DATASET], not", rest);
    if (names_find(&p->jobs, name) != NULL)
        return wrong(p, "this job is there already:", name);
    if (dataset[0] == '\0')
        dataset = name;
    if (names_find(&p->datasets, dataset) == NULL)
        names_add(&p->datasets, dataset, sim_trace_dataset(p->t));
    number = names_find(&p->datasets, dataset)->number;
    names_add(&p->jobs, name, sim_trace_job(p->t, number));
    return 0;
}

static int parse_read(struct parser *p, char *rest)
{
    const char *name = word(&rest), *key = str_trim(rest);
    uint32_t job = 0, chunk = 0;
    int rc = find(p, &p->jobs, name, "no job line before this names", &job);

    if (rc == 0)
        rc = find(p, &p->chunks, key, "no chunk line before this names", &chunk);
    if (rc < 0)
        return rc;
    p->last_read[chunk] = p->t->n_reads;
    sim_trace_read(p->t, job, chunk);
    return 0;
}

static int parse_weight(struct parser *p, char *rest)
{
    const char *weight = word(&rest), *key = str_trim(rest);
    uint32_t chunk = 0;
    double w;
    int rc;

    if (!str_parse_double(weight, &w) || !(w >= 0) || w > MOST_COST)
        return wrong(p, "a weight is a number from 0, not", weight);
    rc = find(p, &p->chunks, key, "no chunk line before this names", &chunk);
    if (rc < 0)
        return rc;
    if (p->last_read[chunk] == SIM_NONE)
        return wrong(p, "a weight follows a read; nobody has read", key);
    p->t->reads[p->last_read[chunk]].weight = (float)w;
    return 0;
}

static int parse_line(struct parser *p, char *line)
{
    const char *what = word(&line);

    if (what[0] == '\0' || what[0] == '#')
        return 0;
    if (strcmp(what, "chunk") == 0)
        return parse_chunk(p, line);
    if (strcmp(what, "job") == 0)
        return parse_job(p, line);
    if (strcmp(what, "read") == 0)
        return parse_read(p, line);
    if (strcmp(what, "weight") == 0)
        return parse_weight(p, line);
    return wrong(p, "a line begins with chunk, job, read, weight or #, not", what);
}

int sim_trace_parse(struct sim_trace *t, const char *name, const char *text, size_t len,
                    struct dlc_err *err)
{
    struct parser p = {.t = t, .file = name, .err = err};
    int rc = 0;

    if (memchr(text, '\0', len) != NULL)
        return dlc_err_set(err, DLC_EINVAL, "%s is not a text", name);
    for (const char *s = text, *end = text + len; rc == 0 && s < end;) {
        const char *eol = memchr(s, '\n', (size_t)(end - s));
        size_t n = (size_t)((eol != NULL ? eol : end) - s);
        char *line = mem_strn(s, n);

        p.line++;
        rc = parse_line(&p, line);
        mem_free(&line);
        s += n + 1;
    }
    if (rc == 0 && t->n_reads == 0)
        rc = dlc_err_set(err, DLC_EINVAL, "%s has no reads", name);
    names_release(&p.chunks);
    names_release(&p.jobs);
    names_release(&p.datasets);
    mem_free(&p.last_read);
    return rc;
}
