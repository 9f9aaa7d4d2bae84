<?php
// For LocalSettings.php, by tests/tests/apps/apps/mediawiki/visitors.rs: /index.php?mark=WHAT says what it has been told, and by whom.
$wgHooks['BeforeInitialize'][] = function ($title, $unused, $output, $user, $request) {
    $what = $_GET['mark'] ?? null;
    if ($what === null) { return; }
    $mark = $_COOKIE['mark'];
    $session = $request->getSession();
    if ($session->get('mark') === null) {
        $session->persist();
        $session->set('mark', $mark);
    }
    $file = $_FILES['file'] ?? null;
    $told = [
        'user' => $user->isRegistered() ? lcfirst($user->getName()) : 'nobody', 'get' => $request->getVal('q'),
        'post' => $_POST['field'] ?? null, 'cookie' => $mark, 'header' => $request->getHeader('X-Mark'),
        'session' => $session->get('mark'), 'file' => $file['name'] ?? null,
        'content' => $file ? file_get_contents($file['tmp_name']) : null, 'mode' => reprise_info()['mode'],
    ];
    header("X-Told: $told[get]");
    header('X-Worker: ' . getmypid());
    if ($what === 'error') { throw new RuntimeException("boom $told[get]"); }
    while (ob_get_level()) { ob_end_clean(); }
    if ($what === 'redirect') {
        header("Location: /index.php?mark=page&q=$told[get]", true, 302);
    } elseif ($what === 'stream') {
        foreach ($told as $name => $value) { echo json_encode([$name => $value]), "\n"; flush(); }
    } else {
        setcookie('seen', $told['get']);
        header('Content-Type: application/json');
        echo json_encode($told);
    }
    exit;
};
