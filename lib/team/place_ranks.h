/* SPDX-License-Identifier: Apache-2.0
 *
 * place_ranks.h - divides the devices of a host among its processes.
 */
#ifndef YKI_PLACE_RANKS_H
#define YKI_PLACE_RANKS_H

#include "device/device.h"

enum { YKI_RANK_DEVICES = 32, YKI_RANK_SELECTOR = YKI_RANK_DEVICES * 96 };

typedef struct yki_rank_device {
    char id[64]; /* its id in that process */
    char hardware[64];
    uint32_t is_cpu;
    uint32_t units; /* sub-devices or slices into which it can be split, at most */
} yki_rank_device;

/* What one process sees. It is sent to all others, so it has a fixed size and no pointers. */
typedef struct yki_rank {
    char machine[64];
    uint8_t mask[128];     /* processors it may run on, a bit each */
    uint32_t has_selector; /* the user has named its devices */
    uint32_t device_count;
    yki_rank_device devices[YKI_RANK_DEVICES];
} yki_rank;

/* Writes the selector of process `rank` of `count` ("": no device is left for it). Depends on the
 * arguments alone, so all processes compute the same division. */
yoke_status yki_place_rank(const yki_rank *ranks, int count, int rank, char *selector, size_t size);
/* Gathers what all processes see, and writes this one's selector. Writes "" if the user has named
 * the devices, by `given` (else NULL) or by YOKE_DEVICES. `selector` has room for YKI_RANK_SELECTOR
 * bytes. All processes call it; it waits for them. */
yoke_status yki_place_ranks(yoke_context *context, yoke_comm *comm, const char *given,
                            char *selector, size_t size);

#endif
