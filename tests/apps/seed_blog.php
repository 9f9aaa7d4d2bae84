<?php
// php seed_blog.php FILE.sqlite|mysql://USER:PASSWORD@HOST:PORT/NAME [laravel]  : blog schema, 200 posts, 5 authors, 6 categories, 30 tags, 4 comments per post
date_default_timezone_set('UTC');
[$_, $file] = $argv; $lv = ($argv[2] ?? '') === 'laravel';
if ($url = str_starts_with($file, 'mysql:') ? parse_url($file) : null) {
    $db = new PDO("mysql:host=$url[host];port=$url[port]", $url['user'], $url['pass']);
    $name = substr($url['path'], 1); $db->exec("DROP DATABASE IF EXISTS $name"); $db->exec("CREATE DATABASE $name CHARACTER SET utf8mb4"); $db->exec("USE $name");
} else { @unlink($file); $db = new PDO("sqlite:$file"); }
[$id, $key, $or] = $url ? ['INTEGER PRIMARY KEY AUTO_INCREMENT', 'VARCHAR(190)', ''] : ['INTEGER PRIMARY KEY', 'TEXT', 'OR'];
$db->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION); mt_srand(11);
$t = $lv ? ['authors', 'categories', 'tags', 'posts', 'post_tag', 'comments'] : ['author', 'category', 'tag', 'post', 'post_tag', 'comment'];
$db->exec("CREATE TABLE $t[0] (id INTEGER PRIMARY KEY, name TEXT, bio TEXT)");
$db->exec("CREATE TABLE $t[1] (id INTEGER PRIMARY KEY, name TEXT, slug $key UNIQUE)");
$db->exec("CREATE TABLE $t[2] (id INTEGER PRIMARY KEY, name $key UNIQUE)");
$db->exec("CREATE TABLE $t[3] (id INTEGER PRIMARY KEY, slug $key UNIQUE, title TEXT, body TEXT, author_id INT, category_id INT, published_at $key)");
$db->exec("CREATE TABLE $t[4] (post_id INT, tag_id INT, PRIMARY KEY (post_id, tag_id))");
$db->exec("CREATE TABLE $t[5] (id $id, post_id INT, author TEXT, text TEXT, created_at TEXT)");
$db->exec("CREATE INDEX i1 ON $t[5] (post_id)"); $db->exec("CREATE INDEX i2 ON $t[3] (published_at)"); $db->exec("CREATE INDEX i3 ON $t[4] (tag_id)"); $db->exec("CREATE INDEX i4 ON $t[3] (category_id)");
$w = explode(' ', 'lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris nisi aliquip');
$s = function ($n) use ($w) { $o = []; while ($n--) $o[] = $w[mt_rand(0, count($w) - 1)]; return ucfirst(implode(' ', $o)) . '.'; };
$db->beginTransaction();
for ($i = 1; $i <= 5; $i++) $db->exec("INSERT INTO $t[0] VALUES ($i, 'Author $i', '{$s(20)}')");
foreach (['News', 'Reviews', 'Howto', 'Opinion', 'Releases', 'Misc'] as $i => $c) $db->exec('INSERT INTO ' . $t[1] . ' VALUES (' . ($i + 1) . ", '$c', '" . strtolower($c) . "')");
for ($i = 1; $i <= 30; $i++) $db->exec("INSERT INTO $t[2] VALUES ($i, 'tag$i')");
$p = $db->prepare("INSERT INTO $t[3] VALUES (?,?,?,?,?,?,?)"); $pt = $db->prepare("INSERT $or IGNORE INTO $t[4] VALUES (?,?)"); $c = $db->prepare("INSERT INTO $t[5] (post_id,author,text,created_at) VALUES (?,?,?,?)");
for ($i = 1; $i <= 200; $i++) {
    $b = ''; for ($k = 0; $k < 6; $k++) { if ($k % 2) $b .= '## ' . rtrim($s(4), '.') . "\n\n"; $b .= implode(' ', array_map(fn () => $s(12), range(1, 5))) . ' **bold ' . $s(3) . "** and *it* `code`\n\n"; }
    $p->execute([$i, "post-$i", "Post $i: " . rtrim($s(5), '.'), $b, 1 + $i % 5, 1 + $i % 6, date('Y-m-d H:i:s', 1600000000 + $i * 200000)]);
    for ($k = 0; $k < 3; $k++) $pt->execute([$i, 1 + ($i * ($k + 3) + $k * 7) % 30]);
    for ($k = 0; $k < 4; $k++) $c->execute([$i, "Reader $k", $s(25), date('Y-m-d H:i:s', 1600000000 + $i * 200000 + $k * 3600)]);
}
if ($lv) {
    $db->exec("CREATE TABLE users (id $id, name TEXT, email $key UNIQUE, password TEXT, remember_token TEXT)");
    $db->exec("CREATE TABLE messages (id $id, name TEXT, email TEXT, message TEXT)");
    $db->prepare('INSERT INTO users VALUES (1, ?, ?, ?, NULL)')->execute(['Editor', 'editor@example.org', password_hash('editor', PASSWORD_BCRYPT, ['cost' => 10])]);
    foreach (['annak8vq3lxt7wzr2m5p', 'bertd4hj9syc6nfg1uxe'] as $i => $name) $db->prepare('INSERT INTO users VALUES (?, ?, ?, ?, NULL)')->execute([3 + $i, $name, "$name@example.org", password_hash($name, PASSWORD_BCRYPT, ['cost' => 4])]);
    $db->prepare('INSERT INTO users VALUES (2, ?, ?, ?, NULL)')->execute(['Admin', 'admin@example.org', password_hash('admin', PASSWORD_BCRYPT, ['cost' => 10])]);
}
if ($db->inTransaction()) $db->commit(); echo "$file: ", $db->query("SELECT COUNT(*) FROM $t[3]")->fetchColumn(), " posts\n";
