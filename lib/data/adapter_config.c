/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter_config.c - reads the adapter_config.json of PEFT: rank and alpha, also those of single
 * modules. Adapters that compute more than yoke's are refused.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/adapter_names.h"

static yoke_status
fail_config(const char *name, const char *what)
{
    return yki_fail(YOKE_ERROR_FORMAT, "%s: %s", name, what);
}

/* Kinds of adapters that are more than W + factor B A. */
static yoke_status
check_kind(const json_t *json, const char *name)
{
    static const char *const flags[] = {"use_dora", "use_rslora", "use_qalora", "use_bdlora",
                                        "lora_bias"};
    static const char *const lists[] = {"modules_to_save",
                                        "layer_replication",
                                        "trainable_token_indices",
                                        "alora_invocation_tokens",
                                        "use_bdlora",
                                        "arrow_config",
                                        "kasa_config",
                                        "velora_config",
                                        "monteclora_config"};
    const char *kind = json_string_value(json_object_get(json, "peft_type"));
    const char *bias = json_string_value(json_object_get(json, "bias"));
    char text[160];

    if (!kind || strcmp(kind, "LORA") != 0)
        return fail_config(name, "peft_type must be \"LORA\"");
    if (bias && strcmp(bias, "none") != 0)
        return fail_config(name, "bias must be \"none\": adapters of biases are not supported");
    for (size_t i = 0; i < YKI_COUNT(flags); i++)
        if (json_is_true(json_object_get(json, flags[i]))) {
            snprintf(text, sizeof text, "%s is true; must be false", flags[i]);
            return fail_config(name, text);
        }
    for (size_t i = 0; i < YKI_COUNT(lists); i++) {
        const json_t *list = json_object_get(json, lists[i]);

        if (json_array_size(list) || json_object_size(list)) {
            snprintf(text, sizeof text, "%s must be empty", lists[i]);
            return fail_config(name, text);
        }
    }
    return YOKE_OK;
}

/* PEFT takes the names in alpha_pattern as regular expressions; only plain names are known here. */
static yoke_status
check_alphas(json_t *json, const char *name)
{
    const char *key;
    json_t *value;
    char text[320];

    json_object_foreach(json_object_get(json, "alpha_pattern"), key, value)
    {
        const double alpha = json_number_value(value);

        if (strpbrk(key, "\\^$*+?()[]{}|")) {
            snprintf(text, sizeof text,
                     "alpha_pattern has the regular expression \"%.200s\"; must have names alone",
                     key);
            return fail_config(name, text);
        }
        if (!(alpha > 0) || !isfinite((float)alpha)) {
            snprintf(text, sizeof text, "alpha_pattern: \"%.200s\" must be a number above 0", key);
            return fail_config(name, text);
        }
    }
    return YOKE_OK;
}

static yoke_status
check(const yki_adapter_config *c, const char *name)
{
    if (c->rank < 1 || c->rank > INT32_MAX)
        return fail_config(name, "\"r\", the rank, must be a whole number of at least 1");
    if (!(c->alpha > 0) || !isfinite((float)c->alpha))
        return fail_config(name, "\"lora_alpha\" must be a number above 0");
    YKI_TRY(check_alphas(c->json, name));
    return check_kind(c->json, name);
}

/* Takes what jansson has read, or NULL and why not. */
static yoke_status
take(json_t *json, const json_error_t *error, const char *name, yki_adapter_config *out)
{
    yki_adapter_config c = {json, 0, 0};
    char text[JSON_ERROR_TEXT_LENGTH + 64];
    yoke_status status;

    if (!json_is_object(json)) {
        snprintf(text, sizeof text, "is no JSON object: line %d: %s", json ? 1 : error->line,
                 json ? "another value" : error->text);
        status = fail_config(name, text);
    } else {
        c.rank = json_integer_value(json_object_get(json, "r"));
        c.alpha = json_number_value(json_object_get(json, "lora_alpha"));
        status = check(&c, name);
    }
    if (status == YOKE_OK)
        *out = c;
    else
        json_decref(json);
    return status;
}

yoke_status
yki_adapter_config_parse(const char *text, size_t length, const char *name,
                         yki_adapter_config *config)
{
    json_error_t error;

    return take(json_loadb(text, length, JSON_REJECT_DUPLICATES, &error), &error, name, config);
}

yoke_status
yki_adapter_config_read(const char *path, yki_adapter_config *config)
{
    FILE *file = fopen(path, "r");
    json_error_t error;
    json_t *json;

    if (!file)
        return fail_config(path, "cannot be opened; must be beside " YKI_ADAPTER_TENSORS);
    json = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    return take(json, &error, path, config);
}

double
yki_adapter_config_alpha(const yki_adapter_config *c, const char *module)
{
    const char *key;
    json_t *value;

    json_object_foreach(json_object_get(c->json, "alpha_pattern"), key, value)
    {
        const size_t length = strlen(module), its = strlen(key);

        if (length >= its && strcmp(module + length - its, key) == 0 &&
            (length == its || module[length - its - 1] == '.'))
            return json_number_value(value);
    }
    return c->alpha;
}
