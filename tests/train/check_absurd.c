/* SPDX-License-Identifier: Apache-2.0
 *
 * check_absurd.c - some hundred calls that make no sense, over the whole public API: each is
 * refused with a status and a sentence that says what is wrong, and nothing crashes.
 *
 * A call that changes what it is given gets an object of its own. A sentence is judged by what
 * it must not have (nothing of a format, of a NULL that was printed, of the call before), and,
 * where a part is given, by what it names. tests/mpi has the calls of libyoke-mpi.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "support/opened.h"
#include "support/scratch.h"
#include "train/absurd.h"

TESTS_SHARE_A_PROCESS

enum { BATCH = 4, WIDTH = 6, CLASSES = 3, LEAST = 300 };

int *absurd_calls;

/* ---- judging ---- */

void
absurd_mark(void)
{
    ++*absurd_calls;
    (void)yoke_fail(YOKE_ERROR_INTERNAL, MARK);
}

void
absurd_judge(const char *call, yoke_status status, const char *part)
{
    static const char *const bad[] = {MARK, "(null)", "(nil)", "%", "-1.#", "  ", "\n\n"};
    const char *sentence = yoke_last_error();

    ck_assert_msg(status < 0 && status >= YOKE_ERROR_INTERNAL && status != YOKE_ERROR_INTERNAL,
                  "%s: %s: %s", call, yoke_status_name(status), sentence);
    ck_assert_msg(strlen(sentence) >= 10, "%s: \"%s\"", call, sentence);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!strstr(sentence, bad[i]), "%s: \"%s\"", call, sentence);
    ck_assert_msg(strstr(sentence, part) != NULL, "%s: \"%s\" is not in \"%s\"", call, part,
                  sentence);
}

/* ---- making things ---- */

/* A small classifier of (WIDTH) floats. */
static yoke_graph *
network(void)
{
    yoke_graph *graph;
    yoke_node *x, *t, *y;

    ASSERT_OK(yoke_graph_create(&graph));
    x = yoke_input(graph, "x", YOKE_F32, yoke_shape(WIDTH));
    t = yoke_target(graph, "label", YOKE_I32, yoke_shape());
    y = yoke_dense(graph, x, &(yoke_dense_options){.units = CLASSES});
    yoke_graph_set_output(graph, "y", y);
    yoke_graph_set_loss(graph, yoke_softmax_cross_entropy(graph, y, t, NULL));
    yoke_graph_add_metric(graph, "right", yoke_accuracy(graph, y, t));
    ASSERT_OK(yoke_graph_status(graph));
    return graph;
}

/* What a row of a table changes in an optimizer, a schedule or a group. */
typedef struct field {
    const char *sentence;
    size_t offset;
    enum { REAL, WHOLE, WORD } type;
    double value;
} field;

static void
put(void *object, const field *f)
{
    const float real = (float)f->value;
    const int64_t whole = (int64_t)f->value;
    const int32_t word = (int32_t)f->value;
    char *at = (char *)object + f->offset;

    if (f->type == REAL)
        memcpy(at, &real, sizeof real);
    else if (f->type == WHOLE)
        memcpy(at, &whole, sizeof whole);
    else
        memcpy(at, &word, sizeof word);
}

#define AT(type, member) offsetof(yoke_##type, member)

static const field optimizers[] = {
    {"kind is 99; must be between 0 and 3", AT(optimizer, kind), WORD, 99},
    {"kind is -1; must be between 0 and 3", AT(optimizer, kind), WORD, -1},
    {"rate is -0.5; must be at least 0", AT(optimizer, learning_rate), REAL, -0.5},
    {"rate is nan", AT(optimizer, learning_rate), REAL, NAN},
    {"rate is inf", AT(optimizer, learning_rate), REAL, INFINITY},
    {"momentum is 2; must be at least 0 and below 1", AT(optimizer, momentum), REAL, 2},
    {"momentum is 1;", AT(optimizer, momentum), REAL, 1},
    {"momentum is nan", AT(optimizer, momentum), REAL, NAN},
    {"beta1 is 1; must be at least 0 and below 1", AT(optimizer, beta1), REAL, 1},
    {"beta1 is -1", AT(optimizer, beta1), REAL, -1},
    {"beta2 is nan", AT(optimizer, beta2), REAL, NAN},
    {"beta2 is 7", AT(optimizer, beta2), REAL, 7},
    {"epsilon is -1", AT(optimizer, epsilon), REAL, -1},
    {"epsilon is nan", AT(optimizer, epsilon), REAL, NAN},
    {"weight_decay is -1", AT(optimizer, weight_decay), REAL, -1},
    {"weight_decay is inf", AT(optimizer, weight_decay), REAL, INFINITY},
    {"reserved[0] of an optimizer is 3", AT(optimizer, reserved[0]), WORD, 3},
    {"reserved[7] of an optimizer is 3", AT(optimizer, reserved[7]), WORD, 3},
};

