<?php
// Moves each upload of the field "file" away and back out: what is moved must not be deleted with the temporary files.
header('Content-Type: text/plain');
foreach ((array) ($_FILES['file']['tmp_name'] ?? []) as $i => $tmp) {
    $error = ((array) $_FILES['file']['error'])[$i];
    $to = tempnam(sys_get_temp_dir(), 'moved');
    $moved = $error === UPLOAD_ERR_OK && is_uploaded_file($tmp) && move_uploaded_file($tmp, $to);
    echo ((array) $_FILES['file']['name'])[$i], ' error=', $error, ' moved=', $moved ? 'yes' : 'no',
        ' size=', filesize($to), ' sha1=', sha1_file($to), "\n";
    unlink($to);
}
