/* SPDX-License-Identifier: Apache-2.0
 *
 * team.h - the insides of yoke_team and yoke_array.
 */
#ifndef YKI_TEAM_H
#define YKI_TEAM_H

#include "replica/updater.h"

/* A place that the user has bound to a device. */
typedef struct yki_place_binding {
    char *name;
    size_t device; /* index among the devices of this process */
} yki_place_binding;

enum { YKI_TEAM_NAME = 96 };

struct yoke_team {
    atomic_int references;
    yoke_selection *selection;
    size_t count;    /* devices of this process */
    yoke_comm *comm; /* retained; NULL: this process alone */
    size_t first;    /* number of this process's first device in the whole team */
    size_t total;    /* devices of all processes */
    char *names;     /* of all devices, YKI_TEAM_NAME bytes each */
    bool settle;     /* not all devices promise the same arithmetic, so updates settle it */
    yki_place_binding *places;
    size_t place_count, place_capacity;
};

/* Takes a reference, which yoke_team_destroy gives back. */
yoke_team *yki_team_retain(yoke_team *team);
/* Gathers rows of `row` bytes from all processes. `rows` has room for all; device k of the whole
 * team has counts[k] of them, or one if `counts` is NULL, in the order of devices. On entry those
 * of this process's devices are filled in, afterwards all are. All processes call it. */
yoke_status yki_team_share_rows(const yoke_team *team, const int64_t *counts, uint64_t row,
                                void *rows);
/* Finds the device that a place is bound to: its index in this process. */
yoke_status yki_team_find_place(const yoke_team *team, const char *name, size_t *device);
/* Returns the comm, lent, if there are several processes, else NULL. */
yoke_comm *yki_team_comm(const yoke_team *team);
/* Tells the other processes that this one gives up, with the newest error message, so that they do
 * not wait for it. */
void yki_team_fail(const yoke_team *team);

/* ---- comm.c ---- */

/* Takes a reference, which yoke_comm_destroy gives back. NULL is fine. */
yoke_comm *yki_comm_retain(yoke_comm *comm);
/* Returns memory for the arrays of a request. All processes call it, for the same number of bytes.
 * A failure says what the memory is for. NULL for `comm`: this process alone. */
void *yki_comm_alloc(yoke_comm *comm, size_t bytes, size_t algorithm, const char *what);
void yki_comm_release(yoke_comm *comm, void *memory);

struct yoke_array {
    yki_buffer *buffer;
    yoke_type type;
    int64_t count;
    yoke_replica *replica; /* lends the buffer; NULL: the array owns it */
    bool is_weight;        /* writing it makes packed copies stale */
};

#endif
