/* SPDX-License-Identifier: Apache-2.0
 *
 * start.c - checks whether this program may communicate, and with whom.
 *
 * Checks the thread level, and that MPI knows the other tasks that a launcher has started: `srun`
 * without its PMI gives N worlds of one, and so N trainings that write the same files. Duplicates
 * the user's communicator without blocking, so that a rank that never comes can be named. Only to
 * find that rank are messages sent over the user's communicator itself (with the highest tag there
 * is): all is lost then anyway.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

/* ---- settings ---- */

__attribute__((format(printf, 1, 2))) static yoke_status
refuse(const char *format, ...)
{
    char sentence[200];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return yoke_fail(YOKE_ERROR_VALUE, sentence);
}

/* Reads a number from an environment variable. `value` does not change if it is not set. */
static yoke_status
read_number(const char *name, double least, bool or_never, double *value)
{
    const char *text = getenv(name);
    double number;
    char *end;

    if (!text || !*text)
        return YOKE_OK;
    number = strtod(text, &end);
    if (*end == '\0' && ((number >= least && isfinite(number)) || (or_never && number == -1))) {
        *value = number;
        return YOKE_OK;
    }
    return refuse("%s=%.60s; must be a finite number of at least %g%s", name, text, least,
                  or_never ? ", or -1 for never" : "");
}

static yoke_status
read_mode(yoke_mpi_mode *mode)
{
    static const char *const names[] = {"auto", "blocking", "nonblocking", "reduce-broadcast",
                                        "shared"};
    const char *text = getenv("YOKE_MPI_MODE");

    if (*mode != YOKE_MPI_AUTO || !text || !*text)
        return YOKE_OK;
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            *mode = (yoke_mpi_mode)i;
            return YOKE_OK;
        }
    }
    return refuse(
        "YOKE_MPI_MODE=%.40s; must be auto, blocking, nonblocking, reduce-broadcast or shared",
        text);
}

/* A limit in seconds: the option, else the variable, else the default; -1: never. */
static yoke_status
read_limit(const char *field, double option, const char *name, double *limit)
{
    if (option == 0)
        return read_number(name, 1e-3, true, limit);
    if (option != -1 && !(option >= 1e-3 && isfinite(option)))
        return refuse("%s is %g; must be at least 0.001, or 0 for the default, or -1 for never",
                      field, option);
    *limit = option;
    return YOKE_OK;
}

static yoke_status
check_mode(yoke_mpi_mode mode)
{
    if ((int)mode >= YOKE_MPI_AUTO && (int)mode <= YOKE_MPI_SHARED)
        return YOKE_OK;
    return refuse("mode is %d; must be between %d and %d", (int)mode, YOKE_MPI_AUTO,
                  YOKE_MPI_SHARED);
}

/* MPI counts in int, and a chunk holds a value. */
static yoke_status
check_chunk(double chunk)
{
    if (chunk >= sizeof(double) && chunk <= 2147483644.0)
        return YOKE_OK;
    return refuse("chunk_bytes is %.0f; must be between 8 and 2147483644", chunk);
}

yoke_status
yki_mpi_read_settings(const yoke_mpi_options *options, yki_mpi_settings *settings)
{
    yoke_mpi_mode mode = options->mode;
    double chunk = 1024.0 * 1024 * 1024;
    yki_mpi_settings result = {.warn = 60, .error = 300};
    yoke_status status =
        read_limit("warn_seconds", options->warn_seconds, "YOKE_MPI_WARN", &result.warn);

    if (status == YOKE_OK)
        status =
            read_limit("error_seconds", options->error_seconds, "YOKE_MPI_TIMEOUT", &result.error);
    if (status == YOKE_OK)
        status = read_mode(&mode);
    if (options->chunk_bytes)
        chunk = (double)options->chunk_bytes;
    else if (status == YOKE_OK)
        status = read_number("YOKE_MPI_CHUNK", sizeof(double), false, &chunk);
    if (status == YOKE_OK)
        status = check_mode(mode);
    if (status == YOKE_OK)
        status = check_chunk(chunk);
    if (status != YOKE_OK)
        return status;
    result.mode = mode;
    result.chunk = (uint64_t)chunk;
    *settings = result;
    return YOKE_OK;
}

/* ---- what was launched ---- */

static long
task_count(const char *name)
{
    const char *text = getenv(name);

    return text ? strtol(text, NULL, 10) : 0;
}

/* Launchers say in these variables how many tasks they have started. Inside `sbatch` and `salloc`
 * SLURM_NTASKS is set without any srun, so it counts only inside a step of srun. */
