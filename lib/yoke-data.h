/* SPDX-License-Identifier: Apache-2.0
 *
 * yoke-data.h - datasets: samples in memory or in files, and how they are scaled and changed;
 * and files that TensorBoard shows.
 *
 * Programs include <yoke.h>, which includes this file and has the conventions that hold here.
 */
#ifndef YOKE_DATA_H
#define YOKE_DATA_H

#include "yoke-graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ data */

/* A dataset is a number of samples, counted from 0, each with the same named fields. Who trains or
 * evaluates asks for samples by their numbers. Views and trainers that use it keep it alive. */
typedef struct yoke_dataset yoke_dataset;

typedef struct yoke_field {
    const char *name; /* of the graph's input or target that the field is for */
    yoke_type type;
    yoke_shape shape; /* of one sample */
    const void *data; /* sample 0 in memory; not used with `fill` */
    int64_t stride;   /* bytes from one sample to the next; 0: they follow each other */
} yoke_field;

typedef struct yoke_dataset_options {
    /* Called once with `user`, when nothing uses the fields' memory any more. Not called if making
     * the dataset fails. */
    void (*release)(void *user);
    /* Writes field `field` of sample `index` to `out`; it replaces memory. One thread at a time
     * calls it, but that may be a thread of yoke's: while a fit or an evaluation runs, yoke reads
     * samples that do not stay on the devices before they are needed. Any status but YOKE_OK ends
     * the step that needs the sample. */
    yoke_status (*fill)(void *user, int64_t index, size_t field, void *out);
    void *user;
    bool no_ahead; /* call `fill` only when samples are needed, from the thread that calls yoke */
} yoke_dataset_options;

/* Makes a dataset of `count` samples with at most 8 fields. The samples lie in the caller's arrays,
 * which must stay as they are until `release` is called, or come from `fill`. */
YOKE_API yoke_status yoke_dataset_create_sized(int64_t count, const yoke_field *fields,
                                               size_t field_count, size_t field_size,
                                               const yoke_dataset_options *options, size_t size,
                                               yoke_dataset **dataset);
static inline yoke_status
yoke_dataset_create(int64_t count, const yoke_field *fields, size_t field_count,
                    const yoke_dataset_options *options, yoke_dataset **dataset)
{
    return yoke_dataset_create_sized(count, fields, field_count, sizeof(yoke_field), options,
                                     sizeof(yoke_dataset_options), dataset);
}
YOKE_API void yoke_dataset_destroy(yoke_dataset *dataset);
/* Describe the dataset: the numbers of samples and of fields, and one field, which is lent; NULL
 * where there is none. */
YOKE_API int64_t yoke_dataset_count(const yoke_dataset *dataset);
YOKE_API size_t yoke_dataset_field_count(const yoke_dataset *dataset);
YOKE_API const yoke_field *yoke_dataset_get_field(const yoke_dataset *dataset, size_t index);
/* Lends the name of the file that a sample is, as an image is; NULL: it has none of its own. */
YOKE_API const char *yoke_dataset_get_file(const yoke_dataset *dataset, int64_t index);
/* Copies field `name` of `count` samples, given by their numbers, one after the other in the
 * field's type: not scaled, not augmented. `bytes` is the size of `out`, exactly what they take. */
YOKE_API yoke_status yoke_dataset_read(const yoke_dataset *dataset, const char *name,
                                       const int64_t *indices, int64_t count, void *out,
                                       size_t bytes);

/* Gives the same samples as floats, as a device gives them to an input of floats: scaled
 * (yoke_dataset_set_scaling), or u8 divided by 255; not augmented. So a program can feed what fit
 * would. `values` is the number of floats that `out` has room for, exactly those that they take. */
YOKE_API yoke_status yoke_dataset_batch(const yoke_dataset *dataset, const char *field,
                                        const int64_t *indices, int64_t count, float *out,
                                        int64_t values);

typedef enum yoke_data_part {
    YOKE_PART_ANY = 0, /* the training data of a folder that has training data, else everything */
    YOKE_PART_TRAIN,
    YOKE_PART_TEST /* files called "t10k" or "validation" too */
} yoke_data_part;

