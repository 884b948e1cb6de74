# SPDX-License-Identifier: Apache-2.0
#
# man.awk - a page of the manual, as mandoc writes it in HTML or groff for a terminal, for the site.
#
#   awk -v pages=FILE -v page=PATH -v root=PREFIX -v title=TITLE -v plain=0|1 -f man.awk
#
# FILE and PREFIX are those of md.awk. With plain=0 the input is a fragment of `mandoc -T html`:
# its headings become one level lower, its header and footer go, and references lead to pages of the
# site or, where there is none, nowhere. With plain=1 it is the output of `groff -Tascii -P-c`, where
# bold and underlined letters are struck over: it becomes preformatted text with links.

BEGIN {
    while ((getline line < pages) > 0) {
        split(line, field, "\t")
        known[field[1]] = field[2]
    }
    print "<h1>" title "</h1>"
}

# The link to NAME(SECTION) or to a function, around what stands there; "" for what has no page.
function refer(name, section, html,    to) {
    to = "man/" name "." section
    to = (to in known) ? known[to] : section == 3 ? known[name] : ""
    return to == "" || to == known[page] ? html : "<a href=\"" root to "\">" html "</a>"
}

!plain && /^<table class="(head|foot)">/ { skip = 1 }
skip { skip = !/<\/table>/; next }
!plain { all = all $0 "\n"; next }

# groff: header and footer are not struck over.
/^[^ ]/ && !index($0, "\b") { next }

# groff: c<BS>c is bold, _<BS>c is underlined; a heading starts in the first column.
{
    out = style = ""
    for (i = 1; i <= length($0); i++) {
        c = substr($0, i, 1)
        now = ""
        if (substr($0, i + 1, 1) == "\b") {
            now = c != "_" ? "b" : substr($0, i + 2, 1) != "_" ? "i" : style == "" ? "b" : style
            while (substr($0, i + 1, 1) == "\b")
                i += 2
            c = substr($0, i, 1)
        }
        if (now != style)
            out = out (style == "" ? "" : "</" style ">") (now == "" ? "" : "<" now ">")
        style = now
        out = out (c == "&" ? "&amp;" : c == "<" ? "&lt;" : c == ">" ? "&gt;" : c)
    }
    if (style != "")
        out = out "</" style ">"
    if (/^[A-Z]/) {
        name = out
        gsub(/<[^>]*>/, "", name)
        id = name
        gsub(/ /, "_", id)
        print (sections++ ? "</pre>\n" : "") "<h2 id=\"" id "\">" name "</h2>\n<pre class=\"man\">"
        next
    }
    line = ""
    while (match(out, /(<[bi]>)?[a-z][a-z0-9_-]*(<\/[bi]>)?\([1-9]\)/)) {
        found = substr(out, RSTART, RLENGTH)
        name = found
        gsub(/<[^>]*>/, "", name)
        section = substr(name, length(name) - 1, 1)
        line = line substr(out, 1, RSTART - 1) refer(substr(name, 1, length(name) - 3), section, found)
        out = substr(out, RSTART + RLENGTH)
    }
    if (sections)
        print line out
}

END {
    if (plain) {
        print "</pre>"
        exit
    }
    gsub(/<h2/, "<h3", all)
    gsub(/<\/h2>/, "</h3>", all)
    gsub(/<h1/, "<h2", all)
    gsub(/<\/h1>/, "</h2>", all)
    while (match(all, /<a class="Xr"[^>]*>[^<]*<\/a>|<code class="Fn">[^<]*<\/code>/)) {
        before = substr(all, 1, RSTART - 1)
        found = substr(all, RSTART, RLENGTH)
        all = substr(all, RSTART + RLENGTH)
        match(found, />[^<]*</)
        name = substr(found, RSTART + 1, RLENGTH - 2)
        if (found ~ /^<a/)
            found = refer(substr(name, 1, length(name) - 3), substr(name, length(name) - 1, 1), "<span class=\"Xr\">" name "</span>")
        else if (before !~ /">$/) # else it is a link already
            found = refer(name, 3, found)
        printf "%s", before found
    }
    print all
}
