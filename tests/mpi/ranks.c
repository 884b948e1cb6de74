/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks.c - one rank of the tests of libyoke-mpi; the scripts start several by mpirun.
 *
 *   ranks LEVEL COMMAND [ARGUMENT...] [COMMAND...]
 *
 * LEVEL is multiple, serialized, funneled or single. Commands are in the table at the end; several
 * run one after the other, as most take less time than a start. What is wrong is printed and ends
 * the program with MPI_Abort, as an application would do it; "rank R: COMMAND ok", of the first
 * one, says that all is well.
 */
#include <math.h>
#include <pthread.h>

#include <yoke-mpi.h>

#include "strike.h"

static yoke_comm *comm;
static int rank, ranks;
static size_t algorithm; /* of the reductions that follow */

static void
give_up(const char *what)
{
    fprintf(stderr, "ranks: rank %d: %s\n", rank, what);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            give_up("not so: " #condition);                                                        \
    } while (0)

/* A failure of the communication is told in the library's words, and nothing else. */
static void
check(yoke_status status)
{
    if (status != YOKE_OK) {
        notice("ranks", yoke_status_string(status), yoke_last_error());
        yoke_comm_destroy(comm);
        rest(0.1); /* launchers lose what was written just before */
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static void
print_line(void *user, yoke_log_level level, const char *line)
{
    (void)user;
    fprintf(stderr, "log %d: %s\n", (int)level, line);
}

static double
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *
take(size_t size)
{
    void *memory = comm->alloc(comm, size, algorithm);

    CHECK(memory != NULL);
    CHECK((uintptr_t)memory % 4096 == 0);
    return memory;
}

/* Same bits on all: every rank has the hash of every other. */
static void
check_same(const void *data, size_t size)
{
    unsigned long long hash = 14695981039346656037ull, *all = malloc(sizeof hash * (size_t)ranks);

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211ull;
    check(comm->allgather(comm, &hash, sizeof hash, all));
    for (int r = 0; r < ranks; r++)
        CHECK(all[r] == hash);
    free(all);
}

/* Value i of rank r: sums are exact where there is no fraction. */
static float
value(int r, size_t i, float fraction)
{
    return (float)((i * 7 + (size_t)r * 13) % 101) + fraction * (float)(r + 1);
}

static void
use_algorithm(const char *name)
{
    for (algorithm = 0; comm->algorithm(comm, algorithm); algorithm++)
        if (strcmp(comm->algorithm(comm, algorithm), name) == 0)
            return;
    give_up("there is no such algorithm");
}

static void
reduce(size_t count, float fraction)
{
    float *in = take(count * sizeof *in), *out = take(count * sizeof *out);
    bool done = false;
    void *request;

    for (size_t i = 0; i < count; i++)
        in[i] = value(rank, i, fraction);
    check(comm->allreduce_start(comm, YOKE_F32, in, out, count, algorithm, &request));
    while (!done)
        check(comm->test(comm, &request, count % 2 == 0, &done));
    CHECK(request == NULL);
    for (size_t i = 0; i < count; i++) {
        double sum = 0;

        for (int r = 0; r < ranks; r++)
            sum += (double)value(r, i, fraction);
        CHECK(fabs(sum - (double)out[i]) <= (fraction == 0 ? 0 : 1e-5 * sum));
    }
    check_same(out, count * sizeof *out);
    comm->release(comm, in);
    comm->release(comm, out);
}

static void
run_table(char **arguments)
{
    static const size_t counts[] = {0, 1, 2, 3, 1000, 4099, 30001, 300007};
    size_t most = strtoul(arguments[0], NULL, 10);

    CHECK(comm->rank == rank && comm->ranks == ranks);
    CHECK(comm->local_ranks == ranks && comm->local_rank == rank && comm->host[0]);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && counts[i] <= most; i++) {
        reduce(counts[i], 0);
        reduce(counts[i], 0.3f);
    }
    for (int root = 0; root < ranks; root++) {
        char text[100000];
        int *all = malloc((size_t)ranks * 3 * sizeof *all), mine[3] = {rank, root, -rank};

        memset(text, rank == root ? 'a' + root : 0, sizeof text);
        check(comm->broadcast(comm, text, sizeof text, root));
        CHECK(text[0] == 'a' + root && text[sizeof text - 1] == 'a' + root);
        check(comm->allgather(comm, mine, sizeof mine, all));
        for (int r = 0; r < ranks; r++)
            CHECK(all[3 * r] == r && all[3 * r + 1] == root && all[3 * r + 2] == -r);
        check(comm->barrier(comm));
        free(all);
    }
    CHECK(comm->broadcast(comm, &rank, 0, ranks) == YOKE_ERROR_INVALID_ARGUMENT);
    CHECK(comm->broadcast(comm, &rank, 0, -1) == YOKE_ERROR_INVALID_ARGUMENT);
}

/* Eight reductions under way, other calls between, finished in another order. */
static void
run_many(char **arguments)
{
    enum { MANY = 8, COUNT = 30000 };
    float *in = take(MANY * COUNT * sizeof *in), *out = take(MANY * COUNT * sizeof *out);
    void *requests[MANY];
    int word = rank;

    (void)arguments;
    for (size_t i = 0; i < MANY * COUNT; i++)
        in[i] = value(rank, i, 0);
    for (int k = 0; k < MANY; k++) {
        check(comm->allreduce_start(comm, YOKE_F32, in + k * COUNT, out + k * COUNT, COUNT,
                                    algorithm, &requests[k]));
        if (k == 3)
            check(comm->broadcast(comm, &word, sizeof word, ranks - 1));
    }
    CHECK(word == ranks - 1);
    for (int k = MANY - 1; k >= 0; k--) {
        bool done = false;

        check(comm->test(comm, &requests[k], true, &done));
        CHECK(done && requests[k] == NULL);
    }
    for (size_t i = 0; i < MANY * COUNT; i++) {
        float sum = 0;

        for (int r = 0; r < ranks; r++)
            sum += value(r, i, 0);
        CHECK(out[i] == sum);
    }
    comm->release(comm, in);
    comm->release(comm, out);
}

/* In shared memory: a sum in the order of ranks has the same bits. Arrays begin anywhere in larger
 * ones, at another place on each rank; three reductions are under way, with waits of ranks between,
 * and other calls. */
static void
run_shared(char **arguments)
{
    static const size_t counts[] = {1, 15, 16, 17, 1000, 2048, 4099, 30001, 300007};
    enum { MOST = 300100, UNDER_WAY = 3 };
    float *in[UNDER_WAY], *out[UNDER_WAY], *mine;
    bool done = false;
    void *requests[UNDER_WAY];

    (void)arguments;
    use_algorithm("shared");
    for (int k = 0; k < UNDER_WAY; k++) {
        in[k] = take(MOST * sizeof(float));
        out[k] = take(MOST * sizeof(float));
    }
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        size_t n = counts[c], shift = (size_t)rank * 3;
        int word = rank;

        for (int k = 0; k < UNDER_WAY; k++) {
            for (size_t i = 0; i < n; i++)
                in[k][shift + i] = value(rank, i + (size_t)k, 0.3f);
            if (c == 4 && rank == k % ranks)
                rest(0.02);
            check(comm->allreduce_start(comm, YOKE_F32, in[k] + shift, out[k] + shift, n, algorithm,
                                        &requests[k]));
        }
        check(comm->broadcast(comm, &word, sizeof word, (int)c % ranks));
        for (int k = UNDER_WAY - 1; k >= 0; k--) {
            done = false;
            check(comm->test(comm, &requests[k], true, &done));
            CHECK(done && word == (int)c % ranks);
            for (size_t i = 0; i < n; i++) {
                float sum = value(0, i + (size_t)k, 0.3f);

                for (int r = 1; r < ranks; r++)
                    sum += value(r, i + (size_t)k, 0.3f);
                CHECK(memcmp(&sum, &out[k][shift + i], sizeof sum) == 0);
            }
        }
    }
    /* Memory that is given back is taken again, and other memory is reduced all the same. */
    comm->release(comm, in[1]);
    CHECK(take(MOST * sizeof(float)) == (void *)in[1]);
    for (int k = 0; k < UNDER_WAY; k++) {
        comm->release(comm, in[k]);
        comm->release(comm, out[k]);
    }
    mine = calloc(2000, sizeof *mine);
    for (size_t i = 0; i < 1000; i++)
        mine[i] = value(rank, i, 0);
    check(comm->allreduce_start(comm, YOKE_F32, mine, mine + 1000, 1000, algorithm, &requests[0]));
    check(comm->test(comm, &requests[0], true, &done));
    check_same(mine + 1000, 1000 * sizeof *mine);
    free(mine);
}

static void
finish(void **request)
{
    bool done = false;

    check(comm->test(comm, request, true, &done));
    CHECK(done && *request == NULL);
}

/* A value of a rank, whose sum over all needs 64 bits if the type has them. */
static int64_t
typed_value(int32_t type, int64_t i)
{
    return type == YOKE_I16 ? -(i % 200) : type == YOKE_I32 ? -(i + 16) : i + ((int64_t)1 << 40);
}

static void
put_typed(int32_t type, char *to, int64_t i, int64_t value)
{
    if (type == YOKE_F64)
        ((double *)(void *)to)[i] = (double)value;
    else if (type == YOKE_I64)
        ((int64_t *)(void *)to)[i] = value;
    else if (type == YOKE_I32)
        ((int32_t *)(void *)to)[i] = (int32_t)value;
    else
        ((int16_t *)(void *)to)[i] = (int16_t)value;
}

static double
get_typed(int32_t type, char *from, int64_t i)
{
    return type == YOKE_F64   ? ((double *)(void *)from)[i]
           : type == YOKE_I64 ? (double)((int64_t *)(void *)from)[i]
           : type == YOKE_I32 ? ((int32_t *)(void *)from)[i]
                              : ((int16_t *)(void *)from)[i];
}

/* Each type by each algorithm. */
static void
run_types(char **arguments)
{
    static const int32_t types[] = {YOKE_F64, YOKE_I64, YOKE_I32, YOKE_I16};
    enum { COUNT = 5000 };
    void *request = NULL;

    (void)arguments;
    for (algorithm = 0; comm->algorithm(comm, algorithm); algorithm++) {
        char *in = take(COUNT * 8), *out = take(COUNT * 8);

        for (int t = 0; t < 4; t++) {
            const int64_t ones = (int64_t)ranks * (ranks + 1) / 2;

            for (int64_t i = 0; i < COUNT; i++)
                put_typed(types[t], in, i, (1 + rank) * typed_value(types[t], i));
            check(comm->allreduce_start(comm, types[t], in, out, COUNT, algorithm, &request));
            finish(&request);
            for (int64_t i = 0; i < COUNT; i++)
                CHECK(get_typed(types[t], out, i) == (double)(ones * typed_value(types[t], i)));
        }
        CHECK(comm->allreduce_start(comm, YOKE_U8, in, out, 1, algorithm, &request) ==
              YOKE_ERROR_UNSUPPORTED);
        CHECK(strstr(yoke_last_error(), "libyoke-mpi sums f32, f64, i16, i32 and i64, not u8"));
        CHECK(comm->allreduce_start(comm, YOKE_BF16, in, out, 1, algorithm, &request) ==
              YOKE_ERROR_UNSUPPORTED);
        CHECK(comm->allreduce_start(comm, 8, in, out, 1, algorithm, &request) ==
              YOKE_ERROR_UNSUPPORTED);
        CHECK(comm->allreduce_start(comm, -1, in, out, 1, algorithm, &request) ==
              YOKE_ERROR_UNSUPPORTED);
        CHECK(strstr(yoke_last_error(), "does not know type -1"));
        comm->release(comm, in);
        comm->release(comm, out);
    }
    CHECK(comm->allreduce_start(comm, YOKE_F32, &rank, &ranks, 1, algorithm, &request) ==
          YOKE_ERROR_INVALID_ARGUMENT);
    algorithm = 0;
    reduce(1000, 0); /* nothing has failed */
}

/* Pieces of all sizes, one of them empty: in each round another. */
static size_t
divide(size_t *counts, size_t round)
{
    size_t sum = 0;

    for (int r = 0; r < ranks; r++) {
        counts[r] = round % 2 ? 3001 : ((size_t)r + round) % 3 * 2500;
        sum += counts[r];
    }
    return sum;
}

/* Several reduce-scatters and all-gathers are under way, with a reduction and a broadcast between,
 * and ranks that come late. Sums have the bits of a sum in the order of ranks. */
static void
run_pieces(char **arguments)
{
    enum { MOST = 40000, MANY = 3, ROUNDS = 6 };
    size_t counts[64], total, before, own;
    float *in[MANY], *out[MANY], *all[MANY], *some = take(2 * MOST * sizeof *some);
    uint16_t *halves = take(2 * MOST * sizeof *halves);
    void *requests[MANY], *other, *request = NULL;

    (void)arguments;
    for (int k = 0; k < MANY; k++) {
        in[k] = take(MOST * sizeof(float));
        out[k] = take(MOST * sizeof(float));
        all[k] = take(MOST * sizeof(float));
    }
    for (size_t round = 0; round < ROUNDS; round++) {
        int word = rank;

        total = divide(counts, round);
        own = counts[rank];
        before = 0;
        for (int r = 0; r < rank; r++)
            before += counts[r];
        for (int k = 0; k < MANY; k++)
            for (size_t i = 0; i < total; i++)
                in[k][i] = value(rank, i + (size_t)k, 0.3f);
        memset(some, 0, MOST * sizeof *some);
        for (int k = 0; k < MANY; k++) {
            if (rank == (int)(round + (size_t)k) % ranks)
                rest(0.01);
            /* the last one in its own place */
            check(comm->reduce_scatter_start(comm, YOKE_F32, in[k],
                                             k == MANY - 1 ? in[k] + before : out[k], counts,
                                             &requests[k]));
            if (k == 1)
                check(comm->allreduce_start(comm, YOKE_F32, some, some + MOST, MOST, 0, &other));
        }
        check(comm->broadcast(comm, &word, sizeof word, 0));
        CHECK(word == 0);
        for (int k = MANY - 1; k >= 0; k--)
            finish(&requests[k]);
        finish(&other);
        memcpy(out[MANY - 1], in[MANY - 1] + before, own * sizeof(float));
        for (int k = 0; k < MANY; k++) {
            for (size_t i = 0; i < own; i++) {
                float sum = value(0, before + i + (size_t)k, 0.3f);

                for (int r = 1; r < ranks; r++)
                    sum += value(r, before + i + (size_t)k, 0.3f);
                CHECK(memcmp(&sum, &out[k][i], sizeof sum) == 0);
            }
            memcpy(all[k] + before, out[k], own * sizeof(float));
            check(comm->allgather_start(comm, YOKE_F32, k ? out[k] : all[k] + before, all[k],
                                        counts, &requests[k]));
        }
        for (int k = 0; k < MANY; k++) {
            finish(&requests[k]);
            check_same(all[k], total * sizeof(float));
            CHECK(own == 0 || memcmp(all[k] + before, out[k], own * sizeof(float)) == 0);
        }
        /* What is not summed is of any type. */
        for (size_t i = 0; i < own; i++)
            halves[i] = (uint16_t)(before + i);
        check(comm->allgather_start(comm, YOKE_F16, halves, halves + MOST, counts, &request));
        finish(&request);
        for (size_t i = 0; i < total; i++)
            CHECK(halves[MOST + i] == (uint16_t)i);
    }
    CHECK(comm->reduce_scatter_start(comm, YOKE_F16, halves, halves + MOST, counts, &request) ==
          YOKE_ERROR_UNSUPPORTED);
    CHECK(comm->allgather_start(comm, 99, halves, halves + MOST, counts, &request) ==
          YOKE_ERROR_UNSUPPORTED);
}

/* Messages to all others and from all others, small and large ones, while a reduction waits for the
 * slowest rank; those of one tag keep their order, and one of another tag overtakes them. */
static void
run_messages(char **arguments)
{
    enum { LARGE = 3000001, LAST = 32767 };
    size_t most = (size_t)ranks * LARGE;
    char *from = take(most), *to = take(most);
    int32_t numbers[2][64], mine[2] = {10 * rank, 10 * rank + 1};
    void *sent[64][3], *received[64][3], *reduction, *request = NULL;
    float *in = take(4096), *out = take(4096);
    bool done = false;

    (void)arguments;
    memset(in, 0, 4096);
    memset(from, 'a' + rank, LARGE);
    check(comm->allreduce_start(comm, YOKE_F32, in, out, 1024, 0, &reduction));
    if (rank == ranks - 1)
        rest(0.1);
    for (int r = 0; r < ranks; r++) {
        if (r == rank)
            continue;
        check(comm->receive_start(comm, to + (size_t)r * LARGE, LARGE, r, LAST, &received[r][2]));
        for (int i = 0; i < 2; i++)
            check(comm->receive_start(comm, &numbers[i][r], 4, r, 5, &received[r][i]));
        for (int i = 0; i < 2; i++)
            check(comm->send_start(comm, &mine[i], 4, r, 5, &sent[r][i]));
        check(comm->send_start(comm, from, LARGE, r, LAST, &sent[r][2]));
    }
    for (int r = ranks - 1; r >= 0; r--)
        for (int i = 0; i < 3 && r != rank; i++) {
            do
                check(comm->test(comm, &received[r][i], i == 0, &done));
            while (!done);
            CHECK(received[r][i] == NULL);
            finish(&sent[r][i]);
        }
    for (int r = 0; r < ranks; r++) {
        if (r == rank)
            continue;
        CHECK(numbers[0][r] == 10 * r && numbers[1][r] == 10 * r + 1);
        CHECK(to[(size_t)r * LARGE] == 'a' + r && to[((size_t)r + 1) * LARGE - 1] == 'a' + r);
    }
    finish(&reduction);
    CHECK(comm->send_start(comm, from, 1, rank, 0, &request) == YOKE_ERROR_INVALID_ARGUMENT);
    CHECK(comm->send_start(comm, from, 1, ranks, 0, &request) == YOKE_ERROR_INVALID_ARGUMENT);
    CHECK(comm->receive_start(comm, to, 1, -1, 0, &request) == YOKE_ERROR_INVALID_ARGUMENT);
    CHECK(comm->receive_start(comm, to, 1, (rank + 1) % ranks, 32768, &request) ==
          YOKE_ERROR_INVALID_ARGUMENT);
    check(comm->barrier(comm));
}

/* Rank 1 expects one byte more than rank 0 sends. */
static void
run_unequal(char **arguments)
{
    char data[9] = "";
    void *request;
    bool done = false;
    yoke_status status;

    (void)arguments;
    CHECK(ranks == 2);
    if (rank == 0)
        check(comm->send_start(comm, data, 8, 1, 3, &request));
    else
        check(comm->receive_start(comm, data, 9, 0, 3, &request));
    do
        status = comm->test(comm, &request, true, &done);
    while (status == YOKE_OK && !done);
    if (rank == 0 && status == YOKE_OK)
        status = comm->barrier(comm);
    CHECK(status == YOKE_ERROR_COMM);
    CHECK(strstr(yoke_last_error(), "rank 1") &&
          strstr(yoke_last_error(), "does not have the bytes that its receiver expects"));
}

/* Rank 0 gives up while rank 1 waits for a broadcast or a gather, of which rank 2 hears too late:
 * it sends all the same. Rank 1 may use its memory for something else by then. */
static void
run_late(char **arguments)
{
    bool gathers = strcmp(arguments[0], "gather") == 0;
    enum { SIZE = 2000 };
    char data[SIZE], all[3 * SIZE];
    double end;

    CHECK(ranks == 3);
    memset(data, 'a' + rank, sizeof data);
    memset(all, 'x', sizeof all);
    if (rank == 0) {
        rest(0.3);
        comm->fail(comm, "gave up");
    } else {
        if (rank == 2)
            rest(1.5);
        CHECK((gathers ? comm->allgather(comm, data, sizeof data, all)
                       : comm->broadcast(comm, data, sizeof data, 2)) == YOKE_ERROR_COMM);
    }
    memset(data, 'y', sizeof data);
    memset(all, 'y', sizeof all);
    for (end = now() + 3; now() < end;) {
        MPI_Status status;
        int come;

        MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &come, &status);
        rest(0.001);
    }
    for (size_t i = 0; i < sizeof all; i++)
        CHECK(all[i] == 'y' && data[i % sizeof data] == 'y');
    printf("rank %d: late ok\n", rank);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    rest(0.2);
    MPI_Abort(MPI_COMM_WORLD, 0);
}

