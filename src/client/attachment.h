// SPDX-License-Identifier: Apache-2.0
/*
 * Internals of libdlcache. A dataset is open for as long as the caller likes; its *attachment* to a
 * daemon comes and goes below it.
 *
 *     cur == NULL --attach--> cur = attachment --daemon lost--> retired --no pins left--> unmapped
 *
 * (ATTACHMENT-1) A thread pins in the attachment that it found in `cur`, or counts itself among its
 *                `users`, then looks at `cur` again before it touches index or descriptors. A
 *                thread that retires an attachment changes `cur` first and looks at pins and users
 *                then. All seq_cst, so memory is unmapped and descriptors are closed only when no
 *                thread uses or will use them; until then the daemon, if it still lives, keeps the
 *                session and its pinned samples.
 * (ATTACHMENT-2) The session's own memory (pins, cells) and the struct stay until dlc_close(), so
 *                that a late store, or a view that is put late, is harmless; its pages are released
 *                when the attachment is unmapped.
 * (ATTACHMENT-3) After fork() the child's attachments are `foreign`: the child never writes to the
 *                parent's session and attaches for itself when it first reads. Their mappings are
 *                removed at once, or when the child has put the views that were held at the fork.
 */
#ifndef DLC_CLIENT_ATTACHMENT_H
#define DLC_CLIENT_ATTACHMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/mutex.h"
#include "ipc/shm.h"

struct catalog;

#define CELL_FREE      0 /* ours to give out */
#define CELL_WAITED    1 /* a thread waits for it */
#define CELL_UNWATCHED 2 /* free again as soon as the daemon has let go of it */

struct attachment {
    uint64_t generation;  /* unique in this process */
    struct dlc_list link; /* in dataset.retired */
    bool foreign;         /* inherited over fork */
    uint64_t inherited;   /* G: the process-wide lock: pins at the last fork; in the child: views of
                           * them that it has not put */
    bool
        unmapped; /* header, segment, index and descriptors are released; G: the process-wide lock */
    int sock, doorbell;
    int channel; /* over which the daemon tells of extents: (EXTENTS-3) */
    uint64_t snapshot;

    bool watched; /* by watch.h */
    const struct shm_segment_hdr *header;
    uint64_t header_size;
    /* The range of addresses of all extents, and what is mapped there: extents.h */
    char *segment;
    uint64_t segment_size;
    unsigned extent_shift;
    uint32_t n_extents;
    _Atomic uint32_t *mapped; /* of each extent its generation, 0: nothing; as long as the struct */
    _Atomic uint64_t drops_seen; /* W: under the process-wide lock; relaxed */
    uint32_t n_mapped;           /* extents; G: the process-wide lock */
    _Atomic int64_t map_again;   /* ns: do not map extents before; it failed. relaxed */
    const struct shm_slot *slots;
    uint64_t index_size, n;
    const void *index_map;

    struct shm_session_hdr *session; /* SHM_SESSION_SIZE bytes */
    _Atomic uint32_t *ring;
    struct shm_cell *cells;
    struct shm_pin_block *blocks;
    char *uploads; /* SHM_UPLOADS_SIZE bytes; NULL: not of a decoded cache */

    struct dlc_mtx rpc;          /* rank LCK_rpc: one question at a time over the socket */
    struct dlc_mtx mtx;          /* rank LCK_session */
    uint8_t cell_use[SHM_CELLS]; /* G: mtx */
    uint8_t upload_used[SHM_UPLOAD_SLOTS]; /* G: mtx: 1: a thread fills it */
    uint8_t block_owned[SHM_BLOCKS];       /* G: mtx: a thread claims pins there */
    uint32_t overflow;       /* G: mtx: block for threads that hold more than a block of pins */
    uint32_t tail;           /* G: mtx */
    uint64_t swaps_tail;     /* owned by the thread that reads in an order */
    struct catalog *catalog; /* until the dataset takes it */
    char *place, *place_endpoint; /* the same */
    _Atomic uint32_t users;       /* threads in their slow path; seq_cst: (ATTACHMENT-1) */
    _Atomic uint64_t hung_at;     /* the heartbeat when a wait was abandoned; 0: none. relaxed */
};

/* Kind of a view: view.priv[1] */
#define VIEW_NONE   0u
#define VIEW_HEAP   1u
#define VIEW_MAPPED 2u
/* VIEW_MAPPED: priv[0] is the length of its memory;
 * anything else: pointer to the attachment, and priv[0] to the pin */

#endif