typedef struct yoke_dataset_open_options {
    yoke_data_part part;
    const char *data_name;   /* name of the data field; NULL: "image" or "x" */
    const char *target_name; /* name of the other field; NULL: "label" or "target" */
    const char *target_file; /* file of labels or targets for a single file; NULL: none */
    bool channels_last;      /* npy: images are (H, W, C) */
    /* CSV: the column of labels, by name or by number from 1. NULL: the column called label, class,
     * target or y, else the last one. It holds classes if its values are whole numbers from 0 or
     * text, else it is a target. */
    const char *csv_label;
    const char *csv_targets; /* CSV: columns of targets, "price", or several, "x,y" */
    bool csv_no_label;       /* CSV: all columns are data */
    bool csv_integers;       /* CSV: data are whole numbers and become i32, for integer inputs */
    /* Images: the size of a sample, at most 4096 by 4096; 0: that of the first image. Each image is
     * resized to cover it, and the middle is kept. */
    int32_t image_height, image_width;
    int32_t image_channels; /* images: 1 (gray) or 3 (red, green, blue); 0: those of the first */
    /* Images: opening decodes all of them, warns of each that is damaged, and leaves it out. False:
     * reading a damaged one fails. */
    bool skip_bad_images;
    /* Images: names of classes 0, 1, ...; NULL: the folders, sorted, for a test part those of the
     * training part. */
    const char *const *class_names;
    size_t class_count;
    /* CSV: the column of weights of samples, which is no data; it becomes the field "weight". NULL:
     * none */
    const char *csv_weights;
    /* CSV: how columns of data become numbers:
     * "city=one-hot,age=median,zip=hash:32,id=drop,*=auto", where "*" is for all others; NULL: they
     * are numbers. Medians and texts are those of the training data. */
    const char *csv_columns;
    /* CSV: what was learned of other data (yoke_dataset_get_encoding, yoke_model_get_encoding),
     * instead: columns are found by their names, and others are left out. */
    const char *csv_encoding;
    /* A folder with a file for each of these fields, at most 8, as inputs and targets of a graph
     * are: FIELD.npy, FIELD.csv, FIELD.idx, or a folder of images, with the part before or behind
     * ("train-FIELD.npy") or in a folder train or test. NULL: not so. The last `optional_fields` of
     * them may lack a file; a column of a table with the name of the first that does is a label. */
    const char *const *field_names;
    size_t field_count, optional_fields;
} yoke_dataset_open_options;

/* Opens a file (IDX, IDX.gz, CIFAR-10 or -100 binary, .npy, CSV, or one image), a folder of such
 * files with their usual names, or one of folders of PNG and JPEG images, a class each
 * (yoke-data(7)). Sizes in a file are compared with its length before memory is taken. Images, and
 * files that are not compressed, are read when samples are, so they must not change meanwhile. */
YOKE_API yoke_status yoke_dataset_open_sized(const char *path,
                                             const yoke_dataset_open_options *options, size_t size,
                                             yoke_dataset **dataset);
static inline yoke_status
yoke_dataset_open(const char *path, const yoke_dataset_open_options *options,
                  yoke_dataset **dataset)
{
    return yoke_dataset_open_sized(path, options, sizeof(yoke_dataset_open_options), dataset);
}

/* Lends how columns of a table became numbers, as JSON; NULL: there were no rules. Files of a model
 * that is trained on it have it. */
YOKE_API const char *yoke_dataset_get_encoding(const yoke_dataset *dataset);

/* Turns text into tokens, which are numbers from 0 on, and back: each byte or each character is
 * one, or frequent sequences of bytes are (byte-level BPE). It does not change, so threads may
 * share it. */
typedef struct yoke_tokenizer yoke_tokenizer;

/* Opens a tokenizer: Hugging Face's tokenizer.json; GPT-2's vocab.json, with a merges.txt beside
 * it; a folder that has these; or a model's weights that yoke wrote with it. One that yoke would
 * not follow exactly is YOKE_ERROR_UNSUPPORTED (yoke_tokenizer(3)). */
YOKE_API yoke_status yoke_tokenizer_open(const char *path, yoke_tokenizer **tokenizer);
YOKE_API yoke_status yoke_tokenizer_from_json(const char *text, size_t length,
                                              yoke_tokenizer **tokenizer);

typedef enum yoke_tokenizer_kind {
    YOKE_TOKENIZER_BYTES = 0,  /* 256 tokens; needs no text */
    YOKE_TOKENIZER_CHARACTERS, /* those of the text, which must be UTF-8 */
    YOKE_TOKENIZER_BPE
} yoke_tokenizer_kind;

typedef struct yoke_tokenizer_options {
    yoke_tokenizer_kind kind;
    int64_t
        vocabulary; /* of BPE: at most so many tokens, with one for the end of a text; 0: 4096 */
} yoke_tokenizer_options;

/* Makes a tokenizer of a text: a file, or all files of a folder and of the folders in it. */
YOKE_API yoke_status yoke_tokenizer_train_sized(const char *path,
                                                const yoke_tokenizer_options *options, size_t size,
                                                yoke_tokenizer **tokenizer);
