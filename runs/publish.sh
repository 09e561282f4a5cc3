#!/usr/bin/env bash
# Puts the results of runs/all.sh into docs/results: the pictures, and words and tables between their marks in README.md.
#   runs/publish.sh DIR [FOLDER]
set -euo pipefail
FROM=${1:?usage: runs/publish.sh DIR [FOLDER]}
TO=${2:-$(cd "$(dirname "$0")/../docs/results" && pwd)}
PAGE=$TO/README.md
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
for file in fig1/figure1 fig1/chosen table1/table1 table1/table1-forwards table2/table2 table2/table2-filled \
  fig_subadditivity/slack; do
  ls "$FROM/$file".* > /dev/null 2>&1 || { echo "$FROM has no $file; has runs/all.sh come to its end?" >&2; exit 1; }
done
grep -q '^all took' "$FROM/times.txt" || { echo "runs/all.sh has not come to its end in $FROM" >&2; exit 1; }
cp "$PAGE" "$WORK/page"

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
  echo "![$3]($1.png)" | insert "$1"
}

# block FILE…: as it stands.
block() {
  echo '```'
  cat "$@"
  echo '```'
}

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
{
  block "$FROM/times.txt"
  printf '\n<details><summary>Commands</summary>\n\n'
  block "$FROM"/{fig1,table1,table2,fig_subadditivity}/config.txt
  printf '\n</details>\n'
} | insert times
mv "$WORK/page" "$PAGE"
echo "docs are in $TO; read the page's words against the new numbers"