/* STEPS of a reduction each, with rests of ranks between. */
static void
run_steps(char **arguments)
{
    long steps = strtol(arguments[0], NULL, 10);
    float *in = take(4096), *out = take(4096);
    bool done;
    void *request;

    memset(in, 0, 4096);
    for (long s = 0; s < steps; s++) {
        comm->heartbeat(comm, s, "forward");
        check(comm->allreduce_start(comm, YOKE_F32, in, out, 1024, algorithm, &request));
        check(comm->test(comm, &request, true, &done));
    }
    comm->release(comm, in);
    comm->release(comm, out);
}

/* SECONDS during which rank 1 works, and says so. */
static void
run_slow(char **arguments)
{
    double end = now() + strtod(arguments[0], NULL);

    for (int64_t i = 0; rank == 1 && now() < end; i++) {
        comm->heartbeat(comm, i, "compile");
        rest(0.05);
    }
    check(comm->barrier(comm));
}

/* The disaster: WHO does WHAT, WHERE. */
static void
suffer(const char *what)
{
    strike(what);
    if (strcmp(what, "fail") == 0) {
        comm->fail(comm, "cpu:0: the device caught fire");
        yoke_fail(YOKE_ERROR_DEVICE, "the device caught fire");
        /* what the trainer does next */
        yoke_comm_destroy(comm);
        comm = NULL;
        await_notice();
        rest(1);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static void *
later(void *what)
{
    rest(0.02);
    suffer(what);
    return NULL;
}

/* What a step starts: a reduction, a reduce-scatter, or two messages in a ring. Fills in two
 * requests. */
static void
start_step(const char *where, const float *in, float *out, size_t count, void **requests)
{
    size_t counts[64];

    requests[1] = NULL;
    if (strcmp(where, "message") == 0) {
        check(comm->send_start(comm, in, 8, (rank + 1) % ranks, 3, &requests[0]));
        check(comm->receive_start(comm, out, 8, (rank + ranks - 1) % ranks, 3, &requests[1]));
    } else if (strcmp(where, "pieces") == 0) {
        for (int r = 0; r < ranks; r++)
            counts[r] = count / (size_t)ranks;
        check(comm->reduce_scatter_start(comm, YOKE_F32, in, out, counts, &requests[0]));
    } else {
        check(comm->allreduce_start(comm, YOKE_F32, in, out, count, algorithm, &requests[0]));
    }
}

/* Steps for ever; rank WHO is struck by WHAT between steps ("step", "message"), or at a moment of
 * its own while one operation of 4 MB follows the other ("collective", "pieces"). */
static void
run_disaster(char **arguments)
{
    const char *what = arguments[1], *where = arguments[2];
    bool large = strcmp(where, "collective") == 0 || strcmp(where, "pieces") == 0;
    size_t count = large ? (size_t)1 << 20 : 1024;
    bool mine = rank == atoi(arguments[0]);
    float *in = take(count * sizeof *in), *out = take(count * sizeof *out);
    pthread_t thread;
    void *requests[2];

    memset(in, 0, count * sizeof *in);
    for (int64_t s = 0; s < 100000; s++) {
        comm->heartbeat(comm, s, "forward");
        if (mine && s == 3 && !large)
            suffer(what);
        start_step(where, in, out, count, requests);
        if (mine && s == 3 && large)
            CHECK(pthread_create(&thread, NULL, later, arguments[1]) == 0);
        for (int i = 0; i < 2 && requests[i]; i++)
            finish(&requests[i]);
    }
}

/* Calls that do not match: rank 1 gathers where the others reduce. */
static void
run_mismatch(char **arguments)
{
    float in[2] = {0}, *out = take(sizeof in * (size_t)ranks);
    void *request;
    bool done;

    (void)arguments;
    if (rank == 1) {
        check(comm->allgather(comm, in, sizeof in, out));
    } else {
        check(comm->allreduce_start(comm, YOKE_F32, in, out, 2, algorithm, &request));
        check(comm->test(comm, &request, true, &done));
    }
}

/* Each rank waits for a message of the one before it, and none sends. */
static void
run_circle(char **arguments)
{
    void *request;
    char word[4];

    (void)arguments;
    check(comm->receive_start(comm, word, sizeof word, (rank + ranks - 1) % ranks, 3, &request));
    finish(&request);
}

/* A comm of a part of the ranks, twice, and messages of the application beside it. */
static void
run_parts(char **arguments)
{
    yoke_comm *whole = comm, *part = NULL;
    int ping = rank, got = -1, all = ranks;
    MPI_Comm half;

    (void)arguments;
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half) == MPI_SUCCESS);
    for (int i = 0; i < 2; i++) {
        check(yoke_mpi_comm_create(half, NULL, &part));
        CHECK(part->ranks == (all + 1 - rank % 2) / 2);
        MPI_Sendrecv(&ping, 1, MPI_INT, (rank + 1) % all, 1, &got, 1, MPI_INT,
                     (rank + all - 1) % all, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(got == (rank + all - 1) % all);
        comm = part;
        ranks = part->ranks;
        rank = part->rank;
        reduce(1000, 0.1f);
        yoke_comm_destroy(part);
        comm = whole;
        ranks = whole->ranks;
        rank = whole->rank;
    }
    MPI_Comm_free(&half);
    check(comm->barrier(comm));
}

/* Comms made and destroyed: no thread and no communicator is left. */
static void
run_cycles(char **arguments)
{
    long cycles = strtol(arguments[0], NULL, 10);
    yoke_comm *whole = comm;

    for (long i = 0; i < cycles; i++) {
        check(yoke_mpi_comm_create(MPI_COMM_WORLD, NULL, &comm));
        reduce(10, 0);
        yoke_comm_destroy(comm);
    }
    comm = whole;
}

/* Options out of their range, on every rank alike: a sentence names the value, and no rank waits.
 */
static void
run_absurd(char **arguments)
{
    static const struct {
        yoke_mpi_options options;
        const char *part;
    } rows[] = {
        {{.warn_seconds = NAN}, "warn_seconds is nan; must be at least 0.001"},
        {{.warn_seconds = -3}, "warn_seconds is -3"},
        {{.warn_seconds = 1e-9}, "warn_seconds is 1e-09"},
        {{.error_seconds = INFINITY}, "error_seconds is inf"},
        {{.error_seconds = -0.5}, "error_seconds is -0.5"},
        {{.mode = (yoke_mpi_mode)99}, "mode is 99; must be between 0 and 4"},
        {{.mode = (yoke_mpi_mode)-1}, "mode is -1"},
        {{.chunk_bytes = 3}, "chunk_bytes is 3; must be between 8 and 2147483644"},
        {{.chunk_bytes = UINT64_MAX}, "chunk_bytes is 18446744073709551616"},
    };
    yoke_comm *none = NULL;

    (void)arguments;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK(yoke_mpi_comm_create(MPI_COMM_WORLD, &rows[i].options, &none) == YOKE_ERROR_VALUE);
        CHECK(strstr(yoke_last_error(), rows[i].part));
    }
    CHECK(yoke_mpi_comm_create(MPI_COMM_NULL, NULL, &none) == YOKE_ERROR_INVALID_ARGUMENT);
    CHECK(strstr(yoke_last_error(), "MPI_COMM_NULL"));
    CHECK(yoke_mpi_comm_create(MPI_COMM_WORLD, NULL, NULL) == YOKE_ERROR_INVALID_ARGUMENT);
    CHECK(!none);
}