static const field schedules[] = {
    {"kind is 99; must be between 0 and 4", AT(schedule, kind), WORD, 99},
    {"kind is -1", AT(schedule, kind), WORD, -1},
    {"factor is nan", AT(schedule, factor), REAL, NAN},
    {"factor is -1; must be at least 0", AT(schedule, factor), REAL, -1},
    {"initial is inf", AT(schedule, initial), REAL, INFINITY},
    {"final_factor is nan", AT(schedule, final_factor), REAL, NAN},
    {"warmup is -1; must be at least 0", AT(schedule, warmup), WHOLE, -1},
    {"period is 0; must be at least 1", AT(schedule, period), WHOLE, 0},
    {"period is -5", AT(schedule, period), WHOLE, -5},
    {"steps is -1; must be at least 0", AT(schedule, steps), WHOLE, -1},
    {"reserved[0] of a schedule is 1", AT(schedule, reserved[0]), WORD, 1},
    {"reserved[3] of a schedule is 1", AT(schedule, reserved[3]), WORD, 1},
};

static const field groups[] = {
    {"learning_rate_scale is nan", AT(parameter_group, learning_rate_scale), REAL, NAN},
    {"learning_rate_scale is -1", AT(parameter_group, learning_rate_scale), REAL, -1},
    {"weight_decay is -1", AT(parameter_group, weight_decay), REAL, -1},
    {"reserved[2] of a group is 9", AT(parameter_group, reserved[2]), WORD, 9},
};

/* The same settings to a replica and to a trainer. */
static void
refuse_settings(const char *part, yoke_graph *graph, yoke_team *team, yoke_optimizer optimizer,
                const yoke_parameter_group *group, const yoke_schedule *schedule)
{
    const yoke_replica_options r = {
        .batch = BATCH, .optimizer = optimizer, .groups = group, .group_count = group != NULL};
    const yoke_trainer_options t = {.batch = BATCH,
                                    .optimizer = optimizer,
                                    .groups = group,
                                    .group_count = group != NULL,
                                    .schedule = schedule};
    yoke_replica *replica;
    yoke_trainer *trainer;

    if (!schedule)
        REFUSED(part, yoke_replica_create(devices.device[0], graph, &r, &replica));
    REFUSED(part, yoke_trainer_create(team, graph, &t, &trainer));
}

START_TEST(settings)
{
    const yoke_optimizer plain = yoke_sgd(0.1f, 0);
    yoke_graph *graph = network();
    yoke_team *team;

    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    EACH (i, optimizers) {
        yoke_optimizer o = yoke_adam(0.1f);

        put(&o, &optimizers[i]);
        refuse_settings(optimizers[i].sentence, graph, team, o, NULL, NULL);
    }
    EACH (i, groups) {
        yoke_parameter_group group = {.pattern = "*"};

        put(&group, &groups[i]);
        refuse_settings(groups[i].sentence, graph, team, plain, &group, NULL);
    }
    refuse_settings("the pattern of group 0 is NULL", graph, team, plain,
                    &(yoke_parameter_group){0}, NULL);
    refuse_settings("group 0: no parameter matches \"conv*\"", graph, team, plain,
                    &(yoke_parameter_group){.pattern = "conv*"}, NULL);
    refuse_settings("no parameter matches \"\"", graph, team, plain,
                    &(yoke_parameter_group){.pattern = ""}, NULL);
    EACH (i, schedules) {
        yoke_schedule s = {.kind = YOKE_SCHEDULE_STEP, .factor = 0.5f, .period = 10};

        put(&s, &schedules[i]);
        refuse_settings(schedules[i].sentence, graph, team, plain, NULL, &s);
        absurd_mark();
        ck_assert(isnan(yoke_schedule_factor(&s, 3)));
        absurd_judge("yoke_schedule_factor", YOKE_ERROR_INVALID_ARGUMENT, schedules[i].sentence);
    }
    refuse_settings("steps is 0; must be at least 1", graph, team, plain, NULL,
                    &(yoke_schedule){.kind = YOKE_SCHEDULE_COSINE});
    absurd_mark();
    ck_assert(isnan(yoke_schedule_factor(&(yoke_schedule){0}, -1)));
    absurd_judge("yoke_schedule_factor", YOKE_ERROR_INVALID_ARGUMENT, "step of a schedule is -1");
    yoke_team_destroy(team);
    yoke_graph_destroy(graph);
}
END_TEST