static inline yoke_status
yoke_tokenizer_train(const char *path, const yoke_tokenizer_options *options,
                     yoke_tokenizer **tokenizer)
{
    return yoke_tokenizer_train_sized(path, options, sizeof(yoke_tokenizer_options), tokenizer);
}
YOKE_API void yoke_tokenizer_destroy(yoke_tokenizer *tokenizer);

/* Write a tokenizer.json, to a file, or as text, which the caller frees with yoke_free. */
YOKE_API yoke_status yoke_tokenizer_save(const yoke_tokenizer *tokenizer, const char *path);
YOKE_API yoke_status yoke_tokenizer_to_json(const yoke_tokenizer *tokenizer, char **text);

/* Returns the number of tokens; they are below it. */
YOKE_API int64_t yoke_tokenizer_vocabulary(const yoke_tokenizer *tokenizer);
/* Lends the bytes of a token, of which `length` (may be NULL) gets the number; they may be part of
 * a character, or contain a 0. NULL: there is no such token. */
YOKE_API const char *yoke_tokenizer_get_text(const yoke_tokenizer *tokenizer, int32_t token,
                                             size_t *length);
/* Returns the token of a text, as that of "<|endoftext|>"; -1: there is none. */
YOKE_API int32_t yoke_tokenizer_find(const yoke_tokenizer *tokenizer, const char *text);
/* Turns a text into tokens, which the caller frees with yoke_free. Named tokens that the text
 * holds, as "<|endoftext|>", become one token each; none is added. */
YOKE_API yoke_status yoke_tokenizer_encode(const yoke_tokenizer *tokenizer, const char *text,
                                           size_t length, int32_t **tokens, size_t *count);
/* Turns tokens into a text with a 0 after it, which the caller frees with yoke_free. */
YOKE_API yoke_status yoke_tokenizer_decode(const yoke_tokenizer *tokenizer, const int32_t *tokens,
                                           size_t count, char **text, size_t *length);

/* Writes the tokens of a text, a file or a folder, to a file of llm.c. Each file of the text ends
 * with the token for that, if there is one. `count` (may be NULL) gets their number. */
YOKE_API yoke_status yoke_tokenizer_encode_file(const yoke_tokenizer *tokenizer, const char *path,
                                                const char *out, int64_t *count);

typedef struct yoke_text_options {
    int64_t context; /* tokens of a sample; must be given */
    /* Retained. NULL: that of the text's folder, else the text's bytes; tokens need none. */
    const yoke_tokenizer *tokenizer;
    yoke_data_part part;  /* YOKE_PART_ANY: all of the text */
    double test_fraction; /* of the text: its tail is the test part; 0: a tenth */
    int64_t vocabulary;   /* of the model: other tokens are refused; 0: the tokenizer's */
    /* Each token once: the last sample may have fewer than `context`, the others are 0, and in
     * "next" -1, which the loss must ignore (yoke_loss_options). Not for YOKE_PART_TRAIN. */
    bool short_last;
} yoke_text_options;

/* Opens a text as samples of `context` tokens, "tokens", and those that follow each, "next": a file
 * or a folder of text, or tokens in files of llm.c or .npy. A text is made to tokens once, and kept
 * so in a file beside it (yoke-data(7)). In training each epoch shifts the windows. */
YOKE_API yoke_status yoke_dataset_open_text_sized(const char *path,
                                                  const yoke_text_options *options, size_t size,
                                                  yoke_dataset **dataset);
static inline yoke_status
yoke_dataset_open_text(const char *path, const yoke_text_options *options, yoke_dataset **dataset)
{
    return yoke_dataset_open_text_sized(path, options, sizeof(yoke_text_options), dataset);
}
/* Describe a dataset of text: its tokenizer, which is lent, NULL if unknown; its vocabulary; and
 * the tokens that its samples predict, and the bytes of these, 0 if unknown. */
YOKE_API const yoke_tokenizer *yoke_dataset_get_tokenizer(const yoke_dataset *dataset);
YOKE_API int64_t yoke_dataset_vocabulary(const yoke_dataset *dataset);
YOKE_API int64_t yoke_dataset_text_tokens(const yoke_dataset *dataset);
YOKE_API int64_t yoke_dataset_text_bytes(const yoke_dataset *dataset);

/* Makes a view of a dataset: its sample i is sample indices[i] of `dataset`. The view copies the
 * indices, and the scaling, augmentation and class names as they are now. It keeps `dataset` alive
 * and reads through it. */
