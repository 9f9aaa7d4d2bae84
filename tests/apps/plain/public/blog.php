<?php
// The work of a blog that some have compared runtimes with: a long text drawn by character, written, read back, sent.
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
