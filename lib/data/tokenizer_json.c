/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer_json.c - tokenizers as Hugging Face's tokenizer.json, and GPT-2's pair of files.
 *
 * Read is what is done as Hugging Face does it: byte-level BPE with the cuts of GPT-2 and Llama 3
 * or none, and tokens for each character. Everything else is refused by a sentence, not guessed.
 * The post_processor, which adds tokens around a text, is not read.
 *
 * In these files a byte is written as a character: itself if it can be printed, else one of those
 * from U+0100 on.
 */
#include <stdio.h>
#include <string.h>

#include "data/json.h"
#include "data/tokenizer.h"

#define END_OF_TEXT "<|endoftext|>"

static const char contractions[] = "'s|'t|'re|'ve|'m|'ll|'d";
static const char gpt2_rest[] = "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
#define LLAMA3(digits)                                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits                     \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
static const char llama3[] = LLAMA3("{1,3}");
static const char llama3_digits[] = LLAMA3("");
static const char each_character[] = "[\\s\\S]";

/* ---- bytes as characters ---- */

static bool
is_printed(int32_t byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

static void
make_alphabet(int32_t of_byte[256])
{
    int32_t next = 256;

    for (int32_t i = 0; i < 256; i++)
        of_byte[i] = is_printed(i) ? i : next++;
}

typedef struct reading {
    const char *name;
    yoke_tokenizer *tokenizer;
    int16_t byte_of[512]; /* of a character; -1: none */
    unsigned char *text;  /* memory for one token */
    size_t capacity;
} reading;

static void
start_alphabet(reading *r)
{
    int32_t of_byte[256];

    make_alphabet(of_byte);
    for (size_t i = 0; i < YKI_COUNT(r->byte_of); i++)
        r->byte_of[i] = -1;
    for (int i = 0; i < 256; i++)
        r->byte_of[of_byte[i]] = (int16_t)i;
}

/* Writes the bytes that a key stands for to r->text. If one of its characters is of no byte, it
 * stands for itself. */
static yoke_status
take_bytes(reading *r, const char *key, size_t *length)
{
    const unsigned char *from = (const unsigned char *)key;
    size_t size = strlen(key), used = 0;
    const bool plain = r->tokenizer->characters;

    YKI_TRY(yki_grow((void **)&r->text, &r->capacity, size + 1, 1, "a token"));
    for (size_t at = 0, step; at < size && !plain; at += step) {
        int32_t code;

        step = yki_utf8_next(from + at, size - at, &code);
        if (code < 0 || code >= 512 || r->byte_of[code] < 0)
            break;
        r->text[used++] = (unsigned char)r->byte_of[code];
        if (at + step == size) {
            *length = used;
            return YOKE_OK;
        }
    }
    memcpy(r->text, key, size);
    *length = size;
    return YOKE_OK;
}

/* ---- reading ---- */

static yoke_status
bad(const reading *r, const char *what)
{
    return yki_fail(YOKE_ERROR_FORMAT, "%s: %s", r->name, what);
}

static yoke_status
refuse(const reading *r, const char *what)
{
    return yki_fail(YOKE_ERROR_UNSUPPORTED,
                    "%s: %s; must be a byte-level BPE as of GPT-2 or Llama 3, or one that yoke "
                    "wrote",
                    r->name, what);
}

static bool
is_type(const json_t *json, const char *type)
{
    const char *text = json_string_value(json_object_get(json, "type"));

    return text && strcmp(text, type) == 0;
}

static bool
is_set(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    const char *text = json_string_value(value);

    return value && !json_is_null(value) && !json_is_false(value) && !(text && !*text);
}

static yoke_status
take_pattern(const reading *r, const json_t *split, yki_cut *cut, bool *characters)
{
    const char *regex =
        json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(split, "behavior"));
    const size_t head = sizeof contractions - 1;

    if (!regex || !behavior || strcmp(behavior, "Isolated") != 0 || is_set(split, "invert"))
        return refuse(r, "a Split is not by an isolated regular expression");
    *characters = strcmp(regex, each_character) == 0;
    if (strncmp(regex, contractions, head) == 0 && strcmp(regex + head, gpt2_rest) == 0)
        *cut = YKI_CUT_GPT2;
    else if (strcmp(regex, llama3) == 0)
        *cut = YKI_CUT_LLAMA3;
    else if (strcmp(regex, llama3_digits) == 0)
        *cut = YKI_CUT_LLAMA3_DIGITS;
    else if (!*characters)
        return refuse(r, "its regular expression is not that of GPT-2 or Llama 3");
    return YOKE_OK;
}

