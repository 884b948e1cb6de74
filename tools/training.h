/* SPDX-License-Identifier: Apache-2.0
 *
 * training.h - what users choose about training: one struct and one table of options,
 * for all commands that train, measure, compare or test models.
 *
 * A row of the table says which commands have the option.
 */
#ifndef YOKE_TOOLS_TRAINING_H
#define YOKE_TOOLS_TRAINING_H

#include "models.h"
#include "options.h"
#include "source.h"

/* The commands that take options of the table. */
enum {
    TOOL_FOR_TRAIN = 1,
    TOOL_FOR_BENCH = 2,     /* of a whole model */
    TOOL_FOR_OPERATORS = 4, /* bench of operators */
    TOOL_FOR_VERIFY = 8,
    TOOL_FOR_TUNE = 16,
    TOOL_FOR_EVAL = 32,
    TOOL_FOR_PREDICT = 64,
    TOOL_FOR_GENERATE = 128,
    TOOL_FOR_DATA = 256,
    TOOL_FOR_PLAN = 512
};

typedef struct yki_tool_training {
    const char *model, *data, *devices, *shares; /* NULL: not given */
    const char *adapters;                        /* a folder of them; NULL: not given */
    const char *optimizer, *schedule, *lora;     /* texts that can be parsed; NULL: not given */
    unsigned batch;                              /* 0: not given */
    unsigned seed, accumulate;
    double rate;                  /* of learning; 0: not given */
    double clip_norm, clip_value; /* 0: gradients are not clipped */
    double average;               /* 0: none */
    int batch_norm;               /* 1: local */
    const char *stages;           /* a text that can be parsed; NULL: not given */
    const char *recompute;        /* a text that can be parsed; NULL: not given */
    int core_groups;              /* a yoke_core_groups_choice */
    int level;                    /* a yoke_plan_level */
    int state;                    /* a yoke_state_choice */
    int reproducible;             /* a yoke_reproducible_choice */
    unsigned granule;             /* 0: not given */
    unsigned recheck;             /* steps from check to check; 0: none */
    int shard;                    /* a yoke_shard_choice */
    const char *shard_by;         /* NULL: not given */
    int wire;                     /* a yoke_wire_choice */
    const char *precision;        /* NULL: not given */
    const char *loss_scale;       /* a text that can be parsed; NULL: not given */
    const char *trace;            /* file of the timeline; NULL: none */
    bool strict, channels_last, own_weights;
    const char *image_size;      /* a text that can be parsed; NULL: not given */
    int bad_images;              /* 1: skip */
    const char *label_smoothing; /* a number from 0 to below 1; NULL: not given */
    const char *class_weights;   /* a text that can be parsed; NULL: not given */
    const char *sample_weights;  /* a column of the table; NULL: not given */
    const char *columns;         /* rules for columns of the table; NULL: not given */
    yki_tool_sizes sizes;        /* of a language model */
} yki_tool_training;

/* What a training begins with: where memory is short, yoke finds a way. */
#define TOOL_TRAINING_AUTO                                                                         \
    {                                                                                              \
        .stages = "fit", .recompute = "auto", .shard = YOKE_SHARD_AUTO                             \
    }

/* Ends with a zeroed row. */
extern const yki_tool_option yki_tool_training_options[];

/* The members of a command by which it takes these options: `bit` is its TOOL_FOR_, and the member
 * of its struct is a yki_tool_training. */
#define TOOL_TRAINING(bit, type, member)                                                           \
    .shared = yki_tool_training_options, .taker = (bit),                                           \
    .shared_at = TOOL_AT(type, member, yki_tool_training)

/* Sets the built-in model that is asked for; NULL: a file or a folder is. It is an error if none is
 * given, or what can be neither. */
int yki_tool_training_model(const yki_tool_command *command, const yki_tool_training *training,
                            const yki_tool_model **built_in);
/* Converts the choices for a trainer, or for a replica. `usual` is the optimizer if none is given;
 * all zero: the library's. There is no schedule yet, as it needs the number of steps. The results
 * point to texts of the command line. */
yoke_trainer_options yki_tool_trainer_options(const yki_tool_training *training,
                                              yoke_optimizer usual);
yoke_replica_options yki_tool_replica_options(const yki_tool_training *training,
                                              yoke_optimizer usual);
/* Makes the list of yoke_trainer_forecast, one for each device of the team (forecast.c). The caller
 * frees it. */
yoke_status yki_tool_forecast(const yoke_team *team, yoke_trainer *trainer, yoke_forecast **list,
                              size_t *count);
enum { TOOL_CHOICE_TEXT = 200 };
/* Writes what devices do to have less, such as "nothing is divided". */
const char *yki_tool_choice_text(const yoke_forecast *list, size_t count,
                                 char text[TOOL_CHOICE_TEXT]);
/* Writes what some device lacks, such as "training needs 3 MiB on cpu:0, which has 2 MiB"; NULL:
 * all have enough. */
const char *yki_tool_lack_text(const yoke_team *team, const yoke_forecast *list, size_t count,
                               char text[TOOL_CHOICE_TEXT]);
/* Notes what was chosen, where the devices have too little memory. With a comm all processes call
 * it. */
yoke_status yki_tool_note_choice(const yki_tool_command *command, const yoke_team *team,
                                 yoke_trainer *trainer);
/* Gives the graph's loss the weights that are asked for: those of classes as they are given or, if
 * they are "balanced", so that each class of the training data weighs as much (weigh.c). */
yoke_status yki_tool_weigh(const yki_tool_training *training, const yki_tool_source *source,
                           yoke_graph *graph);
bool yki_tool_check_class_weights(const char *text, char why[TOOL_WHY]);
/* Gives the graph adapters if they are asked for. */
yoke_status yki_tool_add_lora(const yki_tool_training *training, yoke_graph *graph);

#endif
