/* SPDX-License-Identifier: Apache-2.0
 *
 * shared.c - reductions in memory that the ranks of a host share.
 *
 * Gradients are in windows of MPI_Win_allocate_shared, so no messages are sent within a host. Each
 * rank sums a range of the values over all ranks of its host, in the order of the ranks. Then it
 * copies the other ranges from those who summed them. So all ranks get the same bits, and the same
 * as a plain loop gives. With several hosts the first rank of each host gets all ranges, and it
 * alone takes part in MPI's all-reduce between the hosts.
 *
 * A reduction is a sequence of phases. A rank writes into its slot which phase it has reached, and
 * goes on when all have reached it. It polls asleep, and never waits inside a call of MPI, so a
 * lost rank is given up as anywhere else. If memory cannot be shared, nothing of this file is used.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "internal.h"

/* LINE: values of at least a cache line, which one rank alone writes. BLOCK: values that fit a
 * cache. */
enum { PAGE = 4096, LINE = 16, BLOCK = 2048 };

/* What a rank tells the ranks of its host. It has cache lines of its own. */
typedef struct slot {
    _Alignas(128) _Atomic uint64_t reached; /* phases of all reductions so far */
    _Atomic uint64_t over_hosts;            /* the first rank's: reductions between hosts so far */
    uint32_t in_area, out_area; /* arrays of the running reduction; valid from READY on */
    uint64_t in_at, out_at;
} slot;

/* A window: one segment for each rank, all of one size. With several hosts the first rank's is
 * twice as long: its second half holds the sums of the host. */
typedef struct area {
    MPI_Win window;
    char **bases; /* by rank of this host */
    size_t size;
    bool taken;
} area;

typedef struct yki_mpi_shared {
    MPI_Comm host;  /* ranks that share memory */
    MPI_Comm hosts; /* the first rank of each host; MPI_COMM_NULL on other ranks */
    int rank, ranks;
    bool several; /* there are several hosts */
    int *padding; /* by rank of this host, of the newest window */
    area *areas;  /* [0] holds the slots */
    size_t area_count;
    bool made;      /* the newest window was made; the worker may say so after a failure too */
    uint64_t calls; /* reductions begun */
} yki_mpi_shared;

/* Phases of a reduction (`phase` of the operation). All but BEGIN are announced to the others. */
enum { BEGIN, READY, SUMMED, TAKEN, PHASES };

static slot *
slot_of(const yki_mpi_shared *s, int rank)
{
    return (slot *)(void *)s->areas[0].bases[rank];
}

/* ---- memory ---- */

/* MPICH does not check whether there is room, and a process dies when it touches memory that is not
 * there. */
static bool
has_room(size_t bytes, int ranks)
{
    struct statvfs space;

    if (statvfs("/dev/shm", &space) != 0)
        return errno == ENOENT;
    return (double)space.f_bavail * (double)space.f_frsize >
           1.25 * (double)bytes * (double)(ranks + 1) + (1 << 20);
}

/* True on all ranks of all hosts if `yes` is true on all of them. */
static bool
all_agree(yki_mpi *self, bool yes)
{
    unsigned char mine = yes, *all = calloc((size_t)self->table.ranks, 1);
    bool result = all != NULL;

    if (!all || self->table.allgather(&self->table, &mine, 1, all) != YOKE_OK)
        result = false;
    for (int r = 0; result && r < self->table.ranks; r++)
        result = all[r];
    free(all);
    return result;
}

/* Fills `s->padding` with the bytes before the first whole page of each rank's segment. Open MPI
 * starts a segment anywhere, and a rank knows only its own addresses for sure. */
static int
skip_to_pages(yki_mpi_shared *s, const void *own)
{
    int mine = (int)(-(uintptr_t)own % PAGE);

    return MPI_Allgather(&mine, 1, MPI_INT, s->padding, 1, MPI_INT, s->host);
}

static int
make_window(yki_mpi_shared *s, size_t bytes, area *a)
{
    void *own = NULL;
    MPI_Info info;
    int code;

    a->bases = calloc((size_t)s->ranks, sizeof *a->bases);
    if (!a->bases)
        return MPI_ERR_NO_MEM;
    bytes += PAGE - 1;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true"); /* each segment has pages of its own */
    code = MPI_Win_allocate_shared((MPI_Aint)bytes, 1, info, s->host, &own, &a->window);
    MPI_Info_free(&info);
    if (code == MPI_SUCCESS)
        code = skip_to_pages(s, own);
    if (code != MPI_SUCCESS)
        return code;
    for (int r = 0; r < s->ranks && code == MPI_SUCCESS; r++) {
        MPI_Aint size = 0;
        int unit = 0;

        code = MPI_Win_shared_query(a->window, r, &size, &unit, &a->bases[r]);
        a->bases[r] += s->padding[r];
    }
    if (code == MPI_SUCCESS)
        code = MPI_Win_lock_all(MPI_MODE_NOCHECK, a->window);
    memset(own, 0, bytes);
    return code;
}

