/* SPDX-License-Identifier: Apache-2.0
 *
 * train.c - one rank of a training, for the scripts of tests/mpi.
 *
 *   train FILE STEPS BATCH SHARES [WHO WHAT WHERE]
 *
 * Trains a small network on made-up samples, the same in every process. After each ten steps the
 * weights of all ranks are compared, bit by bit. At the end rank 0 writes them to FILE, as text.
 * $RANK_DEVICES holds a selector for each rank, with blanks between; the last is for all that
 * follow. $RANK_WISDOM likewise has files of wisdom; then how each rank computes is printed. With
 * $SEQUENCES samples are sequences, of another length in each step; with $TOKENS they are tokens,
 * and what all ranks predict then follows the weights in FILE. With $PRECISION products are rounded
 * wherever they can be, and the loss scale is printed; with $HUGE step 3 has a number that is none
 * for a half. With $SHARD devices divide the weights; plans take at most $RECOMPUTE bytes. With
 * $STAGES the graph is cut into as many, through which $ACCUMULATE micro-batches go, and SHARES is
 * nothing.
 *
 * WHO WHAT WHERE: rank WHO is struck by WHAT (kill, stop, exit) in step 5: before it, or in its
 * reduction; or, with WHERE "save", while rank 0 writes a checkpoint to the folder FILE-save. Other
 * values of WHERE are other programs:
 *
 *   fit    trains by epochs without end, and rank WHO gets SIGTERM, whose handler asks to stop: all
 *          stop after the same step
 *   resume trains WHO epochs, or goes on with them, with checkpoints in the folder WHAT; stops
 *          after step $STOP_AT; with $FREEZE for the same bits
 *   counts fits and evaluates datasets of which rank WHO has one sample less: all ranks refuse them
 *   nothing trains, then makes steps to which no sample counts: they change nothing on any rank
 *   trace  writes a timeline to the file WHAT, while the clock of rank WHO (-1: none) is set
 *   step, evaluation, reading
 *          with divided weights, rank WHO fails while all gather some, and with stages while it
 *          sends something: its call of the transport does (WHAT is "call"), or its device is lost
 *          ("device"). All end with a sentence each
 *   flips  WHO bits of weights, running statistics and optimizer state are turned, one by one, each
 *          on one rank, and have to be found
 */
#include <dirent.h>
#include <pthread.h>

#include <yoke-mpi.h>

#include "call_faults.h"
#include "nets.h"
#include "train/checkpoint.h"
#include "train/saved_tensors.h"
#include "train/timeline.h"

enum { MOST = 256, STRUCK = 5, DEVICES = 64 };

static yoke_comm *comm;

