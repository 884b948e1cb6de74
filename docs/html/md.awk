# SPDX-License-Identifier: Apache-2.0
#
# md.awk - the part of Markdown that yoke's documents use, as HTML: headings with GitHub's anchors,
# paragraphs, nested lists, tables, code fences, block quotes, pictures, links, code, emphasis.
#
#   awk -v pages=FILE -v dir=FOLDER -v root=PREFIX -f md.awk DOCUMENT
#
# FOLDER is the document's in the tree, PREFIX leads from its page to the root of the site. FILE has a
# line "NAME<tab>PAGE" for each file of the tree that has a page, and for each word of code that does.
# A link to any other file of the tree becomes the file's name. For POSIX awk, mawk and gawk; what it
# does not know: reference links, HTML (comments are dropped), headings that are underlined.

BEGIN {
    while ((getline line < pages) > 0) {
        split(line, field, "\t")
        page[field[1]] = field[2]
    }
}

function escape(s) {
    gsub(/&/, "\\&amp;", s)
    gsub(/</, "\\&lt;", s)
    gsub(/>/, "\\&gt;", s)
    gsub(/"/, "\\&quot;", s)
    return s
}

# The path of a link, from the root of the tree.
function resolve(path) {
    path = (dir == "." ? "" : dir "/") path
    while (sub(/(^|\/)\.\//, "/", path) || sub(/[^\/]+\/\.\.\//, "", path))
        ;
    sub(/^\/+/, "", path)
    sub(/\/$/, "", path)
    return path
}

function link(text, target,    at, mark, path) {
    if (target ~ /^(#|mailto:|[a-z]+:\/\/)/)
        return "<a href=\"" escape(target) "\">" text "</a>"
    at = index(target, "#")
    mark = at ? substr(target, at) : ""
    path = resolve(at ? substr(target, 1, at - 1) : target)
    if (path in page)
        return "<a href=\"" root page[path] escape(mark) "\">" text "</a>"
    if (text ~ /\002/)
        return text
    return text ~ / / ? text " (<code>" escape(path) "</code>)" : "<code>" text "</code>"
}

function picture(text, target,    path) {
    path = resolve(target)
    return "<img src=\"" root ((path in page) ? page[path] : path) "\" alt=\"" escape(text) "\">"
}

function code(text,    html) {
    html = "<code>" escape(text) "</code>"
    return (text in page) && text !~ /\// ? "<a href=\"" root page[text] "\">" html "</a>" : html
}

# What is finished is put aside, and a mark of two control characters left in its place.
function aside(html) {
    kept[++asides] = html
    return "\002" asides "\003"
}

function emphasis(s) {
    s = escape(s)
    while (match(s, /\*\*[^* ](([^*]|\*[^*])*[^* ])?\*\*/))
        s = substr(s, 1, RSTART - 1) "<strong>" substr(s, RSTART + 2, RLENGTH - 4) "</strong>" substr(s, RSTART + RLENGTH)
    while (match(s, /\*[^* ]([^*]*[^* ])?\*/))
        s = substr(s, 1, RSTART - 1) "<em>" substr(s, RSTART + 1, RLENGTH - 2) "</em>" substr(s, RSTART + RLENGTH)
    return s
}

function inline(s,    before, after, found, at, image, html, rest) {
    while (match(s, /`[^`]+`/))
        s = substr(s, 1, RSTART - 1) aside(code(substr(s, RSTART + 1, RLENGTH - 2))) substr(s, RSTART + RLENGTH)
    while (match(s, /\\[][\\`*_{}()#+.!|<>-]/))
        s = substr(s, 1, RSTART - 1) aside(escape(substr(s, RSTART + 1, 1))) substr(s, RSTART + 2)
    while (match(s, /<(https?:\/\/|mailto:)[^> ]+>/)) {
        found = substr(s, RSTART + 1, RLENGTH - 2)
        s = substr(s, 1, RSTART - 1) aside(link(escape(found), found)) substr(s, RSTART + length(found) + 2)
    }
    while (match(s, /!?\[[^]]*\]\([^) ]*\)/)) {
        before = substr(s, 1, RSTART - 1)
        found = substr(s, RSTART, RLENGTH)
        after = substr(s, RSTART + RLENGTH)
        image = found ~ /^!/
        at = index(found, "](")
        html = substr(found, image + 2, at - image - 2)
        found = substr(found, at + 2, length(found) - at - 2)
        # A word of code in a link has no link of its own.
        if (!image)
            html = emphasis(html)
        for (rest = html; match(rest, /\002[0-9]+\003/); rest = substr(rest, RSTART + RLENGTH))
            gsub(/<\/?a[^>]*>/, "", kept[substr(rest, RSTART + 1, RLENGTH - 2)])
        s = before aside(image ? picture(html, found) : link(html, found)) after
    }
    s = emphasis(s)
    while (match(s, /\002[0-9]+\003/))
        s = substr(s, 1, RSTART - 1) kept[substr(s, RSTART + 1, RLENGTH - 2)] substr(s, RSTART + RLENGTH)
    return s
}

function anchor(s,    name) {
    s = tolower(s)
    gsub(/[^a-z0-9 _-]/, "", s)
    gsub(/ /, "-", s)
    name = (s in anchors) ? s "-" anchors[s] : s
    anchors[s]++
    return name
}

# The paragraph that was collected. The first one of a list's item stands there bare.
function flush() {
    if (text == "")
        return
    if (quoted)
        print "<blockquote><p>" inline(text) "</p></blockquote>"
    else if (text ~ /^!\[[^]]*\]\([^)]*\)$/)
        print "<figure>" inline(text) "</figure>"
    else if (depth && bare)
        print inline(text)
    else
        print "<p>" inline(text) "</p>"
    text = ""
    bare = quoted = 0
}

function close_table() {
    if (rows)
        print "</tbody></table></div>"
    rows = 0
}

function close_lists(down_to) {
    for (; depth > down_to; depth--)
        print "</li></" kind[depth] ">"
}

function finish() {
    flush()
    close_table()
}

function table_row(line,    cells, n, i, tag) {
    gsub(/\\\|/, "\001", line)
    sub(/^ *\| */, "", line)
    sub(/ *\| *$/, "", line)
    n = split(line, cells, / *\| */)
    tag = rows ? "td" : "th"
    printf "%s", rows ? "<tr>" : "<div class=\"wide\"><table><thead><tr>"
    for (i = 1; i <= n || i <= columns && rows; i++) {
        gsub(/\001/, "|", cells[i])
        printf "%s", "<" tag ">" inline(cells[i]) "</" tag ">"
    }
    print rows ? "</tr>" : "</tr></thead><tbody>"
    if (!rows)
        columns = n
    rows++
}

fenced {
    if ($0 ~ /^ *```/) {
        print "</code></pre>"
        fenced = 0
    } else {
        print escape(substr($0, 1, fence) ~ /^ *$/ ? substr($0, fence + 1) : $0)
    }
    next
}
comment || /^ *<!--/ { finish(); comment = $0 !~ /-->/; next }
/^ *```/ {
    finish()
    match($0, /^ */)
    fence = RLENGTH
    if (!fence)
        close_lists(0)
    printf "<pre><code>"
    fenced = 1
    next
}
/^ *$/ { finish(); blank = 1; next }
/^##* / {
    finish()
    close_lists(0)
    match($0, /^#+/)
    level = RLENGTH
    sub(/^#+ +/, "")
    print "<h" level " id=\"" anchor($0) "\">" inline($0) "</h" level ">"
    blank = 0
    next
}
/^ *\|/ {
    flush()
    if (blank && /^\|/)
        close_lists(0)
    if (!(rows && $0 ~ /^[ |:-]+$/ && $0 ~ /---/))
        table_row($0)
    blank = 0
    next
}
/^ *([-*]|[0-9]+\.) / {
    finish()
    match($0, /^ */)
    at = RLENGTH
    type = $1 ~ /^[0-9]/ ? "ol" : "ul"
    while (depth && at < column[depth])
        close_lists(depth - 1)
    if (depth && at < column[depth] + 2 && kind[depth] == type)
        print "</li>"
    else {
        if (depth && at < column[depth] + 2)
            close_lists(depth - 1)
        print "<" type ">"
        kind[++depth] = type
        column[depth] = at
    }
    printf "<li>"
    sub(/^ *([-*]|[0-9]+\.) +/, "")
    text = $0
    bare = 1
    blank = 0
    next
}
{
    close_table()
    if (blank && depth && /^[^ ]/)
        close_lists(0)
    blank = 0
    if (/^> ?/) {
        if (!quoted)
            flush()
        quoted = 1
        sub(/^> ?/, "")
    }
    sub(/^ +/, "")
    text = text == "" ? $0 : text "\n" $0
}
END { finish(); close_lists(0) }