START_TEST(contexts_and_selections)
{
    static const char *const selectors[] = {"",
                                            ",",
                                            "gpu:",
                                            "cpu:-1",
                                            "cpu:99999999999999999999",
                                            "cpu:0/0",
                                            "cpu:0/-2",
                                            "cpu:0/1+",
                                            "cpu:0@",
                                            "cpu:0@0",
                                            "cpu:0@-1MiB",
                                            "cpu:0@1XiB",
                                            "name~",
                                            "nonsense",
                                            "cpu:0/numa/2",
                                            "(null)",
                                            "cpu:0,cpu:0",
                                            "\xff",
                                            "all/",
                                            "cpu:999"};
    yoke_device *device = devices.device[0];
    yoke_selection *s = NULL;
    yoke_overlap overlap;
    yoke_device_info info;

    EACH (i, selectors) {
        yoke_status status;

        absurd_mark();
        status = yoke_selection_create(devices.context, selectors[i], NULL, &s);
        ck_assert_msg(status != YOKE_OK, "the selector \"%s\" is taken", selectors[i]);
        ck_assert_msg(!strstr(yoke_last_error(), MARK), "\"%s\": no sentence", selectors[i]);
    }
    REFUSED("", yoke_selection_create(NULL, "all", NULL, &s));
    REFUSED("", yoke_selection_create(devices.context, "all", NULL, NULL));
    REFUSED("", yoke_context_create(NULL, NULL));
    REFUSED("", yoke_device_get_info(NULL, &info));
    REFUSED("", yoke_device_get_info(device, NULL));
    REFUSED("", yoke_device_get_memory(device, NULL));
    REFUSED("", yoke_device_measure_peak(NULL, NULL));
    REFUSED("", yoke_selection_measure_overlap(NULL, 1, &overlap));
    REFUSED("", yoke_selection_measure_overlap(devices.selection, 1, NULL));
    HARMLESS(yoke_device_get_info_sized(device, &info, 0));
    NOTHING(yoke_context_device_count(NULL));
    NOTHING(yoke_context_get_device(devices.context, SIZE_MAX));
    NOTHING(yoke_context_problem_count(NULL));
    NOTHING(yoke_context_get_problem(devices.context, SIZE_MAX));
    NOTHING(yoke_selection_count(NULL));
    NOTHING(yoke_selection_get(devices.selection, SIZE_MAX));
    NOTHING(strcmp(yoke_status_name((yoke_status)77), "YOKE_ERROR_UNKNOWN"));
    HARMLESS(yoke_status_string((yoke_status)-12345));
    HARMLESS(yoke_fail(YOKE_ERROR_IO, NULL));
    HARMLESS((yoke_log_set(NULL, NULL, (yoke_log_level)99), 0));
    HARMLESS((yoke_log_write((yoke_log_level)-7, NULL), 0));
    HARMLESS((yoke_context_destroy(NULL), yoke_selection_destroy(NULL), yoke_free(NULL), 0));
}
END_TEST

/* ---- replicas ---- */

static void
ignore_task(void *user, const yoke_task_info *info)
{
    (void)user;
    (void)info;
}

