# SPDX-License-Identifier: Apache-2.0
#
# prices.awk - a table of `count` houses: raw prices in the hundred thousands, by
# quantities of very different size.

BEGIN {
    srand(7)
    print "area,rooms,year,distance,income,price"
    for (i = 0; i < count; i++) {
        area = 30 + rand() * 220
        rooms = int(1 + area / 30 + rand() * 2)
        year = 1900 + int(rand() * 122)
        distance = rand() * 40000
        income = 15000 + rand() * 90000
        price = 1800 * area + 9000 * rooms + 900 * (year - 1900) - 4 * distance + 2.2 * income
        price += (rand() + rand() + rand() - 1.5) * 40000
        if (distance < 3000)
            price *= 1.25
        printf "%.1f,%d,%d,%.0f,%.2f,%.0f\n", area, rooms, year, distance, income, price
    }
}