/* Reads how a text is cut: ByteLevel, by itself or after one Split; or a Split into characters. */
static yoke_status
take_cut(const reading *r, const json_t *json, yki_cut *cut, bool *characters)
{
    const json_t *list = json_object_get(json, "pretokenizers"), *bytes = json;
    const json_t *split = is_type(json, "Split") ? json : NULL;
    const json_t *regex;

    *cut = YKI_CUT_NONE;
    *characters = false;
    if (is_type(json, "Sequence")) {
        bytes = json_array_get(list, json_array_size(list) - 1);
        split = json_array_size(list) == 2 ? json_array_get(list, 0) : NULL;
        if (json_array_size(list) < 1 || json_array_size(list) > 2 ||
            (split && !is_type(split, "Split")))
            return refuse(r, "its pre_tokenizer is not a Split and a ByteLevel");
    }
    if (split)
        YKI_TRY(take_pattern(r, split, cut, characters));
    if (*characters)
        return split == json ? YOKE_OK : refuse(r, "it cuts into characters, then into bytes");
    if (!is_type(bytes, "ByteLevel"))
        return refuse(r, "its pre_tokenizer is not ByteLevel");
    if (is_set(bytes, "add_prefix_space"))
        return refuse(r, "it adds a space before a text");
    regex = json_object_get(bytes, "use_regex");
    if (split && !json_is_false(regex))
        return refuse(r, "it cuts a text twice");
    if (!split && !json_is_false(regex))
        *cut = YKI_CUT_GPT2;
    return YOKE_OK;
}

/* Refuses what would change the tokens and is not done here. */
static yoke_status
check_model(const reading *r, const json_t *root, const json_t *model, bool characters)
{
    static const char *const unknown[] = {"dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix", "byte_fallback"};

    if (is_set(root, "normalizer"))
        return refuse(r, "it has a normalizer, which changes the text");
    if (!json_is_object(json_object_get(model, "vocab")))
        return bad(r, "it has no model with a vocab; must be a tokenizer.json");
    if (characters)
        return is_type(model, "WordLevel") ? YOKE_OK
                                           : refuse(r, "its model of characters is no WordLevel");
    if (!is_type(model, "BPE") &&
        (json_object_get(model, "type") || !json_object_get(model, "merges")))
        return refuse(r, "its model is not BPE");
    for (size_t i = 0; i < YKI_COUNT(unknown); i++) {
        const json_t *value = json_object_get(model, unknown[i]);

        if (is_set(model, unknown[i]) && !(json_is_number(value) && json_number_value(value) == 0))
            return yki_fail(YOKE_ERROR_UNSUPPORTED, "%s: its model sets %s; must not", r->name,
                            unknown[i]);
    }
    return YOKE_OK;
}

static bool
get_token(const json_t *json, int32_t *token)
{
    json_int_t id = json_is_integer(json) ? json_integer_value(json) : -1;

    *token = (int32_t)(id >= 0 && id < YKI_MOST_TOKENS ? id : -1);
    return *token >= 0;
}

static yoke_status
take_token(reading *r, const char *key, const json_t *id)
{
    yoke_tokenizer *t = r->tokenizer;
    int32_t token, code;
    size_t length;

    if (!get_token(id, &token))
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s: the token \"%.40s\" has no number; must be between 0 and %d", r->name,
                        key, YKI_MOST_TOKENS - 1);
    if (!*key)
        return bad(r, "a token has no text; must have a byte at least");
    YKI_TRY(take_bytes(r, key, &length));
    if (t->characters && (yki_utf8_next(r->text, length, &code) != length || code < 0))
        return refuse(r, "a token of characters has more than one");
    if (token < t->count && t->texts[token].length)
        return yki_fail(YOKE_ERROR_FORMAT, "%s: two tokens have the number %d; must be one",
                        r->name, (int)token);
    return yki_tokenizer_put(t, token, r->text, length);
}

static yoke_status
take_vocabulary(reading *r, const json_t *vocabulary)
{
    const char *key;
    json_t *id;

    json_object_foreach((json_t *)vocabulary, key, id) YKI_TRY(take_token(r, key, id));
    return YOKE_OK;
}

