/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_adapter_config.c - one input for the reader of PEFT's adapter_config.json.
 *
 * What holds for every input: a refusal has a sentence that names the file; what is accepted has
 * a rank, and an alpha for every module.
 */
#include "fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/adapter_names.h"

int
fuzz_adapter_config(const uint8_t *data, size_t size)
{
    static const char *const modules[] = {"", "c_attn", "transformer.h.0.mlp.c_proj"};
    yki_adapter_config config;
    yoke_status status = yki_adapter_config_parse((const char *)data, size, "input", &config);

    if (status != YOKE_OK) {
        require(status == YOKE_ERROR_FORMAT, "refused with another status");
        require(strncmp(yoke_last_error(), "input", 5) == 0, "refused without naming the file");
        return 0;
    }
    require(config.rank >= 1 && config.rank <= INT32_MAX, "no rank");
    for (size_t i = 0; i < YKI_COUNT(modules); i++) {
        const float alpha = (float)yki_adapter_config_alpha(&config, modules[i]);

        require(alpha >= 0 && isfinite(alpha), "no alpha");
    }
    json_decref(config.json);
    return 0;
}