/* COUNT values, REPEATS times: seconds of one reduction, on rank 0. */
static void
run_time(char **arguments)
{
    size_t count = strtoul(arguments[0], NULL, 10);
    int repeats = atoi(arguments[1]);
    float *in = take(count * sizeof *in), *out = take(count * sizeof *out);
    double best = 1e9;

    memset(in, 0, count * sizeof *in);
    for (int i = 0; i < repeats; i++) {
        double start;
        void *request;
        bool done;

        check(comm->barrier(comm));
        start = now();
        check(comm->allreduce_start(comm, YOKE_F32, in, out, count, algorithm, &request));
        check(comm->test(comm, &request, true, &done));
        best = now() - start < best ? now() - start : best;
    }
    if (rank == 0)
        printf("%zu values: %.6f s\n", count, best);
    comm->release(comm, in);
    comm->release(comm, out);
}

static const struct command {
    const char *name;
    int arguments;
    void (*run)(char **arguments);
} commands[] = {
    {"table", 1, run_table},   {"many", 0, run_many},         {"steps", 1, run_steps},
    {"slow", 1, run_slow},     {"disaster", 3, run_disaster}, {"mismatch", 0, run_mismatch},
    {"parts", 0, run_parts},   {"cycles", 1, run_cycles},     {"time", 2, run_time},
    {"shared", 0, run_shared}, {"create", 0, NULL},           {"absurd", 0, run_absurd},
    {"types", 0, run_types},   {"pieces", 0, run_pieces},     {"messages", 0, run_messages},
    {"late", 1, run_late},     {"unequal", 0, run_unequal},   {"circle", 0, run_circle},
    {"start", 2, NULL},
};

