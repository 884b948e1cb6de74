/* SPDX-License-Identifier: Apache-2.0
 *
 * training.c - the table of what users choose about training, and how it becomes
 * options of the library.
 *
 * A new option has a member in training.h, and here a row and a line in one of the two
 * functions at the end. `yoke train` has every option that another command has.
 */
#include <stdlib.h>
#include <string.h>

#include "training.h"

enum { MAX_ACCUMULATE = 65536, MAX_SIZE = 65536, MAX_CONTEXT = 1 << 24 };
/* Its bounds are far within those of a float. */
#define POSITIVE(member)    TOOL_REAL(yki_tool_training, member, 1e-30, 1e30)
#define FROM(names, member) TOOL_CHOICE(yki_tool_training, member, names)
#define TEXT(member)        TOOL_TEXT(yki_tool_training, member)
#define FLAG(member)        TOOL_FLAG(yki_tool_training, member)
#define BATCH               TOOL_COUNT(yki_tool_training, batch, 1, TOOL_MAX_BATCH)

static const yki_tool_choice norms[] = {{"sync", 0}, {"local", 1}, {NULL, 0}};
static const yki_tool_choice reproduced[] = {{"no", YOKE_REPRODUCIBLE_NO},
                                             {"runs", YOKE_REPRODUCIBLE_RUNS},
                                             {"any-split", YOKE_REPRODUCIBLE_ANY_SPLIT},
                                             {NULL, 0}};
static const yki_tool_choice wires[] = {
    {"int64", YOKE_WIRE_I64}, {"int32", YOKE_WIRE_I32}, {"int16", YOKE_WIRE_I16}, {NULL, 0}};
static const yki_tool_choice grouped[] = {{"measure", YOKE_CORE_GROUPS_MEASURE},
                                          {"never", YOKE_CORE_GROUPS_NEVER},
                                          {"always", YOKE_CORE_GROUPS_ALWAYS},
                                          {NULL, 0}};
static const yki_tool_choice sharded[] = {
    {"no", YOKE_SHARD_NOTHING},          {"state", YOKE_SHARD_STATE},
    {"gradients", YOKE_SHARD_GRADIENTS}, {"weights", YOKE_SHARD_WEIGHTS},
    {"auto", YOKE_SHARD_AUTO},           {NULL, 0}};
static const yki_tool_choice states[] = {
    {"f32", YOKE_STATE_F32}, {"bf16", YOKE_STATE_BF16}, {NULL, 0}};
static const yki_tool_choice bad_images[] = {{"stop", 0}, {"skip", 1}, {NULL, 0}};
static const yki_tool_choice levels[] = {{"estimate", YOKE_PLAN_ESTIMATE},
                                         {"measure", YOKE_PLAN_MEASURE},
                                         {"patient", YOKE_PLAN_PATIENT},
                                         {NULL, 0}};
static const yki_tool_choice tuned[] = {
    {"measure", YOKE_PLAN_MEASURE}, {"patient", YOKE_PLAN_PATIENT}, {NULL, 0}};

/* ---- lists ---- */

static bool
check_optimizer(const char *text, char why[TOOL_WHY])
{
    yoke_optimizer optimizer;

    return yki_tool_parse_optimizer(text, 0, &optimizer, why);
}

static bool
check_schedule(const char *text, char why[TOOL_WHY])
{
    yki_tool_schedule schedule;

    return yki_tool_parse_schedule(text, &schedule, why);
}

static bool
check_smoothing(const char *text, char why[TOOL_WHY])
{
    char *end;
    const double smoothing = strtod(text, &end);

    if (end != text && !*end && smoothing >= 0 && smoothing < 1)
        return true;
    snprintf(why, TOOL_WHY, "must be a number from 0 to below 1, such as 0.1");
    return false;
}

static bool
check_lora(const char *text, char why[TOOL_WHY])
{
    yki_tool_lora lora;

    return yki_tool_parse_lora(text, &lora, why);
}

static bool
check_image_size(const char *text, char why[TOOL_WHY])
{
    int height, width;

    return yki_tool_parse_image_size(text, &height, &width, why);
}

static bool
check_recompute(const char *text, char why[TOOL_WHY])
{
    yoke_recompute_choice choice;
    uint64_t bytes;

    return yki_tool_parse_recompute(text, &choice, &bytes, why);
}

