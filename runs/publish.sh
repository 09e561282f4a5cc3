#!/usr/bin/env bash
# Puts the results of runs/all.sh into docs/results: the pictures, and the tables between their marks in README.md.
set -euo pipefail
FROM=${1:?usage: runs/publish.sh DIR}
TO=$(cd "$(dirname "$0")/../docs/results" && pwd)
cp "$FROM/fig1/figure1.svg" "$FROM/fig1/figure1.png" "$TO/"
for ending in svg png; do cp "$FROM/fig_subadditivity/slack.$ending" "$TO/figure2.$ending"; done

# insert NAME FILE: replaces what stands between <!-- NAME --> and <!-- /NAME -->.
insert() {
  awk -v name="$1" -v file="$2" '
    index($0, "<!-- " name " -->") { print; while ((getline line < file) > 0) print line; skip = 1 }
    index($0, "<!-- /" name " -->") { skip = 0 }
    !skip { if (!index($0, "<!-- " name " -->")) print }
  ' "$TO/README.md" > "$TO/README.md.part"
  mv "$TO/README.md.part" "$TO/README.md"
}
insert table1 "$FROM/table1/table1.md"
insert table1-forwards "$FROM/table1/table1-forwards.md"
insert table2 "$FROM/table2/table2.md"
insert table2-filled "$FROM/table2/table2-filled.md"
insert chosen "$FROM/fig1/chosen.md"
{ echo '```'; grep -v '^records' "$FROM/fig_subadditivity.txt"; echo '```'; } > "$FROM/slack.md"
insert slack "$FROM/slack.md"
{ echo '```'; cat "$FROM/times.txt"; echo '```'; } > "$FROM/times.md"
insert times "$FROM/times.md"