static const char *
launched_by(long *tasks)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS",
                                        "SLURM_STEP_NUM_TASKS"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *tasks = task_count(names[i]);
        if (*tasks > 0)
            return names[i];
    }
    *tasks = task_count("SLURM_NTASKS");
    return *tasks > 0 && getenv("SLURM_STEP_ID") && getenv("SLURM_PROCID") ? "SLURM_NTASKS" : NULL;
}

static yoke_status
check_world(const yoke_mpi_options *options)
{
    const char *allow = getenv("YOKE_MPI_SINGLE"), *variable;
    char sentence[400];
    long tasks = 0;
    int size = 0;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 1 || options->allow_single || (allow && strcmp(allow, "1") == 0))
        return YOKE_OK;
    variable = launched_by(&tasks);
    if (!variable || tasks <= 1)
        return YOKE_OK;
    snprintf(
        sentence, sizeof sentence,
        "%ld tasks were launched (%s), but MPI knows of this one alone: they would be %ld "
        "independent trainings that write the same files; use the launcher of the MPI that the "
        "program was built with (Slurm: srun --mpi=pmix), or set YOKE_MPI_SINGLE=1 if that is "
        "what you want",
        tasks, variable, tasks);
    return yoke_fail(YOKE_ERROR_COMM, sentence);
}

yoke_status
yki_mpi_check_start(MPI_Comm mpi, const yoke_mpi_options *options, int *level)
{
    int yes = 0, finalized = 0, main_thread = 0, between = 0;

    MPI_Initialized(&yes);
    MPI_Finalized(&finalized);
    if (!yes || finalized)
        return yoke_fail(YOKE_ERROR_STATE,
                         yes ? "MPI is finalised already; make the comm before MPI_Finalize"
                             : "MPI is not initialised; call MPI_Init_thread first");
    if (mpi == MPI_COMM_NULL)
        return yoke_fail(YOKE_ERROR_INVALID_ARGUMENT,
                         "the communicator is MPI_COMM_NULL; must be one that has this process");
    MPI_Query_thread(level);
    if (*level < MPI_THREAD_FUNNELED)
        return yoke_fail(YOKE_ERROR_STATE,
                         "MPI was initialised with MPI_THREAD_SINGLE; call MPI_Init_thread with "
                         "MPI_THREAD_MULTIPLE (or SERIALIZED, or FUNNELED) instead of MPI_Init");
    MPI_Is_thread_main(&main_thread);
    if (*level == MPI_THREAD_FUNNELED && !main_thread)
        return yoke_fail(
            YOKE_ERROR_STATE,
            "MPI was initialised with MPI_THREAD_FUNNELED, so the comm must be made and "
            "used by the thread that did it");
    MPI_Comm_test_inter(mpi, &between);
    if (between)
        return yoke_fail(YOKE_ERROR_INVALID_ARGUMENT,
                         "the communicator joins two groups; merge it by MPI_Intercomm_merge");
    return check_world(options);
}

/* ---- who we are ---- */

void
yki_mpi_identify(yki_mpi_identity *identity)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    struct stat space;

    memset(identity, 0, sizeof *identity);
    if (gethostname(identity->host, sizeof identity->host - 1) != 0 || !identity->host[0])
        snprintf(identity->host, sizeof identity->host, "host");
    if (file) {
        if (fscanf(file, "%39s", identity->boot) != 1)
            identity->boot[0] = '\0';
        fclose(file);
    }
    if (!identity->boot[0]) /* without a boot id, hosts are told apart by name */
        snprintf(identity->boot, sizeof identity->boot, "%.39s", identity->host);
    identity->pid = (int64_t)getpid();
    if (stat("/proc/self/ns/pid", &space) == 0)
        identity->pid_space = (uint64_t)space.st_ino;
}

/* ---- the duplicate, and who is missing ---- */

enum { CALL = 1, HERE = 2, VERDICT = 3 };

typedef struct roll_message {
    int32_t type;
    char reason[YKI_MPI_REASON];
} roll_message;

typedef struct roll_state {
    MPI_Comm mpi;
    int rank, ranks, tag;
    bool *here;
    bool told; /* another rank's verdict is in `verdict` */
    roll_message verdict;
} roll_state;

/* The memory of the message is not freed: a missing rank never receives it. */
static void
roll_send(const roll_state *roll, int to, int type, const char *reason)
{
    roll_message *message = calloc(1, sizeof *message);
    MPI_Request request;

    if (!message)
        return;
    message->type = type;
    snprintf(message->reason, sizeof message->reason, "%s", reason);
    MPI_Isend(message, (int)sizeof *message, MPI_BYTE, to, roll->tag, roll->mpi, &request);
}

