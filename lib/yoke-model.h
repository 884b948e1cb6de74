/* SPDX-License-Identifier: Apache-2.0
 *
 * yoke-model.h - trained models: weights in files, and predictors that use them.
 *
 * Programs include <yoke.h>, which includes this file and has the conventions that hold here.
 */
#ifndef YOKE_MODEL_H
#define YOKE_MODEL_H

#include "yoke-train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------- model */

/* A model is a graph with its weights, input scaling and class names, in host memory. A file of
 * weights holds one. Several threads may use a model at once, except while one loads weights into
 * it or writes to it. */
typedef struct yoke_model yoke_model;

typedef struct yoke_model_options {
    uint32_t seed;             /* of initial values */
    yoke_type input_type;      /* of the data that will be given; YOKE_U8 suits a float input too */
    const float *mean, *scale; /* devices compute (x - mean) * scale of the data; copied */
    /* Number of means and scales: 1, or the size of the input's first axis. 0: u8 becomes x / 255,
     * and floats stay as they are. */
    size_t scaling_count;
    const char *const *class_names; /* copied */
    size_t class_count;
    const yoke_tokenizer *tokenizer; /* of an input of tokens; kept alive. NULL: none */
} yoke_model_options;

/* Makes a model of a copy of the graph, with initial values. */
YOKE_API yoke_status yoke_model_create_sized(const yoke_graph *graph,
                                             const yoke_model_options *options, size_t size,
                                             yoke_model **model);
static inline yoke_status
yoke_model_create(const yoke_graph *graph, const yoke_model_options *options, yoke_model **model)
{
    return yoke_model_create_sized(graph, options, sizeof(yoke_model_options), model);
}
/* Reads a model from a file that yoke wrote, or another safetensors file that has a graph in its
 * metadata (yoke-files(7)). */
YOKE_API yoke_status yoke_model_load(const char *path, yoke_model **model);
/* Writes the model to a file. An older file is replaced as a whole or not at all. */
YOKE_API yoke_status yoke_model_save(const yoke_model *model, const char *path);
/* How numbers are written: those that f16 (at most 65504) and bf16 do not have are rounded to the
 * nearest, and where two are as near to the even one. */
typedef enum yoke_weight_type {
    YOKE_WEIGHTS_F32 = 0,
    YOKE_WEIGHTS_F16,
    YOKE_WEIGHTS_BF16
} yoke_weight_type;
typedef struct yoke_export_options {
    yoke_weight_type type;
    int64_t shard; /* most bytes of weights in a file, unless it has one tensor; 0: one file */
} yoke_export_options;
/* Writes a GPT-2 or a Llama for Hugging Face's transformers to a folder, which is made or has no
 * model yet: model.safetensors, or several files and model.safetensors.index.json; config.json;
 * and tokenizer.json if the model has one. The names of the weights tell which of both it is
 * (yoke-files(7)); another model is YOKE_ERROR_UNSUPPORTED. */
YOKE_API yoke_status yoke_model_export_sized(const yoke_model *model, const char *folder,
                                             const yoke_export_options *options, size_t size);
static inline yoke_status
yoke_model_export(const yoke_model *model, const char *folder, const yoke_export_options *options)
{
    return yoke_model_export_sized(model, folder, options, sizeof(yoke_export_options));
}
/* Reads a model from a file of ONNX, of operator sets 13 to 20: its inputs have the batch as their
 * first axis, and its weights become parameters, most by their names there, so it can be trained
 * on. What yoke cannot compute is YOKE_ERROR_UNSUPPORTED, with the node and its operator. Has no
 * loss. */
YOKE_API yoke_status yoke_model_load_onnx(const char *path, yoke_model **model);
/* Writes the outputs of the model for ONNX: its graph as it evaluates, with the weights, any size
 * of the batch, and data as the model takes them. What ONNX cannot say, such as an operator of the
 * user's, is YOKE_ERROR_UNSUPPORTED. An older file is replaced as a whole or not at all. */
YOKE_API yoke_status yoke_model_save_onnx(const yoke_model *model, const char *path);
YOKE_API void yoke_model_destroy(yoke_model *model);
/* Lends the graph. */
YOKE_API yoke_graph *yoke_model_get_graph(const yoke_model *model);
/* Lends a description of one sample of the data: name, type and shape; of a model of several inputs
 * that of the first. */
