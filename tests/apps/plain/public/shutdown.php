<?php
// Shutdown functions, destructors and output buffers still print, in this order. ?exit=1 leaves by exit, ?throw=1 by exception.
header('Content-Type: text/plain');
ob_start(fn ($out) => strtoupper($out));
$object = new class {
    public function __destruct() { echo "destructor\n"; }
};
register_shutdown_function(function () {
    echo "shutdown\n";
    register_shutdown_function(function () { echo "nested\n"; });
});
echo "body\n";
if (isset($_GET['exit'])) { exit; }
if (isset($_GET['throw'])) { throw new RuntimeException('shutdown.php: not caught'); }