/* A merge is "a b" or ["a", "b"]. */
static yoke_status
take_merge(reading *r, const json_t *vocabulary, const json_t *json, size_t number)
{
    const char *left = json_string_value(json_array_get(json, 0)), *text = json_string_value(json);
    const char *right = json_string_value(json_array_get(json, 1));
    const char *space = text ? strchr(text, ' ') : NULL;
    int32_t tokens[3];
    size_t a, b;
    char *both;
    bool known;

    if (space) {
        left = text;
        right = space + 1;
    }
    if (!left || !right || !*right || (space == left))
        return yki_fail(YOKE_ERROR_FORMAT, "%s: merge %zu is no pair of tokens", r->name, number);
    a = space ? (size_t)(space - left) : strlen(left);
    b = strlen(right);
    if (!(both = yki_alloc(a + b + 1, 1, "a merge")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    memcpy(both, left, a);
    known = get_token(json_object_get(vocabulary, both), &tokens[0]);
    memcpy(both + a, right, b);
    known = known && get_token(json_object_get(vocabulary, right), &tokens[1]) &&
            get_token(json_object_get(vocabulary, both), &tokens[2]);
    yki_free(both);
    if (!known)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s: merge %zu is of tokens, or makes one, that the vocabulary lacks",
                        r->name, number);
    return yki_tokenizer_add_merge(r->tokenizer, tokens[0], tokens[1], tokens[2]);
}

static yoke_status
take_merges(reading *r, const json_t *model)
{
    const json_t *merges = json_object_get(model, "merges");

    if (merges && !json_is_array(merges))
        return bad(r, "its merges are no list; must be one");
    for (size_t i = 0; i < json_array_size(merges); i++)
        YKI_TRY(take_merge(r, json_object_get(model, "vocab"), json_array_get(merges, i), i + 1));
    return YOKE_OK;
}

static yoke_status
take_added(reading *r, const json_t *json)
{
    const char *text = json_string_value(json_object_get(json, "content"));
    yoke_tokenizer *t = r->tokenizer;
    int32_t token;

    if (!text || !*text || !get_token(json_object_get(json, "id"), &token))
        return bad(r, "an added token has no text or no number; must have both");
    if (is_set(json, "lstrip") || is_set(json, "rstrip") || is_set(json, "single_word"))
        return refuse(r, "an added token takes spaces around it, or only whole words");
    if (token < t->count && t->texts[token].length &&
        (t->texts[token].length != strlen(text) ||
         memcmp(t->pool + t->texts[token].offset, text, strlen(text)) != 0))
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s: the added token \"%.40s\" has the number %d of another one", r->name,
                        text, (int)token);
    YKI_TRY(yki_tokenizer_put(t, token, text, strlen(text)));
    return yki_tokenizer_add_named(t, token);
}

static yoke_status
take_all_added(reading *r, const json_t *root)
{
    const json_t *list = json_object_get(root, "added_tokens");

    if (list && !json_is_array(list) && !json_is_null(list))
        return bad(r, "its added_tokens are no list; must be one");
    for (size_t i = 0; i < json_array_size(list); i++)
        YKI_TRY(take_added(r, json_array_get(list, i)));
    return YOKE_OK;
}

static yoke_status
read_all(reading *r, const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    yoke_status status;
    bool characters;
    yki_cut cut;

    YKI_TRY(take_cut(r, json_object_get(root, "pre_tokenizer"), &cut, &characters));
    YKI_TRY(check_model(r, root, model, characters));
    YKI_TRY(yki_tokenizer_make(characters, cut, &r->tokenizer));
    r->tokenizer->whole_first = json_is_true(json_object_get(model, "ignore_merges"));
    YKI_TRY(take_vocabulary(r, json_object_get(model, "vocab")));
    YKI_TRY(take_merges(r, model));
    YKI_TRY(take_all_added(r, root));
    if (r->tokenizer->count == 0)
        return bad(r, "its vocabulary is empty; must have a token at least");
    status = yki_tokenizer_finish(r->tokenizer);
    return status == YOKE_ERROR_FORMAT ? yki_fail_in(status, r->name) : status;
}

static yoke_status
read_root(const json_t *root, const char *name, yoke_tokenizer **out)
{
    reading r = {.name = name};
    yoke_status status;

    start_alphabet(&r);
    status = read_all(&r, root);
    yki_free(r.text);
    if (status != YOKE_OK) {
        yoke_tokenizer_destroy(r.tokenizer);
        return status;
    }
    *out = r.tokenizer;
    return YOKE_OK;
}

