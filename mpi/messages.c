/* SPDX-License-Identifier: Apache-2.0
 *
 * messages.c - operations made of messages between two ranks: messages themselves, reduce-scatter,
 * and all-gather of pieces.
 *
 * MPI's own non-blocking reduce-scatter may take all values through one rank. Here each rank sends
 * every other one its piece, and receives its own piece as the others have it. When all are there,
 * it adds them in the order of the ranks. So the bits depend neither on who comes when nor on where
 * pieces begin. An all-gather sends the same pieces the other way. Both send no more bytes than any
 * algorithm must, but a message for every pair of ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { PIECE = 1 }; /* tag; messages of users have a communicator of their own */

static size_t
pieces_of(const yki_mpi *self, size_t bytes)
{
    return bytes ? (bytes + self->settings.chunk - 1) / self->settings.chunk : 1;
}

/* Bytes of a rank's piece. */
static size_t
piece_size(const yki_mpi_operation *o, int rank)
{
    return (o->offsets[rank + 1] - o->offsets[rank]) * yki_mpi_type_size(o->type);
}

static size_t
piece_offset(const yki_mpi_operation *o, int rank)
{
    return o->offsets[rank] * yki_mpi_type_size(o->type);
}

size_t
yki_mpi_count_messages(const yki_mpi *self, const yki_mpi_operation *o)
{
    size_t sum = 0;

    if (!o->offsets)
        return pieces_of(self, o->count);
    for (int r = 0; r < self->table.ranks; r++)
        sum += pieces_of(self, piece_size(o, r)) + pieces_of(self, piece_size(o, self->table.rank));
    return sum;
}

/* Starts to receive bytes, or to send them, chunk by chunk. Uses requests from *n on. */
static int
move(const yki_mpi *self, yki_mpi_operation *o, bool receives, char *data, size_t bytes, int peer,
     int tag, size_t *n)
{
    size_t chunk = self->settings.chunk, at = 0;
    int code;

    do {
        int part = (int)(bytes - at < chunk ? bytes - at : chunk);

        code = receives
                   ? MPI_Irecv(data + at, part, MPI_BYTE, peer, tag, o->comm, &o->requests[*n])
                   : MPI_Isend(data + at, part, MPI_BYTE, peer, tag, o->comm, &o->requests[*n]);
        at += (size_t)part;
        ++*n;
    } while (at < bytes && code == MPI_SUCCESS);
    return code;
}

int
yki_mpi_message_start(yki_mpi *self, yki_mpi_operation *o)
{
    bool receives = o->kind == YKI_MPI_RECEIVE;
    size_t n = 0;

    return move(self, o, receives, receives ? o->out : (char *)(uintptr_t)o->in, o->count, o->peer,
                o->tag, &n);
}

/* Rank r begins with its neighbours, so that not all ranks send to one at the same time. */
int
yki_mpi_exchange_start(yki_mpi *self, yki_mpi_operation *o)
{
    int rank = self->table.rank, ranks = self->table.ranks, code = MPI_SUCCESS;
    bool sums = o->kind == YKI_MPI_REDUCE_SCATTER;
    char *in = (char *)(uintptr_t)o->in, *out = o->out;
    size_t own = piece_size(o, rank), n = 0;

    if (!sums && own)
        memmove(out + piece_offset(o, rank), in, own);
    for (int k = 1; k < ranks && code == MPI_SUCCESS; k++) {
        int from = (rank + ranks - k) % ranks;
        char *to = sums ? o->box + (size_t)from * own : out + piece_offset(o, from);

        code = move(self, o, true, to, sums ? own : piece_size(o, from), from, PIECE, &n);
    }
    for (int k = 1; k < ranks && code == MPI_SUCCESS; k++) {
        int to = (rank + k) % ranks;

        code = move(self, o, false, sums ? in + piece_offset(o, to) : in,
                    sums ? piece_size(o, to) : own, to, PIECE, &n);
    }
    return code;
}

void
yki_mpi_exchange_sum(yki_mpi *self, yki_mpi_operation *o)
{
    int rank = self->table.rank;
    size_t own = piece_size(o, rank);

    if (!own)
        return;
    memcpy(o->box + (size_t)rank * own, (const char *)o->in + piece_offset(o, rank), own);
    for (int r = 1; r < self->table.ranks; r++)
        yki_mpi_add(o->type, o->box, o->box + (size_t)r * own,
                    o->offsets[rank + 1] - o->offsets[rank]);
    memcpy(o->out, o->box, own);
}
