/* SPDX-License-Identifier: Apache-2.0
 *
 * check_comm.c - tables of communication that are not libyoke-mpi's: who keeps them alive, what
 * they are asked for, what must be alike in all processes, and whose memory is whose after a
 * failure.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/scratch.h"
#include "team/sharding.h"
#include "train/runs.h"
#include "train/save.h"
#include "train/trainer.h"

static int destroyed;

static void
count_destroy(yoke_comm *comm)
{
    (void)comm;
    destroyed++;
}

/* ---- who keeps a comm alive ---- */

START_TEST(comm_destroy_calls_the_table)
{
    yoke_comm empty = {.size = sizeof empty};
    yoke_comm comm = {.size = sizeof comm, .destroy = count_destroy};

    yoke_comm_destroy(NULL);
    yoke_comm_destroy(&empty);
    ck_assert_int_eq(destroyed, 0);
    yoke_comm_destroy(&comm);
    ck_assert_int_eq(destroyed, 1);
}
END_TEST

START_TEST(teams_keep_a_comm_alive)
{
    yoke_comm comm = {.size = sizeof comm, .ranks = 1, .destroy = count_destroy};
    const team_run run = {.net = TEAM_MLP, .steps = 1};
    yoke_trainer_options o = team_options(&run);
    yoke_context *context;
    yoke_team *team, *other;
    yoke_trainer *trainer;
    yoke_graph *g = team_graph(run.net);

    ASSERT_OK(yoke_context_create(NULL, &context));
    comm.reserved[7] = &comm;
    ASSERT_REFUSED(
        YOKE_ERROR_INVALID_ARGUMENT, "reserved[7] of the comm is not NULL",
        yoke_team_create(context, test_selector(), &(yoke_team_options){.comm = &comm}, &team));
    comm.reserved[7] = NULL;
    /* A team that is not made holds nothing. */
    ASSERT_REFUSED(YOKE_ERROR_SELECTOR, "",
                   yoke_team_create(context, "cpu:", &(yoke_team_options){.comm = &comm}, &team));
    ASSERT_OK(
        yoke_team_create(context, test_selector(), &(yoke_team_options){.comm = &comm}, &team));
    ASSERT_OK(
        yoke_team_create(context, test_selector(), &(yoke_team_options){.comm = &comm}, &other));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &trainer));
    yoke_graph_destroy(g);
    yoke_team_destroy(other);
    yoke_comm_destroy(&comm);
    yoke_team_destroy(team);
    ck_assert_int_eq(destroyed, 0);
    ASSERT_OK(team_step(&run, trainer, 0, NULL)); /* the trainer keeps the team */
    yoke_trainer_destroy(trainer);
    ck_assert_int_eq(destroyed, 1);
    yoke_context_destroy(context);
}
END_TEST

/* ---- what all processes must have alike ---- */

/* Gives rank 1 what rank 0 gave before, and its own. */
static yoke_status
gather_in_turns(yoke_comm *comm, const void *in, size_t bytes, void *out)
{
    static char first[4096];

    ck_assert_uint_le(bytes, sizeof first);
    if (comm->rank == 0)
        memcpy(first, in, bytes);
    memcpy(out, first, bytes);
    memcpy((char *)out + bytes, in, bytes);
    return YOKE_OK;
}

static yoke_status
keep_own(yoke_comm *comm, void *data, size_t bytes, int32_t root)
{
    (void)comm;
    (void)data;
    (void)bytes;
    (void)root;
    return YOKE_OK;
}

static yoke_status
compare_options(const yoke_graph *g, yoke_trainer_options one, yoke_trainer_options other)
{
    yoke_comm comm = {
        .size = sizeof comm, .ranks = 2, .allgather = gather_in_turns, .broadcast = keep_own};

    ASSERT_OK(yki_trainer_compare_processes(&comm, g, &one));
    comm.rank = 1;
    return yki_trainer_compare_processes(&comm, g, &other);
}

static yoke_status
compare(const yoke_graph *g, const char *precision, const char *other)
{
    return compare_options(g, (yoke_trainer_options){.precision = precision},
                           (yoke_trainer_options){.precision = other});
}