static void
check(yoke_status status)
{
    if (status != YOKE_OK) {
        notice("train", yoke_status_string(status), yoke_last_error());
        rest(0.1); /* launchers lose what was written just before */
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static void
print_line(void *user, yoke_log_level level, const char *line)
{
    (void)user;
    (void)level;
    fprintf(stderr, "log: %s\n", line);
}

static void
print_text(void *user, const char *line)
{
    (void)user;
    puts(line);
}

/* image (n, 1, SIDE, SIDE), label (n) */
static void
make_batch(uint32_t step, int n, float *image, int32_t *label)
{
    uint32_t state = 1234567u + 7919u * step;

    for (int i = 0; i < n; i++) {
        label[i] = (int32_t)((unsigned)i * 5u + step) % CLASSES;
        for (int p = 0; p < SIDE * SIDE; p++) {
            state = state * 1664525u + 1013904223u;
            image[i * SIDE * SIDE + p] =
                (float)(state >> 8) / 16777216.0f + (p / SIDE / 2 == label[i] ? 0.6f : 0.0f);
        }
    }
}

/* Everything that training has made, one after the other. */
static float *
read_all(yoke_trainer *t, yoke_graph *g, size_t *total)
{
    float *values = NULL;

    *total = 0;
    for (size_t i = 0; i < yoke_graph_parameter_count(g); i++) {
        yoke_node *parameter = yoke_graph_get_parameter(g, i);
        yoke_shape shape = yoke_node_shape(parameter);
        size_t count = 1;

        for (int d = 0; d < (int)shape.rank; d++)
            count *= (size_t)shape.dim[d];
        values = realloc(values, (*total + count) * sizeof *values);
        check(yoke_trainer_read(t, yoke_node_name(parameter), values + *total, count));
        *total += count;
    }
    return values;
}

static void
compare_replicas(yoke_trainer *t, yoke_graph *g, int64_t step)
{
    size_t count;
    float *values = read_all(t, g, &count);
    uint64_t hash = 14695981039346656037u, *all = malloc(sizeof hash * (size_t)comm->ranks);

    for (size_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, values + i, sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
    }
    check(comm->allgather(comm, &hash, sizeof hash, all));
    for (int r = 0; r < comm->ranks; r++) {
        if (all[r] == all[0])
            continue;
        fprintf(stderr, "train: after step %lld rank %d has other weights than rank 0\n",
                (long long)step, r);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    check(yki_trainer_compare_weights(t)); /* and the rest of it */
    free(all);
    free(values);
}

static void
write_values(const char *name, const char *mode, const float *values, size_t count)
{
    FILE *file = comm->rank == 0 ? fopen(name, mode) : NULL;

    for (size_t i = 0; file && i < count; i++)
        fprintf(file, "%.9g\n", (double)values[i]);
    if (file)
        fclose(file);
}

static void
write_weights(yoke_trainer *t, yoke_graph *g, const char *name)
{
    size_t count;
    float *values = read_all(t, g, &count);

    write_values(name, "w", values, count);
    free(values);
}

/* This rank's word of a variable that has one for each, the last for all that follow; NULL: none.
 */
static const char *
word_of(const char *variable)
{
    static char lists[2][4096];
    static int used;
    char *list = lists[used++ % 2], *found = NULL, *save = NULL, *item;
    const char *all = getenv(variable);

    if (!all || !*all)
        return NULL;
    snprintf(list, sizeof lists[0], "%s", all);
    item = strtok_r(list, " ", &save);
    for (int r = 0; item && r <= comm->rank; item = strtok_r(NULL, " ", &save), r++)
        found = item;
    return found;
}

/* What ranks know of the speed of devices is the same everywhere, as shares follow from it. */
static void
compare_speeds(const yoke_trainer *t)
{
    yki_line lines[DEVICES] = {0}, *all;
    size_t count = yoke_team_count(t->team);

    all = calloc((size_t)comm->ranks, sizeof lines);
    for (size_t k = 0; k < count && k < DEVICES; k++)
        (void)yki_shares_get_line(t->shares, k, &lines[k]);
    check(comm->allgather(comm, lines, sizeof lines, all));
    for (int r = 0; r < comm->ranks; r++)
        if (memcmp(all + (size_t)r * DEVICES, lines, sizeof lines) != 0) {
            notice("train", "the ranks know other speeds", "");
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
    free(all);
}

/* Checksums of how this rank's first device computes: training, and evaluation. */
static void
print_plans(yoke_trainer *t)
{
    const yki_plan *plans[2] = {t->crew.members[0].replica->training};

    check(yki_crew_make_evaluation(&t->crew));
    plans[1] = t->crew.members[0].replica->evaluation;
    for (int i = 0; i < 2; i++) {
        yki_hash hash;
        char hex[33];

        yki_hash_start(&hash);
        for (size_t k = 0; k < plans[i]->task_count; k++) {
            const yki_task *task = &plans[i]->tasks[k];

            if (task->solver)
                yki_hash_string(&hash, task->solver->name);
            yki_hash_add(&hash, &task->tuning, sizeof task->tuning);
        }
        yki_hash_hex(&hash, hex);
        printf("%s by rank %d: %s\n", i ? "evaluated" : "trained", (int)comm->rank, hex);
    }
}

static void *
strike_soon(void *what)
{
    rest(0.001);
    strike(what);
    return NULL;
}

/* Another length in every step, and in every sample another number of rows that count. */
static yoke_status
step_of_rows(yoke_trainer *t, int64_t n, const float *image, const int32_t *label,
             yoke_result *result)
{
    static int32_t labels[MOST * SIDE];
    static int64_t steps;
    const int64_t length = SIDE - steps++ % SIDE;
    const yoke_feed feeds[] = {yoke_feed_f32("image", image, n * length * SIDE),
                               yoke_feed_i32("label", labels, n * length)};

    for (int64_t i = 0; i < n; i++)
        for (int64_t row = 0; row < length; row++)
            labels[i * length + row] = row > i % SIDE ? -1 : (int32_t)((label[i] + row) % CLASSES);
    return yoke_trainer_step(t, n, feeds, 2, result);
}

/* What follows a token depends on it; in every fifth sample the last rows do not count. */
static void
make_tokens(int64_t n, int64_t length, const int32_t *label, int32_t *tokens, int32_t *next)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t row = 0, now = label[i] * 7 + i; row < length; row++, now = now * 5 + 3) {
            tokens[i * length + row] = (int32_t)(now % TOKENS);
            next[i * length + row] = i % 5 == 0 && row > 4 ? -1 : (int32_t)((now * 5 + 3) % TOKENS);
        }
}

/* Another length in every step. */
static yoke_status
step_of_tokens(yoke_trainer *t, int64_t n, const int32_t *label, yoke_result *result)
{
    static int32_t tokens[MOST * SIDE], next[MOST * SIDE];
    static int64_t steps;
    const int64_t length = SIDE - steps++ % SIDE;
    const yoke_feed feeds[] = {yoke_feed_i32("tokens", tokens, n * length),
                               yoke_feed_i32("next", next, n * length)};

    make_tokens(n, length, label, tokens, next);
    return yoke_trainer_step(t, n, feeds, 2, result);
}

static yoke_status
step(yoke_trainer *t, int64_t n, const float *image, const int32_t *label, yoke_result *result)
{
    const yoke_feed feeds[] = {yoke_feed_f32("image", image, n * SIDE * SIDE),
                               yoke_feed_i32("label", label, n)};

    if (getenv("SEQUENCES"))
        return step_of_rows(t, n, image, label, result);
    if (getenv("TOKENS"))
        return step_of_tokens(t, n, label, result);
    return yoke_trainer_step(t, n, feeds, 2, result);
}

static void
train(yoke_trainer *t, yoke_graph *g, int64_t steps, int n, char **disaster)
{
    static float image[MOST * SIDE * SIDE];
    static int32_t label[MOST];
    bool mine = disaster && atoi(disaster[0]) == comm->rank;
    yoke_result result = {0};
    pthread_t thread;

    for (int64_t s = 0; s < steps; s++) {
        /* Batches of three sizes: parts of a batch at the end of an epoch, and of none. */
        int size = s % 10 == 7 ? n / 3 : s % 10 == 8 ? 1 : n;

        make_batch((uint32_t)s, size, image, label);
        if (s == 3 && getenv("HUGE")) /* of the last rank alone */
            image[size * SIDE * SIDE / 2] = 1e30f;
        if (mine && s == STRUCK && strcmp(disaster[2], "before") == 0)
            strike(disaster[1]);
        if (mine && s == STRUCK && strcmp(disaster[2], "in") == 0)
            pthread_create(&thread, NULL, strike_soon, disaster[1]);
        check(step(t, size, image, label, s % 4 == 0 ? &result : NULL));
        if (s % 10 == 9)
            compare_replicas(t, g, s + 1);
    }
    check(yoke_trainer_wait(t));
}

/* ---- predictions ---- */

/* The same in all ranks, of arrays and of a dataset: a batch, another one, and a rest. */
static void
write_predictions(yoke_trainer *t, int n, const char *name)
{
    static float image[MOST * SIDE * SIDE];
    static int32_t label[MOST], tokens[MOST * SIDE], next[MOST * SIDE];
    const int rows = 2 * n + n / 3;
    const size_t count = (size_t)rows * SIDE * TOKENS;
    const yoke_field field = {"tokens", YOKE_I32, yoke_shape(SIDE), tokens, 0};
    const yoke_feed feed = yoke_feed_i32("tokens", tokens, (int64_t)rows * SIDE);
    float *all = malloc((size_t)(comm->ranks + 1) * count * sizeof *all), *own = all + count;
    yoke_dataset *dataset = NULL;

    make_batch(3, rows, image, label);
    make_tokens(rows, SIDE, label, tokens, next);
    check(yoke_trainer_predict(t, "logits", rows, &feed, 1, all, (int64_t)count));
    check(yoke_dataset_create(rows, &field, 1, NULL, &dataset));
    check(yoke_trainer_predict_dataset(t, "logits", dataset, 0, rows, own, (int64_t)count));
    yoke_dataset_destroy(dataset);
    if (memcmp(all, own, count * sizeof *all) != 0) {
        fprintf(stderr, "train: a dataset is predicted otherwise than arrays\n");
        MPI_Abort(MPI_COMM_WORLD, 14);
    }
    check(comm->allgather(comm, all, count * sizeof *all, own));
    for (int r = 0; r < comm->ranks; r++)
        if (memcmp(all, own + (size_t)r * count, count * sizeof *all) != 0) {
            fprintf(stderr, "train: rank %d predicts otherwise than rank %d\n", r, (int)comm->rank);
            MPI_Abort(MPI_COMM_WORLD, 14);
        }
    write_values(name, "a", all, count);
    free(all);
}

/* ---- a timeline ---- */

/* The clock of rank `who` is set by 10 s while it is recorded. */
static void
train_traced(yoke_trainer *t, yoke_graph *g, int n, int who, const char *path)
{
    yoke_status status;

    check(yoke_trainer_trace(t, path));
    train(t, g, 10, n, NULL);
    if (who == comm->rank) {
        t->timeline->sights[0].low += 10;
        t->timeline->sights[0].high += 10;
    }
    status = yoke_trainer_trace(t, NULL);
    if (status != YOKE_OK)
        printf("rank %d: %d, %s\n", (int)comm->rank, (int)status, yoke_last_error());
    train(t, g, 10, n, NULL); /* goes on as if nothing had been */
}

/* ---- steps of nothing ---- */

/* All labels ignored, and no samples at all: each rank keeps its bits, and has counted the step. */
static void
train_nothing(yoke_trainer *t, yoke_graph *g, int n)
{
    static float image[MOST * SIDE * SIDE];
    static int32_t label[MOST];

    make_batch(0, n, image, label);
    for (int i = 0; i < 3; i++)
        check(step(t, n, image, label, NULL));
    memset(label, 0xff, sizeof label);
    for (int size = n; size >= 0; size -= n) {
        size_t count, again;
        float *before = read_all(t, g, &count), *after;
        int64_t done = yoke_trainer_get_step(t);

        check(step(t, size, image, label, NULL));
        check(yoke_trainer_wait(t));
        after = read_all(t, g, &again);
        if (memcmp(before, after, count * sizeof *before) != 0 ||
            yoke_trainer_get_step(t) != done + 1) {
            fprintf(stderr, "train: a step of %d ignored samples changed rank %d\n", size,
                    (int)comm->rank);
            MPI_Abort(MPI_COMM_WORLD, 11);
        }
        compare_replicas(t, g, done + 1);
        free(before);
        free(after);
    }
    printf("rank %d: nothing changed\n", (int)comm->rank);
}

/* ---- by epochs, until a signal comes ---- */

static yoke_trainer *asked;

static void
ask_to_stop(int number)
{
    (void)number;
    yoke_trainer_request_stop(asked);
}

static void *
signal_soon(void *unused)
{
    (void)unused;
    rest(0.5);
    kill(getpid(), SIGTERM);
    return NULL;
}

static yoke_dataset *
make_dataset(int n)
{
    static float image[MOST * SIDE * SIDE];
    static int32_t label[MOST];
    const yoke_field fields[] = {
        {"image", YOKE_F32, yoke_shape(1, SIDE, SIDE), image, 0},
        {"label", YOKE_I32, yoke_shape(), label, 0},
    };
    yoke_dataset *dataset = NULL;

    make_batch(1, n, image, label);
    check(yoke_dataset_create(n, fields, 2, NULL, &dataset));
    return dataset;
}

static void
fit(yoke_trainer *t, yoke_graph *g, int n, char **disaster)
{
    yoke_fit_options options = {.epochs = 1000000};
    int64_t step, *steps = malloc(sizeof *steps * (size_t)comm->ranks);
    yoke_dataset *dataset = make_dataset(n);
    pthread_t thread;
    yoke_status status;

    asked = t;
    signal(SIGTERM, ask_to_stop);
    if (atoi(disaster[0]) == comm->rank)
        pthread_create(&thread, NULL, signal_soon, NULL);
    status = yoke_trainer_fit(t, dataset, NULL, &options);
    check(status);
    if (!yoke_trainer_was_stopped(t)) {
        fprintf(stderr, "train: fit was not stopped\n");
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    step = yoke_trainer_get_step(t);
    check(comm->allgather(comm, &step, sizeof step, steps));
    for (int r = 0; r < comm->ranks; r++)
        if (steps[r] != step)
            MPI_Abort(MPI_COMM_WORLD, 6);
    compare_replicas(t, g, step);
    printf("rank %d: stopped together\n", (int)comm->rank);
    free(steps);
    yoke_dataset_destroy(dataset);
}

/* ---- datasets that differ ---- */

static void
expect_refusal(yoke_status status, const char *named, const char *has)
{
    if (status == YOKE_ERROR_STATE && strstr(yoke_last_error(), named) &&
        strstr(yoke_last_error(), has) && strstr(yoke_last_error(), "rank 0 has "))
        return;
    fprintf(stderr, "train: %d, \"%s\" instead of \"%s\"\n", (int)status, yoke_last_error(), named);
    MPI_Abort(MPI_COMM_WORLD, 12);
}

/* By as little as a sample, which makes one step more. Afterwards the trainer is as before. */
static void
train_counts(yoke_trainer *t, yoke_graph *g, int n, int who)
{
    yoke_dataset *same = make_dataset(n), *other = make_dataset(2 * n + (comm->rank != who));
    char named[32], has[32];
    yoke_result result;

    snprintf(named, sizeof named, "rank %d has %d samples", who, 2 * n);
    snprintf(has, sizeof has, "rank 0 has %d", 2 * n + 1);
    expect_refusal(yoke_trainer_fit(t, other, NULL, NULL), named, has);
    expect_refusal(yoke_trainer_fit(t, same, other, NULL), named, "for the test");
    expect_refusal(yoke_trainer_fit(t, same, comm->rank == who ? NULL : same, NULL),
                   "has 0 samples", "for the test");
    expect_refusal(yoke_trainer_evaluate(t, other, &result), named, has);
    check(yoke_trainer_fit(t, same, same, NULL));
    compare_replicas(t, g, yoke_trainer_get_step(t));
    printf("rank %d: unlike counts refused\n", (int)comm->rank);
    yoke_dataset_destroy(same);
    yoke_dataset_destroy(other);
}

/* ---- with checkpoints ---- */

static bool
stop_at(void *user, const yoke_result *result)
{
    return result->step == *(const int64_t *)user;
}

/* Epochs of two batches and a rest. */
static void
resume(yoke_trainer *t, int n, int epochs, const char *dir)
{
    const char *at = getenv("STOP_AT");
    int64_t last = at ? atoi(at) : -1;
    yoke_fit_options options = {
        .epochs = epochs, .on_step = stop_at, .user = &last, .checkpoint_dir = dir, .resume = true};
    yoke_dataset *dataset = make_dataset(2 * n + n / 3);

    check(yoke_trainer_fit(t, dataset, NULL, &options));
    yoke_dataset_destroy(dataset);
}

typedef struct save_strike {
    const char *what, *dir;
} save_strike;

/* Beside a whole checkpoint another one is being written: its name is another until then. */
static bool
is_saving(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    bool whole = false, part = false;

    while (dir && (entry = readdir(dir)) != NULL) {
        part = part || strstr(entry->d_name, ".tmp");
        whole = whole || strstr(entry->d_name, ".safetensors");
    }
    if (dir)
        closedir(dir);
    return whole && part;
}

static void *
strike_in_save(void *argument)
{
    const save_strike *s = argument;

    while (!is_saving(s->dir))
        ;
    strike(s->what);
    return NULL;
}

static void
save_for_ever(yoke_trainer *t, int n, const char *file, char **disaster)
{
    char dir[4096];
    yoke_fit_options options = {.epochs = 1000000, .checkpoint_dir = dir, .checkpoint_every = 1};
    save_strike s = {.what = disaster[1], .dir = dir};
    yoke_dataset *dataset = make_dataset(2 * n + n / 3);
    pthread_t thread;

    snprintf(dir, sizeof dir, "%s-save", file);
    if (atoi(disaster[0]) == comm->rank)
        pthread_create(&thread, NULL, strike_in_save, &s);
    check(yoke_trainer_fit(t, dataset, NULL, &options));
}

/* ---- bits that turn by themselves ---- */

static uint32_t
draw(uint32_t below)
{
    static uint32_t state = 99;

    state = state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(state >> 8) * below >> 24);
}

typedef struct flip {
    int rank;
    uint32_t group, part, bit; /* the bit counts from the part's first */
} flip;

/* The same on all ranks. Bits of weights, running statistics and optimizer state; `low`: one of a
 * weight, that leaves it finite, for what is trained on before it is found. (In others the next
 * step may round it away.) */
static flip
draw_flip(const yoke_trainer *t, bool low)
{
    flip f = {.rank = (int)draw((uint32_t)comm->ranks), .group = draw(1000)};
    size_t weights = yoke_graph_parameter_count(t->graph);
    yki_saved_tensors parts = {0};

    check(yki_saved_tensors_list(t, &parts));
    if (parts.count != 3 * weights + 2) /* Adam's, and two statistics */
        MPI_Abort(MPI_COMM_WORLD, 10);
    f.part = draw((uint32_t)(low ? weights : parts.count));
    f.bit = 32 * draw((uint32_t)parts.list[f.part].count) + draw(low ? 20 : 32);
    yki_saved_tensors_clear(&parts);
    return f;
}

/* As a particle would do it: behind the library's back. */
static void
turn(yoke_trainer *t, const flip *f)
{
    yki_saved_tensors parts = {0};
    yki_state_place place;
    yki_range part;
    uint64_t offset;
    uint32_t word;

    if (comm->rank != f->rank)
        return;
    check(yki_saved_tensors_list(t, &parts));
    place = yki_saved_tensor_find(t, f->group % t->crew.group_count, &parts.list[f->part], &part);
    offset = place.start + f->bit / 32 * 4;
    check(yki_buffer_get(place.buffer, offset, 4, &word));
    word ^= 1u << f->bit % 32;
    check(yki_buffer_put(place.buffer, offset, 4, &word));
    yki_saved_tensors_clear(&parts);
}

/* That replicas differ is what `status` says, and at whom; of two nobody knows which is right. */
static void
check_found(yoke_status status, const flip *f)
{
    const char *said = yoke_last_error(), *at = said;
    char name[32];
    int named = 0;

    snprintf(name, sizeof name, "rank %d (", f->rank);
    while ((at = strstr(at, "rank ")) != NULL) {
        named++;
        at++;
    }
    if (status == YOKE_ERROR_DEVICE && strstr(said, "replicas are not the same") &&
        strstr(said, name) && named == (comm->ranks == 2 && !strstr(said, " has another ") ? 2 : 1))
        return;
    fprintf(stderr, "train: bit %u of part %u turned on rank %d: %d, \"%s\"\n", f->bit, f->part,
            f->rank, (int)status, status == YOKE_OK ? "" : said);
    MPI_Abort(MPI_COMM_WORLD, 7);
}

static flip pending;

static bool
turn_now(void *user, const yoke_epoch *epoch)
{
    if (epoch->epoch == 1)
        turn(user, &pending);
    return false;
}

/* By fit: one epoch later, or at the checkpoint that follows. */
static void
flip_in_fit(yoke_trainer *t, yoke_dataset *data, const char *dir)
{
    yoke_fit_options options = {
        .epochs = 4, .on_epoch = turn_now, .user = t, .checkpoint_dir = dir, .checkpoint_keep = 1};
    int64_t step = yoke_trainer_get_step(t);
    yoke_status status;

    pending = draw_flip(t, true);
    check(yoke_trainer_initialize(t, 7));
    status = yoke_trainer_fit(t, data, NULL, &options);
    check_found(status, &pending);
    step = yoke_trainer_get_step(t);
    if (step != (dir ? 2 : 3)) {
        fprintf(stderr, "train: a turned bit was found after step %lld\n", (long long)step);
        MPI_Abort(MPI_COMM_WORLD, 8);
    }
    /* The trainer stands still, as after any failure. */
    if (yoke_trainer_step(t, 0, NULL, 0, NULL) != YOKE_ERROR_STATE)
        MPI_Abort(MPI_COMM_WORLD, 9);
    t->failure.status = YOKE_OK;
}

static void
flips(yoke_trainer *t, int n, int count, const char *dir)
{
    static float image[MOST * SIDE * SIDE];
    static int32_t label[MOST];
    double losses[2 * DEVICES] = {0};
    yki_progress progress = {.device_sums = losses};
    yoke_dataset *dataset;
    char other[4096]; /* a training's own */

    if (t->crew.team->total > DEVICES)
        MPI_Abort(MPI_COMM_WORLD, 8);
    snprintf(other, sizeof other, "%s-fit", dir);
    check(yki_checkpoint_begin(t, dir));
    for (int i = 0; i < count; i++) {
        flip f = draw_flip(t, false);

        make_batch((uint32_t)i, n, image, label);
        check(step(t, n, image, label, NULL));
        check(yoke_trainer_wait(t));
        turn(t, &f);
        check_found(
            i % 2 ? yki_checkpoint_save(t, &progress, dir, 1) : yki_trainer_compare_weights(t), &f);
        t->failure.status = YOKE_OK;
        turn(t, &f);
        check(i % 10 ? yki_trainer_compare_weights(t) : yki_checkpoint_save(t, &progress, dir, 1));
    }
    dataset = make_dataset(n);
    flip_in_fit(t, dataset, NULL);
    flip_in_fit(t, dataset, other);
    check(yoke_trainer_initialize(t, 7));
    yoke_dataset_destroy(dataset);
    printf("rank %d: %d of %d turned bits were found\n", (int)comm->rank, count + 2, count + 2);
}

/* ---- a failure while all gather weights ---- */

/* What all ranks do when one of them fails. */
static yoke_status
gather_somewhere(yoke_trainer *t, yoke_graph *g, int n, const char *where)
{
    static float image[MOST * SIDE * SIDE], values[MOST * SIDE];
    static int32_t label[MOST];
    yoke_status status = YOKE_OK;
    yoke_result result;

    make_batch(0, n, image, label);
    if (strcmp(where, "evaluation") == 0) {
        yoke_dataset *dataset = make_dataset(n);

        status = yoke_trainer_evaluate(t, dataset, &result);
        yoke_dataset_destroy(dataset);
    } else if (strcmp(where, "reading") == 0) {
        for (size_t i = 0; i < yoke_graph_parameter_count(g) && status == YOKE_OK; i++) {
            const yoke_node *p = yoke_graph_get_parameter(g, i);

            status = yoke_trainer_read(t, yoke_node_name(p), values, yki_shape_count(p->shape));
        }
    } else {
        status = step(t, n, image, label, &result);
    }
    return status;
}

/* Waits until each rank has said something; a minute is only there to end what hangs. */
static void
await_all(void)
{
    for (int i = 0, lines = 0; i < 600 && lines < comm->ranks; i++) {
        FILE *file = open_note(".said", "r");
        int c;

        rest(0.1);
        for (lines = 0; file && (c = fgetc(file)) != EOF;)
            lines += c == '\n';
        if (file)
            fclose(file);
    }
}

/* Whatever is left under way, everything can be destroyed. */
static void
fail_in_gather(yoke_trainer *t, yoke_graph *g, int n, char **disaster)
{
    static float image[MOST * SIDE * SIDE];
    static int32_t label[MOST];
    char who[128], said[2000];
    yoke_status status;

    make_batch(0, n, image, label);
    check(step(t, n, image, label, NULL));
    check(yoke_trainer_wait(t));
    if (atoi(disaster[0]) == comm->rank)
        prepare_fault(comm, disaster[1]);
    status = gather_somewhere(t, g, n, disaster[2]);
    snprintf(who, sizeof who, "rank %d, %s", (int)comm->rank, yoke_status_string(status));
    snprintf(said, sizeof said, "%s", status ? yoke_last_error() : "all is well");
    if (yoke_trainer_step(t, 0, NULL, 0, NULL) != YOKE_ERROR_STATE)
        snprintf(said, sizeof said, "it goes on");
    yoke_trainer_destroy(t);
    notice("train", who, said);
    await_all();
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void
run(yoke_trainer *t, yoke_graph *g, int argc, char **argv)
{
    char **disaster = argc == 8 ? argv + 5 : NULL;
    const char *where = disaster ? disaster[2] : "";
    int n = atoi(argv[3]);

    if (strcmp(where, "fit") == 0)
        fit(t, g, n, disaster);
    else if (strcmp(where, "counts") == 0)
        train_counts(t, g, n, atoi(disaster[0]));
    else if (strcmp(where, "nothing") == 0)
        train_nothing(t, g, n);
    else if (strcmp(where, "resume") == 0)
        resume(t, n, atoi(disaster[0]), disaster[1]);
    else if (strcmp(where, "save") == 0)
        save_for_ever(t, n, argv[1], disaster);
    else if (strcmp(where, "trace") == 0)
        train_traced(t, g, n, atoi(disaster[0]), disaster[1]);
    else if (strcmp(where, "step") == 0 || strcmp(where, "evaluation") == 0 ||
             strcmp(where, "reading") == 0)
        fail_in_gather(t, g, n, disaster);
    else if (strcmp(where, "flips") == 0)
        flips(t, n, atoi(disaster[0]), disaster[1]);
    else
        train(t, g, atoi(argv[2]), n, disaster);
}

int
main(int argc, char **argv)
{
    yoke_trainer_options options = {.seed = 7};
    yoke_context *context = NULL;
    yoke_team *team = NULL;
    yoke_graph *g = NULL;
    yoke_trainer *t = NULL;
    int level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (argc < 5 || atoi(argv[3]) > MOST)
        MPI_Abort(MPI_COMM_WORLD, 1);
    yoke_log_set(print_line, NULL, YOKE_LOG_WARNING);
    open_layer();
    check(yoke_mpi_comm_create(MPI_COMM_WORLD, NULL, &comm));
    check(yoke_context_create(NULL, &context));
    check(yoke_team_create(context, word_of("RANK_DEVICES"), &(yoke_team_options){.comm = comm},
                           &team));
    printf("rank %d: %zu of %zu devices, the first is %d\n", (int)comm->rank,
           yoke_team_local_count(team), yoke_team_count(team),
           (int)yoke_team_local_count(team) > 0);
    check(yoke_graph_create(&g));
    if (getenv("SEQUENCES"))
        build_sequences(g);
    else if (getenv("TOKENS"))
        build_tokens(g);
    else
        build(g);
    options.batch = atoi(argv[3]);
    options.shares = getenv("STAGES") ? NULL : argv[4];
    options.stages = getenv("STAGES") ? (uint32_t)atoi(getenv("STAGES")) : 0;
    options.accumulate = getenv("ACCUMULATE") ? (uint32_t)atoi(getenv("ACCUMULATE")) : 1;
    options.reproducible = getenv("FREEZE") ? YOKE_REPRODUCIBLE_RUNS : YOKE_REPRODUCIBLE_NO;
    options.wisdom = word_of("RANK_WISDOM");
    options.shard = getenv("SHARD") ? YOKE_SHARD_WEIGHTS : YOKE_SHARD_NOTHING;
    options.recompute_bytes = getenv("RECOMPUTE") ? strtoull(getenv("RECOMPUTE"), NULL, 10) : 0;
    /* Solvers that are measured differ from run to run, and so does what fits. */
    if (options.recompute_bytes || getenv("STAGES"))
        options.level = YOKE_PLAN_ESTIMATE;
    options.precision = getenv("PRECISION");
    options.strict = options.precision != NULL;
    options.optimizer = yoke_adam(0.01f);
    check(yoke_trainer_create(team, g, &options, &t));
    if (options.wisdom)
        print_plans(t);
    compare_speeds(t);
    if (options.stages)
        check(yoke_trainer_explain(t, print_text, NULL));
    run(t, g, argc, argv);
    compare_replicas(t, g, atoi(argv[2]));
    if (options.precision)
        printf("loss scale %g, %d skipped\n", (double)t->loss_scale.scale,
               (int)t->loss_scale.skipped);
    write_weights(t, g, argv[1]);
    if (getenv("TOKENS"))
        write_predictions(t, atoi(argv[3]), argv[1]);
    yoke_trainer_destroy(t);
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    yoke_context_destroy(context);
    yoke_comm_destroy(comm);
    MPI_Finalize();
    printf("trained\n");
    return 0;
}
