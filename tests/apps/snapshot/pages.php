<?php
// The pages of ../plain as functions, and the loop that serves one. Where there is no loop (PHP-FPM) it is served once.
function json(): void
{
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
}

function blog(): void
{
    $text = '';
    for ($i = 0; $i < 108000; $i++) {
        $text .= chr(rand(97, 122));
    }
    $file = tempnam('/dev/shm', 'blog');
    file_put_contents($file, $text);
    $text = file_get_contents($file);
    unlink($file);
    header('Content-Type: text/plain');
    echo $text;
}

function serve(callable $page): void
{
    if (!function_exists('reprise_handle_request')) {
        $page();
        return;
    }
    while (reprise_handle_request($page)) {
    }
}
