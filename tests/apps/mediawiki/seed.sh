#!/bin/bash
# seed.sh    Writes the wiki's pages: a template, a category, links, references, a page in another namespace.
set -euo pipefail

cd "$(dirname "$0")/htdocs"
# write TITLE   with the text from standard input
write() { php maintenance/run.php edit --user Admin --summary "Seeded" --bot "$1"; }

write 'Template:Box' <<<'<div class="box">{{{1|nothing}}}: {{#ifeq:{{{1}}}|one|the first|{{uc:{{{2|later}}}}}}}</div><noinclude>[[Category:Templates]]</noinclude>'
write 'Category:Seeds' <<<'Pages that were there first.'
for number in 1 2 3 4 5 6 7 8; do
  write "Article $number" <<TEXT
'''Article $number''' is about the number $number, and about [[Article $((number % 8 + 1))]] and [[Nowhere $number]].
{{Box|one}}{{Box|two|later still}}

== Table ==
{| class="wikitable sortable"
! Number !! Square
|-
| $number || {{#expr:$number*$number}}
|}
== References ==
A fact.<ref name="fact">Source $number, äöü €.</ref> The same one.<ref name="fact"/> See https://other.example/?a=$number&b=c.
=== Notes ===
<references/>
[[Category:Seeds]]
TEXT
done
write 'Main Page' <<<'Welcome to {{SITENAME}}: [[Article 1]], [[Article 2]], [[:Category:Seeds]], [[Help:Editing|help]].'
write 'Help:Editing' <<<'# Edit.
# Save. ~~~~'
write 'Old name' <<<'#REDIRECT [[Article 3]]'
php maintenance/run.php runJobs