/* Makes a window with `o->count` bytes for each rank, and says in `made` whether that worked. */
bool
yki_mpi_shared_make(yki_mpi *self, yki_mpi_operation *o)
{
    yki_mpi_shared *s = self->shared;
    area a = {.window = MPI_WIN_NULL, .size = (o->count + PAGE - 1) / PAGE * PAGE, .taken = true};
    bool doubled = s->several && s->rank == 0;
    area *more = realloc(s->areas, (s->area_count + 1) * sizeof *more);

    if (!more) /* the others are left in the middle of it */
        return false;
    s->areas = more;
    s->made = make_window(s, (doubled ? 2 : 1) * a.size, &a) == MPI_SUCCESS;
    s->areas[s->area_count++] = a;
    return true;
}

/* Areas keep their memory until the end, and are used again. This takes the smallest that fits. */
static area *
find_free(yki_mpi_shared *s, size_t bytes)
{
    area *best = NULL;

    for (size_t i = 1; i < s->area_count; i++) {
        area *a = &s->areas[i];

        if (!a->taken && a->size >= bytes && (!best || a->size < best->size))
            best = a;
    }
    return best;
}

void *
yki_mpi_shared_take(yki_mpi *self, size_t bytes)
{
    yki_mpi_shared *s = self->shared;
    area *a = s ? find_free(s, bytes) : NULL;

    if (!s)
        return NULL;
    if (a) {
        a->taken = true;
        return a->bases[s->rank];
    }
    if (!all_agree(self, has_room(bytes, s->ranks)))
        return NULL;
    if (yki_mpi_run(self, (yki_mpi_operation){.kind = YKI_MPI_SHARE, .count = bytes}) != YOKE_OK)
        return NULL;
    if (!all_agree(self, s->made))
        return NULL;
    return s->areas[s->area_count - 1].bases[s->rank];
}

bool
yki_mpi_shared_give(yki_mpi *self, void *memory)
{
    yki_mpi_shared *s = self->shared;

    for (size_t i = 1; s && i < s->area_count; i++)
        if (s->areas[i].bases && s->areas[i].bases[s->rank] == memory) {
            s->areas[i].taken = false;
            return true;
        }
    return false;
}

/* Finds the area that holds these values, and where in it they begin. */
static bool
locate(const yki_mpi_shared *s, const void *values, size_t bytes, uint32_t *index, uint64_t *at)
{
    const char *begin = values;

    for (size_t i = 1; i < s->area_count; i++) {
        const area *a = &s->areas[i];
        const char *base = a->bases ? a->bases[s->rank] : NULL;

        if (!base || begin < base || begin + bytes > base + a->size)
            continue;
        *index = (uint32_t)i;
        *at = (uint64_t)(begin - base);
        return true;
    }
    return false;
}

bool
yki_mpi_shared_holds(yki_mpi *self, const yki_mpi_operation *o)
{
    size_t bytes = o->count * yki_mpi_type_size(o->type);
    uint32_t index;
    uint64_t at;

    return self->shared && locate(self->shared, o->in, bytes, &index, &at) &&
           locate(self->shared, o->out, bytes, &index, &at);
}

/* ---- sums ---- */

static const char *
in_of(const yki_mpi_shared *s, int rank)
{
    const slot *told = slot_of(s, rank);

    return s->areas[told->in_area].bases[rank] + told->in_at;
}

static char *
out_of(const yki_mpi_shared *s, int rank)
{
    const slot *told = slot_of(s, rank);

    return s->areas[told->out_area].bases[rank] + told->out_at;
}

/* Where the sums of this host are collected: in the second half of the first rank's segment. */
static char *
gathered(const yki_mpi_shared *s)
{
    return out_of(s, 0) + s->areas[slot_of(s, 0)->out_area].size;
}

