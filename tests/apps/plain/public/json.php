<?php
// About 7 KB, the same bytes every time.
$records = [];
for ($i = 1; $i <= 40; $i++) {
    $records[] = [
        'id' => $i, 'name' => "Record number $i", 'slug' => "record-$i", 'score' => $i * 37 % 101 / 4,
        'active' => $i % 3 !== 0, 'tags' => ['tag' . $i % 7, 'tag' . $i % 5],
        'created' => gmdate('c', 1600000000 + $i * 86400), 'place' => 'Shelf ' . $i % 9, 'note' => null,
    ];
}
header('Content-Type: application/json');
echo json_encode($records);