START_TEST(replicas)
{
    const yoke_replica_options o = {.batch = BATCH, .level = YOKE_PLAN_ESTIMATE};
    yoke_graph *graph = network();
    yoke_device *device = devices.device[0];
    float f[64] = {0};
    int32_t wrong[BATCH] = {0, CLASSES, -7, INT32_MAX};
    yoke_replica *r, *none;
    double sum, count;

    REFUSED("", yoke_replica_create(NULL, graph, &o, &none));
    REFUSED("", yoke_replica_create(device, NULL, &o, &none));
    REFUSED("", yoke_replica_create(device, graph, NULL, &none));
    REFUSED("", yoke_replica_create(device, graph, &o, NULL));
    EACH (i, absurd_sizes)
        REFUSED("batch is",
                yoke_replica_create(device, graph,
                                    &(yoke_replica_options){.batch = absurd_sizes[i]}, &none));
    REFUSED("level", yoke_replica_create(
                         device, graph,
                         &(yoke_replica_options){.batch = 1, .level = (yoke_plan_level)9}, &none));
    REFUSED("recompute is 9",
            yoke_replica_create(
                device, graph,
                &(yoke_replica_options){.batch = 1, .recompute = (yoke_recompute_choice)9}, &none));
    REFUSED("state is 2; must be YOKE_STATE_F32",
            yoke_replica_create(device, graph,
                                &(yoke_replica_options){.batch = 1, .state = (yoke_state_choice)2},
                                &none));
    REFUSED("groups is NULL",
            yoke_replica_create(device, graph,
                                &(yoke_replica_options){.batch = 1, .group_count = 3}, &none));
    ASSERT_OK(yoke_replica_create(device, graph, &o, &r));
    REFUSED("", yoke_replica_backward(r));
    REFUSED("", yoke_replica_update(r, 1));
    REFUSED("", yoke_replica_forward(r, 2));
    REFUSED("", yoke_replica_read_loss(r, &sum, &count));
    REFUSED("", yoke_replica_read_output(r, "y", f, 3));
    EACH (i, absurd_sizes) {
        int64_t n = absurd_sizes[i];

        REFUSED("samples", yoke_replica_set_input(r, n, yoke_feed_f32("x", f, n)));
        REFUSED("x", yoke_replica_set_input(r, 1, yoke_feed_f32("x", f, n)));
        REFUSED("", yoke_replica_forward(r, n));
        REFUSED("", yoke_replica_evaluate(r, n));
        REFUSED("", yoke_replica_profile(r, n, 1, ignore_task, NULL));
        REFUSED("dense1.bias", yoke_replica_read(r, "dense1.bias", f, n));
        REFUSED("dense1.bias", yoke_replica_write(r, "dense1.bias", f, n));
    }
    REFUSED("label", yoke_replica_set_input(r, BATCH, yoke_feed_i32("label", wrong, BATCH)));
    REFUSED("nobody", yoke_replica_set_input(r, 1, yoke_feed_f32("nobody", f, 1)));
    REFUSED("i32", yoke_replica_set_input(r, 1, yoke_feed_f32("label", f, 1)));
    REFUSED("nobody", yoke_replica_read(r, "nobody", f, 1));
    REFUSED("", yoke_replica_read(r, "", f, 1));
    REFUSED("", yoke_replica_read_gradient(r, "x", f, 1));
    REFUSED("nobody", yoke_replica_get_parameter(r, "nobody", &(yoke_array *){NULL}));
    REFUSED("", yoke_replica_get_gradient(r, NULL, &(yoke_array *){NULL}));
    REFUSED("", yoke_replica_get_loss(r, NULL));
    REFUSED("", yoke_replica_save(r, NULL));
    REFUSED("", yoke_replica_save(r, ""));
    REFUSED("/nowhere", yoke_replica_save(r, "/nowhere/at/all"));
    REFUSED("/nowhere", yoke_replica_load_weights(r, "/nowhere/at/all", NULL));
    ASSERT_OK(yoke_replica_set_input(r, 1, yoke_feed_f32("x", f, WIDTH)));
    ASSERT_OK(yoke_replica_set_input(r, 1, yoke_feed_i32("label", wrong, 1)));
    ASSERT_OK(yoke_replica_forward(r, 1));
    REFUSED("", yoke_replica_read_output(r, "y", f, SIZE_MAX));
    REFUSED("nobody", yoke_replica_read_metric(r, "nobody", &sum, &count));
    ASSERT_OK(yoke_replica_backward(r));
    REFUSED("rate_factor", yoke_replica_update(r, NAN));
    REFUSED("rate_factor", yoke_replica_update(r, -1));
    NOTHING(yoke_replica_flops(NULL, 1) != 0);
    HARMLESS(yoke_replica_flops(r, -5));
    yoke_replica_destroy(r);
    yoke_graph_destroy(graph);
}
END_TEST

/* ---- data ---- */