static void
initialise(const char *level)
{
    static const char *const names[] = {"single", "funneled", "serialized", "multiple"};
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                 MPI_THREAD_MULTIPLE};
    int provided;

    for (int i = 0; i < 4; i++)
        if (strcmp(level, names[i]) == 0)
            MPI_Init_thread(NULL, NULL, levels[i], &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

/* Runs the command of this name with the words behind it; returns what stands behind those. */
static char **
run_command(char **word, char **end)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(*word, commands[i].name) != 0)
            continue;
        word++;
        CHECK(end - word >= commands[i].arguments);
        algorithm = 0;
        if (commands[i].run)
            commands[i].run(word);
        return word + commands[i].arguments;
    }
    give_up("there is no such command");
    return NULL;
}

int
main(int argc, char **argv)
{
    if (argc < 3)
        return 1;
    /* Disasters at the start: "ranks LEVEL start WHO WHAT". */
    initialise(argv[1]);
    if (strcmp(argv[2], "start") == 0 && argc == 5 && rank == atoi(argv[3]))
        suffer(argv[4]);
    yoke_log_set(print_line, NULL, YOKE_LOG_WARNING);
    check(yoke_mpi_comm_create(MPI_COMM_WORLD, NULL, &comm));
    for (char **word = argv + 2; *word;)
        word = run_command(word, argv + argc);
    yoke_comm_destroy(comm);
    MPI_Finalize();
    printf("rank %d: %s ok\n", rank, argv[2]);
    return 0;
}