static bool
check_recompute_or_auto(const char *text, char why[TOOL_WHY])
{
    yoke_recompute_choice choice;
    uint64_t bytes;

    return yki_tool_parse_recompute_or_auto(text, &choice, &bytes, why);
}

static bool
check_stages(const char *text, char why[TOOL_WHY])
{
    uint32_t stages;

    return yki_tool_parse_stages(text, &stages, why);
}

static bool
check_loss_scale(const char *text, char why[TOOL_WHY])
{
    float scale;

    return yki_tool_parse_loss_scale(text, &scale, why);
}

/* ---- the table ---- */

enum {
    TRAIN = TOOL_FOR_TRAIN,
    BENCH = TOOL_FOR_BENCH,
    OPERATORS = TOOL_FOR_OPERATORS,
    VERIFY = TOOL_FOR_VERIFY,
    TUNE = TOOL_FOR_TUNE,
    EVAL = TOOL_FOR_EVAL,
    PREDICT = TOOL_FOR_PREDICT,
    GENERATE = TOOL_FOR_GENERATE,
    DATA = TOOL_FOR_DATA,
    PLAN = TOOL_FOR_PLAN
};

/* An option whose defaults differ has a row for each of them. */
const yki_tool_option yki_tool_training_options[] = {
    {"model", 'm', "MODEL", "tiny, lenet, resnet18, gpt..., a JSON or a folder", TEXT(model),
     .takers = TRAIN | PLAN},
    {"data", 0, "DIR", "folder or file of samples; see yoke-data(7)", TEXT(data),
     .takers = TRAIN | EVAL | PREDICT},
    {"batch", 'b', "N", "samples of a step (default: the recipe's)", BATCH, .takers = TRAIN},
    {"batch", 'b', "N", "samples of a step (default: the model's)", BATCH,
     .takers = BENCH | VERIFY | TUNE | PLAN},
    {"batch", 'b', "N", "samples computed at once (default: 256, or 8192 tokens)", BATCH,
     .takers = EVAL},
    {"optimizer", 0, "NAME", "sgd, adam, adamw or rmsprop, as in sgd,momentum=0.9",
     TOOL_LIST(yki_tool_training, optimizer, check_optimizer), .takers = TRAIN | BENCH | PLAN},
    {"lr", 0, "RATE", "learning rate (default: the recipe's, or the optimizer's)", POSITIVE(rate),
     .takers = TRAIN},
    {"lr", 0, "RATE", "learning rate of plain SGD (default: 0.01)", POSITIVE(rate),
     .takers = VERIFY},
    {"schedule", 0, "NAME", "constant, step, cosine, linear or one-cycle",
     TOOL_LIST(yki_tool_training, schedule, check_schedule), .takers = TRAIN},
    {"lora", 0, "LIST", "train adapters only: rank=8,alpha=16,targets=*attn.*, or default",
     TOOL_LIST(yki_tool_training, lora, check_lora), .takers = TRAIN | BENCH | PLAN},
    {"adapters", 0, "DIR", "write the adapters of --lora there, by themselves", TEXT(adapters),
     .takers = TRAIN},
    {"adapters", 0, "DIR", "add the adapters of this folder", TEXT(adapters),
     .takers = EVAL | GENERATE},
    {"devices", 'd', "SELECTOR", "the devices (default: all)", TEXT(devices),
     .takers = TRAIN | BENCH | VERIFY | TUNE | EVAL | PREDICT | PLAN},
    {"devices", 'd', "SELECTOR", "the device; the first one is used (default: all)", TEXT(devices),
     .takers = OPERATORS | GENERATE},
    {"shares", 'S', "SHARES", "auto (default), even, or weights such as 80,20", TEXT(shares),
     .takers = TRAIN | BENCH | VERIFY | PLAN},
    {"shard", 0, "KIND", "no (default), state, gradients, weights or auto: what devices divide",
     FROM(sharded, shard), .takers = BENCH},
    {"shard", 0, "KIND", "auto (default), no, state, gradients or weights: what devices divide",
     FROM(sharded, shard), .takers = TRAIN | PLAN},
    {"shard-by", 0, "SHARDS", "auto (default): by free memory; or weights such as 1,3",
     TEXT(shard_by), .takers = TRAIN | BENCH | PLAN},
    {"own-weights", 0, NULL, "also for parts of one device, so that each divides and has its quota",
     FLAG(own_weights), .takers = TRAIN | BENCH | PLAN},
    {"stages", 0, "STAGES",
     "cut the network: fit (default): if it fits no other way; no, auto, or 2, 3...",
     TOOL_LIST(yki_tool_training, stages, check_stages), .takers = TRAIN | PLAN},
    {"stages", 0, "STAGES",
     "cut the network into 2, 3... or auto: a part for each device (default: no)",
     TOOL_LIST(yki_tool_training, stages, check_stages), .takers = BENCH},
    {"seed", 0, "N", "of initial values and orders (default: 0)",
     TOOL_COUNT(yki_tool_training, seed, 0, UINT32_MAX), .takers = TRAIN | VERIFY},
    {"accumulate", 'k', "N", "micro-batches of a step (default: 1)",
     TOOL_COUNT(yki_tool_training, accumulate, 1, MAX_ACCUMULATE),
     .takers = TRAIN | BENCH | VERIFY | PLAN},
    {"batch-norm", 'B', "KIND", "its statistics: sync (default), or local to each device",
     FROM(norms, batch_norm), .takers = TRAIN | BENCH | PLAN},
    {"batch-norm", 'B', "KIND", "sync (default); local is refused", FROM(norms, batch_norm),
     .takers = VERIFY},
    {"clip-norm", 0, "X", "largest norm of all gradients together (default: none)",
     POSITIVE(clip_norm), .takers = TRAIN | BENCH | VERIFY | PLAN},
    {"clip-value", 0, "X", "largest size of an element of a gradient (default: none)",
     POSITIVE(clip_value), .takers = TRAIN | BENCH | VERIFY | PLAN},
    {"ema", 0, "DECAY", "use a moving average of the weights, as 0.999 (default: none)",
     TOOL_REAL(yki_tool_training, average, 0, 0.9999999), .takers = TRAIN | PLAN},
    {"recompute", 0, "KIND|SIZE",
     "in backward: none (default), cheap, or what keeps to a size: 512M",
     TOOL_LIST(yki_tool_training, recompute, check_recompute), .takers = VERIFY | TUNE},
    {"recompute", 0, "KIND|SIZE",
     "in backward: none (default), auto, cheap, or what keeps to a size: 512M",
     TOOL_LIST(yki_tool_training, recompute, check_recompute_or_auto), .takers = BENCH},
    {"recompute", 0, "KIND|SIZE",
     "in backward: auto (default): as memory needs; none, cheap, or a size: 512M",
     TOOL_LIST(yki_tool_training, recompute, check_recompute_or_auto), .takers = TRAIN | PLAN},
    {"core-groups", 'G', "KIND", "of a CPU: measure (default), never or always",
     FROM(grouped, core_groups), .takers = TRAIN | BENCH | VERIFY | PLAN},
    {"level", 0, "LEVEL", "of planning: estimate, measure (default) or patient",
     FROM(levels, level), .takers = TRAIN | BENCH | OPERATORS | VERIFY | PLAN},
    {"level", 0, "LEVEL", "of planning: measure or patient (default)", FROM(tuned, level),
     .takers = TUNE},
    {"strict", 's', NULL, "no Winograd", FLAG(strict),
     .takers = TRAIN | BENCH | OPERATORS | TUNE | PLAN},
    {"precision", 0, "LIST",
     "of products: f32 (default), tf32, bf16, f16, or by node: head=f32,f16", TEXT(precision),
     .takers = TRAIN | BENCH | OPERATORS | VERIFY | TUNE | PLAN},
    {"loss-scale", 0, "N", "with f16: auto (default), or a power of 2 that stays",
     TOOL_LIST(yki_tool_training, loss_scale, check_loss_scale),
     .takers = TRAIN | BENCH | VERIFY | PLAN},
    {"optimizer-state", 0, "KIND", "f32 (default), or bf16: half the memory, rounded at random",
     FROM(states, state), .takers = TRAIN | BENCH | PLAN},
    {"reproducible", 0, "KIND", "no (default), runs, or any-split: the same bits",
     FROM(reproduced, reproducible), .takers = TRAIN | BENCH | PLAN},
    {"granule", 0, "N", "of any-split: samples computed together (default: by the batch)",
     TOOL_COUNT(yki_tool_training, granule, 1, TOOL_MAX_BATCH),
     .takers = TRAIN | BENCH | VERIFY | PLAN},
    {"recheck", 0, "N",
     "of any-split: every N steps compute a device's part twice (default: never)",
     TOOL_COUNT(yki_tool_training, recheck, 1, INT32_MAX), .takers = TRAIN | BENCH | PLAN},
    {"wire", 0, "KIND", "of any-split: gradients are int64 (default), int32 or int16",
     FROM(wires, wire), .takers = TRAIN | BENCH | VERIFY | PLAN},
    {"trace", 0, "FILE", "write a timeline there, which Perfetto opens", TEXT(trace),
     .takers = TRAIN | BENCH},
    {"channels-last", 0, NULL, ".npy images are (height, width, channels)", FLAG(channels_last),
     .takers = TRAIN | EVAL | PREDICT | DATA},
    {"image-size", 0, "SIZE", "size of an image, as 224 or 96x128 (default: the model's)",
     TOOL_LIST(yki_tool_training, image_size, check_image_size), .takers = TRAIN},
    {"image-size", 0, "SIZE", "size of an image, as 224 or 96x128 (default: the first's)",
     TOOL_LIST(yki_tool_training, image_size, check_image_size), .takers = DATA},
    {"bad-images", 0, "KIND", "what damaged ones do: stop (default) or skip",
     FROM(bad_images, bad_images), .takers = TRAIN | EVAL | PREDICT | DATA},
    {"class-weights", 0, "LIST", "weights of classes in the loss, as 1,2.5; or balanced",
     TOOL_LIST(yki_tool_training, class_weights, yki_tool_check_class_weights), .takers = TRAIN},
    {"label-smoothing", 0, "X", "part of a label spread over all classes (default: the recipe's)",
     TOOL_LIST(yki_tool_training, label_smoothing, check_smoothing), .takers = TRAIN},
    {"columns", 0, "RULES", "of a table: city=one-hot,age=median,id=drop,*=auto, for example",
     TEXT(columns), .takers = TRAIN | DATA},
    {"sample-weights", 0, "COLUMN", "of a table: weights of samples in the loss",
     TEXT(sample_weights), .takers = TRAIN | EVAL},
    {"layers", 0, "N", "of gpt: its layers (default: the model's, as of the next four)",
     TOOL_COUNT(yki_tool_training, sizes.layers, 1, MAX_SIZE), .takers = TRAIN | BENCH | PLAN},
    {"heads", 0, "N", "of gpt: heads of attention, which divide the width",
     TOOL_COUNT(yki_tool_training, sizes.heads, 1, MAX_SIZE), .takers = TRAIN | BENCH | PLAN},
    {"width", 0, "N", "of gpt: numbers for each token; of unet: first maps",
     TOOL_COUNT(yki_tool_training, sizes.width, 1, MAX_SIZE), .takers = TRAIN | BENCH | PLAN},
    {"context", 0, "N", "of gpt: the most tokens that it looks back at",
     TOOL_COUNT(yki_tool_training, sizes.context, 1, MAX_CONTEXT), .takers = TRAIN | BENCH | PLAN},
    {"vocabulary", 0, "N", "of gpt: different tokens",
     TOOL_COUNT(yki_tool_training, sizes.vocabulary, 1, MAX_CONTEXT),
     .takers = TRAIN | BENCH | PLAN},
    {"shared", 0, "N", "of llama: heads of keys and values, which divide the heads",
     TOOL_COUNT(yki_tool_training, sizes.shared, 1, MAX_SIZE), .takers = TRAIN | BENCH | PLAN},
    {"inner", 0, "N", "of llama: width inside its gated layers",
     TOOL_COUNT(yki_tool_training, sizes.inner, 1, MAX_CONTEXT), .takers = TRAIN | BENCH | PLAN},
    {"dropout", 0, "P", "of gpt and llama: what training drops, as 0.1 (default: 0)",
     TOOL_REAL(yki_tool_training, sizes.dropout, 0, 0.99), .takers = TRAIN | BENCH | PLAN},
    {0},
};