YOKE_API yoke_status yoke_dataset_subset(yoke_dataset *dataset, const int64_t *indices,
                                         int64_t count, yoke_dataset **subset);
/* Makes two views: `fraction` (0 to 1) of the samples for validation, and the others for training.
 * The seed decides which, in the same way on every machine. */
YOKE_API yoke_status yoke_dataset_split(yoke_dataset *dataset, double fraction, uint32_t seed,
                                        yoke_dataset **train, yoke_dataset **validation);

/* Makes devices compute (x - mean) * scale from the values x of a field. `count` is 1, or the size
 * of the first axis: the channels of an image or the columns of a table; 0 removes the scaling.
 * Without scaling, u8 for a float input becomes x / 255, and other values stay as they are. */
YOKE_API yoke_status yoke_dataset_set_scaling(yoke_dataset *dataset, const char *field,
                                              const float *mean, const float *scale, size_t count);
/* Reads all samples and sets the scaling that gives each channel or column mean 0 and standard
 * deviation 1. A channel or column that is constant becomes 0. */
YOKE_API yoke_status yoke_dataset_measure_scaling(yoke_dataset *dataset, const char *field);
/* Returns the number of means and scales that are set, and lends them until they are set again; 0:
 * none are set. */
YOKE_API size_t yoke_dataset_get_scaling(const yoke_dataset *dataset, const char *field,
                                         const float **mean, const float **scale);

/* Random changes to images (C, H, W) of u8 or f32 in training. What happens to a sample depends on
 * the trainer's seed, the epoch and the sample's number alone. */
typedef struct yoke_augmentation {
    const char *field; /* NULL: the only field of images */
    bool flip;         /* mirror half of the images, left and right */
    int32_t shift;     /* move by up to this many pixels each way; zeros move in */
    bool crop;         /* cut larger images to the input's size: in training at a random position,
                        * else in the middle */
    float noise;       /* standard deviation of the noise that is added after scaling */
    float shift_part;  /* of the samples that shift moves in an epoch, 0 to 1; 0: all */
} yoke_augmentation;
/* Sets the augmentation of a dataset; NULL removes it. The next epoch uses it. */
YOKE_API yoke_status yoke_dataset_set_augmentation_sized(yoke_dataset *dataset,
                                                         const yoke_augmentation *augmentation,
                                                         size_t size);
static inline yoke_status
yoke_dataset_set_augmentation(yoke_dataset *dataset, const yoke_augmentation *augmentation)
{
    return yoke_dataset_set_augmentation_sized(dataset, augmentation, sizeof(yoke_augmentation));
}

/* Sets the names of classes 0, 1, ..., which are copied, and returns them. Names that are returned
 * are lent until they are set again; NULL where there is none. */
YOKE_API yoke_status yoke_dataset_set_class_names(yoke_dataset *dataset, const char *const *names,
                                                  size_t count);
YOKE_API size_t yoke_dataset_class_count(const yoke_dataset *dataset);
YOKE_API const char *yoke_dataset_get_class_name(const yoke_dataset *dataset, size_t index);

/* ----------------------------------------------------------------- board */

/* A file that TensorBoard shows: numbers, histograms and images, each with a tag and a step. After
 * a write has failed, all functions fail. */
typedef struct yoke_board yoke_board;

/* Makes a new file in a folder, which is made where it is missing. TensorBoard shows all files of a
 * folder as one training. */
YOKE_API yoke_status yoke_board_create(const char *folder, yoke_board **board);
/* Closes the file. What cannot be written then is lost: yoke_board_flush() tells. */
YOKE_API void yoke_board_destroy(yoke_board *board);
/* Hands all that was added to the system. */
YOKE_API yoke_status yoke_board_flush(yoke_board *board);
/* Says that training went back to `step`: what earlier files have of later steps is not shown. */
YOKE_API yoke_status yoke_board_restart(yoke_board *board, int64_t step);
YOKE_API yoke_status yoke_board_add_scalar(yoke_board *board, const char *tag, int64_t step,
                                           double number);
/* Counts values in 30 ranges between the least and the largest; those that are not finite are left
 * out. */
YOKE_API yoke_status yoke_board_add_histogram(yoke_board *board, const char *tag, int64_t step,
                                              const float *values, int64_t count);
/* Adds an image (1 or 3, height, width), of which `least` is black and `most` white.
 * YOKE_ERROR_UNSUPPORTED: yoke was built without libpng. */
YOKE_API yoke_status yoke_board_add_image(yoke_board *board, const char *tag, int64_t step,
                                          const float *pixels, yoke_shape shape, float least,
                                          float most);

#ifdef __cplusplus
}
#endif
#endif
