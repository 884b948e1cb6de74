/* SPDX-License-Identifier: Apache-2.0
 *
 * algorithms.c - the algorithms of reductions: which are possible here, and which may be used.
 *
 * An algorithm is used only if it gives all ranks the same bits, because replicas must stay equal.
 * MPI recommends that of MPI_Allreduce but does not promise it, so each one is tried at the start.
 * Trainers measure which of the others is fastest: it depends on the network and on what else the
 * processors do.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

const char *
yki_mpi_algorithm(yoke_comm *comm, size_t index)
{
    static const char *const names[YKI_MPI_MODES] = {"auto", "blocking", "nonblocking",
                                                     "reduce-broadcast", "shared"};
    const yki_mpi *self = comm->self;

    return index < self->algorithm_count ? names[self->algorithms[index]] : NULL;
}

/* Reduces values that differ between ranks in every bit. MPI has different algorithms for different
 * sizes, so there are several. */
static yoke_status
hash_sums(yki_mpi *self, size_t algorithm, float *in, float *out, uint64_t *hash)
{
    static const size_t counts[] = {1, 257, 4099, 70001};
    uint32_t state = 2463534242u + (uint32_t)self->table.rank;
    yoke_status status = YOKE_OK;

    for (size_t i = 0; i < 70001; i++) {
        state = state * 1664525u + 1013904223u;
        in[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    *hash = 14695981039346656037u;
    for (size_t c = 0; status == YOKE_OK && c < sizeof counts / sizeof counts[0]; c++) {
        status = yki_mpi_run(self, (yki_mpi_operation){.kind = YKI_MPI_ALLREDUCE,
                                                       .type = YOKE_F32,
                                                       .in = in,
                                                       .out = out,
                                                       .count = counts[c],
                                                       .mode = self->algorithms[algorithm]});
        for (size_t i = 0; status == YOKE_OK && i < counts[c]; i++) {
            uint32_t bits;

            memcpy(&bits, out + i, sizeof bits);
            *hash = (*hash ^ bits) * 1099511628211u;
        }
    }
    return status;
}

/* Whether an algorithm gives all ranks the same bits. */
static yoke_status
try_bits(yki_mpi *self, size_t algorithm, bool *same)
{
    yoke_comm *table = &self->table;
    float *in = table->alloc(table, 70001 * sizeof *in, algorithm), *out = NULL;
    uint64_t hash, *hashes = malloc((size_t)table->ranks * sizeof hash);
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    if (in)
        out = table->alloc(table, 70001 * sizeof *out, algorithm);
    if (in && out && hashes)
        status = hash_sums(self, algorithm, in, out, &hash);
    if (status == YOKE_OK)
        status = table->allgather(table, &hash, sizeof hash, hashes);
    *same = true;
    for (int r = 0; status == YOKE_OK && r < table->ranks; r++)
        *same = *same && hashes[r] == hashes[0];
    table->release(table, in);
    table->release(table, out);
    free(hashes);
    return status;
}

/* Lists the algorithms that the settings, the thread level and the hosts allow. */
static void
list_algorithms(yki_mpi *self, yoke_mpi_mode mode)
{
    /* A blocking reduction without a worker would hold up backward. */
    if (mode == YOKE_MPI_BLOCKING || (mode == YOKE_MPI_AUTO && self->settings.threaded))
        self->algorithms[self->algorithm_count++] = YOKE_MPI_BLOCKING;
    if (mode == YOKE_MPI_NONBLOCKING || mode == YOKE_MPI_AUTO)
        self->algorithms[self->algorithm_count++] = YOKE_MPI_NONBLOCKING;
    if (mode == YOKE_MPI_REDUCE_BROADCAST)
        self->algorithms[self->algorithm_count++] = YOKE_MPI_REDUCE_BROADCAST;
    if (self->shared)
        self->algorithms[self->algorithm_count++] = YOKE_MPI_SHARED;
}

/* Keeps the algorithms that give all ranks the same bits. */
static yoke_status
keep_good_algorithms(yki_mpi *self)
{
    yoke_status status = YOKE_OK;
    size_t good = 0;

    for (size_t i = 0; i < self->algorithm_count && status == YOKE_OK; i++) {
        bool same = true;

        if (self->algorithms[i] != YOKE_MPI_REDUCE_BROADCAST)
            status = try_bits(self, i, &same);
        if (same)
            self->algorithms[good++] = self->algorithms[i];
    }
    self->algorithm_count = good;
    return status;
}

yoke_status
yki_mpi_find_algorithms(yki_mpi *self)
{
    yoke_mpi_mode mode = (yoke_mpi_mode)self->settings.mode;
    bool says = self->table.rank == 0 && self->table.ranks > 1;
    yoke_status status = YOKE_OK;

    if (self->table.ranks > 1 && (mode == YOKE_MPI_SHARED || mode == YOKE_MPI_AUTO))
        status = yki_mpi_shared_create(self);
    if (status != YOKE_OK)
        return status;
    if (mode == YOKE_MPI_SHARED && !self->shared) {
        mode = YOKE_MPI_AUTO;
        if (says)
            yoke_log_write(YOKE_LOG_WARNING, "YOKE_MPI_SHARED: no two ranks can share memory");
    }
    list_algorithms(self, mode);
    if (self->table.ranks > 1)
        status = keep_good_algorithms(self);
    if (status != YOKE_OK || self->algorithm_count > 0)
        return status;
    self->algorithms[self->algorithm_count++] = YOKE_MPI_REDUCE_BROADCAST;
    if (says)
        yoke_log_write(YOKE_LOG_WARNING, "this MPI's all-reduce gives ranks different bits: reduce "
                                         "and broadcast are used in its place");
    return YOKE_OK;
}