YOKE_API const yoke_field *yoke_model_get_input(const yoke_model *model);
/* Return the number of inputs, targets apart, and one of them, the first as above; NULL where there
 * is none. More than 8 are not counted. */
YOKE_API size_t yoke_model_input_count(const yoke_model *model);
YOKE_API const yoke_field *yoke_model_get_input_at(const yoke_model *model, size_t index);
/* Gives the fields of a dataset the means and scales that the model's inputs of their names have
 * (yoke_dataset_set_scaling), and cuts images that are larger than an input from their middle. The
 * data of a model of one input may have another name. */
YOKE_API yoke_status yoke_model_scale_dataset(const yoke_model *model, yoke_dataset *dataset);
/* Returns the number of means and scales of the first input, and lends them; 0: none were set. */
YOKE_API size_t yoke_model_get_scaling(const yoke_model *model, const float **mean,
                                       const float **scale);
/* Return the number of class names, and one of them, which is lent; NULL where there is none. */
YOKE_API size_t yoke_model_class_count(const yoke_model *model);
YOKE_API const char *yoke_model_get_class_name(const yoke_model *model, size_t index);
/* Lends the tokenizer of a model that was trained on text; NULL: its file has none. */
YOKE_API const yoke_tokenizer *yoke_model_get_tokenizer(const yoke_model *model);
/* Lends how columns of a table become the model's input, for csv_encoding of
 * yoke_dataset_open_options; NULL: they are numbers. */
YOKE_API const char *yoke_model_get_encoding(const yoke_model *model);
/* Copy a parameter or a state by its name, from or to an array of exactly `count` floats.
 * Predictors that exist keep the values that they have. */
YOKE_API yoke_status yoke_model_read(const yoke_model *model, const char *name, float *values,
                                     int64_t count);
YOKE_API yoke_status yoke_model_write(yoke_model *model, const char *name, const float *values,
                                      int64_t count);

/* Read and write the adapters of a model alone (yoke_graph_add_lora), in the form of Hugging Face's
 * PEFT: a folder with adapter_model.safetensors and adapter_config.json. Loading gives the layers
 * that the file names adapters, if they have none; then only adapters are trained. It comes before
 * any predictor, generator, replica or trainer is made of the model, and so does merging, which
 * adds each adapter's product to its layer's weight and takes the adapters out of the graph. */
YOKE_API yoke_status yoke_model_load_adapters(yoke_model *model, const char *folder);
YOKE_API yoke_status yoke_model_save_adapters(const yoke_model *model, const char *folder);
YOKE_API yoke_status yoke_model_merge_adapters(yoke_model *model);
/* The same for a trainer, whose graph has the adapters. With a comm every process calls them; rank
 * 0 writes. Wait. */
YOKE_API yoke_status yoke_trainer_load_adapters(yoke_trainer *trainer, const char *folder);
YOKE_API yoke_status yoke_trainer_save_adapters(yoke_trainer *trainer, const char *folder);
/* Gives a graph the adapters of such a folder, with their initial values: for a trainer that loads
 * them then. */
YOKE_API yoke_status yoke_graph_add_adapters(yoke_graph *graph, const char *folder);

/* yoke_model_load_weights, yoke_replica_load_weights and yoke_trainer_load_weights take weights by
 * name from a safetensors file of any origin. The file must have every parameter and state of the
 * graph and nothing else, except PyTorch's num_batches_tracked. All names and shapes are compared
 * before anything changes. `path` may also be an index of several files (.index.json), or a folder
 * with model.safetensors or its index; names and arrays may be those of Hugging Face's GPT-2 and
 * Llama (yoke-files(7)). A NaN is YOKE_ERROR_VALUE, unless yoke wrote the file. */
typedef struct yoke_load_options {
    const char *pattern; /* take only names of the graph that match (with * and ?); NULL: all */
    const char *except;  /* and that do not match this; NULL: none */
    const char *prefix;  /* what precedes the names in the file, such as "module."; NULL: nothing */
    bool partial;        /* ignore names that only the graph or only the file has */
} yoke_load_options;
YOKE_API yoke_status yoke_model_load_weights_sized(yoke_model *model, const char *path,
                                                   const yoke_load_options *options, size_t size);