/* ---- options of the library ---- */

static yoke_optimizer
choose_optimizer(const yki_tool_training *t, yoke_optimizer usual)
{
    char why[TOOL_WHY];

    if (t->optimizer)
        yki_tool_parse_optimizer(t->optimizer, t->rate, &usual, why); /* checked before */
    else if (t->rate > 0)
        usual.learning_rate = (float)t->rate;
    return usual;
}

static void
choose_recompute(const yki_tool_training *t, yoke_recompute_choice *choice, uint64_t *bytes)
{
    char why[TOOL_WHY];

    if (t->recompute)
        yki_tool_parse_recompute_or_auto(t->recompute, choice, bytes, why); /* checked before */
}

int
yki_tool_training_model(const yki_tool_command *command, const yki_tool_training *t,
                        const yki_tool_model **built_in)
{
    yki_near near;

    if (!t->model)
        return yki_tool_usage(command, "no model is given; must be --model=lenet, for example");
    *built_in = yki_tool_find_model(t->model);
    if (!*built_in && !strchr(t->model, '.') && !strchr(t->model, '/'))
        return yki_tool_usage(
            command,
            "there is no model \"%s\"; must be a built-in one, or a file or folder with a \".\" "
            "or a \"/\" in its name%s",
            t->model, yki_tool_near_model(t->model, &near));
    return TOOL_OK;
}