/* Receives messages: answers calls, notes answers and verdicts. */
static void
roll_listen(roll_state *roll)
{
    MPI_Status status;
    roll_message message;
    int come = 0;

    while (MPI_Iprobe(MPI_ANY_SOURCE, roll->tag, roll->mpi, &come, &status) == MPI_SUCCESS &&
           come) {
        int from = status.MPI_SOURCE;

        MPI_Recv(&message, (int)sizeof message, MPI_BYTE, from, roll->tag, roll->mpi, &status);
        roll->here[from] = true;
        if (message.type == CALL)
            roll_send(roll, from, HERE, "");
        if (message.type == VERDICT && !roll->told) {
            roll->told = true;
            roll->verdict = message;
        }
    }
}

/* Seconds in which a rank must answer. Every rank that waits listens all the time. */
static double
roll_grace(double limit)
{
    return limit < 4 ? 0.2 : limit > 20 ? 1 : limit / 20;
}

/* Calls all ranks; those that do not answer are missing. */
static void
roll_call(roll_state *roll, double grace)
{
    char list[160] = "", sentence[YKI_MPI_REASON];
    double end = yki_mpi_now() + grace;
    unsigned turn = 0;
    int missing = 0;

    roll->here[roll->rank] = true;
    for (int r = 0; r < roll->ranks; r++)
        if (r != roll->rank)
            roll_send(roll, r, CALL, "");
    while (yki_mpi_now() < end && !roll->told) {
        roll_listen(roll);
        yki_mpi_nap(&turn);
    }
    if (roll->told)
        return;
    for (int r = 0; r < roll->ranks; r++) {
        size_t length = strlen(list);

        if (!roll->here[r] && missing++ < 16)
            snprintf(list + length, sizeof list - length, "%s%d", length ? ", " : "", r);
    }
    snprintf(sentence, sizeof sentence, "rank%s %s%s of %d did not come to yoke_mpi_comm_create",
             missing == 1 ? "" : "s", missing ? list : "(none)", missing > 16 ? ", ..." : "",
             roll->ranks);
    roll->verdict.type = VERDICT;
    memcpy(roll->verdict.reason, sentence, sizeof sentence);
    for (int r = 0; r < roll->ranks; r++)
        if (roll->here[r] && r != roll->rank)
            roll_send(roll, r, VERDICT, sentence);
    for (end = yki_mpi_now() + 0.1; yki_mpi_now() < end;) {
        roll_listen(roll); /* ranks that called at the same time get an answer */
        yki_mpi_nap(&turn);
    }
}

static yoke_status
roll_wait(roll_state *roll, const yki_mpi_settings *settings, MPI_Request *request)
{
    double begin = yki_mpi_now();
    bool warned = settings->warn < 0;
    unsigned turn = 0;
    char sentence[YKI_MPI_REASON + 64];
    int done = 0;

    for (;;) {
        int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        double waited = yki_mpi_now() - begin;

        if (code != MPI_SUCCESS)
            return yki_mpi_error(code, "MPI_Comm_idup");
        if (done)
            return YOKE_OK;
        if (settings->error >= 0)
            roll_listen(roll);
        if (!warned && waited > settings->warn) {
            warned = true;
            yoke_log_write(YOKE_LOG_WARNING, "still waiting for other ranks to come to "
                                             "yoke_mpi_comm_create");
        }
        if (!roll->told && settings->error >= 0 && waited > settings->error)
            roll_call(roll, roll_grace(settings->error));
        if (roll->told || roll->verdict.type == VERDICT) {
            snprintf(sentence, sizeof sentence, "%s within %.1f s", roll->verdict.reason,
                     settings->error);
            return yoke_fail(YOKE_ERROR_COMM, sentence);
        }
        yki_mpi_nap(&turn);
    }
}

yoke_status
yki_mpi_duplicate(MPI_Comm mpi, const yki_mpi_settings *settings, MPI_Comm *copy)
{
    roll_state roll = {.mpi = mpi};
    /* MPI writes to it; it is not freed if the call is given up. */
    MPI_Comm *result = calloc(1, sizeof *result);
    MPI_Request request;
    yoke_status status;
    int found = 0, code, *highest;

    MPI_Comm_rank(mpi, &roll.rank);
    MPI_Comm_size(mpi, &roll.ranks);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&highest, &found);
    roll.tag = found ? *highest : 32767;
    roll.here = calloc((size_t)roll.ranks, sizeof *roll.here);
    if (!result || !roll.here) {
        free(result);
        free(roll.here);
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "no memory for a communicator");
    }
    code = MPI_Comm_idup(mpi, result, &request);
    status = code == MPI_SUCCESS ? roll_wait(&roll, settings, &request)
                                 : yki_mpi_error(code, "MPI_Comm_idup");
    free(roll.here);
    if (status != YOKE_OK)
        return status;
    *copy = *result;
    free(result);
    MPI_Comm_set_errhandler(*copy, MPI_ERRORS_RETURN);
    return YOKE_OK;
}
