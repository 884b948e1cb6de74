/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks.c - one rank of the tests of libyoke-mpi; the scripts start several by mpirun.
 *
 *   ranks LEVEL COMMAND [ARGUMENT...]
 *
 * LEVEL is multiple, serialized, funneled or single. What is wrong is printed and ends the
 * program with MPI_Abort, as an application would do it; "rank R: COMMAND ok" says that all is
 * well. Commands are in the table at the end.
 */
#include <math.h>
#include <pthread.h>

#include <yoke-mpi.h>

#include "strike.h"

static yoke_comm *comm;
static int rank, ranks;

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
    void *memory = comm->alloc(comm, size);

    CHECK(memory != NULL);
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
set_way(const char *name)
{
    for (size_t w = 0; comm->way(comm, w); w++)
        if (strcmp(comm->way(comm, w), name) == 0) {
            check(comm->set_way(comm, w));
            return;
        }
    give_up("there is no such way to reduce");
}

static void
reduce(size_t count, float fraction)
{
    float *in = take(count * sizeof *in), *out = take(count * sizeof *out);
    bool done = false;
    void *request;

    for (size_t i = 0; i < count; i++)
        in[i] = value(rank, i, fraction);
    check(comm->allreduce_start(comm, in, out, count, &request));
    while (!done)
        check(comm->allreduce_test(comm, &request, count % 2 == 0, &done));
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
        check(comm->allreduce_start(comm, in + k * COUNT, out + k * COUNT, COUNT, &requests[k]));
        if (k == 3)
            check(comm->broadcast(comm, &word, sizeof word, ranks - 1));
    }
    CHECK(word == ranks - 1);
    for (int k = MANY - 1; k >= 0; k--) {
        bool done = false;

        check(comm->allreduce_test(comm, &requests[k], true, &done));
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
    set_way("shared");
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
            check(comm->allreduce_start(comm, in[k] + shift, out[k] + shift, n, &requests[k]));
        }
        check(comm->broadcast(comm, &word, sizeof word, (int)c % ranks));
        for (int k = UNDER_WAY - 1; k >= 0; k--) {
            done = false;
            check(comm->allreduce_test(comm, &requests[k], true, &done));
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
    check(comm->allreduce_start(comm, mine, mine + 1000, 1000, &requests[0]));
    check(comm->allreduce_test(comm, &requests[0], true, &done));
    check_same(mine + 1000, 1000 * sizeof *mine);
    free(mine);
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
        check(comm->allreduce_start(comm, in, out, 1024, &request));
        check(comm->allreduce_test(comm, &request, true, &done));
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

/* Steps for ever; rank WHO is struck by WHAT between steps ("step"), or at a moment of its own
 * while one reduction of 4 MB follows the other ("collective"). */
static void
run_disaster(char **arguments)
{
    const char *what = arguments[1], *where = arguments[2];
    size_t count = strcmp(where, "collective") == 0 ? (size_t)1 << 20 : 1024;
    bool mine = rank == atoi(arguments[0]), done;
    float *in = take(count * sizeof *in), *out = take(count * sizeof *out);
    pthread_t thread;
    void *request;

    memset(in, 0, count * sizeof *in);
    for (int64_t s = 0; s < 100000; s++) {
        comm->heartbeat(comm, s, "forward");
        if (mine && s == 3 && strcmp(where, "step") == 0)
            suffer(what);
        check(comm->allreduce_start(comm, in, out, count, &request));
        if (mine && s == 3 && strcmp(where, "collective") == 0)
            CHECK(pthread_create(&thread, NULL, later, arguments[1]) == 0);
        check(comm->allreduce_test(comm, &request, true, &done));
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
        check(comm->allreduce_start(comm, in, out, 2, &request));
        check(comm->allreduce_test(comm, &request, true, &done));
    }
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
        {{.chunk_bytes = 3}, "chunk_bytes is 3; must be between 4 and 2147483644"},
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
        check(comm->allreduce_start(comm, in, out, count, &request));
        check(comm->allreduce_test(comm, &request, true, &done));
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
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(argv[2], commands[i].name) != 0 || !commands[i].run)
            continue;
        CHECK(argc == 3 + commands[i].arguments);
        commands[i].run(argv + 3);
    }
    yoke_comm_destroy(comm);
    MPI_Finalize();
    printf("rank %d: %s ok\n", rank, argv[2]);
    return 0;
}
