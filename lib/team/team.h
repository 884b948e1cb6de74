/* SPDX-License-Identifier: Apache-2.0
 *
 * team.h - inside a team and an array.
 */
#ifndef YKI_TEAM_H
#define YKI_TEAM_H

#include "replica/updater.h"

typedef struct yki_place {
    char *name;
    size_t device; /* number in the team */
} yki_place;

enum { YKI_TEAM_NAME = 96 };

struct yoke_team {
    atomic_int references;
    yoke_selection *selection;
    size_t count;    /* devices of this process */
    yoke_comm *comm; /* lent; NULL: this process alone */
    size_t first;    /* number of its first device among all */
    size_t total;
    char *names; /* YKI_TEAM_NAME bytes for each of all */
    yki_place *places;
    size_t place_count, place_capacity;
};

yoke_team *yki_team_retain(yoke_team *team);
/* `rows` holds those of this process's devices in their places, of counts[] by device of the whole
 * team; afterwards those of all processes. `row`: bytes. */
yoke_status yki_team_share_rows(const yoke_team *team, const int64_t *counts, uint64_t row,
                                void *rows);
/* The number of the device that a place is bound to. */
yoke_status yki_team_find_place(const yoke_team *team, const char *name, size_t *device);
/* The comm if there are several processes, else NULL. */
yoke_comm *yki_team_comm(const yoke_team *team);
/* This process gives up, with the newest detail: no other one waits for it. */
void yki_team_fail(const yoke_team *team);

struct yoke_array {
    yki_buffer *buffer;
    yoke_type type;
    int64_t count;
    yoke_replica *replica; /* that lends it, or NULL: the buffer is its own */
    bool is_weight;        /* writing makes packed copies stale */
};

#endif