START_TEST(datasets)
{
    static float values[8];
    yoke_field f = {"x", YOKE_F32, yoke_shape(2), values, 0}, bad;
    const int64_t beyond = 4, below = -1;
    yoke_dataset *d, *none, *other;

    ASSERT_OK(yoke_dataset_create(4, &f, 1, NULL, &d));
    REFUSED("", yoke_dataset_create(4, NULL, 1, NULL, &none));
    REFUSED("", yoke_dataset_create(4, &f, 0, NULL, &none));
    REFUSED("", yoke_dataset_create(4, &f, SIZE_MAX, NULL, &none));
    REFUSED("", yoke_dataset_create(4, &f, 1, NULL, NULL));
    REFUSED("", yoke_dataset_create(-1, &f, 1, NULL, &none));
    REFUSED("", yoke_dataset_create(4, (yoke_field[]){f, f}, 2, NULL, &none));
    EACH (i, absurd_sizes) {
        bad = f;
        bad.shape.dim[0] = absurd_sizes[i];
        REFUSED("field \"x\": the size of axis 0", yoke_dataset_create(4, &bad, 1, NULL, &none));
        REFUSED("", yoke_dataset_read(d, "x", &beyond, 1, values, (size_t)absurd_sizes[i]));
        REFUSED("",
                yoke_dataset_subset(d, &beyond, absurd_sizes[i] < 0 ? absurd_sizes[i] : 1, &none));
    }
    bad = f;
    bad.shape.reserved = 1;
    REFUSED("reserved of its shape is 1", yoke_dataset_create(4, &bad, 1, NULL, &none));
    bad = f;
    bad.name = "";
    REFUSED("name", yoke_dataset_create(4, &bad, 1, NULL, &none));
    bad = f;
    bad.type = (yoke_type)-3;
    REFUSED("type", yoke_dataset_create(4, &bad, 1, NULL, &none));
    REFUSED("the index of a sample is 4", yoke_dataset_read(d, "x", &beyond, 1, values, 8));
    REFUSED("the index of a sample is -1", yoke_dataset_read(d, "x", &below, 1, values, 8));
    REFUSED("", yoke_dataset_read(d, "x", NULL, 1, values, 8));
    REFUSED("", yoke_dataset_read(d, NULL, &beyond, 1, values, 8));
    REFUSED("", yoke_dataset_read(NULL, "x", &beyond, 1, values, 8));
    REFUSED("", yoke_dataset_split(d, NAN, 1, &none, &other));
    REFUSED("", yoke_dataset_split(d, -0.5, 1, &none, &other));
    REFUSED("", yoke_dataset_split(d, 0.5, 1, NULL, &other));
    REFUSED("", yoke_dataset_set_scaling(d, "nobody", values, values, 1));
    REFUSED("", yoke_dataset_set_scaling(d, "x", values, values, 7));
    REFUSED("", yoke_dataset_set_scaling(d, "x", NULL, NULL, 1));
    REFUSED("", yoke_dataset_set_scaling(d, "x", &no_numbers[0], &no_numbers[1], 1));
    REFUSED("", yoke_dataset_measure_scaling(d, "nobody"));
    REFUSED("", yoke_dataset_set_augmentation(
                    d, &(yoke_augmentation){.field = "nobody", .flip = true}));
    REFUSED("", yoke_dataset_set_augmentation(d, &(yoke_augmentation){.field = "x", .shift = -1}));
    REFUSED("", yoke_dataset_set_augmentation(d, &(yoke_augmentation){.field = "x", .noise = NAN}));
    REFUSED("", yoke_dataset_set_augmentation(
                    d, &(yoke_augmentation){.field = "x", .shift = 1, .shift_part = NAN}));
    REFUSED("", yoke_dataset_set_class_names(d, NULL, 3));
    HARMLESS(yoke_dataset_set_class_names(d, (const char *[]){"a", NULL}, 2));
    NOTHING(yoke_dataset_get_field(d, SIZE_MAX));
    NOTHING(yoke_dataset_get_class_name(d, 9));
    NOTHING(yoke_dataset_count(NULL));
    HARMLESS((yoke_dataset_destroy(NULL), 0));
    yoke_dataset_destroy(d);
}
END_TEST

