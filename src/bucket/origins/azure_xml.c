// SPDX-License-Identifier: Apache-2.0
/*
 * A page of Azure's List Blobs:
 *
 *     <EnumerationResults ...>
 *       <Blobs>
 *         <Blob><Name>key</Name><Properties><Etag>..</Etag><Content-Length>..</Content-Length>...
 *         <BlobPrefix><Name>folder/</Name></BlobPrefix>
 *       </Blobs>
 *       <NextMarker>..</NextMarker>
 *     </EnumerationResults>
 *
 * A name that XML cannot hold is sent as <Name Encoded="true">, with %XX. Directories of an account
 * with a hierarchical namespace are blobs of ResourceType directory: they are no objects.
 */
#include "bucket/origins/azure_i.h"

#include <string.h>

#include "base/str.h"
#include "bucket/origins/xml_walk_i.h"

struct page {
    bool encoded, directory; /* of the name, of the blob */
};

static void begin(struct walk *w, const char **attributes)
{
    struct page *p = w->priv;

    if (w->depth == 3)
        p->directory = false;
    if (w->depth != 4)
        return;
    p->encoded = false;
    for (size_t i = 0; attributes[i] != NULL; i += 2) {
        if (strcmp(attributes[i], "Encoded") == 0 && strcmp(attributes[i + 1], "true") == 0)
            p->encoded = true;
    }
}

static size_t keep_name(struct walk *w)
{
    const struct page *p = w->priv;
    size_t kept = walk_keep(w);

    if (p->encoded && !walk_decode(w, kept, false))
        walk_refuse(w);
    return kept;
}

static void blob_field(struct walk *w)
{
    struct page *p = w->priv;
    const char *text = buf_str(&w->text);

    if (w->depth == 3 && !p->directory)
        walk_add_entry(w);
    else if (w->depth == 4 && walk_at(w, 4, "Name"))
        w->now.key = keep_name(w);
    else if (w->depth != 5 || !walk_at(w, 4, "Properties"))
        ;
    else if (walk_at(w, 5, "Etag"))
        w->now.etag = walk_keep(w);
    else if (walk_at(w, 5, "ResourceType"))
        p->directory = strcmp(text, "directory") == 0;
    else if (walk_at(w, 5, "Content-Length") && !str_parse_u64(text, &w->now.size))
        walk_refuse(w);
}

static void field(struct walk *w)
{
    if (w->depth == 2 && walk_at(w, 2, "NextMarker") && w->text.len > 0)
        w->token = walk_keep(w);
    if (!walk_at(w, 2, "Blobs"))
        return;
    if (walk_at(w, 3, "Blob"))
        blob_field(w);
    else if (w->depth == 4 && walk_at(w, 3, "BlobPrefix") && walk_at(w, 4, "Name"))
        walk_add_folder(w, keep_name(w));
}

int azure_xml_list(const char *data, size_t len, struct attempt *a, struct dlc_err *err)
{
    struct page p = {false, false};
    struct walk w = {
        .root = "EnumerationResults", .entry_depth = 3, .field = field, .begin = begin, .priv = &p};
    int rc = 0;

    if (!walk_run(&w, data, len))
        rc = dlc_err_set(err, DLC_EPROTO, "the response is not a complete XML listing");
    else
        walk_deliver(&w, w.token != 0, a);
    walk_release(&w);
    return rc;
}