/* The range of values that a rank of this host sums. */
static void
part_of(const yki_mpi_shared *s, int rank, size_t count, size_t *begin, size_t *end)
{
    size_t ranks = (size_t)s->ranks, lines = (count + LINE - 1) / LINE;

    *begin = lines * (size_t)rank / ranks * LINE;
    *end = lines * ((size_t)rank + 1) / ranks * LINE;
    *begin = *begin < count ? *begin : count;
    *end = *end < count ? *end : count;
}

static void
sum_part(const yki_mpi_shared *s, const yki_mpi_operation *o)
{
    char *to = s->several ? gathered(s) : out_of(s, s->rank);
    size_t size = yki_mpi_type_size(o->type), begin, end;

    part_of(s, s->rank, o->count, &begin, &end);
    for (size_t at = begin; at < end; at += BLOCK) {
        size_t n = end - at < BLOCK ? end - at : BLOCK;

        memcpy(to + at * size, in_of(s, 0) + at * size, n * size);
        for (int r = 1; r < s->ranks; r++)
            yki_mpi_add(o->type, to + at * size, in_of(s, r) + at * size, n);
    }
}

/* Copies what other ranks have summed; with several hosts, everything from the first rank. */
static void
take_parts(const yki_mpi_shared *s, const yki_mpi_operation *o)
{
    size_t size = yki_mpi_type_size(o->type);
    char *to = out_of(s, s->rank);

    for (int r = 0; r < s->ranks; r++) {
        size_t begin = 0, end = o->count;

        if (s->several && r > 0)
            return;
        if (r == s->rank)
            continue;
        if (!s->several)
            part_of(s, r, o->count, &begin, &end);
        memcpy(to + begin * size, out_of(s, r) + begin * size, (end - begin) * size);
    }
}

/* ---- phases ---- */

static void
reach(yki_mpi_shared *s, unsigned phase)
{
    atomic_store_explicit(&slot_of(s, s->rank)->reached, (s->calls - 1) * PHASES + phase,
                          memory_order_release);
}

static bool
all_reached(const yki_mpi_shared *s, unsigned phase)
{
    for (int r = 0; r < s->ranks; r++)
        if (atomic_load_explicit(&slot_of(s, r)->reached, memory_order_acquire) <
            (s->calls - 1) * PHASES + phase)
            return false;
    return true;
}

static void
begin(yki_mpi_shared *s, const yki_mpi_operation *o)
{
    size_t bytes = o->count * yki_mpi_type_size(o->type);
    slot *mine = slot_of(s, s->rank);

    s->calls++;
    locate(s, o->in, bytes, &mine->in_area, &mine->in_at);
    locate(s, o->out, bytes, &mine->out_area, &mine->out_at);
    reach(s, READY);
}

/* Runs on the first rank when its host is summed: reduces between the hosts. True: it is done. */
static bool
reduce_over_hosts(yki_mpi *self, yki_mpi_operation *o, int *code)
{
    yki_mpi_shared *s = self->shared;
    int done = 0;

    if (self->settings.threaded && self->threaded) {
        o->comm = s->hosts;
        return yki_mpi_reduce(self, o, YOKE_MPI_BLOCKING, gathered(s), out_of(s, 0));
    }
    if (o->comm != s->hosts) {
        o->comm = s->hosts;
        *code = yki_mpi_reduce_start(self, o, gathered(s), out_of(s, 0));
    }
    if (*code == MPI_SUCCESS)
        *code = yki_mpi_reduce_test(o, &done);
    return *code == MPI_SUCCESS && done;
}

/* True: this rank may copy what others have summed. */
static bool
may_take(yki_mpi *self, yki_mpi_operation *o, int *code)
{
    yki_mpi_shared *s = self->shared;

    if (!s->several)
        return all_reached(s, SUMMED);
    if (s->rank > 0)
        return atomic_load_explicit(&slot_of(s, 0)->over_hosts, memory_order_acquire) >= s->calls;
    if (!all_reached(s, SUMMED) || !reduce_over_hosts(self, o, code))
        return false;
    atomic_store_explicit(&slot_of(s, 0)->over_hosts, s->calls, memory_order_release);
    return true;
}

bool
yki_mpi_shared_advance(yki_mpi *self, yki_mpi_operation *o, bool *done)
{
    yki_mpi_shared *s = self->shared;
    unsigned before = o->phase;
    int code = MPI_SUCCESS;

    if (o->phase == BEGIN) {
        begin(s, o);
        o->phase = READY;
    }
    if (o->phase == READY && all_reached(s, READY)) {
        sum_part(s, o);
        reach(s, SUMMED);
        o->phase = SUMMED;
    }
    if (o->phase == SUMMED && may_take(self, o, &code)) {
        take_parts(s, o);
        reach(s, TAKEN);
        o->phase = TAKEN;
    }
    /* Until all have reached TAKEN, others still read this rank's values. */
    *done = o->phase == TAKEN && all_reached(s, TAKEN);
    if (code != MPI_SUCCESS)
        yki_mpi_fail_with(self, code, "a reduction over hosts");
    return o->phase != before || *done;
}

