#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# make_html.sh SOURCE FOLDER - makes a small site of the manual and the documents in FOLDER.
#
# Pages of the manual go through mandoc, which writes good HTML; without it groff formats them as for
# a terminal. MANDOC, GROFF and AWK name the programs; empty, a formatter is not used. Documents in
# Markdown go through md.awk. index.md, which leads to the pages by task, becomes index.html, with a
# list of all pages after it, so a new page needs no line here. files.txt lists what was made.
#
# A page stands where its source stands in the tree (docs/tour.md: docs/tour.html), a picture in
# pictures/.

set -eu
export LC_ALL=C

if [ $# -ne 2 ]; then
    echo "usage: make_html.sh SOURCE FOLDER" >&2
    exit 2
fi
case $2 in
/*) target=$2 ;;
*) target=$PWD/$2 ;;
esac
cd "$1"
awk=${AWK:-awk}
mandoc=${MANDOC-mandoc}
groff=${GROFF-groff}
if [ -n "$mandoc" ] && command -v "$mandoc" >/dev/null; then
    formatter=mandoc
elif [ -n "$groff" ] && command -v "$groff" >/dev/null; then
    formatter=groff
else
    echo "make_html.sh: pages of the manual need mandoc, or else groff, and neither is installed" >&2
    exit 1
fi

if [ -e "$target" ] && [ ! -e "$target/files.txt" ]; then
    echo "make_html.sh: $target is there already, and is no site of this script's" >&2
    exit 1
fi
# Everything is made beside the folder and takes its place at the end.
site=$target.new
rm -rf "$site"
mkdir -p "$site/pictures"
scratch=$site/.scratch
mkdir "$scratch"
trap 'rm -rf "$site"' EXIT
tools=docs/html
tab=$(printf '\t')

# ---- what there is ----

list() {
    ls -d "$@" 2>/dev/null || true
}

documents=$(
    list README.md NEWS
    list ./*.md | sed 's|^\./||' | grep -vx README.md
    list docs/*.md
    list docs/benchmarks/*.md
)
manual=$(list man/*.[1-9])
# shellcheck disable=SC2046 # one word a page
functions=$(sh man/aliases.sh $(list man/*.3))

# pages: NAME<tab>PAGE, of files of the tree and of words in code.
for page in $documents; do
    echo "$page$tab${page%.md}.html"
done >"$scratch/pages"
for page in $manual; do
    name=${page#man/}
    base=${name%.?}
    to=$page.html
    echo "$page$tab$to"
    echo "man ${name##*.} $base$tab$to"
    case $name in
    yoke.7) continue ;;
    *.3) echo "$base$tab$to" ;;
    *.1) echo "$(echo "$base" | sed 's/-/ /')$tab$to" ;;
    esac
    echo "man $base$tab$to"
done >>"$scratch/pages"
echo "$functions" | sed "s|\(.*\) \(.*\)|\1${tab}man/\2.html|" >>"$scratch/pages"
for picture in $(list docs/*.svg docs/images/*.png docs/benchmarks/*.svg tests/bench/*.svg); do
    cp "$picture" "$site/pictures/"
    echo "$picture${tab}pictures/${picture##*/}"
done >>"$scratch/pages"
cp "$tools/style.css" "$site/"
chmod -R u+w "$site"

version=$(sed -n 's/^AC_INIT(\[[^]]*\], *\[\([^]]*\)\].*/\1/p' configure.ac)

# ---- pages ----

# The way from a page to the root of the site.
up() {
    echo "$1" | sed 's|[^/]*$||; s|[^/]*/|../|g'
}

escape() {
    sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g'
}

# page PAGE TITLE SOURCE: the body is in $scratch/body
page() {
    mkdir -p "$(dirname "$site/$1")"
    "$awk" -v title="$2" -v root="$(up "$1")" -v foot="yoke $version${3:+ &middot; $3}" \
        -f "$tools/page.awk" "$scratch/body" "$tools/page.html" >"$site/$1"
}

# markdown DOCUMENT PAGE
markdown() {
    "$awk" -v pages="$scratch/pages" -v dir="$(dirname "$1")" -v root="$(up "$2")" -f "$tools/md.awk"
}

for document in $documents; do
    to=${document%.md}.html
    if [ "$document" = NEWS ]; then
        { echo '# News' && echo && cat NEWS; } >"$scratch/text"
    else
        cat "$document" >"$scratch/text"
    fi
    title=$(sed -n 's/^# *//p' "$scratch/text" | sed '1q' | tr -d '`*' | escape)
    echo "<li><a href=\"$to\">$title</a> <span class=\"where\">$document</span></li>" >>"$scratch/documents"
    markdown "$document" "$to" <"$scratch/text" >"$scratch/body"
    [ "$title" = yoke ] || title="$title - yoke"
    page "$to" "$title" "$document"
done

for file in $manual; do
    name=${file#man/}
    title="${name%.?}(${name##*.})"
    about=$(sed -n 's/^\.Nd *//p' "$file" | sed 1q | escape)
    echo "<li><a href=\"$file.html\">$title</a> $about</li>" >>"$scratch/section.${name##*.}"
    if [ $formatter = mandoc ]; then
        "$mandoc" -T html -O fragment,man=%N.%S.html "$file" >"$scratch/text"
    else
        "$groff" -mandoc -dAD=l -Tascii -P-c "$file" >"$scratch/text"
    fi
    plain=0
    [ $formatter = mandoc ] || plain=1
    "$awk" -v pages="$scratch/pages" -v page="$file" -v root="$(up "$file")" -v title="$title" \
        -v plain=$plain -f "$tools/man.awk" "$scratch/text" >"$scratch/body"
    page "$file.html" "$title - yoke" "$file"
done

{
    echo '<h1>Functions by name</h1>'
    echo '<p>Each function and type that a page of the manual describes, with that page.</p>'
    echo '<ul class="columns">'
    {
        for file in $(list man/*.3); do
            name=${file#man/}
            echo "${name%.3} $name"
        done
        echo "$functions" | grep -v '_sized '
    } | sort -u | sed 's|\(.*\) \(.*\)|<li><a href="man/\2.html"><code>\1</code></a></li>|'
    echo '</ul>'
} >"$scratch/body"
page functions.html 'Functions by name - yoke' ''

# ---- the index ----

{
    markdown docs/html/index.md index.html <"$tools/index.md"
    echo '<h2 id="all-pages">All pages</h2>'
    echo '<h3>Documents</h3><ul>'
    cat "$scratch/documents"
    echo '</ul>'
    for section in 1 3 7; do
        case $section in
        1) echo '<h3>Commands</h3><ul>' ;;
        3) echo '<h3>Functions and objects, and <a href="functions.html">all functions by name</a></h3><ul>' ;;
        7) echo '<h3>Files, selectors, background</h3><ul>' ;;
        esac
        cat "$scratch/section.$section"
        echo '</ul>'
    done
} >"$scratch/body"
page index.html 'yoke: the documents by task' ''

rm -rf "$scratch"
cd "$site"
files=$(find . -type f | sed "s|^..||" | sort)
printf "%s\n" "$files" files.txt >files.txt
cd /
rm -rf "$target"
mv "$site" "$target"
trap - EXIT
