/* SPDX-License-Identifier: Apache-2.0
 *
 * check_near.c - "did you mean": what is near a known name, and what is not.
 */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/near.h"
#include "support/support.h"

static const char *const models[] = {"tiny",  "mlp",      "simplecnn", "lenet",
                                     "gpt-2", "resnet18", "resnet34",  "resnet50"};

START_TEST(one_name_is_meant_or_none)
{
    static const struct {
        const char *word, *meant;
    } rows[] = {
        {"lenett", "lenet"},
        {"lnet", "lenet"},
        {"lenat", "lenet"},
        {"lneet", "lenet"},
        {"LeNet", "lenet"},
        {"gpt_2", "gpt-2"},
        {"simplcnn", "simplecnn"},
        {"simpelccn", "simplecnn"},
        {"resnet", "resnet18"},
        {"resnet5", "resnet50"},
        {"resnet52", "resnet50"},
        {"res", "resnet18"},
        {"simple", "simplecnn"},
        {"mpl", "mlp"},
        /* too far */
        {"vgg", NULL},
        {"alexnet", NULL},
        {"re", NULL},
        {"x", NULL},
        {"", NULL},
        {"transformer", NULL},
        {"lxxet", NULL},
        {"m", NULL},
    };

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        char expected[64] = "";
        yki_near near;

        if (rows[i].meant)
            snprintf(expected, sizeof expected, "; did you mean \"%s\"?", rows[i].meant);
        ck_assert_str_eq(yki_near_among(&near, rows[i].word, models, YKI_COUNT(models)), expected);
    }
}
END_TEST

/* The nearest wins, not the first; names of any length and no name at all do no harm. */
START_TEST(the_nearest_wins)
{
    char lengthy[5000];
    yki_near near;

    memset(lengthy, 'a', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    yki_near_start(&near, "conv1.wieght");
    yki_near_offer(&near, "conv2.weight");
    yki_near_offer(&near, NULL);
    yki_near_offer(&near, lengthy);
    yki_near_offer(&near, "conv1.weight");
    yki_near_offer(&near, "conv1.bias");
    ck_assert_str_eq(yki_near_hint(&near), "; did you mean \"conv1.weight\"?");
    yki_near_start(&near, lengthy);
    yki_near_offer(&near, lengthy + 1);
    yki_near_offer(&near, "aaa");
    ck_assert_str_eq(yki_near_hint(&near), "");
    /* the name itself but for capitals is nearer than one that it begins */
    yki_near_start(&near, "Price");
    yki_near_offer(&near, "price_old");
    yki_near_offer(&near, "price");
    ck_assert_str_eq(yki_near_hint(&near), "; did you mean \"price\"?");
    /* one letter for another is no slip */
    yki_near_start(&near, "x");
    yki_near_offer(&near, "y");
    ck_assert_str_eq(yki_near_hint(&near), "");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("near");
    TCase *tcase = test_case(suite, "near");

    tcase_add_test(tcase, one_name_is_meant_or_none);
    tcase_add_test(tcase, the_nearest_wins);
    return suite;
}
