# SPDX-License-Identifier: Apache-2.0
#
# page.awk - puts the body of a page into the template, with a list of its sections beside it.
#
#   awk -v title=TITLE -v root=PREFIX -v foot=TEXT -f page.awk BODY TEMPLATE
#
# The texts are HTML already. The sections are the <h2 ... id="X"> of the body, if there are three.

NR == FNR { body = body $0 "\n"; next }

FNR == 1 {
    rest = body
    while (match(rest, /<h2[^>]* id="[^"]*"[^>]*>/)) {
        id = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        sub(/.* id="/, "", id)
        sub(/".*/, "", id)
        name = substr(rest, 1, index(rest, "</h2>") - 1)
        gsub(/<[^>]*>/, "", name)
        gsub(/[ \n]+/, " ", name)
        list = list "<li><a href=\"#" id "\">" name "</a></li>\n"
        sections++
    }
    if (sections >= 3)
        contents = "<nav class=\"contents\" aria-label=\"This page\">\n<ul>\n" list "</ul>\n</nav>"
}

$0 == "@BODY@" { printf "%s", body; next }
$0 == "@CONTENTS@" { if (contents != "") print contents; next }
{
    put("@TITLE@", title)
    put("@ROOT@", root)
    put("@FOOT@", foot)
    print
}

function put(mark, text,    at) {
    while (at = index($0, mark))
        $0 = substr($0, 1, at - 1) text substr($0, at + length(mark))
}