START_TEST(files)
{
    static const char *const damaged[] = {"a.npy", "a.csv", "a.idx",   "a.safetensors",
                                          "a",     "a.bin", "a.idx.gz"};
    static const char *const none[] = {"", "/nowhere/at/all", "/dev/null/x"};
    yoke_dataset *d;
    yoke_model *m;
    yoke_checkpoint *c;

    EACH (i, none) {
        REFUSED("", yoke_dataset_open(none[i], NULL, &d));
        REFUSED("", yoke_model_load(none[i], &m));
        REFUSED("", yoke_checkpoint_open(none[i], &c));
    }
    EACH (i, damaged) {
        scratch_write(scratch_path(damaged[i]), "\x1f\x8b\xff\xff\xff\xff\xff\x7f\0,\n", 11);
        REFUSED("", yoke_dataset_open(scratch_path(damaged[i]), NULL, &d));
        REFUSED("", yoke_model_load(scratch_path(damaged[i]), &m));
        REFUSED("", yoke_checkpoint_open(scratch_path(damaged[i]), &c));
    }
    REFUSED("", yoke_dataset_open(NULL, NULL, &d));
    REFUSED("", yoke_dataset_open("x", NULL, NULL));
    REFUSED("", yoke_model_load(NULL, &m));
    REFUSED("", yoke_model_load("x", NULL));
    REFUSED("", yoke_checkpoint_open(NULL, &c));
    REFUSED("", yoke_checkpoint_open("x", NULL));
    HARMLESS((yoke_checkpoint_destroy(NULL), yoke_model_destroy(NULL), 0));
}
END_TEST

/* ---- teams and trainers ---- */

START_TEST(teams_and_arrays)
{
    float f[16] = {0};
    int64_t counts[16] = {0};
    yoke_device *device = devices.device[0];
    yoke_team *team, *none;
    yoke_array *a, *floats, *nothing = NULL;
    static const char *const shares[] = {
        "", "nan", "-1", "inf", "1,,2", "80,20,1,1,1,1,1,1,1,1,1,1", "0", "%s"};

    REFUSED("", yoke_team_create(NULL, NULL, NULL, &none));
    REFUSED("", yoke_team_create(devices.context, "nonsense", NULL, &none));
    REFUSED("", yoke_team_create(devices.context, NULL, NULL, NULL));
    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    EACH (i, shares) {
        yoke_status status;

        absurd_mark();
        status = yoke_team_split(team, shares[i], 8, counts);
        ck_assert_msg(status != YOKE_OK, "shares \"%s\" are taken", shares[i]);
        ck_assert_msg(!strstr(yoke_last_error(), MARK), "shares \"%s\": no sentence", shares[i]);
    }
    REFUSED("", yoke_team_split(team, "even", -1, counts));
    REFUSED("", yoke_team_split(team, "even", 1, NULL));
    REFUSED("", yoke_team_split(NULL, "even", 1, counts));
    REFUSED("", yoke_team_bind_place(team, "", "nonsense"));
    REFUSED("", yoke_team_bind_place(team, NULL, NULL));
    EACH (i, absurd_sizes)
        REFUSED("", yoke_array_create(device, YOKE_F32, absurd_sizes[i], &a));
    REFUSED("", yoke_array_create(device, (yoke_type)5, 1, &a));
    REFUSED("", yoke_array_create(device, YOKE_F32, 0, &a));
    REFUSED("", yoke_array_create(NULL, YOKE_F32, 1, &a));
    ASSERT_OK(yoke_array_create(device, YOKE_F32, 4, &floats));
    EACH (i, absurd_sizes) {
        REFUSED("", yoke_array_write(floats, f, absurd_sizes[i]));
        REFUSED("", yoke_array_read(floats, f, absurd_sizes[i]));
        REFUSED("", yoke_team_scatter(team, counts, -1, f, &floats));
    }
    REFUSED("", yoke_array_read(NULL, f, 4));
    REFUSED("", yoke_array_write(floats, NULL, 4));
    REFUSED("", yoke_team_gather(team, NULL, 1, &floats, f));
    REFUSED("", yoke_team_scatter(team, counts, 1, NULL, &floats));
    REFUSED("", yoke_team_allreduce(team, NULL, 1));
    REFUSED("", yoke_team_allreduce(NULL, &floats, 1));
    REFUSED("", yoke_team_allreduce(team, &nothing, 1));
    NOTHING(yoke_team_get_device(team, SIZE_MAX));
    NOTHING(yoke_team_local_count(NULL));
    NOTHING(yoke_array_count(NULL));
    NOTHING(yoke_array_get_device(NULL));
    HARMLESS((yoke_team_destroy(NULL), yoke_array_destroy(NULL), yoke_comm_destroy(NULL), 0));
    yoke_array_destroy(floats);
    yoke_team_destroy(team);
}
END_TEST

