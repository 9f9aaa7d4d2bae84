<?php
// For wp-content/mu-plugins, by tests/tests/apps/interleaved.rs: /?mark=WHAT says what it has been told, and by whom.
add_action('wp_loaded', function () {
    $what = $_GET['mark'] ?? null;
    if ($what === null) { return; }
    $mark = $_COOKIE['mark'];
    get_option("mark_$mark") || update_option("mark_$mark", $mark, false);
    $file = $_FILES['file'] ?? null;
    $told = [
        'user' => wp_get_current_user()->user_login ?: 'nobody', 'get' => $_GET['q'], 'post' => $_POST['field'] ?? null, 'cookie' => $mark,
        'header' => $_SERVER['HTTP_X_MARK'], 'session' => get_option("mark_$mark"), 'file' => $file['name'] ?? null,
        'content' => $file ? file_get_contents($file['tmp_name']) : null, 'mode' => reprise_info()['mode'],
    ];
    header("X-Told: $told[get]");
    header('X-Worker: ' . getmypid());
    if ($what === 'error') { wp_die("boom $told[get]", '', ['response' => 500]); }
    if ($what === 'redirect') { wp_redirect(home_url("/?mark=page&q=$told[get]")); exit; }
    if ($what === 'stream') { foreach ($told as $name => $value) { echo json_encode([$name => $value]), "\n"; flush(); } exit; }
    setcookie('seen', $told['get']);
    wp_send_json($told);
});
