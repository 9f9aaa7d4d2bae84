<?php
// A boot that takes long: a table of 200,000 entries. Each request looks one up.
if (!function_exists('reprise_snapshot')) {
    function reprise_snapshot(): void {}
}
$table = [];
for ($i = 0; $i < 200_000; $i++) {
    $table[$i] = ['id' => $i, 'name' => "entry $i"];
}
reprise_snapshot();
header('Content-Type: application/json');
echo json_encode($table[(int) ($_GET['i'] ?? 0)] ?? null);