START_TEST(trainers)
{
    static float f[BATCH * WIDTH];
    static int32_t labels[BATCH];
    const yoke_feed feeds[] = {yoke_feed_f32("x", f, WIDTH), yoke_feed_i32("label", labels, 1)};
    const yoke_trainer_options o = {
        .batch = BATCH, .level = YOKE_PLAN_ESTIMATE, .core_groups = YOKE_CORE_GROUPS_NEVER};
    yoke_trainer_options bad;
    yoke_graph *graph = network(), *empty;
    yoke_trainer *t, *none;
    yoke_team *team;
    int64_t counts[16];

    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    ASSERT_OK(yoke_graph_create(&empty));
    REFUSED("", yoke_trainer_create(NULL, graph, &o, &none));
    REFUSED("loss", yoke_trainer_create(team, empty, &o, &none));
    EACH (i, absurd_sizes) {
        bad = o;
        bad.batch = absurd_sizes[i];
        REFUSED("batch", yoke_trainer_create(team, graph, &bad, &none));
    }
    bad = o;
    bad.core_groups = (yoke_core_groups_choice)9;
    REFUSED("core_groups is", yoke_trainer_create(team, graph, &bad, &none));
    bad = o;
    bad.shares = "nonsense";
    REFUSED("nonsense", yoke_trainer_create(team, graph, &bad, &none));
    bad = o;
    bad.clip_norm = NAN;
    REFUSED("clip_norm is nan", yoke_trainer_create(team, graph, &bad, &none));
    bad = o;
    bad.clip_value = -1;
    REFUSED("clip_value is -1", yoke_trainer_create(team, graph, &bad, &none));
    bad = o;
    bad.loss_scale = 1024;
    REFUSED("no product is computed in f16", yoke_trainer_create(team, graph, &bad, &none));
    bad.precision = "f16";
    for (size_t i = 0; i < 5; i++) {
        bad.loss_scale = (const float[]){-1, NAN, INFINITY, 1000, FLT_MIN}[i];
        REFUSED("must be 0, or a power of 2", yoke_trainer_create(team, graph, &bad, &none));
    }
    ASSERT_OK(yoke_trainer_create(team, graph, &o, &t));
    REFUSED("", yoke_trainer_step(t, 1, NULL, 0, NULL));
    REFUSED("", yoke_trainer_step(t, 1, NULL, SIZE_MAX, NULL));
    REFUSED("label", yoke_trainer_step(t, 1, feeds, 1, NULL));
    REFUSED("twice", yoke_trainer_step(t, 1, (yoke_feed[]){feeds[0], feeds[0]}, 2, NULL));
    EACH (i, absurd_sizes) {
        REFUSED("samples", yoke_trainer_step(t, absurd_sizes[i], feeds, 2, NULL));
        REFUSED("", yoke_trainer_predict(t, "y", absurd_sizes[i], feeds, 1, f, 3));
        REFUSED("dense1.bias", yoke_trainer_read(t, "dense1.bias", f, (size_t)absurd_sizes[i]));
        REFUSED("dense1.bias", yoke_trainer_write(t, "dense1.bias", f, (size_t)absurd_sizes[i]));
    }
    REFUSED("nobody", yoke_trainer_predict(t, "nobody", 1, feeds, 1, f, 3));
    REFUSED("nobody", yoke_trainer_read(t, "nobody", f, 3));
    REFUSED("", yoke_trainer_evaluate(t, NULL, NULL));
    REFUSED("", yoke_trainer_fit(t, NULL, NULL, NULL));
    REFUSED("", yoke_trainer_set_shares(t, "nonsense"));
    REFUSED("nobody", yoke_trainer_freeze(t, "nobody"));
    REFUSED("", yoke_trainer_set_learning_rate(t, NAN));
    REFUSED("", yoke_trainer_get_shares(t, counts, 0));
    REFUSED("", yoke_trainer_get_shares(t, NULL, 1));
    REFUSED("", yoke_trainer_get_times(t, NULL));
    REFUSED("trainer", yoke_trainer_get_loss_scale(NULL, f, counts));
    REFUSED("scale", yoke_trainer_get_loss_scale(t, NULL, counts));
    REFUSED("skipped", yoke_trainer_get_loss_scale(t, f, NULL));
    REFUSED("", yoke_trainer_save(t, ""));
    REFUSED("", yoke_trainer_load_weights(t, "/nowhere/at/all", NULL));
    NOTHING(yoke_trainer_get_graph(NULL));
    NOTHING(yoke_trainer_get_step(NULL));
    HARMLESS(yoke_trainer_flops(t, -9));
    HARMLESS(yoke_trainer_state_bytes(t));
    NOTHING(yoke_trainer_epoch_count(NULL));
    ASSERT_OK(yoke_trainer_step(t, 1, feeds, 2, NULL));
    ASSERT_OK(yoke_trainer_wait(t));
    yoke_trainer_destroy(t);
    yoke_team_destroy(team);
    yoke_graph_destroy(empty);
    yoke_graph_destroy(graph);
}
END_TEST

