// SPDX-License-Identifier: Apache-2.0
#include "cluster/peer/view_i.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/rendezvous.h"

#define NODES_MAX 4096
#define RANK_MAX  8 /* dead peers passed over before the bucket is used */
/* A node that has just joined knows no owners before it: so long it asks those that were. */
#define JOINED_LATELY DLC_SEC(3600)

struct cluster *cluster_new(const char *name)
{
    struct cluster *c = mem_new(struct cluster);

    c->name = mem_str(name);
    return c;
}

/* ---- the view ---- */

static void owners_release(struct owners *o)
{
    mem_free(&o->nodes);
    mem_free(&o->member);
    o->n = 0;
}

static void members_release(struct member **members, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mem_free(&(*members)[i].name);
        mem_free(&(*members)[i].address);
    }
    mem_free(members);
}

static void placed_release(struct placed **placed, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mem_free(&(*placed)[i].id);
        owners_release(&(*placed)[i].owners);
        owners_release(&(*placed)[i].draining);
        owners_release(&(*placed)[i].away);
    }
    mem_free(placed);
}

static void old_release(struct old_owners *o)
{
    members_release(&o->members, o->n_members);
    placed_release(&o->placed, o->n_placed);
    owners_release(&o->all);
    *o = (struct old_owners){0};
}

static void view_release(struct cluster *c)
{
    members_release(&c->members, c->n_members);
    placed_release(&c->placed, c->n_placed);
    for (size_t i = 0; i < c->n_jobs; i++) {
        mem_free(&c->jobs[i].id);
        mem_free(&c->jobs[i].dataset);
    }
    mem_free(&c->jobs);
    owners_release(&c->all);
    owners_release(&c->draining);
    owners_release(&c->leaving);
    owners_release(&c->away);
    c->n_members = c->n_placed = c->n_jobs = 0;
}

enum { OWN = 1, DRAIN = 2, AWAY = 4 };

static unsigned kind_of(const struct member *m)
{
    if (m->live)
        return OWN;
    return m->away ? AWAY : m->answers ? DRAIN : 0;
}

/* Of these names (NULL: of all) those that own, drain, are away, or some of these; with these
 * weights (NULL: their own). */
static void owners_fill(struct owners *o, const struct cluster *c, const json_t *names,
                        const json_t *weights, unsigned which)
{
    size_t i;

    o->nodes = mem_zero((c->n_members + 1) * sizeof(o->nodes[0]));
    o->member = mem_zero((c->n_members + 1) * sizeof(o->member[0]));
    for (i = 0; i < c->n_members; i++) {
        const struct member *m = &c->members[i];
        double weight =
            weights != NULL ? json_number_value(json_object_get(weights, m->name)) : m->weight;
        bool named = names == NULL;
        const json_t *name;
        size_t k;

        json_array_foreach(names, k, name) named =
            named ||
            strcmp(json_string_value(name) != NULL ? json_string_value(name) : "", m->name) == 0;
        if (!named || !(which & kind_of(m)) || weight <= 0)
            continue;
        o->member[o->n] = (unsigned)i;
        o->nodes[o->n++] = (struct owner_node){owner_id(m->name), weight};
    }
}

static int member_by_name(const void *a, const void *b)
{
    return strcmp(((const struct member *)a)->name, ((const struct member *)b)->name);
}

static const struct member *member_named(const struct cluster *c, const char *name)
{
    const struct member key = {.name = (char *)(uintptr_t)name};

    return c->n_members == 0
               ? NULL
               : bsearch(&key, c->members, c->n_members, sizeof(c->members[0]), member_by_name);
}

/* What the view before says of it. */
static void compare_member(struct member *m, const struct member *old)
{
    m->new = m->answers && (old == NULL || !old->answers);
    if (m->away)
        m->away_since = old != NULL && old->away ? old->away_since : dlc_mono_now();
}

