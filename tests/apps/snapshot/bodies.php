<?php
// The bodies of ../plain/json.php and blog.php, for all who keep their code: pages.php beside this, and servers of bench/peers/other.
function records(): string
{
    $records = [];
    for ($i = 1; $i <= 40; $i++) {
        $records[] = [
            'id' => $i, 'name' => "Record number $i", 'slug' => "record-$i", 'score' => $i * 37 % 101 / 4,
            'active' => $i % 3 !== 0, 'tags' => ['tag' . $i % 7, 'tag' . $i % 5],
            'created' => gmdate('c', 1600000000 + $i * 86400), 'place' => 'Shelf ' . $i % 9, 'note' => null,
        ];
    }
    return json_encode($records);
}

function drawn(): string
{
    $text = '';
    for ($i = 0; $i < 108000; $i++) {
        $text .= chr(rand(97, 122));
    }
    $file = tempnam('/dev/shm', 'blog');
    file_put_contents($file, $text);
    $text = file_get_contents($file);
    unlink($file);
    return $text;
}