/* ---- making and unmaking ---- */

static bool
is_unified(MPI_Win window)
{
    int *model = NULL, found = 0;

    MPI_Win_get_attr(window, MPI_WIN_MODEL, (void *)&model, &found);
    return found && *model == MPI_WIN_UNIFIED;
}

/* Asks MPI which ranks share memory. */
static int
split(yki_mpi *self, yki_mpi_shared *s)
{
    int code = MPI_Comm_split_type(self->data, MPI_COMM_TYPE_SHARED, self->table.rank,
                                   MPI_INFO_NULL, &s->host);

    if (code != MPI_SUCCESS)
        return code;
    MPI_Comm_set_errhandler(s->host, MPI_ERRORS_RETURN);
    MPI_Comm_rank(s->host, &s->rank);
    MPI_Comm_size(s->host, &s->ranks);
    code =
        MPI_Comm_split(self->data, s->rank == 0 ? 0 : MPI_UNDEFINED, self->table.rank, &s->hosts);
    if (code == MPI_SUCCESS && s->hosts != MPI_COMM_NULL)
        MPI_Comm_set_errhandler(s->hosts, MPI_ERRORS_RETURN);
    return code;
}

/* Finds how many ranks share memory at most, and whether there are several hosts. */
static yoke_status
count_hosts(yki_mpi *self, yki_mpi_shared *s, int *most)
{
    int *all = calloc((size_t)self->table.ranks, sizeof *all);
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    if (all)
        status = self->table.allgather(&self->table, &s->ranks, sizeof s->ranks, all);
    *most = 0;
    for (int r = 0; status == YOKE_OK && r < self->table.ranks; r++)
        *most = all[r] > *most ? all[r] : *most;
    s->several = s->ranks < self->table.ranks;
    free(all);
    return status;
}

yoke_status
yki_mpi_shared_create(yki_mpi *self)
{
    yki_mpi_shared *s = calloc(1, sizeof *s);
    yoke_status status = s ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    int code, most = 0;
    bool good;

    if (status == YOKE_OK)
        status = self->table.barrier(
            &self->table); /* so that nobody waits long in the following calls */
    if (status != YOKE_OK)
        return status;
    s->host = s->hosts = MPI_COMM_NULL;
    self->shared = s;
    code = split(self, s);
    if (code != MPI_SUCCESS)
        return yki_mpi_error(code, "MPI_Comm_split");
    status = count_hosts(self, s, &most);
    if (status != YOKE_OK)
        return status;
    s->areas = calloc(1, sizeof *s->areas);
    s->padding = calloc((size_t)s->ranks, sizeof *s->padding);
    good = s->areas && s->padding && most > 1 && has_room(PAGE, s->ranks);
    if (most > 1 && all_agree(self, good)) {
        s->area_count = 1;
        s->areas[0] = (area){.size = PAGE, .taken = true, .window = MPI_WIN_NULL};
        good = make_window(s, PAGE, &s->areas[0]) == MPI_SUCCESS && is_unified(s->areas[0].window);
    }
    /* The agreement is also a barrier, so slots are zeros before anybody reads them. If it fails,
     * some ranks may lack the window; freeing it needs all ranks, so it stays. */
    if (most < 2)
        yki_mpi_shared_destroy(self);
    else if (!all_agree(self, good))
        self->shared = NULL;
    return atomic_load(&self->failure.set) ? yki_mpi_failure(self) : YOKE_OK;
}

void
yki_mpi_shared_destroy(yki_mpi *self)
{
    yki_mpi_shared *s = self->shared;

    if (!s)
        return;
    for (size_t i = s->area_count; i-- > 0;) {
        area *a = &s->areas[i];

        if (a->window != MPI_WIN_NULL) {
            MPI_Win_unlock_all(a->window);
            MPI_Win_free(&a->window);
        }
        free(a->bases);
    }
    if (s->hosts != MPI_COMM_NULL)
        MPI_Comm_free(&s->hosts);
    if (s->host != MPI_COMM_NULL)
        MPI_Comm_free(&s->host);
    free(s->padding);
    free(s->areas);
    free(s);
    self->shared = NULL;
}