static int take_members(struct cluster *c, const json_t *nodes, struct dlc_err *err)
{
    const json_t *node;
    size_t i;

    if (!json_is_array(nodes) || json_array_size(nodes) > NODES_MAX)
        return dlc_err_set(err, DLC_EPROTO, "the manager's view has no list of nodes");
    c->members = mem_zero((json_array_size(nodes) + 1) * sizeof(c->members[0]));
    json_array_foreach(nodes, i, node)
    {
        const char *name = json_string_value(json_object_get(node, "name"));
        const char *address = json_string_value(json_object_get(node, "address"));
        const char *state = json_string_value(json_object_get(node, "state"));
        const json_t *weight = json_object_get(node, "weight");

        if (name == NULL || state == NULL)
            return dlc_err_set(err, DLC_EPROTO,
                               "a node of the manager's view has no name or state");
        c->members[c->n_members++] = (struct member){
            .name = mem_str(name),
            .address = mem_str(address != NULL ? address : ""),
            .weight = json_is_number(weight) ? json_number_value(weight) : 1,
            .live = strcmp(state, "live") == 0,
            .answers = strcmp(state, "live") == 0 || strcmp(state, "draining") == 0,
            .away = strcmp(state, "away") == 0,
            .disk = json_is_true(json_object_get(node, "disk")),
        };
    }
    qsort(c->members, c->n_members, sizeof(c->members[0]), member_by_name);
    return 0;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct placed *)a)->id, ((const struct placed *)b)->id);
}

static void take_datasets(struct cluster *c, const json_t *datasets)
{
    const json_t *d;
    size_t i;

    c->placed = mem_zero((json_array_size(datasets) + 1) * sizeof(c->placed[0]));
    json_array_foreach(datasets, i, d)
    {
        const char *id = json_string_value(json_object_get(d, "id"));
        const json_t *nodes = json_object_get(d, "nodes");
        const json_t *weights = json_object_get(d, "weights");
        const json_t *runs = json_object_get(d, "runs");
        json_int_t readers = json_integer_value(json_object_get(d, "readers"));
        struct placed *p = &c->placed[c->n_placed];

        if (id == NULL)
            continue;
        c->n_placed++;
        p->id = mem_str(id);
        p->use.readers = readers > 0 ? (uint64_t)readers : 0;
        p->use.runs = json_is_integer(runs) ? json_integer_value(runs) : -1;
        if (json_array_size(nodes) > 0) {
            owners_fill(&p->owners, c, nodes, weights, OWN);
            owners_fill(&p->draining, c, nodes, weights, OWN | DRAIN);
            owners_fill(&p->away, c, nodes, weights, OWN | AWAY);
        }
    }
    qsort(c->placed, c->n_placed, sizeof(c->placed[0]), by_id);
}

static int job_by_id(const void *a, const void *b)
{
    const struct keepless *x = a, *y = b;
    int by = strcmp(x->id, y->id);

    return by != 0 ? by : strcmp(x->dataset, y->dataset);
}

static void take_jobs(struct cluster *c, const json_t *jobs)
{
    const json_t *j;
    size_t i;

    c->jobs = mem_zero((json_array_size(jobs) + 1) * sizeof(c->jobs[0]));
    json_array_foreach(jobs, i, j)
    {
        const char *id = json_string_value(json_object_get(j, "id"));
        const char *dataset = json_string_value(json_object_get(j, "dataset"));
        json_int_t part = json_integer_value(json_object_get(j, "part"));

        if (id == NULL || dataset == NULL)
            continue;
        c->jobs[c->n_jobs++] =
            (struct keepless){mem_str(id), mem_str(dataset), part > 0 ? (uint64_t)part : 0};
    }
    qsort(c->jobs, c->n_jobs, sizeof(c->jobs[0]), job_by_id);
}

/* Would anybody own something else? */
static uint64_t owners_hash(const struct cluster *c)
{
    uint64_t h = 0;

    for (size_t i = 0; i < c->all.n; i++) {
        uint64_t w[2] = {c->all.nodes[i].id, 0};

        memcpy(&w[1], &c->all.nodes[i].weight, sizeof(w[1]));
        h += hash64(w, sizeof(w));
    }
    for (size_t k = 0; k < c->n_placed; k++) {
        for (size_t i = 0; i < c->placed[k].owners.n; i++) {
            uint64_t w[3] = {hash64_str(c->placed[k].id), c->placed[k].owners.nodes[i].id, 0};

            memcpy(&w[2], &c->placed[k].owners.nodes[i].weight, sizeof(w[2]));
            h += hash64(w, sizeof(w));
        }
    }
    return h;
}

/* ---- a new view ---- */

struct cluster_view {
    struct cluster c; /* of it only what a view says; after cluster_use_view() the one before */
    struct old_owners dropped;
};

