/* SPDX-License-Identifier: Apache-2.0
 *
 * runs.h - training runs that are compared: the same network, data and seed on this
 * team or that, split this way or that. Two runs that should be equal in exact
 * arithmetic differ by rounding alone; 1e-5 of the largest weight is the bound.
 *
 * Networks are smooth (tanh, silu, averages): where an argument of relu lies within
 * rounding of 0, another order of sums may switch a whole gradient.
 */
#ifndef YOKE_TESTS_RUNS_H
#define YOKE_TESTS_RUNS_H

#include "support/devices.h"

enum { TEAM_STEPS = 20, TEAM_TENSORS = 24, TEAM_SAMPLES = 512, TEAM_CLASSES = 5 };
/* Label that does not count. */
enum { TEAM_IGNORED = -7 };

typedef enum team_net {
    TEAM_MLP,        /* (12) -> 24 -> 5, labels, some of them ignored */
    TEAM_CONV,       /* (3, 8, 8): convolutions, batch norm over the whole batch, averages */
    TEAM_LOCAL,      /* the same with statistics of each device */
    TEAM_DROPOUT,    /* TEAM_MLP with dropout */
    TEAM_WIDE,       /* TEAM_CONV with enough channels for Winograd */
    TEAM_SEQUENCE,   /* (up to 6, 12): attention with dropout; each step has another length */
    TEAM_REGRESSION, /* (12) -> 24 -> 4 values, squared error */
    TEAM_WEIGHTED    /* TEAM_MLP with weights of classes and, very unlike ones, of samples */
} team_net;

/* How ignored labels lie in a batch. */
typedef enum team_ignored {
    TEAM_NONE_IGNORED,
    TEAM_FIRST_IGNORED, /* most of the first half: one device has next to none that count */
    TEAM_ALL_BUT_LAST,  /* one sample of the batch counts */
    TEAM_ALL_IGNORED    /* none does */
} team_ignored;

typedef struct team_run {
    const char *selector;
    const char *shares; /* NULL: auto */
    team_net net;
    team_ignored ignored;
    int64_t batch; /* 0: 24 */
    int64_t last;  /* samples of every fifth step; 0: as all */
    uint32_t accumulate;
    uint32_t seed;            /* 0: 1 */
    int steps;                /* 0: TEAM_STEPS */
    yoke_optimizer optimizer; /* zero: plain SGD, 0.1 */
    uint64_t bucket_bytes;
    float clip_norm;
    float average;
    yoke_shard_choice shard;
    const char *shard_by;
    yoke_recompute_choice recompute;
    uint64_t recompute_bytes;
    bool waits;         /* for each step */
    bool any_class;     /* Winograd too */
    const char *wisdom; /* file; NULL: the usual one */
    const char *precision;
    bool any_split; /* the same bits on any split, in granules of so many samples; 0: the usual */
    int64_t granule;
    int64_t recheck;
    yoke_wire_choice wire;
    yoke_core_groups_choice core_groups;
    yoke_state_choice state;
    bool own_weights;
    uint32_t stages;
    float loss_scale;
} team_run;

typedef struct team_outcome {
    size_t tensors;
    char name[TEAM_TENSORS][64];
    size_t count[TEAM_TENSORS];
    float *values[TEAM_TENSORS];
    double loss; /* of the last step */
} team_outcome;

/* As test_devices_find; where the selector is one device (the matrix of implementations names one)
 * it becomes two parts of it. `info`: of the first two devices; NULL: not wanted. */
bool team_find(test_setup setup, test_devices *devices, yoke_device_info info[2]);
/* A test of a set-up of devices, in a file that has `devices`: under the matrix TEST_AS_IS alone,
 * elsewhere the others. `open(setup)` finds the devices, then come the statements. */
#define TEAM_SETUP(name, setup, open, ...)                                                         \
    START_TEST(name)                                                                               \
    {                                                                                              \
        if (test_in_matrix() != ((setup) == TEST_AS_IS))                                           \
            TEST_NOT_HERE("another run's set-up");                                                 \
        if (!open(setup))                                                                          \
            TEST_SKIP("%s", devices.missing);                                                      \
        __VA_ARGS__;                                                                               \
        test_devices_close(&devices);                                                              \
    }                                                                                              \
    END_TEST

yoke_graph *team_graph(team_net net);
/* Feeds for samples first .. first + n - 1 of the network's data, lent. */
size_t team_feeds(const team_run *run, int64_t first, int64_t n, yoke_feed feeds[2]);
/* The same as a dataset, which the next feeds or dataset of the run's kind of network write over.
 */
yoke_dataset *team_dataset(const team_run *run, int64_t first, int64_t n);
yoke_trainer_options team_options(const team_run *run);
/* A trainer of the run, which keeps its team alive. */
yoke_trainer *team_trainer(yoke_context *context, const team_run *run);
/* One that has done so many steps. */
yoke_trainer *team_trained(yoke_context *context, const team_run *run, int steps);
/* Whatever is enqueued in the queue from now on waits for the gate, and fails with it. */
yki_event team_hold(yki_queue *queue);
/* One step of the run, the `index`-th; the result may be NULL. */
yoke_status team_step(const team_run *run, yoke_trainer *trainer, int index, yoke_result *result);
/* All that training keeps, as floats: weights, the optimizer's state, running statistics, averages.
 */
typedef struct team_kept {
    float *values;            /* freed by the caller */
    size_t count, state_from; /* where the optimizer's state begins */
} team_kept;
team_kept team_read_kept(yoke_trainer *trainer);
/* Every parameter and state into `outcome`. */
yoke_status team_read(yoke_trainer *trainer, team_outcome *outcome);
void team_free(team_outcome *outcome);
/* From nothing to trained weights; errors fail the test. */
void team_train(yoke_context *context, const team_run *run, team_outcome *outcome);

/* The largest of max|a-b| / max|b| over tensors; the tensor's name in `worst`. */
double team_distance(const team_outcome *a, const team_outcome *b, const char **worst);
bool team_same_bits(const team_outcome *a, const team_outcome *b);

/* `what` names the run in the failure. */
void team_assert_near(const team_outcome *a, const team_outcome *b, const char *what);

#endif