static inline yoke_status
yoke_model_load_weights(yoke_model *model, const char *path, const yoke_load_options *options)
{
    return yoke_model_load_weights_sized(model, path, options, sizeof(yoke_load_options));
}
/* These leave the optimizer's state and the step number as they are. Wait. */
YOKE_API yoke_status yoke_replica_load_weights_sized(yoke_replica *replica, const char *path,
                                                     const yoke_load_options *options, size_t size);
static inline yoke_status
yoke_replica_load_weights(yoke_replica *replica, const char *path, const yoke_load_options *options)
{
    return yoke_replica_load_weights_sized(replica, path, options, sizeof(yoke_load_options));
}
/* with a comm every process calls it and reads the file */
YOKE_API yoke_status yoke_trainer_load_weights_sized(yoke_trainer *trainer, const char *path,
                                                     const yoke_load_options *options, size_t size);
static inline yoke_status
yoke_trainer_load_weights(yoke_trainer *trainer, const char *path, const yoke_load_options *options)
{
    return yoke_trainer_load_weights_sized(trainer, path, options, sizeof(yoke_load_options));
}

/* Makes a trainer of a model that only predicts, on all devices of a team: its graph has no loss
 * and no metrics, and its first output is what yoke_predictor_run computes by default, so for
 * classes probabilities (yoke_trainer_predict_dataset). Copies the graph and the weights. With a
 * comm every process calls it. Waits. */
YOKE_API yoke_status yoke_trainer_from_model_sized(yoke_team *team, yoke_model *model,
                                                   const yoke_trainer_options *options, size_t size,
                                                   yoke_trainer **trainer);
static inline yoke_status
yoke_trainer_from_model(yoke_team *team, yoke_model *model, const yoke_trainer_options *options,
                        yoke_trainer **trainer)
{
    return yoke_trainer_from_model_sized(team, model, options, sizeof(yoke_trainer_options),
                                         trainer);
}

/* A predictor is a model on one device, for one thread. Any number of predictors may share a model.
 */
typedef struct yoke_predictor yoke_predictor;

typedef struct yoke_predictor_options {
    const char *output; /* name of an output of the graph; NULL: the first */
    bool raw;           /* do not apply softmax or sigmoid to the output */
    int64_t batch;      /* samples computed at once; 0: 64 */
    bool strict;        /* no Winograd */
    yoke_plan_level level;
    const char *wisdom;    /* as in yoke_replica_options */
    const char *precision; /* as in yoke_replica_options */
} yoke_predictor_options;

/* Makes a predictor on the first device that `selector` picks. Predictors of one model on one
 * device share the weights there. Waits. */
YOKE_API yoke_status yoke_predictor_create_sized(yoke_context *context, const char *selector,
                                                 yoke_model *model,
                                                 const yoke_predictor_options *options, size_t size,
                                                 yoke_predictor **predictor);
static inline yoke_status
yoke_predictor_create(yoke_context *context, const char *selector, yoke_model *model,
                      const yoke_predictor_options *options, yoke_predictor **predictor)
{
    return yoke_predictor_create_sized(context, selector, model, options,
                                       sizeof(yoke_predictor_options), predictor);
}
YOKE_API void yoke_predictor_destroy(yoke_predictor *predictor);
/* Returns the shape of the result for one sample. */
YOKE_API yoke_shape yoke_predictor_get_shape(const yoke_predictor *predictor);
/* Computes the output for any number n of samples, which have the name, type and shape that
 * yoke_model_get_input says. If a cross-entropy of logits is computed from the output, the result
 * is its softmax or sigmoid, which are probabilities. `count` is the number of values of `output`:
 * n times those of yoke_predictor_get_shape. Waits. */
YOKE_API yoke_status yoke_predictor_run(yoke_predictor *predictor, int64_t n, yoke_feed input,
                                        float *output, int64_t count);
/* The same for a model of several inputs: a feed for each that the output is computed from, as
 * yoke_model_get_input_at says. */