int cluster_read_view(const json_t *view, struct cluster_view **out, struct dlc_err *err)
{
    json_int_t version = json_integer_value(json_object_get(view, "version"));
    struct cluster_view *v;
    struct cluster *c;
    int rc;

    *out = NULL;
    if (version <= 0)
        return dlc_err_set(err, DLC_EPROTO, "the manager's view has no version");
    v = mem_new(struct cluster_view);
    c = &v->c;
    c->version = (uint64_t)version;
    rc = take_members(c, json_object_get(view, "nodes"), err);
    if (rc < 0) {
        cluster_view_free(&v);
        return rc;
    }
    owners_fill(&c->all, c, NULL, NULL, OWN);
    owners_fill(&c->draining, c, NULL, NULL, OWN | DRAIN);
    owners_fill(&c->leaving, c, NULL, NULL, DRAIN);
    owners_fill(&c->away, c, NULL, NULL, OWN | AWAY);
    take_datasets(c, json_object_get(view, "datasets"));
    take_jobs(c, json_object_get(view, "jobs"));
    c->owners_hash = owners_hash(c);
    *out = v;
    return 0;
}

void cluster_view_free(struct cluster_view **vp)
{
    struct cluster_view *v = *vp;

    *vp = NULL;
    if (v == NULL)
        return;
    view_release(&v->c);
    old_release(&v->dropped);
    mem_free(&v);
}

/* What a view says. */
static void view_copy(struct cluster *to, const struct cluster *from)
{
    to->version = from->version;
    to->owners_hash = from->owners_hash;
    to->members = from->members;
    to->n_members = from->n_members;
    to->all = from->all;
    to->draining = from->draining;
    to->leaving = from->leaving;
    to->away = from->away;
    to->placed = from->placed;
    to->n_placed = from->n_placed;
    to->jobs = from->jobs;
    to->n_jobs = from->n_jobs;
}

/* The owners of the view before are the old ones of c. */
static void keep_old(struct cluster *c, struct cluster_view *v)
{
    struct cluster *was = &v->c;

    if (was->n_members == 0)
        return;
    v->dropped = c->old[OLD_VIEWS - 1];
    memmove(&c->old[1], &c->old[0], (OLD_VIEWS - 1) * sizeof(c->old[0]));
    c->old[0] =
        (struct old_owners){was->members, was->n_members, was->all, was->placed, was->n_placed};
    was->members = NULL;
    was->placed = NULL;
    was->all = (struct owners){0};
    was->n_members = was->n_placed = 0;
}

void cluster_use_view(struct cluster *c, struct cluster_view *v)
{
    struct cluster was = *c;

    if (v->c.version < c->version)
        return;
    for (size_t i = 0; i < v->c.n_members; i++)
        compare_member(&v->c.members[i], member_named(c, v->c.members[i].name));
    view_copy(c, &v->c);
    view_copy(&v->c, &was);
    if (c->owners_hash != was.owners_hash) {
        keep_old(c, v);
        c->owners_version++;
    }
    if (c->since.ns == 0)
        c->since = dlc_mono_now();
}

int cluster_take_view(struct cluster *c, const json_t *view, struct dlc_err *err)
{
    struct cluster_view *v;
    int rc = cluster_read_view(view, &v, err);

    if (rc == 0)
        cluster_use_view(c, v);
    cluster_view_free(&v);
    return rc;
}

void cluster_joined(struct cluster *c)
{
    c->version = 0;
}

uint64_t cluster_version(const struct cluster *c)
{
    return c->version;
}

uint64_t cluster_owners_version(const struct cluster *c)
{
    return c->owners_version;
}

unsigned cluster_live(const struct cluster *c)
{
    return (unsigned)c->all.n;
}

static const struct placed *placed_in(const struct placed *placed, size_t n, const char *dataset)
{
    const struct placed key = {.id = (char *)(uintptr_t)dataset};

    return n == 0 ? NULL : bsearch(&key, placed, n, sizeof(placed[0]), by_id);
}

static const struct placed *placed_of(const struct cluster *c, const char *dataset)
{
    return placed_in(c->placed, c->n_placed, dataset);
}

static const struct owners *owners_of(const struct cluster *c, const char *dataset)
{
    const struct placed *p = placed_of(c, dataset);

    return p != NULL && p->owners.n > 0 ? &p->owners : &c->all;
}

