<?php
// The pages of tests/apps/plain for servers whose programs hand over requests: path -> [type, body].
const TEXT = 'text/plain;charset=UTF-8';

function page(string $path): ?array
{
    return match ($path) {
        '/' => [TEXT, 'Hello World!'],
        '/json.php' => ['application/json', json()],
        '/blog.php' => [TEXT, blog()],
        default => null,
    };
}

function json(): string
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

function blog(): string
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
