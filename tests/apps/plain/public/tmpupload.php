<?php
// The temporary names; the files must be gone once the request has ended.
header('Content-Type: text/plain');
foreach ($_FILES as $file) {
    foreach ((array) $file['tmp_name'] as $name) {
        echo $name, ' ', is_file($name) ? 'exists' : 'missing', "\n";
    }
}
