/* SPDX-License-Identifier: Apache-2.0
 *
 * forecast.c - what devices divide, and what a step will take of each, before the first one: for
 * those who plan, and as a note for those who train.
 */
#include <stdlib.h>

#include "training.h"

const char *
yki_tool_shard_text(yoke_shard_choice shard)
{
    static const char *const texts[] = {"nothing is divided", "the optimizer's state is divided",
                                        "state and gradients are divided",
                                        "state, gradients and weights are divided"};

    return (unsigned)shard < sizeof texts / sizeof *texts ? texts[shard] : "?";
}

yoke_status
yki_tool_forecast(const yoke_team *team, yoke_trainer *trainer, yoke_forecast **list, size_t *count)
{
    yoke_status status;

    *count = yoke_team_count(team);
    *list = calloc(*count, sizeof **list);
    if (!*list)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for a forecast");
    status = yoke_trainer_forecast(trainer, *list, *count);
    if (status) {
        free(*list);
        *list = NULL;
    }
    return status;
}

yoke_status
yki_tool_note_shard(const yki_tool_command *command, const yoke_team *team, yoke_trainer *trainer)
{
    yoke_forecast *list;
    size_t count;
    yoke_status status = yki_tool_forecast(team, trainer, &list, &count);

    if (status)
        return status;
    if (list[0].shard != YOKE_SHARD_NOTHING)
        yki_tool_note(command, "the devices have too little memory for everything: %s",
                      yki_tool_shard_text(list[0].shard));
    free(list);
    return YOKE_OK;
}