static yoke_status
parse(const char *text, size_t length, const char *name, json_t **json)
{
    json_error_t error;

    *json = json_loadb(text, length, 0, &error);
    if (!*json)
        return yki_fail(YOKE_ERROR_FORMAT, "%s: line %d is no JSON: %s", name, error.line,
                        error.text);
    if (json_is_object(*json))
        return YOKE_OK;
    json_decref(*json);
    return yki_fail(YOKE_ERROR_FORMAT, "%s is no object of JSON; must be one", name);
}

yoke_status
yki_tokenizer_read(const char *text, size_t length, const char *name, yoke_tokenizer **tokenizer)
{
    json_t *root;
    yoke_status status;

    YKI_TRY(parse(text, length, name, &root));
    status = read_root(root, name, tokenizer);
    json_decref(root);
    return status;
}

/* Makes the list of merges of the lines of a merges.txt; the first may tell a version. */
static json_t *
merges_of_lines(const char *text, size_t length)
{
    json_t *list = json_array();
    const char *end = text + length, *line = text;

    while (list && line < end) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t size = (size_t)((next ? next : end) - line);

        while (size && (line[size - 1] == '\r' || line[size - 1] == ' '))
            size--;
        if (size && !(line == text && size > 8 && memcmp(line, "#version", 8) == 0) &&
            json_array_append_new(list, json_stringn(line, size)) != 0)
            json_array_append_new(list, json_null());
        line = next ? next + 1 : end;
    }
    return list;
}

/* GPT-2's end of a text is a token like others in its vocab.json. */
static json_t *
named_of(const json_t *vocabulary)
{
    json_t *id = json_object_get(vocabulary, END_OF_TEXT);

    return id ? json_pack("[{s:O,s:s}]", "id", id, "content", END_OF_TEXT) : json_array();
}

yoke_status
yki_tokenizer_read_pair(const char *vocabulary, size_t vocabulary_length, const char *merges,
                        size_t merges_length, const char *name, yoke_tokenizer **tokenizer)
{
    json_t *words, *root;
    yoke_status status;

    YKI_TRY(parse(vocabulary, vocabulary_length, name, &words));
    root = json_pack("{s:{s:s},s:o,s:{s:s,s:O,s:o}}", "pre_tokenizer", "type", "ByteLevel",
                     "added_tokens", named_of(words), "model", "type", "BPE", "vocab", words,
                     "merges", merges_of_lines(merges, merges_length));
    json_decref(words);
    if (!root)
        return yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no host memory for the tokenizer %s", name);
    status = read_root(root, name, tokenizer);
    json_decref(root);
    return status;
}

yoke_status
yoke_tokenizer_from_json(const char *text, size_t length, yoke_tokenizer **tokenizer)
{
    YKI_GIVEN("yoke_tokenizer_from_json", {"text", text}, {"tokenizer", tokenizer});
    return yki_tokenizer_read(text, length, "the tokenizer", tokenizer);
}

/* ---- writing ---- */

static bool
is_named(const yoke_tokenizer *t, int32_t token)
{
    for (size_t i = 0; i < t->added_count; i++)
        if (t->added[i] == token)
            return true;
    return false;
}

/* The text of a token as a value of JSON; NULL if there is no memory. */
static json_t *
key_of(const yoke_tokenizer *t, int32_t token, const int32_t alphabet[256])
{
    const unsigned char *text = t->pool + t->texts[token].offset;
    size_t length = t->texts[token].length, used = 0;
    json_t *json;
    char *key;

    if (t->characters || is_named(t, token))
        return json_stringn((const char *)text, length);
    key = yki_alloc(2 * length + 1, 1, "a token");
    if (!key)
        return NULL;
    for (size_t i = 0; i < length; i++)
        used += yki_utf8_put(alphabet[text[i]], key + used);
    json = json_stringn(key, used);
    yki_free(key);
    return json;
}

static void
add_key(yki_json_text *text, const yoke_tokenizer *t, int32_t token, const int32_t alphabet[256])
{
    yki_json_add_value(text, key_of(t, token, alphabet), 0);
}

