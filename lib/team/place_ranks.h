/* SPDX-License-Identifier: Apache-2.0
 *
 * place_ranks.h - which devices a process takes where several are on one host.
 */
#ifndef YKI_PLACE_RANKS_H
#define YKI_PLACE_RANKS_H

#include "device/device.h"

enum { YKI_RANK_DEVICES = 32, YKI_RANK_SELECTOR = YKI_RANK_DEVICES * 96 };

typedef struct yki_rank_device {
    char id[64]; /* in that process */
    char hardware[64];
    uint32_t is_cpu;
    uint32_t units; /* into how many parts it can be split */
} yki_rank_device;

/* What a process sees, as it is sent to all: fixed size, no pointers. */
typedef struct yki_rank {
    char machine[64];
    uint8_t mask[128]; /* processors it may run on, a bit each */
    uint32_t has_selector;
    uint32_t device_count;
    yki_rank_device devices[YKI_RANK_DEVICES];
} yki_rank;

/* The selector of `rank`; "": there is nothing for it. Same input, same division everywhere. */
yoke_status yki_place_rank(const yki_rank *ranks, int count, int rank, char *selector, size_t size);
/* Gathers over all processes, which all call it. "" where `given` (or $YOKE_DEVICES) is there: take
 * that. `selector` has YKI_RANK_SELECTOR bytes. */
yoke_status yki_place_ranks(yoke_context *context, yoke_comm *comm, const char *given,
                            char *selector, size_t size);

#endif
