/* SPDX-License-Identifier: Apache-2.0
 *
 * scale.c - steps of training on up to a thousand simulated ranks.
 *
 *   scale VALUES BUCKETS FORWARD BACKWARD [SIMULATED [BUCKETS FORWARD BACKWARD]...]
 *
 * Compiled with smpicc, beside mpi/ as it is. Nothing is computed: FORWARD and BACKWARD are the
 * seconds that a device takes, and the gradient of VALUES floats becomes known bucket by bucket
 * during the second. A simulated rank is the thread that communicates: it sleeps until a bucket is
 * known, reduces it, and waits for the device at the end. Prints, on rank 0, seconds of a step
 * with overlap, and of one in which all is reduced after backward.
 * With SIMULATED only so many reductions are simulated, one after the other; the rest of both steps
 * is arithmetic, as a simulated reduction takes the same time whenever it is: one begins when its
 * bucket is known and the one before is through. Models with other numbers of buckets as large may
 * follow; each gets a line.
 *
 * With SCALE_SPEEDS="S..." devices differ: rank r has the speed number r of these, over and over,
 * and FORWARD and BACKWARD are of a device with speed 1. Each has as many samples, or with
 * SCALE_SHARES=speed as many as its speed allows, of as many in all.
 *
 * Once the comm is made, SMPI is told that it replays: messages have their sizes and times, but no
 * bytes are copied and no sums made, which is what took long. Nothing in mpi/ looks at them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <yoke-mpi.h>

XBT_PUBLIC void smpi_replay_init(const char *instance_id, int rank, double start_delay_flops);

enum { STEPS = 1 }; /* simulated ones are all alike */

static void
check(yoke_status status)
{
    if (status != YOKE_OK) {
        fprintf(stderr, "scale: %s\n", yoke_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double
now(void)
{
    return MPI_Wtime();
}

static void
sleep_until(double when)
{
    double left = when - now();
    struct timespec t = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};

    if (left > 0)
        nanosleep(&t, NULL);
}

/* By how much longer a step of this rank takes than one of a device with speed 1 and an even share.
 */
static double
slowness(const yoke_comm *comm)
{
    const char *shares = getenv("SCALE_SHARES"), *text = getenv("SCALE_SPEEDS");
    double speeds[16], all = 0;
    int count = 0;

    for (char *end; text && count < 16; text = end) {
        speeds[count] = strtod(text, &end);
        if (end == text)
            break;
        count++;
    }
    if (count == 0)
        return 1;
    for (int r = 0; r < (int)comm->ranks; r++)
        all += speeds[r % count];
    return shares && strcmp(shares, "speed") == 0 ? comm->ranks / all
                                                  : 1 / speeds[(int)comm->rank % count];
}

static double
step(yoke_comm *comm, float *in, float *out, size_t values, int buckets, const double *compute,
     bool overlapped)
{
    size_t size = values / (size_t)buckets;
    double start = now(), forward = start + compute[0], end = forward + compute[1];

    for (int b = 0; b < buckets; b++) {
        bool done = false;
        void *request;

        sleep_until(overlapped ? forward + compute[1] * (b + 1) / buckets : end);
        check(comm->allreduce_start(comm, YOKE_F32, in, out, size, 0, &request));
        check(comm->test(comm, &request, true, &done));
    }
    sleep_until(end);
    return now() - start;
}

/* Seconds of a reduction, the mean of `count` in a row. */
static double
reduction(yoke_comm *comm, float *in, float *out, size_t values, int buckets, int count)
{
    static const double nothing[2] = {0, 0};
    size_t part = values / (size_t)buckets * (size_t)count;

    return step(comm, in, out, part, count, nothing, false) / count;
}

static double
step_of(double one, int buckets, const double *compute, bool overlapped)
{
    double end = compute[0] + compute[1], through = overlapped ? 0 : end;

    for (int b = 0; b < buckets; b++) {
        double known = overlapped ? compute[0] + compute[1] * (b + 1) / buckets : end;

        through = (through > known ? through : known) + one;
    }
    return through > end ? through : end;
}

int
main(int argc, char **argv)
{
    /* The watchdog would be simulated too; the blocking reduction is what the worker calls. */
    yoke_mpi_options options = {
        .warn_seconds = -1, .error_seconds = -1, .mode = YOKE_MPI_BLOCKING, .allow_single = true};
    double compute[2], seconds[2] = {0, 0};
    yoke_comm *comm = NULL;
    size_t values;
    int buckets, level, simulated;
    float *in, *out;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    if (argc < 5)
        MPI_Abort(MPI_COMM_WORLD, 1);
    values = strtoul(argv[1], NULL, 10);
    buckets = atoi(argv[2]);
    compute[0] = atof(argv[3]);
    compute[1] = atof(argv[4]);
    simulated = argc > 5 ? atoi(argv[5]) : 0;
    check(yoke_mpi_comm_create(MPI_COMM_WORLD, &options, &comm));
    for (int i = 0; i < 2; i++)
        compute[i] *= slowness(comm);
    smpi_replay_init("scale", comm->rank, 0);
    /* One memory for all simulated ranks: what is in it does not matter. */
    in = SMPI_SHARED_MALLOC(values / (size_t)buckets * sizeof *in);
    out = SMPI_SHARED_MALLOC(values / (size_t)buckets * sizeof *out);
    if (simulated > 0) {
        double one;

        MPI_Barrier(MPI_COMM_WORLD);
        one = reduction(comm, in, out, values, buckets, simulated);
        for (int a = 6; a + 2 < argc; a += 3) {
            const double other[2] = {atof(argv[a + 1]), atof(argv[a + 2])};

            if (comm->rank == 0)
                printf("%d %.6f %.6f\n", (int)comm->ranks, step_of(one, atoi(argv[a]), other, true),
                       step_of(one, atoi(argv[a]), other, false));
        }
        for (int overlapped = 0; overlapped < 2; overlapped++)
            seconds[overlapped] = step_of(one, buckets, compute, overlapped);
    }
    for (int overlapped = 0; overlapped < 2 && simulated == 0; overlapped++) {
        for (int s = 0; s < STEPS; s++) {
            double one;

            MPI_Barrier(MPI_COMM_WORLD);
            one = step(comm, in, out, values, buckets, compute, overlapped);
            seconds[overlapped] = s == 0 || one < seconds[overlapped] ? one : seconds[overlapped];
        }
    }
    if (comm->rank == 0)
        printf("%d %.6f %.6f\n", (int)comm->ranks, seconds[1], seconds[0]);
    SMPI_SHARED_FREE(in);
    SMPI_SHARED_FREE(out);
    yoke_comm_destroy(comm);
    MPI_Finalize();
    return 0;
}
