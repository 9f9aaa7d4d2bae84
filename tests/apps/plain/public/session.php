<?php
// ?destroy=1 ends the session. The lock is held until the script ends.
session_start();
$_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
header('Content-Type: text/plain');
echo $_SESSION['count'], "\n";
if (isset($_GET['destroy'])) {
    session_destroy();
}
