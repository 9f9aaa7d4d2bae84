<?php
// Whether a key is found in the session keyring: KEYCTL_SEARCH.
require __DIR__ . '/libc.php';
$key_id = $libc->syscall(250, 10, -3, 'user', "{$_GET['who']}-secret", 0);
echo $key_id > 0 ? 'found' : 'none';
