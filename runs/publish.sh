#!/usr/bin/env bash
# Puts results into docs/results: the pictures, and words and tables between the marks of its pages. README.md takes those
# of runs/all.sh, lab.md those of runs/lab.sh, beyond.md, frontier.md, ceiling.md, second.md and
# related-work.md those of the scripts of these names; what DIR does not hold stays.
#   runs/publish.sh DIR [FOLDER]
set -euo pipefail
FROM=${1:?usage: runs/publish.sh DIR [FOLDER]}
TO=${2:-$(cd "$(dirname "$0")/../docs/results" && pwd)}
PAGES=$(cd "$(dirname "$0")" && pwd)/pages
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# have FILE…: ends with a sentence unless all are there.
have() {
  for file in "$@"; do
    ls "$FROM/$file".* > /dev/null 2>&1 || { echo "$FROM has no $file; has its script come to its end?" >&2; exit 1; }
  done
}

# page NAME: opens a page, or the empty one of runs/pages where there is none yet; close_page puts it back whole.
page() {
  PAGE=$TO/$1
  if [ -f "$PAGE" ]; then cp "$PAGE" "$WORK/page"; else cp "$PAGES/$1" "$WORK/page"; fi
}

close_page() {
  mv "$WORK/page" "$PAGE"
  echo "$PAGE is written; read its words against the new numbers"
}

# insert NAME: replaces what stands between <!-- NAME --> and <!-- /NAME --> by what is read.
insert() {
  cat > "$WORK/part"
  if ! grep -qF "<!-- $1 -->" "$WORK/page" || ! grep -qF "<!-- /$1 -->" "$WORK/page"; then
    echo "$PAGE has no place for $1" >&2
    exit 1
  fi
  awk -v begin="<!-- $1 -->" -v end="<!-- /$1 -->" -v file="$WORK/part" '
    $0 == end { skip = 0 }
    !skip { print }
    $0 == begin { while ((getline line < file) > 0) print line; skip = 1 }
  ' "$WORK/page" > "$WORK/next"
  mv "$WORK/next" "$WORK/page"
}

# picture NAME FILE TEXT: copies a picture and shows it.
picture() {
  cp "$2.svg" "$TO/$1.svg"
  cp "$2.png" "$TO/$1.png"
  echo "![$3]($1.png)" | insert "picture-$1"
}

# block FILE…: as it stands.
block() {
  echo '```'
  cat "$@"
  echo '```'
}

FOUND=0
if [ -d "$FROM/fig1" ]; then
  FOUND=1
  have fig1/figure1 fig1/chosen table1/table1 table1/table1-forwards table2/table2 table2/table2-filled \
    fig_subadditivity/slack bound/config
  grep -q '^all took' "$FROM/times.txt" || { echo "runs/all.sh has not come to its end in $FROM" >&2; exit 1; }
  page README.md
  SECONDS_TAKEN=$(sed -n 's/^all took \([0-9]*\) s$/\1/p' "$FROM/times.txt")
  VERSION=$(sed -n '1s/^# fig1, //p' "$FROM/fig1/config.txt")
  echo "\`runs/all.sh\` made our half of this page in $(((SECONDS_TAKEN + 59) / 60)) minutes ($VERSION); \`runs/publish.sh\` put it here." |
    insert made
  picture figure1 "$FROM/fig1/figure1" "Accuracy against mean steps for every configuration"
  picture figure2 "$FROM/fig_subadditivity/slack" "Distribution of the slack by size of the set"
  for name in table1/table1 table1/table1-forwards table2/table2 table2/table2-filled fig1/chosen; do
    insert "$(basename $name)" < "$FROM/$name.md"
  done
  grep -v '^records' "$FROM/fig_subadditivity.txt" > "$WORK/slack"
  block "$WORK/slack" | insert slack
  grep -v '^records' "$FROM/bound.txt" > "$WORK/bound"
  block "$WORK/bound" | insert bound
  block "$FROM/times.txt" "$FROM"/{fig1,table1,table2,fig_subadditivity,bound}/config.txt | insert times
  close_page
fi
if [ -d "$FROM/lab" ]; then
  FOUND=1
  have lab/test/table lab/test/picture lab/grid/chosen lab/grid/picture
  page lab.md
  insert lab < "$FROM/lab/test/table.md"
  insert lab-grid < "$FROM/lab/grid/chosen.md"
  picture lab "$FROM/lab/test/picture" "Accuracy against mean steps, test problems"
  picture lab-grid "$FROM/lab/grid/picture" "Accuracy against mean steps of every configuration, validation problems"
  block "$FROM/lab/config.txt" | insert commands
  close_page
fi
if [ -d "$FROM/beyond" ]; then
  FOUND=1
  have beyond/chosen beyond/figure1
  page beyond.md
  insert beyond < "$FROM/beyond/chosen.md"
  picture beyond "$FROM/beyond/figure1" "Accuracy against mean steps of DEMASK's options"
  block "$FROM/beyond/config.txt" | insert commands
  close_page
fi
if [ -d "$FROM/frontier" ]; then
  FOUND=1
  have frontier/greedy/test/compare frontier/sampled/test/compare frontier/greedy/choice/figure1
  page frontier.md
  for sampling in greedy sampled; do
    insert "$sampling" < "$FROM/frontier/$sampling/test/compare.md"
    insert "$sampling-tasks" < "$FROM/frontier/$sampling/test/table.md"
    insert "$sampling-choice" < "$FROM/frontier/$sampling/choice/chosen.md"
  done
  picture frontier "$FROM/frontier/greedy/choice/figure1" "Accuracy against mean passes of every configuration, validation problems"
  block "$FROM/frontier/config.txt" | insert commands
  close_page
fi
if [ -d "$FROM/ceiling" ]; then
  FOUND=1
  have ceiling/test/compare ceiling/test/table ceiling/choice/chosen ceiling/paper
  page ceiling.md
  insert compare < "$FROM/ceiling/test/compare.md"
  insert tasks < "$FROM/ceiling/test/table.md"
  insert choice < "$FROM/ceiling/choice/chosen.md"
  for name in paper heads layers certain1 certain2 certain3; do
    echo "$name:"
    grep -E 'MSE|constant|distance|irreducible|explained' "$FROM/ceiling/$name.txt"
  done > "$WORK/trained"
  block "$WORK/trained" | insert trained
  block "$FROM/ceiling/config.txt" | insert commands
  close_page
fi
if [ -d "$FROM/second" ]; then
  FOUND=1
  have second/test/compare second/test/table second/choice/chosen
  page second.md
  insert compare < "$FROM/second/test/compare.md"
  insert tasks < "$FROM/second/test/table.md"
  insert choice < "$FROM/second/choice/chosen.md"
  block "$FROM/second/config.txt" | insert commands
  close_page
fi
if [ -d "$FROM/related" ]; then
  FOUND=1
  have related/test/table related/versus/compare related/learn2pd/test/table related/distilled/test/table related/choice/chosen related/trained
  page related-work.md
  insert related < "$FROM/related/test/table.md"
  insert versus < "$FROM/related/versus/compare.md"
  insert learn2pd < "$FROM/related/learn2pd/test/table.md"
  insert distilled < "$FROM/related/distilled/test/table.md"
  cat "$FROM"/related{,/learn2pd,/distilled}/choice/chosen.md | insert choice
  block "$FROM/related/trained.txt" | insert trained
  block "$FROM/related/config.txt" | insert commands
  close_page
fi
[ $FOUND = 1 ] || { echo "$FROM holds no results of the scripts in runs" >&2; exit 1; }
