#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# html.sh - the site that `make html` makes, with each formatter of manual pages that is here: every
# link and every anchor leads somewhere, every page is reached from the index and says something,
# tags are closed, rows of a table have as many cells as its head, no Markdown is left.

set -eu
export LC_ALL=C

work=$(cd "${YOKE_BUILDDIR:?}" && pwd)/tests/build/html.tmp
rm -rf "$work"
mkdir -p "$work"
source=$(cd "${YOKE_SRCDIR:?}" && pwd)
awk=${AWK:-awk}
status=0

cat >"$work/look.awk" <<'EOF'
function complain(text) { print file ": " text; bad = 1 }

# What stands between tags, without what is quoted literally.
function outside(html, name,    at, out) {
    while (match(html, "<" name "[ >]")) {
        out = out substr(html, 1, RSTART - 1)
        html = substr(html, RSTART)
        at = index(html, "</" name ">")
        if (!at)
            break
        html = substr(html, at + length(name) + 3)
    }
    return out html
}

function note(target,    at, path, mark) {
    if (target ~ /^[a-z]+:/)
        return
    at = index(target, "#")
    mark = at ? substr(target, at + 1) : ""
    path = at ? substr(target, 1, at - 1) : target
    if (path == "")
        path = file
    else {
        path = folder path
        while (sub(/[^\/]+\/\.\.\//, "", path))
            ;
    }
    links++
    from[links] = file
    to[links] = path
    anchor[links] = mark
}

function look(    html, rest, tag, name, depth, open, at, cells, head, words) {
    rest = html = text
    if (html !~ /<h1/ || html !~ /<main>/)
        complain("it has no heading")
    while (match(rest, /<[\/a-zA-Z][^>]*>/)) {
        tag = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        name = tag
        gsub(/^<\/?|[ \n>].*/, "", name)
        if (match(tag, / id="[^"]*"/)) {
            at = substr(tag, RSTART + 5, RLENGTH - 6)
            if ((file, at) in ids)
                complain("two places are called #" at)
            ids[file, at] = 1
        }
        if (match(tag, /[ \n](href|src)="[^"]*"/)) {
            at = substr(tag, RSTART, RLENGTH - 1)
            sub(/^[^"]*"/, "", at)
            note(at)
        }
        if (name == "a" && tag ~ /^<a / && open_a++)
            complain("a link inside a link: " tag)
        if (tag == "</a>")
            open_a--
        if (name == "thead" || name == "tr" && tag !~ /^<\//)
            cells = 0
        if (tag == "<th>" || tag == "<td>")
            cells++
        if (tag == "</tr>" && file !~ /^man\//) {
            if (rest ~ /^<\/thead>/)
                head = cells
            else if (cells != head)
                complain("a row of " cells " cells in a table of " head)
        }
        if (name ~ /^(br|img|hr|meta|link|col|wbr)$/ || tag ~ /\/>$/)
            continue
        if (tag ~ /^<\//) {
            if (open[depth] != name) {
                complain(tag " closes <" open[depth] ">")
                break
            }
            depth--
        } else
            open[++depth] = name
    }
    html = substr(html, index(html, "<main>"))
    html = substr(html, 1, index(html, "</main>"))
    words = html
    gsub(/<[^>]*>/, "", words)
    if (split(words, cell, /[ \n]+/) < 40)
        complain("next to nothing is in it")
    if (file ~ /^man\//)
        return
    html = outside(outside(html, "pre"), "code")
    if (match(html, /```|`|\*\*|\*<|>\*|\]\(|\n *\||\| *--|\n##* |[\001-\010]|&amp;[a-z]+;/))
        complain("Markdown is left: " substr(html, RSTART > 30 ? RSTART - 30 : 1, 60))
}

FNR == 1 {
    if (file != "")
        look()
    file = FILENAME
    sub(/^\.\//, "", file)
    folder = file
    sub(/[^\/]*$/, "", folder)
    there[file] = 1
    text = ""
    open_a = 0
}
{ text = text $0 "\n" }
END {
    if (file != "")
        look()
    while ((getline name < "files.txt") > 0)
        there[name] = 1
    for (i = 1; i <= links; i++) {
        file = from[i]
        if (!(to[i] in there))
            complain("a link leads nowhere: " to[i])
        else if (anchor[i] != "" && !((to[i], anchor[i]) in ids))
            complain(to[i] " has no #" anchor[i])
    }
    # The bar above each page does not count: it is the same everywhere.
    reached["index.html"] = more = 1
    while (more) {
        more = 0
        for (i = 1; i <= links; i++)
            if ((from[i] in reached) && !(to[i] in reached))
                reached[to[i]] = more = 1
    }
    for (name in there)
        if (name ~ /\.html$/ && !(name in reached)) {
            file = name
            complain("the index does not lead there")
        }
    if (links < 500) {
        file = "the site"
        complain("next to no links were found")
    }
    exit bad
}
EOF

# ---- what documents may hold, whether or not one of them does now ----

printf 'docs/a.md\tdocs/a.html\nyoke_x\tman/yoke_x.3.html\np.svg\tpictures/p.svg\n' >"$work/pages"
cat >"$work/sample.md" <<'EOF'
<!-- not shown -->
# Use `x < y` & *more*

Text **bold, *not* shy** and `a * b`, 2 * 3, \*, `yoke_x`,
[`yoke_x` and others](a.md#b), [s.c](../lib/s.c), [a file](../lib/s.c), <https://a.b/?c&d>.

- one
  goes on
  - inner **x**
    1. deep
  - inner 2

  more of one
- two

  ```sh
  a | b && c
    *d*
  ```

1. first
2. second
> quoted
> still

| a | b |
| --- | --- |
| `c\|d` | |
| e |
## Twice
## Twice
![a "picture"](../p.svg)
EOF
cat >"$work/expected" <<'EOF'
<h1 id="use-x--y--more">Use <code>x &lt; y</code> &amp; <em>more</em></h1>
<p>Text <strong>bold, <em>not</em> shy</strong> and <code>a * b</code>, 2 * 3, *, <a href="../man/yoke_x.3.html"><code>yoke_x</code></a>,
<a href="../docs/a.html#b"><code>yoke_x</code> and others</a>, <code>s.c</code>, a file (<code>lib/s.c</code>), <a href="https://a.b/?c&amp;d">https://a.b/?c&amp;d</a>.</p>
<ul>
<li>one
goes on
<ul>
<li>inner <strong>x</strong>
<ol>
<li>deep
</li></ol>
</li>
<li>inner 2
<p>more of one</p>
</li></ul>
</li>
<li>two
<pre><code>a | b &amp;&amp; c
  *d*
</code></pre>
</li></ul>
<ol>
<li>first
</li>
<li>second
<blockquote><p>quoted
still</p></blockquote>
</li></ol>
<div class="wide"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>
<tr><td><code>c|d</code></td><td></td></tr>
<tr><td>e</td><td></td></tr>
</tbody></table></div>
<h2 id="twice">Twice</h2>
<h2 id="twice-1">Twice</h2>
<figure><img src="../pictures/p.svg" alt="a &quot;picture&quot;"></figure>
EOF
"$awk" -v pages="$work/pages" -v dir=docs -v root=../ -f "$source/docs/html/md.awk" "$work/sample.md" >"$work/made"
diff "$work/expected" "$work/made" || {
    echo "md.awk makes (>) something else of the sample"
    status=1
}

# ---- the site ----

found=0
for formatter in mandoc groff; do
    command -v $formatter >/dev/null || continue
    found=1
    site=$work/$formatter
    mandoc=
    [ $formatter = groff ] || mandoc=mandoc
    if ! AWK=$awk MANDOC=$mandoc GROFF=groff sh "$source/docs/html/make_html.sh" "$source" "$site" >"$work/said" 2>&1 ||
        [ -s "$work/said" ]; then
        echo "make_html.sh with $formatter:"
        cat "$work/said"
        status=1
        continue
    fi
    # A page for each source, and each of its own text.
    for page in $(cd "$source" && ls man/*.[1-9]); do
        name=${page#man/}
        grep -q "<h1>${name%.?}(${name##*.})</h1>" "$site/$page.html" ||
            { echo "$formatter: $page has no page"; status=1; }
    done
    for page in $(cd "$source" && ls ./*.md docs/*.md docs/benchmarks/*.md); do
        [ -s "$site/${page%.md}.html" ] || { echo "$formatter: $page has no page"; status=1; }
    done
    # shellcheck disable=SC2046 # names without blanks
    (cd "$site" && "$awk" -f "$work/look.awk" $(find . -name '*.html' | sort)) >"$work/said" || {
        sed "s/^/$formatter: /" "$work/said"
        status=1
    }
done
if [ $found = 0 ]; then
    echo "neither mandoc nor groff is installed"
    exit 77
fi
[ $status -ne 0 ] || rm -rf "$work"
exit $status