YOKE_API yoke_status yoke_predictor_run_feeds(yoke_predictor *predictor, int64_t n,
                                              const yoke_feed *feeds, size_t feed_count,
                                              float *output, int64_t count);

/* ------------------------------------------------------------- generator */

/* A generator is a language model on one device that writes: it gives token after token, each drawn
 * from the logits that the tokens before it have. Keys and values of these stay in a cache, so a
 * token costs no more than a row of the model. All memory is allocated when the generator is made.
 */
typedef struct yoke_generator yoke_generator;

typedef struct yoke_generator_options {
    const char *output; /* the output with the logits, (length, vocabulary); NULL: the first */
    int64_t streams;    /* prompts that are continued at once, at most; 0: 1 */
    int64_t context; /* tokens of a stream, its prompt included, at most; 0: the model's length */
    yoke_plan_level level;
    const char *wisdom; /* as in yoke_replica_options */
} yoke_generator_options;

/* Makes a generator on the first device that `selector` picks. The model's one input must be
 * tokens, (length) whole numbers or a sequence of them, and the output (length, vocabulary); only
 * causal attention may look from one row to another (yoke_generator(3) says which operators fit).
 * Generators and predictors of one model on one device share the weights there. Waits. */
YOKE_API yoke_status yoke_generator_create_sized(yoke_context *context, const char *selector,
                                                 yoke_model *model,
                                                 const yoke_generator_options *options, size_t size,
                                                 yoke_generator **generator);
static inline yoke_status
yoke_generator_create(yoke_context *context, const char *selector, yoke_model *model,
                      const yoke_generator_options *options, yoke_generator **generator)
{
    return yoke_generator_create_sized(context, selector, model, options,
                                       sizeof(yoke_generator_options), generator);
}
YOKE_API void yoke_generator_destroy(yoke_generator *generator);
/* Return how many different logits there are, and how many tokens a stream may have. */
YOKE_API int64_t yoke_generator_vocabulary(const yoke_generator *generator);
YOKE_API int64_t yoke_generator_context(const yoke_generator *generator);

/* A text to continue, as tokens: at least one, and fewer than the context has room for. */
typedef struct yoke_prompt {
    const int32_t *tokens;
    int64_t count;
} yoke_prompt;

/* How tokens are drawn, and when a stream ends. All zeros: always the most probable token. */
typedef struct yoke_sampling {
    float temperature;    /* logits are divided by it; 0: always take the most probable token */
    int32_t top_k;        /* draw among so many of the most probable tokens; 0: all */
    float top_p;          /* among the most probable that together have this probability; 0: all */
    uint64_t seed;        /* prompt i draws as it would alone with the seed `seed` + i */
    const int32_t *stops; /* tokens that end a stream, and are not given; copied */
    size_t stop_count;
    int64_t length; /* tokens to give, at most; 0: until the context is full */
} yoke_sampling;

/* Begins to continue `count` prompts, whose tokens are copied, and forgets those before. `sampling`
 * NULL: all zeros. Checks all tokens, computes nothing yet. */
YOKE_API yoke_status yoke_generator_start_sized(yoke_generator *generator,
                                                const yoke_prompt *prompts, size_t count,
                                                const yoke_sampling *sampling, size_t size);
static inline yoke_status
yoke_generator_start(yoke_generator *generator, const yoke_prompt *prompts, size_t count,
                     const yoke_sampling *sampling)
{
    return yoke_generator_start_sized(generator, prompts, count, sampling, sizeof(yoke_sampling));
}
/* Gives the next token of each prompt, or -1 for one that has ended, and how many have not ended
 * with it. The first call also takes the prompts in. A prompt gets the same tokens whichever others
 * there are. Waits. */
YOKE_API yoke_status yoke_generator_next(yoke_generator *generator, int32_t *tokens,
                                         size_t *running);
/* Lends the logits from which yoke_generator_next drew the newest token of a prompt, one for each
 * token of the vocabulary, until the next call. NULL: there are none. */
YOKE_API const float *yoke_generator_get_logits(const yoke_generator *generator, size_t prompt);

#ifdef __cplusplus
}
#endif
#endif