/* The best owner: false: *peer. past_us: of the others. */
static bool find_owner(const struct cluster *c, const char *dataset, uint64_t object,
                       bool (*skip)(const struct cluster_peer *peer, void *arg), void *arg,
                       bool past_us, struct cluster_peer *peer)
{
    const struct owners *o = owners_of(c, dataset);
    int rank[RANK_MAX];
    size_t n = owner_rank(o->nodes, o->n, object, rank, RANK_MAX);

    for (size_t i = 0; i < n; i++) {
        const struct member *m = &c->members[o->member[rank[i]]];

        if (strcmp(m->name, c->name) == 0 && !past_us)
            return true;
        if (strcmp(m->name, c->name) == 0)
            continue;
        *peer = (struct cluster_peer){m->name, m->address};
        if (m->address[0] != '\0' && (skip == NULL || !skip(peer, arg)))
            return false;
    }
    return true;
}

bool cluster_owns(const struct cluster *c, const char *dataset, uint64_t object,
                  bool (*skip)(const struct cluster_peer *peer, void *arg), void *arg,
                  struct cluster_peer *peer)
{
    return find_owner(c, dataset, object, skip, arg, false, peer);
}

bool cluster_best_peer(const struct cluster *c, const char *dataset, uint64_t object,
                       bool (*skip)(const struct cluster_peer *peer, void *arg), void *arg,
                       struct cluster_peer *peer)
{
    return !find_owner(c, dataset, object, skip, arg, true, peer);
}

/* ---- who is away ---- */

bool cluster_owner_is_away(const struct cluster *c, const char *dataset, uint64_t object,
                           struct dlc_mono *since)
{
    const struct placed *p = placed_of(c, dataset);
    const struct owners *o = p != NULL && p->away.n > 0 ? &p->away : &c->away;
    int i = owner_of(o->nodes, o->n, object);
    const struct member *m = i < 0 ? NULL : &c->members[o->member[i]];

    if (m == NULL || !m->away || strcmp(m->name, c->name) == 0)
        return false;
    *since = m->away_since;
    return true;
}

bool cluster_has_disk(const struct cluster *c, const char *name)
{
    const struct member *m = member_named(c, name);

    return m != NULL && m->disk;
}

bool cluster_new_peer(const struct cluster *c, size_t i, struct cluster_peer *out)
{
    for (size_t k = 0; k < c->n_members; k++)
        if (c->members[k].new &&i-- == 0) {
            *out = (struct cluster_peer){c->members[k].name, c->members[k].address};
            return true;
        }
    return false;
}

/* ---- before owners changed ---- */

/* The node that would own it if none drained. NULL: there is none. */
static const struct member *draining_owner(const struct cluster *c, const char *dataset,
                                           uint64_t object)
{
    const struct placed *p = placed_of(c, dataset);
    const struct owners *o = p != NULL && p->draining.n > 0 ? &p->draining : &c->draining;
    int i = owner_of(o->nodes, o->n, object);

    return i < 0 ? NULL : &c->members[o->member[i]];
}

static const struct owners *old_owners_of(const struct old_owners *old, const char *dataset)
{
    const struct placed *p = placed_in(old->placed, old->n_placed, dataset);

    return p != NULL && p->owners.n > 0 ? &p->owners : &old->all;
}

/* The node that owned it then. NULL: there was none. */
static const char *old_owner(const struct old_owners *old, const char *dataset, uint64_t object)
{
    const struct owners *o = old_owners_of(old, dataset);
    int i = owner_of(o->nodes, o->n, object);

    return i < 0 ? NULL : old->members[o->member[i]].name;
}

/* The view with which this node joined. False: it is not known any more. */
static bool first_view(const struct cluster *c, struct old_owners *out)
{
    *out = (struct old_owners){c->members, c->n_members, c->all, c->placed, c->n_placed};
    for (unsigned k = 0; k < OLD_VIEWS && c->old[k].n_members > 0; k++)
        *out = c->old[k];
    return c->old[OLD_VIEWS - 1].n_members == 0;
}

/* The node that owned it before this one joined: it would have owned it then without this node. Who
 * joined later has nothing of it. NULL: not known. */
static const char *owner_before_us(const struct cluster *c, const char *dataset, uint64_t object)
{
    struct old_owners first;
    const struct owners *o;
    struct cluster_peer peer;
    const char *name;
    int rank[2];

    if (dlc_mono_since(c->since).ns >= JOINED_LATELY.ns || !first_view(c, &first) ||
        !find_owner(c, dataset, object, NULL, NULL, false, &peer))
        return NULL;
    name = old_owner(&first, dataset, object);
    if (name == NULL || strcmp(name, c->name) != 0)
        return name;
    o = old_owners_of(&first, dataset);
    if (owner_rank(o->nodes, o->n, object, rank, 2) < 2)
        return NULL;
    return first.members[o->member[rank[1]]].name;
}