static void
add_pre_tokenizer(yki_json_text *text, const yoke_tokenizer *t)
{
    const char *regex = t->characters                     ? each_character
                        : t->cut == YKI_CUT_LLAMA3        ? llama3
                        : t->cut == YKI_CUT_LLAMA3_DIGITS ? llama3_digits
                                                          : NULL;

    if (regex && !t->characters)
        yki_json_add(text, "{\"type\": \"Sequence\", \"pretokenizers\": [");
    if (regex) {
        yki_json_add(text, "{\"type\": \"Split\", \"pattern\": {\"Regex\": ");
        yki_json_add_value(text, json_string(regex), 0);
        yki_json_add(text, "}, \"behavior\": \"Isolated\", \"invert\": false}");
    }
    if (t->characters)
        return;
    yki_json_add(text, regex ? ", " : "");
    yki_json_add(text, "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                       "\"trim_offsets\": true, \"use_regex\": ");
    yki_json_add(text, t->cut == YKI_CUT_GPT2 ? "true}" : "false}");
    yki_json_add(text, regex ? "]}" : "");
}

static void
add_named(yki_json_text *text, const yoke_tokenizer *t, const int32_t alphabet[256])
{
    for (size_t i = 0; i < t->added_count; i++) {
        yki_json_add(text, i ? ",\n    {\"id\": " : "\n    {\"id\": ");
        yki_json_add_value(text, json_integer(t->added[i]), 0);
        yki_json_add(text, ", \"content\": ");
        add_key(text, t, t->added[i], alphabet);
        yki_json_add(text, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                           "\"normalized\": false, \"special\": true}");
    }
}

static void
add_vocabulary(yki_json_text *text, const yoke_tokenizer *t, const int32_t alphabet[256])
{
    bool any = false;

    for (int32_t i = 0; i < t->count; i++) {
        if (!t->texts[i].length || (t->characters && is_named(t, i)))
            continue;
        yki_json_add(text, any ? ",\n      " : "\n      ");
        any = true;
        add_key(text, t, i, alphabet);
        yki_json_add(text, ": ");
        yki_json_add_value(text, json_integer(i), 0);
    }
}

static void
add_merges(yki_json_text *text, const yoke_tokenizer *t, const int32_t alphabet[256])
{
    for (size_t i = 0; i < t->merge_count; i++) {
        yki_json_add(text, i ? ",\n      [" : "\n      [");
        add_key(text, t, t->merges[i].left, alphabet);
        yki_json_add(text, ", ");
        add_key(text, t, t->merges[i].right, alphabet);
        yki_json_add(text, "]");
    }
}

yoke_status
yki_tokenizer_write(const yoke_tokenizer *t, char **out)
{
    yki_json_text text = {0};
    int32_t alphabet[256];

    make_alphabet(alphabet);
    yki_json_add(&text, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,"
                        "\n  \"added_tokens\": [");
    add_named(&text, t, alphabet);
    yki_json_add(&text, "],\n  \"normalizer\": null,\n  \"pre_tokenizer\": ");
    add_pre_tokenizer(&text, t);
    yki_json_add(&text, ",\n  \"post_processor\": null,\n  \"decoder\": ");
    yki_json_add(&text, t->characters ? "{\"type\": \"Fuse\"}"
                                      : "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                                        "\"trim_offsets\": true, \"use_regex\": true}");
    yki_json_add(&text, ",\n  \"model\": {\n    \"type\": ");
    if (t->characters)
        yki_json_add(&text, "\"WordLevel\",\n    \"unk_token\": \"\"");
    else
        yki_json_add(&text, "\"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n    "
                            "\"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": "
                            "null,\n    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n    "
                            "\"ignore_merges\": ");
    yki_json_add(&text, t->characters ? "" : t->whole_first ? "true" : "false");
    yki_json_add(&text, ",\n    \"vocab\": {");
    add_vocabulary(&text, t, alphabet);
    yki_json_add(&text, "}");
    if (!t->characters) {
        yki_json_add(&text, ",\n    \"merges\": [");
        add_merges(&text, t, alphabet);
        yki_json_add(&text, "]");
    }
    yki_json_add(&text, "\n  }\n}\n");
    return yki_json_take(&text, out);
}

yoke_status
yoke_tokenizer_to_json(const yoke_tokenizer *t, char **text)
{
    YKI_GIVEN("yoke_tokenizer_to_json", {"tokenizer", t}, {"text", text});
    return yki_tokenizer_write(t, text);
}