yoke_trainer_options
yki_tool_trainer_options(const yki_tool_training *t, yoke_optimizer usual)
{
    yoke_trainer_options o;
    char why[TOOL_WHY];

    memset(&o, 0, sizeof o);
    o.optimizer = choose_optimizer(t, usual);
    o.batch = t->batch;
    o.seed = t->seed;
    o.accumulate = t->accumulate;
    o.shares = t->shares;
    o.local_batch_norm = t->batch_norm == 1;
    o.average = (float)t->average;
    o.shard = (yoke_shard_choice)t->shard;
    o.shard_by = t->shard_by;
    o.own_weights = t->own_weights;
    o.clip_norm = (float)t->clip_norm;
    o.clip_value = (float)t->clip_value;
    choose_recompute(t, &o.recompute, &o.recompute_bytes);
    if (t->stages)
        yki_tool_parse_stages(t->stages, &o.stages, why); /* checked before */
    if (t->loss_scale)
        yki_tool_parse_loss_scale(t->loss_scale, &o.loss_scale, why); /* checked before */
    o.core_groups = (yoke_core_groups_choice)t->core_groups;
    o.level = (yoke_plan_level)t->level;
    o.strict = t->strict;
    o.precision = t->precision;
    o.state = (yoke_state_choice)t->state;
    o.reproducible = (yoke_reproducible_choice)t->reproducible;
    o.granule = t->granule;
    o.recheck = t->recheck;
    o.wire = (yoke_wire_choice)t->wire;
    return o;
}

yoke_replica_options
yki_tool_replica_options(const yki_tool_training *t, yoke_optimizer usual)
{
    yoke_replica_options o;

    memset(&o, 0, sizeof o);
    o.optimizer = choose_optimizer(t, usual);
    o.batch = t->batch;
    o.seed = t->seed;
    o.clip_norm = (float)t->clip_norm;
    o.clip_value = (float)t->clip_value;
    choose_recompute(t, &o.recompute, &o.recompute_bytes);
    o.level = (yoke_plan_level)t->level;
    o.strict = t->strict;
    o.precision = t->precision;
    return o;
}

yoke_status
yki_tool_add_lora(const yki_tool_training *t, yoke_graph *graph)
{
    yki_tool_lora lora;
    yoke_lora_options o;
    char why[TOOL_WHY];

    if (!t->lora)
        return YOKE_OK;
    yki_tool_parse_lora(t->lora, &lora, why); /* checked before */
    memset(&o, 0, sizeof o);
    o.rank = lora.rank;
    o.alpha = lora.alpha;
    o.dropout = lora.dropout;
    o.targets = lora.targets[0] ? lora.targets : NULL;
    return yoke_graph_add_lora(graph, &o);
}
