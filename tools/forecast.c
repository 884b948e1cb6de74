/* SPDX-License-Identifier: Apache-2.0
 *
 * forecast.c - what devices divide, and what a step will take of each, before the first one: for
 * those who plan, and as a note for those who train.
 */
#include <stdlib.h>

#include "table.h"
#include "training.h"

const char *
yki_tool_choice_text(const yoke_forecast *list, size_t count, char text[TOOL_CHOICE_TEXT])
{
    static const char *const texts[] = {"nothing is divided", "the optimizer's state is divided",
                                        "state and gradients are divided",
                                        "state, gradients and weights are divided"};
    const char *divided =
        (unsigned)list[0].shard < sizeof texts / sizeof *texts ? texts[list[0].shard] : "?";
    uint64_t least = 0, most = 0;
    char cut[48], low[32], high[32];

    snprintf(cut, sizeof cut, "the network is cut into %u stage%s", list[0].stages,
             list[0].stages == 1 ? "" : "s");
    for (size_t k = 0; k < count; k++) {
        const uint64_t one = list[k].recompute_bytes;

        least = one && (!least || one < least) ? one : least;
        most = one > most ? one : most;
    }
    if (list[0].stages)
        divided = cut;
    if (least)
        snprintf(text, TOOL_CHOICE_TEXT, "%s%svalues are computed again to keep to %s%s%s",
                 list[0].stages || list[0].shard ? divided : "",
                 list[0].stages || list[0].shard ? ", and " : "", yki_tool_bytes(least, low),
                 least < most ? " to " : "", least < most ? yki_tool_bytes(most, high) : "");
    else
        snprintf(text, TOOL_CHOICE_TEXT, "%s", divided);
    return text;
}

const char *
yki_tool_lack_text(const yoke_team *team, const yoke_forecast *list, size_t count,
                   char text[TOOL_CHOICE_TEXT])
{
    char needed[32], available[32];
    size_t worst = 0;

    for (size_t k = 1; k < count; k++)
        if ((double)list[k].needed - (double)list[k].available >
            (double)list[worst].needed - (double)list[worst].available)
            worst = k;
    if (!list[worst].needed)
        return NULL;
    snprintf(text, TOOL_CHOICE_TEXT, "training needs about %s on %.60s, which has %s%s",
             yki_tool_bytes(list[worst].needed, needed), yoke_team_get_device_name(team, worst),
             yki_tool_bytes(list[worst].available, available),
             list[worst].needed > list[worst].available ? "" : " and turned out to be too small");
    return text;
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
yki_tool_note_choice(const yki_tool_command *command, const yoke_team *team, yoke_trainer *trainer)
{
    char lack[TOOL_CHOICE_TEXT], choice[TOOL_CHOICE_TEXT];
    yoke_forecast *list;
    size_t count;
    yoke_status status = yki_tool_forecast(team, trainer, &list, &count);

    if (status)
        return status;
    if (yki_tool_lack_text(team, list, count, lack))
        yki_tool_note(command, "%s: %s", lack, yki_tool_choice_text(list, count, choice));
    else if (list[0].shard != YOKE_SHARD_NOTHING)
        yki_tool_note(command, "the devices have too little memory for everything: %s",
                      yki_tool_choice_text(list, count, choice));
    free(list);
    return YOKE_OK;
}