START_TEST(models)
{
    float f[64] = {0};
    yoke_graph *graph = network();
    yoke_model *m, *none;
    yoke_predictor *p, *no_predictor;

    REFUSED("", yoke_model_create(NULL, NULL, &none));
    REFUSED("", yoke_model_create(graph, NULL, NULL));
    REFUSED("", yoke_model_create(graph, &(yoke_model_options){.input_type = (yoke_type)8}, &none));
    REFUSED("", yoke_model_create(graph, &(yoke_model_options){.scaling_count = 1}, &none));
    REFUSED("", yoke_model_create(graph, &(yoke_model_options){.class_count = 2}, &none));
    ASSERT_OK(yoke_model_create(graph, NULL, &m));
    REFUSED("", yoke_model_save(m, NULL));
    REFUSED("/nowhere", yoke_model_save(m, "/nowhere/at/all"));
    REFUSED("nobody", yoke_model_read(m, "nobody", f, 1));
    REFUSED("", yoke_model_read(m, "dense1.bias", f, SIZE_MAX));
    REFUSED("", yoke_model_write(m, "dense1.bias", NULL, 3));
    REFUSED("", yoke_model_load_weights(m, "/nowhere/at/all", NULL));
    REFUSED("", yoke_predictor_create(NULL, NULL, m, NULL, &no_predictor));
    REFUSED("nobody",
            yoke_predictor_create(devices.context, devices.selector, m,
                                  &(yoke_predictor_options){.output = "nobody"}, &no_predictor));
    EACH (i, absurd_sizes)
        if (absurd_sizes[i] < 0 || absurd_sizes[i] > INT32_MAX)
            REFUSED("batch",
                    yoke_predictor_create(devices.context, devices.selector, m,
                                          &(yoke_predictor_options){.batch = absurd_sizes[i]},
                                          &no_predictor));
    ASSERT_OK(yoke_predictor_create(
        devices.context, devices.selector, m,
        &(yoke_predictor_options){.batch = 2, .level = YOKE_PLAN_ESTIMATE}, &p));
    EACH (i, absurd_sizes)
        REFUSED("", yoke_predictor_run(p, absurd_sizes[i], yoke_feed_f32("x", f, WIDTH), f, 3));
    REFUSED("x", yoke_predictor_run(p, 1, yoke_feed_f32("nobody", f, WIDTH), f, 3));
    REFUSED("x", yoke_predictor_run(p, 1, yoke_feed_f32(NULL, f, WIDTH), f, 3));
    REFUSED("", yoke_predictor_run(p, 1, yoke_feed_f32("x", f, WIDTH), NULL, 3));
    NOTHING(yoke_model_get_class_name(m, 0));
    NOTHING(yoke_model_class_count(NULL));
    HARMLESS(yoke_predictor_get_shape(NULL));
    HARMLESS((yoke_predictor_destroy(NULL), 0));
    yoke_predictor_destroy(p);
    yoke_model_destroy(m);
    yoke_graph_destroy(graph);
}
END_TEST

/* The last: all of them ran. */
START_TEST(there_are_hundreds)
{
    printf("# %d absurd calls\n", *absurd_calls);
    fflush(stdout);
    if (!getenv("CK_RUN_CASE"))
        ck_assert_int_ge(*absurd_calls, LEAST);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("absurd");
    TCase *tc = test_case(suite, "calls"), *last;

    absurd_calls =
        mmap(NULL, sizeof *absurd_calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (absurd_calls == MAP_FAILED)
        abort();
    tcase_add_checked_fixture(tc, scratch_set_up, scratch_tear_down);
    tcase_add_checked_fixture(tc, open_devices, close_devices);
    absurd_add_graphs(tc);
    tcase_add_test(tc, settings);
    tcase_add_test(tc, contexts_and_selections);
    tcase_add_test(tc, replicas);
    tcase_add_test(tc, datasets);
    tcase_add_test(tc, files);
    tcase_add_test(tc, teams_and_arrays);
    tcase_add_test(tc, trainers);
    tcase_add_test(tc, models);
    last = test_case(suite, "count");
    tcase_add_test(last, there_are_hundreds);
    return suite;
}
