<?php
// ?code= or ?text=: exit with a number prints nothing, with a string prints it.
header('Content-Type: text/plain');
echo "before\n";
exit(isset($_GET['text']) ? (string) $_GET['text'] : (int) ($_GET['code'] ?? 3));