START_TEST(precisions_are_compared_to_their_end)
{
    yoke_graph *g = team_graph(TEAM_MLP);
    char one[400], other[400];

    for (size_t i = 0; i < sizeof one; i++)
        one[i] = other[i] = "layer=f32,"[i % 10];
    memcpy(one + sizeof one - 10, "layer=f32", 10);
    memcpy(other + sizeof other - 10, "layer=bf1", 10);
    ASSERT_OK(compare(g, NULL, "f32"));
    ASSERT_OK(compare(g, one, one));
    ASSERT_STATUS(YOKE_ERROR_STATE, compare(g, "f32", "bf16"));
    ASSERT_DETAIL("precision: \"bf16\", not \"f32\"");
    ASSERT_STATUS(YOKE_ERROR_STATE, compare(g, one, other));
    ASSERT_DETAIL("in the precision: \"layer=f32,layer");
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(weights_of_shards_are_compared_to_their_end)
{
    yoke_graph *g = team_graph(TEAM_MLP);
    char one[400] = "1", other[400];
    yoke_trainer_options o[2] = {{.shard = YOKE_SHARD_STATE, .shard_by = one},
                                 {.shard = YOKE_SHARD_STATE, .shard_by = other}};

    while (strlen(one) < 300)
        strcat(one, ",1");
    strcpy(other, one);
    ASSERT_OK(compare_options(g, o[0], o[1]));
    other[strlen(other) - 1] = '2';
    ASSERT_STATUS(YOKE_ERROR_STATE, compare_options(g, o[0], o[1]));
    ASSERT_DETAIL("in the weights of shards: \"1,1,1");
    yoke_graph_destroy(g);
}
END_TEST

/* ---- a comm of this process and of one that does the same ---- */

enum { BLOCKS = 32 };

/* Memory that `alloc` gave. */
typedef struct block {
    char *memory;
    size_t size, algorithm;
    bool released;
} block;

typedef struct mirror {
    yoke_comm comm;
    block blocks[BLOCKS];
    size_t block_count;
    int left;      /* reductions until one fails; negative: none does */
    bool failed;   /* each call fails, */
    bool cut;      /* from the next piece of weights on */
    float *late;   /* the result of the reduction that failed */
    size_t values; /* of it */
    int under_way;
    size_t started, before; /* reductions in all; those before the first gathering */
    int behind;             /* gatherings with a reduction before them */
    size_t last_algorithm;
    int gathers; /* pieces that were sent */
    int told;    /* failures */
    size_t rows; /* bytes in which a process tells of its devices, where the state is divided */
} mirror;

static block *
block_of(mirror *m, const void *memory, size_t bytes)
{
    for (size_t i = 0; i < m->block_count; i++) {
        block *b = &m->blocks[i];

        if ((const char *)memory >= b->memory &&
            (const char *)memory + bytes <= b->memory + b->size && !b->released)
            return b;
    }
    return NULL;
}

static yoke_status
broken(mirror *m)
{
    return m->failed ? yoke_fail(YOKE_ERROR_COMM, "the cable is cut") : YOKE_OK;
}

static yoke_status
mirror_start(yoke_comm *comm, int32_t type, const void *in, void *out, size_t count,
             size_t algorithm, void **request)
{
    mirror *m = comm->self;
    const size_t size = type == YOKE_I64 ? sizeof(int64_t) : sizeof(float);

    if (m->failed)
        return broken(m);
    ck_assert(type == YOKE_F32 || type == YOKE_I64);
    if (comm->alloc) {
        const block *b = block_of(m, in, count * size);

        ck_assert_msg(b && block_of(m, out, count * size),
                      "an array of a request is not from alloc");
        ck_assert_uint_eq(b->algorithm, algorithm);
    }
    for (size_t i = 0; i < count; i++)
        if (type == YOKE_I64)
            ((uint64_t *)out)[i] = 2 * ((const uint64_t *)in)[i]; /* may wrap in vain */
        else
            ((float *)out)[i] = 2 * ((const float *)in)[i];
    m->started++;
    m->last_algorithm = algorithm;
    m->late = out;
    m->values = count;
    m->under_way++;
    *request = m;
    return YOKE_OK;
}

static yoke_status
mirror_test(yoke_comm *comm, void **request, bool wait, bool *done)
{
    mirror *m = comm->self;
    const struct timespec slowly = {0, 20000000};

    ck_assert(wait);
    *request = NULL;
    m->failed = m->failed || m->left-- == 0;
    if (m->failed)
        return broken(m);
    if (comm->algorithm && m->last_algorithm != 1)
        nanosleep(&slowly, NULL);
    m->under_way--;
    *done = true;
    return YOKE_OK;
}

static yoke_status
mirror_broadcast(yoke_comm *comm, void *data, size_t bytes, int32_t root)
{
    mirror *m = comm->self;

    (void)data;
    (void)bytes;
    (void)root;
    m->gathers++;
    m->failed |= m->cut;
    return broken(m);
}

static void
mirror_fail(yoke_comm *comm, const char *why)
{
    mirror *m = comm->self;

    (void)why;
    m->told++;
}

static yoke_status
mirror_allgather(yoke_comm *comm, const void *in, size_t bytes, void *out)
{
    mirror *m = comm->self;
    yki_shard_row *rows = (void *)((char *)out + bytes);
    uint64_t *place = (void *)rows; /* and size: of the rows that come next */

    m->before = YKI_MIN(m->before, m->started);
    m->behind += m->started > 0;
    for (int i = 0; i < 2 && broken(comm->self) == YOKE_OK; i++)
        memcpy((char *)out + (size_t)i * bytes, in, bytes);
    /* The rows of the other process stand behind, and tell another rank. */
    if (m->rows && bytes == 2 * sizeof *place)
        place[0] += place[1];
    for (size_t k = 0; bytes == m->rows && k < bytes / sizeof *rows; k++)
        rows[k].rank = 1;
    return broken(comm->self);
}

static yoke_status
mirror_barrier(yoke_comm *comm)
{
    return broken(comm->self);
}

static void *
mirror_alloc(yoke_comm *comm, size_t bytes, size_t algorithm)
{
    mirror *m = comm->self;
    block *b = &m->blocks[m->block_count++];

    ck_assert_uint_le(m->block_count, BLOCKS);
    *b = (block){.memory = malloc(bytes), .size = bytes, .algorithm = algorithm};
    ck_assert_ptr_nonnull(b->memory);
    return b->memory;
}

/* Memory stays until the end: see who writes to it. */
static void
mirror_release(yoke_comm *comm, void *memory)
{
    mirror *m = comm->self;
    block *b = memory ? block_of(m, memory, 1) : NULL;

    ck_assert(!memory || b);
    if (!b)
        return;
    ck_assert_msg(m->failed || m->under_way == 0, "released with a request under way");
    b->released = true;
}

static const char *
mirror_algorithm(yoke_comm *comm, size_t index)
{
    static const char *const names[] = {"slow", "quick"};

    (void)comm;
    return index < 2 ? names[index] : NULL;
}

static void
make_mirror(mirror *m)
{
    *m = (mirror){.left = -1};
    m->comm = (yoke_comm){.size = sizeof m->comm,
                          .self = m,
                          .ranks = 2,
                          .local_ranks = 2,
                          .host = "here",
                          .allreduce_start = mirror_start,
                          .test = mirror_test,
                          .broadcast = mirror_broadcast,
                          .allgather = mirror_allgather,
                          .barrier = mirror_barrier,
                          .alloc = mirror_alloc,
                          .release = mirror_release,
                          .fail = mirror_fail,
                          .destroy = count_destroy};
}

/* Everything was given back. What the transport writes late is seen by nobody, and by the address
 * sanitizer if it is anybody's. */
static void
end_mirror(mirror *m)
{
    for (size_t i = 0; m->failed && i < m->values; i++)
        m->late[i] = -1;
    for (size_t i = 0; i < m->block_count; i++) {
        ck_assert(m->blocks[i].released);
        free(m->blocks[i].memory);
    }
}

static yoke_trainer *
mirror_trainer(yoke_context *context, mirror *m, const team_run *run, yoke_trainer_options o)
{
    yoke_graph *g = team_graph(run->net);
    yoke_trainer *trainer = NULL;
    yoke_team *team;

    ASSERT_OK(
        yoke_team_create(context, test_selector(), &(yoke_team_options){.comm = &m->comm}, &team));
    m->rows = run->shard ? yoke_team_local_count(team) * sizeof(yki_shard_row) : 0;
    if (yoke_trainer_create(team, g, &o, &trainer) != YOKE_OK)
        ck_assert_str_eq(yoke_last_error(), "the cable is cut");
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    return trainer;
}

/* Arrays of requests are the transport's. It may write to them when all else is gone. */
START_TEST(a_failed_sum_of_arrays)
{
    float values[3] = {1, 2, 3};
    yoke_context *context;
    yoke_array *arrays[16];
    yoke_team *team;
    size_t devices;
    mirror m;

    make_mirror(&m);
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(
        yoke_team_create(context, test_selector(), &(yoke_team_options){.comm = &m.comm}, &team));
    devices = yoke_team_local_count(team);
    for (size_t k = 0; k < devices; k++) {
        ASSERT_OK(yoke_array_create(yoke_team_get_device(team, k), YOKE_F32, 3, &arrays[k]));
        ASSERT_OK(yoke_array_write(arrays[k], values, 3));
    }
    ASSERT_OK(yoke_team_allreduce(team, arrays, 1));
    ASSERT_OK(yoke_array_read(arrays[0], values, 3));
    ck_assert_float_eq(values[2], 3.0f * 2.0f * (float)devices);
    m.left = 0;
    ASSERT_REFUSED(YOKE_ERROR_COMM, "the cable is cut", yoke_team_allreduce(team, arrays, 1));
    ASSERT_OK(yoke_array_read(arrays[0], values, 3));
    ck_assert_float_eq(values[2], 3.0f * 2.0f * (float)devices);
    for (size_t k = 0; k < devices; k++)
        yoke_array_destroy(arrays[k]);
    yoke_team_destroy(team);
    yoke_context_destroy(context);
    yoke_comm_destroy(&m.comm);
    ck_assert_int_eq(destroyed, 1);
    end_mirror(&m);
}
END_TEST

START_TEST(a_failed_step)
{
    const team_run run = {.net = TEAM_MLP, .bucket_bytes = 1024};
    yoke_context *context;
    yoke_trainer *trainer;
    mirror m;

    make_mirror(&m);
    ASSERT_OK(yoke_context_create(NULL, &context));
    trainer = mirror_trainer(context, &m, &run, team_options(&run));
    ck_assert_ptr_nonnull(trainer);
    ck_assert_uint_gt(trainer->crew.buckets.count, 1); /* others are under way */
    ASSERT_OK(team_step(&run, trainer, 0, NULL));
    ASSERT_OK(yoke_trainer_wait(trainer));
    m.left = 0;
    if (team_step(&run, trainer, 1, NULL) == YOKE_OK)
        ASSERT_REFUSED(YOKE_ERROR_COMM, "the cable is cut", yoke_trainer_wait(trainer));
    ck_assert(m.failed);
    yoke_trainer_destroy(trainer);
    yoke_context_destroy(context);
    end_mirror(&m);
}
END_TEST

static yoke_status
send_nothing(yoke_comm *comm, const void *data, size_t bytes, int32_t peer, int32_t tag,
             void **request)
{
    (void)comm, (void)data, (void)bytes, (void)peer, (void)tag, (void)request;
    return YOKE_OK;
}

/* A comm that only sums and gathers is enough for all but stages. */
START_TEST(stages_need_messages)
{
    const team_run run = {.net = TEAM_MLP};
    yoke_graph *g = team_graph(run.net);
    yoke_trainer_options o = team_options(&run);
    yoke_trainer *trainer = NULL;
    yoke_context *context;
    yoke_team *team;
    mirror m;

    o.stages = 2;
    make_mirror(&m);
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(
        yoke_team_create(context, test_selector(), &(yoke_team_options){.comm = &m.comm}, &team));
    for (int receives = 0; receives < 2; receives++) {
        m.comm.send_start = receives ? NULL : send_nothing;
        m.comm.receive_start = NULL;
        ASSERT_REFUSED(YOKE_ERROR_UNSUPPORTED, "this comm sends none",
                       yoke_trainer_create(team, g, &o, &trainer));
        ck_assert_int_eq(m.told, receives + 1);
    }
    yoke_graph_destroy(g);
    yoke_team_destroy(team);
    yoke_context_destroy(context);
    yoke_comm_destroy(&m.comm);
    end_mirror(&m);
}
END_TEST

/* The fastest algorithm is an argument of each reduction, and of the memory for it. */
START_TEST(an_algorithm_is_an_argument)
{
    team_run run = {.net = TEAM_MLP};
    yoke_trainer_options o;
    yoke_context *context;
    yoke_trainer *trainer;
    mirror m;

    run.wisdom = scratch_path("wisdom");
    o = team_options(&run);
    o.level = YOKE_PLAN_MEASURE;
    ASSERT_OK(yoke_context_create(NULL, &context));
    make_mirror(&m);
    m.comm.algorithm = mirror_algorithm;
    trainer = mirror_trainer(context, &m, &run, o);
    ck_assert_ptr_nonnull(trainer);
    ck_assert_ptr_nonnull(strstr(trainer->crew.buckets.text, "quick (measured)"));
    m.last_algorithm = 0;
    ASSERT_OK(team_step(&run, trainer, 0, NULL));
    ASSERT_OK(yoke_trainer_wait(trainer));
    ck_assert_uint_eq(m.last_algorithm, 1);
    yoke_trainer_destroy(trainer);
    end_mirror(&m);
    /* A failure while they are measured. */
    make_mirror(&m);
    m.comm.algorithm = mirror_algorithm;
    m.left = 2;
    run.wisdom = o.wisdom = scratch_path("other");
    ck_assert_ptr_null(mirror_trainer(context, &m, &run, o));
    ck_assert(m.failed);
    end_mirror(&m);
    yoke_context_destroy(context);
}
END_TEST

/* With any-split processes gather, once a step, what says whether it is good. The sums of granules
 * are on their way by then, unless nothing is to overlap. A step that was not good is made again,
 * after its sums have arrived: the first one, and one behind other gradients. */
START_TEST(sums_of_granules_do_not_wait)
{
    const team_run run = {.net = _i ? TEAM_CONV : TEAM_MLP, .bucket_bytes = 1024};
    yoke_trainer_options o = team_options(&run);
    yoke_context *context;
    size_t buckets;

    o.reproducible = YOKE_REPRODUCIBLE_ANY_SPLIT;
    ASSERT_OK(yoke_context_create(NULL, &context));
    for (int waits = 0; waits < 2; waits++) {
        yoke_trainer *t;
        mirror m;

        make_mirror(&m);
        o.no_overlap = waits;
        t = mirror_trainer(context, &m, &run, o);
        ck_assert_ptr_nonnull(t);
        buckets = t->crew.buckets.count;
        ck_assert_uint_gt(buckets, 1);
        m.started = 0;
        ASSERT_OK(team_step(&run, t, 0, NULL));
        ASSERT_OK(yoke_trainer_wait(t));
        ck_assert_uint_eq(m.started, waits ? buckets : 2 * buckets);
        m.started = 0;
        m.behind = 0;
        m.before = SIZE_MAX;
        ASSERT_OK(team_step(&run, t, 1, NULL));
        ASSERT_OK(yoke_trainer_wait(t));
        ck_assert_uint_eq(m.started, buckets);
        /* Behind all sums something is gathered in any case. */
        ck_assert_int_eq(m.behind, waits ? 1 : _i ? 3 : 2);
        if (_i == 0)
            ck_assert_uint_eq(m.before, waits ? 0 : buckets);
        ck_assert_int_eq(m.under_way, 0);
        yoke_trainer_destroy(t);
        end_mirror(&m);
    }
    yoke_context_destroy(context);
}
END_TEST

static const team_run divided = {
    .net = TEAM_MLP, .shard = YOKE_SHARD_WEIGHTS, .bucket_bytes = 1024};

/* Reads the tensors of a trainer with divided weights, and returns how many pieces were sent. */
static int
pieces_of_reading(mirror *m, yoke_trainer *t)
{
    const int before = m->gathers;
    team_outcome outcome;

    ASSERT_OK(team_read(t, &outcome));
    team_free(&outcome);
    return m->gathers - before;
}

/* One after the other, tensors of a bucket are read of one gather, until they may have changed. */
START_TEST(a_bucket_is_gathered_once)
{
    float values[TEAM_CLASSES], other[TEAM_CLASSES];
    const yoke_node *bias;
    yoke_context *context;
    yoke_trainer *t;
    size_t tensors;
    int before, once;
    mirror m;

    make_mirror(&m);
    ASSERT_OK(yoke_context_create(NULL, &context));
    t = mirror_trainer(context, &m, &divided, team_options(&divided));
    ck_assert_ptr_nonnull(t);
    tensors = yoke_graph_parameter_count(yoke_trainer_get_graph(t));
    bias = yoke_graph_get_parameter(yoke_trainer_get_graph(t), tensors - 1);
    ck_assert_uint_lt(t->crew.buckets.count, tensors);
    once = pieces_of_reading(&m, t);
    ck_assert_int_gt(once, 0);
    ck_assert_uint_le((size_t)once, 2 * t->crew.buckets.count); /* in two pieces at most */
    /* The last one is there. */
    before = m.gathers;
    ASSERT_OK(yoke_trainer_read(t, yoke_node_name(bias), values, TEAM_CLASSES));
    ck_assert_int_eq(m.gathers, before);
    for (size_t i = 0; i < TEAM_CLASSES; i++)
        values[i] = (float)i + 0.5f;
    ASSERT_OK(yoke_trainer_write(t, yoke_node_name(bias), values, TEAM_CLASSES));
    before = m.gathers;
    ASSERT_OK(yoke_trainer_read(t, yoke_node_name(bias), other, TEAM_CLASSES));
    ck_assert_int_gt(m.gathers, before);
    ck_assert_mem_eq(values, other, sizeof values);
    ASSERT_OK(team_step(&divided, t, 0, NULL));
    ck_assert_int_eq(pieces_of_reading(&m, t), once);
    yoke_trainer_destroy(t);
    yoke_context_destroy(context);
    end_mirror(&m);
}
END_TEST

/* What all processes do together in a call that fails here. */
static yoke_status
call_together(yoke_trainer *t, int what)
{
    const yoke_node *first = yoke_graph_get_parameter(yoke_trainer_get_graph(t), 0);
    static float values[TEAM_SAMPLES * 24];
    yoke_dataset *dataset = team_dataset(&divided, 0, 24);
    yoke_feed feeds[2];
    yoke_status status = YOKE_OK;
    yoke_result result;
    char hash[33];

    team_feeds(&divided, 0, 24, feeds);
    switch (what) {
    case 0:
        status = yoke_trainer_hash(t, NULL, hash);
        break;
    case 1:
        status = yoke_trainer_read(t, yoke_node_name(first), values, yki_shape_count(first->shape));
        break;
    case 2:
        status = yoke_trainer_save(t, scratch_path("model"));
        break;
    case 3:
        status = team_step(&divided, t, 0, NULL);
        break;
    case 4:
        status = yoke_trainer_evaluate(t, dataset, &result);
        break;
    case 5:
        status = yoke_trainer_predict(t, "y", 24, feeds, 1, values, 24 * TEAM_CLASSES);
        break;
    }
    yoke_dataset_destroy(dataset);
    return status;
}

/* What a process does not do, while others wait for its part of the weights, it tells them. */
static void
fail_together(int what)
{
    yoke_context *context;
    yoke_trainer *t;
    char hash[33];
    mirror m;

    make_mirror(&m);
    ASSERT_OK(yoke_context_create(NULL, &context));
    t = mirror_trainer(context, &m, &divided, team_options(&divided));
    ck_assert_ptr_nonnull(t);
    ASSERT_OK(yoke_trainer_hash(t, NULL, hash));
    ck_assert_int_eq(m.told, 0);
    if (what == 6) {
        m.comm.rank = 1;
        ASSERT_STATUS(YOKE_ERROR_OUT_OF_MEMORY, yki_trainer_agree(t, YOKE_ERROR_OUT_OF_MEMORY));
    } else {
        m.cut = true;
        ASSERT_STATUS(YOKE_ERROR_COMM, call_together(t, what));
        ck_assert(m.failed);
    }
    ck_assert_int_eq(m.told, 1);
    ASSERT_STATUS(YOKE_ERROR_STATE, yoke_trainer_wait(t));
    yoke_trainer_destroy(t);
    yoke_context_destroy(context);
    end_mirror(&m);
}

START_TEST(a_failed_gather)
{
    fail_together(_i);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("comm");
    TCase *tcase = test_case(suite, "comm"), *trained = test_case(suite, "trained");

    tcase_add_test(tcase, comm_destroy_calls_the_table);
    tcase_add_test(tcase, precisions_are_compared_to_their_end);
    tcase_add_test(tcase, weights_of_shards_are_compared_to_their_end);
    tcase_set_timeout(trained, 120);
    tcase_add_checked_fixture(trained, scratch_set_up, scratch_tear_down);
    tcase_add_test(trained, teams_keep_a_comm_alive);
    tcase_add_test(trained, a_failed_sum_of_arrays);
    tcase_add_test(trained, a_failed_step);
    tcase_add_test(trained, stages_need_messages);
    tcase_add_test(trained, a_bucket_is_gathered_once);
    tcase_add_loop_test(trained, a_failed_gather, 0, 7);
    tcase_add_test(trained, an_algorithm_is_an_argument);
    tcase_add_loop_test(trained, sums_of_granules_do_not_wait, 0, 2);
    return suite;
}