/* The other node that owned it before, by number: the last one first. NULL: no more. */
static const char *former_owner(const struct cluster *c, const char *dataset, uint64_t object,
                                unsigned nth)
{
    const char *seen[OLD_VIEWS + 1];
    unsigned n = 0;

    for (unsigned k = 0; k <= OLD_VIEWS && n <= nth; k++) {
        const char *name = k < OLD_VIEWS ? old_owner(&c->old[k], dataset, object)
                                         : owner_before_us(c, dataset, object);
        bool again = name == NULL || strcmp(name, c->name) == 0;

        for (unsigned i = 0; i < n && !again; i++)
            again = strcmp(seen[i], name) == 0;
        if (!again)
            seen[n++] = name;
    }
    return n > nth ? seen[nth] : NULL;
}

bool cluster_peer_named(const struct cluster *c, const char *name, struct cluster_peer *out)
{
    const struct member *m = member_named(c, name);

    if (m == NULL)
        return false;
    *out = (struct cluster_peer){m->name, m->address};
    return m->answers && m->address[0] != '\0' && strcmp(name, c->name) != 0;
}

bool cluster_previous_owner(const struct cluster *c, const char *dataset, uint64_t object,
                            unsigned nth, struct cluster_peer *out)
{
    const char *name = former_owner(c, dataset, object, nth);

    return name != NULL && cluster_peer_named(c, name, out);
}

bool cluster_draining_peer(const struct cluster *c, const char *dataset, uint64_t object,
                           struct cluster_peer *out)
{
    int i = owner_of(c->leaving.nodes, c->leaving.n, object);

    (void)dataset; /* its nodes own it; others may drain and have copies from before */
    return i >= 0 && cluster_peer_named(c, c->members[c->leaving.member[i]].name, out);
}

bool cluster_gave_away(const struct cluster *c, const char *dataset, uint64_t object)
{
    const struct member *m = draining_owner(c, dataset, object);
    const char *old = old_owner(&c->old[0], dataset, object); /* copies of before may be borrowed */
    struct cluster_peer peer;

    if (cluster_owns(c, dataset, object, NULL, NULL, &peer))
        return false;
    return (m != NULL && !m->live && strcmp(m->name, c->name) == 0) ||
           (old != NULL && strcmp(old, c->name) == 0);
}

bool cluster_is_draining(const struct cluster *c)
{
    const struct member *m = member_named(c, c->name);

    return m != NULL && m->answers && !m->live;
}

bool cluster_peer_at(const struct cluster *c, size_t i, struct cluster_peer *out)
{
    for (size_t k = 0; k < c->n_members; k++) {
        const struct member *m = &c->members[k];

        if (m->address[0] == '\0' || !m->answers || strcmp(m->name, c->name) == 0)
            continue;
        if (i-- == 0) {
            *out = (struct cluster_peer){m->name, m->address};
            return true;
        }
    }
    return false;
}

double cluster_share(const struct cluster *c, const char *dataset)
{
    const struct owners *o = owners_of(c, dataset);
    double all = 0, ours = 0;

    for (size_t i = 0; i < o->n; i++) {
        all += o->nodes[i].weight;
        if (strcmp(c->members[o->member[i]].name, c->name) == 0)
            ours = o->nodes[i].weight;
    }
    return all > 0 ? ours / all : 1;
}

struct cluster_use cluster_use(const struct cluster *c, const char *dataset)
{
    const struct placed *p = placed_of(c, dataset);

    return p != NULL ? p->use : (struct cluster_use){0, -1};
}

struct cluster_job cluster_job(const struct cluster *c, const char *id, const char *dataset)
{
    const struct keepless key = {(char *)(uintptr_t)id, (char *)(uintptr_t)dataset, 0};
    const struct keepless *j =
        c->n_jobs == 0 ? NULL : bsearch(&key, c->jobs, c->n_jobs, sizeof(c->jobs[0]), job_by_id);

    return j != NULL ? (struct cluster_job){true, j->part} : (struct cluster_job){false, 0};
}

void cluster_free(struct cluster **cp)
{
    struct cluster *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    view_release(c);
    for (unsigned k = 0; k < OLD_VIEWS; k++)
        old_release(&c->old[k]);
    grants_release(c);
    mem_free(&c->name);
    mem_free(&c);
}
